"""Numbers that a tensor decides: they are tensors, and arithmetic with them is that of Python's numbers.

A number of Python takes the dtype of what it meets, and has a kind that code may ask for. Both are known of a tensor
that stands for one: counters of loops, numbers of which a tensor decides which one it is, what is computed of these.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from numbers import Number
from typing import Any

import numpy as np

from nnc_func.control_flow.attempts import noting
from nnc_func.control_flow.conversion.identities import known_identities
from nnc_func.control_flow.conversion.users import users_line
from nnc_func.control_flow.tracing import SCALARS
from nnc_func.errors import ControlFlowError
from nnc_func.graph.tensors.tensor import Tensor

Kind = type
"""`bool`, `int`, `float`, `complex`; `Number`: one of these; `object`: a number, or none."""
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
LIKE = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}


def common_kind(kinds: Iterable[Kind | None]) -> Kind | None:
    """The kind of what is of one of some kinds; None: no number.

    Examples
    --------
    >>> common_kind([int, int]), common_kind([int, float]), common_kind([int, None]), common_kind([None])
    (<class 'int'>, <class 'numbers.Number'>, <class 'object'>, None)
    """
    found = {*kinds}
    if len(found) == 1:
        return found.pop()
    return object if found & {None, object} else Number


def common_dtype(dtypes: Iterable[Any], numbers: Iterable[Any]) -> Any:
    """The dtype of some dtypes and numbers together: beside another dtype a number has none of its own."""
    dtypes, numbers = [*dtypes], [*numbers]
    if not dtypes:
        return np.result_type(*(each.dtype if isinstance(each, Tensor) else each for each in numbers))
    return np.result_type(*dtypes, *(LIKE[n.dtype.kind] if isinstance(n, Tensor) else n for n in numbers))


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
    known = known_identities()
    if known is None or not known.numbers:
        return f(one, other)
    tensors = isinstance(one, Tensor), isinstance(other, Tensor)
    if tensors == (False, False):
        return f(one, other)
    kinds = known.number(one), known.number(other)
    weak = [kind not in (None, object) for kind in kinds]
    if all(weak):
        if kinds == (bool, bool) and name in TWO and not name.startswith("Bit"):
            one, other = map(_whole, (one, other))
        return known.stands_for(f(one, other), _result(name, *kinds))
    if weak[0] and tensors[0]:
        one = _like(one, other)
    elif weak[1] and tensors[1]:
        other = _like(other, one)
    return f(one, other)


def signed(name: str, value: Any) -> Any:
    """``-value``, ``+value``, ``~value``."""
    f = SIGNS[name]
    known = known_identities() if isinstance(value, Tensor) else None
    kind = known.number(value) if known is not None else None
    if known is None or kind is None:
        return f(value)
    if kind is bool:
        value, kind = _whole(value), int
    return known.stands_for(f(value), kind)


def absolute(value: Any) -> Any:
    """`abs`."""
    known = known_identities() if isinstance(value, Tensor) else None
    kind = known.number(value) if known is not None else None
    if known is None or kind in (None, bool, complex):
        return abs(value)
    return known.stands_for(abs(value), kind)


def is_instance(value: Any, kinds: Any) -> bool:
    """Whether something is of a kind; a number that a tensor decides is of the kind that it has in Python.

    Raises
    ------
    ControlFlowError
        That is not known.
    """
    known = known_identities()
    kind = known.number(value) if known is not None and isinstance(value, Tensor) else None
    if kind in (Number, object) and len({issubclass(each, kinds) for each in SCALARS}) == 2:
        raise unknown(f"isinstance(…, {kinds})")
    return isinstance(value, kinds) or (kind is not None and issubclass(kind, kinds))


def kind_of(*given: Any, **keywords: Any) -> Any:
    """`type`: that of a number that a tensor decides is the one that it has in Python.

    Raises
    ------
    ControlFlowError
        That is not known.
    """
    known = known_identities()
    kind = known.number(given[0]) if known is not None and len(given) == 1 else None
    if kind in (Number, object):
        raise unknown("type(…)")
    return type(*given, **keywords) if kind is None else kind


def text(*given: Any, **keywords: Any) -> str:
    """`str`.

    Raises
    ------
    ControlFlowError
        It is that of a number that a tensor decides, which is not known.
    """
    known = known_identities()
    if known is not None and len(given) == 1 and isinstance(given[0], Tensor) and known.number(given[0]) is not None:
        raise unknown("str(…)")
    return str(*given, **keywords)


def is_truth_value(value: Tensor, wanted: bool) -> Any:
    """``value is True``, or False.

    Raises
    ------
    ControlFlowError
        It is no truth value of Python, or that is not known.
    """
    known = known_identities()
    kind = known.number(value) if known is not None else None
    if kind in (Number, object) or (kind is None and value.dtype == np.bool_ and value.shape == ()):
        raise unknown(f"is {wanted}")
    return kind is bool and (value if wanted else value.stack.ops.logical_not(value))


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


def _like(number: Tensor, other: Any) -> Tensor:
    """A number as it is beside something else, whose dtype it takes."""
    dtype = getattr(other, "dtype", None)
    wanted = number.dtype if dtype is None else common_dtype([dtype], [number])
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
