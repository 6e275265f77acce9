"""Recurrent layers of ONNX: both directions, lengths of their own, peepholes; each direction is one loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.graph.ops.families import Tensor
from nnc_func.onnx import rolling
from nnc_func.onnx.context import Context
from nnc_func.onnx.table import onnx_operator

INT64 = np.dtype("int64")
VERSIONS = (7, 14, 22)
Cell = Callable[[Tensor, list[Tensor]], list[Tensor]]

# --- activations -----------------------------------------------------------------------------------------

_DEFAULTS: dict[str, tuple[float | None, float | None]] = {  # of alpha and beta, where there are any
    "affine": (1.0, 0.0), "relu": (None, None), "leakyrelu": (0.01, None), "thresholdedrelu": (1.0, None),
    "tanh": (None, None), "scaledtanh": (1.0, 1.0), "sigmoid": (None, None), "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, None), "softsign": (None, None), "softplus": (None, None),
}  # fmt: skip


def _activation(o: Context, name: str, alpha: Any, beta: Any) -> Callable[[Tensor], Tensor]:
    def line(x: Tensor) -> Tensor:
        return o.add(o.multiply(x, o.scalar(alpha, x)), o.scalar(beta, x))

    made: dict[str, Callable[[Tensor], Tensor]] = {
        "affine": line,
        "leakyrelu": lambda x: o.leaky_relu(x, slope=alpha),
        "thresholdedrelu": lambda x: o.where(o.greater(x, o.scalar(alpha, x)), x, o.scalar(0, x)),
        "scaledtanh": lambda x: o.multiply(o.tanh(o.multiply(x, o.scalar(beta, x))), o.scalar(alpha, x)),
        "hardsigmoid": lambda x: o.clip(line(x), min=0, max=1),
        "elu": lambda x: o.elu(x, alpha=alpha),
    }
    return made.get(name) or getattr(o, name)


def _activations(
    o: Context, names: Sequence[str] | None, usual: Sequence[str], directions: int, alphas: Sequence[float] | None,
    betas: Sequence[float] | None, clip: float | None, clipped: int = 3,
) -> list[list[Callable[[Tensor], Tensor]]]:  # fmt: skip
    """The functions of each direction; the inputs of the first `clipped` are clipped if asked for."""
    wanted = [n.lower() for n in names or [*usual] * directions]
    if len(wanted) != len(usual) * directions or not all(n in _DEFAULTS for n in wanted):
        raise OperatorError(f"activations are {len(usual)} for each direction, of {sorted(_DEFAULTS)}; given {names}")
    left = [iter(alphas or ()), iter(betas or ())]
    found = []
    for i, name in enumerate(wanted):
        facts = [None if d is None else next(given, d) for d, given in zip(_DEFAULTS[name], left, strict=True)]
        found.append(_clipped(o, _activation(o, name, *facts), clip if i % len(usual) < clipped else None))
    return [found[d * len(usual) : (d + 1) * len(usual)] for d in range(directions)]


def _clipped(o: Context, f: Callable[[Tensor], Tensor], clip: float | None) -> Callable[[Tensor], Tensor]:
    return f if not clip else lambda x: f(o.clip(x, min=-clip, max=clip))


# --- sequences -------------------------------------------------------------------------------------------


def _part(o: Context, x: Tensor | None, index: int) -> Any:
    """What a tensor has at one place of its first axis."""
    if x is None:
        return None
    bounds = [(index, index + 1), *((0, n) for n in x.shape[1:])]
    starts, stops = zip(*bounds, strict=True)
    return o.reshape(o.slice(x, starts=starts, stops=stops, steps=(1,) * len(bounds)), shape=x.shape[1:])


class Layer:
    """What the three kinds of layers share: inputs by step, states, lengths, directions."""

    def __init__(
        self, o: Context, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None, lengths: Tensor | None, layout: int,
        direction: str, gates: int,
    ) -> None:  # fmt: skip
        if direction not in ("forward", "reverse", "bidirectional"):
            raise OperatorError(f"direction is forward, reverse or bidirectional, given {direction!r}")
        if len(x.shape) != 3 or len(w.shape) != 3 or len(r.shape) != 3:
            raise ShapeError(f"inputs and weights are of rank 3; given {x.shape}, {w.shape}, {r.shape}")
        self.o, self.layout = o, layout
        self.x = o.permute_dims(x, axes=(1, 0, 2)) if layout else x
        self.w, self.r, self.b = w, r, b
        self.hidden = r.shape[2]
        self.directions = 2 if direction == "bidirectional" else 1
        if w.shape[0] != self.directions or r.shape[:2] != (self.directions, gates * self.hidden):
            raise ShapeError(f"{self.directions} directions of {gates} gates; given weights {w.shape} and {r.shape}")
        self.backwards = [direction == "reverse", True][: self.directions]
        self.steps = self.x.shape[0]
        self.running = None if lengths is None else self._running(lengths)

    def _running(self, lengths: Tensor) -> Tensor:
        """At each step, which sequences have not ended: (steps, samples, 1)."""
        o = self.o
        column = o.reshape(o.cast(lengths, dtype=INT64), shape=(lengths.shape[0], 1))
        passed = o.cumulative_sum(o.full(shape=(self.steps, 1, 1), value=1, dtype=INT64), axis=0)
        return o.less_equal(passed, column)

    def state(self, initial: Tensor | None, d: int) -> Tensor:
        """The first state of a direction."""
        if initial is None:
            return self.o.full(shape=(self.x.shape[1], self.hidden), value=0, dtype=self.x.dtype)
        if self.layout:
            initial = self.o.permute_dims(initial, axes=(1, 0, 2))
        return _part(self.o, initial, d)

    def biases(self, d: int) -> tuple[Any, Any]:
        """Those of inputs and of states."""
        if self.b is None:
            return None, None
        of_inputs, of_states = self.o.split(_part(self.o, self.b, d), sections=2, axis=0)
        return of_inputs, of_states

    def inputs(self, d: int, bias: Tensor | None) -> Tensor:
        """The inputs of all steps times the weights of that direction."""
        o = self.o
        y = o.matmul(self.x, _part(o, self.w, d), transpose_b=True)
        return y if bias is None else o.add(y, bias)

    def run(self, d: int, bias: Tensor | None, states: list[Tensor], cell: Cell) -> tuple[Tensor, list[Tensor]]:
        """The outputs at all steps, and the last states."""
        o, count = self.o, len(states)

        def step(given: list[Tensor]) -> list[Tensor]:
            before, inputs, *running = given[:count], *given[count:]
            after = cell(inputs, before)
            if not running:
                return [*after, after[0]]
            going = [o.where(running[0], new, old) for new, old in zip(after, before, strict=True)]
            return [*going, o.where(running[0], after[0], o.scalar(0, after[0]))]

        slices = [self.inputs(d, bias), *([] if self.running is None else [self.running])]
        *last, outputs = rolling.over_slices(o, step, states, slices, self.backwards[d])
        return outputs, last

    def results(self, outputs: list[Tensor], states: list[list[Tensor]]) -> tuple[Tensor, ...]:
        """All outputs, and the last states, of all directions in ONNX's layout."""
        o = self.o
        y = o.stack(*outputs, axis=1)
        last = [o.stack(*of, axis=1 if self.layout else 0) for of in zip(*states, strict=True)]
        return o.permute_dims(y, axes=(2, 0, 1, 3)) if self.layout else y, *last


