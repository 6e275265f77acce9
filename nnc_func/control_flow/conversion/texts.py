"""Texts of numbers that a tensor decides: they may be shown, and nothing else may be done with them."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from nnc_func.control_flow.attempts import noting
from nnc_func.control_flow.conversion.number_kinds import kind_of, known_number
from nnc_func.control_flow.conversion.users import users_line
from nnc_func.errors import ControlFlowError
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.override import Override


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
    nnc_func.errors.ControlFlowError: ...:1 looks into 'k = Tensor(int64[])', a text of a number that a tensor ...
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


_met: ContextVar[list[Tensor] | None] = ContextVar("met", default=None)


def text_of_number(tensor: Tensor, plain: str, is_asked: bool) -> str:
    """The text of a number for which a tensor stands.

    Parameters
    ----------
    plain
        That of the tensor.
    is_asked
        Whether a user's code asks for it by a function of Python, such as ``repr((n, 1))``.

    Raises
    ------
    ControlFlowError
        It is not known.
    """
    number, met = known_number(tensor), _met.get()
    if number is not None or kind_of(tensor) is None:
        return plain if number is None else repr(number)
    if met is not None:
        met.append(tensor)
    elif is_asked:
        with noting():
            raise ControlFlowError(
                f"{users_line()} asks for the text of a number that a tensor decides, which is not known: show it by "
                "itself, print(n) or f'{n}', or make it a tensor from the beginning"
            )
    return plain


def _text(made: Callable[[], str]) -> str:
    """A text that something makes; whether a number is in it that is not known, is seen."""
    met: list[Tensor] = []
    with Override(_met, met):
        found = made()
    return UnknownText(str.__str__(found)) if met or type(found) is UnknownText else found


def _known(value: Any) -> Any:
    """A number of Python that is known; else what it is."""
    number = known_number(value)
    return value if number is None else number


def text_of(*given: Any, **keywords: Any) -> str:
    """`str`."""
    if len(given) == 1 and type(given[0]) is UnknownText:
        return given[0]
    return _text(lambda: str(*given, **keywords))


def repr_of(value: Any) -> str:
    """`repr`."""
    return _text(lambda: repr(value))


def format_of(value: Any, specification: str = "", conversion: int = -1) -> str:
    """`format`, and what stands between braces in a text."""
    if conversion != -1:
        value = {"r": repr_of, "s": text_of, "a": ascii}[chr(conversion)](value)
    if type(value) is UnknownText:
        return UnknownText(format(str.__str__(value), specification))
    return _text(lambda: format(_known(value), specification))


def joined(*parts: str) -> str:
    """The parts of a text with braces."""
    found = "".join([str.__str__(each) for each in parts])
    return UnknownText(found) if any(type(each) is UnknownText for each in parts) else found


def formatted(method: Callable[..., str], *given: Any, **keywords: Any) -> str:
    """``template.format(...)``, `format_map`, `join`."""
    numbers = {name: _known(each) for name, each in keywords.items()}
    return _text(lambda: method(*map(_known, given), **numbers))


def filled(template: str, value: Any) -> str:
    """``template % value``."""
    given = tuple(map(_known, value)) if type(value) is tuple else _known(value)
    return _text(lambda: template % given)


def printed(*given: Any, **keywords: Any) -> None:
    """`print`."""
    print(*(each if type(each) is str else str.__str__(text_of(each)) for each in given), **keywords)
