"""All kernels of a function: equal ones once, known ones from disk, the rest in as many processes as pay."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tilewright.config import usable_cpus
from tilewright.graph.ir import Function, Node
from tilewright.lower.description import describe
from tilewright.lower.kernel import Lowered
from tilewright.lower.parallel import lower_each
from tilewright.lower.store import KernelStore
from tilewright.lower.target import Target
from tilewright.ops.control import CONTROL_FLOW
from tilewright.storage import PLAIN

Progress = Callable[[int, int, str], None]  # kernels done, kernels in all, the node that comes next

# Operators that only name the same bytes anew when operand and result are plain.
VIEWS = ("Reshape", "Identity", "Cut", "Uncut")


def lower_kernels(
    function: Function, target: Target, store: KernelStore | None = None, progress: Progress | None = None
) -> dict[Node, Lowered]:
    """The kernel of every node that needs one, those in bodies of control flow included.

    Raises LoweringError and CodegenError naming the first node that fails, and CacheError.
    """
    groups: dict[str, list[Node]] = {}
    for node in _kernel_nodes(function):
        groups.setdefault(describe(node), []).append(node)
    found = {} if store is None else {d: kernel for d in groups if (kernel := store.get(d)) is not None}
    missing = [description for description in groups if description not in found]

    def report(done: int, node: Node) -> None:
        if progress is not None:
            progress(len(groups) - len(missing) + done, len(groups), node.name)

    made = lower_each([groups[d][0] for d in missing], target, usable_cpus(), report)
    for description, lowered in zip(missing, made, strict=True):
        found[description] = lowered
        if store is not None:
            store.put(description, lowered)
    return {node: found[description] for description, nodes in groups.items() for node in nodes}


def _kernel_nodes(function: Function) -> Iterator[Node]:
    for node in function.nodes:
        if node.op in CONTROL_FLOW:
            for body in node.bodies:
                yield from _kernel_nodes(body)
        elif not is_view(node):
            yield node


def is_view(node: Node) -> bool:
    """Whether the result is the operand's bytes under another name."""
    plain = all(v is not None and v.type.storage == PLAIN for v in (*node.inputs, *node.outputs))
    return node.op in VIEWS and plain
