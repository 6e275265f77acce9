"""Functions as people and files write them out (`graph/rules/logsums`, `graph/rules/slicing`, `graph/rules/images`).

It tells what becomes of them, and that the values stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.body import bodies_of
from nnc_func.graph.rules import REASSOCIATION

LAZY = nnc.lazy()
FAST = LAZY.swap(optimiser=LAZY.optimiser.with_numerics(REASSOCIATION, fast_math=True))
PLAIN = LAZY.swap(optimiser=LAZY.optimiser.without_rules(*(r.name for r in LAZY.optimiser.rules)))
Written = Callable[..., Any]


def left(f: Written, *shapes: tuple[int, ...], stack: Any = LAZY, rtol: float = 2e-5) -> list[str]:
    """Operators that are left of an expression, in bodies too, once its values are those of the graph as written."""
    given = [np.random.default_rng(i).normal(size=s).astype("float32") for i, s in enumerate(shapes)]
    programs = []
    for each in (stack, PLAIN):
        inputs = [each.input(f"x{i}", s, "float32") for i, s in enumerate(shapes)]
        programs.append(each.compile(inputs, f(each.ops, *inputs)))
    np.testing.assert_allclose(programs[0](*given), programs[1](*given), rtol=rtol, atol=1e-5)
    found: list[str] = []
    for node in programs[0].graph.nodes:
        inside = [each.op.name for body in bodies_of(node.items) for each in body.applications]
        found += inside or [node.op.name] * bool(node.args and node.op.view is None)
    return found


# --- activations -----------------------------------------------------------------------------------------

GELUS: dict[str, Written] = {
    "scaled first": lambda o, x: (x * 0.5) * (1 + o.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "by the share": lambda o, x: x * (0.5 * (1 + o.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
}


@pytest.mark.parametrize("f", GELUS.values(), ids=GELUS)
def test_gelu_by_a_tangent_is_weighed_by_a_sigmoid(f: Written) -> None:
    found = left(f, (3, 5))
    assert found.count("sigmoid") == 1
    assert "tanh" not in found
    assert len(found) <= 8


def test_what_is_weighed_by_a_sigmoid_does_not_overflow() -> None:
    x = LAZY.input("x", (1,), "float32")
    y = LAZY.input("y", (1,), "float32")
    program = LAZY.compile([x, y], (x * -0.7) * (1 + LAZY.ops.tanh(y * 0.3)))
    assert np.isfinite(program(np.float32([3e38]), np.float32([0]))).all()


SWISHES: dict[str, Written] = {
    "clip": lambda o, x: x * o.clip(x + 3, min=0, max=6) / 6,
    "relu": lambda o, x: x * o.minimum(o.relu(x + 3), 6) / 6,
    "maximum": lambda o, x: x * o.minimum(o.maximum(x + 3, 0), 6) / 6,
    "upper bound first": lambda o, x: x * o.clip(o.maximum(x + 3, 0), max=6) / 6,
}


@pytest.mark.parametrize("f", SWISHES.values(), ids=SWISHES)
def test_a_hard_swish_is_one_clip_however_it_is_written(f: Written) -> None:
    assert left(f, (3, 5)) == ["add", "clip", "multiply", "divide"]


# --- norms -----------------------------------------------------------------------------------------------

NORMS: dict[str, Written] = {
    "over the root": lambda o, d, v, g: d / o.sqrt(v + 1e-5) * g,
    "by the reciprocal": lambda o, d, v, g: d * (1 / o.sqrt(v + 1e-5)) * g,
    "by a power": lambda o, d, v, g: d * o.power(v + 1e-5, -0.5) * g,
    "scale first": lambda o, d, v, g: d * (g / o.sqrt(v + 1e-5)),
}


@pytest.mark.parametrize("centred", [True, False], ids=["layer norm", "RMS norm"])
@pytest.mark.parametrize("f", NORMS.values(), ids=NORMS)
def test_a_norm_of_large_rows_is_one_operator_however_it_is_written(f: Written, centred: bool) -> None:
    lazy = nnc.lazy(nnc.Null())
    x, g = lazy.input("x", (2048, 512), "float32"), lazy.input("g", (512,), "float32")
    d = x - lazy.ops.mean(x, axis=-1, keepdims=True) if centred else x
    v = lazy.ops.mean(lazy.ops.square(d), axis=-1, keepdims=True)
    graph = lazy.compile([x, g], f(lazy.ops, d, v, g)).graph
    large = [n for n in graph.nodes if n.args and n.aval.shape == (2048, 512)]
    assert len(large) == 1
    assert len([n for n in graph.nodes if n.args]) == 1


# --- sums of exponentials --------------------------------------------------------------------------------


def _by_largest(o: Any, x: Any) -> Any:
    most = o.max(x, axis=-1, keepdims=True)
    return o.log(o.sum(o.exp(x - most), axis=-1, keepdims=True)) + most


def _squeezed(o: Any, x: Any) -> Any:
    most = o.max(x, axis=-1, keepdims=True)
    return o.log(o.sum(o.exp(x - most), axis=-1)) + o.squeeze(most, axis=-1)


@pytest.mark.parametrize("f", [_by_largest, _squeezed, lambda o, x: o.log(o.sum(o.exp(x), axis=-1))])
def test_a_logarithm_of_summed_exponentials_is_one_reduction_in_fast_math(f: Written) -> None:
    assert left(f, (3, 5), stack=FAST) == ["logsumexp"]
    assert len(left(f, (3, 5))) > 1


# --- slices ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "shape"),
    [
        (lambda o, x, w: (x @ w)[-1:], (1, 4)),
        (lambda o, x, w: (x @ w)[:, 1:3], (6, 2)),
        (lambda o, x, w: o.matmul(w, x, transpose_a=True, transpose_b=True)[::2, 5:0:-2], (2, 3)),
        (lambda o, x, w: (o.stack(x, x, x, axis=0) @ w)[1:, -1], (2, 4)),
    ],
)
def test_only_what_is_shown_of_a_product_is_computed(f: Written, shape: tuple[int, ...]) -> None:
    lazy = nnc.lazy()
    x, w = lazy.input("x", (6, 5), "float32"), lazy.input("w", (5, 4), "float32")
    graph = lazy.compile([x, w], f(lazy.ops, x, w)).graph
    (product,) = [n for n in graph.nodes if n.op.name.startswith("matmul")]
    assert product.aval.size == math.prod(shape)
    left(f, (6, 5), (5, 4))


def test_borders_that_nobody_looks_at_are_not_put_there() -> None:
    lazy = nnc.lazy(nnc.Null())
    x = lazy.input("x", (8, 8), "float32")
    shown = lazy.ops.pad(lazy.ops.exp(x), widths=((2, 2), (0, 3)), value=7)[:4, 5:]
    names = {n.op.name: n for n in lazy.compile([x], shown).graph.nodes}
    assert names["exp"].aval.shape == (2, 3)
    assert names["pad"].aval.shape == (4, 6)
    left(lambda o, x: o.pad(o.exp(x), widths=((2, 2), (0, 3)), value=7)[:4, 5:], (8, 8))


# --- images ----------------------------------------------------------------------------------------------

EXPORTED = """<ir_version: 8, opset_import: ["": 18]>
exported (float[1, 6, 6, 3] x, float[4, 3, 3, 3] w) => (float[1, 5, 5, 4] y)
<int64[8] widths = {0, 0, 1, 0, 0, 0, 0, 1}> {
    first = Transpose <perm = [0, 3, 1, 2]> (x)
    framed = Pad (first, widths)
    z = Conv (framed, w)
    y = Transpose <perm = [0, 2, 3, 1]> (z)
}"""


def test_an_exported_convolution_loses_its_borders_and_its_transposes() -> None:
    onnx = pytest.importorskip("onnx")
    program = nnc.from_onnx(onnx.parser.parse_model(EXPORTED), LAZY).program
    names = [n.op.name for n in program.graph.nodes if n.args]
    assert "pad" not in names
    (convolved,) = [n for n in program.graph.nodes if n.op.name.startswith("conv2d")]
    assert convolved.params["data_format"] == "NHWC"
    assert convolved.params["padding"] == ((1, 0), (0, 1))


# --- derivatives -----------------------------------------------------------------------------------------

DERIVATIVES: dict[str, tuple[Written, str, str]] = {
    "sin²": (lambda o, x: o.square(o.sin(x)), "2*sin(x)*cos(x)", ""),
    "x³": (lambda o, x: x**3, "3*x**2", ""),
    "√x": (lambda o, x: o.sqrt(x), "0.5*(1/sqrt(x))", "0.5/sqrt(x)"),
    "log x": (lambda o, x: o.log(x), "1/x", ""),
    "log x²": (lambda o, x: o.log(x * x), "2*x*(1/x**2)", "2/x"),
    "tanh": (lambda o, x: o.tanh(x), "1 - tanh(x)**2", ""),
    "atan": (lambda o, x: o.atan(x), "1/(x**2 + 1)", ""),
    "x exp(-x²)": (lambda o, x: x * o.exp(-x * x), "exp(-x**2) - 2*x**2*exp(-x**2)", ""),
    "exp x / x": (lambda o, x: o.exp(x) / x, "1/x*exp(x) - exp(x)/x*(1/x)", "(exp(x) - exp(x)/x)/x"),
    "(x + 1) (x - 1)": (lambda o, x: (x + 1) * (x - 1), "2*x + 1 - 1", "2*x"),
    "x² / 2": (lambda o, x: x**2 / 2, "0.5*2*x", "x"),
    "|x|": (lambda o, x: o.abs(x), "sign(x)", ""),
}


@pytest.mark.parametrize(("f", "said", "fast"), DERIVATIVES.values(), ids=DERIVATIVES)
def test_derivatives_read_as_they_are_written(f: Written, said: str, fast: str) -> None:
    x = LAZY.input("x", (), "float64")
    derivative = LAZY.grad(lambda x: f(LAZY.ops, x))(x)
    assert str(derivative.simplify().to_formula()) == said
    assert str(derivative.simplify("reassociation", fast_math=True).to_formula()) == (fast or said)
