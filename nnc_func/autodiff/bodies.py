"""Derivatives of bodies, as bodies: what an operator that applies bodies makes its own derivative of.

A body is written out on inputs of a recorder, which makes nodes and computes nothing, differentiated there as any
function is, and taken apart again. So whatever has a derivative may stand in a body, loops and branches too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

from attrs import frozen

from nnc_func.autodiff.traced import scope
from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.errors import DerivativeError
from nnc_func.graph.bodies import abstract
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.origin import attributed, origin
from nnc_func.layer import chain
from nnc_func.memo import Few
from nnc_func.op import Op
from nnc_func.override import Override

REMEMBERED = 256  # derivatives of bodies, for each Autodiff


@frozen(eq=False)
class Derived:
    """A body made of another one and its derivative.

    Attributes
    ----------
    body
        Its parameters are those of the first one, then tangents (or cotangents), then what it captures; its results are
        those of the first one, then what these give.
    moving
        The parameters of the first one that move.
    moved
        For each result of the first one, whether it depends on what moves.
    reached
        For each parameter of the first one, whether it has a cotangent; of tangents nothing.
    captured
        Arrays or values.
    """

    body: Body
    moving: frozenset[int]
    moved: tuple[bool, ...]
    reached: tuple[bool, ...]
    captured: tuple[Any, ...]


@frozen(eq=False)
class Recording:
    """An engine that makes a node of each application, and computes nothing.

    Attributes
    ----------
    graph
        The layer that makes them.
    """

    graph: Any
    role: ClassVar[Literal["engine"]] = "engine"

    def bind(self, op: Op, *args: Any, **params: Any) -> Any:
        """A node, or a tuple of them."""
        return self.graph.bind(op, *args, **params)


class BodyDerivatives:
    """What gives derivatives of bodies, with the operators and rules of an Autodiff layer.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.body import Body
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> derive = BodyDerivatives(nnc.eager().autodiff)
    >>> body = Body.of(2, (OPS["multiply"], 0, 1))
    >>> derive.cotangent(body, [nnc.Aval((3,), "float32")] * 2, frozenset([0])).body
    (%0, %1, %2) { %3 = multiply(%0, %1); %4 = multiply(%2, %1); return %3, %4 }
    """

    def __init__(self, autodiff: Any) -> None:
        self._autodiff = autodiff
        self._recorder: Any = None
        self._symbol: Any = None
        self._lift: Any = None
        self._known: OrderedDict[Any, Derived] = OrderedDict()
        self._few = Few(self._known)

    @property
    def recorder(self) -> Any:
        """An Autodiff over an engine that makes nodes of all it is given, on the same layers.

        Raises
        ------
        DerivativeError
            There is no Graph layer, which makes nodes.
        """
        if self._recorder is None:
            below = self._autodiff.engine
            is_recording = isinstance(below, Recording)
            layers = {each.role: each for each in chain(below.graph if is_recording else self._autodiff)}
            if "graph" not in layers:
                raise DerivativeError(
                    f"{self._autodiff!r} makes no nodes, which derivatives of loops and branches want: "
                    "put it on an engine"
                )
            self._recorder = self._autodiff if is_recording else type(self._autodiff)(Recording(layers["graph"]))
            self._symbol, self._lift = layers["symbol"], layers["operator"].lift
        return self._recorder

    def tangent(self, body: Body, avals: Sequence[Aval], moving: frozenset[int], fed: tuple[int, ...] = ()) -> Derived:
        """The body with the tangents of its results, of those of the parameters in `moving`, in their order.

        Parameters
        ----------
        fed
            The parameters that the first results are, the next time: those that are fed by what moves move as well.
        """
        return self._remembered("tangent", (body, fed), tuple(avals), moving, self._tangent)

    def cotangent(
        self, body: Body, avals: Sequence[Aval], moving: frozenset[int], fed: tuple[int, ...] = ()
    ) -> Derived:
        """The body with the cotangents of the parameters in `moving`, of those of the results that depend on them.

        See `tangent` for `fed`.
        """
        return self._remembered("cotangent", (body, fed), tuple(avals), moving, self._cotangent)

    def written(self, key: Any, f: Callable[..., Sequence[Any]], avals: Sequence[Aval]) -> Body:
        """A function ``f(o, *values)`` of operators and values, which returns a list of values, as a body.

        Parameters
        ----------
        key
            What the function depends on besides the avals of its values: of equal ones it is called once.
        """
        return self._remembered(
            "written", key, tuple(avals), frozenset(), lambda _key, given, _: self._made(f, given)
        ).body

    def linearize(self, f: Callable[..., list[Any]], xs: Sequence[Any], moving: frozenset[int]) -> tuple[Any, Any]:
        """The results of a function of what flows through the layer, and the function from their cotangents to those
        of its operands in `moving`, None of the others."""
        values, derivative = _linearized(self._autodiff, f, xs, moving)

        def pull(gs: Sequence[Any]) -> list[Any]:
            found = dict(zip(sorted(moving), derivative.pull(gs), strict=True))
            return [found.get(n) for n in range(len(xs))]

        return values, pull

    # --- how ------------------------------------------------------------------------------------------------

    def _remembered(
        self, kind: str, body: Any, avals: tuple[Aval, ...], moving: frozenset[int], make: Callable[..., Derived]
    ) -> Derived:
        key = (kind, body, avals, moving)
        found = self._known.get(key)
        if found is None:
            untraced = Override(scope, None)  # nothing here is part of what is being traced
            with untraced, attributed(origin()):  # which is far below, and the same for all of it
                found = make(body, avals, moving)
            self._known[key] = found
            if found.body.holds_functions:
                self._few.note(key)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return found

    def _written_out(self, body: Body, avals: tuple[Aval, ...]) -> tuple[list[Any], Callable[[list[Any]], list[Any]]]:
        """Inputs for the parameters of a body, and the body as a function of carriers."""
        recorder = self.recorder
        inputs = [self._symbol.input(f"%{n}", aval) for n, aval in enumerate(avals)]

        def f(carriers: list[Any]) -> list[Any]:
            values = body.values(lambda op, args, items: recorder.bind(op, *args, **dict(items)), carriers)
            return [values[n] for n in body.results]

        return inputs, f

    def _tangent(self, of: tuple[Body, tuple[int, ...]], avals: tuple[Aval, ...], moving: frozenset[int]) -> Derived:
        inputs, f = self._written_out(of[0], avals)
        slopes: dict[int, Any] = {}

        def moved_by(moving: frozenset[int]) -> tuple[Any, list[bool]]:
            slopes.update({n: self._symbol.input(f"t{n}", avals[n]) for n in sorted(moving) if n not in slopes})
            found = self.recorder.jvp(lambda *xs: f([*xs]), inputs, [slopes.get(n) for n in range(len(inputs))])
            return found, [t is not None for t in found[1]]

        (values, found), moving, moved = _settled(moved_by, moving, of[1])
        given = [*inputs, *(slopes[n] for n in sorted(moving))]
        return self._taken_apart(given, [*values, *(t for t in found if t is not None)], moving, moved)

    def _cotangent(self, of: tuple[Body, tuple[int, ...]], avals: tuple[Aval, ...], moving: frozenset[int]) -> Derived:
        inputs, f = self._written_out(of[0], avals)

        def moved_by(moving: frozenset[int]) -> tuple[Any, list[bool]]:
            found = _linearized(self.recorder, lambda *xs: f([*xs]), inputs, moving)
            return found, [y is not None for y in found[1].outputs]

        (values, derivative), moving, moved = _settled(moved_by, moving, of[1])
        flowing = [
            self._symbol.input(f"g{n}", value.aval) if each else None
            for n, (value, each) in enumerate(zip(values, moved, strict=True))
        ]
        pulled = dict(zip(sorted(moving), derivative.pull(flowing), strict=True))
        found = [pulled.get(n) for n in range(len(inputs))]
        reached = tuple([g is not None for g in found])
        given = [*inputs, *(g for g in flowing if g is not None)]
        return self._taken_apart(given, [*values, *(g for g in found if g is not None)], moving, moved, reached)

    def _made(self, f: Callable[..., Sequence[Any]], avals: tuple[Aval, ...]) -> Derived:
        functions = self.recorder.functions
        inputs = [self._symbol.input(f"%{n}", aval) for n, aval in enumerate(avals)]
        found = self._taken_apart(inputs, [*f(functions, *inputs)], frozenset(), ())
        assert not found.captured, "a function that is written as a body reads nothing from around it"
        return found

    def _taken_apart(
        self,
        parameters: list[Any],
        results: list[Any],
        moving: frozenset[int],
        moved: tuple[bool, ...],
        reached: tuple[bool, ...] = (),
    ) -> Derived:
        body, captured = abstract(parameters, [self._lift(each) for each in results], whole=True)
        arrays = tuple([v.node.data if v.node.op is CONSTANT else v for v in captured])
        return Derived(body, moving, moved, reached, arrays)


def _settled(
    moved_by: Callable[[frozenset[int]], tuple[Any, list[bool]]], moving: frozenset[int], fed: tuple[int, ...]
) -> tuple[Any, frozenset[int], tuple[bool, ...]]:
    """What `moved_by` gives where parameters move as well that are fed by what moves; all that move; which results."""
    while True:
        found, moved = moved_by(moving)
        more = {n for n, each in zip(fed, moved, strict=False) if each} - moving
        if not more:
            return found, moving, tuple(moved)
        moving |= more


def _linearized(autodiff: Any, f: Callable[..., Any], xs: Sequence[Any], moving: frozenset[int]) -> tuple[Any, Any]:
    """The results of a function, and its derivative by the operands that move, in their order."""
    at = sorted(moving)

    def of(*given: Any) -> Any:
        whole = [*xs]
        for n, x in zip(at, given, strict=True):
            whole[n] = x
        return f(*whole)

    values, derivative = autodiff.linearize(of, [xs[n] for n in at])
    return values, derivative
