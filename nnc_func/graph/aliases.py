"""Aliases as NNC has them: windows on a tensor for reading, and parts of a fresh tensor that are written once.

Both are sugar over operators without effects: reading is `slice`, writing is `assemble`. An alias of an alias counts
from that alias, not from the root as in NNC; what runs is one view of the root all the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.declaration import sizes
from nnc_func.errors import DTypeError, ShapeError
from nnc_func.facets.boxes import Box
from nnc_func.facets.dtypes import as_dtype
from nnc_func.graph.origin import Origin, describe, origin


def alias(stack: Any, x: Any, offsets: Any, shape: Any, strides: Any = None) -> Any:
    """A window on a tensor: `shape` elements from `offsets` on, in steps of `strides` elements along each axis.

    Raises
    ------
    ShapeError
        The window does not lie in the tensor, or is not told in whole numbers.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> window = stack.alias(stack.asarray([0, 1, 2, 3, 4, 5]), (1,), (5,))
    >>> stack.alias(window, (1,), (2,), strides=(2,)).numpy()
    array([2, 4])
    """
    x = stack.asarray(x)
    box = _box(x.shape, offsets, shape, strides, "an alias")
    starts, stops, steps = zip(*box.bounds(), strict=True) if box.starts else ((), (), ())
    return stack.ops.slice(x, starts=starts, stops=stops, steps=steps)


def _box(whole: Any, offsets: Any, shape: Any, strides: Any, what: str) -> Box:
    offsets, shape = _numbers(offsets, f"offsets of {what}"), _numbers(shape, f"extents of {what}")
    strides = (1,) * len(whole) if strides is None else _numbers(strides, f"strides of {what}")
    if not len(offsets) == len(shape) == len(strides) == len(whole):
        given = f"offsets {offsets}, shape {shape}, strides {strides}"
        raise ShapeError(f"{what} of a tensor of shape {whole} wants {len(whole)} numbers each, given {given}")
    box = Box(offsets, shape, strides)
    box.within(whole, f"{what} of shape {shape} at {offsets}")
    return box


def _numbers(given: Any, what: str) -> tuple[Any, ...]:
    try:
        return sizes(given)
    except TypeError:
        raise ShapeError(f"{what} are whole numbers, a tuple with one for each axis, given {given!r}") from None


class Fresh:
    """A tensor that is not there yet: parts are written into it, each element once; `value` is the tensor.

    What is written by nobody is `fill`. A value that has been taken does not change when more is written.

    Attributes
    ----------
    stack, shape, dtype, fill
        Whose tensor it is, its shape and dtype, and what stands where nothing is written.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> target = nnc.eager().fresh((2, 3))
    >>> target.write([[1.0, 2.0]], offsets=(1, 0)).value.numpy()
    array([[0., 0., 0.],
           [1., 2., 0.]], dtype=float32)
    """

    def __init__(self, stack: Any, shape: Any, dtype: Any = "float32", fill: Any = 0) -> None:
        self.stack = stack
        self.shape = _numbers(shape, "the extents of a fresh tensor")
        self.dtype = as_dtype(dtype)
        self.fill = fill
        self._parts: list[tuple[Any, Box, Origin]] = []

    def write(self, part: Any, offsets: Any, strides: Any = None) -> Fresh:
        """Write a part, of the tensor's rank, at an offset and in steps along each axis; returns the target.

        Raises
        ------
        ShapeError
            It does not lie in the tensor, or overlaps what has been written: names both lines.
        DTypeError
            Its dtype is another.
        """
        tensor = part if hasattr(part, "stack") else self.stack.asarray(np.asarray(part, self.dtype))
        if tensor.dtype != self.dtype:
            raise DTypeError(f"a part of {tensor.dtype} is written into a tensor of {self.dtype}; cast it first")
        box = _box(self.shape, offsets, tensor.shape, strides, "a part")
        here = origin()
        for _, other, there in self._parts:
            met = other.common(box)
            if met is not None:
                raise ShapeError(
                    f"element {list(met)} of a fresh tensor of shape {self.shape} is written twice: "
                    f"{describe(there)} wrote shape {other.extents} at {other.starts}, "
                    f"{describe(here)} writes shape {box.extents} at {box.starts}"
                )
        self._parts.append((tensor, box, here))
        return self

    def read(self, offsets: Any, shape: Any, strides: Any = None) -> Any:
        """A window on what has been written so far; see `alias`."""
        return alias(self.stack, self.value, offsets, shape, strides)

    @property
    def value(self) -> Any:
        """The tensor of all that has been written."""
        ops = self.stack.ops
        if not self._parts:
            return ops.full(shape=self.shape, value=self.fill, dtype=self.dtype)
        boxes = [box for _, box, _ in self._parts]
        return ops.assemble(
            *(part for part, _, _ in self._parts),
            shape=self.shape,
            offsets=tuple(b.starts for b in boxes),
            strides=tuple(b.steps for b in boxes),
            fill=self.fill,
        )

    def __repr__(self) -> str:
        return f"<fresh {self.dtype}{list(self.shape)}: {len(self._parts)} parts>"


def fresh(stack: Any, shape: Any, dtype: Any = "float32", fill: Any = 0) -> Fresh:
    """A tensor that is not there yet, to write parts into; see `Fresh`.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.lazy().fresh((2,), "int64", fill=7).value.numpy()
    array([7, 7])
    """
    return Fresh(stack, shape, dtype, fill)
