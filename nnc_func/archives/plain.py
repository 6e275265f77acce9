"""Plain data as JSON, within bounds that are looked at before anything is built."""

from __future__ import annotations

import json
import math
import re
import reprlib
from typing import Any

import numpy as np

from nnc_func.errors import FileFormatError

DEEPEST = 64
"""Lists and objects inside each other."""
LARGEST = 1 << 64
LONG = b"0" * 19  # fewer digits are always below `LARGEST`
DIGITS = bytes.maketrans(b"123456789", b"000000000")
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")  # half of a pair is no text that could be written or shown
OTHERS = bytes(sorted({*range(256)} - {*b'[]{},:"'}))
STEPS = bytes.maketrans(b"[{]},:", bytes([1, 1, 255, 255, 0, 0]))  # of depth, as signed bytes
BLOCK = 1 << 16
# What CPython takes for a list, an object and anything else with its place in them, rounded up; a character takes four
# bytes where one of the text does, and is in the text and in a string.
LIST, OBJECT, ITEM = 96, 256, 128


def json_bytes(value: Any) -> bytes:
    """Plain data as a member, without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def json_cost(content: bytes) -> int:
    """Bytes that the values of a JSON text take at most, told from its signs, before it is parsed.

    Raises
    ------
    FileFormatError
        Lists and objects are nested too deeply.

    Examples
    --------
    >>> json_cost(b'[1, 2, {"a": []}]')
    1318
    """
    signs = _outside_strings(content)
    if _depth(signs) > DEEPEST:
        raise FileFormatError(f"more than {DEEPEST} brackets inside each other")
    lists, objects = map(signs.count, (b"[", b"{"))
    items = lists + objects + signs.count(b",") + signs.count(b":")
    return 6 * len(content) + LIST * lists + OBJECT * objects + ITEM * items


def json_value(content: bytes) -> Any:
    """What a JSON text says: numbers are finite and of at most 64 bits, no key of an object is there twice.

    Raises
    ------
    FileFormatError
        It is no JSON, or says more than that; `json_cost` bounds what it takes, and is asked first.

    Examples
    --------
    >>> json_value(b'{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    whole = _whole if LONG in content.translate(DIGITS) else None
    try:
        found = json.loads(
            content.decode(), parse_int=whole, parse_float=_finite, parse_constant=_finite, object_pairs_hook=_object
        )
        if SURROGATE.search(content):
            json_bytes(found)
        return found
    except FileFormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"it is no JSON: {error}") from None


class Fields(dict[str, Any]):
    """An object of a file; what it lacks is said in words.

    Examples
    --------
    >>> Fields({"a": 1})["b"]
    Traceback (most recent call last):
    nnc_func.errors.FileFormatError: 'b' is missing beside 'a'
    """

    def __missing__(self, key: str) -> Any:
        raise FileFormatError(f"{key!r} is missing beside {short([*self])[1:-1]}")


def fields(value: Any) -> Fields:
    """An object.

    Raises
    ------
    FileFormatError
        It is none.
    """
    if type(value) is not dict:
        raise FileFormatError(f"an object is wanted, found {short(value)}")
    return Fields(value)


def rows(value: Any, length: int | None = None) -> list[Any]:
    """A list; of lists of that length, if one is said.

    Raises
    ------
    FileFormatError
        It is none.

    Examples
    --------
    >>> rows([["one", 8], ["two", 16]], 2)
    [['one', 8], ['two', 16]]
    """
    if type(value) is not list or (length is not None and any(type(r) is not list or len(r) != length for r in value)):
        each = "" if length is None else f" of lists of {length}"
        raise FileFormatError(f"a list{each} is wanted, found {short(value)}")
    return value


def short(value: Any) -> str:
    """A value for a message: of any depth, in some sixty characters.

    Examples
    --------
    >>> short(["a" * 100, [[[[]]]]])
    "['aaaaaaaaaaaa...aaaaaaaaaaaaa', [[[[]]]]]"
    """
    return reprlib.repr(value)[:80]


def _outside_strings(content: bytes) -> bytes:
    """The brackets, commas and colons that are in no string."""
    if b"\\" in content:
        content = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    signs = content.translate(None, OTHERS)
    return b"".join(signs.split(b'"')[::2]) if b'"' in signs else signs


def _depth(signs: bytes) -> int:
    """How many brackets are open at once, at most."""
    steps = np.frombuffer(signs.translate(STEPS), np.int8)
    deepest = depth = 0
    for at in range(0, len(steps), BLOCK):
        depths = np.cumsum(steps[at : at + BLOCK], dtype=np.int32)
        deepest = max(deepest, depth + int(depths.max()))
        depth += int(depths[-1])
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise FileFormatError(f"an object has the key {twice!r:.60} twice")
    return found


def _whole(written: str) -> int:
    found = int(written) if len(written) <= 20 else LARGEST
    if not -LARGEST < found < LARGEST:
        raise FileFormatError(f"{written[:30]} is larger than any number in our files")
    return found


def _finite(written: str) -> float:
    found = float(written)
    if not math.isfinite(found):
        raise FileFormatError(f"{written[:30]} is no finite number")
    return found
