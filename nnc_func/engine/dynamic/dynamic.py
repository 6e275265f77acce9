"""Dynamic: computes at once, and records what gradients may flow through; backward, it optimises, plans and runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from attrs import Factory, field

from nnc_func.body import bodies_of, is_pure
from nnc_func.device.shared.dispatch import Dispatch
from nnc_func.device.shared.queries import machine_of
from nnc_func.engine import settings
from nnc_func.engine.dynamic.quick import mentions, short_way
from nnc_func.engine.dynamic.records import Recorded, Recording, meet, out_of_reach, program_of
from nnc_func.engine.eager_dispatch import changes_nodes, eager_dispatch
from nnc_func.engine.lazy import Lazy
from nnc_func.engine.running.arenas import Arenas
from nnc_func.errors import NncError
from nnc_func.facets.dims import Dim
from nnc_func.facets.places import Place
from nnc_func.graph.leaves import CONSTANT, HELD, VARIABLE, Variable, are_places, owned
from nnc_func.graph.node import Node, Result
from nnc_func.graph.ops.silent_bodies import only_asks
from nnc_func.graph.origin import describe, name_line, origin
from nnc_func.layer import changes, layer, opens
from nnc_func.layer_protocols import GraphSignature, ShapeSignature
from nnc_func.memo import Few
from nnc_func.op import Op

if TYPE_CHECKING:
    from nnc_func.engine.dynamic.memoisation import Memo
    from nnc_func.engine.dynamic.saved_values import CacheStatistics

A = TypeVar("A")
UNBOUND = frozenset((Node, Result, Dim))
KNOWN = frozenset((VARIABLE, CONSTANT, HELD))  # leaves that have a value

# Functors are applicative: what equal recipes record is one graph, for as long as a stack of that recipe lives.
_recordings: WeakValueDictionary[Any, Recording] = WeakValueDictionary()


def _recording_of(engine: Any) -> Recording:
    limit, device = engine.memory_limit, engine.device
    recipe = (type(engine), engine.graph, limit)
    found = _recordings.get(recipe)
    if found is None:
        saved: Any = None
        if limit is not None:
            from nnc_func.engine.dynamic.saved_values import SavedValues  # few ask for it

            saved = SavedValues(limit, device.aval, machine_of(device), engine._compute)
        found = _recordings.setdefault(recipe, Recording(engine.graph, engine.symbol.table, device, saved))
    return found


def _memoised(given: int | str | bool | None) -> int | None:
    if given is None or given is False:
        return None
    from nnc_func.engine.dynamic.memoisation import limit_of  # few ask for it

    return limit_of(given)


def _memo_of(engine: Any) -> Memo | None:
    if engine.memoise is None:
        return None
    from nnc_func.engine.dynamic.memoisation import memo_of

    return memo_of(engine)


def _limit(given: int | str | None) -> int | None:
    if given is None:
        return None
    from nnc_func.engine.planning.budgets import as_bytes

    return as_bytes(given)


@layer(on="graph", needs=GraphSignature)
class Dynamic(Lazy[A]):
    """An operator is computed when it is applied, and recorded if it is applied to what was made of variables.

    What it compiles (functions under jit, programs, gradients of values) it optimises and plans as the lazy engine
    does, whose settings it has.

    Attributes
    ----------
    memory_limit
        Bytes that values may take which no tensor holds and gradients may need, or a number with a unit: ``"500MB"``,
        ``"1.5 GiB"``; None: as many as there are. Beyond it they are evicted, and computed again where they are read.
    memoise
        The most bytes of results that are kept to be given again where equal operators meet equal operands, or as
        ``"500MB"``; True: 256 MiB. None: nothing is.
    memo
        What is kept so, for all stacks of the recipe; None where nothing is.
    recording
        What is recorded, and what is alive of it.
    pulls
        How gradients of values flow, by the structure of what is recorded between them.
    asynchronous
        Whether operators that take long are formed ahead: what they give is computed beside Python, and there when
        somebody looks at it.
    ahead_from
        Seconds from which on an operator takes long; 0: each is formed ahead, which costs more than it gains.
    replay_after
        How often operators come one after another before they are replayed as a program; None: never.
    commands
        Bodies that are one application each, as programs: jitted functions, loops and branches with effects.
    arenas
        The memory that all these run in: as much as the largest takes, for each call that runs at a time.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.dynamic()
    >>> x = stack.variable("x", 3.0)
    >>> y = x * x
    >>> y.item(), stack.gradients([y], [x])[0].item()
    (9.0, 6.0)
    """

    replay_after: int | None = field(default=None, validator=settings.replay_after)
    asynchronous: bool = field(default=False, validator=settings.asynchronous)
    ahead_from: float = field(default=7e-4, validator=settings.ahead_from)
    memoise: int | str | None = field(default=None, converter=_memoised)
    shape: ShapeSignature[A] = opens("graph.optimiser.operator.symbol.shape")
    memory_limit: int | str | None = field(default=None, converter=_limit)
    memo: Memo | None = field(init=False, eq=False, repr=False, default=Factory(_memo_of, takes_self=True))
    pulls: dict[Any, Any] = field(init=False, factory=dict, eq=False, repr=False)
    few_pulls: Few = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: Few(self.pulls), takes_self=True)
    )  # of these, those that call functions of the user's
    commands: dict[Any, Any] = field(init=False, factory=dict, eq=False, repr=False)
    arenas: Arenas = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: Arenas(self.device), takes_self=True)
    )
    _compute: Any = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: _computed_by(self), takes_self=True)
    )
    recording: Recording = field(init=False, eq=False, repr=False, default=Factory(_recording_of, takes_self=True))
    bind: Callable[..., Any] = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: _bound_to(self), takes_self=True)
    )

    way: Any = field(init=False, eq=False, repr=False, default=Factory(lambda self: _way_of(self), takes_self=True))

    @property
    def defers(self) -> bool:
        """Whether operators may be promised, to be replayed or formed ahead."""
        return self.replay_after is not None or self.asynchronous

    def dispatch(self) -> Dispatch | None:
        """The way from operators on device arrays to kernels, which stacks take; None where each call is looked at."""
        if self.check_numerics or changes(self, "bind") or not isinstance(self._compute, Dispatch):
            return None
        return self._compute

    @property
    def cache(self) -> CacheStatistics | None:
        """What the memory limit has done until now; None where there is none.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> stack = nnc.dynamic(memory_limit=0)
        >>> x = stack.variable("x", [1.0, 2.0])
        >>> y = (x * x).sum()
        >>> stack.engine.cache.evicted, stack.gradients([y], [x])[0].numpy().tolist()
        (1, [2.0, 4.0])
        """
        recording = self.recording
        if recording.saved is None:
            return None
        return recording.cache_statistics()  # type: ignore[no-any-return]

    def asarray(self, value: Any, dtype: Any = None, place: Place = None) -> Any:
        """A value of this engine: a device array, which does not change with the array that it was made of."""
        found = owned(self.device, value, dtype, place)
        if self.memo is not None:
            self.memo.note_constant(found)
        return found

    def held(self, array: Any) -> Any:
        """A value of this engine that shows a device array; not copied."""
        return array

    def reading(self, variable: Variable) -> Any:
        """The value that a variable has now, which takes gradients; while a function is traced, its place."""
        return self.operator.lift(variable) if are_places() else _reader_of(self)(variable)

    def force(self, values: Sequence[Any]) -> list[Any]:
        """Device arrays with the values of these: they are there, but for what depends on nodes.

        Raises
        ------
        UnboundError
            A value depends on an input; names it and the line where it was made.
        """
        graph = [v for v in values if type(v) in UNBOUND]
        computed = iter(super().force(graph) if graph else ())
        return [next(computed) if type(v) in UNBOUND else _array(v) for v in values]


def _way_of(engine: Any) -> Any:
    """The way of tensors past the layers, for stacks; None where the engine looks at each application."""
    return None if engine.dispatch() is None else short_way(engine._compute, engine.recording)


def _reader_of(engine: Any) -> Callable[[Variable], Any]:
    """What gives the value that a variable has now; where something is memoised it is known as one of its own."""
    of, memo = engine.recording.of, engine.memo
    if memo is None:
        return of  # type: ignore[no-any-return]

    def reading(variable: Variable) -> Any:
        found = of(variable)
        memo.note(found.array)
        return found

    return reading


def _array(value: Any) -> Any:
    return value.array if type(value) is Recorded or type(value) is Variable else value


def _computed_by(engine: Any) -> Callable[..., Any]:
    """``compute(op, arrays, params)``, past the layers that make nodes unless a user's own change what becomes one."""
    is_by_nodes, memo = changes_nodes(engine), engine.memo
    compute = _by_nodes(engine) if is_by_nodes else eager_dispatch(engine.shape)
    return compute if memo is None else memo.over(compute, by_programs=is_by_nodes)


