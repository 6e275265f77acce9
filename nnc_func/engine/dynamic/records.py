"""Records: single-assignment applications of operators that were computed, alive as long as a gradient may need them.

A `Recorded` is what a tensor holds, and how it is known that one does. A `Record` is what outlives that: the value,
and the application that made it. Two kinds of edges keep them exact, without a cycle:

- A record refers to its operands: what nobody downstream of it holds goes with the last reference.
- A record knows its users weakly, and counts the operands that *reach*: that are held, or reach in turn. Where the
  last value upstream is dropped there is nothing left that takes a gradient: the record forgets its application.

So an application lives while a value that it computes, or one made of that, is held, and something that it was made
of is held too. Values that are dropped are queued and looked at one after another: a chain may be as long as it likes,
and a finaliser may come in at any time, in any thread.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from operator import attrgetter
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

from attrs import evolve

from nnc_func.body import bodies_of
from nnc_func.engine.dynamic.flow import carries_gradients
from nnc_func.engine.dynamic.turns import alone
from nnc_func.facets.derivatives import Refusal
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.leaves import CONSTANT, HELD, Variable
from nnc_func.graph.node import Node, Result, Value
from nnc_func.graph.ops.silent_bodies import only_asks
from nnc_func.graph.origin import Origin, attributed, describe, origin
from nnc_func.graph.pauses import paused, paused_here
from nnc_func.layer import find
from nnc_func.locks import forkable_lock
from nnc_func.op import Op
from nnc_func.override import Override

R = TypeVar("R")

_serials = itertools.count()
_met: ContextVar[list[Any] | None] = ContextVar("met", default=None)
_by_programs: ContextVar[tuple[Any, Any]] = ContextVar("by_programs", default=(None, None))
_blank = object.__new__
next_serial = _serials.__next__
"""Counts what is applied, where what is recorded of it is made later."""


class Record:
    """A value that was made of variables, and how.

    Attributes
    ----------
    application
        The operator, its operands (records, arrays and numbers), its parameters as they were given. Of one of several
        results `PART`, the record of all of them, and which it is. None of a leaf, and where nothing upstream is held.
    array
        The value. Of the record of several results a tuple of them. Where it is evicted, a `Vacancy` for each array.
    held
        Whether a tensor holds it.
    reaching
        How many of its operands, each counted once, are held or reach.
    users
        Weak references to records that it is an operand of; None once it neither is held nor reaches.
    variable
        Of a leaf, a weak reference to the variable whose value it was.
    serial
        Counts records as what makes them is applied: operands have lower ones. Of what is formed ahead a fraction.
    """

    __slots__ = (
        "__weakref__", "application", "array", "held", "node", "reaching", "recording", "serial", "users", "variable",
        "where",
    )  # fmt: skip
    application: tuple[Any, tuple[Any, ...], Any] | None
    array: Any
    held: bool
    reaching: int
    users: set[Any] | None
    variable: ref[Variable] | None
    serial: int
    recording: Recording
    where: Origin
    node: Any

    @property
    def reaches(self) -> bool:
        """Whether it, or something that it was made of, is held."""
        return self.held or self.reaching > 0

    def cut(self) -> None:
        """Forget the application: what it was made of is of no use."""
        self.application = self.node = None

    def __repr__(self) -> str:
        made = "leaf" if self.application is None else getattr(self.application[0], "name", PART)
        return f"<record {self.serial}: {made}>"


PART = "part"
"""What stands for the operator of one of several results."""


class Recorded(Value):
    """What a tensor of a dynamic stack holds: an array, and its record, which is held for as long as this lives.

    To the rest of the library it is a value of a graph: its `node` is built when it is asked for.
    """

    __slots__ = ("array", "record")
    handle = None

    array: Any
    record: Record

    detached: Any = property(attrgetter("array"), doc="The value as a constant.")
    aval: Any = property(lambda self: self.record.recording.aval(self.array), doc="Shape and dtype.")
    table: Any = property(attrgetter("record.recording.table"), doc="That of its stack.")
    index: Any = property(attrgetter("symbolic.index"), doc="Which result of its node it is.")
    node: Any = property(attrgetter("symbolic.node"), doc="The application that made it, as a node.")
    op: Any = property(attrgetter("node.op"), doc="The operator of its node.")

    @property
    def symbolic(self) -> Value:
        """The value as a graph has it: a node, or a result of one; what that is made of are nodes, too."""
        return self.record.recording.value(self.record)

    def __del__(self) -> None:
        try:
            record = self.record
        except AttributeError:  # an interrupt has come while it was made
            return
        record.held = False
        if not record.reaching or record.recording.saved is not None:
            record.recording.drop(record)

    def __repr__(self) -> str:
        return f"Recorded({self.aval!r})"


class Recording:
    """What is recorded on stacks of one recipe, and what is alive of it.

    Attributes
    ----------
    graph, table, aval
        The layer that makes nodes; their intern table; the function from an array to its aval.
    saved
        The cache of values that no tensor holds; None where they may take what they like.
    """

    __slots__ = (
        "__weakref__", "_constants", "_dropped", "_epoch", "_gone", "_last", "_leaves", "_lock", "_reading",
        "_smooth", "_unrecorded", "_users", "_waiting", "aval", "graph", "saved", "table",
    )  # fmt: skip

    def __init__(self, graph: Any, table: Any, device: Any, saved: Any = None) -> None:
        self.graph, self.table, self.saved = graph, table, saved
        self.aval = device.aval
        self._leaves: set[ref[Record]] = set()
        self._dropped: deque[Record] = deque()
        self._users: Collection[ref[Record]] = ()  # of the first of these
        self._waiting: list[ref[Record]] = []  # of them, those that are to be told
        self._last: Record | None = None  # the user that was told last
        self._lock = forkable_lock()
        self._smooth: dict[Any, bool] = {}  # by an array's own dtype
        self._constants: WeakValueDictionary[int, Node] = WeakValueDictionary()
        self._reading: set[ref[Record]] = set()  # of which nodes stand for a variable
        self._gone: list[Any] = []  # of these, those that are no more
        self._epoch = 0  # of nodes: they are others once one of these variables has another value
        self._unrecorded: WeakKeyDictionary[Node, tuple[Op, dict[Record, None]]] = WeakKeyDictionary()

    # --- what is made -------------------------------------------------------------------------------------

    @property
    def is_on(self) -> bool:
        """Whether operators are recorded in this thread now."""
        return self not in paused_here()

    def smooth(self, array: Any) -> bool:
        """Whether a gradient may flow to an array of its dtype."""
        found = self._smooth.get(array.dtype)
        if found is None:
            found = self._smooth[array.dtype] = kind_of(self.aval(array).dtype) in "fc"
        return found

    def leaf(self, array: Any, variable: Variable | None = None) -> Recorded:
        """A value that takes gradients and was made of nothing."""
        return self.record(None, array, (), variable)

    def of(self, variable: Variable) -> Recorded:
        """What a variable's value of now is to operators."""
        found: Any = variable.recorded
        while found is None or found.record.recording is not self:
            version = variable.version
            found = variable.recorded = self.leaf(variable.snapshot(), variable)
            if variable.version != version:  # another thread was faster
                variable.recorded = found = None
        return found  # type: ignore[no-any-return]

    def made(self, op: Op, operands: tuple[Any, ...], params: Any, found: Any, shown: int | None = None) -> Any:
        """The result, or the results, of an application that was just computed; whoever asks holds its operands.

        They are recorded, unless nothing is. Of several, those from number `shown` on are kept and held by nobody.
        """
        return self.enter(op, operands, params, found, shown) if self.is_on else found

    def enter(self, op: Op, operands: tuple[Any, ...], params: Any, found: Any, shown: int | None = None) -> Any:
        """As `made`, whether or not anything is recorded now."""
        if params:
            params = op.lasting(params)
        if not op.multi_result:
            return self.record((op, operands, params), found, operands)
        kept = self.record((op, operands, params), found, operands)  # until its parts are there; then nobody holds it
        whole = kept.record
        return tuple([self.record((PART, (whole,), n), array, (whole,)) for n, array in enumerate(found[:shown])])

    def made_of(self, op: Op, operands: tuple[Any, ...], params: Any, found: Any) -> Any:
        """As `made`, where nobody need hold the operands: those that reach no more are constants.

        An operand may be one of several results: a pair of their record, and its number.
        """

        def made() -> Any:
            parts = tuple([self._part(*x) if type(x) is tuple else x for x in operands])
            given = tuple([self.array(x) if type(x) is Record and not x.reaches else x for x in parts])
            return self.made(op, given, params, found) if any(type(x) is Record for x in given) else found

        return self.undisturbed(made)

    def undisturbed(self, work: Callable[[], R]) -> R:
        """What `work` gives, amid which nothing is swept, by a finaliser neither.

        But for what another thread sweeps already, or is undisturbed at: nobody waits for that, since it may be amid a
        finaliser of the user's, which waits for this one.
        """
        found: list[R] = []
        if not alone(self._lock, lambda: found.append(work())):
            found.append(work())
        self._swept()
        return found[0]

    def cache_statistics(self) -> Any:
        """Of the cache of saved values; what another thread is taking account of right now is not yet in it."""
        alone(self._lock, self.saved.settle)
        self._swept()
        return self.saved.statistics()

    def array(self, record: Record) -> Any:
        """The value of a record; computed again if it is evicted."""
        return record.array if self.saved is None else self.saved.array(record)

    def _part(self, whole: Record, number: int) -> Any:
        """The record of one of several results; its array, if that is made of nothing that is held."""
        if not whole.reaches:
            return self.array(whole)[number]
        array = whole.array[number]
        for each in list(whole.users or ()):
            part = each()
            if part is not None and part.application == (PART, (whole,), number):
                return part
        return self.record((PART, (whole,), number), array, (whole,)).record  # which nobody holds

    def record(
        self, application: Any, array: Any, operands: tuple[Any, ...], variable: Any = None, within: int = 2
    ) -> Recorded:
        """A value with a record of its own, made by an application to these operands; `within` is as of `origin`."""
        made = _blank(Record)
        made.application, made.array, made.held, made.reaching, made.recording, made.where = (
            application,
            array,
            True,
            0,  # where an interrupt comes before it is counted
            self,
            origin(within),
        )
        made.serial, made.users, made.node = next(_serials), set(), None
        made.variable = None if variable is None else ref(variable)
        reaching, last = 0, None
        for each in operands:
            if type(each) is Record and each is not last:
                users = self._revived(each) if each.users is None else each.users
                if reaching and len(operands) > 2 and ref(made) in users:
                    continue
                last = each
                users.add(ref(made, users.discard))
                reaching += 1
        made.reaching = reaching
        if not reaching:
            self._note(made)
        shown = _blank(Recorded)
        shown.array, shown.record = array, made
        return shown

    def _revived(self, record: Record) -> set[Any]:
        """The users of a record that was dropped and is used once more: it takes gradients, and was made of nothing.

        So it is where the collector has found a cycle, and calls a finaliser of the user's after that of a value.
        """
        users = record.users = set()
        record.held = True  # nobody says any more when it is not
        self._note(record)
        return users

    def _note(self, record: Record) -> None:
        """Let a record that is made of nothing be found."""
        self._leaves.add(ref(record, self._leaves.discard))

    def members(self) -> list[Record]:
        """The records that there are: what reaches is made of what does by itself; others are operands of that."""
        found = {record for each in list(self._leaves) if (record := each()) is not None}
        waiting = [*found]
        while waiting:
            record = waiting.pop()
            application = record.application
            near = [user for each in list(record.users or ()) if (user := each()) is not None]
            near += [] if application is None else [x for x in application[1] if type(x) is Record]
            for each in near:
                if each not in found:
                    found.add(each)
                    waiting.append(each)
        return [*found]

    # --- what is dropped ----------------------------------------------------------------------------------

    def drop(self, record: Record) -> None:
        """Note that a record is not held any more. If it does not reach, those that do through it alone reach no more.

        If it does, it is saved for gradients, and is for the cache, if there is one.
        """
        self._dropped.append(record)
        self._swept()

    def _swept(self) -> None:
        while self._dropped:
            if not alone(self._lock, self._sweep):  # whoever has it looks at this one, too
                return

    def _sweep(self) -> None:
        """Look at what was dropped; what an interrupt ends, whoever comes next goes on with."""
        dropped = self._dropped
        while dropped:
            try:
                self._look_at(dropped[0])  # which stays until it is done with
            except Exception:  # which would come again, and no interrupt is
                dropped.popleft()
                raise
            dropped.popleft()

    def _look_at(self, record: Record) -> None:
        if record.reaching:
            self.saved.add(record)
            return
        users = record.users
        if users is not None:  # else it was dropped twice, or its users are being told
            self._users, record.users = users, None
        record.cut()
        self._tell()

    def _tell(self) -> None:
        """Let users know that one operand of theirs reaches no more."""
        if self._users:
            self._waiting, self._users = list(self._users), ()
        waiting = self._waiting
        while True:
            user = self._last
            if user is not None and not user.reaching:
                user.cut()
                if user.held:
                    self._note(user)
                else:
                    self._dropped.append(user)
            user = self._last = None
            if not waiting:
                return
            user = waiting[-1]()
            if user is None:
                waiting.pop()
            else:  # in one step: no interrupt comes between
                self._last, user.reaching, waiting[-1:] = user, user.reaching - 1, ()

    # --- what is a graph's ----------------------------------------------------------------------------------

    def note_nodes(self, op: Op, args: Sequence[Any], found: Any) -> None:
        """Note of nodes that they are made of what is recorded: once they have values, these are no constants."""
        made_of: dict[Record, None] = {}
        for a in args if carries_gradients(op) else ():
            if type(a) is Recorded or type(a) is Variable:
                recorded: Recorded = self.of(a) if isinstance(a, Variable) else a
                made_of[recorded.record] = None
            elif self.noted(a):
                made_of |= self._unrecorded[a.node][1]
        each = found[0] if op.multi_result and found else found
        if made_of and type(each) in (Node, Result):
            self._unrecorded[each.node] = out_of_reach(op, ONE_OF_A_GRAPH, params={}, multi_result=False), made_of

    def noted(self, value: Any) -> bool:
        """Whether it is a value of a graph that is made of what is recorded."""
        return (type(value) is Node or type(value) is Result) and value.node in self._unrecorded

    def known(self, value: Any, array: Any = None) -> Any:
        """What a value of a graph is to operators once it has a value: an array, or recorded; else itself.

        If it is made of what is recorded, so that a gradient would flow through the graph, that is refused.

        Parameters
        ----------
        array
            Its value, if that was asked for.
        """
        node = value.node
        if node.op is CONSTANT or node.op is HELD:
            array = node.data[value.index] if node.op is HELD else node.data
        noted = self._unrecorded.get(node)
        if array is None or noted is None:
            return value if array is None else array
        return self.made_of(noted[0], tuple(noted[1]), {}, array)

    # --- as nodes -----------------------------------------------------------------------------------------

    def value(self, record: Record) -> Value:
        """A record as a value of a graph, and so what it is made of: the nodes that there were, while they live.

        What was made of a variable that has been assigned since is made of a constant: other nodes than there were.
        """

        def found() -> Value:
            leaves = [leaf for each in self._reading if (leaf := each()) is not None]
            if self._gone or not all(map(_is_now, leaves)):
                self._reading.clear()
                self._gone.clear()
                self._epoch += 1
            return self._value(record)

        return self.undisturbed(found)  # another thread may let go of what it was made of

    def _value(self, record: Record) -> Value:
        """It may be swept meanwhile: each application is asked for once."""
        epoch, found, waiting = self._epoch, dict[Record, Any](), [(record, record.application)]
        while waiting:
            each, application = waiting[-1]
            node = each.node
            known = None if node is None or node[0] != epoch else node[1]()
            if each in found or known is not None:
                found.setdefault(each, known)
                waiting.pop()
                continue
            operands = () if application is None else application[1]
            missing = [(x, x.application) for x in operands if type(x) is Record and x not in found]
            if missing and missing[0][1] is None and application is not None and application[0] is PART:
                application = None  # nothing is known any more of all the results
            elif missing:
                waiting += missing
                continue
            waiting.pop()
            found[each] = made = self._as_value(each, application, found)
            if each.application is application:
                each.node = epoch, ref(made)
        last: Value = found[record]
        return last

    def _as_value(self, record: Record, application: Any, found: dict[Record, Any]) -> Any:
        symbol = find(self.graph, "symbol")
        if application is None:
            if not _is_now(record):
                return symbol.held(self.array(record))
            self._reading.add(ref(record, self._gone.append))
            return symbol.reading(record.variable())  # type: ignore[misc]
        op, operands, params = application
        if op is PART:
            whole = operands[0].application
            if whole is not None and _happens(whole):  # which does not happen again
                return symbol.held(self.array(record))
            return found[operands[0]].result(params)
        if _happens(application):
            return symbol.held(record.array[0] if op.multi_result else record.array)
        args = []
        for x in operands:
            if type(x) is Record:
                x = found[x]
            elif hasattr(x, "dtype"):
                x = self._constant(symbol, x)
            args.append(x)
        with attributed(record.where):
            made = self.graph.bind(op, *args, **(params or {}))
        return made[0].node if op.multi_result else made

    def _constant(self, symbol: Any, array: Any) -> Node:
        node = self._constants.get(id(array))
        if node is None or node.data is not array:
            node = self._constants[id(array)] = symbol.held(array)
        return node


