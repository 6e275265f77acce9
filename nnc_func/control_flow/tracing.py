"""Functions of tensors traced to bodies: what flows in from around a function becomes an operand.

A function is traced on values of a trace of its own, the innermost one there is. So a value from around it may be
anything that flows through a stack: an array, a variable, a value under differentiation, a row of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from operator import attrgetter
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.autodiff.traced import Forward, Reverse, Trace, Traced
from nnc_func.autodiff.traced import scope as scopes
from nnc_func.aval import Aval
from nnc_func.body import Application, Body
from nnc_func.body_builder import BodyBuilder
from nnc_func.control_flow.counts import Count
from nnc_func.control_flow.layer_bypass import through_layers
from nnc_func.engine.dynamic.records import Recorded
from nnc_func.engine.effects import recording
from nnc_func.errors import DeviceError, GraphError, OperatorError, UnboundError
from nnc_func.facets.dims import DEEPEST, Dim
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.late_extents import late, telling
from nnc_func.graph.bodies import abstract, literal
from nnc_func.graph.leaves import Variable, without_updates
from nnc_func.graph.node import Value
from nnc_func.graph.operator import NUMBERS
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.ops.custom import custom
from nnc_func.graph.ops.effects import TOKEN
from nnc_func.graph.ops.passes import in_passes
from nnc_func.graph.origin import describe, origin
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.op import Op
from nnc_func.override import Override

SCALARS = (bool, int, float, complex)
RULE = "a rule of a function's derivative, which is computed as often as derivatives want it"
ORDERS = 3  # of derivatives, up to which a function that its own rule calls has that rule

COUNT = Aval((), "int64")
_rules: ContextVar[tuple[Any, ...]] = ContextVar("rules", default=())  # functions whose rules are being traced
_depth: ContextVar[int] = ContextVar("depth", default=0)  # of functions that are being traced, one within the other
_waiting: ContextVar[Any] = ContextVar("waiting", default=None)  # what may not happen, or not yet
Extents = dict[str, tuple[int, int]]
"""Symbols of extents that a loop tells, and the result and the axis of each."""


@frozen(eq=False)
class Stage:
    """A loop that is computed at once, for whose results a body waits.

    Attributes
    ----------
    loop
        It: `growing.GrowingLoop`, or `stages.StagedLoop`.
    operands
        Results of the body that it is given.
    results
        Parameters of the body that are its results.
    extents
        What its results tell.
    """

    loop: Any
    operands: tuple[int, ...]
    results: tuple[int, ...]
    extents: Extents


@frozen(eq=False)
class TracedBody:
    """A function as a body, and what it captures.

    Attributes
    ----------
    body
        Its parameters are those of the function, then what is captured.
    captured
        What flows through the stack's layers, for each further parameter.
    avals
        Of the results.
    parameters
        Avals of the parameters.
    has_effects
        Whether it has one more parameter, after those of the function, which is the token before its effects, and one
        more result, after those of the function, which is the token after them.
    is_counted
        Whether it has yet one more of both, the last ones: how many times came before this one, and before the next.
    stages
        Loops that are computed at once, for which it waits. Their results are parameters, after those of the function;
        their operands are results, after those of the function.
    numbers
        Applications in it that stand for arrays of one element; those of Python numbers are not among them.
    """

    body: Body
    captured: tuple[Any, ...]
    avals: tuple[Aval, ...]
    parameters: tuple[Aval, ...]
    has_effects: bool = False
    is_counted: bool = False
    stages: tuple[Stage, ...] = ()
    numbers: frozenset[Application] = frozenset()

    def carrying(self, parameter: int | None = None, result: int | None = None, token: bool = False) -> TracedBody:
        """It with what it carries besides at these places among parameters and results, else as the last ones.

        Parameters
        ----------
        token
            Whether that is a token in any case, which passes through where there are no effects.
        """
        builder, hidden = BodyBuilder(), self.has_effects + self.is_counted
        count, own = hidden + (token and not self.has_effects), self.body.parameters - len(self.captured) - hidden
        first = own if parameter is None else parameter
        given = builder.parameters(own + count)
        more = given[first : first + count]
        del given[first : first + count]
        captured = builder.parameters(len(self.captured))
        values = builder.include(self.body, [*given, *more[count - hidden :], *captured])
        results = [values[n] for n in self.body.results]
        last = len(results) - hidden
        after, at = [*more[: count - hidden], *results[last:]], last if result is None else result
        avals, taken = [*self.avals[:last]], self.parameters
        kinds = (*[TOKEN] * (token or self.has_effects), *[COUNT] * self.is_counted)
        return TracedBody(
            builder.built([*results[:at], *after, *results[at:last]]), self.captured,
            (*avals[:at], *kinds, *avals[at:]), (*taken[:first], *kinds, *taken[first:own], *taken[own + hidden :]),
        )  # fmt: skip

    def over(self, *groups: Sequence[Any]) -> tuple[Body, list[Any]]:
        """The body with what is captured before all else, and the operands in that order: as loops want them.

        Parameters
        ----------
        groups
            Operands of the function's own parameters.
        """
        builder = BodyBuilder()
        constants = builder.parameters(len(self.captured))
        own = builder.parameters(self.body.parameters - len(constants))
        values = builder.include(self.body, [*own, *constants])
        operands = [*self.captured, *(each for group in groups for each in group)]
        return builder.built([values[n] for n in self.body.results]), operands


class Scope(Trace):
    """One function while it is traced: its values are nodes; what is from around it gets an input."""

    makes_bodies = True
    __slots__ = ("captured", "counter", "extents", "inputs", "numbers", "stack", "stages", "whole")

    def __init__(self, stack: Any, whole: bool = False, in_stages: bool = False) -> None:
        super().__init__(stack.autodiff)
        self.stack, self.whole = stack, whole
        self.stages: list[tuple[Any, list[Any], list[Any], Extents]] | None = [] if in_stages else None
        self.extents = set[str]()  # symbols that stages tell
        self.captured: dict[Any, tuple[Any, Any]] = {}  # by value or identity, what flows in and its input
        self.inputs: list[Any] = []
        self.numbers = set[Application]()  # arrays of one element, and fills, that stand inside
        self.counter: Tensor | None = None  # how many times of the loop came before this one, once that is asked for

    def parameter(self, aval: Aval) -> Tensor:
        """One more argument of the function."""
        node = self.stack.symbol.input(f"%{len(self.inputs)}", aval)
        self.inputs.append(node)
        return Tensor(self.stack, Traced(self, node, None))

    def number(self) -> Tensor:
        """How many times of the loop came before this one."""
        if self.counter is None:
            self.counter = self.parameter(COUNT)
        return self.counter

    def inside(self, carrier: Any) -> Any:
        """What stands for a value within the function."""
        if type(carrier) is Traced and carrier.trace is self:
            return carrier.primal
        if type(carrier) in NUMBERS:
            return carrier
        if isinstance(carrier, Value) and type(carrier) is not Recorded:
            number = literal(carrier)
            if number is not None:
                self.numbers.add(number)
            if number is not None or not self.whole:
                return carrier
        if not isinstance(carrier, (Traced, Value, Variable)):
            carrier = self.stack.device.asarray(carrier)  # it is one, or refused
        key = carrier if isinstance(carrier, Value) else id(carrier)
        found = self.captured.get(key)
        if found is None:
            node = self.stack.symbol.input(f"captured {len(self.captured)}", aval_of(self.stack, carrier))
            found = self.captured[key] = (carrier, node)
        return found[1]

    def cut(self, loop: Any, args: Sequence[Any]) -> list[Any]:
        """The results of a loop that is computed at once, within the function: it waits for them.

        Raises
        ------
        UnboundError
            The function is none that can wait.
        """
        self.check()
        if self.stages is None:
            raise UnboundError(WITHIN)
        given = [self.stack.operator.lift(self.inside(x)) for x in args]
        avals, extents = loop.described([x.aval for x in given], len(self.stages))
        found = [self.stack.carrier(self.parameter(aval)) for aval in avals]
        self.stages.append((loop, given, [x.primal for x in found], extents))
        self.extents.update(extents)
        return found

    def extent(self, count: Tensor) -> Dim | None:
        """A number that the function computes as an extent; None where it is none that can wait for it."""
        carrier = self.stack.carrier(count)
        if type(carrier) is not Traced or not isinstance(carrier.trace, Scope) or carrier.trace.stages is None:
            return None
        (made,) = carrier.trace.cut(Count(self.stack, _depth.get()), [carrier])
        return made.shape[0]  # type: ignore[no-any-return]

    def bind(self, op: Op, args: tuple[Any, ...], params: Any) -> Any:
        """The operator within the function."""
        self.check()
        if self.is_paused and op is not STOP:
            args = self._constant(args)
        with Override(scopes, None):
            bind = self.autodiff.bind if args else self.stack.graph.bind  # what has no operands is a node, too
            found = bind(op, *self._all_inside(op, args), **params)
        if op.multi_result:
            return tuple([Traced(self, value, None) for value in found])
        return Traced(self, found, None)

    def _constant(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Operands through which no gradient flows."""
        return tuple([
            self.bind(STOP, (x,), {})
            if isinstance(x, (Traced, Value, Variable)) and kind_of(aval_of(self.stack, x).dtype) in "fc"
            else x
            for x in args
        ])  # fmt: skip

    def _all_inside(self, op: Op, args: tuple[Any, ...]) -> list[Any]:
        try:
            return [*map(self.inside, args)]
        except DeviceError as error:
            raise DeviceError(f"{op.name} (at {describe(origin())}): {error}") from None

    def call(self, rule: Any, args: Sequence[Any]) -> list[Any]:
        """A function with a derivative of its own, within the function."""
        self.check()
        if self.is_paused:
            args = self._constant(args)
        return applied_rule(self.stack, rule, args)


