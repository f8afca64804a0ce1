"""Operators that only rename or reorder axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from tilewright.frontend.registry import Attributes, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value
from tilewright.types import Bounded


@importer("Reshape", 5, 13, 14, 19, 21, 23, 24, 25)
def reshape(site: Site) -> Sequence[Value]:
    """0 copies the axis at the same place unless `allowzero`; one -1 takes what is left."""
    x, target = site.operand(0), site.ints(1)
    wanted = list(target)
    if not site.flag("allowzero"):
        if any(extent == 0 and axis >= len(x.shape) for axis, extent in enumerate(wanted)):
            raise site.fail(f"target {list(target)} copies an axis that {x.type} does not have")
        wanted = [x.shape[axis] if extent == 0 else extent for axis, extent in enumerate(wanted)]
    if wanted.count(-1) > 1 or any(extent < -1 for extent in wanted):
        raise site.fail(f"target {list(target)} has more than one -1 or an extent below -1")
    bounded = [extent for extent in x.shape if isinstance(extent, Bounded)]
    if -1 in wanted and len(bounded) == 1 and bounded[0] not in wanted:
        others = prod(extent for extent in wanted if extent != -1)
        if others == prod(extent for extent in x.shape if not isinstance(extent, Bounded)):
            wanted[wanted.index(-1)] = bounded[0]  # what is left is the size that depends on data
    if -1 in wanted:
        rest = prod(extent for extent in wanted if extent != -1)
        if rest == 0 or prod(x.shape) % rest:
            raise site.fail(f"target {list(target)} does not fit {x.type}")
        wanted[wanted.index(-1)] = prod(x.shape) // rest
    return [site.reshape(x, wanted)]


@importer("Flatten", 1, 9, 11, 13, 21, 23, 24, 25)
def flatten(site: Site) -> Sequence[Value]:
    x = site.operand(0)
    axis = site.attr("axis", 1)
    axis = len(x.shape) if axis == len(x.shape) else site.normal_axis(axis, len(x.shape))
    return [site.reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))]


@importer("Squeeze", 1, 11, 13, 21, 23, 24, 25)
def squeeze(site: Site) -> Sequence[Value]:
    """Without axes all axes of extent 1 go."""
    x = site.operand(0)
    rank = len(x.shape)
    given = site.ints(1) if site.has(1) else site.attr("axes")
    if given is None:
        return [site.reshape(x, [extent for extent in x.shape if extent != 1])]
    axes = {site.normal_axis(axis, rank) for axis in given}
    if any(x.shape[axis] != 1 for axis in axes):
        raise site.fail(f"axes {list(given)} of {x.type} are not all of extent 1")
    return [site.reshape(x, [extent for axis, extent in enumerate(x.shape) if axis not in axes])]


@importer("Unsqueeze", 1, 11, 13, 21, 23, 24, 25)
def unsqueeze(site: Site) -> Sequence[Value]:
    """The axes count in the result."""
    x = site.operand(0)
    given = site.ints(1) if site.has(1) else site.attr("axes")
    if given is None:
        raise site.fail("the axes are missing")
    rank = len(x.shape) + len(given)
    axes = {site.normal_axis(axis, rank) for axis in given}
    if len(axes) != len(given):
        raise site.fail(f"axes {list(given)} name an axis twice")
    old = iter(x.shape)
    return [site.reshape(x, [1 if axis in axes else next(old) for axis in range(rank)])]


@importer("Transpose", 1, 13, 21, 23, 24, 25)
def transpose(site: Site) -> Sequence[Value]:
    """Without `perm` the axes are reversed."""
    x = site.operand(0)
    perm = site.attr("perm") or tuple(reversed(range(len(x.shape))))
    if sorted(perm) != list(range(len(x.shape))):
        raise site.fail(f"attribute 'perm' {list(perm)} is no order of the axes of {x.type}")
    return [site.emit("Transpose", x, perm=tuple(perm))]


@importer("Expand", 8, 13)
def expand(site: Site) -> Sequence[Value]:
    """Broadcasting in both directions: 1 in the target keeps the input's extent."""
    x, target = site.operand(0), site.ints(1)
    rank = max(len(x.shape), len(target))
    own = (1,) * (rank - len(x.shape)) + x.shape
    wished = (1,) * (rank - len(target)) + target
    if any(a != b and 1 not in (a, b) for a, b in zip(own, wished, strict=True)):
        raise site.fail(f"{x.type} does not broadcast to {list(target)}")
    shape = tuple(b if a == 1 else a for a, b in zip(own, wished, strict=True))
    return [x if shape == x.shape else site.emit("Expand", x, shape=shape)]


@importer("Tile", 6, 13)
def tile(site: Site) -> Sequence[Value]:
    x, repeats = site.operand(0), site.ints(1)
    if len(repeats) != len(x.shape) or any(count < 0 for count in repeats):
        raise site.fail(f"repeats {list(repeats)} do not fit {x.type}")
    return [x if set(repeats) <= {1} else site.emit("Tile", x, repeats=repeats)]


def refuse_blocks(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """Blocks have a positive size and one of two orders."""
    if attributes.get("blocksize", 1) < 1:
        yield f"attribute 'blocksize' must be positive, it is {attributes['blocksize']}"
    if attributes.get("mode", "DCR") not in ("DCR", "CRD"):
        yield f"attribute 'mode' is '{attributes['mode']}', expected DCR or CRD"


@importer("DepthToSpace", 1, 11, 13, 28, refuse=refuse_blocks)
def depth_to_space(site: Site) -> Sequence[Value]:
    size, mode = site.attr("blocksize"), site.attr("mode", "DCR")
    return [site.emit("DepthToSpace", site.operand(0), blocksize=size, mode=mode)]


@importer("SpaceToDepth", 1, 13, 28, refuse=refuse_blocks)
def space_to_depth(site: Site) -> Sequence[Value]:
    """The place in a block becomes the slow (DCR, all before opset 28) or fast (CRD) channel part."""
    x, size = site.operand(0), site.attr("blocksize")
    if len(x.shape) != 4 or x.shape[2] % size or x.shape[3] % size:
        raise site.fail(f"{x.type} cannot be cut into blocks of {size} by {size}")
    n, c, h, w = x.shape
    perm = (0, 1, 3, 5, 2, 4) if site.attr("mode") == "CRD" else (0, 3, 5, 1, 2, 4)
    blocks = site.reshape(x, (n, c, h // size, size, w // size, size))
    order = site.emit("Transpose", blocks, perm=perm)
    return [site.reshape(order, (n, c * size * size, h // size, w // size))]
