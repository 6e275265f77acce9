"""Branches of operators made of blocks of Python: traced, and merged into the state after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from attrs import define, frozen

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.body_builder import BodyBuilder
from nnc_func.control_flow.conversion.copies import Copies, is_container, leaves_that_move
from nnc_func.control_flow.conversion.sources import symbolic
from nnc_func.control_flow.conversion.surroundings import Surroundings
from nnc_func.control_flow.conversion.values import (
    Get,
    Held,
    Rows,
    Set,
    Undefined,
    Unreached,
    moving,
    same,
)  # fmt: skip
from nnc_func.control_flow.tracing import SCALARS, TracedBody, traced
from nnc_func.engine.effects import ordered
from nnc_func.errors import ControlFlowError, ShapeError
from nnc_func.facets.dims import same_extent
from nnc_func.graph.ops.branch import branch
from nnc_func.graph.ops.create import full
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
def within_staged(where: Where) -> Iterator[None]:
    """While blocks of a statement are traced."""
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
    copies
        What they had at its beginning.
    positions
        Of each leaf that moves, by identity, which result it is.
    """

    body: TracedBody
    held: list[Held]
    copies: Copies
    positions: dict[int, int]

    @property
    def leaves(self) -> bool:
        """Whether it ends with a return, break or continue: what follows is not seen then."""
        return any(each.value is True and each.name.startswith(FLAGS) for each in self.held)


def staged_branch(
    test: Tensor, then: Callable[[], Any], otherwise: Callable[[], Any], get: Get, put: Set, names: Sequence[str],
    later: int, where: Where,
) -> None:  # fmt: skip
    """What one of two blocks leaves in variables, where a tensor decides."""
    stack, index, before = test.stack, truth(test), get()
    entry = [Held.of(name, value) for name, value in zip(names, before, strict=True)]
    surroundings = Surroundings((then, otherwise), get, names, where)
    try:
        with within_staged(where):
            ends = [_outcome(stack, entry, run, get, put, later, surroundings) for run in (otherwise, then)]
    finally:
        put(before)
    merge = _Merge(stack, ends, where)
    for n in range(later):
        merge.variable(n, entry[n])
    merge.written()
    after = merge.after(index)
    put([*after, *(held.value for held in entry[later:])])


def _outcome(
    stack: Any, entry: Sequence[Held], run: Callable[[], Any], get: Get, put: Set, later: int,
    surroundings: Surroundings,
) -> Outcome:  # fmt: skip
    copies = Copies()
    given = [copies.of(held.value) for held in entry]
    ended: list[Held] = []
    moved: list[Any] = []

    def flat(_: list[Any]) -> list[Any]:
        put(given)
        with surroundings.watched(copies):
            run()
        ended[:] = [Held.of(held.name, value) for held, value in zip(entry[:later], get(), strict=False)]
        moved[:] = leaves_that_move([*(held.value for held in ended), *copies.made])
        return moved

    body = traced(stack, flat, [], whole=True, effects=True)
    return Outcome(body, ended, copies, {id(leaf): n for n, leaf in enumerate(moved)})


class _DifferError(Exception):
    """Why the two sides of a branch cannot be one value."""


Build = Callable[[Sequence[Any]], Any]
"""What makes a value of the leaves that the branch gives."""


