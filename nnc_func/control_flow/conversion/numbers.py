"""Arithmetic of converted code: tensors that stand for numbers of Python take the dtype of what they meet."""

from __future__ import annotations

import operator
from collections.abc import Callable
from numbers import Number
from typing import Any

from nnc_func.control_flow.attempts import noting
from nnc_func.control_flow.conversion.identities import known_identities
from nnc_func.control_flow.conversion.number_kinds import Kind, common_dtype, is_number, kind_of, standing, stands_for
from nnc_func.control_flow.conversion.users import users_line
from nnc_func.errors import ControlFlowError
from nnc_func.graph.tensors.tensor import Tensor

TWO = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "truediv", "FloorDiv": "floordiv", "Mod": "mod", "Pow": "pow",
    "BitAnd": "and", "BitOr": "or", "BitXor": "xor", "LShift": "lshift", "RShift": "rshift",
}  # fmt: skip
"""Operators of two operands, by the names that syntax trees give them."""
ORDER = {"Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge"}
ONE = {"USub": "neg", "UAdd": "pos", "Invert": "invert"}
PLAIN: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, f"__{each}__") for name, each in {**TWO, **ORDER}.items()
}
SIGNS: dict[str, Callable[[Any], Any]] = {name: getattr(operator, f"__{each}__") for name, each in ONE.items()}
IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {name: getattr(operator, f"__i{each}__") for name, each in TWO.items()}
REPEATED = {list, tuple, str}


def computed(name: str, in_place: bool, one: Any, other: Any) -> Any:
    """``one + other``, or another operator of two operands, as Python computes it with numbers.

    Parameters
    ----------
    name
        Of the operator, as syntax trees have it.
    in_place
        Whether it is ``one += other``.

    Raises
    ------
    ControlFlowError
        A list, a tuple or a text is to be repeated as often as a tensor says.
    """
    f = IN_PLACE[name] if in_place else PLAIN[name]
    if name == "Mult" and (type(one) in REPEATED or type(other) in REPEATED):
        _check_repeated(one, other)
    if in_place and (known := known_identities()) is not None and id(one) in known.parted:
        known.check(one, users_line())
    if id(one) not in standing and id(other) not in standing:
        return f(one, other)
    tensors = isinstance(one, Tensor), isinstance(other, Tensor)
    kinds, weak = (kind_of(one), kind_of(other)), (is_number(one), is_number(other))
    if all(weak):
        if kinds == (bool, bool) and name in TWO and not name.startswith("Bit"):
            one, other = map(_whole, (one, other))
        if name == "Pow" and not tensors[1] and other < 0:
            one = one.astype("float64")
        return stands_for(f(one, other), _result(name, *kinds))
    if weak[0] and tensors[0]:
        one = _like(one, other, name)
    elif weak[1] and tensors[1]:
        other = _like(other, one, name)
    return f(one, other)


def signed(name: str, value: Any) -> Any:
    """``-value``, ``+value``, ``~value``."""
    kind = kind_of(value) if isinstance(value, Tensor) else None
    if kind is bool:
        value, kind = _whole(value), int
    return stands_for(SIGNS[name](value), kind)


def unknown(asked: str) -> ControlFlowError:
    """What to raise where somebody asks of what kind a number is that a tensor decides, and that is not known."""
    error = ControlFlowError(
        f"{users_line()} asks {asked} of a number that a tensor decides, which is a tensor here, and what Python would "
        "say is not known: ask before, or make it a tensor from the beginning"
    )
    try:
        with noting():
            raise error
    except ControlFlowError:
        return error


def _result(name: str, one: Any, other: Any) -> Kind:
    """The kind of what Python computes of two numbers."""
    if name in ORDER:
        return bool
    if Number in (one, other) or (name == "Pow" and float not in (one, other)):
        return Number
    if complex in (one, other):
        return complex
    if float in (one, other) or name == "Div":
        return float
    return bool if one is other is bool and name.startswith("Bit") else int


def _like(number: Tensor, other: Any, name: str) -> Tensor:
    """A number as it is beside something else, whose dtype it takes; integers are compared as they are."""
    dtype = getattr(other, "dtype", None)
    if dtype is None or (name in ORDER and number.dtype.kind in "iu" and dtype.kind in "iu"):
        return number
    wanted = common_dtype([dtype], [number])
    return number if number.dtype == wanted else number.astype(wanted)


def _whole(value: Any) -> Any:
    """A truth value as an integer, which Python computes with."""
    return value.astype("int64") if isinstance(value, Tensor) else int(value)


def _check_repeated(one: Any, other: Any) -> None:
    for parts, times in ((one, other), (other, one)):
        repeats = type(parts) in REPEATED and isinstance(times, Tensor)
        if repeats and times.shape == () and times.dtype.kind in "iu":
            with noting():
                raise ControlFlowError(
                    f"{users_line()} repeats a {type(parts).__name__} as often as a tensor says: how many parts are in "
                    "it is not known; make it a tensor, stack.asarray(x), or let a Python number say it"
                )
