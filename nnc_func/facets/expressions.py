"""Extents from text: ``"n"``, ``"2*n"``, ``"(h + 1) // 2"``. Nothing is evaluated but whole numbers and symbols."""

from __future__ import annotations

import re

from nnc_func.errors import ShapeError
from nnc_func.facets.dims import Dim, Extent

TOKEN = re.compile(r"\s*(?:(?P<number>\d+)|(?P<name>[^\W\d]\w*)|(?P<sign>//|[-+*()]))")
DEEPEST = 64  # brackets inside brackets


def parsed(text: str) -> Extent:
    """The extent that an expression of whole numbers and names with ``+ - * //`` and brackets stands for.

    Raises
    ------
    ShapeError
        It is no such expression, or a negative number.

    Examples
    --------
    >>> parsed("n*2 + 1"), parsed("(h+1) // 2"), parsed("3*4")
    (2*n+1, ((h+1) // 2), 12)
    """
    if text.isidentifier():
        return Dim.named(text)
    found = _Reader(text).read()
    if isinstance(found, int) and found < 0:
        raise ShapeError(f"an extent is not negative, given {text!r}")
    return found


class _Reader:
    """The words of one expression, from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words: list[str] = []
        self.at = self.depth = 0
        start, end = 0, len(text.rstrip())
        while start < end:
            found = TOKEN.match(text, start)
            if found is None:
                raise self.error()
            self.words.append(found.group().strip())
            start = found.end()

    def error(self) -> ShapeError:
        return ShapeError(
            f"an extent is a whole number, a name, or an expression of them such as '2*n' or 'n + 1', "
            f"given {self.text!r}; None is one that is unknown"
        )

    def read(self) -> Extent:
        found = self.terms()
        if self.at < len(self.words):
            raise self.error()
        return found

    def take(self, *signs: str) -> str:
        """The next word if it is one of these, else nothing."""
        if self.at < len(self.words) and self.words[self.at] in signs:
            self.at += 1
            return self.words[self.at - 1]
        return ""

    def terms(self) -> Extent:
        found: Extent = -self.factors() if self.take("-") else self.factors()
        while sign := self.take("+", "-"):
            other = self.factors()
            found = found + other if sign == "+" else found - other
        return found

    def factors(self) -> Extent:
        found = self.atom()
        while sign := self.take("*", "//"):
            other = self.atom()
            if sign == "//" and other == 0:
                raise self.error()
            found = found * other if sign == "*" else found // other
        return found

    def atom(self) -> Extent:
        if self.take("("):
            self.depth += 1
            found = self.terms() if self.depth <= DEEPEST else None
            if found is None or not self.take(")"):
                raise self.error()
            self.depth -= 1
            return found
        word = self.words[self.at] if self.at < len(self.words) else ""
        if not word.isdecimal() and not word.isidentifier():
            raise self.error()
        self.at += 1
        return int(word) if word.isdecimal() else Dim.named(word)
