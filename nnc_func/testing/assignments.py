"""Dtypes that the variables of a pattern may have together: all that its operators take and its conditions let pass."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import lru_cache
from random import Random
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.declaration import REQUIRED, cached_by_bits
from nnc_func.errors import NncError
from nnc_func.facets.dtypes import kind_of, weak
from nnc_func.graph.rules.conditions import Condition
from nnc_func.graph.rules.pattern import (
    Apply,
    Computed,
    Constant,
    Full,
    Nonnegative,
    Param,
    Scalar,
    Tensor,
    parts,
)
from nnc_func.op import Op

DTYPES = (
    "float32", "float64", "float16", "int32", "int64", "int8", "int16", "uint8", "uint16", "uint32", "uint64", "bool",
    "complex64", "complex128",
)  # fmt: skip
TRIED = 200  # combinations of three or more dtypes, where those that are nearly alike do not tell

Assignment = Mapping[Any, np.dtype[Any]]


@frozen
class Known:
    """What is known of a value before there is a graph: its dtype, and its shape once that is drawn."""

    dtype: np.dtype[Any]
    shape: Any = None

    @property
    def aval(self) -> Aval:
        """Both."""
        return Aval(self.shape, self.dtype)


@frozen
class Assignments:
    """Assignments of dtypes to variables.

    Attributes
    ----------
    alike
        For each dtype that most variables can have, those with the fewest others.
    mixed
        All others that were tried.
    """

    alike: tuple[tuple[Assignment, ...], ...]
    mixed: tuple[Assignment, ...]


def dtype_variables(pattern: Any) -> list[Any]:
    """What has a dtype of its own: tensors, constants, and parameters that name a dtype."""
    found: dict[Any, None] = {}
    for part in parts(pattern):
        if isinstance(part, (Tensor, Constant, Nonnegative)):
            found.setdefault(part)
        elif isinstance(part, Apply):
            for name, value in part.params:
                if name == "dtype" and isinstance(value, Param):
                    found.setdefault(value)
    return list(found)


@lru_cache(2048)
def assignments(pattern: Apply, conditions: tuple[Condition, ...] = ()) -> Assignments:
    """All that fit, of those tried: one dtype for all, one for all but one, and of three or more others at random.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> from nnc_func.graph.rules.conditions import of_kinds
    >>> x, y = Tensor("x"), Tensor("y")
    >>> found = assignments(CATALOGUE["equal"](x, y), (of_kinds(x, "b"),))
    >>> {str(each[x]) for each in combinations(found)}, len({str(each[y]) for each in combinations(found)})
    ({'bool'}, 14)
    """
    names, order = dtype_variables(pattern), _inside_out(pattern)
    options = [[np.dtype(d) for d in DTYPES if not isinstance(v, Nonnegative) or d[0] == "f"] for v in names]
    alike: list[tuple[Assignment, ...]] = []
    mixed: list[Assignment] = []
    for d in map(np.dtype, DTYPES):
        equal: list[Assignment] = [dict.fromkeys(names, d)]
        nearly: list[Assignment] = [
            dict(equal[0]) | {v: e} for v, own in zip(names, options, strict=True) for e in own if e != d
        ]
        one = [a for a in equal if _fits(a, order, conditions)]
        others = [a for a in nearly if len(names) > 1 and _fits(a, order, conditions)]
        if not one and not others and len(names) > 2:
            others = _with_two_dtypes(names, d, order, conditions)
        if one or others:
            alike.append(tuple(one or others))
            mixed += others if one else []
    if len(names) > 2 or not alike:
        mixed += [a for a in _others(names, options) if _fits(a, order, conditions)]
    return Assignments(tuple(alike), tuple(mixed))


def _with_two_dtypes(names: list[Any], most: Any, order: list[Apply], conditions: Any) -> list[Assignment]:
    """Those in which a few variables have another dtype, in common: conditions of choices, indices."""
    for size in range(2, len(names)):
        found: list[Assignment] = []
        for some in itertools.combinations(names, size):
            each = ({v: e if v in some else most for v in names} for e in map(np.dtype, DTYPES) if e != most)
            found += [a for a in each if _fits(a, order, conditions)]
        if found:
            return found
    return []


def _others(names: list[Any], options: list[Any]) -> Iterator[Assignment]:
    random = Random(0)
    for _ in range(TRIED):
        yield {v: random.choice(own) for v, own in zip(names, options, strict=True)}


def _inside_out(pattern: Any) -> list[Apply]:
    """Applications, operands first."""
    found: dict[int, Apply] = {}

    def visit(part: Any) -> None:
        if isinstance(part, Apply) and id(part) not in found:
            for each in part.args:
                visit(each)
            found[id(part)] = part

    visit(pattern)
    return list(found.values())


def _fits(given: Assignment, order: list[Apply], conditions: tuple[Condition, ...]) -> bool:
    """Whether each operator takes what it gets, and no condition says that it cannot hold."""
    known: dict[Any, Any] = {}
    for v, d in given.items():
        if isinstance(v, Nonnegative) and kind_of(d) != "f":
            return False
        known[v] = Known(d)
    for part in order:
        found = _dtype_of(part, known)
        if found is False:
            return False
        known[part] = found and Known(found)
    return all(c.narrows is None or c.narrows(known) for c in conditions)


def _dtype_of(part: Apply, known: Mapping[Any, Any]) -> Any:
    """The dtype of an application; None where more than dtypes tell, False where there is none."""
    given: list[Any] = []
    for a in part.args:
        own = known.get(a)
        given.append(own.dtype if own is not None else None)
    beside = [d for d in given if d is not None]
    for i, a in enumerate(part.args):
        if isinstance(a, (Full, Scalar)):
            given[i] = number_dtype(a.value if isinstance(a, Full) else 1, tuple(beside))
    if any(d is None for d in given):
        return None
    items = tuple((name, _parameter(part.op, name, value, known)) for name, value in part.params)
    try:
        return _result(part.op, tuple(given), tuple(n for n, _ in items), *(value for _, value in items))
    except TypeError:  # a parameter is no key
        return None


@lru_cache(1 << 16, typed=True)  # 1 and True are other parameters; 0.0 and -0.0 are of one dtype
def _result(op: Op, given: tuple[Any, ...], names: tuple[str, ...], *values: Any) -> Any:
    try:
        found = op.dtype(*given, **dict(zip(names, values, strict=True)))
    except NncError:
        return False
    except (TypeError, AttributeError, ValueError, KeyError, IndexError):  # it looks at a parameter that is not drawn
        return None
    return found[0] if isinstance(found, tuple) else found


@cached_by_bits(1 << 12)
def number_dtype(value: Any, beside: tuple[Any, ...]) -> np.dtype[Any]:
    """The dtype of a number in a pattern, beside operands of these: theirs, where they can hold it.

    Examples
    --------
    >>> number_dtype(1, (np.dtype("bool"),)), number_dtype(0.5, (np.dtype("int8"),))
    (dtype('bool'), dtype('float64'))
    """
    if type(value) is bool or (beside and all(d.kind == "b" for d in beside) and value in (0, 1)):
        return np.dtype("bool")
    try:
        return weak(value, beside)
    except NncError:
        return np.dtype("float32")


def _parameter(op: Op, name: str, value: Any, known: Mapping[Any, Any]) -> Any:
    if isinstance(value, Param) and name == "dtype":
        return known[value].dtype
    if not isinstance(value, (Param, Scalar, Computed)):
        return value
    return usual_parameters(op).get(name)


@lru_cache(1024)
def usual_parameters(op: Op) -> dict[str, Any]:
    """Parameters that the operator takes, of its samples: where only the kind of a parameter matters."""
    found = {name: value for name, value in op.params.items() if value is not REQUIRED}
    if op.samples.cases:
        return found | dict(op.samples.cases[0][1])
    if op.samples.params is not None:
        shape = (2,) * max(1, op.samples.min_rank)
        found |= op.samples.params((shape,) * max(1, len(op.args)), lambda options: next(iter(options)))
    return found


def combinations(found: Assignments) -> Iterator[Assignment]:
    """All of them, those that are most alike first."""
    return itertools.chain(itertools.chain.from_iterable(found.alike), found.mixed)