STOP = CATALOGUE["stop_gradient"]
OUTSIDE = (
    "a loop whose carries grow, or what has as many elements as a mask has that are true: dynamic=True computes how "
    "often, and how large, at once; here that is not known yet. Compute it outside of jit and compiled graphs, or say "
    "stack.jit(f, dynamic=True), which computes it between regions of a graph; in place of map(batch=), loop_until and "
    "converted if, use map, while_loop and cond, which wait for it; or carry a tensor of the shape that it has at the "
    "end, with max_iterations=, and write into it"
)
WITHIN = (
    "a loop whose carries grow, dynamic=True, is computed at once, between what comes before it and after it, and the "
    "function in which it stands does not wait for it: in place of map(batch=), loop_until, fixed_point, "
    "associative_scan, and converted if, while and for use map, while_loop, foreach and cond, which wait; a derivative "
    "of one's own may not grow; or carry a tensor of the shape that it has at the end, with max_iterations=, and write "
    "into it"
)


def cut_off(loop: Any, args: Sequence[Any]) -> list[Any] | None:
    """The results of a loop in a function that waits for them; None where it is differentiated, or computed at once.

    Raises
    ------
    UnboundError
        Values are not known, and nothing can wait for them.
    """
    innermost = innermost_of(args)
    if isinstance(innermost, Scope):
        return innermost.cut(loop, args)
    if innermost is not None and not isinstance(innermost, (Forward, Reverse)):
        raise UnboundError(OUTSIDE)
    return _between_regions(loop, args) if innermost is None else None


