"""Graphs drawn from the left side of a rule: its own shape, with operands of all kinds, and near misses of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from nnc_func.aval import Aval
from nnc_func.declaration import REQUIRED
from nnc_func.errors import NncError
from nnc_func.facets import places, shapes
from nnc_func.graph.leaves import CONSTANT, INPUT
from nnc_func.graph.node import Node, Value
from nnc_func.graph.rules.pattern import (
    Apply,
    Constant,
    Full,
    Nonnegative,
    Param,
    Scalar,
    Shaped,
    Tensor,
    parts,
    variables,
)
from nnc_func.graph.rules.rule import Pass, Rewriter, Rule
from nnc_func.op import Catalogue, Op
from nnc_func.testing.counterexamples import Instance

SIDES = (1, 1, 2, 3, 1, 2, 1, 2, 3, 0)
DTYPES = ("float32", "float32", "float32", "float64", "int32", "int64", "uint8", "bool", "complex64")
NUMBERS = (0.0, 1.0, 2.0, -1.0, 0.5, 0.25, -0.0, 3.0, -0.125, 10.0, 0.1, 0.3, -0.7)
FINITE = (0.0, 1.0, -1.0, 2.0, 3.0, 0.5, -0.0, -2.5, 0.1, 0.7)
ODD = 3  # one in so many graphs has elements where arithmetic ends
FIRST = (len(DTYPES), ODD)  # counts of the first choices: the dtype, and whether elements are odd
ODD_ONES = 7  # of the floating elements where arithmetic ends: `elements_of` has them first
LABELS = ("x", "y", "z", "u", "v", "w")
TRIES = 8  # shapes and parameters that are tried so that an operator gives a wanted shape

Shape = tuple[int, ...]
Wanted = dict[Op, tuple[list[tuple[Op, ...]], ...]]


@st.composite
def instances(draw: Any, family: tuple[Rule | Rewriter | Pass, ...], operator: Any) -> Any:
    """A rule of the family and a graph for it; None where what was drawn does not go together.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from hypothesis import find
    >>> from nnc_func.graph.rules.powers import square_by_product
    >>> _, found = find(instances((square_by_product,), nnc.eager().operator), lambda drawn: drawn is not None)
    >>> found.root.op.name
    'power'
    """
    return made(family, operator, lambda count: draw(st.integers(0, count - 1)))


def made(
    family: tuple[Rule | Rewriter | Pass, ...], operator: Any, choose: Callable[[int], int]
) -> tuple[Rule | Rewriter | Pass, Instance] | None:
    """As `instances`, of a source of whole numbers: ``choose(count)`` is one from zero to below `count`."""
    making = Making(choose, operator)
    rule = making.pick(family)
    try:
        root = making.rooted(rule)
    except (NncError, MisfitError):
        return None
    return (rule, Instance(root.node, making.feeds)) if root.node.args or root.node.op.pure else None


class MisfitError(Exception):
    """No shape or parameter was found that goes with what was drawn before."""


class Making:
    """One graph in the making: a part of the pattern that occurs twice is one node, but for near misses."""

    def __init__(self, choose: Callable[[int], int], operator: Any) -> None:
        self.choose = choose
        self.operator = operator
        self.feeds: dict[Node, Any] = {}
        self.made: dict[int, Value] = {}
        self.params: dict[int, Any] = {}
        self.base: Shape | None = None  # what shapes of operands broadcast to
        self.above: frozenset[int] = frozenset()  # parts whose shape follows from one that has been made
        self.dtype = self.pick(DTYPES)
        self.special = self.chance(ODD)

    def pick(self, options: Any) -> Any:
        """One of a sequence; failures shrink towards the first."""
        listed = tuple(options)
        return listed[self.choose(len(listed))] if len(listed) > 1 else listed[0]

    def chance(self, one_in: int) -> bool:
        """True one time in so many."""
        return self.choose(one_in) == one_in - 1

    def permutation(self, rank: int) -> tuple[int, ...]:
        """The axes in some order; that which they have is the simplest."""
        left = list(range(rank))
        return tuple(left.pop(self.choose(len(left))) for _ in range(rank))

    def rooted(self, rule: Rule | Rewriter | Pass) -> Value:
        """A graph to the root of which the rule may be applied."""
        if isinstance(rule, Rule):
            return self.instance(rule.lhs)
        if rule.samples and not (isinstance(rule, Rewriter) and self.chance(8)):
            return self.instance(_sampled(self.pick(rule.samples)))
        if isinstance(rule, Pass):
            raise MisfitError
        return self.operation(_wanted(rule, self.operator.type.ops))

    # --- from a pattern

    def instance(self, lhs: Apply) -> Value:
        """A graph that the pattern may match."""
        leading, above = _leading(lhs)
        if leading is not None:
            self.base = self.part(leading, None).shape
            self.above = above
        return self.part(lhs, None)

    def part(self, part: Any, hint: Shape | None, dtype: str | None = None) -> Value:
        """The value for a part, of the shape of the hint and of that dtype where that can be."""
        if id(part) in self.made and not self.chance(12):
            return self.made[id(part)]
        if isinstance(part, Tensor):
            found = self.tensor(part.shape if isinstance(part, Shaped) else hint, dtype)
        elif isinstance(part, Constant):
            found = self.constant(hint, dtype)
        elif isinstance(part, Nonnegative):
            drawn = self.tensor(hint, dtype)
            made = self.operator.type.ops[self.pick(("abs", "sqrt", "relu", "exp"))]
            found = drawn if self.chance(8) else self.bound(made, [drawn], {})
        elif isinstance(part, Scalar):
            found = self.number(self.pick(NUMBERS), hint)
        elif isinstance(part, Full):
            near = self.chance(8)
            found = self.number(self.pick((-0.0, 0.0, part.value + 1, -part.value)) if near else part.value, hint)
        else:
            assert isinstance(part, Apply), part
            found = self.application(part, hint)
        self.made[id(part)] = found
        return found

    def application(self, part: Apply, hint: Shape | None) -> Value:
        """The operator on operands made first; those of one that commutes may be exchanged."""
        op = part.op
        hint = None if id(part) in self.above else hint
        hints, given = self.fitting(op, len(part.args), hint)
        forced = _forced(op)
        args = [self.part(a, h, forced.get(i)) for i, (a, h) in enumerate(zip(part.args, hints, strict=True))]
        if len(args) == 2 and op.has("commutative") and self.chance(2):
            args.reverse()
        params = {}
        for name, wanted in part.params:
            if isinstance(wanted, Param):
                near = id(wanted) not in self.params or self.chance(12)
                value = self.params[id(wanted)] = given[name] if near else self.params[id(wanted)]
            else:
                value = wanted
            params[name] = value
        if op.samples.params is not None and any(isinstance(w, Param) for _, w in part.params):
            params = self.refitted(op, tuple(a.shape for a in args), params, part)
        return self.bound(op, args, params)

    def refitted(self, op: Op, given: tuple[Shape, ...], params: dict[str, Any], part: Apply) -> dict[str, Any]:
        """Parameters that go with the operands as they have come out; what the pattern says stays."""
        try:
            op.shape(*given, **dict(op.canonical(params)))
            return params
        except NncError:
            drawn = self.parameters(op, given)
            return {n: drawn[n] if isinstance(w, Param) else params[n] for n, w in part.params}

    def bound(self, op: Op, args: list[Value], params: dict[str, Any]) -> Value:
        """The application; one of several results."""
        found = self.operator.symbol.apply(op, tuple(args), op.canonical(params))
        if isinstance(found, tuple):
            return self.pick(found)  # type: ignore[no-any-return]
        return found  # type: ignore[no-any-return]

    def fitting(self, op: Op, arity: int, hint: Shape | None) -> tuple[list[Any], dict[str, Any]]:
        """Wanted shapes of the operands, and parameters."""
        if op.shape is shapes.broadcast:
            wanted = hint if hint is not None else self.based()
            return [self.shrunk(wanted) if arity > 1 else wanted for _ in range(arity)], self.parameters(op, (wanted,))
        if op.samples.relation == "cases":
            specs, params = self.pick(op.samples.cases)
            every = {n: d for n, d in op.params.items() if d is not REQUIRED} | params
            found = [s[0] if s and isinstance(s[0], tuple) else s for s in specs]
            return (found if len(found) == arity else [None] * arity), every
        for _ in range(TRIES):
            shape = self.pick(_variations(hint)) if hint is not None else self.based()
            params = self.parameters(op, (shape,) * arity)
            if hint is None or _gives(op, (shape,) * arity, params, hint):
                break
        return [shape] * arity, params

    def parameters(self, op: Op, given: tuple[Shape, ...]) -> dict[str, Any]:
        """Parameters that the operator takes with operands of these shapes."""
        every = {n: d for n, d in op.params.items() if d is not REQUIRED}
        if op.name == "permute_dims":
            return {"axes": self.permutation(len(given[0])) if given[0] else None}
        if op.name == "sum" and self.chance(2):
            ones = tuple(i for i, n in enumerate(given[0]) if n == 1)
            return {"axis": self.pick((ones, -1)) if given[0] else None, "keepdims": self.chance(2)}
        if op.name == "cast":
            return {"dtype": np.dtype(self.pick((self.dtype, *DTYPES)))}
        if op.place is places.given:
            return {"place": self.pick((None, *getattr(self.operator.device, "places", ())))}
        if op.name == "full":
            return {"shape": self.based(), "value": self.pick((1, 0, 2)), "dtype": np.dtype(self.dtype)}
        try:
            return every | (op.samples.params(given, self.pick) if op.samples.params else {})
        except (IndexError, ValueError, TypeError) as error:
            raise MisfitError from error

    def based(self) -> Shape:
        """The shape to which operands broadcast: drawn once."""
        if self.base is None:
            self.base = tuple(self.pick(SIDES) for _ in range(self.choose(4)))
        return self.base

    def shrunk(self, shape: Shape) -> Shape:
        """The shape, or one that broadcasts to it."""
        if not self.chance(3):
            return shape
        kept = shape[self.choose(len(shape) + 1) :]
        return tuple(1 if self.chance(3) else n for n in kept)

    # --- leaves

    def tensor(self, hint: Shape | None, wanted: str | None = None) -> Value:
        """An input and its value."""
        shape = self.based() if hint is None else hint
        dtype = np.dtype(self.pick(DTYPES) if self.chance(6) else wanted or self.dtype)
        alike = [n for n in self.feeds if n.aval == Aval(shape, dtype)]
        if alike and self.chance(ODD * 4):
            return self.pick(alike)  # type: ignore[no-any-return]  # two operands may be one
        label = LABELS[len(self.feeds)] if len(self.feeds) < len(LABELS) else f"x{len(self.feeds)}"
        node: Node = self.operator.symbol.input(label, Aval(shape, dtype))
        self.feeds[node] = self.elements(shape, dtype)
        return node

    def elements(self, shape: Shape, dtype: np.dtype[Any]) -> Any:
        """An array: a run of a list of interesting elements; or of small numbers, one of which is odd."""
        size = math.prod(shape)
        odd = self.special and size > 0 and self.chance(2)
        listed = elements_of(dtype, self.special and not odd)
        start = self.choose(ODD_ONES if self.special and not odd and dtype.kind in "fc" else len(listed))
        found = listed[(start + self.choose(4) * np.arange(size)) % len(listed)]
        if odd:
            found[self.choose(size)] = self.pick(elements_of(dtype, True)[: ODD_ONES if dtype.kind in "fc" else None])
        return found.reshape(shape)

    def constant(self, hint: Shape | None, wanted: str | None = None) -> Value:
        """A constant, or a number in its place."""
        if self.chance(4):
            return self.number(self.pick(NUMBERS), hint)
        return self.stored(hint, wanted)

    def stored(self, hint: Shape | None, wanted: str | None = None) -> Value:
        """A constant."""
        feeds, self.feeds = self.feeds, {}
        self.tensor(hint, wanted)
        (made,), self.feeds = self.feeds.values(), feeds
        made = made if self.chance(3) else np.nan_to_num(made)  # what is not finite is not folded
        return self.operator.symbol.constant(made)  # type: ignore[no-any-return]

    def number(self, number: Any, hint: Shape | None) -> Value:
        """A constant with one repeated value, mostly of rank 0 and of the common dtype."""
        shape = () if not self.chance(4) else hint if hint is not None else self.based()
        dtype = np.dtype(self.pick(DTYPES) if self.chance(6) else self.dtype)
        if dtype.kind == "c" and self.chance(2):  # no pattern matches a complex number
            dtype = np.dtype("float32")
        if dtype.kind in "biu" and number != int(number):
            dtype = np.dtype("float32")
        with np.errstate(all="ignore"):
            array = np.full(shape, np.array(number).astype(dtype))
        if self.chance(4) and dtype.kind != "c":
            value = array.flat[0].item() if array.size else 0
            return self.bound(self.operator.type.ops["full"], [], {"shape": shape, "value": value, "dtype": dtype})
        return self.operator.symbol.constant(array)  # type: ignore[no-any-return]

    # --- for rules without a left side

    def operation(self, wanted: Wanted) -> Value:
        """An operator on operands of operators, such as a rule wants to look at."""
        if not wanted:
            raise MisfitError
        op = self.pick(wanted)
        heads = self.pick(self.pick([row for row in wanted[op] if row]))
        hints, params = self.fitting(op, len(heads), None)
        args = [self.headed(head, hint) for head, hint in zip(heads, hints, strict=True)]
        return self.bound(op, args, params)

    def headed(self, head: Op, hint: Shape | None) -> Value:
        """A leaf, or an operator on inputs."""
        if head is INPUT:
            return self.tensor(hint)
        if head is CONSTANT:
            return self.stored(hint)
        if head.name == "full":
            shape = self.based() if hint is None else hint
            dtype = np.dtype(self.dtype if self.dtype not in ("bool", "complex64") else "float32")
            return self.bound(head, [], {"shape": shape, "value": self.pick((1, 0, 2)), "dtype": dtype})
        hints, params = self.fitting(head, len(head.args), hint)
        return self.bound(head, [self.tensor(h) for h in hints], params)


@cache
def elements_of(dtype: np.dtype[Any], special: bool) -> Any:
    """Elements worth trying: small numbers, or those where arithmetic ends."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits, small = np.iinfo(dtype), [0, 1, 2, 3, 5] if dtype.kind == "u" else [0, 1, -1, 2, 3, -2]
        return np.array([*small, limits.max, limits.min] if special else small, dtype)
    listed: list[Any] = list(FINITE)
    if special:
        bounds = [float(getattr(np.finfo(dtype), name)) for name in ("max", "tiny", "smallest_subnormal")]
        listed = [np.nan, np.inf, complex(0, np.inf) if dtype.kind == "c" else -np.inf, -0.0, *bounds, *FINITE]
    return np.array(listed, dtype)


