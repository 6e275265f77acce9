"""Intervals cover what they say, tests err as often as they say (`engine/comparing/statistics`)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from nnc_func.engine.comparing.statistics import adjusted, interval, mean, paired, sign_test


def test_the_sign_test_is_that_of_all_exchanges() -> None:
    draw = np.random.default_rng(1)
    for n in range(1, 9):
        given = draw.normal(0.3, 1.0, n)
        sums = [
            abs(sum(s * d for s, d in zip(signs, given, strict=True))) for signs in itertools.product((-1, 1), repeat=n)
        ]
        wanted = sum(s >= abs(given.sum()) - 1e-12 for s in sums) / 2**n
        assert sign_test(given) == pytest.approx(wanted)


def test_the_sign_test_agrees_with_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    given = np.random.default_rng(2).normal(0.4, 1.0, 14)
    theirs = stats.permutation_test((given,), np.sum, permutation_type="samples", n_resamples=np.inf)
    assert sign_test(given) == pytest.approx(theirs.pvalue)


def test_of_many_differences_exchanges_are_drawn_and_no_answer_is_zero() -> None:
    draw = np.random.default_rng(3)
    assert sign_test(np.full(40, 0.1)) == pytest.approx(1 / 10_001)
    given = draw.normal(0.0, 1.0, 16)
    assert sign_test([*given, 1e-12]) == pytest.approx(sign_test(given), abs=0.02)  # 17, drawn; 16, all


def test_where_nothing_differs_one_in_twenty_is_below_five_per_cent() -> None:
    draw = np.random.default_rng(4)
    below = sum(sign_test(draw.laplace(0.0, 1.0, 10)) <= 0.05 for _ in range(1000))
    assert 25 < below < 75


def test_intervals_cover_the_mean_nearly_as_often_as_they_say() -> None:
    draw = np.random.default_rng(5)
    covered = 0
    for _ in range(200):
        low, high = interval(np.exp(draw.normal(0.1, 0.2, 30)))
        assert low is not None
        assert high is not None
        covered += low <= math.exp(0.1) <= high
    assert 0.89 < covered / 200 <= 0.98
    assert interval([1.0] * 4) == (None, None)
    assert interval([1.5] * 6) == (pytest.approx(1.5), pytest.approx(1.5))


def test_holms_correction_is_scipys_order() -> None:
    assert adjusted([]) == []
    assert adjusted([0.5, 0.5]) == [1.0, 1.0]
    assert adjusted([0.02, 0.01, 0.9]) == pytest.approx([0.04, 0.03, 0.9])


def test_pairs_are_of_problems_that_both_answer() -> None:
    (row,) = paired({"a": 2.0, "b": 1.0, "c": 1.0}, {"other": {"b": 1.0 + 1e-12, "c": 3.0, "d": 9.0}})
    assert (row["pairs"], row["less"], row["equal"], row["more"]) == (2, 0, 1, 1)
    assert row["ratio"] == pytest.approx(mean([1.0, 3.0]))
    (none,) = paired({"a": 1.0}, {"other": {}})
    assert math.isnan(none["ratio"])
    assert none["p"] == 1.0
