"""Carriers and traces of differentiation: dual numbers for forward mode, a tape for reverse mode."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from typing import Any

import numpy as np

from nnc_func.errors import DerivativeError, TracingError
from nnc_func.facets.derivatives import ONE, Bilinear, Constant, Custom, Linear, Partials, Refusal
from nnc_func.graph.origin import attributed
from nnc_func.op import Op

SCALARS = (bool, int, float, complex)
_levels = itertools.count(1)  # of traces: an inner one is always above the outer ones


class Traced:
    """A value under differentiation: its primal, and what its trace knows of it."""

    __slots__ = ("index", "mark", "primal", "trace")

    def __init__(self, trace: Any, primal: Any, mark: Any, index: int = 0) -> None:
        self.trace = trace
        self.primal = primal
        self.mark = mark  # forward: the tangent; reverse: the entry of the tape
        self.index = index

    @property
    def shape(self) -> Any:
        """Extents of the primal."""
        return self.primal.shape

    @property
    def dtype(self) -> Any:
        """Dtype of the primal."""
        return self.primal.dtype

    @property
    def aval(self) -> Any:
        """Aval of the primal, where it has one."""
        return self.primal.aval

    def __repr__(self) -> str:
        return f"Traced({self.primal!r})"


class Trace:
    """What forward and reverse mode share: a level, and the stack below."""

    __slots__ = ("autodiff", "level", "live")

    def __init__(self, autodiff: Any) -> None:
        self.autodiff = autodiff
        self.level = next(_levels)
        self.live = True

    def check(self) -> None:
        """Raise TracingError if the transformation that made the trace has returned."""
        if not self.live:
            raise TracingError(
                "a tensor was used after the transformation (grad, jvp …) that it was traced by had returned; "
                "return it from the function instead of storing it elsewhere"
            )


def refuse(op: Op, derivative: Refusal) -> Any:
    """Raise DerivativeError: the operator has no derivative, and why."""
    raise DerivativeError(
        f"{op.name} has no derivative: {derivative.why}; keep it out of what is differentiated, or use stop_gradient"
    )


# --- forward -----------------------------------------------------------------------------------------


class Forward(Trace):
    """Dual numbers."""

    __slots__ = ()

    def bind(self, op: Op, args: tuple[Any, ...], params: Any) -> Any:
        """The operator on dual numbers: the result carries a tangent unless that is zero."""
        self.check()
        if op.params:
            params = dict(op.canonical(params))  # formulas see every parameter, defaults filled in
        primals = tuple([a.primal if type(a) is Traced and a.trace is self else a for a in args])
        tangents = tuple([a.mark if type(a) is Traced and a.trace is self else None for a in args])
        y = self.autodiff.bind(op, *primals, **params)
        derivative = op.derivative
        if isinstance(derivative, Constant) or not _smooth(self.autodiff.functions, op, y):
            return y
        if isinstance(derivative, Refusal):
            return refuse(op, derivative)
        o = self.autodiff.functions
        found = tangent(o, op, derivative, y, primals, tangents, params)
        if not op.several:
            return y if found is None else Traced(self, y, found)
        return tuple(v if t is None else Traced(self, v, t) for v, t in zip(y, found, strict=True))


def _smooth(o: Any, op: Op, y: Any) -> bool:
    if op.several:
        return any(o.dtype(v).kind in "fc" for v in y)
    return o.dtype(y).kind in "fc"


def tangent(o: Any, op: Op, derivative: Any, y: Any, xs: Any, ts: Any, params: Any) -> Any:
    """The tangent of the result; None where it is zero."""
    if isinstance(derivative, Partials):
        total = None
        for formula, t in zip(derivative.of, ts, strict=True):
            if t is None or formula is None:
                continue
            term = _cast_like(o, t, y) if formula is ONE else o.multiply(formula(o, y, *xs, **params), t)
            total = term if total is None else o.add(total, term)
        return None if total is None else o.broadcast_like(_cast_like(o, total, y), y)
    if isinstance(derivative, Linear):
        linear = range(len(xs)) if derivative.arguments is None else derivative.arguments
        if all(ts[i] is None for i in linear):
            return (None,) * len(y) if op.several else None
        moved = [(_zero(o, x) if ts[i] is None else ts[i]) if i in linear else x for i, x in enumerate(xs)]
        return o.bind(op, *moved, **(params if derivative.homogeneous is None else derivative.homogeneous(**params)))
    if isinstance(derivative, Bilinear):
        left = None if ts[0] is None else o.bind(op, ts[0], xs[1], **params)
        right = None if ts[1] is None else o.bind(op, xs[0], ts[1], **params)
        return right if left is None else left if right is None else o.add(left, right)
    assert isinstance(derivative, Custom)
    return derivative.jvp(o, ts, y, *xs, **params)


def _zero(o: Any, x: Any) -> Any:
    return type(x)(0) if type(x) in SCALARS else o.zeros_like(x)


def _cast_like(o: Any, t: Any, y: Any) -> Any:
    if t.dtype is y.dtype:
        return t
    wanted = o.dtype(y)
    return t if o.dtype(t) == wanted else o.cast(t, dtype=wanted)


# --- reverse -----------------------------------------------------------------------------------------


class Entry:
    """One application on the tape, or one of the arguments that are differentiated."""

    __slots__ = ("args", "op", "params", "parents", "y")

    def __init__(self, op: Any, args: Any, parents: Any, params: Any, y: Any) -> None:
        self.op = op
        self.args = args
        self.parents = parents  # (entry, index) or None, one for each argument
        self.params = params
        self.y = y


class Reverse(Trace):
    """A tape: what depends on the arguments, in the order in which it was computed."""

    __slots__ = ("tape",)

    def __init__(self, autodiff: Any) -> None:
        super().__init__(autodiff)
        self.tape: list[Entry] = []

    def start(self, x: Any) -> Traced:
        """An argument with respect to which is differentiated."""
        return Traced(self, x, Entry(None, (), (), {}, x))

    def bind(self, op: Op, args: tuple[Any, ...], params: Any) -> Any:
        """The operator, noted on the tape unless nothing flows back through it."""
        self.check()
        if op.params:
            params = dict(op.canonical(params))  # formulas see every parameter, defaults filled in
        primals = tuple([a.primal if type(a) is Traced and a.trace is self else a for a in args])
        y = self.autodiff.bind(op, *primals, **params)
        derivative = op.derivative
        if isinstance(derivative, Constant) or not _smooth(self.autodiff.functions, op, y):
            return y
        if isinstance(derivative, Refusal):
            return refuse(op, derivative)
        parents = tuple([(a.mark, a.index) if type(a) is Traced and a.trace is self else None for a in args])
        entry = Entry(op, primals, parents, params, y)
        self.tape.append(entry)
        if op.several:
            return tuple(Traced(self, v, entry, i) for i, v in enumerate(y))
        return Traced(self, y, entry)

    def back(self, outputs: list[Any], cotangents: list[Any], wanted: list[Traced]) -> list[Any]:
        """The cotangents of `wanted`, None where nothing flows; entries are used once and then forgotten."""
        o = self.autodiff.functions
        flowing: dict[Entry, list[Any]] = {}
        for output, g in zip(outputs, cotangents, strict=True):
            if type(output) is Traced and output.trace is self and g is not None:
                _add(o, flowing, (output.mark, output.index), g)
        for entry in reversed(self.tape):
            gs = flowing.pop(entry, None)
            if gs is not None:
                needed = [i for i, p in enumerate(entry.parents) if p is not None]
                where = _origin(entry.y)
                with attributed(where) if where else nullcontext():
                    for i, g in cotangent(o, entry, gs, needed):
                        if g is not None:
                            _add(o, flowing, entry.parents[i], g)
        return [flowing.get(w.mark, [None])[w.index] for w in wanted]


def _origin(y: Any) -> Any:
    """The user lines that asked for a result, where it is a graph's: its derivative is built for their sake too."""
    first = y[0] if isinstance(y, tuple) else y
    while type(first) is Traced:
        first = first.primal
    node = getattr(first, "node", None)
    return () if node is None else node.origin


