"""Matrix products, small tensors: fused (`graph/rules/fuse_conv`, `graph/rules/fuse_attention`, `graph/rules/combine`).

What rewriting makes of matrix products and of what is left on small tensors has the values of the parts.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.device.shared.namespace import candidates, choose, writing
from nnc_func.errors import ShapeError
from nnc_func.graph.node import topological
from nnc_func.graph.ops import CATALOGUE
from nnc_func.tree import flatten

LAZY = nnc.lazy()
OPS = LAZY.ops
RNG = np.random.default_rng(0)


def names(tensors: Any) -> list[str]:
    roots = LAZY.optimiser.optimise([t.value for t in tensors]).roots
    return sorted(n.op.name for n in topological(roots) if n.args)


def check_equal(inputs: Any, outputs: Any) -> None:
    """The program, compared with the eager engine on the graph as it was written."""
    program = LAZY.compile(inputs, outputs)
    program.plan.verify()
    given = [RNG.standard_normal(i.shape).astype("float32") for i in inputs]
    eager = nnc.eager().swap(type=LAZY.type)
    leaves, structure = flatten(outputs)
    wanted = LAZY.graph.close([i.value for i in inputs], [o.value for o in leaves], (), "wanted", structure)
    for found, like in zip(program(*given), eager.engine.compile(wanted.to(eager))(*given), strict=True):
        np.testing.assert_allclose(found, like, rtol=1e-5, atol=1e-5)


def inputs(*shapes: Any) -> Any:
    return [LAZY.input(name, shape) for name, shape in zip("abcdef", shapes, strict=False)]


# --- products --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [3, 700])
def test_a_dense_layer_is_one_operator(rows: int) -> None:
    x, w, b = inputs((rows, 8), (8, 300), (300,))
    y = OPS.tanh(x @ w + b)
    assert names([y]) == ["matmul_blockwise"]
    check_equal([x, w, b], [y])


def test_factors_and_an_addend_are_done_with_the_product() -> None:
    a, b, c = inputs((4, 3), (4, 5), (3, 5))
    y = 0.5 * OPS.matmul(a, b, transpose_a=True) + 2 * c
    assert names([y]) == ["matmul_blockwise"]
    check_equal([a, b, c], [y])


def test_products_of_stacks_are_finished_block_by_block() -> None:
    a, b, c = inputs((2, 300, 4), (2, 4, 300), (300, 1))
    check_equal([a, b, c], [OPS.sigmoid(a @ b * 0.5 + c) * (a @ b)])


def test_of_two_products_that_are_added_the_last_waits_for_the_first() -> None:
    a, b, c, d = inputs((3, 4), (4, 5), (3, 6), (6, 5))
    y = a @ b + c @ d
    assert names([y]) == ["matmul", "matmul_blockwise"]
    check_equal([a, b, c, d], [y])


def test_a_chain_of_sums_of_products_keeps_no_product_waiting() -> None:
    factors = inputs(*((4, 4) for _ in range(6)))
    total = factors[0]
    for each in factors[1:]:
        total = total + each @ each
    fused = [n for n in topological(LAZY.optimiser.optimise([total.value]).roots) if n.args]
    assert [n.op.name for n in fused] == ["matmul_blockwise"] * 5
    assert all(len(n.args) == 3 for n in fused)
    check_equal(factors, [total])


def test_what_makes_an_operand_joins_if_nothing_else_uses_it() -> None:
    g, w, y = inputs((3, 4), (4, 5), (3, 5))
    masked = OPS.where(y > 0, g @ w, 0)
    assert names([masked]) == ["matmul_blockwise"]
    assert names([masked, OPS.cast(y > 0, dtype="float32")]) == ["cast", "greater", "matmul_blockwise"]
    check_equal([g, w, y], [masked])


# --- attention -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
def test_attention_never_has_all_scores_in_memory(causal: bool) -> None:
    q, k, v = inputs((2, 700, 8), (2, 700, 8), (2, 700, 8))
    y = OPS.scaled_dot_product_attention(*(OPS.expand_dims(each, axis=0) for each in (q, k, v)), causal=causal)
    assert "attention_blockwise" in names([y])
    assert sum(LAZY.compile([q, k, v], [y]).plan.arenas.values()) < 700 * 700 * 4
    check_equal([q, k, v], [y])


def test_attention_with_a_mask_that_is_added_to_transposed_keys() -> None:
    q, k, v, mask = inputs((2, 1, 280, 4), (3, 4, 280), (3, 280, 4), (280,))
    y = OPS.softmax(q @ k * 0.5 + mask, axis=-1) @ v
    assert names([y]) == ["attention_blockwise"]
    check_equal([q, k, v, mask], [y])


def test_weights_that_are_used_elsewhere_are_kept() -> None:
    q, k, v = inputs((300, 8), (8, 300), (300, 8))
    weights = OPS.softmax(q @ k, axis=-1)
    assert "attention_blockwise" not in names([weights @ v, weights])
    assert "attention_blockwise" not in names([OPS.softmax(q @ k, axis=0) @ v])
    check_equal([q, k, v], [weights @ v, weights])


# --- small tensors ---------------------------------------------------------------------------------------


def test_derivatives_of_gates_are_one_operator_each() -> None:
    x, c = inputs((2, 3), (2, 3))
    gradients = LAZY.grad(lambda x, c: (OPS.sigmoid(x) * OPS.tanh(c)).sum(), argnums=(0, 1))(x, c)
    assert {"sigmoid_gradient", "tanh_gradient"} <= set(names(gradients))
    assert "subtract" not in names(gradients)
    check_equal([x, c], list(gradients))


@pytest.mark.parametrize("slope", [lambda y, one: 1 * (one - OPS.square(y)), lambda y, one: y * (one - y)])
def test_a_derivative_that_a_one_of_more_elements_widens_keeps_its_shape(slope: Any) -> None:
    y, g = inputs((1, 3), (1, 3))
    gradient = g * slope(y, LAZY.asarray(np.ones((2, 1), "float32")))
    assert gradient.shape == (2, 3)
    check_equal([y, g], [gradient])


@pytest.mark.parametrize("update", [nn.SGD(momentum=0.9), nn.Adagrad(), nn.RMSprop(), nn.Adam()], ids=str)
def test_an_update_of_a_small_parameter_has_few_operators(update: Any) -> None:
    g, h, k, p, rate = inputs((3,), (3,), (3,), (3,), ())
    slots = (h,) if len(update._names()) == 1 else (h, k)
    new, kept = update.one(g, slots, p, LAZY.asarray(np.float32(2)), rate)
    found = names([new, *kept])
    assert ("adaptive_update" in found) == (not isinstance(update, nn.SGD))
    assert "fma" in found


def test_large_elementwise_groups_are_left_to_general_fusion() -> None:
    x, y, z = inputs(*((1 << 20,) for _ in range(3)))
    assert names([x * y + z]) == ["blockwise"]


# --- kernels that are bound ------------------------------------------------------------------------------

LIBRARIES = nnc.CPU().libraries
BOUND = [op for op in CATALOGUE.values() if any(k.bound and k.library is None for k in op.kernels)]


@pytest.mark.parametrize("op", BOUND, ids=lambda op: op.name)
def test_bound_kernels_write_what_the_others_do(op: Any) -> None:
    cases = op.samples.cases or (((((3, 2), "float32"),) * len(op.args), {}), ((((), "float32"),) * len(op.args), {}))
    tried = 0
    for specs, params in cases:
        specs = [s if s and isinstance(s[0], tuple) else (s, "float32") for s in specs]
        given = [RNG.uniform(0.1, 1, s[0]).astype(s[1]) for s in specs]
        avals = tuple(Aval(a.shape, a.dtype) for a in given)
        items = op.canonical(params)
        found = LAZY.device.bind(op, *given, **params)
        outs = tuple(np.empty_like(w) for w in (found if isinstance(found, tuple) else (found,)))
        into = tuple(map(np.empty_like, outs))
        for kernel in candidates(op, avals, dict(items), "numpy", LIBRARIES):
            if kernel.bound is None:
                continue
            shapes = kernel.scratch(avals, **dict(items)) if kernel.scratch else ()
            scratch = tuple(np.empty(s, d) for s, d in shapes)
            of = kernel.bound((*avals, *(Aval(o.shape, o.dtype) for o in outs)), **dict(items))
            if of is not None:
                of(*scratch)(*given, *outs)
                writing(np, kernel, items, len(outs), scratch)(*given, *into)
                for out, other in zip(outs, into, strict=True):
                    np.testing.assert_array_equal(out, other)
                tried += 1
    assert tried


@pytest.mark.parametrize("shapes", [((70000,),) * 3, ((5, 30000), (30000,), (5, 1)), ((1, 70000), (3, 1), ())])
def test_a_bound_kernel_goes_through_many_blocks(shapes: Any) -> None:
    fma = CATALOGUE["fma"]
    given = [RNG.uniform(0.1, 1, s).astype("float32") for s in shapes]
    avals = tuple(Aval(a.shape, a.dtype) for a in given)
    out = np.empty(np.broadcast_shapes(*shapes), "float32")
    kernel = choose(fma, avals, {}, "numpy")
    assert kernel.bound is not None
    assert kernel.scratch is not None
    scratch = tuple(np.empty(s, d) for s, d in kernel.scratch(avals))
    kernel.bound((*avals, Aval(out.shape, out.dtype)))(*scratch)(*given, out)
    assert scratch[0].size < out.size
    np.testing.assert_array_equal(out, given[0] * given[1] + given[2])


def test_a_result_that_is_not_made_of_the_product_is_refused() -> None:
    """Its shape would be another one than the product's, which the result is written over."""
    a, other = LAZY.input("a", (2, 2), "float64"), LAZY.input("other", (2, 1), "float64")
    for name, given in (("matmul_blockwise", (a, a, a, other)), ("attention_blockwise", (a, a, a, a, other))):
        with pytest.raises(ShapeError, match="wants a result that is made of the"):
            getattr(LAZY.ops, name)(*given, body=Body.of(3, (CATALOGUE["add"], 0, 1), (CATALOGUE["tanh"], 2)))
