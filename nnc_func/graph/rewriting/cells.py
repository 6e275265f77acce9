"""Bodies of loops that are cells of recurrent layers: which part of what each gate is made of.

A body is computed with expressions in place of arrays. Parts of an axis are pushed through elementwise operators and
products to what they are made of, so that it does not matter whether gates lie side by side and are taken apart before
a sigmoid or after it, nor in which order they stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.facets.movement import part_sizes
from nnc_func.facets.shapes import normalise_axis
from nnc_func.graph.ops.activations import sigmoid
from nnc_func.graph.ops.binary import add, multiply, subtract
from nnc_func.graph.ops.bodies import shapes_in
from nnc_func.graph.ops.create import full
from nnc_func.graph.ops.linalg import matmul
from nnc_func.graph.ops.move import split
from nnc_func.graph.ops.transcendental import tanh

ELEMENTWISE = frozenset({sigmoid, tanh, add, multiply, subtract})
Expression = tuple[Any, ...]
"""An operator's name and expressions; ``("part", parameter, start, stop)`` along its last axis; ``("product", left,
parameter, start, stop, transposed)``: columns of a product with a parameter; or ``("number", value)``."""


@frozen
class Columns:
    """Some columns of a parameter; of a transposed one, rows."""

    parameter: int
    start: int
    stop: int
    transposed: bool = False


@frozen
class Gate:
    """What is added up for a gate.

    Attributes
    ----------
    given
        Columns of the inputs' share.
    weights
        Of states.
    biases
        More that is added, of one axis.
    """

    given: Columns
    weights: Columns
    biases: tuple[Columns, ...]


@frozen
class Cell:
    """A cell of a recurrent layer.

    Attributes
    ----------
    kind
        ``"lstm"``, gates in the order i, f, g, o; or ``"gru"``, gates in the order z, r, n.
    gates
        Of the candidate of a gated recurrent unit the biases are those of its state, within the reset.
    more
        Biases of that candidate beside its inputs.
    carries
        Which carry is the state, and which the cell, if there is one.
    """

    kind: str
    gates: tuple[Gate, ...]
    more: tuple[Columns, ...]
    carries: tuple[int, ...]


def cell_of(body: Body, avals: Sequence[Aval], constants: int, carries: int) -> Cell | None:
    """The cell that the body of a loop is, of parameters of these avals, of which the last one is the inputs' share.

    What it stacks are states. None where it is none.
    """
    states = avals[constants : constants + carries]
    if body.parameters != constants + carries + 1 or carries not in (1, 2) or any(a.ndim != 2 for a in states):
        return None
    values = _values(body, avals)
    if values is None:
        return None
    found = _Matching([values[i] for i in body.results], avals, constants, carries)
    return found.long_short_term_memory() if carries == 2 else found.gated_recurrent_unit()


def _values(body: Body, avals: Sequence[Aval]) -> list[Expression] | None:
    """All values of a body as expressions; None where an operator is none of a cell's."""
    shapes = shapes_in(body, tuple([a.shape for a in avals]))
    found: list[Expression] = [("part", n, 0, a.shape[-1] if a.ndim else 1) for n, a in enumerate(avals)]
    for each in body.applications:
        operands, params = [found[i] for i in each.operands], each.params
        if each.op in ELEMENTWISE:
            found.append((each.op.name, *operands))
        elif each.op is full and params["shape"] == ():
            found.append(("number", params["value"]))
        elif each.op is split:
            shape = shapes[each.operands[0]]
            if normalise_axis(params["axis"], len(shape)) != len(shape) - 1:
                return None
            ends = [*accumulate(map(int, part_sizes(shape[-1], params["sections"])), initial=0)]
            found += [_part(operands[0], *ends[n : n + 2]) for n in range(each.count)]
        elif each.op is matmul and operands[1][0] == "part" and not params["transpose_a"]:
            _, parameter, start, stop = operands[1]
            weights = avals[parameter].shape
            if len(weights) != 2 or (start, stop) != (0, weights[1]):
                return None
            columns = weights[0 if params["transpose_b"] else 1]
            found.append(("product", operands[0], parameter, 0, columns, params["transpose_b"]))
        else:
            return None
    return found


def _part(value: Expression, start: int, stop: int) -> Expression:
    """Elements of an expression along its last axis; one element is that of each place."""
    match value:
        case ("number", _):
            return value
        case ("part", n, first, last):
            return value if last - first == 1 else ("part", n, first + start, first + stop)
        case ("product", left, n, first, _, transposed):
            return ("product", left, n, first + start, first + stop, transposed)
    return (value[0], *[_part(each, start, stop) for each in value[1:]])