def waits(loop: Any, args: Sequence[Any]) -> bool:
    """Whether something waits for a loop that is differentiated: these are not known beneath all derivatives."""
    bare = []
    for a in args:
        while type(a) is Traced and not isinstance(a.trace, Scope):
            a = getattr(a.primal, "whole", a.primal)
        bare.append(a)
    if isinstance(innermost_of(bare), Scope):
        return True
    if late() is None:
        return False
    try:
        loop.stack.engine.force(bare)
    except UnboundError:
        return True
    return False


def innermost_of(args: Sequence[Any]) -> Any:
    """The trace that loops which are computed at once belong to, given these; None: none."""
    traces = [a.trace for a in args if type(a) is Traced]
    traces += [each for each in (_waiting.get(), scopes.get()) if isinstance(each, Scope)]
    return max(traces, key=attrgetter("level"), default=None)


def _between_regions(loop: Any, args: Sequence[Any]) -> list[Any] | None:
    """The results of a loop that is computed between the regions of a graph; None where its operands are known."""
    collected, stack = late(), loop.stack
    if collected is None:
        return None
    try:
        stack.engine.force([*args])
    except UnboundError:
        if scopes.get() is not None:  # a branch may not be taken
            raise UnboundError(OUTSIDE) from None
    else:
        return None
    given = [stack.operator.lift(x) for x in args]
    number = len(collected.loops)
    avals, extents = loop.described([x.aval for x in given], number)
    found = [stack.symbol.input(f"result {n} of loop {number}", aval) for n, aval in enumerate(avals)]
    collected.loops.append((loop, given, found, extents))
    return found


def depth() -> int:
    """How many functions are being traced, one within the other."""
    return _depth.get()


def aval_of(stack: Any, carrier: Any) -> Aval:
    """Of what flows through a stack; it has no layout."""
    if type(carrier) is Traced:
        shape, dtype, inner = tuple(carrier.shape), stack.autodiff.functions.dtype(carrier), carrier
        while type(inner) is Traced:
            inner = inner.primal
        whole = getattr(inner, "whole", inner)  # of rows
        place = None if type(whole) is Traced else aval_of(stack, whole).place
        return Aval(shape, dtype, None, place)
    found = carrier.aval if isinstance(carrier, (Value, Variable)) else stack.device.aval(carrier)
    return found if found.layout is None else found.having(layout=None)


