"""Optimising twice changes nothing: zoo and random programs (`graph/rewriting`, `graph/rules`, `graph/history`).

Nor do statistics, or a history, change it.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

import nnc_func as nnc
from nnc_func import models
from nnc_func.body import Body
from nnc_func.graph.ops import CATALOGUE as OPS
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


def a_loop() -> Any:
    """Whose body is rewritten, and applied twice."""
    x, w, m = [LAZY.input(*each, "float32") for each in (("x", (2, 3)), ("w", (3, 3)), ("m", (5, 2, 3)))]
    rows = [(OPS["matmul"], 1, 0), (OPS["add"], 3, 2), (OPS["tanh"], 4), (OPS["negative"], 5), (OPS["negative"], 6)]
    body = Body.of(3, *rows, results=(7, 7))
    last, ys = LAZY.ops.loop(w, x, m, body=body, constants=1, carries=1)
    more = LAZY.ops.loop(w, last * 1, ys, body=body, constants=1, carries=1)
    return LAZY.compile([x, w, m], [*more, LAZY.ops.negative(-ys)]).source


def test_the_history_of_a_loop_has_the_rewriting_of_its_body() -> None:
    """It ended in a graph whose body was as it had been written: a fresh seed found it."""
    graph = a_loop()
    optimised, _ = LAZY.graph.optimised(graph)
    history = optimised.history
    assert str(history.at(0)) == str(graph)
    assert str(history.at(len(history))) == str(history.replay(graph)) == str(optimised)
    assert [step.rule for step in history].count("optimise_body") == 1  # all loops, with what is around them
    assert repr(history[0]).startswith("optimise_body: 2 matmul, 2 add, 2 tanh, 4 negative -> 2 matmul_blockwise")
    assert "optimise_body" in history.to_html()


@given(programs())
@examples(30, 1000)
def test_measuring_changes_nothing(program: Any) -> None:
    graph = program.build(LAZY).program.source
    optimised, _ = LAZY.graph.optimised(graph)
    history = optimised.history
    assert str(history.at(len(history))) == str(optimised)
    assert sum(c.matched for c in history.statistics.values()) >= len(history)
