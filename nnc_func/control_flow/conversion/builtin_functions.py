"""What Python's builtins do in converted code, where a tensor decides what they are asked."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Number
from typing import Any

import numpy as np

from nnc_func.control_flow.attempts import noting
from nnc_func.control_flow.conversion.identities import known_identities
from nnc_func.control_flow.conversion.number_kinds import (
    common_dtype,
    common_kind,
    is_known,
    is_number,
    kind_of,
    stands_for,
)  # fmt: skip
from nnc_func.control_flow.conversion.numbers import ORDER, computed, unknown
from nnc_func.control_flow.conversion.sources import (
    Source,
    numbered,
    rows_of,
    staged_range,
    symbolic,
    together,
)  # fmt: skip
from nnc_func.control_flow.conversion.staging import truth
from nnc_func.control_flow.conversion.texts import format_of, printed, repr_of, text_of
from nnc_func.control_flow.conversion.users import users_line
from nnc_func.control_flow.conversion.values import Rows
from nnc_func.control_flow.tracing import SCALARS
from nnc_func.errors import ControlFlowError
from nnc_func.graph.tensors.tensor import Tensor

# --- which object, which kind -----------------------------------------------------------------------------------------


def is_one(one: Any, other: Any) -> Any:
    """Whether two are one object: a tensor, where a tensor decides that."""
    known = known_identities()
    if known is None:
        return one is other
    for value, wanted in ((one, other), (other, one)):
        if type(wanted) is bool and isinstance(value, Tensor):
            return _is_truth_value(value, wanted)
    if one is not other and known.may_be_same(one, other):
        with noting():
            raise ControlFlowError(
                f"{users_line()} asks whether two names are one {type(one).__name__}, which a tensor decides: compare "
                "what is in them, or carry a truth value of your own"
            )
    return known.is_same(one, other)


def _is_truth_value(value: Tensor, wanted: bool) -> Any:
    """``value is True``, or False."""
    kind = kind_of(value)
    if kind in (Number, object) or (kind is None and value.dtype == np.bool_ and value.shape == ()):
        raise unknown(f"is {wanted}")
    return kind is bool and (value if wanted else value.stack.ops.logical_not(value))


def is_instance(value: Any, kinds: Any) -> bool:
    """`isinstance`: a number that a tensor decides is of the kind that it has in Python."""
    kind = kind_of(value) if isinstance(value, Tensor) else None
    if kind is None or isinstance(value, kinds):
        return isinstance(value, kinds)
    return bool(_said_of(kind, lambda each: issubclass(each, kinds), f"isinstance(…, {kinds})"))


def kind_asked(*given: Any, **keywords: Any) -> Any:
    """`type`: that of a number that a tensor decides is the one that it has in Python."""
    kind = kind_of(given[0]) if len(given) == 1 and isinstance(given[0], Tensor) else None
    return type(*given, **keywords) if kind is None else _said_of(kind, lambda each: each, "type(…)")


def has_attribute(value: Any, name: str) -> bool:
    """`hasattr`: a number that a tensor decides has what it has in Python."""
    kind = kind_of(value) if isinstance(value, Tensor) else None
    return hasattr(value, name) if kind is None else _said_of(kind, lambda each: hasattr(each, name), "hasattr(…)")


def attribute_of(value: Any, name: str, *default: Any) -> Any:
    """`getattr`, with a default as that of the number that a tensor decides."""
    if default and isinstance(value, Tensor) and not has_attribute(value, name):
        return default[0]
    return getattr(value, name, *default)


def _said_of(kind: Any, asked: Callable[[type], Any], what: str) -> Any:
    """What is said of a kind of number; of one that is not known, what is said of all."""
    found = {*map(asked, SCALARS)} if kind in (Number, object) else {asked(kind)}
    if len(found) > 1:
        raise unknown(what)
    return found.pop()


def is_not(one: Any, other: Any) -> Any:
    """Whether two are not one object."""
    found = is_one(one, other)
    return not found if type(found) is bool else found.stack.ops.logical_not(found)


# --- what loops go over -----------------------------------------------------------------------------------------------


def tensor_among(given: Sequence[Any]) -> Any:
    """The stack of the first tensor or source among some arguments; None: there is none."""
    return next((each.stack for each in given if isinstance(each, (Tensor, Source))), None)


def range_of(*bounds: Any) -> Any:
    """`range`, also of what a tensor, or an extent that is not known, bounds."""
    stack = tensor_among(bounds)
    if stack is not None:
        return staged_range(stack, *bounds)
    return SymbolicRange(bounds) if any(map(symbolic, bounds)) else range(*bounds)


class SymbolicRange:
    """A range of an extent that is not known yet: of which stack is seen from what the loop works on."""

    def __init__(self, bounds: tuple[Any, ...]) -> None:
        self.bounds = bounds


def enumerated(iterable: Any, start: Any = 0) -> Any:
    """`enumerate`."""
    if isinstance(iterable, Tensor):
        iterable = rows_of(iterable)
    return numbered(iterable, start) if isinstance(iterable, Source) else enumerate(iterable, start)


def zipped(*given: Any, **keywords: Any) -> Any:
    """`zip`."""
    stack = tensor_among(given)
    if stack is None:
        return zip(*given, **keywords)  # noqa: B905
    if keywords.get("strict"):
        counts = {len(each) if not isinstance(each, Source) else each.length for each in given}
        if len(counts) > 1 and all(type(each) is int for each in counts):
            raise ValueError(f"zip(strict=True) of what is not equally long: {sorted(counts)}")
    return together(stack, given)


def turned(given: Any) -> Any:
    """`reversed`."""
    if isinstance(given, Tensor):
        given = rows_of(given)
    if not isinstance(given, Source):
        return reversed([*given] if type(given) is Rows else given)
    if given.turned is None:
        raise ControlFlowError("reversed() of zip() or enumerate() of tensors: turn the tensors themselves, x[::-1]")
    return given.turned()


# --- numbers ----------------------------------------------------------------------------------------------------------


def _decided(value: Any) -> bool:
    """Whether something is one number that is not known while it is traced."""
    return isinstance(value, Tensor) and value.shape == () and not is_known(value)


def contained(one: Any, other: Any) -> Any:
    """``one in other``."""
    if type(other) in (list, tuple, set, frozenset, range) and any(map(_decided, (one, *other))):
        return _any(computed("Eq", False, one, each) for each in other)
    return one in other


def not_contained(one: Any, other: Any) -> Any:
    """``one not in other``."""
    found = contained(one, other)
    return stands_for(found.stack.ops.logical_not(found), bool) if isinstance(found, Tensor) else not found


def _any(given: Any) -> Any:
    found: Any = None
    for each in given:
        if _decided(each):
            found = truth(each) if found is None else each.stack.ops.logical_or(found, truth(each))
        elif each:
            return True
    return False if found is None else stands_for(found, bool)


def _all(given: Any) -> Any:
    found: Any = None
    for each in given:
        if _decided(each):
            found = truth(each) if found is None else each.stack.ops.logical_and(found, truth(each))
        elif not each:
            return False
    return True if found is None else stands_for(found, bool)


def _extreme(builtin: Any, before: str, *given: Any, **keywords: Any) -> Any:
    """`max`, `min`: the first one that none is before."""
    parts = given[0] if len(given) == 1 and type(given[0]) in (list, tuple) else given
    if keywords or len(parts) < 2 or not any(map(_decided, parts)):
        return builtin(*given, **keywords)
    best = parts[0]
    for each in parts[1:]:
        better = computed(before, False, each, best)
        if isinstance(better, Tensor):
            best = _chosen(better, each, best)
        elif better:
            best = each
    return best


def _chosen(test: Tensor, one: Any, other: Any) -> Any:
    """The one number or the other."""
    weak = [each for each in (one, other) if is_number(each)]
    dtype = common_dtype([each.dtype for each in (one, other) if not is_number(each)], weak)
    cast = [test.stack.asarray(each).astype(dtype) for each in (one, other)]
    return stands_for(test.stack.ops.where(test, *cast), common_kind(map(kind_of, (one, other))))


def _converted(kind: Any, dtype: str, *given: Any, **keywords: Any) -> Any:
    """`int`, `float`."""
    if len(given) == 1 and not keywords and _decided(given[0]):
        return stands_for(given[0].astype(dtype), kind)
    return kind(*given, **keywords)


def _bool(*given: Any) -> Any:
    return stands_for(truth(given[0]), bool) if given and _decided(given[0]) else bool(*given)


def _absolute(value: Any) -> Any:
    kind = kind_of(value) if isinstance(value, Tensor) else None
    return stands_for(abs(value), None if kind in (bool, complex) else kind)


def _sum(given: Any, /, start: Any = 0) -> Any:
    if type(given) is Tensor:
        return sum(given, start)
    parts = [*given]
    if not any(isinstance(each, Tensor) for each in (start, *parts)):
        return sum(parts, start)
    for each in parts:
        start = computed("Add", False, start, each)
    return start


def _power(*given: Any, **keywords: Any) -> Any:
    return pow(*given, **keywords) if keywords or len(given) != 2 else computed("Pow", False, *given)


def _divided(one: Any, other: Any) -> Any:
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return computed("FloorDiv", False, one, other), computed("Mod", False, one, other)
    return divmod(one, other)


def _rounded(*given: Any, **keywords: Any) -> Any:
    if keywords or len(given) != 1 or not _decided(given[0]):
        return round(*given, **keywords)
    return stands_for(given[0].stack.ops.round(given[0]).astype("int64"), int)


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: partial(computed, name, False) for name in ORDER},
    "Is": is_one,
    "IsNot": is_not,
    "In": contained,
    "NotIn": not_contained,
}
BUILTINS: dict[Any, Any] = {
    range: range_of, enumerate: enumerated, zip: zipped, reversed: turned, isinstance: is_instance, type: kind_asked,
    hasattr: has_attribute, getattr: attribute_of, print: printed, str: text_of, repr: repr_of, format: format_of,
    abs: _absolute, sum: _sum, pow: _power, divmod: _divided, round: _rounded, any: _any, all: _all, bool: _bool,
    max: partial(_extreme, max, "Gt"), min: partial(_extreme, min, "Lt"),
    int: partial(_converted, int, "int64"), float: partial(_converted, float, "float64"),
}  # fmt: skip


def builtin(f: Any) -> Any:
    """What stands for a builtin function or class; else itself."""
    if getattr(f, "__self__", builtins) is builtins and getattr(f, "__module__", "") == "builtins":
        return BUILTINS.get(f, f)
    return f
