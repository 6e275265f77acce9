"""Loops of operators made of blocks of Python: what they carry, stack, and leave in variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.control_flow.carries import Carry, Growing
from nnc_func.control_flow.conversion.copies import Copies, content, is_container, is_same, objects, written_back
from nnc_func.control_flow.conversion.sources import Source
from nnc_func.control_flow.conversion.staging import Where, truth, within_staged
from nnc_func.control_flow.conversion.surroundings import Surroundings
from nnc_func.control_flow.conversion.values import (
    Get,
    Held,
    Rows,
    Set,
    moving,
    same,
)  # fmt: skip
from nnc_func.control_flow.steps import in_order
from nnc_func.control_flow.tracing import SCALARS, TracedBody, aval_of, tensor_of, traced
from nnc_func.errors import ControlFlowError, OperatorError
from nnc_func.graph.ops.loop import loop
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import flatten


@frozen(eq=False)
class Variables(Carry):
    """What a loop carries, as leaves of variables; messages say where the loop stands."""

    where: Any = None

    def check(self, before: Sequence[Aval], after: Sequence[Any], growing: Growing = None) -> None:
        """Raise ControlFlowError where a leaf changes."""
        try:
            super().check(before, after, growing)
        except OperatorError as error:
            raise ControlFlowError(f"the loop at {self.where} is one of operators, and {error}") from None


class StagedLoop:
    """A loop of operators made of a block of Python.

    Parameters
    ----------
    get, put, names
        The variables that the block may leave another value in.
    lists
        Of these, lists to which it appends and does nothing else.
    test
        What is asked before each time; or None.
    source
        What it goes over; or None.
    """

    def __init__(
        self, stack: Any, body: Callable[[Any], None], get: Get, put: Set, names: Sequence[str], lists: Sequence[str],
        where: Where, test: Callable[[], Any] | None = None, source: Source | None = None,
    ) -> None:  # fmt: skip
        self.stack, self.body, self.get, self.put, self.where = stack, body, get, put, where
        self.test, self.source = test, source
        self.counted = source is not None
        self.before = get()
        self.held = [Held.of(name, value) for name, value in zip(names, self.before, strict=True)]
        self.gathering = [
            each.name in lists and type(each.value) in (list, Rows) for each in self.held
        ]  # fmt: skip
        self.surroundings = Surroundings((body, test), get, names, where)
        self.inside: list[Any] = []
        self.copies = Copies()
        self.begun: list[tuple[str, Any, Any]] = []
        self.shared: set[int] = set()  # what is written into, and stands in several places
        self.handles: list[tuple[Any, Any]] = []
        self.ended: list[Held] = []
        self.rows: list[Any] = []
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
        try:
            with within_staged(self.where):
                after = self._after(first)
        except BaseException:
            self.put(self.before)
            raise
        self.put(after)

    # --- the state --------------------------------------------------------------------------------------

    def _moving(self) -> list[tuple[int, int]]:
        """Which leaves of which variables are carried."""
        return [
            (n, i)
            for n, each in enumerate(self.held)
            if not self.gathering[n] and not each.absent
            for i, leaf in enumerate(each.leaves)
            if moving(leaf)
        ]

    def _enter(self, leaves: Sequence[Any]) -> None:
        """Give the variables what they have at the beginning of a time."""
        given = dict(zip(self._moving(), leaves, strict=True))
        self.inside = []
        at = [0, 0]  # which leaf of which variable is copied

        def inside(leaf: Any) -> Any:
            found = given.get((at[0], at[1]), leaf)
            at[1] += 1
            return found

        self.copies = Copies(inside, self.shared)
        for n, each in enumerate(self.held):
            at[:] = [n, 0]
            if self.gathering[n]:
                self.inside.append(Rows(self.stack, [], open=True))
            else:
                self.inside.append(each.value if each.absent else self.copies.of(each.value))
        self.begun = [(path, each, content(each)) for path, each in self._objects(self.inside)]
        self.handles = [(leaf, leaf.value if isinstance(leaf, Tensor) else leaf) for leaf in leaves]
        self.put(self.inside)

    def _leave(self) -> list[Any]:
        """The leaves that are carried on, at the end of a time."""
        found = self.get()
        self.ended, self.rows = [], []
        for n, (was, value) in enumerate(zip(self.held, found, strict=True)):
            now = Held.of(was.name, value)
            self.ended.append(now)
            if self.gathering[n]:
                if value is not self.inside[n]:
                    raise ControlFlowError(
                        f"the loop at {self.where} is one of operators, in which nothing is done to the list "
                        f"{was.name} but append"
                    )
                self.rows.append(value.stacked() if value.segments else None)
            elif not was.absent:
                self._check(was, now)
        self._check_names(found)
        return [self.ended[n].leaves[i] for n, i in self._moving()]

    def _objects(self, values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        """What can be written into of the variables, those aside that have none, or are appended to."""
        for n, value in enumerate(values):
            if not (self.gathering[n] or self.held[n].absent):
                yield from objects(value, self.held[n].name)

    def _check_names(self, found: Sequence[Any]) -> None:
        """Raise ControlFlowError where what is written into has two names before a time, and one after it, or so."""
        written = [not is_same(content(each), before) for _, each, before in self.begun]
        if not any(written):
            return
        rows = [[each for _, each, _ in self.begun], [each for _, each in self._objects(found)]]
        rows = [[self._known(each) for each in row] for row in rows]
        places = [dict[int, list[int]](), dict[int, list[int]]()]
        for each, row in zip(places, rows, strict=True):
            for n, key in enumerate(row):
                each.setdefault(key, []).append(n)
        missing = {rows[0][n] for n, on in enumerate(written) if on and len(places[0][rows[0][n]]) > 1} - self.shared
        if missing:
            self.shared |= missing
            return
        for n, (path, each, _) in enumerate(self.begun):
            if written[n] and is_container(each) and rows[0][n] not in places[1]:
                raise ControlFlowError(
                    f"the loop at {self.where} is one of operators, and writes into {path}, then exchanges it for "
                    f"another {type(each).__name__}: write into it each time, or make a new one each time"
                )
            before, after = (each[row[n]] for each, row in zip(places, rows, strict=True))
            other = [k for k in (*before, *after) if k not in before or k not in after]
            if other and any(written[k] for k in (*before, *after)):
                first, then = ("before", "after") if other[0] in before else ("after", "before")
                raise ControlFlowError(
                    f"the loop at {self.where} is one of operators, and writes into {path}, which is the same object "
                    f"as {self.begun[other[0]][0]} {first} a time, and not {then} it; give one of them a value of its "
                    "own, such as x + 0"
                )

    def _known(self, each: Any) -> int:
        """What tells whether something is the same object: what it is a copy of."""
        original = self.copies.original(each)
        return id(each if original is None else original)

    def _check(self, was: Held, now: Held) -> None:
        """Raise ControlFlowError where a variable changes in what is no tensor."""
        start = f"the loop at {self.where} is one of operators, which carries {was.name}"
        if now.absent:
            raise ControlFlowError(f"{start}: {now.value.error()}")
        if was.structure != now.structure:
            raise ControlFlowError(
                f"{start}: it is {was.structure} before, and {now.structure} after one time; begin with what has the "
                "structure that it keeps"
            )
        for one, two, path in zip(was.leaves, now.leaves, was.paths(), strict=True):
            if not moving(one) and not same(one, two):
                raise ControlFlowError(
                    f"{start}: {path} is {one!r}, which is no tensor or number, and {two!r} after one time; only "
                    "tensors and numbers change in it"
                )
            if moving(one) and not moving(two):
                raise ControlFlowError(f"{start}: {path} is a tensor or a number before, and {two!r} after one time")

    # --- the loop ---------------------------------------------------------------------------------------

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
            self._enter(own[: len(before)])
            with self.surroundings.watched(self.copies):
                self.body(None if self.source is None else self.source.item(times, own[len(before) :]))
                results: list[Any] = [] if self.test is None else [self._more()]  # which may assign, too
            found = self._leave()
            results += [times + 1] if self.counted else []
            after[:] = [_dtype_of(leaf, was) for leaf, was in zip(found, before, strict=True)]
            results += [_carried(self.stack, leaf, was) for leaf, was in zip(found, before, strict=True)]
            return [*results, *(leaf for tree in self.rows for leaf in flatten(tree)[0])]

        given = [*self._head(), *before, *(a.having(shape=a.shape[1:]) for a in slices)]
        shared = -1
        while shared < len(self.shared):
            shared = len(self.shared)
            body = traced(self.stack, flat, given, effects=True, counted=True)
        first = len(self._head())
        return body, [
            body.avals[first + n] if each is None else Aval((), each) for n, each in enumerate(after)
        ]  # fmt: skip

    def _more(self, asked: Tensor | None = None) -> Tensor:
        assert self.test is not None
        found = self.test() if asked is None else asked
        return truth(found) if isinstance(found, Tensor) else self.stack.asarray(bool(found))

    def _carry(self) -> Variables:
        paths = [self.held[n].paths()[i] for n, i in self._moving()]
        leaves = [tensor_of(self.stack, self.held[n].leaves[i]) for n, i in self._moving()]
        _, structure = flatten(dict.fromkeys(paths, 0), by_insertion=True)
        return Variables(self.stack, tuple(leaves), structure, "the variable", where=self.where)

    def _begun(self) -> None:
        """Let variables that have no value begin with zeros, of the shapes that they have after one time."""
        if not any(each.absent for each in self.held):
            return
        carry = self._carry()
        avals = carry.avals([np.result_type(x) if type(x) in SCALARS else None for x in carry.leaves])
        numbers = [x if type(x) in SCALARS else a for x, a in zip(carry.leaves, avals, strict=True)]
        self.trace(numbers)
        for n, (was, now) in enumerate(zip(self.held, self.ended, strict=True)):
            if was.absent and not now.absent:
                leaves = [self._zero(leaf) for leaf in now.leaves]
                self.held[n] = Held.of(was.name, now.built(leaves))
            elif was.absent:
                self.held[n] = now

    def _zero(self, leaf: Any) -> Any:
        if type(leaf) in SCALARS:
            return type(leaf)(0)
        if not moving(leaf):
            return leaf
        if isinstance(leaf, Tensor):
            return self.stack.ops.full(shape=leaf.shape, value=0, dtype=leaf.dtype)
        return self.stack.asarray(np.zeros_like(leaf))

    def _after(self, asked: Tensor | None) -> list[Any]:
        stack = self.stack
        first = None if self.test is None else self._more(asked)  # before anything is traced
        self._begun()
        carry = self._carry()
        body, avals = self._settled(carry)
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

    def _settled(self, carry: Variables) -> tuple[TracedBody, list[Aval]]:
        """The body, and avals of what is carried: a Python number takes the dtype that it has after it."""
        weak = [n for n, leaf in enumerate(carry.leaves) if type(leaf) in SCALARS]
        dtypes: list[Any] = [np.result_type(x) if type(x) in SCALARS else None for x in carry.leaves]
        after: Sequence[Any] = ()
        if weak:
            try:
                avals = carry.avals(dtypes)
                _, after = self.trace(
                    [x if type(x) in SCALARS else a for x, a in zip(carry.leaves, avals, strict=True)]
                )
            except Exception:  # what is wrong with tensors is said when it is traced with tensors
                after = carry.avals(dtypes)
            for n in weak:
                dtypes[n] = _holding(carry.leaves[n], after[n].dtype)
        for _ in range(2 + len(weak)):  # a number may be passed on from one variable to the next
            avals = carry.avals(dtypes)
            body, after = self.trace(avals)
            changed = {n: _holding(carry.leaves[n], after[n].dtype) for n in weak}
            if all(dtypes[n] == dtype for n, dtype in changed.items()):
                break
            for n, dtype in changed.items():
                dtypes[n] = dtype
        carry.check(avals, after)
        return body, avals

    def _finished(self, found: Sequence[Any]) -> list[Any]:
        """The variables after the loop."""
        given, size = dict(zip(self._moving(), found, strict=False)), len(self._moving())
        kept = {
            key: self._is_kept(handle, was, self.ended[key[0]].leaves[key[1]])
            for key, (handle, was) in zip(self._moving(), self.handles, strict=True)
        }
        columns, rows = iter(found[size:]), iter(self.rows)
        after = []
        for n, each in enumerate(self.held):
            if self.gathering[n]:
                after.append(self._gathered(self.before[n], next(rows), columns))
                continue
            if each.absent:
                after.append(each.value)
                continue
            leaves = [leaf if kept.get((n, i), True) else given[n, i] for i, leaf in enumerate(each.leaves)]
            value = each.value if all(a is b for a, b in zip(leaves, each.leaves, strict=True)) else each.built(leaves)
            after.append(value if value is each.value else written_back(self.ended[n].value, value, self.copies))
        return after

    def _is_kept(self, handle: Any, was: Any, now: Any) -> bool:
        """Whether a leaf has at the end of each time what it had at the beginning."""
        return now is handle and (not isinstance(now, Tensor) or now.value is was)

    def _gathered(self, before: Any, row: Any, columns: Any) -> Any:
        """The list after the loop."""
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
        return Rows(self.stack, [*(("one", each) for each in before), segment])


def _holding(number: Any, dtype: Any) -> Any:
    """The dtype; one that holds a Python number where this would not."""
    return np.result_type(dtype, number)


def _dtype_of(leaf: Any, before: Any) -> Any:
    """The dtype that a Python number gives a leaf that is carried; None: it is no Python number."""
    if type(leaf) not in SCALARS:
        return None
    return np.result_type(before if type(before) in SCALARS else before.dtype, leaf)


def _carried(stack: Any, leaf: Any, before: Any) -> Any:
    """A leaf that is carried on as a tensor; a Python number takes the dtype that it is carried with."""
    if type(leaf) not in SCALARS or type(before) in SCALARS:
        return tensor_of(stack, leaf)
    return stack.asarray(leaf, np.result_type(before.dtype, leaf))
