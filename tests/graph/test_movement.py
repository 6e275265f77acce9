"""What is left of movement; joined products (`graph/rules/move`, `graph/rules/pushing`, `graph/rules/joined_products`).

Movement is merged, cancelled, and moved past other operators; what is left has the same values.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import NncError
from nnc_func.graph.node import topological
from nnc_func.graph.rules import EXACT, REASSOCIATION

LAZY, EAGER = nnc.lazy(), nnc.eager()
FREELY = LAZY.swap(optimiser=LAZY.optimiser.with_numerics(REASSOCIATION))
FAST = LAZY.swap(optimiser=LAZY.optimiser.with_numerics(REASSOCIATION, fast_math=True))


def ran(f: Any, *shapes: Any, dtype: str = "float64", lazy: Any = LAZY) -> list[str]:
    """Operators of the optimised graph, once its values are those of the eager stack."""
    given_ = [np.random.default_rng(i).normal(size=s).astype(dtype) for i, s in enumerate(shapes)]
    programs = []
    for stack in (lazy, EAGER):
        inputs = [stack.input(f"x{i}", s, dtype) for i, s in enumerate(shapes)]
        programs.append(stack.compile(inputs, f(stack.ops, *inputs)))
    np.testing.assert_allclose(*(p(*given_) for p in programs), rtol=1e-9, atol=1e-9)
    programs[0].plan.verify()
    return [n.op.name for n in programs[0].graph.nodes if n.args]


@pytest.mark.parametrize(
    ("f", "shapes", "left"),
    [
        # reshapes and transposes
        (lambda o, x: o.squeeze(o.expand_dims(x, axis=1), axis=1), [(2, 3)], []),
        (lambda o, x: o.reshape(o.permute_dims(o.reshape(x, shape=(2, 1, 3)), axes=(1, 0, 2)), shape=(2, 3)), [(6,)],
         ["reshape"]),
        (lambda o, x: o.permute_dims(o.sin(o.permute_dims(x, axes=(1, 0, 2))), axes=(1, 0, 2)), [(2, 3, 4)], ["sin"]),
        (lambda o, x, y: o.permute_dims(x) * o.permute_dims(y, axes=(1, 0)), [(2, 3), (2, 3)],
         ["multiply", "permute_dims"]),
        (lambda o, x: o.reshape(o.sin(o.reshape(x, shape=(6,))), shape=(2, 3)), [(2, 3)], ["sin"]),
        (lambda o, x: o.flip(o.flip(x, axis=0), axis=(0, 1)), [(2, 3)], ["flip"]),
        # broadcasts
        (lambda o, x: o.sin(o.broadcast_to(x, shape=(5, 3))), [(3,)], ["sin", "broadcast_to"]),
        (lambda o, x, y: o.broadcast_to(x, shape=(5, 3)) * o.broadcast_to(y, shape=(5, 3)), [(3,), (3,)],
         ["multiply", "broadcast_to"]),
        (lambda o, x, y: o.expand_dims(x, axis=(0, 1)) + y, [(3,), (2, 2, 3)], ["add"]),
        (lambda o, x, y: o.repeat(x, repeats=4, axis=0) + y, [(1, 3), (4, 3)], ["add"]),
        (lambda o, x, y: o.repeat(x, repeats=4, axis=0) + o.repeat(y, repeats=4, axis=0), [(1, 3), (1, 3)],
         ["add", "broadcast_to"]),
        # reductions
        (lambda o, x: o.sum(o.permute_dims(x, axes=(2, 0, 1)), axis=0), [(2, 3, 4)], ["sum"]),
        (lambda o, x: o.mean(o.permute_dims(o.reshape(x, shape=(3, 8)))), [(2, 3, 4)], ["mean"]),
        (lambda o, x: o.reshape(o.sum(x, axis=(0, 1)), shape=(1, 1, 4)), [(2, 3, 4)], ["sum"]),
        (lambda o, x: o.squeeze(o.max(x, axis=1, keepdims=True), axis=1), [(2, 3, 4)], ["max"]),
        (lambda o, x: o.max(o.broadcast_to(x, shape=(5, 2, 3)), axis=(0, 2)), [(2, 3)], ["max"]),
        (lambda o, x: o.sum(o.broadcast_to(x, shape=(5, 2, 3)), axis=(0, 2)), [(2, 3)], ["sum", "multiply"]),
        # products
        (lambda o, x, y: o.matmul(o.permute_dims(x), o.permute_dims(y)), [(3, 2), (4, 3)], ["matmul"]),
        (lambda o, x, y: o.permute_dims(o.matmul(o.permute_dims(x), y)), [(3, 2), (3, 4)], ["matmul"]),
        (lambda o, x, y: o.tensordot(o.permute_dims(x, axes=(0, 2, 1)), y, axes=((2,), (0,))), [(2, 3, 4), (3, 5)],
         ["tensordot"]),
        # slices and gathers
        (lambda o, x: o.take(x, np.array([3, 1, -5]), axis=0), [(5, 4)], ["take"]),
        (lambda o, x: o.take(x, np.array([3, 1, -6]), axis=0), [(6, 4)], ["take"]),
        (lambda o, x: o.take(x, np.array([4, 2, -6]), axis=0), [(6, 4)], ["slice"]),
        (lambda o, x: o.take(x, np.array(1), axis=1), [(5, 4)], ["slice", "reshape"]),
        (lambda o, x: o.take(o.stack(o.sin(x), x, axis=0), np.array(1), axis=0), [(5, 4)], []),
        (lambda o, x: o.sin(x)[1:3], [(5, 4)], ["slice", "sin"]),
        (lambda o, x, y: (x * y)[:, 1], [(5, 4), (5, 4)], ["slice", "slice", "multiply", "reshape"]),
    ],
)  # fmt: skip
def test_what_is_left(f: Any, shapes: Any, left: list[str]) -> None:
    assert sorted(ran(f, *shapes)) == sorted(left)


def test_reductions_in_a_row_are_one_where_sums_may_be_taken_in_another_order() -> None:
    assert ran(lambda o, x: o.max(o.max(x, axis=0), axis=1), (2, 3, 4)) == ["max"]
    assert ran(lambda o, x: o.sum(o.sum(x, axis=0), axis=1), (2, 3, 4)) == ["sum", "sum"]
    assert ran(lambda o, x: o.sum(o.sum(x, axis=0), axis=1), (2, 3, 4), lazy=FREELY) == ["sum"]


def test_what_others_use_is_not_computed_twice() -> None:
    x = LAZY.input("x", (4, 4), "float64")
    o = LAZY.ops
    whole, product = o.sin(x), o.matmul(x, o.cos(x))
    program = LAZY.compile([x], [whole, whole[1], product, o.permute_dims(product), o.sum(whole, axis=0)[None]])
    found = [n.op.name for n in program.graph.nodes]
    assert found.count("sin") == found.count("matmul") == found.count("sum") == 1


@pytest.mark.parametrize("extent", [0, 1, 3])
def test_unknown_extents(extent: int) -> None:
    """Movement of tensors whose first extent is known only when the program runs."""

    def f(o: Any, x: Any) -> list[Any]:
        n = x.shape[0]
        wide = o.broadcast_to(o.expand_dims(x, axis=0), shape=(2, n, 3))
        turned = o.permute_dims(x)
        return [
            o.sum(wide, axis=0), o.sum(wide, axis=(0, 1)), o.sin(wide), o.matmul(turned, x), o.sum(turned, axis=1),
            o.reshape(o.sum(x, axis=0), shape=(1, 3)), o.sin(o.reshape(x, shape=(n * 3,))), o.flip(x, axis=0),
        ]  # fmt: skip

    array = np.random.default_rng(0).normal(size=(extent, 3))
    x = LAZY.input("x", ("n", 3), "float64")
    program = LAZY.compile([x], f(LAZY.ops, x))
    wanted = f(EAGER.ops, EAGER.asarray(array))
    for found, each in zip(program(array), wanted, strict=True):
        np.testing.assert_allclose(found, np.asarray(each), rtol=1e-12)


# --- any graph -------------------------------------------------------------------------------------------


def _moved(o: Any, draw: Any, x: Any) -> Any:
    rank = len(x.shape)
    axis = draw(st.integers(0, max(rank - 1, 0)))
    order = tuple(draw(st.permutations(range(rank))))
    kinds = [
        lambda: o.permute_dims(x, axes=order),
        lambda: o.reshape(x, shape=draw(st.sampled_from([(-1,), x.shape[::-1], (1, *x.shape), (*x.shape, 1)]))),
        lambda: o.expand_dims(x, axis=axis),
        lambda: o.squeeze(x, axis=axis),
        lambda: o.broadcast_to(x, shape=tuple(3 if n == 1 else n for n in x.shape)),
        lambda: o.flip(x, axis=axis),
        lambda: x[tuple(slice(*sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n))))) for n in x.shape)],
        lambda: getattr(o, draw(st.sampled_from(("sum", "max", "mean"))))(x, axis=axis, keepdims=draw(st.booleans())),
        lambda: getattr(o, draw(st.sampled_from(("negative", "tanh", "relu"))))(x),
        lambda: o.matmul(x, o.permute_dims(x, axes=(*range(rank - 2), rank - 1, rank - 2))),
    ]
    return kinds[draw(st.integers(0, len(kinds) - 1))]()


def _chain(o: Any, draw: Any, x: Any, y: Any) -> Any:
    found = [x, y]
    for _ in range(draw(st.integers(2, 9))):
        a = found[draw(st.integers(0, len(found) - 1))]
        try:
            if draw(st.integers(0, 3)):
                made = _moved(o, draw, a)
            else:
                b = found[draw(st.integers(0, len(found) - 1))]
                made = getattr(o, draw(st.sampled_from(("add", "multiply", "maximum"))))(a, b)
        except NncError:
            continue
        if np.prod(made.shape) <= 500:
            found.append(made)
    return found[-1]


@given(data=st.data())
def test_any_chain_of_movement(data: Any) -> None:
    """Optimised, at every level of numerics, it has the values of the eager stack."""
    shapes = [data.draw(st.sampled_from([(2, 3), (3, 2), (1, 3), (3,), (2, 1, 3), ()])) for _ in range(2)]
    arrays = [np.random.default_rng(i).normal(size=s) for i, s in enumerate(shapes)]
    inputs = [FREELY.input(f"x{i}", s, "float64") for i, s in enumerate(shapes)]
    drawn: list[Any] = []

    def draw(strategy: Any) -> Any:
        drawn.append(data.draw(strategy))
        return drawn[-1]

    root = _chain(FREELY.ops, draw, *inputs)
    again = iter(drawn)
    wanted = _chain(EAGER.ops, lambda _: next(again), *map(EAGER.asarray, arrays))
    program = FREELY.compile(inputs, root)
    np.testing.assert_allclose(program(*arrays), np.asarray(wanted), rtol=1e-9, atol=1e-9)
    optimised, _ = FREELY.graph.optimised(program.graph)
    assert optimised.roots == program.graph.roots


# --- joins -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "shapes", "left"),
    [
        (lambda o, x: o.concat(x[:2], x[2:], axis=0), [(5, 3)], []),
        (lambda o, x: o.concat(*o.split(x, sections=(1, 2, 2), axis=0), axis=0), [(5, 3)], []),
        (lambda o, x: o.stack(*(x[:, i] for i in range(3)), axis=1), [(5, 3)], []),
        (lambda o, x: o.concat(*(x[i] for i in range(1, 4)), axis=0), [(5, 2, 3)], ["slice", "reshape"]),
        (lambda o, x: o.tile(x, repetitions=(4, 1)) + 1, [(1, 3)], ["add", "broadcast_to"]),
        (lambda o, x: o.tile(o.tile(x, repetitions=(2,)), repetitions=(2, 1)), [(2, 3)], ["tile"]),
        (lambda o, x: o.pad(o.pad(x, widths=((1, 0),)), widths=((0, 2),)), [(3,)], ["pad"]),
        (lambda o, x: o.concat(o.pad(x, widths=((0, 0),)), axis=0), [(3,)], []),
        (lambda o, x, y: o.concat(o.expand_dims(x, axis=1), o.reshape(y, shape=(2, 1, 3)), axis=1), [(2, 3), (2, 3)],
         ["stack"]),
        (lambda o, x: [o.reshape(p, shape=(2, 3)) for p in o.split(x, sections=4, axis=1)], [(2, 4, 3)],
         ["reshape", "split"]),
        (lambda o, x, y: o.concat(x[:2], y, x[2:], axis=0), [(5, 3), (1, 3)], ["slice", "slice", "concat"]),
        (lambda o, x: o.concat(x[2:], x[:2], axis=0), [(5, 3)], ["slice", "slice", "concat"]),
    ],
)  # fmt: skip
def test_joins_of_parts(f: Any, shapes: Any, left: list[str]) -> None:
    assert sorted(ran(f, *shapes)) == sorted(left)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=5), st.integers(0, 1))
def test_any_join_of_slices(bounds: list[tuple[int, int]], axis: int) -> None:
    def f(o: Any, x: Any) -> Any:
        key = [slice(None)] * 2
        parts = []
        for bound in bounds:
            key[axis] = slice(min(bound), max(bound))
            parts.append(x[tuple(key)])
        return o.concat(*parts, axis=axis)

    ran(f, (5, 5))


# --- products made together ------------------------------------------------------------------------------


def _recurrence(o: Any, x: Any, w: Any, u: Any, steps: int = 6) -> Any:
    h = o.matmul(x[0], w)
    for t in range(1, steps):
        h = o.tanh(o.matmul(x[t], w) + o.matmul(h, u))
    return h


def test_products_with_one_matrix_are_one_but_for_those_that_need_each_other() -> None:
    left = ran(_recurrence, (6, 3, 8), (8, 16), (16, 16))
    assert sum(name.startswith("matmul") for name in left) == 1 + 5
    assert left.count("slice") == left.count("concat") == 0


def test_gradients_of_a_recurrence_are_one_product_each() -> None:
    shapes = ((6, 3, 8), (8, 16), (16, 16))

    def gradients(stack: Any, x: Any, w: Any, u: Any) -> Any:
        return stack.grad(lambda w, u: _recurrence(stack.ops, x, w, u).sum(), argnums=(0, 1))(w, u)

    arrays = [np.random.default_rng(i).normal(size=s) for i, s in enumerate(shapes)]
    programs = []
    for stack in (FREELY, EAGER):
        inputs = [stack.input(f"x{i}", s, "float64") for i, s in enumerate(shapes)]
        programs.append(stack.compile(inputs, gradients(stack, *inputs)))
    for a, b in zip(*(p(*arrays) for p in programs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    # forward: one, and one a step; backward: one a step, and one for each matrix
    assert sum(n.op.name.startswith("matmul") for n in programs[0].graph.nodes) == (1 + 5) + 5 + 2


def test_groups_of_products_that_need_each_other_are_not_both_made_together() -> None:
    """Four products by one matrix need four by another, and the other way round."""

    def f(o: Any, x: Any, y: Any, v: Any, w: Any) -> Any:
        one = [o.matmul(o.tanh(x + i), v) for i in range(4)]
        two = [o.matmul(o.tanh(y + i), w) for i in range(4)]
        later = [o.matmul(o.sin(b), v) for b in two]
        last = [o.matmul(o.sin(a), w) for a in one]
        total = 0.0
        for each in (*later, *last):
            total = total + each
        return total

    ran(f, (3, 8), (3, 8), (8, 8), (8, 8))
    ran(f, (3, 8), (3, 8), (8, 8), (8, 8), lazy=FREELY)


@given(data=st.data())
def test_any_sum_of_products(data: Any) -> None:
    """With flags, batches, and terms that are no products or no sums over the same axes."""
    draw = data.draw
    count, depth = draw(st.integers(2, 6)), [draw(st.integers(1, 3)) for _ in range(6)]
    flags = [draw(st.sampled_from([(False, False), (True, False), (False, True), (True, True)])) for _ in range(2)]
    which = [draw(st.integers(0, 3)) for _ in range(count)]
    batch = draw(st.sampled_from([(), (2,)]))

    def f(o: Any, x: Any, y: Any) -> Any:
        total = None
        for i, kind in enumerate(which):
            a, b = o.sin(x[..., : depth[i]] * i), o.cos(y[: depth[i]] * (i % 3))
            left, right = flags[kind % 2]
            a = o.permute_dims(a, axes=(*range(len(batch)), len(batch) + 1, len(batch))) if left else a
            term = o.matmul(a, o.permute_dims(b) if right else b, transpose_a=left, transpose_b=right)
            if kind == 3:
                term = o.broadcast_to(o.sum(b, axis=0), shape=term.shape)
            total = term if total is None else total + term
        return total

    ran(f, (*batch, 8, 3), (3, 16), lazy=FREELY)


# --- chains of products ----------------------------------------------------------------------------------


def _multiplications(lazy: Any, root: Any) -> int:
    nodes = lazy.graph.optimised(lazy.graph.close([], [root.value]))[0].nodes
    return sum(
        n.aval.size * n.args[0].shape[0 if n.params["transpose_a"] else 1] for n in nodes if n.op.name == "matmul"
    )


def test_a_chain_of_products_takes_the_fewest_multiplications() -> None:
    o = FAST.ops
    # the example of Cormen, Leiserson, Rivest and Stein, Introduction to Algorithms, 15.2
    extents = (30, 35, 15, 5, 10, 20, 25)
    matrices = [FAST.variable(f"m{i}", np.ones(pair)) for i, pair in enumerate(itertools.pairwise(extents))]
    root = matrices[0]
    for each in matrices[1:]:
        root = o.matmul(root, each)
    assert _multiplications(FAST, root) == 15_125


@given(data=st.data())
def test_any_chain_of_products(data: Any) -> None:
    draw = data.draw
    count = draw(st.integers(2, 6))
    extents = [draw(st.sampled_from([1, 2, 3, 7])) for _ in range(count + 1)]
    flags = [draw(st.booleans()) for _ in range(count)]
    shapes = [(n, m) if flag else (m, n) for m, n, flag in zip(extents, extents[1:], flags, strict=False)]
    cuts = [draw(st.integers(0, 5)) for _ in range(count)]

    def f(o: Any, *xs: Any) -> Any:
        listed = [(x, flag) for x, flag in zip(xs, flags, strict=True)]
        for cut in cuts[1:]:
            k = cut % (len(listed) - 1)
            (a, left), (b, right) = listed[k : k + 2]
            listed[k : k + 2] = [(o.matmul(a, b, transpose_a=left, transpose_b=right), False)]
        return listed[0][0]

    ran(f, *shapes, lazy=FAST)


@pytest.mark.parametrize(("name", "kept"), [("power", True), ("atan2", True), ("add", False)])
def test_exact_rules_leave_operands_as_they_lie_where_that_changes_a_rounding(name: str, kept: bool) -> None:
    """A power whose exponent is one number, a square, is another loop of NumPy than that of an array of exponents."""
    lazy = nnc.lazy()
    exact = lazy.swap(optimiser=lazy.optimiser.with_numerics(EXACT))
    for stack, found in ((exact, kept), (lazy, False)):
        x, y = stack.input("x", (3, 4)), stack.input("y", ())
        applied = getattr(stack.ops, name)(x, stack.ops.broadcast_to(y, shape=(3, 4)))
        (root,) = stack.optimiser.optimise([applied.value]).roots
        assert ("broadcast_to" in [n.op.name for n in topological([root])]) is found
