"""Graphs drawn from the left side of a rule: its own shape, with operands of every class, and near misses of it.

A class is drawn first: dtypes, a rank, how extents go together, what elements there are. Leaves are of that class, and
every application follows from its operands by the operator's own rules. Where an operator refuses, shapes of leaves are
changed until it takes them (`fitting`); conditions that say what they want of dtypes and shapes narrow the draw.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
from attrs import evolve
from hypothesis import strategies as st

from nnc_func.aval import Aval
from nnc_func.errors import NncError
from nnc_func.facets import places, shapes
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.leaves import CONSTANT, INPUT
from nnc_func.graph.node import Node, Value
from nnc_func.graph.rules.conditions import SOUNDNESS, Condition
from nnc_func.graph.rules.pattern import (
    Apply,
    Constant,
    Full,
    Nonnegative,
    Param,
    Scalar,
    Shaped,
    Tensor,
    apply,
    parts,
    variables,
)
from nnc_func.graph.rules.rule import Pass, Rewriter, Rule
from nnc_func.op import Catalogue, Op
from nnc_func.testing.assignments import DTYPES, Known, assignments, number_dtype
from nnc_func.testing.classes import RANKS, RELATIONS, Relation
from nnc_func.testing.counterexamples import Instance
from nnc_func.testing.feeds import Feeds
from nnc_func.testing.fitting import MisfitError, fitted, parameters_for, result_shape, sources
from nnc_func.testing.numbers import REGIMES, SEEDS, Elements, numbers
from nnc_func.testing.parameters import one_of

NUMBERS = (0.0, 1.0, 2.0, -1.0, 0.5, 0.25, -0.0, 3.0, -0.125, 10.0, 0.1, 0.3, -0.7)
WHOLE = (0, 1, 2, -1, 3, 4, -2, 7, 10)  # of integers
LABELS = ("x", "y", "z", "u", "v", "w")
MOST = 3000  # elements of one array
PROPOSALS = 4  # of operands, of which something is made that is to have so many axes

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
    rule = family[choose(len(family))]
    making.classed()
    try:
        root = making.rooted(rule)
    except (NncError, MisfitError):
        return None
    return (rule, Instance(root.node, making.feeds)) if root.node.args or root.node.op.pure else None


class Making:
    """One graph in the making: a part of the pattern that occurs twice is one node.

    Attributes
    ----------
    choose
        What is drawn from.
    feeds
        Inputs, and their values.
    made, params
        What stands for parts of the pattern, and for its parameters.
    mixed, which
        Whether dtypes are those that are less alike, and which of them.
    seed, arrays
        Of the elements, which are not chosen one by one: the same choices with another seed give the same graph on
        other elements. And how many arrays there are.
    """

    def __init__(self, choose: Callable[[int], int], operator: Any) -> None:
        self.choose = choose
        self.operator = operator
        self.feeds = Feeds()
        self.made: dict[Any, Value] = {}
        self.params: dict[Any, Any] = {}
        self.dtypes: Any = {}
        self.conditions: tuple[Condition, ...] = ()
        self.relation = Relation("equal", 0)
        self.elements = Elements()
        self.mixed, self.which = False, 0
        self.seed, self.arrays = 0, 0
        self.most: float = MOST
        self.within: int | None = None  # so many positions there are, where elements are positions
        self.base: Shape | None = None  # what shapes of operands broadcast to

    def pick(self, options: Any) -> Any:
        """One of a sequence; failures shrink towards the first."""
        return one_of(tuple(options), self.choose)

    def chance(self, one_in: int) -> bool:
        """True one time in so many."""
        return self.choose(one_in) == one_in - 1

    def rooted(self, rule: Rule | Rewriter | Pass) -> Value:
        """A graph to the root of which the rule may be applied."""
        if isinstance(rule, Rule) and not (rule.samples and self.choose(2)):
            return self.instance(rule.lhs, _narrowing(rule))
        if rule.samples and not (isinstance(rule, Rewriter) and self.chance(8)):
            return self.instance(_sampled(self.pick(rule.samples)))
        if isinstance(rule, Pass):
            raise MisfitError
        return self.operation(_wanted(rule, self.operator.type.ops))

    # --- from a pattern

    def classed(self) -> None:
        """Choose the class of the graph: the first choices of all, whatever is drawn then."""
        self.mixed, self.which = self.choose(4) == 3, self.choose(1 << 20)
        self.relation = Relation(RELATIONS[self.choose(len(RELATIONS))], RANKS[self.choose(len(RANKS))])
        regime = REGIMES[self.choose(len(REGIMES))]
        self.seed = self.choose(SEEDS)
        self.elements = Elements(regime, self.seed * 37 % 256 / 256 if regime == "near" else 0.0)

    def instance(self, lhs: Apply, conditions: tuple[Condition, ...] = ()) -> Value:
        """A graph of the class that the pattern may match."""
        found = assignments(lhs, conditions)
        groups = (found.mixed,) if self.mixed and found.mixed else found.alike or (found.mixed,)
        if not groups[0]:
            raise MisfitError
        share = self.which / (1 << 20) * len(groups)
        group = groups[int(share)]
        self.dtypes = group[int(share % 1 * len(group))]
        self.elements = evolve(self.elements, points=_points(lhs))
        self.conditions = conditions
        self.most = math.inf if any(isinstance(p, Shaped) for p in parts(lhs)) else MOST
        return self.part(lhs, None)

    def part(self, part: Any, hint: Shape | None, beside: tuple[Any, ...] = ()) -> Value:
        """The value for a part, of the shape of the hint where that can be; a number is of a dtype beside others."""
        if part in self.made:
            return self.made[part]
        if isinstance(part, Shaped):
            found = self.tensor(part.shape, self.dtypes[part])
        elif isinstance(part, Tensor):
            found = self.tensor(self.shape_of(part, hint), self.dtypes[part])
        elif isinstance(part, Constant):
            found = self.constant(self.shape_of(part, hint), self.dtypes[part])
        elif isinstance(part, Nonnegative):
            drawn = self.tensor(self.shape_of(part, hint), self.dtypes[part])
            made = self.operator.type.ops[self.pick(("abs", "sqrt", "relu", "exp"))]
            found = drawn if self.chance(8) else self.bound(made, [drawn], {})
        elif isinstance(part, (Scalar, Full)):
            found = self.scalar(part, hint, beside)
        else:
            assert isinstance(part, Apply), part
            found = self.application(part, hint)
        self.made[part] = found
        return found

    def shape_of(self, part: Any, wanted: Shape | None) -> Shape:
        """The wanted shape, or the common one; another that occurs, where the conditions do not let it be."""
        shape = self.based() if wanted is None else wanted
        if wanted is not None or self._may_be(part, shape):
            return shape
        others = dict.fromkeys(v.shape for v in self.made.values())
        return next((s for s in others if self._may_be(part, s)), shape)

    def _may_be(self, part: Any, shape: Shape) -> bool:
        asked = [c for c in self.conditions if c.narrows is not None]
        if not asked:
            return True
        known = {p: Known(v.dtype, v.shape) for p, v in self.made.items()} | {part: Known(self.dtypes[part], shape)}
        return all(c.narrows is None or c.narrows(known) for c in asked)

    # --- applications

    def application(self, part: Apply, hint: Shape | None) -> Value:
        """The operator on its operands; those of one that commutes may be exchanged."""
        op = part.op
        literal = self.literal(part)
        if op.place is places.given:
            literal = self.placed(literal)
        if not part.args:
            return self.filled(part, literal, hint)
        if op.shape is shapes.broadcast:
            args, params = self.elementwise(part, hint), None
        elif len(part.args) == 1 and not op.variadic:
            args, params = self.moved(part, hint, literal)
        else:
            args, params = self.fitting(part, hint, literal)
        if len(args) == 2 and op.has("commutative") and self.choose(2):
            args.reverse()
        given, literal = [a.shape for a in args], self.literal(part)  # operands may have the same parameters
        params = None if params is None else params | literal
        if params is None or result_shape(op, given, params) is None:
            params = self.parameters(op, given, literal)
        for name in ("value", "fill"):
            if name in params and name not in literal:  # a number of the operand's dtype
                params[name] = _as(params[name], args[0].dtype)
        for name, wanted in part.params:
            if isinstance(wanted, Param):
                self.params[wanted] = params[name]
        return self.bound(op, args, params)

    def literal(self, part: Apply) -> dict[str, Any]:
        """Parameters that the pattern says, and those that have been drawn."""
        known = {v: d for v, d in self.dtypes.items() if isinstance(v, Param)} | self.params
        return {n: known.get(v, v) for n, v in part.params if not isinstance(v, Param) or v in known}

    def filled(self, part: Apply, literal: dict[str, Any], hint: Shape | None) -> Value:
        """An operator without operands; a fill of the wanted shape."""
        params = parameters_for(part.op, [self.based() if hint is None else hint], literal, self.choose)
        if part.op.name == "full" and "value" not in literal:
            params["value"] = _as(params["value"], params["dtype"])
        self.params |= {wanted: params[name] for name, wanted in part.params if isinstance(wanted, Param)}
        return self.bound(part.op, [], params)

    def elementwise(self, part: Apply, hint: Shape | None) -> list[Value]:
        """Operands that broadcast: applications first, then leaves of their shape or less, then numbers."""
        made: dict[int, Value] = {}
        wanted = hint
        for i in sorted(range(len(part.args)), key=lambda i: _turn(part.args[i], self.made)):
            arg = part.args[i]
            if isinstance(arg, (Full, Scalar)):
                made[i] = self.part(arg, wanted, tuple(v.dtype for v in made.values()))
            elif isinstance(arg, Apply) or arg in self.made:
                made[i] = self.part(arg, self.shrunk(wanted) if made and wanted is not None else wanted)
                wanted = self._joined(wanted, made[i].shape)
            else:
                own = self.based() if wanted is None else wanted
                made[i] = self.part(arg, self.shrunk(own) if len(part.args) > 1 else own)
                wanted = own if wanted is None else wanted
        return [made[i] for i in range(len(part.args))]

    def _joined(self, wanted: Shape | None, shape: Shape) -> Shape:
        """What both broadcast to; the second where they do not."""
        if wanted is None:
            return shape
        try:
            return shapes.broadcast(wanted, shape)  # type: ignore[return-value]
        except NncError:
            return shape

    def moved(self, part: Apply, hint: Shape | None, literal: dict[str, Any]) -> tuple[list[Value], Any]:
        """One operand, such that the result has the wanted shape, if that can be."""
        (arg,) = part.args
        if arg in self.made:
            return [self.made[arg]], None
        found = None if hint is None else sources(part.op, hint, literal, self.choose)
        if found is None:
            wanted, params = fitted(part.op, [None], literal, self.based, self._extent, self.choose)
            found = wanted[0], params
        return [self.part(arg, found[0])], found[1]

    def fitting(self, part: Apply, hint: Shape | None, literal: dict[str, Any]) -> tuple[list[Value], dict[str, Any]]:
        """Operands that go together: what is made of others first, then leaves; each is told what fits those made."""
        op, args = part.op, part.args
        made: dict[int, Value] = {}
        for i in sorted(range(len(args)), key=lambda i: _turn(args[i], self.made)):
            own = None
            if args[i] not in self.made:
                known = [made[j].shape if j in made else None for j in range(len(args))]
                wanted, params = self.fitted(op, known, hint, literal)
                own, literal = wanted[i], params if self.choose(4) else literal
                self.within = _positions(op, i, made, literal)
            made[i] = self.part(args[i], own)
            self.within = None
        found = [made[i] for i in range(len(args))]
        return found, fitted(op, [a.shape for a in found], literal, self.based, self._extent, self.choose)[1]

    def fitted(
        self, op: Op, known: list[Shape | None], hint: Shape | None, literal: dict[str, Any]
    ) -> tuple[list[Shape], dict[str, Any]]:
        """Shapes of all operands, and parameters, of which the result has as many axes as the hint, where it can."""
        for _ in range(PROPOSALS):
            wanted, params = fitted(op, known, literal, self.proposed, self._extent, self.choose)
            if hint is None or len(result_shape(op, wanted, params)) == len(hint):
                break
        return wanted, params

    def proposed(self) -> Shape:
        """A shape for one of several operands: the common one, its first axes, another of its rank, or of any rank."""
        kind = self.choose(6)
        if kind == 5:
            return tuple([self._extent() for _ in range(self.choose(5))])
        if kind == 4:
            return self.based()[: self.choose(len(self.based()) + 1)]
        return self.relation.shape(self.choose) if self.relation.broadcasts and kind > 1 else self.based()

    def _extent(self) -> int:
        return self.relation.extent(self.choose)

    def parameters(self, op: Op, given: list[Shape], literal: dict[str, Any]) -> dict[str, Any]:
        """Parameters that the operator takes with operands of these shapes; now and then not those of the pattern."""
        if op.place is places.given:
            return self.placed(literal)
        params = parameters_for(op, given, literal, self.choose)
        if result_shape(op, given, params) is None or self.choose(24) == 23:
            return parameters_for(op, given, {n: v for n, v in literal.items() if n == "dtype"}, self.choose)
        return params

    def placed(self, literal: dict[str, Any]) -> dict[str, Any]:
        """The parameters of a transfer, to any place of the device."""
        return {"place": self.pick((None, *getattr(self.operator.device, "places", ())))} | literal

    def bound(self, op: Op, args: list[Value], params: dict[str, Any]) -> Value:
        """The application; one of several results."""
        found = self.operator.symbol.apply(op, tuple(args), op.canonical(params))
        if any(v.aval.size > self.most for v in (found if isinstance(found, tuple) else (found,))):
            raise MisfitError
        return self.pick(found) if isinstance(found, tuple) else found  # type: ignore[no-any-return]

    def based(self) -> Shape:
        """The shape to which operands broadcast: drawn once."""
        if self.base is None:
            self.base = self.relation.shape(self.choose)
        return self.base

    def shrunk(self, shape: Shape) -> Shape:
        """The shape, or one that broadcasts to it."""
        if not self.chance(2 if self.relation.broadcasts else 10):
            return shape
        kept = shape[self.choose(len(shape) + 1) if self.choose(2) else 0 :]
        return tuple(1 if self.chance(3) else n for n in kept)

    # --- leaves

    def tensor(self, shape: Shape, dtype: np.dtype[Any]) -> Value:
        """An input and its value."""
        if math.prod(shape) > self.most:
            raise MisfitError
        alike = [n for n in self.feeds if n.aval == Aval(shape, dtype)]
        if alike and self.chance(12):
            return self.pick(alike)  # type: ignore[no-any-return]  # two operands may be one
        label = LABELS[len(self.feeds)] if len(self.feeds) < len(LABELS) else f"x{len(self.feeds)}"
        node: Node = self.operator.symbol.input(label, Aval(shape, dtype))
        self.feeds.add(node, self.array(shape, dtype))
        return node

    def array(self, shape: Shape, dtype: np.dtype[Any]) -> Callable[[], Any]:
        """What draws elements, mostly of the graph's regime; small seeds give simple ones."""
        own, how, within = (self.seed * (2 * self.arrays + 1) + self.arrays) % SEEDS, self.elements, self.within
        self.arrays += 1
        if own // 8 % 4 == 3:
            how = Elements(REGIMES[own // 32 % len(REGIMES)], how.focus, how.points)

        def draw() -> Any:
            found = numbers(math.prod(shape), dtype, how, own).reshape(shape)
            if within and dtype.kind in "iu":  # counted from the front, and some of them from the back
                found = found % dtype.type(min(within, np.iinfo(dtype).max))
                found = np.where(found % 3 == 1, found - dtype.type(within), found) if dtype.kind == "i" else found
            return found.astype(dtype)

        return draw

    def constant(self, shape: Shape, dtype: np.dtype[Any]) -> Value:
        """A constant, or a number in its place."""
        if self.chance(4):
            return self.number(self.pick(NUMBERS), shape if self.chance(2) else (), dtype)
        found = self.array(shape, dtype)()
        found = found if self.chance(3) else np.nan_to_num(found)  # what is not finite is not folded
        return self.operator.symbol.constant(found)  # type: ignore[no-any-return]

    def scalar(self, part: Any, hint: Shape | None, beside: tuple[Any, ...]) -> Value:
        """A number that a pattern has, now and then another; mostly of rank 0, and of the dtype of its neighbours."""
        integers = bool(beside) and all(d.kind in "iu" for d in beside)
        value = part.value if isinstance(part, Full) else self.pick(WHOLE if integers and self.choose(4) else NUMBERS)
        if isinstance(part, Full) and self.choose(8) == 7:
            value = self.pick((-0.0, 0.0, part.value + 1, -part.value))
        dtype = number_dtype(value, beside)
        if isinstance(part, Scalar) and self.choose(3) == 2 and dtype.kind in "fiu":
            how = self.elements if self.choose(2) else Elements(self.pick(REGIMES), 0.0, self.elements.points)
            value = numbers(1, dtype, how, self.choose(SEEDS))[0].item()
        if self.choose(6) == 5:
            dtype = np.dtype(self.pick(DTYPES))
        shape: Shape = ()
        if self.chance(4):
            shape = self.based() if hint is None else hint
            shape = (2, *shape) if self.chance(4) else shape  # wider than what it stands beside
        return self.number(value, shape, dtype)

    def number(self, number: Any, shape: Shape, dtype: np.dtype[Any]) -> Value:
        """A constant with one repeated value, or a fill."""
        if dtype.kind == "c" and self.chance(2):  # no pattern matches a complex number
            dtype = np.dtype("float32")
        if dtype.kind in "biu" and (not math.isfinite(number) or number != int(number)):
            dtype = np.dtype("float32")
        with np.errstate(all="ignore"):
            array = np.full(shape, np.array(number).astype(dtype))
        if self.chance(4) and dtype.kind != "c" and kind_of(dtype) in "biuf":
            value = array.flat[0].item() if array.size else 0
            return self.bound(self.operator.type.ops["full"], [], {"shape": shape, "value": value, "dtype": dtype})
        return self.operator.symbol.constant(array)  # type: ignore[no-any-return]

    # --- for rules without a left side

    def operation(self, wanted: Wanted) -> Value:
        """An operator on operands of operators, such as a rule wants to look at."""
        if not wanted:
            raise MisfitError
        op = self.pick(wanted)
        return self.instance(_around(op, self.pick(self.pick([row for row in wanted[op] if row]))))


def _as(number: Any, dtype: Any) -> Any:
    """A number as that dtype holds it."""
    with np.errstate(all="ignore"):
        return np.array(number).astype(dtype).item()


def _positions(op: Op, i: int, made: dict[int, Value], params: dict[str, Any]) -> int | None:
    """How many positions an operand that has positions may name, as the operator's samples have bounds for it."""
    specs = op.samples.cases[0][0] if op.samples.cases else ()
    if i >= len(specs) or len(specs[i]) < 3 or not isinstance(specs[i][0], tuple) or 0 not in made:
        return None
    shape, axis = made[0].shape, params.get("axis", 0)
    return shape[axis] if isinstance(axis, int) and -len(shape) <= axis < len(shape) else None


def _turn(part: Any, made: Any) -> int:
    """In which turn an operand is made: what there is, what is made of others, leaves, numbers."""
    if part in made:
        return 0
    return 3 if isinstance(part, (Full, Scalar)) else 1 if isinstance(part, Apply) else 2


@cache
def _narrowing(rule: Rule) -> tuple[Condition, ...]:
    """Conditions that say what they want before there is a graph."""
    return tuple(c for c in rule.conditions if c.narrows is not None and c.kind == SOUNDNESS and not c.of_result)


@lru_cache(1024)
def _points(lhs: Apply) -> tuple[float, ...]:
    """Numbers of a pattern: there a function may turn."""
    found = [p.value for p in parts(lhs) if isinstance(p, Full)]
    found += [v for p in parts(lhs) if isinstance(p, Apply) for _, v in p.params]
    return tuple(float(v) for v in found if type(v) in (int, float) and math.isfinite(v))


@cache
def _sampled(function: Callable[..., Any]) -> Apply:
    found: Apply = function(**variables(function))
    return found


@cache
def _around(op: Op, heads: tuple[Op, ...]) -> Apply:
    """A pattern of an operator on leaves, or on operators of leaves."""
    return _open(op, tuple(_leaf(head, i) for i, head in enumerate(heads)))


def _leaf(head: Op, i: int) -> Any:
    if head is INPUT:
        return Tensor(f"x{i}")
    if head is CONSTANT:
        return Constant(f"c{i}")
    return _open(head, tuple(Tensor(f"x{i}{j}") for j in range(len(head.args))))


def _open(op: Op, args: tuple[Any, ...]) -> Apply:
    return apply(op, *args, **{name: Param(name) for name in op.params})


@cache
def _wanted(rule: Rewriter, ops: Catalogue) -> Wanted:
    """Of each operator the operators of operands on which the rule wants to look at it: leaves, and others."""
    found: Wanted = {}
    usable = [op for op in ops.values() if op.pure and not op.multi_result and op.args and not op.holds_body]
    for op in usable:
        arity = len(op.args) + op.variadic
        leaves = itertools.product((CONSTANT, ops["full"], INPUT), repeat=arity) if arity < 4 else ()
        above = ((*(INPUT,) * i, inner, *(INPUT,) * (arity - 1 - i)) for inner in usable for i in range(arity))
        rows = tuple([heads for heads in row if rule.wants(op, heads)] for row in (leaves, above))
        if any(rows):
            found[op] = rows
    return found
