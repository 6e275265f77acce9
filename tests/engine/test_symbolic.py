"""Programs of unknown extents: planned once a binding, run in one arena, equal to fixed shapes (`engine/symbolic`)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.engine import symbolic
from nnc_func.errors import GraphError, ShapeError
from nnc_func.graph import optimiser
from tests.engine.symbolic_programs import Symbolic, symbolic_programs

BATCHES = (1, 7, 32, 100)
LINE = r"test_symbolic.py:\d+"


def layers(stack: Any) -> tuple[list[Any], Any]:
    """A small network of a batch of n."""
    random = np.random.default_rng(0)
    x = stack.input("x", ("n", 8), "float64")
    a, b = (stack.variable(k, random.standard_normal(s)) for k, s in (("a", (8, 16)), ("b", (16, 4))))
    ops = stack.ops
    return [x], ops.softmax(ops.relu(x @ a) @ b, axis=1) - ops.mean(ops.tanh(x) @ a @ b, axis=0)


def of(rows: int) -> Any:
    return np.random.default_rng(rows).standard_normal((rows, 8))


# --- the bar: 1, 7, 32, 100 through one graph ----------------------------------------------------------------


def test_batches_go_through_one_graph_without_optimising_again(monkeypatch: pytest.MonkeyPatch) -> None:
    optimised: list[int] = []
    original = optimiser.rewritten
    monkeypatch.setattr(optimiser, "rewritten", lambda *a: (optimised.append(1), original(*a))[1])
    lazy, eager = nnc.lazy(), nnc.eager()
    program, oracle = (s.compile(*layers(s)) for s in (lazy, eager))
    planned = []
    for _ in range(3):
        for rows in BATCHES:
            np.testing.assert_allclose(program(of(rows)), oracle(of(rows)), rtol=1e-12, atol=1e-12)
            planned.append(program.plan)
    assert len(optimised) == 1
    assert len(program.programs) == len(BATCHES)
    assert planned[:4] == planned[4:8] == planned[8:]  # plans are compared by identity
    program.plan.verify()


def test_a_repeat_allocates_nothing() -> None:
    null = nnc.Null()
    stack = nnc.lazy(null)
    program = stack.compile(*layers(stack))
    given = {rows: null.asarray(of(rows)) for rows in BATCHES}
    for rows in BATCHES:
        program(given[rows])
    allocations = null.counts.allocations
    for rows in (*BATCHES, *reversed(BATCHES)):
        program(given[rows])
    assert null.counts.allocations == allocations


@pytest.mark.parametrize("order", [BATCHES, BATCHES[::-1]])
def test_all_bindings_run_in_the_arena_of_the_largest(order: tuple[int, ...]) -> None:
    stack = nnc.lazy()
    program = stack.compile(*layers(stack))
    for rows in order:
        program(of(rows))
    sizes = [p.plan.arena_bytes for p in program.programs.values()]
    assert len(set(sizes)) == len(BATCHES)
    assert program.arenas.nbytes == max(sizes) < sum(sizes)
    assert program.arenas.made == (4 if order == BATCHES else 1)


def test_bindings_that_are_not_used_are_forgotten() -> None:
    stack = nnc.lazy()
    program = stack.compile(*layers(stack))
    for rows in reversed(range(1, 2 * symbolic.KEPT)):  # the largest first: one arena for all
        program(of(rows))
        program(of(1))
    assert len(program.programs) == symbolic.KEPT
    assert (("n", 1),) in program.programs
    leased = {p for arena in program.arenas.arenas for p in arena.leases}
    assert leased <= set(program.programs.values())


def test_threads_share_plans_and_not_arenas() -> None:
    stack = nnc.lazy()
    program, oracle = stack.compile(*layers(stack)), nnc.eager().compile(*layers(nnc.eager()))
    wanted = {rows: oracle(of(rows)) for rows in (3, 50)}
    failed: list[Any] = []

    def call(rows: int) -> None:
        for _ in range(50):
            if not np.allclose(program(of(rows)), wanted[rows], rtol=1e-12, atol=1e-12):
                failed.append(rows)

    threads = [threading.Thread(target=call, args=(rows,)) for rows in (3, 50, 3, 50)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    assert len(program.programs) == 2


# --- what inputs tell ------------------------------------------------------------------------------------------


def test_extents_of_inputs_are_solved_for(stack: nnc.Stack) -> None:
    x, y = stack.input("x", ("2*n", "n + m"), "float64"), stack.input("y", ("(n+1) // 2",), "float64")
    program = stack.compile([x, y], stack.ops.concat(x.reshape(-1), y, axis=0))
    assert program(np.ones((6, 5)), np.ones(2)).shape == (32,)
    with pytest.raises(ShapeError, match=rf"'x' wants shape .*given \(7, 4\): 2\*n = 7 holds for no whole n.*{LINE}"):
        program(np.ones((7, 4)), np.ones(2))
    with pytest.raises(ShapeError, match=r"'x' wants shape \(6, n\+m|'x' wants .*m would be -1"):
        program(np.ones((6, 2)), np.ones(2))
    with pytest.raises(ShapeError, match=r"'y' wants shape \(2,\), given \(3,\)"):
        program(np.ones((6, 5)), np.ones(3))


def test_extents_that_no_input_tells_are_named(stack: nnc.Stack) -> None:
    x = stack.input("x", ("n*m",), "float64")
    with pytest.raises(ShapeError, match=rf"do not tell the extents m, n of 'x', float64\[m\*n\] \(built at {LINE}"):
        stack.compile([x], x + 1)(np.ones(6))
    y = stack.input("y", ("k", 2), "float64")
    with pytest.raises(GraphError, match=rf"broadcast_to.*extent that no input of the graph has.*{LINE}"):
        stack.compile([x], stack.ops.broadcast_to(x[0], shape=y.shape))


@pytest.mark.parametrize("text", ["", "2 n", "n*", "-3", "n//0", "(n", "n)", "n.m", "2.5", "n**2", "(" * 500])
def test_what_is_no_extent_is_refused(stack: nnc.Stack, text: str) -> None:
    with pytest.raises(ShapeError, match="an extent is"):
        stack.input("x", (text,), "float64")


def test_extents_that_meet_are_equal_in_whichever_order(stack: nnc.Stack) -> None:
    x, y = (stack.input(k, (d,), "float64") for k, d in (("x", "n"), ("y", "m")))
    program = stack.compile([x, y], x * y)
    for a, b in ((1, 2), (2, 1)):
        with pytest.raises(ShapeError, match=rf"multiply.*unknown extents that meet must be equal \(built at {LINE}"):
            program(np.ones(a), np.ones(b))
    one = stack.input("one", (1,), "float64")
    np.testing.assert_array_equal(stack.compile([x, one], x + one)(np.ones(3), np.ones(1)), np.full(3, 2.0))
    five = stack.compile([x], x + np.ones(5))
    assert five(np.ones(5)).shape == (5,)
    with pytest.raises(ShapeError, match=rf"add.*n is 1.*{LINE}"):
        five(np.ones(1))


@pytest.mark.parametrize("retain", ["none", "all"])
def test_what_was_rewritten_away_still_wants_extents_that_are_equal(stack: nnc.Stack, retain: str) -> None:
    """Zero times a sum is zero, whatever is added; what cannot be added is refused all the same."""
    x, y = (stack.input(k, (d,), "int64") for k, d in (("x", "n"), ("y", "m")))
    program = stack.compile([x, y], (x + y) * 0, retain=retain)
    for _ in range(2):
        np.testing.assert_array_equal(program(np.ones(3, "int64"), np.ones(3, "int64")), np.zeros(3))
        with pytest.raises(ShapeError, match=rf"add.*shapes \(3,\) and \(4,\) do not broadcast.*{LINE}"):
            program(np.ones(3, "int64"), np.ones(4, "int64"))


def test_a_matrix_product_learns_its_inner_extent(stack: nnc.Stack) -> None:
    x, y = stack.input("x", (3, "n"), "float64"), stack.input("y", ("2*m", 2), "float64")
    program = stack.compile([x, y], x @ y)
    np.testing.assert_array_equal(program(np.ones((3, 4)), np.ones((4, 2))), np.full((3, 2), 4.0))
    with pytest.raises(ShapeError, match=rf"matmul.*{LINE}"):
        program(np.ones((3, 4)), np.ones((6, 2)))
    assert [str(a.right - a.left) for a in program.source.assumptions] in (["2*m-n"], ["n-2*m"])


CASES: dict[str, Any] = {
    "sum over the size": lambda o, x: o.sum(x) / x.size,
    "count": lambda o, x: x * x.shape[0] - o.arange(start=0, stop=x.shape[0])[:, None],
    "one-hot as deep": lambda o, x: o.one_hot(o.argmax(x, axis=1), depth=x.shape[0] + 4),
    "every other": lambda o, x: x[::2, 1:],
    "from the end": lambda o, x: o.concat(x[-2:], x[::-1], x[1:-1], axis=0),
    "backwards by two": lambda o, x: x[::-2],
    "one of it": lambda o, x: x[0] + x[-1] - x[x.shape[0] - 1],
    "padded by its extent": lambda o, x: o.pad(x, widths=((x.shape[0], 1), (0, 0))),
    "split": lambda o, x: o.split(x, sections=(2, x.shape[0] - 2), axis=0)[1],
    "tiled": lambda o, x: o.tile(x, repetitions=(x.shape[0], 1)),
    "flat": lambda o, x: x.reshape(-1)[: 2 * x.shape[0]].reshape(2, -1),
    "windows": lambda o, x: o.max_pool2d(x[None, :, :, None], window=(2, 2), stride=(2, 1)),
    "convolved": lambda o, x: o.conv2d(x[None, :, :, None], np.ones((2, 3, 1, 2)), stride=(2, 1), padding="SAME"),
    "drawn": lambda o, x: x + o.random_uniform(np.array([1, 0], "uint64"), shape=x.shape, dtype="float64"),
    "normalised": lambda o, x: (x - o.mean(x, axis=0)) / (1 + o.max(o.abs(x), axis=0)),
    "put": lambda o, x: o.set_slice(x, 0, starts=(1, 0), stops=(x.shape[0], 2), steps=(1, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_an_unknown_extent_gives_what_a_known_one_does(stack: nnc.Stack, name: str) -> None:
    x = stack.input("x", ("n", 4), "float64")
    program = stack.compile([x], CASES[name](stack.ops, x))
    eager = nnc.eager()
    for rows in (2, 5, 6):
        a = np.random.default_rng(rows).standard_normal((rows, 4))
        np.testing.assert_allclose(program(a), CASES[name](eager.ops, eager.asarray(a)).numpy(), rtol=1e-12)


def test_an_extent_divided_is_no_extent() -> None:
    n = nnc.lazy().input("x", ("n",)).shape[0]
    with pytest.raises(ShapeError, match=r"n / 2.*use //"):
        n / 2


# --- derivatives and training ------------------------------------------------------------------------------------


def test_a_step_of_training_takes_any_batch(stack: nnc.Stack) -> None:
    """A mean over the batch, differentiated: one graph, the steps of which equal those of graphs of fixed shape."""
    random = np.random.default_rng(0)

    def built(rows: Any) -> tuple[Any, Any]:
        w = stack.variable("w", np.ones((4, 3)))
        x, y = stack.input("x", (rows, 4), "float64"), stack.input("y", (rows, 3), "float64")
        value, gradient = stack.value_and_grad(lambda w: ((stack.ops.tanh(x @ w) - y) ** 2).sum() / x.size)(w)
        return stack.compile([x, y], value, {w: w - 0.1 * gradient}), w

    program, w = built("n")
    fixed = {rows: built(rows) for rows in BATCHES}
    for rows in (*BATCHES, 7, 1):
        x, y = random.standard_normal((rows, 4)), random.standard_normal((rows, 3))
        one, v = fixed[rows]
        v.value.assign(w.numpy())
        np.testing.assert_allclose(program(x, y), one(x, y), rtol=1e-12)
        np.testing.assert_allclose(w.numpy(), v.numpy(), rtol=1e-12)


# --- random programs ---------------------------------------------------------------------------------------------


STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
NULL = nnc.lazy(nnc.Null())


@given(symbolic_programs())
def test_random_programs_of_unknown_extents_equal_those_of_known_ones(found: Symbolic) -> None:
    programs = {name: found.build(stack) for name, stack in STACKS.items()}
    planned = found.build(NULL)
    for rows in (17, 40, 16, 17):
        wanted = found.build(STACKS["eager"], rows)(*found.feeds(rows))
        for name, program in programs.items():
            for a, b in zip(program(*found.feeds(rows)), wanted, strict=True):
                assert a.shape == b.shape, name
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=name)
        assert [a.shape for a in planned(*found.feeds(rows))] == [b.shape for b in wanted]
        planned.plan.verify()


@given(symbolic_programs(), st.sampled_from((16, 33)))
def test_a_shape_learned_late_gives_the_graph_of_a_shape_known_at_once(found: Symbolic, rows: int) -> None:
    late = found.build(STACKS["lazy"]).source.with_shapes({f"x{i}": s for i, s in enumerate(found.known(rows))})
    assert str(late) == str(found.build(STACKS["lazy"], rows).source)
    assert not late.symbols


# --- optimised for each binding --------------------------------------------------------------------------------


def test_what_wants_known_extents_is_fused_where_a_binding_is_optimised(tmp_path: Path) -> None:
    lazy = nnc.lazy()
    images = lazy.input("x", ("n", 8, 8, 16), "float32")
    kernel = lazy.asarray(np.random.default_rng(0).standard_normal((3, 3, 16, 4)).astype("float32"))
    plain = lazy.compile([images], lazy.ops.relu(lazy.ops.conv2d(images, kernel) + 1))
    program, some = plain.rewriting_bindings(), np.ones((2, 8, 8, 16), "float32")
    np.testing.assert_allclose(program(some), plain(some), rtol=1e-5)
    made = program.programs[(("n", 2),)]
    assert [n.op.name for n in made.graph.nodes if n.args] == ["conv2d_blockwise"]
    program.save(tmp_path / "program.nnc")
    loaded = nnc.load_program(tmp_path / "program.nnc", lazy)
    assert loaded.rewrites
    np.testing.assert_array_equal(loaded(some), program(some))
    assert len(loaded.programs) == 1  # it came with the file
    bare = lazy.swap(optimiser=lazy.optimiser.up_to_phase("simplify"))
    np.testing.assert_allclose(nnc.load_program(tmp_path / "program.nnc", bare)(some), plain(some), rtol=1e-5)
    more = np.ones((3, 8, 8, 16), "float32")
    np.testing.assert_array_equal(loaded(more), program(more))
