"""Branches and loops of operators made of blocks of Python: traced, and merged into the state after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from attrs import define, field, frozen

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.body_builder import BodyBuilder
from nnc_func.control_flow.carries import Carry
from nnc_func.control_flow.conversion.sources import Source, symbolic
from nnc_func.control_flow.conversion.values import (
    Get,
    Held,
    Rows,
    Set,
    Undefined,
    Unreached,
    moving,
    same,
    write_back,
)  # fmt: skip
from nnc_func.control_flow.tracing import SCALARS, TracedBody, aval_of, tensor_of, traced
from nnc_func.errors import ControlFlowError, OperatorError, ShapeError
from nnc_func.facets.dims import same_extent
from nnc_func.graph.ops.branch import branch
from nnc_func.graph.ops.create import full
from nnc_func.graph.ops.loop import loop
from nnc_func.graph.ops.unary import cast
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import flatten

FLAGS = ("_returned", "_broke", "_skipped")  # how the names of flags begin, see `exits`
staged: ContextVar[str] = ContextVar("staged", default="")
"""Where the innermost `if` or loop that a tensor decides stands, while its blocks are traced."""


@frozen
class Where:
    """Lines of a statement that a tensor decides.

    Attributes
    ----------
    file, line
        Of the statement.
    blocks
        Of `if`, the lines at which its two blocks begin.
    """

    file: str
    line: int
    blocks: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@contextmanager
def _within(where: Where) -> Iterator[None]:
    token = staged.set(str(where))
    try:
        yield
    finally:
        staged.reset(token)


def truth(test: Tensor) -> Tensor:
    """A tensor as one truth value.

    Raises
    ------
    ShapeError
        It has more elements than one, or none.
    """
    if test.shape != ():
        if any(symbolic(n) or n != 1 for n in test.shape):
            raise ShapeError(
                f"what if, while, and, or, not decide by is one truth value, given shape {test.shape}; use x.any() or "
                "x.all(), and & | ~"
            )
        test = test.reshape(())
    return test if test.dtype == np.bool_ else test.stack.ops.not_equal(test, 0)


# --- branches ------------------------------------------------------------------------------------------------


@define(eq=False)
class Outcome:
    """One block of a branch, traced.

    Attributes
    ----------
    body
        Its results are all leaves that move.
    held
        The variables at its end.
    inside
        What they had at its beginning: copies.
    positions
        Of each leaf of each variable which result it is; None where it is no tensor.
    """

    body: TracedBody
    held: list[Held]
    inside: list[Any]
    positions: list[list[int | None]] = field(factory=list)

    @property
    def leaves(self) -> bool:
        """Whether it ends with a return, break or continue: what follows is not seen then."""
        return any(each.value is True and each.name.startswith(FLAGS) for each in self.held)

    def __attrs_post_init__(self) -> None:
        count = 0
        for each in self.held:
            row: list[int | None] = []
            for leaf in each.leaves:
                row.append(count if moving(leaf) else None)
                count += moving(leaf)
            self.positions.append(row)


def staged_branch(
    test: Tensor, then: Callable[[], Any], otherwise: Callable[[], Any], get: Get, put: Set, names: Sequence[str],
    later: int, where: Where,
) -> None:  # fmt: skip
    """What one of two blocks leaves in variables, where a tensor decides."""
    stack, index, before = test.stack, truth(test), get()
    entry = [Held.of(name, value) for name, value in zip(names, before, strict=True)]
    try:
        with _within(where):
            ends = [_outcome(stack, entry, run, get, put, later) for run in (otherwise, then)]
    finally:
        put(before)
    merge = _Merge(stack, ends, where)
    for n in range(later):
        merge.variable(n, entry[n])
    found = iter(merge.bound(index))
    after = []
    for n, held in enumerate(entry):
        if n >= later:
            after.append(held.value)
            continue
        value = merge.values[n](found)
        kept = all(end.held[n].value is end.inside[n] for end in ends)
        after.append(write_back(held.value, 0, 0, value) if kept else value)
    put(after)


def _outcome(
    stack: Any, entry: Sequence[Held], run: Callable[[], Any], get: Get, put: Set, later: int
) -> Outcome:  # fmt: skip
    copies = [held.copied() for held in entry]
    ended: list[Held] = []

    def flat(_: list[Any]) -> list[Any]:
        put([value for value, _ in copies])
        run()
        ended[:] = [Held.of(held.name, value) for held, value in zip(entry[:later], get(), strict=False)]
        return [leaf for held in ended for leaf in held.leaves if moving(leaf)]

    body = traced(stack, flat, [], whole=True)
    return Outcome(body, ended, [value for value, _ in copies])


class _Merge:
    """Two outcomes as one: which leaves a branch gives, and of what each variable is built."""

    def __init__(self, stack: Any, ends: Sequence[Outcome], where: Where) -> None:
        self.stack, self.ends, self.where = stack, ends, where
        self.chosen: list[tuple[int | None, int | None, Any]] = []  # positions, and the aval
        self.values: list[Callable[[Any], Any]] = []

    def variable(self, n: int, entry: Held) -> None:
        """Decide of what one variable is built."""
        other, then = (end.held[n] for end in self.ends)
        if other.absent and then.absent:
            found = then.value if then.value.why else other.value
            self._always(found)
            return
        for which, (absent, there) in enumerate(((other, then), (then, other))):
            if absent.absent:
                if type(absent.value) is not Unreached and not self.ends[which].leaves:
                    self._none(n, entry, self._one_sided(entry.name, which, absent.value))
                    return
                self._filled(n, there, which)
                return
        if other.structure != then.structure:
            self._none(n, entry, f"it is {then.structure} where {self._holds(1)}, {other.structure} elsewhere")
            return
        rows: list[Any] = []
        for i, (one, two, path) in enumerate(zip(other.leaves, then.leaves, then.paths(), strict=True)):
            if same(one, two):
                rows.append((False, one))
                continue
            if not (moving(one) and moving(two)):
                self._none(n, entry, f"{path} is {two!r} where {self._holds(1)}, {one!r} elsewhere, which is no tensor")
                return
            at = [end.positions[n][i] for end in self.ends]
            aval, why = self._aval([one, two], at)
            if aval is None:
                self._none(n, entry, f"{path} {why}")
                return
            rows.append((True, (*at, aval)))
        self._built(then, rows, entry)

    def _built(self, like: Held, rows: list[Any], entry: Held | None = None) -> None:
        self.chosen += [row for is_new, row in rows if is_new]
        originals = {id(c): o for c, o in zip(self._copies(entry), entry.leaves, strict=True)} if entry else {}

        def value(found: Any) -> Any:
            return like.built([next(found) if is_new else originals.get(id(row), row) for is_new, row in rows])

        self.values.append(value)

    def _copies(self, entry: Held) -> list[Any]:
        n = next(i for i, each in enumerate(self.ends[1].held) if each.name == entry.name)
        return Held.of(entry.name, self.ends[0].inside[n]).leaves

    def _filled(self, n: int, there: Held, absent: int) -> None:
        """Zeros on one side: of what is returned where nothing has been returned yet."""
        end = self.ends[1 - absent]
        rows: list[Any] = []
        for leaf, at in zip(there.leaves, end.positions[n], strict=True):
            if at is None:
                rows.append((False, leaf))
            else:
                positions = (None, at) if absent == 0 else (at, None)
                rows.append((True, (*positions, end.body.avals[at])))
        self._built(there, rows)

    def _aval(self, leaves: list[Any], at: list[Any]) -> tuple[Aval | None, str]:
        """Of a leaf that both sides have; or why there is none."""
        avals = [end.body.avals[i] for end, i in zip(self.ends, at, strict=True)]
        shapes = [a.shape for a in avals]
        if len(shapes[0]) != len(shapes[1]) or not all(map(same_extent, *shapes)):
            return None, f"has shape {shapes[1]} where {self._holds(1)}, {shapes[0]} elsewhere; broadcast one"
        typed = [a.dtype for a, leaf in zip(avals, leaves, strict=True) if type(leaf) not in SCALARS]
        numbers = [leaf for leaf in leaves if type(leaf) in SCALARS]
        if len(typed) == 2 and typed[0] != typed[1]:
            return None, (
                f"is {typed[1]} where {self._holds(1)}, {typed[0]} elsewhere; cast one: x.astype({typed[0].name!r})"
            )
        return avals[0].having(dtype=np.result_type(*typed[:1], *numbers)), ""

    def _none(self, n: int, entry: Held, why: str) -> None:
        self._always(Undefined(entry.name, why))

    def _always(self, value: Any) -> None:
        self.values.append(lambda _: value)

    def _holds(self, which: int) -> str:
        return f"the condition at {self.where} {'holds' if which else 'does not hold'}"

    def _one_sided(self, name: str, absent: int, value: Undefined) -> str:
        line = self.where.blocks[absent]
        inner = f" ({value.why})" if value.why else ""
        return (
            f"only the branch at line {line}, where {self._holds(1 - absent)}, assigns it, and a tensor decides; "
            f"assign it in the other branch too, or before{inner}"
        )

    def bound(self, index: Tensor) -> list[Any]:
        """The leaves that the branch gives."""
        if not self.chosen:
            return []
        captured = {id(x): x for end in self.ends for x in end.body.captured}
        bodies = tuple([self._body(which, [*captured]) for which in range(2)])
        given = [Tensor(self.stack, x) for x in captured.values()]
        return [*self.stack.bind(branch, index, *given, bodies=bodies)]

    def _body(self, which: int, captured: list[int]) -> Body:
        """One of the two with the same operands and results as the other."""
        end, builder = self.ends[which].body, BodyBuilder()
        outer = dict(zip(captured, builder.parameters(len(captured)), strict=True))
        values = builder.include(end.body, [outer[id(x)] for x in end.captured])
        results = []
        for row in self.chosen:
            at, aval = row[which], row[2]
            if at is None:
                results.append(builder.apply(full, shape=aval.shape, value=0, dtype=aval.dtype))
                continue
            found = values[end.body.results[at]]
            results.append(found if end.avals[at].dtype == aval.dtype else builder.apply(cast, found, dtype=aval.dtype))
        return builder.built(results)


# --- loops ---------------------------------------------------------------------------------------------------


@frozen(eq=False)
class Variables(Carry):
    """What a loop carries, as leaves of variables; messages say where the loop stands."""

    where: Any = None

    def check(self, before: Sequence[Aval], after: Sequence[Any]) -> None:
        """Raise ControlFlowError where a leaf changes."""
        try:
            super().check(before, after)
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
        self.inside: list[Any] = []
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

    def run(self) -> None:
        """Let the variables have what they have after the loop."""
        if self.source is not None and self.source.count is None and self.source.length == 0:
            return
        try:
            with _within(self.where):
                after = self._after()
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
        for n, each in enumerate(self.held):
            if self.gathering[n]:
                self.inside.append(Rows(self.stack, [], open=True))
            else:
                self.inside.append(each.built([given.get((n, i), leaf) for i, leaf in enumerate(each.leaves)]))
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
        return [self.ended[n].leaves[i] for n, i in self._moving()]

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
            self.body(None if self.source is None else self.source.item(times, own[len(before) :]))
            results: list[Any] = [] if self.test is None else [self._more()]  # which may assign, too
            found = self._leave()
            results += [times + 1] if self.counted else []
            after[:] = [_dtype_of(leaf, was) for leaf, was in zip(found, before, strict=True)]
            results += [_carried(self.stack, leaf, was) for leaf, was in zip(found, before, strict=True)]
            return [*results, *(leaf for tree in self.rows for leaf in flatten(tree)[0])]

        body = traced(self.stack, flat, [*self._head(), *before, *[a.having(shape=a.shape[1:]) for a in slices]])
        first = len(self._head())
        return body, [
            body.avals[first + n] if each is None else Aval((), each) for n, each in enumerate(after)
        ]  # fmt: skip

    def _more(self) -> Tensor:
        assert self.test is not None
        found = self.test()
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

    def _after(self) -> list[Any]:
        stack = self.stack
        first = None if self.test is None else self._more()  # before anything is traced
        self._begun()
        carry = self._carry()
        body, avals = self._settled(carry)
        head = [] if first is None else [stack.carrier(first)]
        head += [stack.carrier(stack.asarray(np.int64(0)))] if self.counted else []
        carries = [*head, *carry.carriers(avals)]
        inner, operands = body.over(carries, self._slices())
        source = self.source
        given = [Tensor(stack, x) for x in operands]
        given += [] if source is None or source.count is None else [source.count]
        found = stack.bind(
            loop, *given, body=inner, constants=len(body.captured), carries=len(carries),
            length=None if source is None or source.slices else source.length, reverse=False,
            counted=source is not None and source.count is not None, conditional=self.test is not None,
        )  # fmt: skip
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
            after.append(write_back(each.value, self.inside[n], self.ended[n].value, value))
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
