"""Recurrent cells, and sequences of them: the inputs of all steps are multiplied at once, then a loop takes each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nnc_func.body import Body
from nnc_func.body_builder import BodyBuilder
from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import known, same_extent
from nnc_func.facets.movement import part_count
from nnc_func.facets.samples import FLOATS, Samples, Tolerance
from nnc_func.graph.composite import composite
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.ops.families import Tensor

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

_CLOSE = Tolerance(64.0)


def _check(x: Tensor, h: Tensor, w: Tensor, u: Tensor, gates: int, what: str, *biases: Tensor | None) -> None:
    """Raise ShapeError unless inputs, state, weights and biases fit."""
    hidden = h.shape[-1]
    fits = len(h.shape) == len(w.shape) == len(u.shape) == 2 and same_extent(x.shape[0], h.shape[0])
    fits = fits and known(hidden) and same_extent(w.shape[0], x.shape[-1])
    if not fits or tuple(u.shape) != (hidden, gates * hidden) or not same_extent(w.shape[1], gates * hidden):
        raise ShapeError(
            f"{what} of inputs {x.shape} and a state {h.shape}, (samples, hidden), wants input weights (inputs, "
            f"{gates} * hidden) and hidden weights (hidden, {gates} * hidden); given {w.shape} and {u.shape}"
        )
    for bias in biases:
        if bias is not None and (len(bias.shape) != 1 or not same_extent(bias.shape[0], gates * hidden)):
            raise ShapeError(f"{what} wants biases ({gates} * hidden,), of {hidden} hidden units; given {bias.shape}")


def _check_cell(h: Tensor, c: Tensor) -> None:
    """Raise ShapeError unless both states of a long short-term memory are alike."""
    if len(c.shape) != 2 or not all(map(same_extent, h.shape, c.shape)):
        raise ShapeError(f"output and cell state of a long short-term memory are alike; given {h.shape} and {c.shape}")


def _biased(o: Ops[Any], y: Tensor, bias: Tensor | None) -> Tensor:
    return y if bias is None else o.add(y, bias)


def _input(o: Ops[Any], x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
    """One step times the input weights."""
    if len(x.shape) != 2:
        raise ShapeError(f"wanted inputs of shape (samples, inputs), given {x.shape}")
    return _biased(o, o.matmul(x, w), bias)


class _Within:
    """Operators as functions of values of a body that is being made."""

    def __init__(self, builder: BodyBuilder) -> None:
        self._builder = builder

    def __getattr__(self, name: str) -> Callable[..., Any]:
        op = CATALOGUE[name]

        def apply(*operands: int, **params: Any) -> Any:
            found = self._builder.applied(
                op, operands, params, part_count(params["sections"]) if op.multi_result else 1
            )
            return found if op.multi_result else found[0]

        return apply


def _body(carries: int, cell: Callable[..., Any], constants: int) -> Body:
    """A cell as the body of a loop: it takes constants, what is carried, and the inputs of a step."""
    builder = BodyBuilder()
    same, carried, inputs = builder.parameters(constants), builder.parameters(carries), builder.parameter()
    found = cell(_Within(builder), inputs, *carried, *same)
    after = found if isinstance(found, tuple) else (found,)
    return builder.built([*after, after[0]])


def _over_steps(o: Ops[Any], body: Body, inputs: Tensor, states: tuple[Tensor, ...], *constants: Tensor) -> Any:
    """The first state at all steps, (samples, steps, hidden), and each state after the last."""
    *last, every = o.loop(*constants, *states, inputs, body=body, constants=len(constants), carries=len(states))
    return (o.permute_dims(every, axes=(1, 0, 2)), *last)


def _inputs(o: Ops[Any], x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
    """All steps times the input weights, steps first: the rows that a loop takes lie side by side."""
    if len(x.shape) != 3:
        raise ShapeError(f"wanted sequences of shape (samples, steps, inputs), given {x.shape}")
    return _biased(o, o.matmul(o.permute_dims(x, axes=(1, 0, 2)), w), bias)


def _gates(o: Ops[Any], x: Tensor, counts: tuple[int, ...], hidden: int) -> Any:
    """The columns of so many gates each: of those that lie side by side and are alike, one sigmoid is computed."""
    return o.split(x, sections=tuple([n * hidden for n in counts]), axis=-1)


# --- simple ----------------------------------------------------------------------------------------------


def _rnn(o: Ops[Any], inputs: Tensor, h: Tensor, u: Tensor, activation: str) -> Tensor:
    if activation not in ("tanh", "relu"):
        raise OperatorError(f"the activation of a simple recurrent cell is 'tanh' or 'relu', given {activation!r}")
    return getattr(o, activation)(o.add(inputs, o.matmul(h, u)))


def _cases(gates: int, states: int, steps: int | None, biases: int = 1) -> Samples:
    """Three samples of two inputs, two hidden units, with and without biases."""
    x = (3, 2) if steps is None else (3, steps, 2)
    given = (x, *((3, 2),) * states, (2, 2 * gates), (2, 2 * gates))
    return Samples(
        relation="cases", dtypes=FLOATS, cases=((given, {}), ((*given, *((2 * gates,),) * biases), {}))
    )  # fmt: skip


@composite(tolerance=_CLOSE, samples=_cases(1, 1, None))
def rnn_cell(
    o: Ops[Any], x: Tensor, h: Tensor, w: Tensor, u: Tensor, bias: Tensor | None = None, /, *, activation: str = "tanh"
) -> Tensor:
    """The next state of a simple recurrent cell: ``tanh(x @ w + h @ u + bias)``; Elman, 1990.

    Shapes: `x` ``(samples, inputs)``, `h` ``(samples, hidden)``, `w` ``(inputs, hidden)``, `u` ``(hidden, hidden)``,
    `bias` ``(hidden,)``. The activation is ``"tanh"`` or ``"relu"``.
    """
    _check(x, h, w, u, 1, "a simple recurrent cell", bias)
    return _rnn(o, _input(o, x, w, bias), h, u, activation)


@composite(tolerance=_CLOSE, samples=_cases(1, 1, 2))
def rnn(
    o: Ops[Any], x: Tensor, h: Tensor, w: Tensor, u: Tensor, bias: Tensor | None = None, /, *, activation: str = "tanh"
) -> tuple[Tensor, Tensor]:
    """All states of a simple recurrent cell over sequences, and the last one.

    `x` is ``(samples, steps, inputs)`` and the first result ``(samples, steps, hidden)``; the others are those of
    `rnn_cell`. There may be no step.
    """
    _check(x, h, w, u, 1, "a simple recurrent cell", bias)
    body = _body(1, lambda o, inputs, h, u: _rnn(o, inputs, h, u, activation), 1)
    return _over_steps(o, body, _inputs(o, x, w, bias), (h,), u)  # type: ignore[no-any-return]


# --- long short-term memory ------------------------------------------------------------------------------


def _lstm(o: Ops[Any], hidden: int, inputs: Tensor, h: Tensor, c: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    opened, candidate, shown = _gates(o, o.add(inputs, o.matmul(h, u)), (2, 1, 1), hidden)
    given, forgotten = o.split(o.sigmoid(opened), sections=2, axis=-1)
    c = o.add(o.multiply(forgotten, c), o.multiply(given, o.tanh(candidate)))
    return o.multiply(o.sigmoid(shown), o.tanh(c)), c


@composite(tolerance=_CLOSE, samples=_cases(4, 2, None))
def lstm_cell(
    o: Ops[Any], x: Tensor, h: Tensor, c: Tensor, w: Tensor, u: Tensor, bias: Tensor | None = None, /
) -> tuple[Tensor, Tensor]:
    """The next output and cell state of a long short-term memory; Hochreiter and Schmidhuber, 1997; Gers et al., 2000.

    Shapes: `x` ``(samples, inputs)``, `h` and `c` ``(samples, hidden)``, `w` ``(inputs, 4 * hidden)``, `u` ``(hidden, 4
    * hidden)``, `bias` ``(4 * hidden,)``. The columns of the weights are those of the gates in the order input, forget,
    candidate, output (i, f, g, o): ``c' = sigmoid(f) * c + sigmoid(i) * tanh(g)`` and ``h' = sigmoid(o) * tanh(c')``.
    """
    _check(x, h, w, u, 4, "a long short-term memory", bias)
    _check_cell(h, c)
    return _lstm(o, h.shape[1], _input(o, x, w, bias), h, c, u)


@composite(tolerance=_CLOSE, samples=_cases(4, 2, 2))
def lstm(
    o: Ops[Any], x: Tensor, h: Tensor, c: Tensor, w: Tensor, u: Tensor, bias: Tensor | None = None, /
) -> tuple[Tensor, Tensor, Tensor]:
    """All outputs of a long short-term memory over sequences, the last one, and the last cell state.

    `x` is ``(samples, steps, inputs)`` and the first result ``(samples, steps, hidden)``; the others are those of
    `lstm_cell`. There may be no step.
    """
    _check(x, h, w, u, 4, "a long short-term memory", bias)
    _check_cell(h, c)
    body = _body(2, lambda o, *given: _lstm(o, h.shape[1], *given), 1)
    return _over_steps(o, body, _inputs(o, x, w, bias), (h, c), u)  # type: ignore[no-any-return]


# --- gated recurrent unit --------------------------------------------------------------------------------


def _gru(o: Ops[Any], hidden: int, inputs: Tensor, h: Tensor, u: Tensor, bias: Tensor | None) -> Tensor:
    opened, candidate = _gates(o, inputs, (2, 1), hidden)
    hidden_opened, hidden_candidate = _gates(o, _biased(o, o.matmul(h, u), bias), (2, 1), hidden)
    reset, update = o.split(o.sigmoid(o.add(opened, hidden_opened)), sections=2, axis=-1)
    new = o.tanh(o.add(candidate, o.multiply(reset, hidden_candidate)))
    return o.add(new, o.multiply(update, o.subtract(h, new)))


@composite(tolerance=_CLOSE, samples=_cases(3, 1, None, biases=2))
def gru_cell(
    o: Ops[Any], x: Tensor, h: Tensor, w: Tensor, u: Tensor, bias: Tensor | None = None,
    hidden_bias: Tensor | None = None, /,
) -> Tensor:  # fmt: skip
    """The next state of a gated recurrent unit; Cho et al., EMNLP 2014.

    Shapes: `x` ``(samples, inputs)``, `h` ``(samples, hidden)``, `w` ``(inputs, 3 * hidden)``, `u` ``(hidden, 3 *
    hidden)``, both biases ``(3 * hidden,)``. The columns of the weights are those of the gates in the order reset,
    update, candidate (r, z, n): ``n = tanh(x @ w_n + b_n + sigmoid(r) * (h @ u_n + hb_n))`` and ``h' = (1 -
    sigmoid(z)) * n + sigmoid(z) * h``; so a reset gate acts after the product, where a bias of its own counts.
    """
    _check(x, h, w, u, 3, "a gated recurrent unit", bias, hidden_bias)
    return _gru(o, h.shape[1], _input(o, x, w, bias), h, u, hidden_bias)


@composite(tolerance=_CLOSE, samples=_cases(3, 1, 2, biases=2))
def gru(
    o: Ops[Any], x: Tensor, h: Tensor, w: Tensor, u: Tensor, bias: Tensor | None = None,
    hidden_bias: Tensor | None = None, /,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """All states of a gated recurrent unit over sequences, and the last one.

    `x` is ``(samples, steps, inputs)`` and the first result ``(samples, steps, hidden)``; the others are those of
    `gru_cell`. There may be no step.
    """
    _check(x, h, w, u, 3, "a gated recurrent unit", bias, hidden_bias)
    same = (u,) if hidden_bias is None else (u, hidden_bias)
    body = _body(1, lambda o, x, before, u, bias=None: _gru(o, h.shape[1], x, before, u, bias), len(same))
    return _over_steps(o, body, _inputs(o, x, w, bias), (h,), *same)  # type: ignore[no-any-return]
