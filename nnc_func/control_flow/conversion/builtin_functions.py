"""What Python's builtins and operators do in converted code, where a tensor decides what they are asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from nnc_func.control_flow.attempts import noting
from nnc_func.control_flow.conversion.identities import known_identities
from nnc_func.control_flow.conversion.numbers import (
    ORDER,
    absolute,
    computed,
    is_instance,
    is_truth_value,
    kind_of,
    text,
)
from nnc_func.control_flow.conversion.sources import (
    Source,
    numbered,
    rows_of,
    staged_range,
    symbolic,
    together,
)  # fmt: skip
from nnc_func.control_flow.conversion.users import users_line
from nnc_func.control_flow.conversion.values import Rows
from nnc_func.errors import ControlFlowError
from nnc_func.graph.tensors.tensor import Tensor


def is_one(one: Any, other: Any) -> Any:
    """Whether two are one object: a tensor, where a tensor decides that."""
    known = known_identities()
    if known is None:
        return one is other
    for value, wanted in ((one, other), (other, one)):
        if type(wanted) is bool and isinstance(value, Tensor):
            return is_truth_value(value, wanted)
    if one is not other and known.may_be_same(one, other):
        with noting():
            raise ControlFlowError(
                f"{users_line()} asks whether two names are one {type(one).__name__}, which a tensor decides: compare "
                "what is in them, or carry a truth value of your own"
            )
    return known.is_same(one, other)


def is_not(one: Any, other: Any) -> Any:
    """Whether two are not one object."""
    found = is_one(one, other)
    return not found if type(found) is bool else found.stack.ops.logical_not(found)


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: partial(computed, name, False) for name in ORDER},
    "Is": is_one,
    "IsNot": is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}


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


BUILTINS: dict[Any, Any] = {
    range: range_of, enumerate: enumerated, zip: zipped, reversed: turned, isinstance: is_instance, type: kind_of,
    str: text,
    abs: absolute,
}  # fmt: skip
