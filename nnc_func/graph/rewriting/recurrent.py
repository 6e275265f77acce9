"""Loops that are recurrent layers, as one operator, where a device has a library that computes all times at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from nnc_func.declaration import Items
from nnc_func.device.shared.queries import has_libraries, kernel_of
from nnc_func.errors import NncError
from nnc_func.facets.dims import known, product
from nnc_func.facets.movement import part_sizes
from nnc_func.facets.shapes import normalise_axis
from nnc_func.graph.node import Value
from nnc_func.graph.ops.binary import add
from nnc_func.graph.ops.create import full
from nnc_func.graph.ops.index import slice_
from nnc_func.graph.ops.linalg import matmul
from nnc_func.graph.ops.loop import avals_of
from nnc_func.graph.ops.move import concat, permute_dims, reshape, split
from nnc_func.graph.ops.recurrent import gru_layer, lstm_layer
from nnc_func.graph.rewriting.building import Builder
from nnc_func.graph.rewriting.cells import Cell, Columns, cell_of
from nnc_func.graph.rules.folding import folded
from nnc_func.graph.rules.rule import ROUNDING
from nnc_func.op import Op

LAYERS = {"lstm": lstm_layer, "gru": gru_layer}


def makes_layers(optimiser: Any) -> bool:
    """Whether loops may become layers: sums are taken in another order, and the device has a library.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> makes_layers(nnc.lazy().optimiser)
    False
    """
    device, ops = optimiser.operator.device, optimiser.operator.type.ops
    asks = getattr(device, "asks_bind", False)
    there = all(ops.get(op.name) is op for op in LAYERS.values())
    return there and not asks and has_libraries(device) and optimiser.numerics >= ROUNDING


def as_layer(args: Sequence[Value], items: Items, origin: Any, optimiser: Any) -> list[Value] | None:
    """The results of a loop from a recurrent layer; None where it is none, or a library has none for it.

    Parameters
    ----------
    args, items
        Its operands, and its parameters in canonical form.
    origin
        Of the layer.
    """
    params = dict(items)
    if params["counted"] or params["conditional"] or params["length"] is not None:
        return None
    body, constants, carries = params["body"], params["constants"], params["carries"]
    if not all(known(n) for a in args for n in a.shape) or not all(a.aval.layout is None for a in args):
        return None
    avals = avals_of(tuple([a.aval for a in args]), body, constants, carries)
    cell = cell_of(body, avals, constants, carries)
    share = _share_of(args[-1]) if cell is not None else None
    if cell is None or share is None:
        return None
    try:
        return _Layer(args, params, cell, share, origin, optimiser).results(len(body.results))
    except NncError:  # the device has no such kernel, or the stack no such operator
        return None


@frozen(eq=False)
class _Share:
    """What is multiplied for all times at once: inputs with weights, and what is added to the product."""

    x: Value
    swapped: bool
    w: Value
    transposed: bool
    biases: tuple[Value, ...]


def _share_of(value: Value) -> _Share | None:
    """The product that a value of the axes times, samples and gates is; None where it is none."""
    biases: list[Value] = []
    width = value.shape[-1]
    while value.node.op is not matmul:
        args = value.node.args
        if value.node.op is add:
            alike = [a for a in args if a.dtype == value.dtype]
            rows = [a for a in alike if a.shape[-1:] == (width,) and product(a.shape) == width]
            rows.sort(key=lambda a: (a.node.op is not matmul, -a.aval.ndim))  # of one time and one sample both are rows
            whole = [a for a in alike if a.shape == value.shape and a not in rows[-1:]]
            if not rows or not whole:
                return None
            biases.append(rows[-1])
            value = whole[0]
        elif value.node.op is reshape and args[0].shape[-1:] == (width,):
            (value,) = args
        else:
            return None
    x, w = value.node.args
    params = value.node.params
    if w.aval.ndim != 2 or x.dtype != w.dtype:
        return None
    return _Share(x, params["transpose_a"], w, params["transpose_b"], tuple(biases))


class _Layer:
    """A recurrent layer in the making."""

    def __init__(
        self, args: Sequence[Value], params: dict[str, Any], cell: Cell, share: _Share, origin: Any, optimiser: Any
    ) -> None:
        self.args, self.params, self.cell, self.share, self.origin = args, params, cell, share, origin
        self.operator, self.builder = optimiser.operator, Builder(optimiser.operator)
        self.hidden = cell.gates[0].weights.stop - cell.gates[0].weights.start

    def results(self, count: int) -> list[Value]:
        """Those of the loop.

        Raises
        ------
        NncError
            No library has a kernel for it.
        """
        cell, op = self.cell, LAYERS[self.cell.kind]
        first, carries = self.params["constants"], self.params["carries"]
        states = [self.args[first + k] for k in cell.carries]
        operands = (self._inputs(), *self._weights(), self._biases(), *states)
        items = op.canonical({"reverse": self.params["reverse"]})
        kernel = kernel_of(self.operator.device, op, tuple([a.aval for a in operands]), items)
        if kernel is None or kernel.library is None:
            raise NncError(f"no library has a kernel of {op.name}")
        every, *last = self._applied(op, operands, items)
        place = {carry: n for n, carry in enumerate(cell.carries)}
        return [last[place[n]] if n < carries else every for n in range(count)]

    def _applied(self, op: Op, operands: Sequence[Value], items: Items) -> Any:
        return self.operator.symbol.apply(op, tuple(operands), items, self.origin)

    def _apply(self, op: Op, *operands: Value, **params: Any) -> Any:
        return self._applied(op, operands, op.canonical(params))

    def _constant(self, value: Value) -> Value:
        """A value computed now, if it is made of constants."""
        found = folded(value, self.builder)
        return value if found is None else found

    def _inputs(self) -> Value:
        """Of the axes times, samples and channels."""
        x, share = self.share.x, self.share
        if share.swapped:
            rank = x.aval.ndim
            x = self._apply(permute_dims, x, axes=(*range(rank - 2), rank - 1, rank - 2))
        shape = (*self.args[-1].shape[:2], share.w.shape[1 if share.transposed else 0])
        return x if x.shape == shape else self._apply(reshape, x, shape=shape)

    def _weights(self) -> tuple[Value, Value]:
        """Of inputs and of states, columns of each gate side by side."""
        share, gates = self.share, self.cell.gates
        w = [self._columns(share.w, each.given.start, each.given.stop, share.transposed) for each in gates]
        r = [self._columns_of(each.weights) for each in gates]
        return self._constant(self._joined(w, 1)), self._constant(self._joined(r, 1))

    def _biases(self) -> Value:
        """One axis: of each gate, and of gated recurrent units of the candidate's state."""
        parts, width = [], self.args[-1].shape[-1]
        for n, gate in enumerate(self.cell.gates):
            shares = [self._apply(reshape, b, shape=(width,)) if b.aval.ndim != 1 else b for b in self.share.biases]
            added = [self._columns(b, gate.given.start, gate.given.stop) for b in shares]
            own = [self._columns_of(each) for each in gate.biases]
            if self.cell.kind == "gru" and n == len(self.cell.gates) - 1:
                added += [self._columns_of(each) for each in self.cell.more]
                parts += [self._sum(added), self._sum(own)]
            else:
                parts.append(self._sum([*added, *own]))
        return self._constant(self._joined(parts, 0))

    def _sum(self, values: list[Value]) -> Value:
        if not values:
            return self._apply(full, shape=(self.hidden,), value=0.0, dtype=self.args[-1].dtype)  # type: ignore[no-any-return]
        found, *others = values
        for each in others:
            found = self._apply(add, found, each)
        return found if found.shape == (self.hidden,) else self._apply(add, found, self._sum([]))

    def _joined(self, values: list[Value], axis: int) -> Value:
        return self._apply(concat, *values, axis=axis)  # type: ignore[no-any-return]

    def _columns_of(self, part: Columns) -> Value:
        return self._columns(self.args[part.parameter], part.start, part.stop, part.transposed)

    def _columns(self, value: Value, start: int, stop: int, transposed: bool = False) -> Value:
        """Some columns, or rows as columns, of what a value is a part of."""
        rank = value.aval.ndim
        axis = 0 if transposed else rank - 1
        while value.node.op is split and normalise_axis(value.node.params["axis"], rank) == axis:
            (whole,) = value.node.args
            before = sum(map(int, part_sizes(whole.shape[axis], value.node.params["sections"])[: value.index]))
            value, start, stop = whole, start + before, stop + before
        if (start, stop) != (0, value.shape[axis]):
            starts, stops = [0] * rank, [*value.shape]
            starts[axis], stops[axis] = start, stop
            value = self._apply(slice_, value, starts=tuple(starts), stops=tuple(stops), steps=(1,) * rank)
        return self._apply(permute_dims, value, axes=(1, 0)) if transposed else value
