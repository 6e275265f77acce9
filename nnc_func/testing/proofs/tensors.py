"""Tensors in a proof: extents, a dtype, and which element stands at an index.

An element is a small expression: what is read of a leaf, a number, an operator of elements, one of two elements by a
comparison of indices, or an element of a black box, of which only its operands are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import z3
from attrs import frozen

from nnc_func.facets import shapes
from nnc_func.facets.lowering import Expression, IndexMap, broadcast, position
from nnc_func.locks import cached_property
from nnc_func.op import Op
from nnc_func.testing.proofs.extents import shape_of
from nnc_func.testing.proofs.paths import Untranslatable, condition_of, current, term_of, whole

Index = Sequence[Any]
Shape = tuple[Any, ...]


# --- elements --------------------------------------------------------------------------------------------


@frozen(eq=False)
class Read:
    """An element of a leaf, or of a black box: at an index, or, if `index` is None, at a row-major position."""

    of: Any
    index: tuple[Any, ...] | None
    position: Any
    dtype: Any


@frozen(eq=False)
class Number:
    """A number, or one that is not known (a `Symbol`), in a dtype."""

    value: Any
    dtype: Any


@frozen(eq=False)
class Symbol:
    """A number that a rule's variable stands for, of some dtype: it may be a parameter, and is in range there."""

    name: str
    dtype: Any

    def __str__(self) -> str:
        return self.name


@frozen(eq=False)
class Applied:
    """An elementwise operator of elements."""

    op: Op
    params: dict[str, Any]
    args: tuple[Any, ...]
    dtype: Any


@frozen(eq=False)
class Choice:
    """The one element where a comparison of indices holds, else the other."""

    condition: Any
    then: Any
    otherwise: Any
    dtype: Any


Element = Read | Number | Applied | Choice


# --- tensors ---------------------------------------------------------------------------------------------


class Tensor(Protocol):
    """What a part of a rule stands for."""

    shape: Shape
    dtype: Any

    def __call__(self, index: Index) -> Any: ...

    def flat(self, at: Any) -> Any:
        """The element at a row-major position."""
        return self(unravelled(at, self.shape))


@frozen(eq=False)
class Leaf(Tensor):
    """A tensor of which nothing but shape and dtype is known."""

    name: str
    shape: Shape
    dtype: Any
    nonnegative: bool = False

    def __call__(self, index: Index) -> Read:
        return Read(self, tuple(index), None, self.dtype)

    def flat(self, at: Any) -> Read:
        """The element at a row-major position."""
        return Read(self, None, at, self.dtype)


@frozen(eq=False)
class Fill(Tensor):
    """A constant all of whose elements are one number."""

    value: Any
    shape: Shape
    dtype: Any

    def __call__(self, index: Index) -> Number:
        return Number(self.value, self.dtype)

    def flat(self, at: Any) -> Number:
        """The element at a row-major position."""
        return Number(self.value, self.dtype)


@frozen(eq=False)
class Application(Tensor):
    """An operator of tensors."""

    op: Op
    args: tuple[Any, ...]
    params: dict[str, Any]
    shape: Shape
    dtype: Any

    def __call__(self, index: Index) -> Any:
        if is_elementwise(self.op):
            return self._applied([broadcast(ALGEBRA, x, index) for x in self.args])
        if isinstance(self.op.lowering, IndexMap):
            if self.op.lowering.keeps_order:
                current().note_position(position(index, self.shape), tuple(index), self.shape)
            return self.op.lowering.function(ALGEBRA, self.args, self.shape, list(index), **self.params)
        return Read(self, tuple(index), None, self.dtype)

    def flat(self, at: Any) -> Any:
        """The element at a row-major position."""
        lowering = self.op.lowering
        if isinstance(lowering, IndexMap) and lowering.keeps_order:
            source, *_ = self.args
            return source.flat(at)
        if is_elementwise(self.op) and all(_is_same(x.shape, self.shape) for x in self.args):
            return self._applied([x.flat(at) for x in self.args])
        return super().flat(at)

    def _applied(self, args: list[Any]) -> Applied:
        return Applied(self.op, self.params, tuple(args), self.dtype)

    @cached_property
    def is_black_box(self) -> bool:
        """Whether nothing is known of its elements but what it is applied to."""
        return not (is_elementwise(self.op) or isinstance(self.op.lowering, IndexMap))