def _added(o: Context, x: Tensor, b: Any) -> Tensor:
    return x if b is None else o.add(x, b)


# --- kinds -----------------------------------------------------------------------------------------------


@onnx_operator("RNN", since=VERSIONS, multi_result=True)
def rnn(
    o: Context, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    initial_h: Tensor | None = None, /, *, activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None, activations: Sequence[str] | None = None,
    clip: float | None = None, direction: str = "forward", hidden_size: int | None = None, layout: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """A simple recurrent layer: all outputs, and the last of each direction."""
    layer = Layer(o, x, w, r, b, lengths, layout, direction, 1)
    functions = _activations(o, activations, ("Tanh",), layer.directions, activation_alpha, activation_beta, clip)
    outputs, states = [], []
    for d, (f,) in enumerate(functions):
        of_inputs, of_states = layer.biases(d)
        weights = _part(o, r, d)

        def cell(given: Tensor, before: list[Tensor], weights: Any = weights, f: Any = f) -> list[Tensor]:
            return [f(o.add(given, o.matmul(before[0], weights, transpose_b=True)))]

        bias = None if of_inputs is None else o.add(of_inputs, of_states)
        found, last = layer.run(d, bias, [layer.state(initial_h, d)], cell)
        outputs.append(found)
        states.append(last)
    return layer.results(outputs, states)


@onnx_operator("LSTM", since=VERSIONS, multi_result=True)
def lstm(
    o: Context, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    initial_h: Tensor | None = None, initial_c: Tensor | None = None, peepholes: Tensor | None = None, /, *,
    activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None, clip: float | None = None, direction: str = "forward",
    hidden_size: int | None = None, input_forget: int = 0, layout: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """A long short-term memory, gates in the order i, o, f, c: all outputs, the last ones, the last cell states.

    What is clipped are sums that gates and candidates are made of, not the cell state, as onnxruntime has it.
    """
    layer = Layer(o, x, w, r, b, lengths, layout, direction, 4)
    functions = _activations(
        o, activations, ("Sigmoid", "Tanh", "Tanh"), layer.directions, activation_alpha, activation_beta, clip,
        clipped=2,
    )  # fmt: skip
    outputs, states = [], []
    for d, activated in enumerate(functions):
        of_inputs, of_states = layer.biases(d)
        seen = None if peepholes is None else o.split(_part(o, peepholes, d), sections=3, axis=0)
        cell = _lstm_cell(o, _part(o, r, d), seen, activated, bool(input_forget))
        bias = None if of_inputs is None else o.add(of_inputs, of_states)
        found, last = layer.run(d, bias, [layer.state(initial_h, d), layer.state(initial_c, d)], cell)
        outputs.append(found)
        states.append(last)
    return layer.results(outputs, states)


def _lstm_cell(o: Context, weights: Tensor, seen: Any, functions: Sequence[Any], coupled: bool) -> Cell:
    f, g, h = functions
    of_input, of_output, of_forget = seen or (None, None, None)

    def peeped(gate: Tensor, c: Tensor, weight: Any) -> Tensor:
        return gate if weight is None else o.add(gate, o.multiply(weight, c))

    def cell(given: Tensor, before: list[Tensor]) -> list[Tensor]:
        c = before[1]
        gates = o.add(given, o.matmul(before[0], weights, transpose_b=True))
        into, out, forget, candidate = o.split(gates, sections=4, axis=-1)
        into = f(peeped(into, c, of_input))
        kept = o.subtract(o.scalar(1, into), into) if coupled else f(peeped(forget, c, of_forget))
        c = o.add(o.multiply(kept, c), o.multiply(into, g(candidate)))
        return [o.multiply(f(peeped(out, c, of_output)), h(c)), c]

    return cell


@onnx_operator("GRU", since=VERSIONS, multi_result=True)
def gru(
    o: Context, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    initial_h: Tensor | None = None, /, *, activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None, activations: Sequence[str] | None = None,
    clip: float | None = None, direction: str = "forward", hidden_size: int | None = None, layout: int = 0,
    linear_before_reset: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """A gated recurrent unit, gates in the order z, r, h: all outputs, and the last of each direction."""
    layer = Layer(o, x, w, r, b, lengths, layout, direction, 3)
    functions = _activations(
        o, activations, ("Sigmoid", "Tanh"), layer.directions, activation_alpha, activation_beta, clip
    )  # fmt: skip
    outputs, states = [], []
    for d, activated in enumerate(functions):
        of_inputs, of_states = layer.biases(d)
        cell = _gru_cell(o, _part(o, r, d), of_states, activated, bool(linear_before_reset), layer.hidden)
        found, last = layer.run(d, of_inputs, [layer.state(initial_h, d)], cell)
        outputs.append(found)
        states.append(last)
    return layer.results(outputs, states)


def _gru_cell(o: Context, weights: Tensor, bias: Any, functions: Sequence[Any], linear: bool, hidden: int) -> Cell:
    f, g = functions
    of_gates, of_candidate = o.split(weights, sections=(2 * hidden, hidden), axis=0)
    gate_bias, candidate_bias = (None, None) if bias is None else o.split(bias, sections=(2 * hidden, hidden), axis=0)

    def cell(given: Tensor, before: list[Tensor]) -> list[Tensor]:
        h = before[0]
        gates, candidate = o.split(given, sections=(2 * hidden, hidden), axis=-1)
        gates = _added(o, o.add(gates, o.matmul(h, of_gates, transpose_b=True)), gate_bias)
        update, reset = o.split(gates, sections=2, axis=-1)
        update, reset = f(update), f(reset)
        if linear:
            again = o.multiply(reset, _added(o, o.matmul(h, of_candidate, transpose_b=True), candidate_bias))
        else:
            again = _added(o, o.matmul(o.multiply(reset, h), of_candidate, transpose_b=True), candidate_bias)
        new = g(o.add(candidate, again))
        return [o.add(new, o.multiply(update, o.subtract(h, new)))]

    return cell
