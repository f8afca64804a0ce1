"""What happens to a network between file and code, in order: the table of contents of the compiler."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.lower.target import Target
from tilewright.passes.base import Pass
from tilewright.passes.cse import Cse
from tilewright.passes.dce import Dce
from tilewright.passes.empty import Empty
from tilewright.passes.fold import Fold
from tilewright.passes.fold_activation import FoldActivation
from tilewright.passes.fold_batch_norm import FoldBatchNorm
from tilewright.passes.fold_pad import FoldPad
from tilewright.passes.fuse import Fuse
from tilewright.passes.identity import Identity
from tilewright.passes.im2col import Im2col
from tilewright.passes.lower import Lower
from tilewright.passes.narrow_products import NarrowProducts
from tilewright.passes.round_operands import RoundOperands
from tilewright.passes.simplify_reshape import SimplifyReshape
from tilewright.passes.simplify_transpose import SimplifyTranspose
from tilewright.passes.slice_splits import SliceSplits
from tilewright.passes.split_precision import SplitPrecision
from tilewright.passes.storage import ChooseStorage
from tilewright.passes.winograd import Winograd
from tilewright.program.ir import Program
from tilewright.program.passes.copies import CopyElimination
from tilewright.program.passes.dead_stores import DeadStores
from tilewright.program.passes.lifetimes import Lifetimes
from tilewright.program.passes.sharing import BufferSharing
from tilewright.program.passes.slices import SliceForwarding

ProgramPass = Callable[[Program], Program]


def passes_for(level: int, without: tuple[str, ...], target: Target) -> tuple[Pass, ...]:
    """The graph passes of a level: -O0 lowers only, -O1 simplifies, -O2 fuses, -O3 chooses storages.

    without: names of optimisations to leave out, see `config.ABLATIONS`.
    """
    lower = Lower(target.should_lower)
    if level == 0:
        return (Empty(), lower, Empty(), Dce())
    return (
        # the model as its author wrote it: fold what is constant, drop what does nothing
        Empty(),
        Fold(),
        Identity(),
        Dce(),
        # operators with a neighbour that can absorb them, while both are still whole
        SimplifyTranspose(),
        FoldBatchNorm(),
        FoldPad(),
        FoldActivation(),
        SimplifyTranspose(),
        SimplifyReshape(),
        # from here on primitives only; lowering makes new constants and duplicates
        lower,
        Empty(),
        Fold(),
        Identity(),
        FoldBatchNorm(),
        SimplifyTranspose(),
        SimplifyReshape(),
        Cse(),
        Dce(),
        # by which algorithm convolutions run, then how every tensor lies in memory
        *_choices(level, without, target),
        # groups that become one kernel each
        SliceSplits(),
        *((Fuse(),) if level >= 2 and "fusion" not in without else ()),
    )


def _choices(level: int, without: tuple[str, ...], target: Target) -> tuple[Pass, ...]:
    """What -O3 adds: the algorithms of products, then storages, as the target wishes.

    Winograd's template and products of bf16 or bytes need the storages that they wish for, packed weights
    included.
    """
    if level < 3:
        return ()
    packed = not {"storage", "packing"} & set(without)
    algorithms: tuple[Pass, ...] = ()
    if "direct" in without:
        algorithms = (Im2col(),)
    elif packed and "winograd" not in without:
        algorithms = (Winograd(target),)
    if packed:
        algorithms = (*algorithms, NarrowProducts(target), RoundOperands(target), SplitPrecision(target))
    if "storage" in without:
        return algorithms
    return (*algorithms, ChooseStorage(target, packing=packed), Dce())


def program_passes_for(level: int) -> tuple[ProgramPass, ...]:
    """The instruction passes of a level. Lifetimes come last: every other pass moves uses."""
    if level == 0:
        return (Lifetimes(),)
    return (
        DeadStores(),
        SliceForwarding(),
        CopyElimination(),
        BufferSharing(),
        Lifetimes(),
    )
