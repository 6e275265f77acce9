"""The least dtypes of carries that start as Python numbers: a number is of no dtype until it meets what has one.

Dtypes of a body that is there are computed again, with numbers in place of dtypes, as Python computes numbers. From
numbers alone it begins, and a carry becomes of a dtype where what it becomes is of one: the least fixed point.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from nnc_func.body import Application, Body
from nnc_func.errors import NncError
from nnc_func.facets.dtypes import kind_of, promote, weak

LIKE = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}
"""A Python number of a kind."""
OF_PYTHON = frozenset({
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "negative", "abs", "bitwise_and",
    "bitwise_or", "bitwise_xor", "bitwise_invert", "bitwise_left_shift", "bitwise_right_shift", "less", "less_equal",
    "greater", "greater_equal", "equal", "not_equal",
})  # fmt: skip
"""Operators that are signs in Python, which gives a number of numbers."""
Dtype = Any
"""A dtype; or a Python number, which has none of its own."""


def least_dtypes(
    body: Body, arrays: Collection[Application], start: Mapping[int, Any], dtypes: Sequence[Any],
    carried: Mapping[int, int], after: Mapping[int, Any],
) -> list[Any] | None:  # fmt: skip
    """Dtypes of a body's parameters, the least of those that start as numbers; None where the body does not tell.

    Parameters
    ----------
    body
        Traced on tensors of any dtypes: what was a number beside them is a number in it.
    arrays
        Numbers in it that are arrays of one element: these are of a dtype.
    start
        Parameters that start as Python numbers, and these.
    dtypes
        Of all parameters; those of numbers are not read.
    carried
        Which result of the body each of them is after it; none, where that is a number.
    after
        What each of them is after the function, of numbers: a dtype, or None where that is a number again. Where the
        body says otherwise, the function is not of operators alone, and it does not tell.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE as OPS
    >>> turns = Body.of(3, (OPS["add"], 1, 2), results=(1, 3))  # (a, b) -> (b, b + x)
    >>> narrow = np.dtype("float32")
    >>> least_dtypes(turns, (), {0: 0.0, 1: 0}, [None, None, narrow], {0: 0, 1: 1}, {0: None, 1: narrow})
    [dtype('float32'), dtype('float32'), dtype('float32')]
    """
    found: list[Dtype] = [LIKE[kind_of(np.result_type(start[n]))] if n in start else d for n, d in enumerate(dtypes)]
    strong = {each.key: dict(each.items)["dtype"] for each in arrays}
    fixed = _Fixed(body, strong, carried)
    try:
        first = fixed.results(found)
        if any(_dtype(first[result]) != after[n] for n, result in carried.items()):
            return None
        found = fixed.point(found)
        for n in start:
            if not isinstance(found[n], np.dtype):  # what nobody asks for a dtype has its own
                found[n] = np.result_type(found[n])
        return fixed.point(found)
    except Exception:  # a rule of an operator that refuses such dtypes: a trace tells, and says where
        return None


class _Fixed:
    """What stays as it is after a body."""

    def __init__(self, body: Body, arrays: Mapping[Any, Any], carried: Mapping[int, int]) -> None:
        self.body, self.arrays, self.carried = body, arrays, carried

    def point(self, found: Sequence[Dtype]) -> list[Dtype]:
        """Dtypes and numbers that are as they are after the body, from those given on, which only get stronger."""
        now = [*found]
        for _ in range(1 + 4 * len(self.carried)):  # a number is of one of four kinds, or of a dtype
            results = self.results(now)
            later = [_joint(d, results[self.carried[n]]) if n in self.carried else d for n, d in enumerate(now)]
            if later == now and [*map(type, later)] == [*map(type, now)]:  # 0 is 0.0
                break
            now = later
        return now

    def results(self, given: Sequence[Dtype]) -> list[Dtype]:
        """Those of the body's results."""
        found = [*given]
        for each in self.body.applications:
            made = self._applied(each, [found[i] for i in each.operands])
            found += made if each.op.multi_result else [made]
        return [found[i] for i in self.body.results]

    def _applied(self, each: Application, given: Sequence[Dtype]) -> Any:
        op, params = each.op, each.params
        if op.name == "full" and not params["shape"]:
            return self.arrays.get(each.key, LIKE[kind_of(params["dtype"])])
        strong = [d for d in given if isinstance(d, np.dtype)]
        try:
            result = op.dtypes([d if isinstance(d, np.dtype) else weak(d, strong) for d in given], params)
        except NncError:  # an index is of a dtype of its own
            result = op.dtypes([d if isinstance(d, np.dtype) else np.result_type(d) for d in given], params)
        return result if strong or op.name not in OF_PYTHON else LIKE[kind_of(result)]


def _joint(one: Dtype, other: Dtype) -> Dtype:
    """What holds both."""
    if isinstance(one, np.dtype) and isinstance(other, np.dtype):
        return promote(one, other)
    if isinstance(one, np.dtype) or isinstance(other, np.dtype):
        dtype, number = (one, other) if isinstance(one, np.dtype) else (other, one)
        return weak(number, [dtype])
    return LIKE[kind_of(np.result_type(np.result_type(one), np.result_type(other)))]


def _dtype(each: Dtype) -> Any:
    return each if isinstance(each, np.dtype) else None