def traced(
    stack: Any, f: Callable[[list[Any]], Sequence[Any]], arguments: Sequence[Any], whole: bool = False,
    effects: bool = False, counted: bool = False, symbols: Set[str] = frozenset(), without: str = RULE,
    in_stages: bool = False, asks: bool = False,
) -> TracedBody:  # fmt: skip
    """The body of a function.

    Parameters
    ----------
    f
        Takes a list of tensors, and gives tensors, arrays or numbers.
    arguments
        For each its aval; or a Python number, which is given as it is and no parameter.
    whole
        Whether what the function computes of values from around it alone is part of the body, too. Else that is
        computed once, outside.
    effects
        Whether it may have effects.
    counted
        Whether it is that of a loop, and may ask which time it is: `engine.effects.numbers_of_times`.
    without
        Where it stands, and why it has no effects, if it may have none: for the message.
    symbols
        Of extents that differ from time to time: what has one in its shape is part of the body.
    in_stages
        Whether it may wait for loops that are computed at once.
    asks
        Whether it may call pure callbacks, in no order, also where it has no effects.

    Raises
    ------
    GraphError
        The stack has no layers that make nodes; or an effect stands where there may be none.
    """
    if "symbol" not in stack._layers:
        raise GraphError(f"{stack!r} makes no nodes, which a loop or a branch wants of its functions: it has no Symbol")
    own = Scope(stack, whole, in_stages)
    entered, deeper = _entered(own) if whole else nullcontext(), Override(_depth, _depth.get() + 1)
    told_by = Override(telling, own.extent)  # extents are told by numbers that a function computes
    try:
        with deeper, entered, told_by, without_updates(), recording(stack, in_places=whole) as recorded:
            given = [each if type(each) in SCALARS else own.parameter(each) for each in arguments]
            before = recorded.token = own.parameter(TOKEN)
            recorded.trace, recorded.number, recorded.asks = own, own.number if counted else None, asks
            found = [*f(given)]
            has_effects, counter = recorded.token is not before, own.counter
            found += [*([recorded.token] if has_effects else []), *([] if counter is None else [counter + 1])]
            carriers = [carrier_of(stack, leaf) for leaf in found]
        results = [stack.operator.lift(own.inside(carrier)) for carrier in carriers]
    finally:
        own.live = False
    if has_effects and not effects:
        raise GraphError(
            f"an effect, or a host predicate, stands in {without}; only compute there, and print, check … what it gives"
        )
    if not has_effects:
        own.inputs.remove(before.value.primal)
    if own.stages and (has_effects or counter is not None):
        raise OperatorError(
            "a body with a loop that grows, dynamic=True, has no effects, and draws no numbers by its number of times: "
            "print, check … what it gives, or carry a key"
        )
    pairs, count, stages = [*own.captured.values()], len(results), list[Stage]()
    places = {node: n for n, node in enumerate(own.inputs)}
    for loop, operands, made, extents in own.stages or ():
        at = tuple(range(len(results), len(results) + len(operands)))
        stages.append(Stage(loop, at, tuple([places[node] for node in made]), extents))
        results += operands
    body, more = abstract([*own.inputs, *(node for _, node in pairs)], results, whole, symbols | own.extents)
    avals = tuple([
        value.aval if value.aval.layout is None else value.aval.having(layout=None) for value in results[:count]
    ])  # fmt: skip
    given = [*own.inputs, *(node for _, node in pairs), *more]
    captured = (*(carrier for carrier, _ in pairs), *more)
    own_avals = tuple([x.aval for x in given])
    return TracedBody(
        body, captured, avals, own_avals, has_effects, counter is not None, tuple(stages), frozenset(own.numbers)
    )


def waiting(own: Scope) -> Override:
    """Let a function wait for loops that are computed at once, also where all that these are given is known."""
    return Override(_waiting, own)


@contextmanager
def _entered(own: Scope) -> Iterator[None]:
    """Let every operator be part of what a scope traces, unless one of its operands is of a trace within that.

    Functions under jit are called, and are part of it too.
    """
    with Override(scopes, own), through_layers():
        yield


def is_numbers(node: Any, depth: int = 0) -> bool:
    """Whether it is a list of numbers, which is a tensor."""
    if not isinstance(node, list) or not node or depth >= DEEPEST:
        return False
    return all(type(each) in SCALARS or is_numbers(each, depth + 1) for each in node)


