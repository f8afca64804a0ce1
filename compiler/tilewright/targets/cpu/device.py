"""Running CPU segments: maps an image, lends arenas, and keeps the process's one pool of threads.

Needs neither LLVM nor the compiler. The image carries its own code for the pool; the first image loaded gives
the pool its code, and stays mapped. What both sides must agree on stands here: the header of an image, `env`,
and the pool's state.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import struct
import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from tilewright.config import usable_cpus
from tilewright.errors import ArtefactError, RunError
from tilewright.faults import fault_text
from tilewright.segment import Segment

# Header of an image: magic, version of this agreement, offsets of `run`, `parallel_for` and `worker`, number
# of trace slots.
HEADER = struct.Struct("<8sQQQQQ16x")
MAGIC = b"TWIMAGE\n"
ABI_VERSION = 3
# The pool's state: each field has a cache line of its own, in bytes from the start.
LINE = 64
SYSCALL, LOCK, GENERATION, JOB, DONE, SLEEPERS, WAITER, CLAIMS = (LINE * i for i in range(8))
MAX_THREADS = 256
STATE_BYTES = CLAIMS + LINE * MAX_THREADS
# Fields of env, 8 bytes each: parallel_for, pool state, threads, trace (an array of cycle counts, or null),
# fault (a kernel that met a fault in its data, and the reason, or 0), ports (an array of pointers: the
# caller's inputs, which are only read, then the outputs).
ENV_PARALLEL_FOR, ENV_STATE, ENV_THREADS, ENV_TRACE, ENV_FAULT, ENV_PORTS = range(6)
ALIGNMENT = 64
_HUGE_PAGE = 1 << 21


# /proc/cpuinfo spells some features in its own way
_CPUINFO = {
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "lzcnt": "abm",
    "bmi": "bmi1",
    "avx512vnni": "avx512_vnni",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avxvnni": "avx_vnni",
    "amx-tile": "amx_tile",
    "amx-int8": "amx_int8",
    "amx-bf16": "amx_bf16",
    "amx-fp16": "amx_fp16",
}
_Run = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.pthread_create.argtypes = [ctypes.c_void_p] * 4
_libc.pthread_detach.argtypes = [ctypes.c_void_p]
_FAILED = ctypes.c_void_p(-1).value


def host_flags(path: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Feature flags of this machine's processors, as the kernel spells them."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise ArtefactError(
            f"{path}, which tells what this processor can do, cannot be read: {error}"
        ) from error
    flags = next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")
    return frozenset(flags.split())


def missing_features(features: Sequence[str], flags: frozenset[str]) -> list[str]:
    """LLVM feature names that the machine with these flags does not have."""
    return [feature for feature in features if _CPUINFO.get(feature, feature) not in flags]


@lru_cache(maxsize=1)
def tile_permission() -> bool:
    """Whether the system lets all threads of this process use the tile registers of AMX; it is asked once."""
    request, tile_data, arch_prctl = 0x1023, 18, 158  # ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return bool(_libc.syscall(arch_prctl, request, tile_data) == 0)


class _Code:
    """An image in executable memory. Freed with the object, unless the pool took its code from it."""

    def __init__(self, image: bytes) -> None:
        try:
            magic, version, run, parallel_for, worker, self.trace_slots = HEADER.unpack_from(image)
        except struct.error as error:
            raise ArtefactError(f"the CPU code is cut short: {len(image)} bytes") from error
        if magic != MAGIC or version != ABI_VERSION:
            raise ArtefactError("the CPU code is of another version of tilewright; compile the model again")
        address = _libc.mmap(
            None, len(image), mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0
        )
        if address == _FAILED:
            raise RunError(f"no memory for {len(image)} bytes of code: {os.strerror(ctypes.get_errno())}")
        self._finalizer = weakref.finalize(self, _libc.munmap, address, len(image))
        ctypes.memmove(address, image, len(image))
        if _libc.mprotect(address, len(image), mmap.PROT_READ | mmap.PROT_EXEC):
            raise RunError(
                f"this system does not let a program make code executable: {os.strerror(ctypes.get_errno())}"
            )
        self.run = _Run(address + run)
        self.parallel_for = address + parallel_for
        self.worker = address + worker

    def keep(self) -> None:
        """Leave the code mapped until the process ends: threads run in it."""
        self._finalizer.detach()


class _Pool:
    """State and threads of the one pool. Threads start when a segment first wants them, and never end."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, STATE_BYTES)
        self.state = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._code: _Code | None = None
        self._lock = threading.Lock()
        self._started = 1  # the caller's own thread
        self._reset()
        os.register_at_fork(after_in_child=self._after_fork)

    def _reset(self) -> None:
        self._memory[:] = bytes(STATE_BYTES)
        syscall = ctypes.cast(_libc.syscall, ctypes.c_void_p).value
        struct.pack_into("<Q", self._memory, SYSCALL, syscall)

    def _after_fork(self) -> None:
        """Threads do not survive a fork; the child starts its own when it needs them."""
        self._lock = threading.Lock()
        self._started = 1
        self._reset()

    def parallel_for(self, code: _Code) -> int:
        """The address of the pool's code, taken from the first image that asks."""
        with self._lock:
            if self._code is None:
                code.keep()
                self._code = code
            address: int = self._code.parallel_for
            return address

    def ensure(self, threads: int) -> None:
        """Start threads until there are that many with the caller. Raises RunError if the system refuses."""
        if threads <= self._started:
            return
        with self._lock:
            while self._started < threads:
                self._start(self._started)
                self._started += 1

    def _start(self, index: int) -> None:
        assert self._code is not None
        record = CLAIMS + LINE * index
        struct.pack_into("<IQ", self._memory, record + 4, index, self.state)
        thread = ctypes.c_void_p()
        # signals go to Python's threads
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            address, argument = ctypes.addressof(thread), self.state + record
            status = _libc.pthread_create(address, None, self._code.worker, argument)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if status:
            raise RunError(f"thread {index} cannot be started: {os.strerror(status)}; ask for fewer threads")
        _libc.pthread_detach(thread)


