"""Rules of truth: of booleans, comparisons, choices, and the larger and the smaller."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# the parameters of a rule are variables of its pattern: a bare one matches any tensor

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nnc_func.facets.dtypes import kind_of, limits_of
from nnc_func.facets.laws import Law
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.algebra import filled, up_to
from nnc_func.graph.rules.conditions import alike, of_kinds, same_aval, same_shape, that, used_once
from nnc_func.graph.rules.pattern import Param, Scalar, dtype_of, shape_of
from nnc_func.graph.rules.rule import EXACT, OWN, SIGNED_ZERO, Each, for_each, for_law, rewrite, rule
from nnc_func.op import Op

logical_not, logical_and, where, cast = OPS["logical_not"], OPS["logical_and"], OPS["where"], OPS["cast"]
broadcast_to, clip, relu, maximum, minimum = (OPS[n] for n in ("broadcast_to", "clip", "relu", "maximum", "minimum"))

# --- booleans ------------------------------------------------------------------------------------------


@for_law("complements", arity=2, flips=False, at=OWN)
def join_complements(f, law, x):
    """A boolean and its opposite, or bits and theirs, leave one number, whatever they are."""
    value, through = law.value
    applied = f(x, OPS[through](x))
    return rewrite(applied).to(filled(applied, int(value)))


@for_law("dual", arity=2, flips=False, at=OWN)
def move_negation_out(f, law, x, y):
    """Of two negated operands the dual is negated instead (De Morgan; the larger of two negated numbers)."""
    other, through = (OPS[name] for name in law.value)
    first, second = through(x), through(y)
    made = rewrite(f(first, second)).to(through(other(x, y))).when(alike(x, y, kinds=law.kinds))
    return made.when(used_once(first), used_once(second)).up_to(SIGNED_ZERO if law.kinds == "f" else EXACT)


@for_law("opposite", arity=2, flips=False)
def negate_comparison(f, law, x, y):
    """A comparison that is negated is the opposite one, where neither side can be NaN."""
    compared = f(x, y)
    made = rewrite(logical_not(compared)).to(OPS[law.value](x, y))
    return made.when(alike(x, y, kinds=law.kinds), used_once(compared))


def _flipping(op: Op) -> Iterator[tuple[Each, int]]:
    found = {"logical_xor": 1, "equal": 0, "not_equal": 1}
    if op.name in found:
        yield Each(op), found[op.name]


@for_each(_flipping, "flips a boolean, given one of the two", at=OWN)
def flip_boolean(f, value, x):
    """A boolean that is compared with one of the two is itself or its opposite."""
    applied = f(x, value)
    return rewrite(applied).to(logical_not(x)).when(same_aval(x, applied))


def _questions(op: Op) -> Iterator[tuple[Each, None]]:
    if op.name in ("not_equal", "greater"):
        yield Each(op), None


@for_each(_questions, "asks whether a number is not zero", at=OWN)
def read_boolean_back(f, _, x, d: Param):
    """A boolean that was made a number and is asked for its truth is that boolean."""
    asked = f(cast(x, dtype=d), 0)
    return rewrite(asked).to(x).when(same_aval(x, asked))


# --- choices -------------------------------------------------------------------------------------------


@rule
def drop_choice(c, x):
    """A choice between equals is dropped."""
    chosen = where(c, x, x)
    return rewrite(chosen).to(x).when(same_aval(x, chosen))


def _like(x: Any, chosen: Any) -> Any:
    return broadcast_to(cast(x, dtype=dtype_of(chosen)), shape=shape_of(chosen))


@rule
def choose_first(x, y):
    """A choice that is known to be the first is that."""
    chosen = where(True, x, y)
    return rewrite(chosen).to(_like(x, chosen))


@rule
def choose_second(x, y):
    """A choice that is known to be the second is that."""
    chosen = where(False, x, y)
    return rewrite(chosen).to(_like(y, chosen))


@rule
def exchange_choices(c, x, y):
    """A choice by a negated condition is the other way round."""
    return rewrite(where(logical_not(c), x, y)).to(where(c, y, x))


@rule
def read_condition(c):
    """A choice between one and zero is the condition, as a number."""
    chosen = where(c, 1, 0)
    return rewrite(chosen).to(cast(c, dtype=dtype_of(chosen))).when(same_shape(c, chosen))


@rule
def drop_choice_made_before(c, x, y, z):
    """In what was chosen by a condition, a choice by the same condition is made already."""
    chosen = where(c, where(c, x, y), z)
    return rewrite(chosen).to(where(c, x, z)).when(same_aval(x, chosen))


@rule
def drop_choice_made_otherwise(c, x, y, z):
    """In what was not chosen by a condition, a choice by the same condition is made already."""
    chosen = where(c, x, where(c, y, z))
    return rewrite(chosen).to(where(c, x, z)).when(same_aval(z, chosen))


@rule
def join_conditions(c, d, x, y):
    """A choice inside of a choice, with one alternative, is made by both conditions at once."""
    inner = where(d, x, y)
    return rewrite(where(c, inner, y)).to(where(logical_and(c, d), x, y)).when(used_once(inner))


# --- bounds --------------------------------------------------------------------------------------------


@rule
def clip_from_below(x, s: Scalar, h: Param):
    """A lower bound that is put under what is bounded above is a clip from both sides."""
    inner = maximum(x, s)
    bounded = clip(inner, min=None, max=h)
    made = rewrite(bounded).to(clip(x, min=s, max=h)).when(same_aval(x, bounded), used_once(inner))
    return made.up_to(SIGNED_ZERO)


@rule
def clip_between(x, a: Scalar, b: Scalar):
    """The smaller of an upper bound and the larger of a lower bound is a clip."""
    inner = maximum(x, a)
    bounded = minimum(inner, b)
    made = rewrite(bounded).to(clip(x, min=a, max=b))
    made = made.when(same_aval(x, bounded), used_once(inner))
    return made.up_to(SIGNED_ZERO)


@rule
def clip_rectified(x, s: Scalar):
    """An upper bound of what is rectified is a clip."""
    inner = relu(x)
    bounded = minimum(inner, s)
    made = rewrite(bounded).to(clip(x, min=0, max=s)).when(same_aval(x, bounded), used_once(inner))
    return made.up_to(SIGNED_ZERO)


@rule
def clip_rectified_above(x, h: Param):
    """A clip from above of what is rectified is a clip from both sides."""
    inner = relu(x)
    bounded = clip(inner, min=None, max=h)
    return rewrite(bounded).to(clip(x, min=0, max=h)).when(used_once(inner)).up_to(SIGNED_ZERO)


@rule
def rectify_by_maximum(x):
    """The larger of a number and zero is what relu computes, faster."""
    bounded = maximum(x, 0)
    return rewrite(bounded).to(relu(x)).when(same_aval(x, bounded)).up_to(SIGNED_ZERO)


def _shrinks(s: Any, x: Any) -> bool:
    return kind_of(x.dtype) == "f" and bool(limits_of(x.dtype).smallest_normal <= s <= 1)


@rule
def choose_larger_of_leaky(x, s: Scalar):
    """Of a number where it is positive, and a part of it elsewhere, the larger is chosen: without a mask."""
    part = x * s
    chosen = where(x > 0, x, part)
    shrinks = that(_shrinks, s, x, says=f"{s} shrinks {x}, and does not vanish")
    return rewrite(chosen).to(maximum(x, part)).when(shrinks, same_aval(x, chosen))


# --- after the largest ---------------------------------------------------------------------------------


def _increasing(op: Op) -> Iterator[tuple[Each, tuple[Op, Law]]]:
    law = op.has("increasing")
    if law is not None:
        yield from ((Each(op), (OPS[name], law)) for name in ("max", "min"))


@for_each(_increasing, "is increasing", at=(OPS["max"], OPS["min"]))
def apply_after_extremum(f, given, x, a: Param, k: Param):
    """The largest of the results of an increasing function is that of the largest, of which there are fewer."""
    extremum, law = given
    applied = f(x)
    found = extremum(applied, axis=a, keepdims=k)
    fewer = that(lambda x, y: x.aval.size != y.aval.size, applied, found, says="there are fewer", kind="profit")
    made = rewrite(found).to(f(extremum(x, axis=a, keepdims=k))).when(of_kinds(x, law.kinds), used_once(applied), fewer)
    return made.up_to(max(SIGNED_ZERO, up_to(law)))