ONE_OF_A_GRAPH = (
    "its place is in a graph, by the token that it was given (after=), so that nothing is recorded; leave the token to "
    "the stack, or use stack.grad"
)


def out_of_reach(op: Op, why: str, **changed: Any) -> Op:
    """The operator, whose application is recorded, and refuses to be differentiated."""
    where = describe(origin())
    refusal = Refusal(f"{why} (applied at {where})" if where else why)
    return evolve(op, derivative=refusal, effect=True, pure=False, **changed)


def _is_now(record: Record) -> bool:
    """Whether it is the value that a variable has now."""
    variable = None if record.variable is None else record.variable()
    now = None if variable is None else variable.recorded
    return type(now) is Recorded and now.record is record


def _happens(application: Any) -> bool:
    """Whether an application does more than compute, and ask."""
    op, _, params = application
    return op.effect or (op.holds_body and not all(map(only_asks, bodies_of((params or {}).items()))))


# --- in threads, and in traces ----------------------------------------------------------------------------


def as_it_was(recording: Recording, is_on: bool) -> Override:
    """While it is open operators are recorded there in this thread, or are not, as when they were applied.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.dynamic()
    >>> with stack.no_grad(), as_it_was(stack.engine.recording, True):
    ...     stack.engine.recording.is_on
    True
    """
    others = [each for each in paused_here() if each is not recording]
    return Override(paused, tuple(others) if is_on else (*others, recording))


