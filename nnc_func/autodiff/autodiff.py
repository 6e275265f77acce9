"""Autodiff, the ninth layer: forward and reverse mode over any engine, or any array module, nested at will."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeVar

import attrs
from attrs import field

from nnc_func.autodiff.bodies import BodyDerivatives
from nnc_func.autodiff.linearised import Linearised
from nnc_func.autodiff.traced import Forward, Reverse, Traced, scope
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.tensors.namespace import Ops
from nnc_func.layer import Layer, chain, changes, dispatch_of, layer
from nnc_func.layer_protocols import BindSignature, DeviceSignature, EngineSignature
from nnc_func.op import Op

A = TypeVar("A")


def _functions(self: Any) -> Ops[Any]:
    found = next((each.ops for each in chain(self) if each.role == "type"), CATALOGUE)
    return Ops(self.bind, found).functions


def _lower(self: Any) -> Any:
    return self.engine.bind


@layer(on=("engine", "device"), needs=BindSignature)
class Autodiff(Layer, Generic[A]):
    """Derivatives: an operator on values under differentiation is differentiated, any other is passed on.

    Attributes
    ----------
    engine
        The layer below: an engine, or a device (Owl's original, shorter stack).
    functions
        The catalogue's operators as functions over this layer: what derivative formulas are written against.
    bodies
        What gives derivatives of bodies, for operators that apply some.

    Examples
    --------
    >>> import numpy as np
    >>> from nnc_func.device import NumPy
    >>> autodiff = Autodiff(NumPy())
    >>> o = autodiff.functions
    >>> y, back = autodiff.vjp(lambda x: o.multiply(x, x), [np.float64(3.0)])
    >>> back(np.float64(1.0))
    [array(6.)]
    """

    engine: EngineSignature[A] | DeviceSignature[A]
    functions: Ops[Any] = field(init=False, eq=False, repr=False, default=attrs.Factory(_functions, takes_self=True))
    bodies: BodyDerivatives = field(
        init=False, eq=False, repr=False, default=attrs.Factory(BodyDerivatives, takes_self=True)
    )
    above: dict[Any, Any] = field(init=False, eq=False, repr=False, factory=dict)  # layers on it, by their class
    _below: Any = field(init=False, eq=False, repr=False, default=attrs.Factory(_lower, takes_self=True))

    role: ClassVar[Literal["autodiff"]] = "autodiff"

    def bind(self, op: Op, *args: Any, **params: Hashable) -> Any:
        """The operator, differentiated by the innermost transformation that one of its arguments is under."""
        top = None
        for a in args:
            if type(a) is Traced and (top is None or a.trace.level > top.level):
                top = a.trace
        within = scope.get()
        if within is not None and (top is None or top.level < within.level) and within.autodiff == self:
            top = within
        if top is None:
            return self._below(op, *args, **params)
        return top.bind(op, args, params)

    def dispatch(self) -> Any | None:
        """That of the layer below: a device array is under no transformation."""
        return None if changes(self, "bind") else dispatch_of(self.engine)

    def jvp(self, f: Any, primals: list[Any], tangents: list[Any]) -> tuple[Any, Any]:
        """``f(*primals)`` and its derivative along the tangents (None is zero): pairs, for one result or a list.

        `f` takes and returns carriers. A tangent is None where it is known to be zero.
        """
        trace = Forward(self)
        try:
            duals = [x if t is None else Traced(trace, x, t) for x, t in zip(primals, tangents, strict=True)]
            found = f(*duals)
        finally:
            trace.live = False
        several = isinstance(found, (list, tuple))
        pairs = [
            (v.primal, v.mark) if type(v) is Traced and v.trace is trace else (v, None)
            for v in (found if several else [found])
        ]
        values, slopes = [p for p, _ in pairs], [t for _, t in pairs]
        return (values, slopes) if several else (values[0], slopes[0])

    def linearize(self, f: Any, primals: Any) -> tuple[list[Any], Linearised]:
        """``f(*primals)`` and the derivative of f there, a linear map; f takes carriers and returns a list of them."""
        trace = Reverse(self)
        try:
            starts = [trace.start(x) for x in primals]
            outputs = list(f(*starts))
        finally:
            trace.live = False
        values = [v.primal if type(v) is Traced and v.trace is trace else v for v in outputs]
        return values, Linearised(trace, starts, outputs)

    def vjp(self, f: Any, primals: list[Any]) -> tuple[Any, Any]:
        """``f(*primals)`` and the function from cotangents of its results to those of its arguments.

        `f` takes and returns carriers. A cotangent is None where it is known to be zero.
        """
        several = False

        def listed(*args: Any) -> Any:
            nonlocal several
            found = f(*args)
            several = isinstance(found, (list, tuple))
            return found if several else [found]

        values, derivative = self.linearize(listed, primals)
        return (values if several else values[0]), lambda *cotangents: derivative.pull(cotangents)

    def call(self, rule: Any, args: Sequence[Any]) -> list[Any]:
        """A function with a rule of its own (see `custom`), under the innermost transformation of an argument."""
        top = None
        for a in args:
            if type(a) is Traced and (top is None or a.trace.level > top.level):
                top = a.trace
        within = scope.get()
        if within is not None and top is not None and top.level < within.level and within.autodiff == self:
            top = within
        return rule.value(args) if top is None else top.call(rule, args)  # type: ignore[no-any-return]
