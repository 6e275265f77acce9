"""A function's derivative at a point, a linear map: tangents are pushed forward through its tape, cotangents back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nnc_func.autodiff.formulas import Choices, both, cotangent, left_out, tangent
from nnc_func.autodiff.traced import Entry, Reverse, Traced
from nnc_func.facets.derivatives import Linear
from nnc_func.graph.origin import attributing


class Linearised:
    """The derivative of a function at a point. It may be applied often, in both directions; None is zero everywhere.

    Only what lies between the arguments that are given a tangent (results that are given a cotangent) and the
    other end is computed.

    Examples
    --------
    >>> import numpy as np
    >>> from nnc_func.autodiff import Autodiff
    >>> from nnc_func.device import NumPy
    >>> autodiff = Autodiff(NumPy())
    >>> o = autodiff.functions
    >>> (y,), derivative = autodiff.linearize(lambda a, b: [o.multiply(a, b)], [np.float64(3), np.float64(4)])
    >>> derivative.push([np.float64(1), None]), derivative.pull([np.float64(1)])
    ([array(4.)], [array(4.), array(3.)])
    """

    __slots__ = ("_forward", "functions", "outputs", "starts", "tape")

    def __init__(self, trace: Reverse, starts: list[Traced], outputs: list[Any]) -> None:
        self.functions = trace.autodiff.functions
        self.tape = trace.tape
        self.starts = starts
        self.outputs = [y if type(y) is Traced and y.trace is trace else None for y in outputs]
        self._forward: list[Entry] | None = None

    # --- reverse --------------------------------------------------------------------------------------

    def pull(self, cotangents: Sequence[Any]) -> list[Any]:
        """The cotangents of the arguments, of those of the results."""
        o = self.functions
        flowing: dict[Entry, list[Any]] = {}
        for output, g in zip(self.outputs, cotangents, strict=True):
            if output is not None and g is not None:
                _add(o, flowing, (output.mark, output.index), g)
        with attributing() as attribute:
            self._flow_back(flowing, attribute)
        return [flowing.get(x.mark, [None])[x.index] for x in self.starts]

    def _flow_back(self, flowing: dict[Entry, list[Any]], attribute: Callable[[Any], None]) -> None:
        """Add the cotangents of all that the results were made of, entry after entry, each for its own lines' sake."""
        o = self.functions
        choices: dict[Entry, Choices] = {}
        for entry in reversed(self.tape):
            gs = flowing.pop(entry, None)
            if gs is not None:
                needed = [i for i, p in enumerate(entry.parents) if p is not None]
                attribute(_origin(entry.y))
                chosen = choices.pop(entry, ())
                if _accumulated(o, flowing, entry, gs):
                    choices[entry.parents[0][0]] = ()
                    continue
                may_choose = bool(chosen) or getattr(entry.op.derivative, "chooses", False)
                for i, g in cotangent(o, entry, gs, needed, chosen):
                    if g is not None:
                        to = entry.parents[i]
                        kept = left_out(entry, i, chosen) if may_choose else ()
                        if kept and to[0] in flowing:
                            kept = both(kept, choices.get(to[0], ()))
                        if kept or choices:
                            choices[to[0]] = kept
                        _add(o, flowing, to, g)

    # --- forward --------------------------------------------------------------------------------------

    def push(self, tangents: Sequence[Any]) -> list[Any]:
        """The tangents of the results, of those of the arguments."""
        o = self.functions
        slopes: dict[Entry, Any] = {x.mark: (t,) for x, t in zip(self.starts, tangents, strict=True) if t is not None}
        with attributing() as attribute:
            for entry in self._towards_results():
                ts = [None if p is None or p[0] not in slopes else slopes[p[0]][p[1]] for p in entry.parents]
                if all(t is None for t in ts):
                    continue
                attribute(_origin(entry.y))
                found = tangent(o, entry.op, entry.op.derivative, entry.y, entry.args, ts, entry.params)
                slopes[entry] = found if entry.op.multi_result else (found,)
        return [None if y is None or y.mark not in slopes else slopes[y.mark][y.index] for y in self.outputs]

    def _towards_results(self) -> list[Entry]:
        """The entries on which some result depends, in order."""
        if self._forward is None:
            wanted = {y.mark for y in self.outputs if y is not None}
            found = []
            for entry in reversed(self.tape):
                if entry in wanted:
                    found.append(entry)
                    wanted.update(p[0] for p in entry.parents if p is not None)
            self._forward = found[::-1]
        return self._forward


def _origin(y: Any) -> Any:
    """The user lines that asked for a result, where it is a graph's: its derivative is built for their sake too."""
    first = y[0] if isinstance(y, tuple) else y
    while type(first) is Traced:
        first = first.primal
    node = getattr(first, "node", None)
    return () if node is None else node.origin


def _accumulated(o: Any, flowing: dict[Entry, list[Any]], entry: Entry, gs: list[Any]) -> bool:
    """Add the cotangent of the first argument to the one that is there already, where the operator has a way to."""
    derivative = entry.op.derivative
    accumulate = derivative.accumulate if isinstance(derivative, Linear) else None
    if accumulate is None or entry.parents[0] is None:
        return False
    to, index = entry.parents[0]
    total = flowing[to][index] if to in flowing else None
    if total is None:
        return False
    flowing[to][index] = accumulate(o, total, gs[0], *entry.args, **entry.params)
    return True


def _add(o: Any, flowing: dict[Entry, list[Any]], to: tuple[Entry, int], g: Any) -> None:
    entry, index = to
    gs = flowing.get(entry)
    if gs is None:
        count = len(entry.y) if entry.op is not None and entry.op.multi_result else 1
        gs = flowing[entry] = [None] * count
    gs[index] = g if gs[index] is None else o.add(gs[index], g)