@lru_cache(1024)
def _leading(lhs: Apply) -> tuple[Apply | None, frozenset[int]]:
    """A part whose operands must fit each other, if there is one, and the parts above it."""
    applied = (p for p in parts(lhs) if isinstance(p, Apply) and p.op.samples.relation == "cases")
    leading = next((p for p in applied if p.op.shape is not shapes.broadcast), None)
    above = (id(p) for p in parts(lhs) if p is not leading and any(q is leading for q in parts(p)))
    return leading, frozenset(above)


@cache
def _forced(op: Op) -> dict[int, str]:
    """Arguments that have one dtype in all of the operator's cases: conditions, indices."""
    found: dict[int, set[Any]] = {}
    for specs, _ in op.samples.cases:
        for i, spec in enumerate(specs):
            found.setdefault(i, set()).add(spec[1] if len(spec) > 1 and isinstance(spec[0], tuple) else None)
    return {i: next(iter(kinds)) for i, kinds in found.items() if len(kinds) == 1 and None not in kinds}


def _variations(shape: Shape) -> list[Shape]:
    """Shapes from which an operator that moves elements may make this one."""
    found = [shape, shape[::-1], tuple(n for n in shape if n != 1), (1, *shape), (*shape, 1)]
    if len(shape) > 1:
        found += [(*shape[:-2], shape[-1], shape[-2]), shape[1:], shape[:-1]]
    return found


def _gives(op: Op, given: tuple[Shape, ...], params: dict[str, Any], wanted: Shape) -> bool:
    try:
        return bool(op.shape(*given, **dict(op.canonical(params))) == wanted)
    except NncError:
        return False


@cache
def _sampled(function: Callable[..., Any]) -> Apply:
    found: Apply = function(**variables(function))
    return found


@cache
def _wanted(rule: Rewriter, ops: Catalogue) -> Wanted:
    """Of each operator the operators of operands on which the rule wants to look at it: leaves, and others."""
    found: Wanted = {}
    usable = [op for op in ops.values() if op.pure and not op.several and op.args and not _is_made_of_others(op)]
    for op in usable:
        arity = len(op.args) + op.variadic
        leaves = itertools.product((CONSTANT, ops["full"], INPUT), repeat=arity) if arity < 4 else ()
        above = ((*(INPUT,) * i, inner, *(INPUT,) * (arity - 1 - i)) for inner in usable for i in range(arity))
        rows = tuple([heads for heads in row if rule.wants(op, heads)] for row in (leaves, above))
        if any(rows):
            found[op] = rows
    return found


def _is_made_of_others(op: Op) -> bool:
    """Whether a parameter names operators: nothing is drawn for that."""
    return "steps" in op.params
