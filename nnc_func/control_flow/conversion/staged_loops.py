"""Loops of operators made of blocks of Python: what they carry, stack, and leave in variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.control_flow.attempts import noting, trial
from nnc_func.control_flow.carries import Carry, Growing
from nnc_func.control_flow.conversion.appended import kinds_of, marked
from nnc_func.control_flow.conversion.arrays import Arrays
from nnc_func.control_flow.conversion.endless import EndlessError
from nnc_func.control_flow.conversion.identities import identities, known_identities
from nnc_func.control_flow.conversion.loop_pairs import AgainError
from nnc_func.control_flow.conversion.loop_state import LoopState
from nnc_func.control_flow.conversion.number_kinds import common_dtype, is_number
from nnc_func.control_flow.conversion.objects import Objects
from nnc_func.control_flow.conversion.optionals import optional
from nnc_func.control_flow.conversion.sources import Source
from nnc_func.control_flow.conversion.staging import Where, truth, within_staged
from nnc_func.control_flow.conversion.values import UNREADABLE, Get, Held, Rows, Set
from nnc_func.control_flow.messages import traced_always
from nnc_func.control_flow.steps import in_order
from nnc_func.control_flow.tracing import SCALARS, TracedBody, aval_of, tensor_of, traced
from nnc_func.errors import ControlFlowError, OperatorError
from nnc_func.facets.dims import known
from nnc_func.graph.ops.loop import loop
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import flatten


@frozen(eq=False)
class Variables(Carry):
    """What a loop carries, as leaves of variables; messages say where the loop stands."""

    where: Any = None
    numbers: frozenset[int] = (
        frozenset()
    )  # leaves that are numbers before the loop, which take the dtype they have after

    def avals(self, dtypes: Sequence[Any], growing: Growing = None) -> list[Aval]:
        """Avals of the leaves; those of numbers with these dtypes."""
        found = super().avals(dtypes, growing)
        return [a.having(dtype=dtypes[n]) if n in self.numbers else a for n, a in enumerate(found)]

    def carriers(self, avals: Sequence[Aval]) -> list[Any]:
        """What flows into the loop."""
        found = super().carriers(avals)
        for n in self.numbers:
            leaf = self.leaves[n]
            if isinstance(leaf, Tensor) and leaf.dtype != avals[n].dtype:
                found[n] = self.stack.carrier(leaf.astype(avals[n].dtype))
        return found

    def check(self, before: Sequence[Aval], after: Sequence[Any], growing: Growing = None) -> None:
        """Raise ControlFlowError where a leaf changes."""
        try:
            super().check(before, after, growing)
        except OperatorError as error:
            raise ControlFlowError(f"the loop at {self.where} is one of operators, and {error}") from None


MOST_TRACES = 100  # of one body, until it is known what it carries


class StagedLoop:
    """A loop of operators made of a block of Python.

    Parameters
    ----------
    get, put, names
        The variables that the block may leave another value in.
    lists
        Of these, lists to which it appends; and what the code does with each besides: it is ``"stacked"``, ``"read"``
        after the loop, or ``"looked into"`` within it.
    exchanged
        Of these, those that it gives another value, and does not only write into.
    test
        What is asked before each time; or None.
    source
        What it goes over; or None.
    """

    def __init__(
        self, stack: Any, body: Callable[[Any], None], get: Get, put: Set, names: Sequence[str],
        lists: Mapping[str, str], exchanged: Sequence[str], where: Where, test: Callable[[], Any] | None = None,
        source: Source | None = None,
    ) -> None:  # fmt: skip
        self.stack, self.body, self.get, self.put, self.where = stack, body, get, put, where
        self.test, self.source = test, source
        self.counted = source is not None
        around = known_identities()
        self.before = get() if around is None else optional(get(), names, around)
        arrays = Arrays(self.before, names, where)
        self.held = [Held.of(name, value) for name, value in zip(names, self.before, strict=True)]
        self.gathering = [
            each.name in lists and type(each.value) in (list, Rows) for each in self.held
        ]  # fmt: skip
        new = {
            n for n, each in enumerate(self.held)
            if not self.gathering[n] and (each.name in exchanged or type(each.value) is np.ndarray)
        }  # fmt: skip
        objects = Objects((body, test), get, names)
        self.code = (str(where), *names)
        last = None if around is None else around.loops.get(self.code)
        self.state = LoopState(self.before, self.held, self.gathering, new, objects, arrays, where, last, self.goes)
        self.lists, self.alone = lists, arrays.alone
        self.ended: list[Held] = []
        self.rows: list[Any] = []
        self.kinds: dict[int, list[Any]] = {}  # of each list, which numbers its rows are
        for n, on in enumerate(self.gathering):
            if on and lists[names[n]] == "looked into":
                raise ControlFlowError(f"the loop at {where} appends to {names[n]}, and {UNREADABLE}")
            if on and objects.has_names(self.before[n]):
                raise ControlFlowError(
                    f"the loop at {where} is one of operators, and appends to {names[n]}, which it knows by another "
                    "name, too: it does not see there what it has appended; use one name"
                )
        if any(self.gathering):
            bounded = source is not None and source.count is None and test is None
            names_ = [each.name for each, on in zip(self.held, self.gathering, strict=True) if on]
            if not bounded:
                raise ControlFlowError(
                    f"the loop at {where} appends to {names_[0]}, and how often it goes depends on a tensor, so that "
                    "how many rows there are is not known: use stack.while_loop with max_iterations=, or a loop over "
                    "a known extent without break"
                )

    def run(self, first: Tensor | None = None) -> None:
        """Let the variables have what they have after the loop.

        Parameters
        ----------
        first
            What the test says before the first time, where it has been asked.
        """
        if self.source is not None and self.source.count is None and self.source.length == 0:
            return
        why = f"the body of the loop at {self.where} is traced, whether it goes at all, as a tensor decides, or not"
        try:
            in_words = nullcontext() if self.goes else traced_always(why)
            with within_staged(self.where), identities(), noting(), in_words:
                after = self._after(first)
        except BaseException:
            self.put(self.before)
            raise
        self.put(after)

    @property
    def goes(self) -> bool:
        """Whether it surely goes at least once."""
        source = self.source
        return source is not None and source.count is None and self.test is None and known(source.length)

    # --- one time ---------------------------------------------------------------------------------------

    def _head(self) -> list[Aval]:
        """Avals of what it carries besides variables: whether it goes on, and how often it went."""
        return [Aval((), "bool")] * (self.test is not None) + [Aval((), "int64")] * self.counted

    def _slices(self) -> list[Any]:
        return [] if self.source is None else [self.stack.carrier(x) for x in self.source.slices]

    def trace(self, before: Sequence[Any]) -> tuple[TracedBody, list[Any]]:
        """The body, for carried leaves of these avals; and what each leaf is after it."""
        slices = [aval_of(self.stack, x) for x in self._slices()]
        after: list[Any] = []

        def flat(given: list[Any]) -> list[Any]:
            own = given[self.test is not None :]
            times: Any = own.pop(0) if self.counted else None
            objects = self.state.objects
            with identities() as identical, identical.block() as log:
                try:
                    variables = self.state.enter(own[: len(before)], identical)
                    inside = self._gathering(variables)
                    self.put(variables)
                    self.body(None if self.source is None else self.source.item(times, own[len(before) :]))
                    results: list[Any] = [] if self.test is None else [self._more()]  # which may assign, too
                    identical.check_parts()
                    ended = optional(self.get(), [each.name for each in self.held], identical)
                    self._gather(inside, ended)
                    appended = {self.held[n].name: inside[n] for n, on in enumerate(self.gathering) if on}
                    found = self.state.leave(ended, identical, log, appended)
                finally:
                    objects.restore(self.state.contents, objects.changed(self.state.contents))
                    self.put(self.before)
            results += [times + 1] if self.counted else []
            after[:] = [_dtype_of(leaf, was) for leaf, was in zip(found, before, strict=True)]
            results += [_carried(self.stack, leaf, was) for leaf, was in zip(found, before, strict=True)]
            return [*results, *(leaf for tree in self.rows for leaf in flatten(tree)[0])]

        given = [*self._head(), *before, *(a.having(shape=a.shape[1:]) for a in slices)]
        body = traced(self.stack, flat, given, effects=True, counted=True)
        self.state.settle()
        first = len(self._head())
        return body, [
            body.avals[first + n] if each is None else Aval((), each) for n, each in enumerate(after)
        ]  # fmt: skip

    def _gathering(self, variables: list[Any]) -> list[Any]:
        """The lists to which it appends, for one time."""
        for n, on in enumerate(self.gathering):
            if on:
                variables[n] = Rows(self.stack, [], open=True)
        return [*variables]

    def _gather(self, inside: Sequence[Any], found: Sequence[Any]) -> None:
        """What it has appended, and what the variables have."""
        self.ended, self.rows = [], []
        for n, (was, value) in enumerate(zip(self.held, found, strict=True)):
            self.ended.append(Held.of(was.name, value))
            if self.gathering[n]:
                if value is not inside[n]:
                    raise ControlFlowError(
                        f"the loop at {self.where} is one of operators, in which nothing is done to the list "
                        f"{was.name} but append"
                    )
                self.kinds[n] = kinds_of(value)
                self.rows.append(value.stacked() if value.segments else None)

    def _more(self, asked: Tensor | None = None) -> Tensor:
        assert self.test is not None
        found = self.test() if asked is None else asked
        return truth(found) if isinstance(found, Tensor) else self.stack.asarray(bool(found))

    # --- the loop ---------------------------------------------------------------------------------------

    def _carry(self) -> Variables:
        self._begin()
        with identities() as identical:
            self.state.laid_out(identical)
        leaves, paths = self.state.leaves()
        _, structure = flatten(dict.fromkeys(paths, 0), by_insertion=True)
        made = tuple([tensor_of(self.stack, leaf) for leaf in leaves])
        numbers = frozenset([n for n, _ in enumerate(self.state.keys()) if is_number(leaves[n])])
        return Variables(self.stack, made, structure, "the variable", where=self.where, numbers=numbers)

    def _until_known(self, attempt: Callable[[], Any]) -> Any:
        """What an attempt gives that knows all that the loop carries."""
        for _ in range(MOST_TRACES):
            try:
                return attempt()
            except AgainError:
                continue
        raise ControlFlowError(
            f"what the loop at {self.where}, which is one of operators, writes into and exchanges is another each time "
            "that it is traced: let it do the same each time"
        )

    def _begin(self) -> None:
        """Let variables that have no value, or None, and are given one, begin with zeros of its shapes."""
        for n, held in self.state.assigned.items():
            self.held[n] = held
            self.state.places[n,] = None
            self.state.firm.add((n,))
        self.state.assigned.clear()

    def _after(self, asked: Tensor | None) -> list[Any]:
        stack = self.stack
        first = None if self.test is None else self._more(asked)  # before anything is traced
        carry, body, avals = self._until_known(self._settled)
        with identities() as identical:
            identical.loops[self.code] = self.state.found(identical)
        head = [] if first is None else [stack.carrier(first)]
        head += [stack.carrier(stack.asarray(np.int64(0)))] if self.counted else []
        carries = [*head, *carry.carriers(avals)]
        source = self.source

        def apply(body: TracedBody, token: list[Any]) -> Sequence[Any]:
            inner, operands = body.over([*carries, *token], self._slices())
            given = [Tensor(stack, x) for x in operands]
            given += [] if source is None or source.count is None else [source.count]
            return stack.bind(  # type: ignore[no-any-return]
                loop, *given, body=inner, constants=len(body.captured), carries=len(carries) + len(token),
                length=None if source is None or source.slices else source.length, reverse=False,
                counted=source is not None and source.count is not None, conditional=self.test is not None,
            )  # fmt: skip

        at = len(carries)
        found = in_order(stack, "a loop with effects", body, (at, at), [*carries, *self._slices()], apply)
        return self._finished(found[len(head) :])

    def _settled(self) -> tuple[Variables, TracedBody, list[Aval]]:
        """What is carried, the body, and avals: a number takes the dtype that it has after it."""
        carry = self._carry()
        dtypes: list[Any] = [np.result_type(x) if type(x) in SCALARS else x.dtype for x in carry.leaves]
        dtypes = self._following(carry, dtypes, [Aval((), dtype) for dtype in dtypes])
        after: Sequence[Any] = ()
        if any(type(x) in SCALARS for x in carry.leaves):
            try:
                avals = carry.avals(dtypes)
                with trial():
                    _, after = self.trace(
                        [x if type(x) in SCALARS else a for x, a in zip(carry.leaves, avals, strict=True)]
                    )
            except (AgainError, EndlessError):
                raise
            except Exception:  # what is wrong with tensors is said when it is traced with tensors
                after = carry.avals(dtypes)
            dtypes = self._following(carry, dtypes, after)
        for _ in range(2 + len(carry.numbers)):  # a number may be passed on from one variable to the next
            avals = carry.avals(dtypes)
            body, after = self.trace(avals)
            found = self._following(carry, dtypes, after)
            if found == dtypes:
                break
            dtypes = found
        carry.check(avals, after)
        return carry, body, avals

    def _following(self, carry: Variables, dtypes: Sequence[Any], after: Sequence[Any]) -> list[Any]:
        """The dtypes with which numbers are carried: of what is no number after a time, or one that holds both."""
        found, keys = [*dtypes], self.state.keys()
        for n in carry.numbers:
            strong, leaf = self.state.dtypes.get(keys[n]), carry.leaves[n]
            if strong is not None:
                found[n] = common_dtype([strong], [leaf])
            else:
                found[n] = common_dtype([], [np.dtype(after[n].dtype).type(0), leaf])
        return found

    def _finished(self, found: Sequence[Any]) -> list[Any]:
        """The variables after the loop."""
        size = len(self.state.leaves()[0])
        columns, rows = iter(found[size:]), iter(self.rows)
        with identities() as identical, identical.parting():
            after = self.state.finished(found[:size], identical)
            self.state.appended.finished(identical)
        for n, on in enumerate(self.gathering):
            if on:
                after[n] = self._gathered(n, next(rows), columns)
        return after

    def _gathered(self, n: int, row: Any, columns: Any) -> Any:
        """The list after the loop; it gets a tensor for each row, unless all that is done with it is to stack it."""
        before = self.before[n]
        if row is None:
            return before
        _, structure = flatten(row)
        leaves = [next(columns) for _ in range(structure.size)]
        flat = [
            y.reshape((y.shape[0] * y.shape[1], *y.shape[2:])) if y.shape[1] != 1 else y[:, 0] for y in leaves
        ]  # fmt: skip
        segment = ("many", structure.build(flat))
        if type(before) is Rows:
            before.segments.append(segment)
            return before
        rows = Rows(self.stack, [*(("one", each) for each in before), segment])
        if self.alone[n] and self.lists[self.held[n].name] == "stacked":
            return rows
        if not all(known(leaf.shape[0]) for leaf in flat):
            raise ControlFlowError(
                f"the loop at {self.where} appends to {self.held[n].name}, and how many rows there are is not known "
                "yet: append to a list of its own, and do nothing but stack it"
            )
        count = len(before)
        before[:] = [*rows]
        marked(before[count:], self.kinds[n])
        with identities() as identical:
            self.state.appended.listed(self.held[n].name, before[count:], identical)
        return before


def _dtype_of(leaf: Any, before: Any) -> Any:
    """The dtype that a number gives a leaf that is carried; None: it is no number."""
    if type(before) in SCALARS:
        return np.result_type(before, leaf) if type(leaf) in SCALARS else None
    if not is_number(leaf):
        return None
    return common_dtype([before.dtype], [leaf])


def _carried(stack: Any, leaf: Any, before: Any) -> Any:
    """A leaf that is carried on as a tensor; a number takes the dtype that it is carried with."""
    dtype = None if type(before) in SCALARS else _dtype_of(leaf, before)
    if dtype is None:
        return tensor_of(stack, leaf)
    return leaf.astype(dtype) if isinstance(leaf, Tensor) else stack.asarray(leaf, dtype)