def by_programs(recording: Recording, apply: Callable[..., Any]) -> Override:
    """While it is open applications with effects are recorded there in this thread as programs.

    Parameters
    ----------
    apply
        ``apply(op, args, params)`` gives a tuple of results; None where no gradient flows; or why there is no program.
    """
    return Override(_by_programs, (recording, apply))


def program_of(recording: Recording) -> Any:
    """What computes an application with effects as one program; None where nothing does."""
    its, apply = _by_programs.get()
    return apply if its is recording else None


@contextmanager
def meeting() -> Iterator[list[Any]]:
    """While it is open, what takes gradients or was recorded is noted where it becomes part of a graph."""
    found: list[Any] = []
    with Override(_met, found):
        yield found


def meet(value: Any) -> None:
    """Note a value that becomes part of a graph, if it takes gradients, or was made of variables."""
    found = _met.get()
    if found is not None and (type(value) is Recorded or is_smooth_value(value)):
        found.append(value)


def is_smooth_value(value: Any) -> bool:
    """Whether what a tensor holds is a variable, or recorded, and a gradient may flow to it."""
    return (type(value) is Recorded or type(value) is Variable) and kind_of(value.dtype) in "fc"


def takes_gradients(tensor: Any) -> bool:
    """Whether something is a tensor that gradients may flow to, on a dynamic stack.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.dynamic()
    >>> takes_gradients(stack.asarray(1.0)), takes_gradients(stack.variable("x", 1.0) * 2)
    (False, True)
    >>> takes_gradients(stack.variable("x", 1.0) > 2)
    False
    """
    return is_smooth_value(getattr(tensor, "value", None))
