"""Texts of numbers that a tensor decides: they may be shown, and nothing else may be done with them."""

from __future__ import annotations

from typing import Any

from nnc_func.control_flow.attempts import noting
from nnc_func.control_flow.conversion.number_kinds import kind_of
from nnc_func.control_flow.conversion.users import users_line
from nnc_func.control_flow.tracing import SCALARS
from nnc_func.errors import ControlFlowError
from nnc_func.graph.tensors.tensor import Tensor


class UnknownText(str):
    """A text with a number in it that is not known while code is traced.

    Examples
    --------
    >>> said = UnknownText("k = Tensor(int64[])")
    >>> print(said, said + "!")
    k = Tensor(int64[]) k = Tensor(int64[])!
    >>> said == "k = 1"
    Traceback (most recent call last):
        ...
    nnc_func.errors.ControlFlowError: code looks into 'k = Tensor(int64[])', a text of a number that a tensor ...
    """

    __slots__ = ()

    def __add__(self, other: str) -> UnknownText:
        return UnknownText(str.__add__(self, other))

    def __radd__(self, other: str) -> UnknownText:
        return UnknownText(str.__add__(other, self))

    def __rmod__(self, other: str) -> UnknownText:
        return UnknownText(str.__mod__(other, (str.__str__(self),)))


def _refusing(name: str) -> Any:
    def refused(self: UnknownText, *given: Any, **keywords: Any) -> Any:
        with noting():
            raise ControlFlowError(
                f"{users_line()} looks into {str.__repr__(self)}, a text of a number that a tensor decides, which is "
                "not known: compare the number, n == 1, or take from a tensor, table[n]"
            )

    refused.__name__ = name
    return refused


SHOWN = {"__add__", "__str__", "__repr__", "__format__", "__new__", "__getnewargs__", "__sizeof__"}
for _name in vars(str):
    if _name not in SHOWN and callable(getattr(str, _name)) and _name not in ("__getattribute__", "__doc__"):
        setattr(UnknownText, _name, _refusing(_name))


def _known(value: Any) -> Any:
    """A number of Python that is known; else what it is."""
    kind = kind_of(value)
    return kind(value.item()) if kind in SCALARS and hasattr(value.value, "__dlpack__") else value


def _text(text: str, *parts: Any) -> str:
    unknown = any(isinstance(each, Tensor) and kind_of(each) is not None for each in parts)
    return UnknownText(text) if unknown or any(type(each) is UnknownText for each in parts) else text


def text_of(*given: Any, **keywords: Any) -> str:
    """`str`."""
    if len(given) != 1 or not isinstance(given[0], (Tensor, UnknownText)):
        return str(*given, **keywords)
    value = _known(given[0])
    return _text(str.__str__(value) if type(value) is UnknownText else str(value), value)


def repr_of(value: Any) -> str:
    """`repr`."""
    value = _known(value) if isinstance(value, Tensor) else value
    return _text(repr(value), value)


def format_of(value: Any, specification: str = "", conversion: int = -1) -> str:
    """`format`, and what stands between braces in a text."""
    if conversion in (ord("r"), ord("a")):
        value = repr_of(value) if conversion == ord("r") else ascii(value)
    elif conversion == ord("s"):
        value = text_of(value)
    value = _known(value) if isinstance(value, Tensor) else value
    return _text(format(value, specification), value)


def joined(*parts: str) -> str:
    """The parts of a text with braces."""
    return _text("".join([str.__str__(each) for each in parts]), *parts)


def formatted(template: str, *given: Any, **keywords: Any) -> str:
    """``template.format(...)``."""
    given = tuple([_known(each) if isinstance(each, Tensor) else each for each in given])
    keywords = {name: _known(each) if isinstance(each, Tensor) else each for name, each in keywords.items()}
    return _text(template.format(*given, **keywords), *given, *keywords.values())
