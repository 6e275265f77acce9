"""Carriers and traces of differentiation: dual numbers for forward mode, a tape for reverse mode."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from nnc_func.autodiff.formulas import Called, Joint, tangent
from nnc_func.engine.dynamic.records import Recorded
from nnc_func.errors import DerivativeError, TracingError
from nnc_func.facets.derivatives import Constant, OfBodies, OfParameters, Refusal
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.leaves import Variable
from nnc_func.graph.pauses import owner_of, paused_here
from nnc_func.op import Op

_levels = itertools.count(1)  # of traces: an inner one is always above the outer ones
scope: ContextVar[Any] = ContextVar("scope", default=None)
"""The trace of a function that is traced to a body, of which every operator becomes part, whatever it is applied to."""


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


MAY_REFUSE = (Refusal, OfParameters)
KEEPING = frozenset((Traced, Recorded, Variable))
"""What flows through a stack beside which operands are kept."""


def unchanging(carriers: Sequence[Any], args: Sequence[Any]) -> Sequence[Any]:
    """Operands as may be kept for gradients: the caller may write into an array of NumPy later."""
    if KEEPING.isdisjoint(map(type, carriers)) or not any(isinstance(a, np.ndarray) for a in args):
        return carriers
    return [c.copy() if isinstance(a, np.ndarray) else c for a, c in zip(args, carriers, strict=True)]


class Trace:
    """What forward and reverse mode share: a level, and the stack below."""

    __slots__ = ("_pauses", "autodiff", "level", "live")
    makes_bodies = False  # whether what is applied within it becomes part of a body

    def __init__(self, autodiff: Any) -> None:
        self.autodiff = autodiff
        self.level = next(_levels)
        self.live = True
        self._pauses = self._open()

    def _open(self) -> int:
        """How many pauses of its stack are open in this thread."""
        found = paused_here()
        return found.count(owner_of(self.autodiff)) if found else 0

    @property
    def is_paused(self) -> bool:
        """Whether what is computed now is a constant to it: a pause was opened since it began."""
        return bool(paused_here()) and self._open() > self._pauses

    def check(self) -> None:
        """Raise TracingError if the transformation that made the trace has returned."""
        if not self.live:
            raise TracingError(
                "a tensor was used after the transformation (grad, jvp …) that it was traced by had returned; "
                "return it from the function instead of storing it elsewhere"
            )

    def known(self, name: str, values: Sequence[Any]) -> None:
        """Raise DerivativeError if a function with a rule depends on more of the trace than its arguments."""
        if any(type(v) is Traced and v.trace is self for v in values):
            raise DerivativeError(
                f"{name} has a derivative of its own, which is with respect to its arguments, but it also uses a "
                "tensor from around it that is being differentiated; pass that as an argument"
            )


KEPT_OUT = "; keep it out of what is differentiated, or use stop_gradient"


def check_derivative(op: Op, params: Any, where: str = "") -> None:
    """Raise DerivativeError if the operator, applied at some line, has no derivative, and say why."""
    derivative = op.derivative
    if isinstance(derivative, OfParameters):
        derivative = derivative.refusal(**params)
    if isinstance(derivative, Refusal):
        applied = f" (applied at {where})" if where else ""
        raise DerivativeError(f"{op.name} has no derivative{applied}: {derivative.why}{KEPT_OUT}")


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
        if self.is_paused:
            return self.autodiff.bind(op, *primals, **params)
        tangents = tuple([a.mark if type(a) is Traced and a.trace is self else None for a in args])
        derivative = op.derivative
        if isinstance(derivative, OfBodies):
            of, o = self.autodiff.bodies, self.autodiff.functions
            y, found = derivative.jvp(op, of, o, tangents, primals, params)
            return tuple(v if t is None else Traced(self, v, t) for v, t in zip(y, found, strict=True))
        y = self.autodiff.bind(op, *primals, **params)
        if isinstance(derivative, Constant) or not _smooth(self.autodiff.functions, op, y):
            return y
        if isinstance(derivative, MAY_REFUSE):
            check_derivative(op, params)
        o = self.autodiff.functions
        found = tangent(o, op, derivative, y, primals, tangents, params)
        if not op.multi_result:
            return y if found is None else Traced(self, y, found)
        return tuple(v if t is None else Traced(self, v, t) for v, t in zip(y, found, strict=True))

    def call(self, rule: Any, args: Sequence[Any]) -> list[Any]:
        """A function with a rule of its own, on dual numbers."""
        self.check()
        mine = [type(a) is Traced and a.trace is self for a in args]
        primals = [a.primal if m else a for a, m in zip(args, mine, strict=True)]
        if self.is_paused:
            mine = [False for _ in args]
        values, slopes = rule.jvp(primals, [a.mark if m else None for a, m in zip(args, mine, strict=True)])
        self.known(rule.name, [*values, *slopes])
        return [v if t is None else Traced(self, v, t) for v, t in zip(values, slopes, strict=True)]


def _smooth(o: Any, op: Op, y: Any) -> bool:
    if op.multi_result:
        return any(kind_of(o.dtype(v)) in "fc" for v in y)
    return kind_of(o.dtype(y)) in "fc"


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
        primals: list[Any] = [*args]
        parents: list[Any] = [None] * len(args)
        for i, a in enumerate(args):
            if type(a) is Traced and a.trace is self:
                primals[i], parents[i] = a.primal, (a.mark, a.index)
        if self.is_paused:
            return self.autodiff.bind(op, *primals, **params)
        derivative = op.derivative
        if isinstance(derivative, OfBodies):
            moving = frozenset(n for n, each in enumerate(parents) if each is not None)
            of, o = self.autodiff.bodies, self.autodiff.functions
            return self._joint(op.name, primals, parents, derivative.linearize(op, of, o, moving, primals, params))
        y = self.autodiff.bind(op, *primals, **params)
        if isinstance(derivative, Constant) or not _smooth(self.autodiff.functions, op, y):
            return y
        if isinstance(derivative, MAY_REFUSE):
            check_derivative(op, params)
        entry = Entry(op, primals, parents, params, y)
        self.tape.append(entry)
        if op.multi_result:
            return self._results(entry)
        return Traced(self, y, entry)

    def call(self, rule: Any, args: Sequence[Any]) -> list[Any]:
        """A function with a rule of its own, noted on the tape as one entry."""
        self.check()
        mine = [type(a) is Traced and a.trace is self for a in args]
        primals = tuple([a.primal if m else a for a, m in zip(args, mine, strict=True)])
        found = rule.linearize(primals)
        self.known(rule.name, found[0])
        if self.is_paused:
            return [*found[0]]
        parents = tuple([(a.mark, a.index) if m else None for a, m in zip(args, mine, strict=True)])
        return [*self._joint(rule.name, primals, parents, found)]

    def _joint(self, name: str, primals: Sequence[Any], parents: Any, found: Any) -> tuple[Any, ...]:
        """The results of what has one derivative of all its operands together, noted on the tape as one entry."""
        values, push, pull = found
        entry = Entry(Called(name, Joint(push, pull)), primals, parents, {}, tuple(values))
        self.tape.append(entry)
        return self._results(entry)

    def _results(self, entry: Entry) -> tuple[Any, ...]:
        """Those of an entry with several; what is not floating has no derivative."""
        o = self.autodiff.functions
        return tuple([Traced(self, v, entry, i) if kind_of(o.dtype(v)) in "fc" else v for i, v in enumerate(entry.y)])
