"""vmap equals a loop over the rows, nested in itself and in derivatives (`batching`, `facets/batching`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import BatchingError, NncError, RunError
from nnc_func.facets import batching
from nnc_func.graph.composites import COMPOSITES
from nnc_func.graph.ops import CATALOGUE
from nnc_func.testing.comparing import equal
from nnc_func.testing.samples import arguments
from tests.profiles import examples

EAGER, LAZY = nnc.eager(), nnc.lazy()
BATCHED = nnc.eager().insert(nnc.Batching)
MOST_ROWS = 3
PURE = [op for op in CATALOGUE.values() if op.args and not op.effect]


def rows_of(data: Any, op: Any) -> tuple[list[Any], list[int | None], dict[str, Any], int]:
    """Arguments of several calls that differ in their elements only; some arguments are the same for all."""
    arrays, params = data.draw(arguments(op))
    size = data.draw(st.integers(1, MOST_ROWS))
    wanted = data.draw(st.lists(st.booleans(), min_size=len(arrays), max_size=len(arrays)).filter(any))
    axes: list[int | None] = [
        data.draw(st.integers(0, x.ndim)) if w else None for x, w in zip(arrays, wanted, strict=True)
    ]
    for rows in (turned, scaled, equal_rows):  # of some operators not any matrix will do
        found = [
            x if a is None else np.stack([rows(x, n) for n in range(size)], a)
            for x, a in zip(arrays, axes, strict=True)
        ]
        if all(takes(op, row(found, axes, n), params) for n in range(size)):
            break
    return found, axes, params, size


def row(arrays: Any, axes: Any, n: int) -> list[Any]:
    """The arguments of one call."""
    return [x if a is None else np.take(x, n, a) for x, a in zip(arrays, axes, strict=True)]


def takes(op: Any, arrays: list[Any], params: dict[str, Any]) -> bool:
    """Whether the operator takes these values."""
    try:
        with np.errstate(all="ignore"):
            op(*map(EAGER.asarray, arrays), **params)
    except NncError:
        return False
    return True


def turned(x: Any, n: int) -> Any:
    """With its elements in other places."""
    return np.roll(x.reshape(-1), n).reshape(x.shape)


def scaled(x: Any, n: int) -> Any:
    """Smaller by so many quarters, where that is possible."""
    return x * x.dtype.type(0.75**n) if x.dtype.kind in "fc" else x


def equal_rows(x: Any, n: int) -> Any:
    """As it is."""
    return x


def results(found: Any) -> list[Any]:
    """As arrays."""
    return [t.numpy() for t in (found if isinstance(found, tuple) else (found,))]


def by_rows(function: Any, arrays: Any, axes: Any, size: int) -> list[Any]:
    """What a loop gives, rows along axis 0."""
    each = [results(function(*row(arrays, axes, n))) for n in range(size)]
    return [np.stack(values) for values in zip(*each, strict=True)]


@pytest.mark.parametrize("op", PURE, ids=str)
@examples(few=2, nightly=120)
@given(data=st.data())
def test_it_is_a_loop(op: Any, data: Any) -> None:
    is_a_loop(op, data)


@pytest.mark.parametrize("op", [each for each in COMPOSITES.values() if each.args], ids=str)
@examples(few=2, nightly=120)
@given(data=st.data())
def test_composites_are_loops(op: Any, data: Any) -> None:
    is_a_loop(op, data)


def is_a_loop(op: Any, data: Any) -> None:
    """Of one drawn call."""
    arrays, axes, params, size = rows_of(data, op)

    def function(*tensors: Any) -> Any:
        return op(*[EAGER.asarray(t) for t in tensors], **params)

    with np.errstate(all="ignore"):
        wanted = by_rows(function, arrays, axes, size)
        found = results(nnc.vmap(function, in_axes=tuple(axes), stack=EAGER)(*arrays))
    for one, other in zip(found, wanted, strict=True):
        equal(one, other, max(op.tolerance.ulps, 4.0) * 4, f"vmap of {op}")


def test_operators_have_rules() -> None:
    """Row by row is right, and slow: what is left to it is random, made by rules only, or has no other way."""
    loops = {op.name for op in PURE if BATCHED.autodiff.rule(op) is batching.loop}
    drawn = {name for name in loops if name.startswith("random_")}
    assert loops - drawn <= {
        "conv2d_kernel_gradient",
        "conv2d_blockwise",
        "matmul_blockwise",
        "attention_blockwise",
        "lstm_layer",
        "gru_layer",
        "blockwise_several",
        "softmax_cross_entropy_gradient",
        "relayout",
        "searchsorted",
        "flatnonzero",
        "non_maximum_suppression",
    }


def test_the_layer_is_inserted_as_ones_own() -> None:
    x = np.float64([[1, 2], [3, 4]])
    for stack in (BATCHED, LAZY.insert(nnc.Batching), nnc.Stack(nnc.Batching(nnc.NumPy()))):
        square = nnc.vmap(lambda row, stack=stack: stack.ops.sum(stack.ops.multiply(row, row), axis=0), stack=stack)
        assert np.asarray(square(x).numpy()).tolist() == [5.0, 25.0]
    assert nnc.lazy().insert(nnc.Batching) == nnc.lazy().insert(nnc.Batching)


def test_rows_of_matrices_times_a_matrix_are_one_product() -> None:
    x, w = LAZY.input("x", (8, 3, 4), "float32"), LAZY.input("w", (4, 5), "float32")
    y = nnc.vmap(lambda row, w: row @ w, in_axes=(0, None))(x, w)
    program = LAZY.compile(inputs=[x, w], outputs=[y])
    products = [i for i in program.plan.instructions if i.op.name == "matmul"]
    assert [program.plan.slots[i.results[0]].aval.shape for i in products] == [(24, 5)]


@pytest.mark.parametrize("stack", [EAGER, LAZY, BATCHED], ids=["eager", "lazy", "with its layer"])
def test_it_nests_in_derivatives_and_in_itself(stack: Any) -> None:
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(3,)), rng.normal(size=(5, 3))
    ops = stack.ops

    def loss(w: Any, row: Any) -> Any:
        return ops.sum(ops.tanh(w * row) * row)

    slope = (1 - np.tanh(w * x) ** 2) * x * x
    each = nnc.vmap(stack.grad(loss), in_axes=(None, 0), stack=stack)(stack.asarray(w), x)
    np.testing.assert_allclose(each.numpy(), slope, rtol=1e-12)

    def total(w: Any) -> Any:
        return ops.sum(nnc.vmap(lambda row: loss(w, row), stack=stack)(x))

    np.testing.assert_allclose(stack.grad(total)(w).numpy(), slope.sum(0), rtol=1e-12)
    jacobian = nnc.vmap(lambda w, e: stack.jvp(lambda w: ops.tanh(w), (w,), (e,))[1], in_axes=(None, 0), stack=stack)
    np.testing.assert_allclose(jacobian(stack.asarray(w), np.eye(3)).numpy(), np.diag(1 - np.tanh(w) ** 2), rtol=1e-12)
    outer = nnc.vmap(lambda a: nnc.vmap(lambda b: a * b, stack=stack)(w), stack=stack)(stack.asarray(w))
    np.testing.assert_allclose(outer.numpy(), np.outer(w, w))
    second = nnc.vmap(stack.grad(stack.grad(lambda a: a * a * a)), stack=stack)(stack.asarray(w))
    np.testing.assert_allclose(second.numpy(), 6 * w)


def test_axes_and_trees() -> None:
    x, y = EAGER.asarray(np.arange(6.0).reshape(2, 3)), EAGER.asarray(np.arange(3.0))
    found = nnc.vmap(
        lambda p: {"sum": p["x"] + p["y"], "one": y}, in_axes=({"x": 1, "y": 0},), out_axes={"one": None, "sum": 1}
    )({"x": x, "y": y})
    assert found["sum"].numpy().tolist() == (x.numpy() + y.numpy()).tolist()
    assert found["one"].shape == (3,)
    again = nnc.vmap(lambda row, factor: row * factor, in_axes=(0, None))(x, 2.0)
    assert again.numpy().tolist() == (2 * x.numpy()).tolist()


def test_under_jit_and_of_unknown_numbers_of_rows() -> None:
    fast = LAZY.jit(nnc.vmap(lambda row: LAZY.ops.softmax(row), stack=LAZY))
    x = np.float32([[1, 2], [3, 5]])
    np.testing.assert_allclose(np.asarray(fast(x)), EAGER.ops.softmax(x).numpy(), rtol=1e-6)
    rows = LAZY.input("rows", (None, 2), "float32")
    program = LAZY.compile(inputs=[rows], outputs=nnc.vmap(lambda row: LAZY.ops.sum(row * row))(rows))
    assert program(x).tolist() == [5.0, 34.0]


def test_functions_with_derivatives_of_their_own_keep_them() -> None:
    @nnc.custom_vjp
    def twice(x: Any, w: Any) -> Any:
        return x * w

    twice.defvjp(lambda x, w: (x * w, (x, w)), lambda saved, g: (g * 100, g * saved[0]))
    x, w = EAGER.asarray([1.0, 2.0]), EAGER.asarray(3.0)

    def total(x: Any, w: Any) -> Any:
        return EAGER.ops.sum(nnc.vmap(twice, in_axes=(0, None))(x, w))

    slopes = EAGER.grad(total, (0, 1))(x, w)
    assert [s.numpy().tolist() for s in slopes] == [[100.0, 100.0], 3.0]
    each = nnc.vmap(EAGER.grad(twice), in_axes=(0, None))(x, w)
    assert each.numpy().tolist() == [100.0, 100.0]


def test_they_use_rows_from_around_them_where_nothing_is_differentiated() -> None:
    x, w = EAGER.asarray([1.0, 2.0]), EAGER.asarray([10.0, 20.0])

    def body(row: Any, factor: Any) -> Any:
        times = nnc.custom_jvp(lambda v: v * factor)
        times.defjvp(lambda primals, tangents: (primals[0] * factor, tangents[0] * factor))
        return times(row)

    assert nnc.vmap(body)(x, w).numpy().tolist() == [10.0, 40.0]
    outer = nnc.vmap(lambda factor: nnc.vmap(lambda row: body(row, factor))(x))(w)
    assert outer.numpy().tolist() == [[10.0, 20.0], [20.0, 40.0]]
    assert nnc.vmap(EAGER.grad(body))(x, w).numpy().tolist() == [10.0, 20.0]
    with pytest.raises(BatchingError, match="uses a row from around it"):
        EAGER.grad(lambda x: EAGER.ops.sum(nnc.vmap(body)(x, w)))(x)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: nnc.vmap(lambda r: r, in_axes=None)(x), "every in_axes is None"),
        (lambda x: nnc.vmap(lambda a, b: a + b)(x, EAGER.asarray([1.0, 2.0, 3.0])), "given 2 and 3"),
        (lambda x: nnc.vmap(lambda r: r, in_axes=(0, 0))(x), "in_axes names 2 arguments, given 1"),
        (lambda x: nnc.vmap(lambda r: r, in_axes=5)(x), "axis 5"),
        (lambda x: nnc.vmap(lambda r: r, out_axes=None)(x), "differs from row to row"),
        (lambda x: nnc.vmap(lambda r: r)([1.0]), "stack=stack"),
        (lambda x: nnc.vmap(lambda r: EAGER.ops.print(r))(x), "has an effect"),
        (lambda x: nnc.vmap(lambda r: EAGER.ops.matmul(r, r))(x), "matmul"),
    ],
)
def test_what_it_refuses(call: Any, words: str) -> None:
    with pytest.raises(NncError, match=words):
        call(EAGER.asarray([[1.0, 2.0], [3.0, 4.0]]))


def test_rows_do_not_outlive_their_vmap() -> None:
    kept: list[Any] = []
    nnc.vmap(lambda r: (kept.append(r), r)[1])(EAGER.asarray([1.0, 2.0]))
    with pytest.raises(NncError, match="had returned"):
        kept[0] + 1


def test_a_rule_of_ones_own() -> None:
    calls: list[Any] = []

    def rule(call: Any) -> Any:
        calls.append(call.op.name)
        return batching.elementwise(call)

    stack = nnc.eager().insert(partial(nnc.Batching, rules=(("exp", rule),)))
    found = nnc.vmap(stack.ops.exp, stack=stack)(stack.asarray([0.0, 0.0]))
    assert (found.numpy().tolist(), calls) == ([1.0, 1.0], ["exp"])


def test_a_rule_that_is_wrong_is_refused() -> None:
    stack = nnc.eager().insert(partial(nnc.Batching, rules=(("sum", batching.as_is),)))
    with pytest.raises(BatchingError, match=r"the batching rule of sum gives \(1, 1, 1\), its rows want \(2, 1, 1\)"):
        nnc.vmap(lambda r: stack.ops.sum(r, keepdims=True), stack=stack)(stack.asarray(np.ones((2, 3, 2))))


@pytest.mark.parametrize("name", ["scatter_add", "scatter_set", "scatter_multiply", "scatter_min", "scatter_max"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_rows_are_written_at_indices_of_their_own_by_one_operator(name: str, axis: int) -> None:
    draw, shape = np.random.default_rng(3), (3, 4, 2)
    at = axis % 3
    rows, into = LAZY.input("x", ("n", *shape), "float64"), getattr(LAZY.ops, name)

    def written(x: Any, i: Any, u: Any) -> Any:
        return into(x, i, u, axis=axis)

    for inner in ((), (3,), (2, 2), (0,)):
        some = (*shape[:at], *inner, *shape[at + 1 :])
        inputs = [rows, LAZY.input("i", ("n", *inner), "int64"), LAZY.input("u", ("n", *some), "float64")]
        program = LAZY.compile(inputs, nnc.vmap(written)(*inputs))
        for count in (0, 1, 4):
            indices = draw.integers(-shape[at], shape[at], size=(count, *inner))
            x, u = draw.normal(size=(count, *shape)), draw.normal(size=(count, *some))
            wanted = [written(*map(LAZY.asarray, each)).numpy() for each in zip(x, indices, u, strict=True)]
            np.testing.assert_array_equal(program(x, indices, u), np.reshape(wanted, (count, *shape)))
            if count:
                found = nnc.vmap(written, in_axes=(None, 0, None))(*map(LAZY.asarray, (x[0], indices, u[0])))
                wanted = [written(*map(LAZY.asarray, (x[0], i, u[0]))).numpy() for i in indices]
                np.testing.assert_array_equal(found.numpy(), np.array(wanted))


def test_an_index_outside_of_a_row_is_refused() -> None:
    for index in (4, -5, 7):
        with pytest.raises(RunError, match=r"index .* is outside of an axis"):
            nnc.vmap(lambda x, i: EAGER.ops.scatter_set(x, i, x[0]))(
                EAGER.asarray(np.zeros((2, 4))), EAGER.asarray([0, index])
            )
