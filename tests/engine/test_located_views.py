"""Views of inputs and results are located once: a call makes one array for each (`engine/running/array_views`)."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc

LAZY = nnc.lazy()
X = np.arange(5 * 6 * 4, dtype="float64").reshape(5, 6, 4)
STEPS: dict[str, Any] = {
    "rows": lambda o, x: x[x.shape[0] // 4 :],
    "steps": lambda o, x: x[..., ::2],
    "backwards": lambda o, x: x[::-1],
    "turned": lambda o, x: o.permute_dims(x, axes=(1, 2, 0)),
    "wider": lambda o, x: o.expand_dims(x, axis=0)[0],
    "flat": lambda o, x: o.reshape(o.reshape(x, shape=(-1,)), shape=x.shape),
}


def program(names: Any, *, both: bool = False) -> Any:
    """Kernels on the end of a chain of views, or on each link of it."""
    x = LAZY.input("x", X.shape, "float64")
    found, y = [], x
    for name in names:
        y = STEPS[name](LAZY.ops, y)
        found.append(LAZY.ops.exp(y * 1e-2))
    return LAZY.compile([x], found if both else found[-1:])


def wanted(names: Any, x: Any, both: bool) -> list[Any]:
    found, o = [], nnc.eager()
    y: Any = o.asarray(x)
    for name in names:
        y = STEPS[name](o.ops, y)
        found.append(np.exp(y.numpy() * 1e-2))
    return found if both else found[-1:]


@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5), st.booleans())
def test_chains_of_views_are_what_numpy_shows(names: list[str], both: bool) -> None:
    made = program(names, both=both)
    frozen = X.copy()
    frozen.flags.writeable = False
    for x in (X, X * 2, frozen, np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]):
        for f, w in zip(made(x), wanted(names, x, both), strict=True):
            np.testing.assert_array_equal(f, w)


def test_a_chain_makes_one_view_for_a_call() -> None:
    made = program(["rows", "turned", "steps", "rows"])
    assert sum(i.view for i in made.plan.instructions) >= 3
    frame: Any = made.arenas.take(made, made.plan, made._linked).executable
    ((root, views),) = frame.views.items()
    assert len(views) >= 3
    assert len(frame.located[root][1]) == 1
    calls: list[int] = []
    frame.views[root] = [(lambda a, c=c: calls.append(1) or c(a), o, r) for c, o, r in views]
    frame.put(root, X)
    assert not calls
    frame.put(root, np.asfortranarray(X))
    assert len(calls) == len(views)


def test_nothing_of_a_callers_array_is_kept() -> None:
    made = program(["rows", "turned", "rows"])
    x = X.copy()
    made(x)
    alone = X.copy()  # one variable holds it: how many references that is depends on the version of Python
    before = sys.getrefcount(x)
    made(x)
    assert sys.getrefcount(x) == before == sys.getrefcount(alone)
