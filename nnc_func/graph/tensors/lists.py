"""Lists that have tensors among their elements, as tensors: beside each other along new axes; gradients flow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import numpy as np

from nnc_func.device.shared.host import numbers
from nnc_func.facets.dims import DEEPEST
from nnc_func.facets.dtypes import weak
from nnc_func.graph.operator import SCALARS
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.op import Op

ROWS = (list, tuple)


def have_tensors(rows: Any, depth: int = 0) -> bool:
    """Whether tensors are among the elements of a list, of lists in it, and so on: of `DEEPEST` within another.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> x = nnc.eager().asarray(1.0)
    >>> have_tensors([[x, 2.0]]), have_tensors([[1.0, 2.0]]), have_tensors(x)
    (True, False, False)
    """
    if type(rows) not in ROWS:
        return False
    kinds = {*map(type, rows)}
    if Tensor in kinds or depth >= DEEPEST or kinds.isdisjoint(ROWS):
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
    if type(value) in ROWS:
        found = _beside(stack, value) if have_tensors(value) else None
    else:
        found = value if isinstance(value, Tensor) and value.stack == stack else None
    return found if found is None or dtype in (None, found.dtype) else found.astype(dtype)


def carrier(stack: Any, rows: Any) -> Any:
    """What flows through the layers of a stack for a list."""
    found = converted(stack, rows)
    return numbers(stack.device, rows) if found is None else found.value


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
    dtypes = [*_dtypes(rows)] if dtypes is None else dtypes
    made = [
        _beside(stack, each, dtypes) if type(each) in ROWS
        else np.asarray(each, weak(each, dtypes)) if type(each) in SCALARS
        else each for each in rows
    ]  # fmt: skip
    return stack.bind(CATALOGUE["stack"], *made, axis=0)


def _dtypes(rows: Any) -> Iterator[Any]:
    for each in rows:
        if type(each) in ROWS:
            yield from _dtypes(each)
        elif hasattr(each, "dtype"):
            yield each.dtype
