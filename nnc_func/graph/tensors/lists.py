"""Lists that have tensors among their elements, as tensors: beside each other along new axes; gradients flow.

A list is any sequence, a tuple or a deque say; what has numbers alone, as bytes and ranges do, is made an array of.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from nnc_func.declaration import plain
from nnc_func.device.shared.host import native, numbers
from nnc_func.errors import ShapeError
from nnc_func.facets.dims import DEEPEST
from nnc_func.facets.dtypes import kind_of, scalar, weak
from nnc_func.graph.operator import SCALARS
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.origin import at_users_line
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.op import Op

ROWS = (list, tuple)
PLAIN = (str, bytes, bytearray, memoryview, range, array)
OTHERS = frozenset((np.ndarray, Tensor, float, int, bool, complex))  # which are asked about most


def is_list(value: Any) -> bool:
    """Whether it is a sequence that may have tensors among its elements.

    Examples
    --------
    >>> is_list((1, 2)), is_list(range(2))
    (True, False)
    """
    return _is_list(type(value))


def _is_list(kind: type) -> bool:
    if kind in ROWS or kind in OTHERS:
        return kind in ROWS
    return issubclass(kind, Sequence) and not issubclass(kind, PLAIN)


def have_tensors(rows: Any, depth: int = 0) -> bool:
    """Whether tensors are among the elements of a list, of lists in it, and so on: of `DEEPEST` within another.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> x = nnc.eager().asarray(1.0)
    >>> have_tensors([[x, 2.0]]), have_tensors([[1.0, 2.0]]), have_tensors(x)
    (True, False, False)
    """
    if not is_list(rows):
        return False
    kinds = {*map(type, rows)}
    if Tensor in kinds or depth >= DEEPEST or not any(map(_is_list, kinds)):
        return Tensor in kinds
    return any(map(have_tensors, rows, repeat(depth + 1)))


def converted(stack: Any, value: Any, dtype: Any = None) -> Tensor | None:
    """A tensor of the stack, or a list that has some, as one tensor of a dtype; None of anything else.

    Raises
    ------
    ShapeError
        Rows of a list are of different shapes.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> x = stack.variable("x", 3.0)
    >>> converted(stack, [[x, 1], [x * x, x]]).numpy()
    array([[3., 1.],
           [9., 3.]])
    """
    if is_list(value):
        found = _beside(stack, value) if have_tensors(value) else None
    else:
        found = value if isinstance(value, Tensor) and value.stack == stack else None
    return found if found is None or dtype in (None, found.dtype) else found.astype(dtype)


@at_users_line
def carrier(stack: Any, given: Any) -> Any:
    """What flows through the layers of a stack for what is no tensor: an array for a sequence, which is copied."""
    if type(given) not in ROWS:
        if isinstance(given, np.ndarray):
            return native(given) if kind_of(given.dtype) in "biufc" else numbers(stack.device, given)
        is_data = isinstance(given, (Sequence, int, float, complex)) and not isinstance(given, (str, bytes))
        if hasattr(given, "dtype") or not is_data:
            return given
        if not isinstance(given, Sequence):  # a number of a class of the user's, an enumeration say
            return plain(given)
    found = converted(stack, given)
    if found is not None:
        return found.value
    made = numbers(stack.device, given)
    return made if made.base is None else made.copy()  # of what shows its memory, as a memoryview does


def operands(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands of an operator: the tensors of a list where it takes any number of them and is given the list.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> x = nnc.eager().asarray([1.0, 2.0])
    >>> nnc.eager().ops.concat([x, x]).shape
    (4,)
    """
    spread = len(args) == 1 and op.variadic and len(op.args) == 1 and have_tensors(args[0])
    return tuple(args[0]) if spread else args


def _beside(stack: Any, rows: Any, dtypes: Any = None) -> Any:
    """The elements of a list along a new axis; a number takes the dtype of what has one."""
    dtypes = [*_dtypes(rows, 0)] if dtypes is None else dtypes
    made = [
        _beside(stack, each, dtypes) if is_list(each)
        else np.asarray(scalar(each, weak(each, dtypes))) if type(each) in SCALARS
        else each for each in rows
    ]  # fmt: skip
    return stack.bind(CATALOGUE["stack"], *made, axis=0)


def _dtypes(rows: Any, depth: int) -> Iterator[Any]:
    if depth >= DEEPEST:
        raise ShapeError(f"lists that are tensors are nested at most {DEEPEST} deep")
    for each in rows:
        if is_list(each):
            yield from _dtypes(each, depth + 1)
        elif hasattr(each, "dtype"):
            yield each.dtype