def carrier_of(stack: Any, leaf: Any) -> Any:
    """What flows through the layers, of a tensor, an array or a number."""
    if isinstance(leaf, Tensor):
        return stack.carrier(leaf)
    return stack.carrier(stack.asarray(leaf))


def tensor_of(stack: Any, leaf: Any) -> Any:
    """A tensor of an array, a NumPy number, a list of numbers, an unknown extent; a tensor or a number as it is."""
    if isinstance(leaf, (list, np.ndarray, np.generic, Dim)):
        return stack.asarray(leaf)
    return leaf


# --- functions with a derivative of their own ----------------------------------------------------------------


def applied_rule(stack: Any, rule: Any, args: Sequence[Any], keeps: bool = False) -> list[Any]:
    """The results of a function with a rule: one application of `custom`, of bodies of its rules.

    Where it `keeps` what its backward pass reads that is recorded as well, and not computed again.

    A rule may call its function, as that of ``exp`` does; it is written out in the rule of the rule of its rule.
    """
    under_way, function = _rules.get(), rule.of.custom
    if under_way.count(function) >= ORDERS:
        return list(rule.value(args))
    with Override(_rules, (*under_way, function)):
        return _applied(stack, rule, args, keeps)


def _applied(stack: Any, rule: Any, args: Sequence[Any], keeps: bool) -> list[Any]:
    avals = [aval_of(stack, x) for x in args]
    smooth = [n for n, a in enumerate(avals) if kind_of(a.dtype) in "fc"]

    def carriers(given: Sequence[Any]) -> list[Any]:
        return [stack.carrier(x) for x in given]

    def value(given: list[Any]) -> list[Any]:
        return _tensors(stack, rule.value(carriers(given)))

    own = traced(stack, value, avals, asks=True)
    results = own.avals
    moved = [n for n, a in enumerate(results) if kind_of(a.dtype) in "fc"]

    def pushed(given: list[Any]) -> list[Any]:
        primals, slopes = given[: len(avals)], dict(zip(smooth, given[len(avals) :], strict=True))
        values, found = rule.jvp(
            carriers(primals), [stack.carrier(slopes[n]) if n in slopes else None for n in range(len(avals))]
        )
        return _tensors(stack, [*values, *(_or_zeros(stack, found[n], results[n]) for n in moved)])

    def pulled(given: list[Any]) -> list[Any]:
        primals, flowing = given[: len(avals)], dict(zip(moved, given[len(avals) :], strict=True))
        values, _, pull = rule.linearize(carriers(primals))
        found = pull([stack.carrier(flowing[n]) if n in flowing else None for n in range(len(results))])
        return _tensors(stack, [*values, *(_or_zeros(stack, found[n], avals[n]) for n in smooth)])

    forward = traced(stack, pushed, [*avals, *(avals[n] for n in smooth)], asks=True)
    backward = traced(stack, pulled, [*avals, *(results[n] for n in moved)], asks=True)
    captured = {id(x): x for each in (own, forward, backward) for x in each.captured}
    bodies = [_with_all(each, [*captured], len(avals)) for each in (own, forward, backward)]
    back: tuple[Body, ...] = ()
    if keeps:
        passes = in_passes(bodies[2], len(args) + len(captured), len(results))
        bodies[0], back = passes.forward, (passes.backward,)
    found = stack.autodiff.bind(  # rows of batches within the scope are batched there
        custom, *args, *captured.values(), body=bodies[0], pushed=bodies[1], pulled=bodies[2], moved=tuple(moved),
        reached=tuple(smooth), back=back,
    )  # fmt: skip
    return [*found[: len(results)]]


def _or_zeros(stack: Any, found: Any, aval: Aval) -> Any:
    return stack.ops.full(shape=aval.shape, value=0, dtype=aval.dtype) if found is None else found


def _tensors(stack: Any, found: Sequence[Any]) -> list[Any]:
    return [x if isinstance(x, Tensor) else Tensor(stack, x) for x in found]


def _with_all(found: TracedBody, captured: list[int], count: int) -> Body:
    """The body with all that any of them captures after the operands, and before tangents or cotangents."""
    builder = BodyBuilder()
    first = builder.parameters(count)
    outer = dict(zip(captured, builder.parameters(len(captured)), strict=True))
    rest = builder.parameters(found.body.parameters - count - len(found.captured))
    values = builder.include(found.body, [*first, *rest, *(outer[id(x)] for x in found.captured)])
    return builder.built([values[i] for i in found.body.results])