def _by_nodes(engine: Any) -> Callable[..., Any]:

    def through_nodes(op: Op, arrays: Sequence[Any], params: dict[str, Any]) -> Any:
        found = engine.graph.bind(op, *arrays, **params)
        if op.effect:
            return found
        computed = Lazy.force(engine, found if op.multi_result else [found])
        return tuple(computed) if op.multi_result else computed[0]

    return through_nodes


def _bound_to(engine: Any) -> Callable[..., Any]:
    recording, compute, symbolic, of = engine.recording, engine._compute, engine.graph.bind, _reader_of(engine)
    made, checks = recording.made, engine.check_numerics

    def of_node(value: Any) -> Any:
        return value.data if value.op is VARIABLE else recording.known(value)

    def bind(op: Op, *args: Any, **params: Any) -> Any:
        """The result at once, and recorded where an operand is; a node where an operand is one."""
        arrays, operands, is_recorded = [], [], False
        kept: Any = None  # what is recorded of variables lives as long as this runs
        for a in args:
            kind = type(a)
            if (kind is Node or kind is Result) and a.op in KNOWN and not are_places():  # a body has it from around it
                a = of_node(a)
                kind, kept = type(a), (kept, a)
            if kind is Variable and not are_places():
                a = of(a)
                kind, kept = type(a), (kept, a)
            if kind is Recorded:
                is_recorded = True
                arrays.append(a.array)
                operands.append(a.record)
            elif kind in UNBOUND or kind is Variable:
                return _node(args, op, params)
            else:
                arrays.append(a)
                operands.append(a)
        if params and op.is_sized and mentions(params):
            return _node(args, op, params)
        applied, flows = op, is_recorded
        if is_recorded and op.holds_body and recording.is_on and not is_pure(op, params.items()):
            answer = _as_program(recording, op, [of_node(a) if type(a) in UNBOUND else a for a in args], params)
            if type(answer) is tuple:
                return answer
            flows = answer is not None
            if answer and not all(map(only_asks, bodies_of(params.items()))):  # else it may be computed again
                applied = out_of_reach(op, answer)
        try:
            found = compute(op, tuple(arrays), params)
        except NncError as error:
            name_line(error)
            raise
        if checks:
            _check(engine, op, found)
        return made(applied, tuple(operands), params, found) if flows else found

    def _node(args: Any, op: Op, params: Any) -> Any:
        for a in args:
            meet(a)
        found = symbolic(op, *args, **params)
        if recording.is_on and not are_places():
            recording.note_nodes(op, args, found)
        return found

    return bind


def _as_program(recording: Any, op: Op, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """The results of an application with effects, as one program; None where nothing flows; else why there is none."""
    apply = program_of(recording)
    return "" if apply is None else apply(op, args, params)


def _check(engine: Any, op: Op, found: Any) -> None:
    from nnc_func.engine.running.checking_observers import check

    for result in found if op.multi_result else (found,):
        check(engine.device, result, op.name, describe(origin()))