def is_elementwise(op: Op) -> bool:
    """Whether each element of the result depends on one of each operand, which are broadcast."""
    return isinstance(op.lowering, Expression) or op.shape is shapes.broadcast


def _is_same(one: Shape, other: Shape) -> bool:
    return len(one) == len(other) and all(term_of(m).eq(term_of(n)) for m, n in zip(one, other, strict=True))


# --- applying operators ----------------------------------------------------------------------------------


def applied(op: Op, args: Sequence[Any], params: dict[str, Any]) -> Tensor:
    """The application: its shape and dtype are as the operator's rules say, which are run as they are.

    Raises
    ------
    NncError
        The operator does not take such operands.
    Untranslatable
        It has several results, or a rule of it needs numbers.
    """
    if op.multi_result:
        raise Untranslatable(f"{op.name} has several results")
    known = {name: 0 if isinstance(value, Symbol) else value for name, value in params.items()}
    of = tuple(x.shape for x in args)
    shape = shape_of(op, of, known)
    dtype = op.dtype(*(x.dtype for x in args), **known)
    if op.lowering is not None and "shape" in params and isinstance(op.lowering, IndexMap):
        params = {**params, "shape": shape}  # without -1
    return Application(op, tuple(args), params, shape, dtype)


def unravelled(at: Any, shape: Shape) -> list[Any]:
    """The index of a row-major position: numbers of which it is known that they are in range, and where they lead.

    There is exactly one such index for each position below the number of elements. An index map that reads inside of
    a branch reads where there are elements only if the branch is taken, so that is when it is known.
    """
    paths = current()
    known = _aligned(at, shape)
    if known is not None:
        return known
    taken = list(paths.branches)
    key = tuple(term.get_id() for term in (term_of(at), *map(term_of, shape), *taken))
    found: list[Any] | None = paths.indices.get(key)
    if found is None:
        found = [paths.fresh("k") for _ in shape]
        paths.indices[key] = found
        paths.kept.append((term_of(at), shape, taken))
        inside = [term_of(k) < term_of(n) for k, n in zip(found, shape, strict=True)]
        leads = z3.And(*inside, term_of(position(found, shape)) == term_of(at))
        paths.assume(z3.Implies(z3.And(taken), leads) if taken else leads)
    return found


def _aligned(at: Any, shape: Shape) -> list[Any] | None:
    """The index of a position that comes from an index of a shape which differs in extents of 1 only."""
    paths = current()
    index, other = paths.positions.get(term_of(at).get_id(), (None, ()))
    if index is None:
        return None
    own = [(i, n) for i, n in zip(index, other, strict=True) if not paths.entails(term_of(n) == 1)]
    found: list[Any] = []
    for n in shape:
        if paths.entails(term_of(n) == 1):
            found.append(0)
        elif own and paths.entails(term_of(own[0][1]) == term_of(n)):
            found.append(own.pop(0)[0])
        else:
            return None
    return None if own else found


class _Elements:
    """The algebra of elements: index maps are followed, expressions are left as they are."""

    def number(self, value: Any, dtype: Any) -> Number:
        return Number(value, dtype)

    def cast(self, x: Any, dtype: Any) -> Any:
        return x if x.dtype == dtype else Applied(_cast(), {"dtype": dtype}, (x,), dtype)

    def whole(self, x: Any) -> Any:
        raise Untranslatable("an index depends on elements")

    def either(self, condition: Any, a: Any, b: Any) -> Any:
        if isinstance(condition, bool):
            return a if condition else b
        return whole(z3.If(condition_of(condition), term_of(a), term_of(b)))

    def branch(self, condition: Any, a: Callable[[], Any], b: Callable[[], Any]) -> Any:
        if isinstance(condition, bool):
            return a() if condition else b()
        term, taken = condition_of(condition), current().branches
        taken.append(term)
        then = a()
        taken[-1] = z3.Not(term)
        otherwise = b()
        taken.pop()
        return Choice(term, then, otherwise, then.dtype)


ALGEBRA: Any = _Elements()


def _cast() -> Op:
    from nnc_func.graph.ops import CATALOGUE

    return CATALOGUE["cast"]
