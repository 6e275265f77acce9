"""Layers of sequences: embedding, attention, recurrent layers."""

from __future__ import annotations

from typing import Any, ClassVar

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import known
from nnc_func.graph.origin import with_line
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.nn.initialise import Initialiser, Normal, fold_in, glorot_uniform, zeros
from nnc_func.nn.inputs import ARRAYS, in_tensor
from nnc_func.nn.lanes import over_lengths
from nnc_func.nn.layers import channels_of
from nnc_func.nn.modules import Context, Module, module, parameter, static

# --- embedding -------------------------------------------------------------------------------------------


@module
class Embedding(Module):
    """A row of a table for each integer: words as vectors, say. Entries are drawn with deviation 1 unless said.

    `scores` goes the other way, by the same table: how well a vector fits each entry (Press and Wolf, EACL 2017).

    Examples
    --------
    >>> Embedding(1000, 16).init(seed=0, shape=(None, 20), dtype="int64")
    Embedding(entries=1000, features=16, weight=float32[1000, 16])
    """

    takes_one: ClassVar[bool] = True

    entries: int = static()
    features: int = static()
    weight: Any = parameter(default=None)
    dtype: str = static(default="float32")
    initialiser: Initialiser = static(default=Normal(1.0))

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        """The table; the input is of integers, so the table's dtype is the module's own."""
        if aval.dtype.kind not in "iu":
            raise OperatorError(f"{self!r} is applied to integers, given {aval.dtype}: init(seed, shape, 'int64')")
        return {"weight": self.initialiser(key, (self.entries, self.features), self.dtype)}

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The rows."""
        return x.stack.ops.embedding(x, self.weight)

    def scores(self, x: Any, context: Context | None = None) -> Any:
        """The product of vectors ``(…, features)`` with every entry, ``(…, entries)``."""
        x = in_tensor(self, x, self)
        me: Any = self if context is None else context.entered(self, x)
        return x @ x.stack.ops.matrix_transpose(me.weight)


@module
class Positions(Module):
    """A learned vector added at each position of sequences ``(…, positions, features)``; Gehring et al., ICML 2017.

    There are vectors for as many positions as said; shorter sequences use the first of them.

    Examples
    --------
    >>> Positions(1024).init(seed=0, shape=(None, 20, 16))
    Positions(count=1024, weight=float32[1024, 16])
    """

    takes_one: ClassVar[bool] = True

    count: int = static()
    weight: Any = parameter(default=None)
    initialiser: Initialiser = static(default=Normal(0.02))

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        """The table, for the features of the aval."""
        return {"weight": self.initialiser(key, (self.count, channels_of(aval.shape, -1, self)), aval.dtype)}

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """The sum."""
        if x.ndim < 2:
            raise ShapeError(with_line(f"{self!r} wants sequences (…, positions, features), given shape {x.shape}"))
        length = x.shape[-2]
        if known(length) and length > self.count:
            raise ShapeError(f"{self!r} has vectors of {self.count} positions, given sequences {x.shape}")
        return x + (self.weight if length == self.count else self.weight[:length])


# --- attention -------------------------------------------------------------------------------------------


@module
class MultiHeadAttention(Module):
    """Attention of sequences to themselves, by several heads; Vaswani et al., NeurIPS 2017.

    Inputs ``(…, positions, features)`` are multiplied by query, key and value weights, cut into `heads`, attended to by
    `scaled_dot_product_attention`, put side by side and multiplied by output weights. `attend` takes another source of
    keys and values, and masks. With fewer `key_heads`, several heads share the keys of one (Ainslie et al., 2023).

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> layer = MultiHeadAttention(4, causal=True).init(seed=0, shape=(None, 10, 32))
    >>> layer(nnc.eager().asarray(np.ones((2, 10, 32), "float32"))).shape
    (2, 10, 32)
    """

    takes_one: ClassVar[bool] = True

    heads: int = static()
    query: Any = parameter(default=None)
    key: Any = parameter(default=None)
    value: Any = parameter(default=None)
    output: Any = parameter(default=None)
    bias: Any = parameter(default=None)
    key_heads: int | None = static(default=None)
    causal: bool = static(default=False)
    dropout: float = static(default=0.0)
    biased: bool = static(default=True)
    initialiser: Initialiser = static(default=glorot_uniform)

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        """The four weights for the features of the aval, and the biases of all four, one after the other."""
        features, shared = channels_of(aval.shape, -1, self), self.key_heads or self.heads
        if self.heads < 1 or features % self.heads or self.heads % shared:
            raise ShapeError(f"{self!r} cuts {features} features into heads, and heads into shared ones: not evenly")
        narrow = features // self.heads * shared
        widths = {"query": features, "key": narrow, "value": narrow, "output": features}
        made = {
            name: self.initialiser(fold_in(key, i), (features, width), aval.dtype)
            for i, (name, width) in enumerate(widths.items())
        }
        return {**made, "bias": zeros(key, (sum(widths.values()),), aval.dtype) if self.biased else None}

    def forward(self, x: Any, context: Context | None = None) -> Any:
        """Every position attends to all, or to those before it."""
        return self.attend(x, x, context=context)

    def attend(self, x: Any, source: Any, mask: Any = None, context: Context | None = None) -> Any:
        """Positions of `x` attend to those of `source`; the mask broadcasts against (…, heads, positions, source's)."""
        x = in_tensor(self, x, source, self)
        source = in_tensor(self, source, x)
        ops = x.stack.ops
        widths = [w.shape[1] for w in (self.query, self.key, self.value, self.output)]
        biases = [None] * 4 if self.bias is None else ops.split(self.bias, sections=tuple(widths))
        given = ((x, self.query), (source, self.key), (source, self.value))
        queries, keys, values = (
            self._cut(ops, y @ w if b is None else y @ w + b) for (y, w), b in zip(given, biases, strict=False)
        )
        drops = self.dropout if context is not None and context.training else 0.0
        found = ops.scaled_dot_product_attention(
            queries, keys, values, mask, context.next_key(self) if context is not None and drops else None,
            causal=self.causal, dropout=drops,
        )  # fmt: skip
        y = ops.permute_dims(found, axes=self._swapped(found)).reshape(x.shape) @ self.output
        return y if biases[3] is None else y + biases[3]

    def _cut(self, ops: Any, y: Any) -> Any:
        """Features cut into heads, which come before positions."""
        width = self.query.shape[1] // self.heads
        y = y.reshape((*y.shape[:-1], y.shape[-1] // width, width))
        return ops.permute_dims(y, axes=self._swapped(y))

    @staticmethod
    def _swapped(y: Any) -> tuple[int, ...]:
        return (*range(y.ndim - 3), y.ndim - 2, y.ndim - 3, y.ndim - 1)


# --- recurrent layers ------------------------------------------------------------------------------------


@module
class RNN(Module):
    """A simple recurrent layer over sequences ``(samples, steps, inputs)``, from a state of zeros; Elman, 1990.

    It gives the states of all steps, ``(samples, steps, hidden)``, or with ``sequences=False`` the last one. `run` goes
    on from other states. The formula is that of the operator `rnn`.

    With ``lengths=``, ``(samples,)`` integers, sequences have ends of their own: states behind these are zeros, and the
    last one is that at the end. Hardly more is computed than the sum of lengths, see `over_lengths`, whose lanes
    ``lanes=`` says.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> layer = RNN(8).init(seed=0, shape=(None, 5, 3))
    >>> x = nnc.eager().asarray(np.ones((2, 5, 3), "float32"))
    >>> layer(x).shape
    (2, 5, 8)
    >>> layer(x, lengths=[5, 2]).numpy().any(axis=2).sum(axis=1)
    array([5, 2])
    """

    takes_one: ClassVar[bool] = True

    gates: ClassVar[int] = 1
    states: ClassVar[int] = 1
    operator: ClassVar[str] = "rnn"

    hidden: int = static()
    weight: Any = parameter(default=None)
    recurrent: Any = parameter(default=None)
    bias: Any = parameter(default=None)
    sequences: bool = static(default=True)
    initialiser: Initialiser = static(default=glorot_uniform)

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        """Weights of inputs and of the state, gate beside gate, each drawn by itself; and a bias of zeros."""
        if aval.ndim != 3:
            raise ShapeError(f"{self!r} wants sequences (samples, steps, inputs), given shape {aval.shape}")
        rows = {"weight": channels_of(aval.shape, -1, self), "recurrent": self.hidden}
        made = {
            name: _beside(self.initialiser, fold_in(key, i), (inputs, self.hidden), self.gates, aval.dtype)
            for i, (name, inputs) in enumerate(rows.items())
        }
        return {**made, "bias": zeros(key, (self.gates * self.hidden,), aval.dtype)}

    def forward(self, x: Any, context: Context | None = None, lengths: Any = None, lanes: int | None = None) -> Any:
        """The states of all steps, or the last."""
        x = self._sequences(x)
        if lengths is None:
            zero = x.stack.ops.full(shape=(x.shape[0], self.hidden), value=0, dtype=x.dtype)
            every, last, *_ = self.run(x, *(zero,) * self.states)
        else:
            every, last, *_ = self.run(x, *(self.hidden,) * self.states, lengths=lengths, lanes=lanes)
        return every if self.sequences else last

    def run(self, x: Any, *states: Any, lengths: Any = None, lanes: int | None = None) -> Any:
        """All results of the operator, from these states: those of all steps, then each last one."""
        x = self._sequences(x)
        numbers = () if lengths is None else (int,)  # of units, which stand for zeros
        if len(states) != self.states or not all(isinstance(each, (*ARRAYS, Tensor, *numbers)) for each in states):
            raise OperatorError(f"{self!r} runs from {self.states} states (samples, {self.hidden}), given {states!r}")
        ops, weights = x.stack.ops, (self.weight, self.recurrent, *self.biases())
        if lengths is None:
            return getattr(ops, self.operator)(x, *states, *weights)
        cell = getattr(ops, f"{self.operator}_cell")

        def step(rows: Any, before: tuple[Any, ...]) -> tuple[Any, ...]:
            after = cell(rows, *before, *weights)
            return after if isinstance(after, tuple) else (after,)

        every, last = over_lengths(step, x, lengths, states, lanes)
        return (every, *last)

    def _sequences(self, x: Any) -> Any:
        x = in_tensor(self, x, self)
        if x.ndim != 3:
            raise ShapeError(with_line(f"{self!r} wants sequences (samples, steps, inputs), given shape {x.shape}"))
        return x

    def biases(self) -> tuple[Any, ...]:
        """Those of the operator."""
        return (self.bias,)


def _beside(initialiser: Initialiser, key: Any, shape: tuple[int, int], gates: int, dtype: Any) -> Any:
    import numpy as np

    return np.concatenate([initialiser(fold_in(key, i), shape, dtype) for i in range(gates)], axis=1)


@module
class LSTM(RNN):
    """A long short-term memory over sequences, from states of zeros; Hochreiter and Schmidhuber, 1997.

    Gates lie in the order input, forget, candidate, output, and the bias of the forget gate starts at 1 (Jozefowicz et
    al., ICML 2015). Otherwise as `RNN`; the formula is that of the operator `lstm`, whose states are output and cell.

    Examples
    --------
    >>> LSTM(8, sequences=False).init(seed=0, shape=(None, 5, 3))
    LSTM(hidden=8, weight=float32[3, 32], recurrent=float32[8, 32], bias=float32[32], sequences=False)
    """

    gates: ClassVar[int] = 4
    states: ClassVar[int] = 2
    operator: ClassVar[str] = "lstm"

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        """As those of `RNN`, but for the bias of the forget gate."""
        made = RNN.create(self, key, aval)
        made["bias"][self.hidden : 2 * self.hidden] = 1
        return made


@module
class GRU(RNN):
    """A gated recurrent unit over sequences, from a state of zeros; Cho et al., EMNLP 2014.

    Gates lie in the order reset, update, candidate. Otherwise as `RNN`; the formula is that of the operator `gru`, with
    a second bias of the state's products.

    Examples
    --------
    >>> GRU(8).init(seed=0, shape=(None, 5, 3)).weight.shape
    (3, 24)
    """

    gates: ClassVar[int] = 3
    operator: ClassVar[str] = "gru"
    hidden_bias: Any = parameter(default=None)

    def create(self, key: Any, aval: Any) -> dict[str, Any]:
        """As those of `RNN`, and the bias of the state's products."""
        return {**RNN.create(self, key, aval), "hidden_bias": zeros(key, (3 * self.hidden,), aval.dtype)}

    def biases(self) -> tuple[Any, ...]:
        """Those of the operator: of the inputs' products, and of the state's."""
        return self.bias, self.hidden_bias