class _Merge:
    """Two outcomes as one: which leaves a branch gives, and of what each variable is built."""

    def __init__(self, stack: Any, ends: Sequence[Outcome], where: Where) -> None:
        self.stack, self.ends, self.where = stack, ends, where
        self.chosen: list[tuple[int | None, int | None, Any]] = []  # positions, and the aval
        self.values: list[Build] = []
        self.pairs: dict[tuple[int, int], Build] = {}

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
                    self._none(entry, self._one_sided(entry.name, which, absent.value))
                    return
                self._filled(there, which)
                return
        try:
            self.values.append(self._both(other.value, then.value, entry.name))
        except _DifferError as error:
            if is_container(entry.value) and self._origin(other.value, then.value) is entry.value:
                raise ControlFlowError(self._unequal(entry.name, error)) from None
            self._none(entry, str(error))

    def written(self) -> None:
        """What was written into, and is no variable's any more.

        Raises
        ------
        ControlFlowError
            It has another structure where the condition holds.
        """
        for end in self.ends:
            for _, value in end.copies.written():
                one, two = (each.copies.copy_of(value) for each in self.ends)
                try:
                    self._both(one, two, "it")
                except _DifferError as error:
                    raise ControlFlowError(self._unequal(f"a {type(value).__name__}", error)) from None

    def after(self, index: Tensor) -> list[Any]:
        """What the variables have after the branch."""
        found = self.bound(index)
        for build in self.pairs.values():
            build(found)
        return [build(found) for build in self.values]

    def _unequal(self, name: str, why: Exception) -> str:
        return (
            f"the branch at {self.where}, which a tensor decides, writes into {name}, and {why}; let both sides leave "
            "it alike, or make new ones"
        )

    def _origin(self, one: Any, two: Any) -> Any:
        """What both sides have a copy of, or have as it is; None: nothing."""
        found, other = (end.copies.original(each) for end, each in zip(self.ends, (one, two), strict=True))
        return found if found is other else None

    def _both(self, one: Any, two: Any, path: str) -> Build:
        """What makes the value that is one thing on one side, and another on the other; each pair is made once."""
        key = (id(one), id(two))
        if key not in self.pairs:
            self.pairs[key] = _once(self._made(one, two, path))
        return self.pairs[key]

    def _made(self, one: Any, two: Any, path: str) -> Build:
        kind, origin = type(two), self._origin(one, two)
        if type(one) is Rows and kind is Rows:
            rows: Any = self._both(one.segments, two.segments, path)
            into = origin if origin is not None else Rows(self.stack, [], two.open)
            return lambda found: into.become(rows(found))
        structures = [Held.of(path, each).structure for each in (one, two)]
        if structures[0] != structures[1]:
            raise _DifferError(f"{path} is {structures[1]} where {self._holds(1)}, {structures[0]} elsewhere")
        if kind is list:
            parts = [self._both(a, b, f"{path}.{n}") for n, (a, b) in enumerate(zip(one, two, strict=True))]
            row: list[Any] = [] if origin is None else origin
            return lambda found: _filled(row, [part(found) for part in parts])
        if kind is dict:
            named = {key: self._both(one[key], two[key], f"{path}.{key}") for key in two}
            table: dict[Any, Any] = {} if origin is None else origin
            return lambda found: _updated(table, {key: part(found) for key, part in named.items()})
        if structures[1].kind != "leaf":
            leaves = [flatten(each)[0] for each in (one, two)]
            parts = [self._both(a, b, f"{path}.{n}") for n, (a, b) in enumerate(zip(*leaves, strict=True))]
            return lambda found: structures[1].build([part(found) for part in parts])
        return self._leaf(one, two, path, origin)

    def _leaf(self, one: Any, two: Any, path: str, origin: Any) -> Build:
        if same(one, two):
            value = one if origin is None else origin
            return lambda _: _written(value, one)
        if not (moving(one) and moving(two)):
            raise _DifferError(f"{path} is {two!r} where {self._holds(1)}, {one!r} elsewhere, which is no tensor")
        at = [end.positions[id(leaf)] for end, leaf in zip(self.ends, (one, two), strict=True)]
        aval, why = self._aval([one, two], at)
        if aval is None:
            raise _DifferError(f"{path} {why}")
        n = len(self.chosen)
        self.chosen.append((at[0], at[1], aval))
        return lambda found: _written(origin, found[n]) if isinstance(origin, Tensor) else found[n]

    def _filled(self, there: Held, absent: int) -> None:
        """Zeros on one side: of what is returned where nothing has been returned yet."""
        end, first = self.ends[1 - absent], len(self.chosen)
        rows: list[tuple[bool, Any]] = []
        for leaf in there.leaves:
            at = end.positions[id(leaf)] if moving(leaf) else None
            rows.append((at is not None, first + sum(new for new, _ in rows) if at is not None else leaf))
            if at is not None:
                self.chosen.append((None, at, end.body.avals[at]) if absent == 0 else (at, None, end.body.avals[at]))
        self.values.append(lambda found: there.built([found[each] if new else each for new, each in rows]))

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

    def _none(self, entry: Held, why: str) -> None:
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
        has_effects = any(end.body.has_effects for end in self.ends)
        if not self.chosen and not has_effects:
            return []
        captured = {id(x): x for end in self.ends for x in end.body.captured}
        bodies = tuple([self._body(which, [*captured], has_effects) for which in range(2)])
        given = [Tensor(self.stack, x) for x in captured.values()]
        if not has_effects:
            return [*self.stack.bind(branch, index, *given, bodies=bodies)]

        def after(token: Tensor) -> tuple[list[Tensor], Tensor]:
            *found, last = self.stack.bind(branch, index, token, *given, bodies=bodies)
            return found, last

        return list(ordered(self.stack, "a branch with effects", [index, *given], after))

    def _body(self, which: int, captured: list[int], has_effects: bool) -> Body:
        """One of the two with the same operands and results as the other."""
        end, builder = self.ends[which].body, BodyBuilder()
        end = end.carrying(token=True) if has_effects else end
        tokens = builder.parameters(int(has_effects))
        outer = dict(zip(captured, builder.parameters(len(captured)), strict=True))
        values = builder.include(end.body, [*tokens, *(outer[id(x)] for x in end.captured)])
        results = []
        for row in self.chosen:
            at, aval = row[which], row[2]
            if at is None:
                results.append(builder.apply(full, shape=aval.shape, value=0, dtype=aval.dtype))
                continue
            found = values[end.body.results[at]]
            results.append(found if end.avals[at].dtype == aval.dtype else builder.apply(cast, found, dtype=aval.dtype))
        results += [values[n] for n in end.body.results[-1:] if has_effects]
        return builder.built(results)


def _once(build: Build) -> Build:
    """The same value each time."""
    made: list[Any] = []

    def found(given: Sequence[Any]) -> Any:
        if not made:
            made.append(build(given))
        return made[0]

    return found


def _filled(into: list[Any], parts: list[Any]) -> list[Any]:
    into[:] = parts
    return into


def _updated(into: dict[Any, Any], parts: dict[Any, Any]) -> dict[Any, Any]:
    into.clear()
    into.update(parts)
    return into


def _written(into: Any, found: Any) -> Any:
    """A tensor with another value."""
    if isinstance(into, Tensor) and into.value is not found.value:
        into.value, into.hold = found.value, found.hold
    return into
