"""What ratios of several problems say: means, how sure they are, and whether one is less than another.

Problems are what is drawn; several seeds on one problem are one number, their geometric mean: they are no problems of
their own. All is about logarithms of ratios: twice as much and half as much are equally far from the same.

Sources: the percentile bootstrap of Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7,
1979; the test by exchanging signs of Fisher, "The Design of Experiments", 1935, section 21, and Pitman, "Significance
tests which may be applied to samples from any populations", 1937; what a sample of all exchanges says, by Phipson and
Smyth, "Permutation p-values should never be zero", 2010; several comparisons at once by Holm, "A simple sequentially
rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

LEVEL = 0.95
DRAWS = 10_000  # of samples, and of exchanges of signs where there are more than that is told of exactly
FEWEST = 5  # problems of which an interval is told: of fewer the bootstrap says too little
EXACT = 16  # pairs of which all exchanges of signs are made: 65,536


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean; not a number, of none.

    Examples
    --------
    >>> mean([1.0, 4.0])
    2.0
    """
    logs = [math.log(r) for r in ratios]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


def interval(ratios: Iterable[float], level: float = LEVEL) -> tuple[float | None, float | None]:
    """Between which bounds the geometric mean of such ratios is, in so many of all cases: the percentile bootstrap.

    The same numbers give the same interval. With less than ten problems it is rather too narrow.

    Returns
    -------
    tuple of float or None
        None of fewer than five.

    Examples
    --------
    >>> low, high = interval([1.0, 1.1, 1.2, 1.1, 1.0, 1.3])
    >>> 1.03 < low < mean([1.0, 1.1, 1.2, 1.1, 1.0, 1.3]) < high < 1.21
    True
    >>> interval([1.0, 1.1])
    (None, None)
    """
    logs = np.log([*ratios])
    if len(logs) < FEWEST:
        return None, None
    draw = np.random.default_rng(0)
    means = np.concatenate(
        [logs[draw.integers(0, len(logs), (DRAWS // 10, len(logs)))].mean(axis=1) for _ in range(10)]
    )
    low, high = np.exp(np.quantile(means, [(1 - level) / 2, (1 + level) / 2]))
    return float(low), float(high)


def sign_test(differences: Iterable[float]) -> float:
    """How likely a mean at least as far from 0 is, if each difference had either sign by chance: Fisher's test.

    Exact for up to 16 differences that are not 0, and of 10,000 draws for more, the same each time. Differences of 0
    change nothing. With n differences no answer is below 2 / 2ⁿ: five problems cannot say 5 %.

    Examples
    --------
    >>> sign_test([1.0, 2.0, 3.0]), sign_test([1.0] * 8), sign_test([0.0, 0.0])
    (0.25, 0.0078125, 1.0)
    """
    given = np.array([d for d in differences if d])
    if not len(given):
        return 1.0
    far = abs(given.sum()) * (1 - 1e-12)
    if len(given) <= EXACT:
        sums = np.zeros(1)
        for difference in given:
            sums = np.concatenate((sums - difference, sums + difference))
        return float((np.abs(sums) >= far).mean())
    draw = np.random.default_rng(0)
    most = max(1, 1_000_000 // len(given))  # signs at a time: a million numbers
    reached, left = 0, DRAWS
    while left:
        signs = draw.choice((-1.0, 1.0), (min(most, left), len(given)))
        reached += int((np.abs(signs @ given) >= far).sum())
        left -= len(signs)
    return (1 + reached) / (1 + DRAWS)


def adjusted(values: Iterable[float]) -> list[float]:
    """Holm's: each value as it is to be read among so many.

    Examples
    --------
    >>> adjusted([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    given = [*values]
    found, least = [0.0] * len(given), 0.0
    for rank, i in enumerate(sorted(range(len(given)), key=lambda i: given[i])):
        least = max(least, min(1.0, given[i] * (len(given) - rank)))
        found[i] = least
    return found


def paired(base: Mapping[str, float], others: Mapping[str, Mapping[str, float]]) -> list[dict[str, Any]]:
    """Ratios of others beside one, problem by problem; the least mean first.

    Returns
    -------
    list of dict
        Of each other: its ``name``; ``pairs``, the problems of both; on how many it is ``less``, ``equal`` (to a
        billionth), ``more``; ``ratio``, the geometric mean of other / base, and its interval, ``low`` and ``high``;
        ``p`` by `sign_test`, and ``p_adjusted`` for as many comparisons as there are rows.

    Examples
    --------
    >>> base = {"a": 1.0, "b": 1.0, "c": 1.5}
    >>> worse = paired(base, {"worse": {"a": 2.0, "b": 2.0, "c": 3.0}, "same": base})[1]
    >>> [worse[name] for name in ("name", "pairs", "less", "equal", "more", "ratio", "p", "p_adjusted")]
    ['worse', 3, 0, 0, 3, 2.0, 0.25, 0.5]
    """
    found: list[dict[str, Any]] = []
    for name, ratios in others.items():
        quotients = [ratios[problem] / base[problem] for problem in base if problem in ratios]
        logs = [0.0 if math.isclose(q, 1.0, rel_tol=1e-9) else math.log(q) for q in quotients]
        low, high = interval(quotients)
        found.append(
            {
                "name": name,
                "pairs": len(logs),
                "less": sum(d < 0 for d in logs),
                "equal": sum(d == 0 for d in logs),
                "more": sum(d > 0 for d in logs),
                "ratio": mean(quotients),
                "low": low,
                "high": high,
                "p": sign_test(logs),
            }
        )
    for row, p in zip(found, adjusted(row["p"] for row in found), strict=True):
        row["p_adjusted"] = p
    return sorted(found, key=lambda row: (math.isnan(row["ratio"]), row["ratio"], row["name"]))
