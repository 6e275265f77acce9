"""Goldens: optimised graphs, plans and reprs as text, compared and run (`graph/optimiser`, `engine/plan`).

Each is one file beside this one, reviewed like code; NNC_RENEW=1 writes them anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.engine.plan import Plan
from nnc_func.graph.text.writing import parsed

HERE = Path(__file__).parent
LAZY = nnc.lazy()
OPS = LAZY.ops
Built = tuple[Any, list[Any], Any]  # program, arguments, what NumPy says


def identities() -> Built:
    """Units, double negation, double transposes, and reshapes that undo each other: one operator is left."""
    x = LAZY.input("x", (2, 3), "float64")
    y = OPS.negative(OPS.negative(x * 1.0)).T.T.reshape((6,)).reshape((2, 3)) * 2.0
    given = np.arange(6.0).reshape(2, 3)
    return LAZY.compile([x], y), [given], given * 2


def shared() -> Built:
    """A product that occurs twice is computed once, and an intermediate is returned."""
    x, y = LAZY.input("x", (3,), "float64"), LAZY.input("y", (3,), "float64")
    product = x * y
    a, b = np.arange(3.0), np.ones(3) * 3
    return LAZY.compile([x, y], [product, OPS.exp(product) + x * y]), [a, b], [a * b, np.exp(a * b) + a * b]


def transposed() -> Built:
    """Transposes become flags of the matrix product."""
    a, b = LAZY.input("a", (4, 2), "float64"), LAZY.input("b", (3, 4), "float64")
    one, two = np.arange(8.0).reshape(4, 2), np.arange(12.0).reshape(3, 4)
    return LAZY.compile([a, b], a.T @ b.T), [one, two], one.T @ two.T


def logistic() -> Built:
    """A training step of logistic regression: forward, backward, and the update over the variable."""
    x, y = LAZY.input("x", (5, 3), "float64"), LAZY.input("y", (5, 1), "float64")
    w = LAZY.variable("w", np.zeros((3, 1)))

    def loss(w: Any) -> Any:
        p = OPS.sigmoid(x @ w)
        return OPS.mean(OPS.square(p - y))

    value, gradient = LAZY.value_and_grad(loss)(w)
    program = LAZY.compile([x, y], value, [(w, w - gradient * 0.5)], name="logistic")
    random = np.random.default_rng(0)
    return program, [random.normal(size=(5, 3)), np.ones((5, 1))], np.float64(0.25)


def parts() -> Built:
    """Several results, views, and a join."""
    x = LAZY.input("x", (4, 2), "float32")
    top, bottom = OPS.split(x, sections=2)
    given = np.arange(8, dtype="float32").reshape(4, 2)
    wanted = np.concatenate([given[2:][::-1], np.tanh(given[:2]) * given[:2]])
    return LAZY.compile([x], OPS.concat(OPS.flip(bottom, axis=0), OPS.tanh(top) * top)), [given], wanted


def unknown() -> Built:
    """An unknown extent stays a name."""
    x = LAZY.input("x", ("n", 3), "float64")
    given = np.arange(6.0).reshape(2, 3)
    centred = given - given.mean(axis=0)
    return LAZY.compile([x], x - OPS.mean(x, axis=0, keepdims=True)), [given], centred


GRAPHS: list[Callable[[], Built]] = [identities, shared, transposed, logistic, parts, unknown]


def compare(name: str, text: str) -> None:
    """With the file of that name; NNC_RENEW=1 writes it instead."""
    path = HERE / f"{name}.txt"
    text = re.sub(r"test_golden\.py:\d+", "test_golden.py:…", text).rstrip("\n") + "\n"
    if os.environ.get("NNC_RENEW") == "1":
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"no golden {path.name}; NNC_RENEW=1 writes it"
    assert text == path.read_text(encoding="utf-8"), f"{path.name} differs; NNC_RENEW=1 writes it, if that is right"


def agree(found: Any, wanted: Any) -> None:
    pairs = zip(*([x] if not isinstance(x, list) else x for x in (found, wanted)), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-6 if other.dtype == "float32" else 1e-12)


@pytest.mark.parametrize("make", GRAPHS, ids=lambda f: f.__name__)
def test_graphs_and_plans(make: Callable[[], Built]) -> None:
    program, given, wanted = make()
    agree(program(*given), wanted)
    plan = program.plan.verify()
    compare(make.__name__, f"# as written\n{program.source}\n\n# optimised\n{program.graph}\n\n# planned\n{plan}")


@pytest.mark.parametrize("make", GRAPHS, ids=lambda f: f.__name__)
def test_what_a_golden_says_is_what_runs(make: Callable[[], Built]) -> None:
    """The optimised text, read back and compiled without any rule, computes the same."""
    program, given, wanted = make()
    plain = LAZY.swap(optimiser=LAZY.optimiser.without_rules(*(r.name for r in LAZY.optimiser.rules)))
    text = (HERE / f"{make.__name__}.txt").read_text(encoding="utf-8")
    section = text.split("# optimised\n")[1].split("\n\n# planned")[0]
    variables = {v.data.name: v.data for v in program.graph.variables}
    again = plain.engine.compile(parsed(section, plain, variables=variables))
    agree(again(*given), wanted)


@pytest.mark.parametrize("make", [g for g in GRAPHS if g is not unknown], ids=lambda f: f.__name__)
def test_the_plan_that_a_golden_says_is_what_runs(make: Callable[[], Built]) -> None:
    program, given, wanted = make()
    text = (HERE / f"{make.__name__}.txt").read_text(encoding="utf-8")
    plan = Plan.parse(text.split("# planned\n")[1], LAZY)
    assert plan == program.plan
    agree(LAZY.program(plan, program._constants, program.variables)(*given), wanted)


def test_reprs() -> None:
    x = LAZY.input("x", ("n", 3), "float32")
    w = LAZY.variable("w", np.arange(3.0))
    eager = nnc.eager()
    shown = [
        LAZY, eager, eager.swap(device=LAZY), x, w, x + 1, eager.asarray([1.0, 2.0]), LAZY.asarray(np.float32(2)),
        LAZY.compile([x], x * 2), LAZY.compile([], w * 2), LAZY.jit(lambda q: q), eager.compile([], eager.asarray(1.0)),
        LAZY.compile([], w * 2).plan, LAZY.compile([x], x * 2).graph, (x * 2).value, w.value, x.aval,
        LAZY.type.ops["add"], LAZY.type.ops["sum"].signature(), LAZY.optimiser.rules[0],
    ]  # fmt: skip
    text = "\n".join(map(repr, shown))
    compare("reprs", re.sub(r"<function <lambda> at 0x[0-9a-f]+>|0x[0-9a-f]+", "…", text))
