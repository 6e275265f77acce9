"""What variables have in staged code: no value yet, lists that only grow, trees of tensors beside what is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from attrs import define

from nnc_func.control_flow.tracing import SCALARS
from nnc_func.errors import ControlFlowError, UndefinedVariableError
from nnc_func.facets.dims import Dim
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import Structure, exact, flatten


class Undefined:
    """What a variable has that has no value.

    Attributes
    ----------
    name
        Of the variable.
    why
        How it comes that there is none; empty where nothing has assigned it.
    """

    __slots__ = ("name", "why")

    def __init__(self, name: str, why: str = "") -> None:
        self.name, self.why = name, why

    def error(self) -> UndefinedVariableError:
        """What to raise where somebody wants the value."""
        said = f": {self.why}" if self.why else " where it is read: nothing has been assigned to it"
        return UndefinedVariableError(f"the variable {self.name} has no value{said}")

    def __repr__(self) -> str:
        return f"<{self.name} has no value>"


class Unlike(Undefined):
    """What a variable has that the two sides of a branch leave unlike, so that no tensor is both."""

    __slots__ = ()

    def error(self) -> UndefinedVariableError:
        """What to raise where somebody wants the value."""
        return UndefinedVariableError(
            f"a tensor decides what the variable {self.name} is, and no tensor is both: {self.why}"
        )


class Unreached(Undefined):
    """What a function returns while it has not returned: it stands for zeros, which nobody sees."""

    __slots__ = ()


UNREADABLE = (
    "a list is read in the loop that appends to it, which is a loop of operators: carry what is read in a variable of "
    "its own, and read the list after the loop"
)


class Rows:
    """A list to which a loop of operators has appended: what was appended one by one, and tensors of many rows.

    Attributes
    ----------
    segments
        Pairs: ``"one"`` and a tree, or ``"many"`` and a tree of tensors that have a row for each.
    open
        Whether it is appended to in a loop of operators, and cannot be read yet.
    """

    def __init__(self, stack: Any, segments: Sequence[tuple[str, Any]], open: bool = False) -> None:
        self.stack, self.segments, self.open = stack, [*segments], open

    def append(self, value: Any) -> None:
        """One more."""
        self.segments.append(("one", value))

    def become(self, segments: Sequence[tuple[str, Any]]) -> Rows:
        """It, with other rows."""
        self.segments[:] = segments
        return self

    def _check(self) -> None:
        if self.open:
            raise ControlFlowError(UNREADABLE)

    def stacked(self, axis: int = 0) -> Any:
        """All of them as one tensor, or a tree of tensors, side by side along an axis."""
        parts, made = [], None
        for kind, tree in self.segments:
            leaves, structure = flatten(tree)
            if made is not None and structure != made:
                raise ControlFlowError(f"what a loop appends to one list is alike: it is {made}, then {structure}")
            made = structure
            if not leaves:
                raise ControlFlowError(
                    f"a loop of operators appends {tree!r} to a list, in which there is no tensor or number: append "
                    "one, or count the times"
                )
            tensors = [self.stack.asarray(leaf) for leaf in leaves]
            parts.append([self.stack.ops.expand_dims(t, axis=0) for t in tensors] if kind == "one" else tensors)
        if made is None:
            raise ControlFlowError("nothing was appended to the list that is stacked")
        ops = self.stack.ops
        columns = [c[0] if len(c) == 1 else ops.concat(*c, axis=0) for c in map(list, zip(*parts, strict=True))]
        if axis:
            columns = [ops.moveaxis(c, source=0, destination=axis) for c in columns]
        return made.build(columns)

    def __len__(self) -> int:
        self._check()
        return sum(1 if kind == "one" else len(flatten(tree)[0][0]) for kind, tree in self.segments)

    def __iter__(self) -> Iterator[Any]:
        self._check()
        for kind, tree in self.segments:
            if kind == "one":
                yield tree
                continue
            leaves, structure = flatten(tree)
            for row in range(len(leaves[0])):
                yield structure.build([leaf[row] for leaf in leaves])

    def __getitem__(self, at: Any) -> Any:
        return [*self][at]

    def __bool__(self) -> bool:
        return len(self) > 0


def moving(leaf: Any) -> bool:
    """Whether a leaf goes through operators: tensors, arrays and numbers do, all else stays as it is."""
    return type(leaf) in SCALARS or isinstance(leaf, (Tensor, np.ndarray, np.generic))


def leaves_that_move(values: Sequence[Any]) -> list[Any]:
    """All tensors, arrays and numbers in some values, each object once."""
    found: dict[int, Any] = {}
    waiting = [*values]
    while waiting:
        value = waiting.pop()
        for leaf in flatten(value.segments if type(value) is Rows else value)[0]:
            if type(leaf) is Rows:
                waiting.append(leaf)
            elif moving(leaf):
                found[id(leaf)] = leaf
    return [*found.values()]


CONSTANTS = (*SCALARS, np.generic, str, bytes, range, slice, np.dtype, Dim)


def same(one: Any, other: Any) -> bool:
    """Whether two leaves are one value, as far as Python knows."""
    if one is other:
        return True
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.value is other.value
    if type(one) is not type(other) or not isinstance(one, CONSTANTS):
        return False  # two objects may be written into
    return bool(one == other) and exact(one) == exact(other)


@define(eq=False)
class Held:
    """The value of one variable as leaves and what builds it again.

    Attributes
    ----------
    name
        Of the variable.
    value
        As it was.
    leaves, structure
        Of the tree.
    """

    name: str
    value: Any
    leaves: list[Any]
    structure: Structure

    @classmethod
    def of(cls, name: str, value: Any) -> Held:
        """That of a value."""
        leaves, structure = flatten(value.segments if type(value) is Rows else value)
        return cls(name, value, leaves, structure)

    @property
    def absent(self) -> bool:
        """Whether there is none."""
        return isinstance(self.value, Undefined)

    @property
    def lost(self) -> bool:
        """Whether it has one in Python, which staged code cannot tell: it has no value, and says why."""
        return self.absent and bool(self.value.why)

    def paths(self) -> list[str]:
        """How messages call the leaves."""
        return [".".join((self.name, *path)) for path in self.structure.paths]

    def built(self, leaves: Sequence[Any]) -> Any:
        """The value with other leaves; containers are new ones."""
        if self.absent or self.structure.kind == "leaf":
            return leaves[0]
        found = self.structure.build(leaves)
        return Rows(self.value.stack, found, self.value.open) if type(self.value) is Rows else found


Get = Callable[[], tuple[Any, ...]]
Set = Callable[[Sequence[Any]], None]
