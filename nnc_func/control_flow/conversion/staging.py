"""Branches of operators made of blocks of Python: traced, and merged into the state after."""

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
from nnc_func.control_flow.conversion.sources import symbolic
from nnc_func.control_flow.conversion.values import (
    Get,
    Held,
    Set,
    Undefined,
    Unreached,
    moving,
    same,
    write_back,
)  # fmt: skip
from nnc_func.control_flow.tracing import SCALARS, TracedBody, traced
from nnc_func.engine.effects import ordered
from nnc_func.errors import ShapeError
from nnc_func.facets.dims import same_extent
from nnc_func.graph.ops.branch import branch
from nnc_func.graph.ops.create import full
from nnc_func.graph.ops.unary import cast
from nnc_func.graph.tensors.tensor import Tensor

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
        with within_staged(where):
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

    body = traced(stack, flat, [], whole=True, effects=True)
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
