"""A program may write over inputs that the caller gives up, and over no others (`engine/planning/in_place_reuse`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.config import config
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import DONATED
from nnc_func.errors import GraphError
from nnc_func.testing.programs import programs

LAZY, EAGER = nnc.lazy(), nnc.eager()
N = 1 << 16


def chain(o: Any, x: Any) -> Any:
    return o.sum(o.tanh(o.exp(o.sin(x))))


def compiled(f: Any, donate: bool, stack: Any = LAZY) -> Any:
    x = stack.input("x", (N,), "float64")
    program = stack.compile([x], f(stack.ops, x), donate=[x] if donate else ())
    if program.plan is not None:
        program.plan.verify()
    return program


def test_a_chain_runs_over_the_array_that_was_given_up() -> None:
    kept, over = compiled(chain, False), compiled(chain, True)
    x = np.linspace(0, 1, N)
    wanted = np.tanh(np.exp(np.sin(x))).sum()
    before = x.copy()
    np.testing.assert_allclose(kept(x), wanted)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_allclose(over(x), wanted)
    assert (x != before).any()
    assert kept.plan.arena_bytes >= x.nbytes
    assert over.plan.arena_bytes == 0


def test_what_comes_later_lives_in_its_memory() -> None:
    def f(o: Any, x: Any) -> Any:
        a = o.reshape(x, shape=(2, N // 2))
        b = o.sum(a, axis=0)  # the last use of x
        return o.sum(o.concat(o.sin(b), o.cos(b), axis=0) * 2)

    kept, over = compiled(f, False), compiled(f, True)
    x = np.linspace(0, 1, N)
    wanted = kept(x)
    np.testing.assert_allclose(over(x.copy()), wanted)
    assert over.plan.arena_bytes < kept.plan.arena_bytes
    assert sum(b.kind == DONATED for b in over.plan.buffers) > 1


@pytest.mark.parametrize("how", ["a list", "read-only", "strided", "the other input", "a variable", "out"])
def test_what_cannot_be_given_up_is_copied(how: str) -> None:
    x, y = LAZY.input("x", (4,), "float64"), LAZY.input("y", (4,), "float64")
    w = LAZY.variable("w", np.arange(4.0))
    o = LAZY.ops
    program = LAZY.compile([x, y], [o.exp(o.sin(x)) * y + w, o.cos(y)], donate=[x])
    one, two, outs = np.arange(4.0), np.arange(4.0) + 1, None
    if how == "read-only":
        one.flags.writeable = False
    elif how == "strided":
        one = np.repeat(one, 2)[::2]
    elif how == "the other input":
        two = one[::-1]
    elif how == "a variable":
        one = w.value.array
    elif how == "out":
        outs = [np.empty(4), one]
    before, wanted = one.copy(), [np.exp(np.sin(one)) * two + np.arange(4.0), np.cos(two)]
    found = program(one.tolist() if how == "a list" else one, two, out=outs)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b)
    if how != "out":
        np.testing.assert_array_equal(one, before)
    np.testing.assert_array_equal(w.numpy(), np.arange(4.0))


def test_it_is_poisoned_where_that_is_asked_for() -> None:
    program = compiled(chain, True)
    x = np.linspace(0, 1, N)
    config.spec, before = 3, config.spec
    try:
        wanted = chain(np, x)
        np.testing.assert_allclose(program(x), wanted)
    finally:
        config.spec = before
    assert np.isnan(x).all()


def test_only_inputs_can_be_given_up() -> None:
    x = LAZY.input("x", (2,))
    with pytest.raises(GraphError, match="donate"):
        LAZY.compile([x], x + 1, donate=[LAZY.input("y", (2,))])


def test_engines_without_plans_leave_it_alone() -> None:
    x = np.linspace(0, 1, N)
    before = x.copy()
    compiled(chain, True, EAGER)(x)
    np.testing.assert_array_equal(x, before)


def test_unknown_extents() -> None:
    x = LAZY.input("x", ("n",), "float64")
    program = LAZY.compile([x], chain(LAZY.ops, x), donate=[x])
    for n in (3, 5, 3):
        given_ = np.linspace(0, 1, n)
        wanted = chain(np, given_)
        np.testing.assert_allclose(program(given_), wanted)


def test_the_plans_text_says_so_and_parses_back() -> None:
    plan = compiled(chain, True).plan
    assert "donated 0" in str(plan)
    assert str(Plan.parse(str(plan))) == str(plan)


def over(program: Any) -> set[int]:
    return {b.source for b in program.plan.buffers if b.kind == DONATED}


@pytest.mark.parametrize("extent", [N, "n"])
@pytest.mark.parametrize("look", ["profile", "statistics", "first_nonfinite", "autotune"])
def test_what_only_looks_leaves_inputs_as_they_are(look: str, extent: Any) -> None:
    x = LAZY.input("x", (extent,), "float64")
    program = LAZY.compile([x], chain(LAZY.ops, x), donate=[x])
    array = np.linspace(0, 1, N)
    assert look == "autotune" or str(getattr(program, look)(array))
    assert look != "autotune" or str(program.autotune(array, budget=0.01))
    np.testing.assert_array_equal(array, np.linspace(0, 1, N))
    program(array)
    assert (array != np.linspace(0, 1, N)).any()


def test_tuning_runs_again_on_what_was_given_and_its_program_takes_inputs_over() -> None:
    """The indices are given up, and what is written over them would be out of range."""
    i, x = LAZY.input("i", (64,), "int64"), LAZY.input("x", (64, 64), "float64")
    o = LAZY.ops
    taken = o.sum(o.take(x @ x, i, axis=0))
    program = LAZY.compile([i, x], [taken, o.sum(i * 1000 + 7)], donate=[i, x])
    assert over(program) == {0, 1}
    tuned = program.autotune(np.arange(64), np.ones((64, 64)), budget=0.2).program
    assert over(tuned) == {0, 1}
    np.testing.assert_allclose(tuned(np.arange(64), np.ones((64, 64)))[0], 64.0**3)


def test_what_is_kept_from_call_to_call_is_not_given_up() -> None:
    x = LAZY.input("x", (2,))
    with pytest.raises(GraphError, match="retain= or donate=, not both"):
        LAZY.compile([x], x + 1, retain="all", donate=[x])


@given(programs(most_steps=8), st.data())
def test_random_programs_give_the_same(program: Any, data: Any) -> None:
    leaves = [
        LAZY.input(n.name, n.shape, n.dtype) if n.kind == "input"
        else LAZY.variable(n.name, n.value()) if n.kind == "variable" else LAZY.asarray(n.value())
        for n in program.leaves
    ]  # fmt: skip
    values = program.applied(LAZY, leaves)
    inputs = [v for v, n in zip(leaves, program.leaves, strict=True) if n.kind == "input"]
    updates = [(values[v], values[u]) for v, u in program.updates]
    outputs = [values[o] for o in program.outputs]
    given_up = data.draw(st.lists(st.sampled_from(inputs), unique_by=id)) if inputs else []
    variables = [v for v, n in zip(leaves, program.leaves, strict=True) if n.kind == "variable"]
    start = [v.numpy() for v in variables]
    found = []
    for donate in ((), given_up):
        for v, value in zip(variables, start, strict=True):
            v.value.assign(value)
        made = LAZY.compile(inputs, outputs, updates, donate=donate)
        made.plan.verify()
        with np.errstate(all="ignore"):
            found.append([np.array(a) for _ in range(2) for a in made(*[f.copy() for f in program.feeds()])])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
