"""Both sides of a rule, computed of its example by the eager stack, and held against what the rule claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import frozen

import nnc_func as nnc
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.rules.pattern import (
    Apply,
    Computed,
    Full,
    Nonnegative,
    Param,
    Scalar,
    apply,
    parts,
)
from nnc_func.graph.rules.rule import EXACT, REASSOCIATION, ROUNDING, SIGNED_ZERO, Numerics, Rule
from tests.testing.corpus.cases import Case

OPS = nnc.eager().ops


@frozen
class Match:
    """What each part of a left side is in an example; used once, as all of it is."""

    values: Mapping[int, Any]

    def __getitem__(self, part: Any) -> Any:
        return self.values[id(part)]

    @staticmethod
    def users(value: Any) -> int:
        """How often a value is used."""
        return 1


def bound(rule: Rule, example: Mapping[str, Any]) -> dict[int, Any]:
    """What each variable stands for, by identity."""
    eager, found = nnc.eager(), {}
    for part in parts(rule.lhs):
        if isinstance(part, (Apply, Full)):
            continue
        value = example[part.name]
        found[id(part)] = value if isinstance(part, (Param, Scalar)) else eager.asarray(value)
        if isinstance(part, Nonnegative):
            assert not np.any(np.asarray(value) < 0), f"{part} is negative"
    return found


def computed(part: Any, values: dict[int, Any]) -> Any:
    """The value of a part."""
    if id(part) in values:
        return values[id(part)]
    if isinstance(part, Computed):
        found = part.function(*[computed(each, values) for each in part.of])
    elif isinstance(part, Apply):
        params = {k: computed(v, values) for k, v in part.params}
        found = getattr(OPS, part.op.name)(*[computed(each, values) for each in part.args], **params)
    else:
        return part.value if isinstance(part, Full) else part
    values[id(part)] = found
    return found


def fires(case: Case) -> bool:
    """Whether every condition holds of the example."""
    values = bound(case.rule, case.example)
    computed(case.rule.lhs, values)
    computed(case.rule.rhs, values)
    return all(condition.holds(Match(values)) for condition in case.rule.conditions)


def agree(case: Case) -> bool:
    """Whether both sides are what the rule claims of the example."""
    values = bound(case.rule, case.example)
    before = computed(case.rule.lhs, values).numpy()
    try:
        after = computed(case.rule.rhs, values).numpy()
    except nnc.errors.NncError:
        return False
    if before.dtype != after.dtype or before.shape != after.shape:
        return False
    return within(case, before, after)


def within(case: Case, before: Any, after: Any) -> bool:
    """Whether arrays of one shape and dtype are as near as the rule's numerics say."""
    level = case.rule.numerics
    if level <= SIGNED_ZERO or before.dtype.kind not in "fc":
        return _same(before, after, level)
    finite = np.isfinite(before)
    if not _same(np.where(finite, 0, before), np.where(np.isfinite(after), 0, after), SIGNED_ZERO):
        return False
    return bool(np.all(_distance(case, before, after)[finite] <= 1))


def _same(before: Any, after: Any, level: Numerics) -> bool:
    kinds = before.dtype.kind
    if not np.array_equal(before, after, equal_nan=kinds in "fc"):
        return False
    known = before == before
    return level > EXACT or kinds != "f" or bool(np.all(np.signbit(before[known]) == np.signbit(after[known])))


def _distance(case: Case, before: Any, after: Any) -> Any:
    """How far `after` is from the truth, by what is allowed.

    The truth is the left side in 64 bits, which suffices for the examples; not for every number: 1 + 1e-38 is 1.
    """
    rule, wide = case.rule, {}
    for name, value in case.example.items():
        narrow = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        assert not narrow or value.dtype.itemsize <= 4, "examples about rounding are of at most 32 bits"
        wide[name] = value.astype("float64") if narrow else value
    values = bound(rule, wide)
    truth = computed(rule.lhs, values).numpy()
    error = np.abs(after.astype("float64") - truth)
    if rule.numerics is ROUNDING:
        allowed = 4 * np.abs(before.astype("float64") - truth) + 4 * np.spacing(np.abs(before)).astype("float64")
    else:
        assert rule.numerics is REASSOCIATION
        terms = computed(_of_magnitudes(rule.lhs), values).numpy()
        count = sum(v.size for v in wide.values() if isinstance(v, np.ndarray))
        allowed = 4 * count * np.finfo(before.dtype).eps * terms
    return error / np.maximum(allowed, np.finfo("float64").tiny)


def _of_magnitudes(lhs: Apply) -> Apply:
    """The last operator of a left side, which adds terms, of their magnitudes: how large what is added is."""
    return Apply(lhs.op, tuple(apply(CATALOGUE["abs"], each) for each in lhs.args), lhs.params)