def _add(o: Any, flowing: dict[Entry, list[Any]], to: tuple[Entry, int], g: Any) -> None:
    entry, index = to
    gs = flowing.get(entry)
    if gs is None:
        count = len(entry.y) if entry.op is not None and entry.op.several else 1
        gs = flowing[entry] = [None] * count
    gs[index] = g if gs[index] is None else o.add(gs[index], g)


def cotangent(o: Any, entry: Entry, gs: list[Any], needed: list[int]) -> Any:
    """(position, cotangent) of each needed argument of one application."""
    op, xs, params, y = entry.op, entry.args, entry.params, entry.y
    derivative = op.derivative
    g = tuple(gs) if op.several else gs[0]
    if isinstance(derivative, Partials):
        for i in needed:
            formula = derivative.of[i]
            if formula is not None:
                through = g if formula is ONE else o.multiply(g, formula(o, y, *xs, **params))
                yield i, o.sum_to(_cast_like(o, through, xs[i]), xs[i].shape)
    elif isinstance(derivative, Linear):
        linear = range(len(xs)) if derivative.arguments is None else derivative.arguments
        asked = set(needed)
        if op.several:
            g = tuple(o.zeros_like(v) if one is None else one for one, v in zip(g, y, strict=True))
        # of these only shape and dtype are read; a Python number has neither
        like = [np.asarray(x) if i in linear and type(x) in SCALARS else x for i, x in enumerate(xs)]
        found = derivative.transpose(o, g, *like, **params)
        parts = found if isinstance(found, tuple) else (found,)
        for position, part in zip(linear, parts, strict=True):
            if position in asked:
                yield position, None if part is None else _cast_like(o, part, xs[position])
    elif isinstance(derivative, Bilinear):
        for i in needed:
            part = (derivative.left if i == 0 else derivative.right)(o, g, *xs, **params)
            yield i, _cast_like(o, part, xs[i])
    else:
        for i in needed:
            if derivative.vjp[i] is not None:
                part = derivative.vjp[i](o, g, y, *xs, **params)
                yield i, None if part is None else _cast_like(o, part, xs[i])
