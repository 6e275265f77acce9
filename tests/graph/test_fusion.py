"""Elementwise groups, and masks: one pass over memory, with the same bits (`graph/rules/fuse`, `graph/ops/fused`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.device.kernels import blocks
from nnc_func.errors import DTypeError, ShapeError
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.ops import fused
from nnc_func.graph.ops.fused import blockwise
from nnc_func.graph.rules import EXACT
from nnc_func.graph.rules.fuse import fuse_elementwise
from tests.graph.rewriting import OPTIMISER, bind, check_equal, fills, names, variable

ANY_SIZE = OPTIMISER.without_rules("fuse_elementwise").with_rules(fuse_elementwise.from_size(0), phase="fuse")


def adagrad(on: Any, shape: Any) -> list[Any]:
    w, g, h = (variable(n, shape, on=on) for n in "wgh")
    rate = variable("rate", (), on=on)
    total = bind("add", h, bind("multiply", g, g, on=on), on=on)
    below = bind("add", bind("sqrt", total, on=on), 1e-8, on=on)
    step = bind("divide", bind("multiply", rate, g, on=on), below, on=on)
    return [bind("subtract", w, step, on=on), total]


@pytest.mark.parametrize("shape", [(7,), (1000,), (3, 5, 7), (1, 1), ()])
@pytest.mark.parametrize("block", [16, 64, 1 << 18])
def test_an_update_is_one_pass_with_the_same_bits(shape: Any, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", block)
    roots = adagrad(ANY_SIZE, shape)
    found = ANY_SIZE.optimise(roots)
    assert names(found.roots[0]).count("blockwise_several") == 1, "the sum of squares is asked for, too"
    feeds = {n: np.abs(a) for n, a in fills(roots).items()}
    check_equal(roots, found.roots, EXACT, feeds)
    assert ANY_SIZE.optimise(found.roots).roots == found.roots


def test_small_results_are_not_fused() -> None:
    roots = adagrad(OPTIMISER, (10,))
    assert "blockwise" not in names(OPTIMISER.optimise(roots).roots[0])


@pytest.mark.parametrize("bias", [(4,), (3, 1), (2, 1, 1), (1,), (5, 2, 3, 4)])
@pytest.mark.parametrize("block", [16, 100, 1 << 18])
def test_groups_broadcast_and_choose(bias: Any, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", block)
    x, b, g = variable("x", (5, 2, 3, 4)), variable("b", bias), variable("g", (5, 2, 3, 4))
    forward = bind("relu", bind("add", x, b))
    backward = bind("where", bind("greater", forward, 0), bind("multiply", g, 2), 0)
    roots = [forward, backward]
    found = ANY_SIZE.optimise(roots).roots
    assert {r.node.op.name for r in found} == {"blockwise_several"}, "they read the same sum"
    feeds = fills(roots)
    feeds[g].flat[::3] = np.nan
    feeds[x].flat[::5] = np.inf
    check_equal(roots, found, EXACT, feeds)


def test_a_group_writes_over_any_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 64)
    kernel = next(k for k in blockwise.kernels if k.name == "in blocks")
    random = np.random.default_rng(0)
    arrays = [np.abs(random.standard_normal(100)).astype(np.float32) for _ in range(3)]
    arrays += [np.asarray(np.float32(0.1)), np.asarray(np.float32(1e-3))]
    body = fused.ADAGRAD
    wanted = kernel.compute(np, *arrays, body=body)
    reference_value = blockwise.kernels[-1].compute(np, *arrays, body=body)
    assert np.array_equal(wanted, reference_value)
    for position in range(3):
        given_arrays = [a.copy() for a in arrays]
        scratch = tuple(np.empty(*each) for each in kernel.scratch(given_arrays, body=body))
        kernel.into(np, given_arrays, (given_arrays[position],), scratch, body=body)
        assert np.array_equal(given_arrays[position], wanted)


def test_masks_keep_bits() -> None:
    x, c = variable("x", (6,)), variable("c", (6,), "bool")
    feeds = {x: np.float32([np.nan, np.inf, -0.0, np.nan, -1.0, 2.0]), c: np.array([1, 1, 1, 0, 0, 1], bool)}
    roots = [bind("where", c, x, 0), bind("where", c, 0, x), bind("where", c, x, -0.0), bind("where", c, x, 1)]
    found = OPTIMISER.optimise(roots).roots
    assert [r.node.op.name for r in found] == ["masked", "masked", "where", "where"]
    check_equal(roots, found, EXACT, feeds)


@pytest.mark.parametrize("numbers", [(0.0, -0.0), (-0.0, 0.0)])
def test_bodies_that_differ_in_the_sign_of_a_zero_are_different(numbers: Any) -> None:
    """Their parameters are equal tuples, so the kernel of one was remembered for the other."""
    stack = nnc.eager()
    x = stack.asarray(np.full(64, -1.0, "float32"))
    for number in numbers:
        body = Body.of(2, (OPS["add"], 0, 1), (OPS["clip"], 2, {"min": number, "max": 5.0}), (OPS["reciprocal"], 3))
        with np.errstate(divide="ignore"):
            found = stack.ops.blockwise(x, x, body=body).numpy()
        assert np.array_equal(np.signbit(found), np.full(64, np.signbit(number)))


def test_a_number_of_another_type_in_a_body_is_not_taken_for_the_one_before() -> None:
    stack = nnc.eager()
    i = stack.asarray(np.arange(5))
    whole, real = (Body.of(2, (OPS["add"], 0, 1), (OPS["clip"], 2, {"min": 0, "max": most})) for most in (2, 2.0))
    assert stack.ops.blockwise(i, i, body=whole).numpy()[-1] == 2
    with pytest.raises(DTypeError, match=r"max=2\.0"):
        stack.ops.blockwise(i, i, body=real)


@pytest.mark.parametrize(
    ("name", "shapes"), [("matmul_blockwise", ((3, 3), (3, 2))), ("conv2d_blockwise", ((1, 3, 3, 1), (2, 2, 1, 2)))]
)
def test_the_cost_of_a_product_counts_its_body_in_its_own_dtype(name: str, shapes: Any) -> None:
    """A gate is of real numbers, though what it is multiplied with, and so the result, is complex."""
    op = OPS[name]
    args = (*(Aval(s, "float64") for s in shapes), Aval((2,), "complex128"))
    params = dict(op.canonical({"body": Body.of(2, (OPS["sigmoid"], 0), (OPS["multiply"], 2, 1))}))
    result = Aval(op.shape(*(a.shape for a in args), **params), op.dtype(*(a.dtype for a in args), **params))
    assert result.dtype == "complex128"
    assert op.cost(args, (result,), **params).flops > 0


@pytest.mark.parametrize("device", [nnc.NumPy(), nnc.CPU()], ids=str)
def test_extents_beside_which_others_are_known(device: nnc.NumPy) -> None:
    """The unknown one must be as large."""
    lazy = nnc.lazy(device)
    x, y = lazy.input("x", ("n", 1000), "float32"), lazy.input("y", (40, 1000), "float32")
    program = lazy.compile([x, y], lazy.ops.exp(x + y) * 2)
    a, b = np.full((40, 1000), 0.5, "float32"), np.full((40, 1000), -0.25, "float32")
    np.testing.assert_allclose(program(a, b), 2 * np.exp(a + b), rtol=1e-6)
    with pytest.raises(ShapeError, match="n is 1 and 40 is 40"):
        program(a[:1], b)
