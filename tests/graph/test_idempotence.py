"""Optimising twice changes nothing: on the zoo, and on random programs; nor do statistics, or a history, change it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

import nnc_func as nnc
from nnc_func import models
from nnc_func.testing.programs import programs
from tests.profiles import examples

NULL = nnc.lazy(nnc.Null())
LAZY = nnc.lazy()
QUICK = ("mnist", "char-lstm", "resnet-18")
SUBJECTS = [(name, training) for name in models.names() for training in (False, True)[: 1 + models.get(name).trains]]


def check(graph: Any, stack: Any) -> None:
    once, _ = stack.graph.optimised(graph)
    twice, report = stack.graph.optimised(once)
    fired = {name: count.matched for name, count in report.statistics.items() if count.matched}
    assert twice.roots == once.roots, fired


@pytest.mark.parametrize(
    ("name", "training"),
    [pytest.param(*each, marks=() if each[0] in QUICK else pytest.mark.slow) for each in SUBJECTS],
)
def test_the_zoo_is_not_optimised_twice(name: str, training: bool) -> None:
    check(models.get(name).reduced().make(NULL, 2, training, seed=None), NULL)


@given(programs())
@examples(100, 10_000)
def test_random_programs_are_not_optimised_twice(program: Any) -> None:
    check(program.build(LAZY).program.source, LAZY)


@given(programs())
@examples(30, 1000)
def test_measuring_changes_nothing(program: Any) -> None:
    graph = program.build(LAZY).program.source
    optimised, _ = LAZY.graph.optimised(graph)
    history = optimised.history
    assert str(history.at(len(history))) == str(optimised)
    assert sum(c.matched for c in history.statistics.values()) >= len(history)
