"""The matrices of Winograd's minimal filtering F(m, 3), by the side m of a tile of results.

With g the filter [3], d the window of the input [m + 2] and y the results [m]:  y = A^T ((G g) * (B^T d)).
Each row of G and B^T, and each column of A^T, belongs to a point at which polynomials are evaluated; the last
point is infinity. Results are exact for any points, but rounding errors depend on them.
"""

from __future__ import annotations

from dataclasses import dataclass

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Filtering:
    """input: B^T [a, a]; weights: G [a, 3]; output: A^T [m, a], with a = m + 2."""

    input: Matrix
    weights: Matrix
    output: Matrix

    @property
    def tile(self) -> int:
        """Results along one side."""
        return len(self.output)

    @property
    def window(self) -> int:
        """Elements of the input along one side."""
        return len(self.input)

    @property
    def in_one_step(self) -> bool:
        """Whether B^T d B and A^T m A are best summed at once: few terms, and no multiplications."""
        return all(abs(x) <= 1 for row in (*self.input, *self.output) for x in row)


def _two() -> Filtering:
    """Points 0, 1, -1."""
    return Filtering(
        ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
        ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1)),
        ((1, 1, 1, 0), (0, 1, -1, -1)),
    )


def _four(p: float, q: float) -> Filtering:
    """Points 0, p, -p, q, -q; rows of B^T are the products of x and (x - point) over all other points."""
    pp, qq = p * p, q * q
    at_p, at_q = 2 * pp * (pp - qq), 2 * qq * (qq - pp)
    return Filtering(
        (
            (pp * qq, 0, -pp - qq, 0, 1, 0),
            (0, -p * qq, -qq, p, 1, 0),
            (0, p * qq, -qq, -p, 1, 0),
            (0, -q * pp, -pp, q, 1, 0),
            (0, q * pp, -pp, -q, 1, 0),
            (0, pp * qq, 0, -pp - qq, 0, 1),
        ),
        (
            (1 / (pp * qq), 0, 0),
            (1 / at_p, p / at_p, pp / at_p),
            (1 / at_p, -p / at_p, pp / at_p),
            (1 / at_q, q / at_q, qq / at_q),
            (1 / at_q, -q / at_q, qq / at_q),
            (0, 0, 1),
        ),
        (
            (1, 1, 1, 1, 1, 0),
            (0, p, -p, q, -q, 0),
            (0, pp, pp, qq, qq, 0),
            (0, p * pp, -p * pp, q * qq, -q * qq, 1),
        ),
    )


# For F(4, 3), points 5/8 and 3/2: all entries of A^T and B^T are exact in float32, and the error is half that
# of the usual points 1 and 2 (docs/decisions/0007-winograd-four-in-fp32-fast.md).
FILTERINGS = {f.tile: f for f in (_two(), _four(5 / 8, 3 / 2))}
