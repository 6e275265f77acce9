"""Memory is taken over where nobody else sees it (`engine/planning/in_place_reuse`, `engine/running/results`)."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.engine.plan_rows import ARENA
from nnc_func.errors import OperatorError, ShapeError

LAZY = nnc.lazy()
OPS = LAZY.ops
N = 1000


def compiled(f: Any, *shapes: tuple[int, ...], updates: Any = ()) -> Any:
    inputs = [LAZY.input(f"x{i}", s, "float64") for i, s in enumerate(shapes)]
    return LAZY.compile(inputs, f(*inputs), updates)


def arena_writes(program: Any) -> list[tuple[str, int]]:
    """(operator, buffer) of each kernel."""
    plan = program.plan
    return [(i.op.name, plan.slots[i.results[0]].buffer) for i in plan.instructions if not i.view]


def test_a_chain_lives_in_one_buffer() -> None:
    program = compiled(lambda x: OPS.sum(OPS.tanh(OPS.exp(OPS.sin(x)))), (N,))
    assert len(program.plan.planned) == 1
    x = np.linspace(0, 1, N)
    np.testing.assert_allclose(program(x), np.tanh(np.exp(np.sin(x))).sum(), rtol=1e-12)


def test_an_operand_that_is_used_later_is_not_written_over() -> None:
    def f(x: Any) -> Any:
        a = OPS.exp(x)
        return OPS.sum(OPS.sin(a)) + OPS.sum(a)

    x = np.linspace(0, 1, N)
    np.testing.assert_allclose(compiled(f, (N,))(x), np.sin(np.exp(x)).sum() + np.exp(x).sum(), rtol=1e-12)


@pytest.mark.parametrize("view", ["flip", "T", "part", "reshape"])
def test_an_operand_whose_view_is_used_later_is_not_written_over(view: str) -> None:
    def of(x: Any) -> Any:
        if view == "flip":
            return np.flip(x) if isinstance(x, np.ndarray) else OPS.flip(x)
        return x.T if view == "T" else x[3:, 1:] if view == "part" else x.reshape((N,))

    def f(x: Any) -> Any:
        a = OPS.exp(x)
        seen = of(a)
        b = OPS.sin(a)  # the last use of `a` itself, not of its memory
        return b, OPS.cos(seen)

    x = np.linspace(0, 1, N).reshape(20, 50)
    first, second = compiled(f, (20, 50))(x)
    np.testing.assert_allclose(first, np.sin(np.exp(x)), rtol=1e-12)
    np.testing.assert_allclose(second, np.cos(of(np.exp(x))), rtol=1e-12)


def test_an_operand_beside_its_own_transpose_is_not_written_over() -> None:
    def f(x: Any) -> Any:
        a = OPS.exp(x)
        return OPS.sum(OPS.square(a + a.T) * a)

    x = np.linspace(0, 1, 900).reshape(30, 30)
    a = np.exp(x)
    np.testing.assert_allclose(compiled(f, (30, 30))(x), np.sum((a + a.T) ** 2 * a), rtol=1e-12)


def test_an_operand_that_occurs_twice_is_written_over_safely() -> None:
    program = compiled(lambda x: OPS.sum(OPS.exp(x) * OPS.exp(x)), (N,))
    x = np.linspace(0, 1, N)
    np.testing.assert_allclose(program(x), np.exp(2 * x).sum(), rtol=1e-12)


def test_inputs_constants_and_outputs_are_never_written() -> None:
    constant = np.linspace(1, 2, N)
    held = LAZY.asarray(constant)

    def f(x: Any) -> Any:
        y = OPS.exp(x)
        return y, OPS.sin(y), OPS.sum(OPS.tanh(x) + OPS.sqrt(held))

    program = compiled(f, (N,))
    x = np.linspace(0, 1, N)
    before = x.copy()
    for _ in range(3):
        y, z, total = program(x)
        np.testing.assert_array_equal(x, before)
        np.testing.assert_array_equal(held.numpy(), constant)
        np.testing.assert_array_equal(y, np.exp(x))
        np.testing.assert_array_equal(z, np.sin(np.exp(x)))
        np.testing.assert_allclose(total, np.sum(np.tanh(x) + np.sqrt(constant)), rtol=1e-12)
    written = {buffer for _, buffer in arena_writes(program)}
    kinds = {program.plan.buffers[b].kind for b in written}
    assert kinds <= {ARENA, "output"}


# --- results are recycled once nobody holds them -----------------------------------------------------------


def doubling() -> Any:
    return compiled(lambda x: OPS.multiply(x, 2.0), (N,))


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def test_results_that_are_held_are_fresh() -> None:
    program = doubling()
    results = [program(np.full(N, float(i))) for i in range(6)]
    assert len({address(r) for r in results}) == 6
    for i, r in enumerate(results):
        np.testing.assert_array_equal(r, 2.0 * i)


def test_a_result_that_was_dropped_is_used_again() -> None:
    program = doubling()
    seen = set()
    for i in range(20):
        seen.add(address(program(np.full(N, float(i)))))
    assert len(seen) <= 2


@pytest.mark.parametrize(
    "hold",
    [
        lambda r: r[10:20],
        lambda r: r.reshape(10, 100),
        lambda r: r[::-1][:5],
        memoryview,
        np.from_dlpack,
        lambda r: np.asarray(r)[1:][1:],
        np.frombuffer,
        lambda r: r.__dlpack__(),
        lambda r: r.view("int64"),
    ],
    ids=["slice", "reshape", "flipped", "memoryview", "dlpack", "asarray", "frombuffer", "capsule", "view"],
)
def test_what_shows_a_result_keeps_it(hold: Any) -> None:
    program = doubling()
    result = program(np.full(N, 1.0))
    place, kept = address(result), hold(result)
    del result
    gc.collect()
    later = [program(np.full(N, 5.0)) for _ in range(4)]
    assert place not in {address(r) for r in later}
    if type(kept).__name__ != "PyCapsule":
        np.testing.assert_array_equal(np.asarray(kept).view("float64"), 2.0)


def test_a_result_fed_to_the_next_call_is_not_written_over() -> None:
    program = doubling()
    x = np.ones(N)
    for i in range(10):
        x = program(x)
        np.testing.assert_array_equal(x, 2.0 ** (i + 1))


def test_out_is_written_and_nothing_else_is_made() -> None:
    program, out = doubling(), np.zeros(N)
    assert program(np.ones(N), out=out) is out
    np.testing.assert_array_equal(out, 2.0)


def test_out_may_be_an_input_that_is_still_read() -> None:
    program = compiled(lambda x: (x * 2.0, x * 3.0), (N,))
    x = np.ones(N)
    first, second = program(x, out=[x, np.zeros(N)])
    assert first is x
    np.testing.assert_array_equal(first, 2.0)
    np.testing.assert_array_equal(second, 3.0)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_out_of_another_number_or_shape_is_refused(make: Any) -> None:
    stack = make()
    x = stack.input("x", (2,), "float64")
    program = stack.compile([x], x + 1)
    with pytest.raises(OperatorError, match="out= wants 1 arrays, given 2"):
        program(np.ones(2), out=[np.ones(2), np.ones(2)])
    with pytest.raises(ShapeError, match=r"out\[0\] wants float64\[2\], given float64\[3\]"):
        program(np.ones(2), out=np.ones(3))
    with pytest.raises(ShapeError, match=r"out\[0\] wants float64\[2\], given float32\[2\]"):
        program(np.ones(2), out=np.ones(2, "float32"))


# --- one arena a running call ------------------------------------------------------------------------------


def test_four_threads_call_one_program() -> None:
    program = compiled(lambda x, y: OPS.sum(OPS.tanh(x @ y) + OPS.exp(x @ y * 0.01), axis=0), (60, 60), (60, 60))
    cases = [np.random.default_rng(i).normal(size=(2, 60, 60)) for i in range(4)]
    wanted = [np.array(program(*c)) for c in cases]
    wrong: list[Any] = []

    def run(i: int) -> None:
        for _ in range(60):
            found = program(*cases[i])
            if not np.array_equal(found, wanted[i]):
                wrong.append(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_program_may_call_itself_through_a_kernel() -> None:
    from nnc_func.facets import dtypes, shapes
    from nnc_func.facets.derivatives import Constant
    from nnc_func.facets.kernels import reference
    from nnc_func.op import operator

    inner: list[Any] = []
    depth = [0]

    def compute(xp: Any, x: Any) -> Any:
        depth[0] += 1
        return inner[0](x * 0.5) if depth[0] < 4 else x

    @operator(shape=shapes.same, dtype=dtypes.first, derivative=Constant("a test"), kernels=reference(compute))
    def again(x: Any, /) -> Any:
        """Calls the program that it is in."""

    stack = LAZY.swap(type=LAZY.type.with_ops(again))
    x = stack.input("x", (4,), "float64")
    inner.append(stack.compile([x], stack.ops.exp(x) + again(x)))
    found = inner[0](np.ones(4))
    wanted = np.exp(1) + np.exp(0.5) + np.exp(0.25) + np.exp(0.125) + 0.125
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_view_of_a_callers_array_does_not_change_with_it() -> None:
    stack, mine = nnc.eager(), np.zeros(4)
    shown = stack.ops.reshape(mine, shape=(2, 2))
    halves = stack.ops.split(mine, sections=2)
    mine[0] = 7
    assert shown.numpy().sum() == 0
    assert halves[0].numpy().sum() == 0


def test_nor_with_a_variable_of_another_stack() -> None:
    lazy, eager = nnc.lazy(), nnc.eager()
    w, x = lazy.variable("w", np.zeros(4)), lazy.input("x", (4,), "float64")
    shown = eager.ops.reshape(w, shape=(2, 2))
    lazy.compile(inputs=[x], outputs=[], updates={w: w + x})(np.ones(4))
    assert shown.numpy().sum() == 0