def _either(value: Expression, name: str) -> Iterator[tuple[Expression, Expression]]:
    """The operands of a sum or a product, in both orders."""
    if value[0] == name:
        yield value[1], value[2]
        yield value[2], value[1]


def _terms(value: Expression) -> list[Expression]:
    return [*_terms(value[1]), *_terms(value[2])] if value[0] == "add" else [value]


class _Matching:
    """Results of a body, held against the formulas of cells."""

    def __init__(self, results: list[Expression], avals: Sequence[Aval], constants: int, carries: int) -> None:
        self.after, self.stacked = results[:carries], results[carries:]
        self.avals, self.constants = avals, constants
        self.before = [("part", constants + k, 0, avals[constants + k].shape[1]) for k in range(carries)]

    def long_short_term_memory(self) -> Cell | None:
        """``c' = sigmoid(f) c + sigmoid(i) tanh(g)`` and ``h' = sigmoid(o) tanh(c')``."""
        for state, cell in ((0, 1), (1, 0)):
            h, c = self.after[state], self.after[cell]
            for shown, squashed in _either(h, "multiply"):
                for kept, new in _either(c, "add"):
                    for forgotten, before in _either(kept, "multiply"):
                        for given, candidate in _either(new, "multiply"):
                            activations = [each[0] for each in (given, forgotten, candidate, shown)]
                            if activations != ["sigmoid", "sigmoid", "tanh", "sigmoid"] or squashed != ("tanh", c):
                                continue
                            sums = [_terms(each[1]) for each in (given, forgotten, candidate, shown)]
                            gates = [self._gate(terms, state) for terms in sums]
                            if before == self.before[cell] and self._stacks(h) and None not in gates:
                                return Cell("lstm", tuple(filter(None, gates)), (), (state, cell))
        return None

    def gated_recurrent_unit(self) -> Cell | None:
        """``h' = (1 - z) n + z h`` of ``n = tanh(x + sigmoid(r) (h r_n + b))``, in one of its two forms."""
        h, (before,) = self.after[0], self.before
        for update, new in self._mixed(h, before):
            if update[0] != "sigmoid" or new[0] != "tanh" or not self._stacks(h):
                continue
            terms = _terms(new[1])
            for n, term in enumerate(terms):
                for reset, again in _either(term, "multiply"):
                    if reset[0] != "sigmoid":
                        continue
                    rest = [*terms[:n], *terms[n + 1 :]]
                    shares = [each for each in rest if self._is_given(each)]
                    more = [self._bias(each) for each in rest if not self._is_given(each)]
                    gates = [self._gate(_terms(each[1]), 0) for each in (update, reset)]
                    candidate = self._gate([*_terms(again), *shares], 0)
                    if len(shares) == 1 and None not in more and None not in gates and candidate is not None:
                        return Cell("gru", (*filter(None, gates), candidate), tuple(filter(None, more)), (0,))
        return None

    @staticmethod
    def _mixed(h: Expression, before: Expression) -> Iterator[tuple[Expression, Expression]]:
        """Update and candidate of a state."""
        for new, moved in _either(h, "add"):
            for update, difference in _either(moved, "multiply"):
                if difference == ("subtract", before, new):
                    yield update, new
            for update, kept in _either(moved, "multiply"):
                for rest, candidate in _either(new, "multiply"):
                    if kept == before and rest == ("subtract", ("number", 1), update):
                        yield update, candidate

    def _stacks(self, h: Expression) -> bool:
        return all(each == h for each in self.stacked)

    def _is_given(self, term: Expression) -> bool:
        return bool(term[0] == "part" and term[1] == len(self.avals) - 1)

    def _bias(self, term: Expression) -> Columns | None:
        if term[0] == "part" and term[1] < self.constants and self.avals[term[1]].ndim == 1:
            return Columns(*term[1:])
        return None

    def _gate(self, terms: list[Expression], state: int) -> Gate | None:
        """What is added up, if it is a part of the inputs' share, a product of the state, and biases."""
        given = [each for each in terms if self._is_given(each)]
        products = [each for each in terms if each[:2] == ("product", self.before[state])]
        biases = [self._bias(each) for each in terms if each not in given and each not in products]
        if len(given) != 1 or len(products) != 1 or None in biases or products[0][2] >= self.constants:
            return None
        return Gate(Columns(*given[0][1:]), Columns(*products[0][2:]), tuple(filter(None, biases)))
