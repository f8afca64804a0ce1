"""The Wilson interval of a share: honest for few images and for shares near 0 or 1."""

import math

Z_95 = 1.959963984540054  # two-sided 95 % of the normal distribution


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of successes/trials, within [0, 1]. Formula: Wilson, JASA 22 (1927)."""
    if not 0 <= successes <= trials or trials == 0:
        raise ValueError(f"{successes} of {trials} is no share")
    share, spread = successes / trials, Z_95**2 / trials
    centre = (share + spread / 2) / (1 + spread)
    half = Z_95 / (1 + spread) * math.sqrt(share * (1 - share) / trials + spread / trials / 4)
    # The bounds at 0 and 1 are exact, which floating point just misses.
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == trials else centre + half
    return low, high
