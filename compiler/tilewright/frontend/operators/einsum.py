"""Einsum: every equation becomes a chain of explicit ones of at most two operands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from string import ascii_letters

from tilewright.dtypes import F32
from tilewright.frontend.registry import Attributes, importer
from tilewright.frontend.site import Site
from tilewright.graph.ir import Value
from tilewright.ops.through_float32 import is_half

_DOTS = "..."


def refuse_equations(attributes: Attributes, outputs: Sequence[bool]) -> Iterable[str]:
    """What no operands could make sense of."""
    equation = attributes.get("equation", "").replace(" ", "")
    terms, arrow, result = equation.partition("->")
    for term in (*terms.split(","), *([result] if arrow else ())):
        plain = term.replace(_DOTS, "", 1)
        if plain and not (plain.isascii() and plain.isalpha()):
            yield f"attribute 'equation' has the term '{term}', expected letters and one ellipsis"
    labels = result.replace(_DOTS, "")
    for label in sorted(set(labels)):
        if labels.count(label) > 1 or label not in terms:
            yield f"attribute 'equation' has the label '{label}' in the result, which is repeated or unknown"


@importer("Einsum", 12, 28, refuse=refuse_equations)
def einsum(site: Site) -> Sequence[Value]:
    operands = site.all_operands()
    terms, result = _explicit(site, [len(v.shape) for v in operands])
    dtype = operands[0].dtype
    if len(operands) > 2 and is_half(dtype):  # rounded once, not after every product
        operands = [site.emit("Cast", v, to=F32) for v in operands]
    value, labels = operands[0], terms[0]
    for number, (term, operand) in enumerate(zip(terms[1:], operands[1:], strict=True), 2):
        needed = set(result).union(*terms[number:])
        extents = dict(zip(labels + term, (*value.shape, *operand.shape), strict=True))
        kept = result if number == len(terms) else "".join(label for label in extents if label in needed)
        value = site.emit("Einsum", value, operand, equation=f"{labels},{term}->{kept}")
        labels = kept
    if len(terms) == 1:
        value = site.emit("Einsum", value, equation=f"{labels}->{result}")
    return [value if value.dtype == dtype else site.emit("Cast", value, to=dtype)]


def _explicit(site: Site, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Terms and result without ellipses, whose axes get letters that the equation does not use."""
    equation = site.attr("equation").replace(" ", "")
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise site.fail(f"the equation '{equation}' has {len(terms)} terms for {len(ranks)} operands")
    hidden = {rank - len(t.replace(_DOTS, "")) for t, rank in zip(terms, ranks, strict=True) if _DOTS in t}
    if len(hidden) > 1 or min(hidden, default=0) < 0:
        raise site.fail(f"the ellipses of '{equation}' stand for {sorted(hidden)} axes, expected one number")
    free = [letter for letter in ascii_letters if letter not in equation]
    count = hidden.pop() if hidden else 0
    if count > len(free):
        raise site.fail(f"the equation '{equation}' needs more than {len(ascii_letters)} labels")
    dots = "".join(free[:count])
    if not arrow:
        letters = left.replace(_DOTS, "").replace(",", "")
        once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
        result = _DOTS + "".join(once) if _DOTS in left else "".join(once)
    named = [term.replace(_DOTS, dots) for term in terms]
    for term, rank in zip(named, ranks, strict=True):
        if len(term) != rank:
            raise site.fail(f"the term '{term}' of '{equation}' does not fit an operand of rank {rank}")
    return named, result.replace(_DOTS, dots)