_pool: _Pool | None = None
_pool_lock = threading.Lock()


def _the_pool() -> _Pool:
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = _Pool()
        return _pool


@dataclass(frozen=True)
class _Arena:
    """Memory of one run: the mutable region and the activations behind it."""

    memory: np.ndarray
    mutable: int
    activations: int


class CpuLoaded:
    """A segment in memory. Each concurrent run has an arena of its own; arenas are kept for the next runs.

    What the first run would else pay for is done here: threads are started, an arena's pages are there.
    """

    def __init__(self, segment: Segment, threads: int) -> None:
        self._segment = segment
        self._code = _Code(segment.code)
        self._threads = max(1, min(threads, usable_cpus(), MAX_THREADS))
        self._constants = _aligned(segment.constants)
        self._constants_at = _address(self._constants)
        self._pool = _the_pool()
        words = [self._pool.parallel_for(self._code), self._pool.state, self._threads, 0, 0, 0]
        self._env = (ctypes.c_uint64 * len(words))(*words)
        self._ports_type = ctypes.c_uint64 * (len(segment.inputs) + len(segment.outputs))
        self._pool.ensure(self._threads)
        self._idle = [self._new_arena()]  # append and pop are atomic

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Reads C-contiguous inputs of the ports' types, fills C-contiguous outputs. Raises RunError."""
        self._run(inputs, outputs, type(self._env)(*self._env))

    def trace(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> list[tuple[str, float]]:
        """As run; returns the seconds of each instruction of the program, in order, its turns together."""
        slots = (ctypes.c_uint64 * (self._code.trace_slots + 1))()
        env = type(self._env)(*self._env)
        env[ENV_TRACE] = ctypes.addressof(slots)
        elapsed = self._run(inputs, outputs, env)
        cycles = list(slots)[1:]
        names = self._segment.info["trace"]
        per_cycle = elapsed / max(sum(cycles), 1)
        return [(name, count * per_cycle) for name, count in zip(names, cycles, strict=True)]

    def _run(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], env: ctypes.Array[ctypes.c_uint64]
    ) -> float:
        """The seconds spent in native code, which reads and writes the caller's arrays in place."""
        ports = self._ports_type(*map(_address, (*inputs, *outputs)))
        env[ENV_PORTS] = ctypes.addressof(ports)
        self._pool.ensure(self._threads)  # again, because a fork leaves none
        try:
            arena = self._idle.pop()
        except IndexError:  # all arenas are in use
            arena = self._new_arena()
        try:
            before = time.perf_counter()
            status = self._code.run(
                self._constants_at, arena.mutable, arena.activations, ctypes.addressof(env)
            )
            elapsed = time.perf_counter() - before
            if status:
                raise RunError(f"the compiled program stopped with status {status}")
            if env[ENV_FAULT]:
                raise RunError(fault_text(env[ENV_FAULT], self._segment.info["trace"]))
            return elapsed
        finally:
            self._idle.append(arena)

    def _new_arena(self) -> _Arena:
        segment = self._segment
        mutable_bytes = -(-segment.mutable_bytes // ALIGNMENT) * ALIGNMENT
        memory = _zeros(mutable_bytes + segment.arena_bytes)
        memory[:: mmap.PAGESIZE] = 0  # page faults happen here and not in a run
        return _Arena(memory, memory.ctypes.data, memory.ctypes.data + mutable_bytes)


class CpuDevice:
    """The processor that this process runs on."""

    name = "cpu"

    def load(self, segment: Segment, threads: int) -> CpuLoaded:
        """Raises ArtefactError when this machine lacks what the segment needs, RunError when the system
        refuses memory or threads.
        """
        self.require(segment.features)
        return CpuLoaded(segment, threads)

    def require(self, features: Sequence[str]) -> None:
        """Raises ArtefactError when this machine lacks a feature, or the system does not grant it."""
        missing = missing_features(features, host_flags())
        if missing:
            raise ArtefactError(
                f"the code needs a processor with {', '.join(missing)}, which this machine does not have; "
                "run it on such a machine, or compile the model for this one"
            )
        if any(feature.startswith("amx") for feature in features) and not tile_permission():
            raise ArtefactError(
                "the code uses the tile registers of AMX, which this system does not grant to processes; "
                "compile the model with --without matrix"
            )


def _zeros(size: int) -> np.ndarray:
    """Zeroed bytes, aligned to 64, or to huge pages, which the kernel is asked for, when they fill one."""
    alignment = _HUGE_PAGE if size >= _HUGE_PAGE else ALIGNMENT
    memory = mmap.mmap(-1, size + alignment, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= _HUGE_PAGE:
        memory.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(memory, np.uint8)
    start = -whole.ctypes.data % alignment
    return whole[start : start + size]


def _aligned(constants: np.ndarray) -> np.ndarray:
    """The bytes themselves where they lie well, as in a mapped artefact; else a copy."""
    data = np.ascontiguousarray(constants).view(np.uint8).reshape(-1)
    if data.ctypes.data % ALIGNMENT == 0:
        return data
    copy = _zeros(data.nbytes)
    copy[...] = data
    return copy


def _address(array: np.ndarray) -> int:
    if not array.flags.c_contiguous:
        raise RunError(f"an array of shape {array.shape} is not C-contiguous")
    address: int = array.__array_interface__["data"][0]
    return address
