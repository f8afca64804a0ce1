"""The OpenCL device of the runtime: builds a segment's source, keeps its memory, launches its kernels.

Knows base, runtime and pyopencl only, so that a saved artefact runs without the compiler.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any
from uuid import uuid4

import numpy as np

from tilewright.errors import ArtefactError, RunError, UsageError
from tilewright.faults import fault_text
from tilewright.segment import Port, Segment
from tilewright.targets.opencl.platforms import Found, choose_device, pyopencl_module

_ROUNDED = "-cl-fp32-correctly-rounded-divide-sqrt"

Step = Callable[[Any], None]  # enqueues work on a command queue


class OpenClDevice:
    """Entry point of group `tilewright.devices`."""

    name = "opencl"

    def load(self, segment: Segment, threads: int) -> OpenClLoaded:
        """Build and place a segment. Raises ArtefactError when no device, or not this one, can run it."""
        try:
            code = json.loads(segment.code)
            found = choose_device(code["device"], threads)
            _check_linker(found)
            _check_limits(found, code["needs"], segment)
            return OpenClLoaded(segment, code, found)
        except (ValueError, KeyError, TypeError) as error:
            raise ArtefactError(
                f"the OpenCL segment is damaged: {error!r}; compile the model again"
            ) from error
        except UsageError as error:
            raise ArtefactError(f"the OpenCL segment cannot run here: {error}") from error

    def require(self, features: Sequence[str]) -> None:
        """Nothing: a segment lists no features; `load` holds the device against the needs in its code."""


class OpenClLoaded:
    """A segment on its device. Concurrent runs share its memory, so a lock lets them in one by one."""

    def __init__(self, segment: Segment, code: dict[str, Any], found: Found) -> None:
        self._cl = cl = pyopencl_module()
        self._segment = segment
        self._lock = threading.Lock()
        self._label = found.label
        try:
            self._context = cl.Context([found.handle])
            self._queue = cl.CommandQueue(self._context)
            self._program = self._build(code)
            # held here, because a kernel does not keep its arguments alive
            self._regions = self._allocate(segment)
            self._reporting: list[str] = code["reporting"]
            self._labels = [str(launch["label"]) for launch in code["launches"]]
            self._steps = [self._step(launch) for launch in code["launches"]]
            self._queue.finish()
        except cl.Error as error:
            raise RunError(f"OpenCL device '{found.label}' refused the program: {error}") from error

    def _build(self, code: dict[str, Any]) -> Any:
        """The built program. A driver's cache that a dying process left damaged is bypassed."""
        options = [_ROUNDED] if code["rounded_divide"] else []
        program = self._cl.Program(self._context, code["source"]).build(options=options)
        try:
            for launch in _kernels(code["launches"]):
                self._cl.Kernel(program, launch["kernel"])
        except self._cl.Error:
            # a comment would not do: PoCL's cache goes by the preprocessed text
            fresh = f"{code['source']}\ntypedef int tw_{uuid4().hex};\n"
            return self._cl.Program(self._context, fresh).build(options=options)
        return program

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """See `runtime.device.Loaded`. Raises RunError when the device fails."""
        self._run(inputs, outputs, None)

    def trace(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> list[tuple[str, float]]:
        """As `run`, waiting after every launch: (kernel or copy, seconds) in order. Raises RunError."""
        seconds: list[float] = []
        self._run(inputs, outputs, seconds)
        return list(zip(self._labels, seconds, strict=True))

    def _run(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], seconds: list[float] | None
    ) -> None:
        """seconds: gets the time of each step; None lets the steps follow one another without waiting."""
        with self._lock:
            try:
                for port, array in zip(self._segment.inputs, inputs, strict=True):
                    self._write(port, array)
                self._clear_fault()
                for step in self._steps:
                    started = perf_counter()
                    step(self._queue)
                    if seconds is not None:
                        self._queue.finish()
                        seconds.append(perf_counter() - started)
                for port, array in zip(self._segment.outputs, outputs, strict=True):
                    self._read(port, array)
                self._queue.finish()
                self._check_fault()
            except self._cl.Error as error:
                raise RunError(f"OpenCL device '{self._label}' failed while running: {error}") from error

    def _clear_fault(self) -> None:
        if self._reporting:
            nothing = np.zeros(1, np.int64)
            self._cl.enqueue_copy(self._queue, self._regions["fault"], nothing, is_blocking=True)

    def _check_fault(self) -> None:
        """Raise RunError when a kernel met a fault in its data."""
        if not self._reporting:
            return
        fault = np.empty(1, np.int64)
        self._cl.enqueue_copy(self._queue, fault, self._regions["fault"], is_blocking=True)
        if fault[0]:
            raise RunError(fault_text(int(fault[0]), self._reporting))

    def _allocate(self, segment: Segment) -> dict[str, Any]:
        """One buffer for each region. A device has no buffer of zero bytes, so none is asked for."""
        cl, flags = self._cl, self._cl.mem_flags
        data = np.ascontiguousarray(segment.constants).reshape(-1).view(np.uint8)
        regions = {
            "mutable": cl.Buffer(self._context, flags.READ_WRITE, size=max(int(segment.mutable_bytes), 1)),
            "activation": cl.Buffer(self._context, flags.READ_WRITE, size=max(int(segment.arena_bytes), 1)),
            "fault": cl.Buffer(self._context, flags.READ_WRITE, size=8),
            "constant": cl.Buffer(self._context, flags.READ_ONLY, size=max(int(data.nbytes), 1)),
        }
        if data.nbytes:
            cl.enqueue_copy(self._queue, regions["constant"], data, is_blocking=True)
        return regions

    def _write(self, port: Port, array: np.ndarray) -> None:
        if array.nbytes:
            region, data = self._regions["mutable"], array.reshape(-1).view(np.uint8)
            self._cl.enqueue_copy(self._queue, region, data, dst_offset=int(port.offset), is_blocking=True)

    def _read(self, port: Port, array: np.ndarray) -> None:
        if array.nbytes:
            region, data = self._regions["mutable"], array.reshape(-1).view(np.uint8)
            self._cl.enqueue_copy(self._queue, data, region, src_offset=int(port.offset), is_blocking=True)

    def _step(self, launch: dict[str, Any]) -> Step:
        kinds = {
            "kernel": self._launch_step,
            "copy": self._copy_step,
            "branch": self._branch_step,
            "loop": self._loop_step,
        }
        return kinds[launch["kind"]](launch)

    def _launch_step(self, launch: dict[str, Any]) -> Step:
        """A kernel object of its own for every launch: its arguments are set once."""
        kernel = self._cl.Kernel(self._program, launch["kernel"])
        for position, (region, offset) in enumerate(launch["args"]):
            kernel.set_arg(2 * position, self._regions[region])
            kernel.set_arg(2 * position + 1, np.int64(offset))
        sizes = tuple(int(n) for n in launch["global"])
        local = None if launch["local"] is None else tuple(int(n) for n in launch["local"])
        enqueue = self._cl.enqueue_nd_range_kernel

        def step(queue: Any) -> None:
            enqueue(queue, kernel, sizes, local)

        return step

    def _copy_step(self, launch: dict[str, Any]) -> Step:
        (source, source_at), (target, target_at) = launch["source"], launch["target"]
        options = {
            "src_offset": int(source_at),
            "dst_offset": int(target_at),
            "byte_count": int(launch["bytes"]),
        }

        def step(queue: Any) -> None:
            self._cl.enqueue_copy(queue, self._regions[target], self._regions[source], **options)

        return step

    def _branch_step(self, launch: dict[str, Any]) -> Step:
        region, offset = launch["condition"]
        then = [self._step(part) for part in launch["then"]]
        orelse = [self._step(part) for part in launch["orelse"]]
        flag = np.zeros(1, np.uint8)

        def step(queue: Any) -> None:
            self._cl.enqueue_copy(
                queue, flag, self._regions[region], src_offset=int(offset), is_blocking=True
            )
            for part in then if flag[0] else orelse:
                part(queue)

        return step

    def _loop_step(self, launch: dict[str, Any]) -> Step:
        """One list of steps for each turn, or one for all; the host reads what ends the loop."""
        turns = [[self._step(part) for part in turn] for turn in launch["turns"]]
        limit, flag = np.zeros(1, np.int64), np.ones(1, np.uint8)

        def fetch(queue: Any, target: np.ndarray, place: Sequence[Any] | None) -> np.ndarray:
            if place is not None:
                region, offset = place
                source = self._regions[region]
                self._cl.enqueue_copy(queue, target, source, src_offset=int(offset), is_blocking=True)
            return target

        def step(queue: Any) -> None:
            limit[0] = launch["trips"]
            count = min(int(fetch(queue, limit, launch["limit"])[0]), launch["trips"])
            for turn in range(count):
                if not fetch(queue, flag, launch["condition"])[0]:
                    return
                for part in turns[turn if len(turns) > 1 else 0]:
                    part(queue)

        return step


