"""What a program consists of, as JSON values: for `inspect` and reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from tilewright.program.count import Work
from tilewright.program.ir import Branch, CallKernel, Copy, Instruction, Loop, Program
from tilewright.program.plan import Plan
from tilewright.program.rewrite import all_memories, operand_bytes

_MOST_TRIPS = 1 << 31  # more are no number that is meant to be reached: memory ends the loop


def summarise(program: Program, plan: Plan) -> dict[str, Any]:
    """kernels: a row for each, largest amount of work first; steps: a row for each call and copy, in the
    order of a trace; reasons: why nodes run as they do; storages: how many buffers use each; memory: the
    plan's figures.

    flops, int_ops, intrinsics: as in `Work`; bytes: what the operands of all calls cover, read or written
    once.
    """
    calls: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    origins: dict[str, list[str]] = {}
    copies = 0
    work = {name: kernel.work for name, kernel in program.kernels.items()}
    for instruction, times in _with_times(program.body, 1):
        if isinstance(instruction, Copy):
            copies += times
        if isinstance(instruction, CallKernel):
            calls[instruction.kernel] += times
            moved[instruction.kernel] += times * sum(operand_bytes(arg) for arg in instruction.args)
            origins.setdefault(instruction.kernel, []).extend(instruction.origin)
    kernels = [
        {
            "name": name,
            **program.notes.get(name, {}),
            "calls": calls[name],
            **asdict(work[name].times(calls[name])),
            "bytes": moved[name],
            "nodes": list(dict.fromkeys(origins.get(name, []))),
        }
        for name in program.kernels
    ]
    memories = all_memories(program).values()
    return {
        "kernels": sorted(kernels, key=lambda row: (-row["flops"] - row["int_ops"], row["name"])),
        "steps": list(_steps(program, work)),
        "reasons": program.reasons,
        "copies": copies,
        "flops": sum(row["flops"] for row in kernels),
        "int_ops": sum(row["int_ops"] for row in kernels),
        "bytes": sum(row["bytes"] for row in kernels),
        "storages": dict(Counter(str(memory.storage) for memory in memories).most_common()),
        "memory": {
            "arena_bytes": plan.arena_bytes,
            "sum_bytes": plan.sum_bytes,
            "lower_bound": plan.lower_bound,
            "mutable_bytes": plan.mutable_bytes,
            "constant_bytes": plan.constant_bytes,
        },
    }


def _steps(program: Program, work: Mapping[str, Work]) -> Iterator[dict[str, Any]]:
    """Work and bytes of all turns together; footprint: bytes that one turn touches."""
    for instruction, times in _with_times(program.body, 1):
        footprint = sum(operand_bytes(operand) for operand in instruction.operands())
        row = {"times": times, "bytes": times * footprint, "footprint": footprint}
        if isinstance(instruction, CallKernel):
            nodes = list(dict.fromkeys(instruction.origin))
            done = asdict(work[instruction.kernel].times(times))
            yield {"name": instruction.kernel, "nodes": nodes, **done, **row}
        elif isinstance(instruction, Copy):
            yield {"name": f"copy {instruction.target.memory.name}", "nodes": [], **asdict(Work()), **row}


def with_target_info(summary: dict[str, Any], info: dict[str, Any]) -> dict[str, Any]:
    """The summary with what the target knows in addition: facts of its own, and columns of the kernels'
    rows.
    """
    more = {row["name"]: row for row in info.get("kernels", [])}
    kernels = [{**more.get(row["name"], {}), **row} for row in summary["kernels"]]
    return {**info, **summary, "kernels": kernels}


def _with_times(body: tuple[Instruction, ...], times: int) -> Iterator[tuple[Instruction, int]]:
    """All instructions with how often they run at most: both sides of a branch count.

    A loop that only memory ends counts as one turn.
    """
    for instruction in body:
        yield instruction, times
        if isinstance(instruction, Loop):
            trips = 1 if instruction.trips > _MOST_TRIPS else instruction.trips
            yield from _with_times(instruction.body, times * trips)
        elif isinstance(instruction, Branch):
            yield from _with_times(instruction.then + instruction.orelse, times)
