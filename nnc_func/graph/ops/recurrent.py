"""Recurrent layers as one operator each, made by rewriting of loops: all times at once, by a library."""

from __future__ import annotations

from functools import partial
from typing import Any

from nnc_func.body import Body
from nnc_func.body_builder import BodyBuilder
from nnc_func.device.kernels import recurrent as kernels
from nnc_func.device.kernels.onednn_recurrent import recurrent_kernels
from nnc_func.errors import DTypeError, ShapeError
from nnc_func.facets import dims
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE
from nnc_func.facets.dims import same_extent
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.kernels import reference
from nnc_func.facets.onnx import control
from nnc_func.facets.samples import Samples, Tolerance
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.views import Cost
from nnc_func.graph.ops.activations import sigmoid
from nnc_func.graph.ops.binary import add, multiply, subtract
from nnc_func.graph.ops.families import Tensor
from nnc_func.graph.ops.linalg import matmul
from nnc_func.graph.ops.move import split
from nnc_func.graph.ops.transcendental import tanh
from nnc_func.op import operator

GATES = {"lstm": 4, "gru": 3}
BIASES = {"lstm": 4, "gru": 4}
STEPS = {"lstm": 22, "gru": 20}  # FLOPs of an element of the state beside the products
MADE_LATE = NOT_DIFFERENTIABLE("it is made after derivatives have been taken: differentiate what it was made of")


def _shape(kind: str, x: ShapeT, w: ShapeT, r: ShapeT, b: ShapeT, *states: ShapeT, reverse: bool) -> Any:
    name, gates, h = f"{kind}_layer", GATES[kind], states[0]
    if len(x) != 3 or len(h) != 2 or not same_extent(x[1], h[0]):
        raise ShapeError(
            f"{name} wants inputs of shape (times, samples, channels) and states (samples, hidden), given {x} and {h}"
        )
    hidden = h[1]
    wanted = {"weights": ((x[2], gates * hidden), w), "weights of states": ((hidden, gates * hidden), r),
              "biases": ((BIASES[kind] * hidden,), b), "cells": (h, states[-1])}  # fmt: skip
    for what, (shape, given) in wanted.items():
        if len(given) != len(shape) or not all(map(same_extent, given, shape)):
            raise ShapeError(f"{name} of inputs {x} and states {h} wants {what} of shape {shape}, given {given}")
    return ((*x[:2], hidden), h, *states[1:])


def _dtype(*given: Any, reverse: bool) -> Any:
    if len(set(given)) != 1 or kind_of(given[0]) != "f":
        raise DTypeError(f"a recurrent layer is of one floating dtype, given {', '.join(d.name for d in given)}")
    return (given[0],) * (len(given) - 3)


def _cost(kind: str, args: tuple[Any, ...], results: tuple[Any, ...], *, reverse: bool) -> Cost:
    x, w, r, *_ = args
    rows = dims.product(x.shape[:2])
    return Cost(rows * (2 * (w.size + r.size) + STEPS[kind] * r.shape[0]), threaded=True)


def _lstm_body() -> Body:
    """Of weights of states, the state, the cell, and the inputs' share of a time."""
    made = BodyBuilder()
    r, h, c, x = made.parameters(4)
    gates = made.apply(add, x, made.apply(matmul, h, r))
    given, forgotten, candidate, shown = made.applied(split, (gates,), {"sections": 4, "axis": -1}, 4)
    kept = made.apply(multiply, made.apply(sigmoid, forgotten), c)
    c = made.apply(add, kept, made.apply(multiply, made.apply(sigmoid, given), made.apply(tanh, candidate)))
    h = made.apply(multiply, made.apply(sigmoid, shown), made.apply(tanh, c))
    return made.built([h, c, h])


def _gru_body() -> Body:
    """Of weights of states, the candidate's bias, the state, and the inputs' share of a time."""
    made = BodyBuilder()
    r, b, h, x = made.parameters(4)
    thirds = {"sections": 3, "axis": -1}
    given, again = (made.applied(split, (each,), thirds, 3) for each in (x, made.apply(matmul, h, r)))
    update, reset = (made.apply(sigmoid, made.apply(add, given[k], again[k])) for k in range(2))
    candidate = made.apply(multiply, reset, made.apply(add, again[2], b))
    new = made.apply(tanh, made.apply(add, given[2], candidate))
    h = made.apply(add, new, made.apply(multiply, update, made.apply(subtract, h, new)))
    return made.built([h, h])


def _cases(kind: str) -> Any:
    for (times, samples, inputs, hidden), params in (
        ((3, 2, 4, 2), {}),
        ((3, 2, 4, 2), {"reverse": True}),
        ((1, 1, 3, 16), {}),
        ((5, 1, 2, 9), {"reverse": True}),
        ((0, 2, 3, 2), {}),
    ):
        gates, state = GATES[kind] * hidden, (samples, hidden)
        shapes = ((times, samples, inputs), (inputs, gates), (hidden, gates), (BIASES[kind] * hidden,), state)
        for dtype in ("float32", "float64"):
            yield tuple([(shape, dtype, (-1.0, 1.0)) for shape in (*shapes, *(state,) * (kind == "lstm"))]), params


def _facts(kind: str, body: Body) -> dict[str, Any]:
    return {
        "shape": partial(_shape, kind), "dtype": _dtype, "multi_result": True,
        "kernels": (*recurrent_kernels(kind), reference(kernels.LAYERS[kind])), "derivative": MADE_LATE,
        "cost": partial(_cost, kind), "onnx": partial(getattr(control, kind), body=body), "tolerance": Tolerance(64.0),
        "samples": Samples(relation="cases", cases=tuple(_cases(kind))),
    }  # fmt: skip


@operator(**_facts("lstm", _lstm_body()))
def lstm_layer(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor, h: Tensor, c: Tensor, /, *, reverse: bool = False
) -> Tensor:  # fmt: skip
    """All outputs of a long short-term memory, the last one, and the last cell.

    Shapes: `x` ``(times, samples, channels)``, `w` ``(channels, 4 * hidden)``, `r` ``(hidden, 4 * hidden)``, `b` ``(4 *
    hidden,)``, `h` and `c` ``(samples, hidden)``; the first result is ``(times, samples, hidden)``. Gates stand in the
    order i, f, g, o, as in the composite `lstm`. With `reverse` the last time is the first one. Source: Hochreiter and
    Schmidhuber, "Long short-term memory", 1997; Gers et al., "Learning to forget", 2000.
    """


@operator(**_facts("gru", _gru_body()))
def gru_layer(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor, h: Tensor, /, *, reverse: bool = False
) -> Tensor:  # fmt: skip
    """All outputs of gated recurrent units, and the last one.

    Shapes: `x` ``(times, samples, channels)``, `w` ``(channels, 3 * hidden)``, `r` ``(hidden, 3 * hidden)``, `b` ``(4 *
    hidden,)``, `h` ``(samples, hidden)``; the first result is ``(times, samples, hidden)``. Gates stand in the order z,
    r, n, and the last part of the bias is that of the candidate's state: ``n = tanh(x @ w_n + b_n + r * (h @ r_n +
    b'))`` and ``h' = (1 - z) * n + z * h``. With `reverse` the last time is the first one. Source: Cho et al., EMNLP
    2014, with the reset after the product.
    """