def _kernels(launches: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """All kernel launches, those in branches and loops included."""
    for launch in launches:
        if launch["kind"] == "kernel":
            yield launch
        elif launch["kind"] == "branch":
            yield from _kernels(launch["then"])
            yield from _kernels(launch["orelse"])
        elif launch["kind"] == "loop":
            for turn in launch["turns"]:
                yield from _kernels(turn)


def _check_linker(found: Found) -> None:
    """PoCL links its kernels with the system's linker, and ends the process when there is none."""
    if found.is_pocl and shutil.which("ld") is None:
        raise ArtefactError(
            f"OpenCL device '{found.label}' needs the linker 'ld', which is not on PATH; "
            "install your system's package binutils"
        )


def _check_limits(found: Found, needs: dict[str, int], segment: Segment) -> None:
    """Whether the device can hold and launch the segment. Raises ArtefactError."""
    device = found.handle
    regions = {
        "constants": int(segment.constants.nbytes),
        "inputs and outputs": int(segment.mutable_bytes),
        "activations": int(segment.arena_bytes),
    }
    for what, size in regions.items():
        if size > device.max_mem_alloc_size:
            raise ArtefactError(
                f"OpenCL device '{found.label}': {what} need one buffer of {size} bytes, it allows at most "
                f"{device.max_mem_alloc_size}; choose another device or a smaller batch"
            )
    if sum(regions.values()) > device.global_mem_size:
        raise ArtefactError(
            f"OpenCL device '{found.label}' has {device.global_mem_size} bytes of memory, the model needs "
            f"{sum(regions.values())}; choose another device or a smaller batch"
        )
    limits = {
        "work_group": ("items in a work-group", device.max_work_group_size),
        "local_bytes": ("bytes of local memory", device.local_mem_size),
    }
    for key, (what, limit) in limits.items():
        if needs[key] > limit:
            raise ArtefactError(
                f"OpenCL device '{found.label}' allows {limit} {what}, the segment needs {needs[key]}; "
                "compile the model for this device"
            )
    if needs["fp64"] and "cl_khr_fp64" not in device.extensions.split():
        raise ArtefactError(f"OpenCL device '{found.label}' cannot compute f64, which the model uses")
