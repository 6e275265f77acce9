"""NumPy's own format of arrays, version 1.0, without pickles: headers are matched, and nothing in them is evaluated.

The format is that of NEP 1, as `numpy.lib.format` writes it.
"""

from __future__ import annotations

import io
import math
import re
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.errors import DTypeError, FileFormatError
from nnc_func.facets.dtypes import BFLOAT16, as_dtype, check_held

MAGIC = b"\x93NUMPY\x01\x00"
LONGEST = 4096
"""Bytes of a header: 64 extents of 19 digits take a third of that."""
MOST_AXES = 64
LARGEST = 1 << 62
PAIR = "V2"  # bfloat16, as NumPy writes it: two bytes of which it knows nothing
HEADER = re.compile(
    rb"\{'descr': '(?P<descr>[<>|=]?[A-Za-z?][0-9]{0,3})', 'fortran_order': (?P<columns>True|False),"
    rb" 'shape': \((?P<shape>(?:[0-9]{1,19}, ?)*(?:[0-9]{1,19})?)\),? ?\} *\n"
)


@frozen
class ArrayHeader:
    """What a member says of its array, before any of its elements is read.

    Attributes
    ----------
    start
        Bytes of the member before the first element.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, as an exact integer."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


def array_bytes(array: Any) -> bytes:
    """A host array as a member.

    Examples
    --------
    >>> print(array_header(array_bytes(np.zeros((2, 3), "float32"))))
    float32[2, 3]
    """
    into = io.BytesIO()
    np.lib.format.write_array(into, np.asarray(array, order="C"), allow_pickle=False)
    return into.getvalue()


def array_header(content: bytes) -> ArrayHeader:
    """The header at the beginning of a member: of numbers or booleans, row by row.

    Raises
    ------
    FileFormatError
        There is none, or it is of objects, records, texts or dates, column by column, or of too many axes or elements.
    """
    if content[: len(MAGIC)] != MAGIC or len(content) < len(MAGIC) + 2:
        raise FileFormatError("it is not of NumPy's format, version 1.0")
    start = len(MAGIC) + 2 + int.from_bytes(content[len(MAGIC) : len(MAGIC) + 2], "little")
    found = HEADER.fullmatch(content, len(MAGIC) + 2, start) if start <= min(LONGEST, len(content)) else None
    if found is None:
        raise FileFormatError(f"its header is none of an array of numbers: {content[len(MAGIC) + 2 :][:80]!r}")
    dtype = _dtype(found["descr"].decode())
    if found["columns"] == b"True":
        raise FileFormatError("its elements are there column by column, wanted row by row")
    shape = tuple(int(n) for n in found["shape"].split(b",") if n.strip())
    if len(shape) > MOST_AXES:
        raise FileFormatError(f"it has {len(shape)} axes, more than {MOST_AXES}")
    if math.prod(n or 1 for n in shape) * dtype.itemsize >= LARGEST:
        raise FileFormatError(f"{dtype}{list(shape)} is larger than any array")
    return ArrayHeader(dtype, shape, start)


def _dtype(written: str) -> np.dtype[Any]:
    try:
        found = as_dtype(BFLOAT16) if written.lstrip("|<>=") == PAIR else np.dtype(written)
        check_held(found)
    except DTypeError as error:
        raise FileFormatError(str(error)) from None
    except TypeError:
        raise FileFormatError(f"{written!r} is no dtype") from None
    return found
