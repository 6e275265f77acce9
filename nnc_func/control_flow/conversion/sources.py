"""What a loop of operators goes over: rows of tensors, and numbers whose bound is a tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
from attrs import frozen

from nnc_func.control_flow.conversion.number_kinds import common_kind, stands_for
from nnc_func.control_flow.tracing import SCALARS
from nnc_func.errors import ControlFlowError, DTypeError
from nnc_func.facets.dims import known, same_extent
from nnc_func.graph.tensors.tensor import Tensor


@frozen(eq=False)
class Source:
    """What a loop of operators goes over.

    Attributes
    ----------
    stack
        Whose tensors they are.
    slices
        Tensors, of which each time has a row.
    item
        Makes of the number of the time, and of rows, what the variable of the loop has.
    length
        How many times at most; None where only `count` says so.
    count
        A tensor that says how many; or None.
    turned
        Makes the source that goes the other way; or None.
    """

    stack: Any
    slices: tuple[Any, ...]
    item: Callable[[Any, Sequence[Any]], Any]
    length: Any = None
    count: Any = None
    turned: Callable[[], Source] | None = None

    def __iter__(self) -> Iterator[Any]:
        """What it goes over one by one, in an expression: no loop of operators.

        Raises
        ------
        ControlFlowError
            How many there are is a matter of a tensor.
        """
        if self.count is not None or not known(self.length):
            raise ControlFlowError(
                "an expression goes over as many as a tensor, or an extent that is not known, says: write a loop, for"
            )
        for n in range(self.length):
            yield self.item(n, [each[n] for each in self.slices])


def symbolic(given: Any) -> bool:
    """Whether it is an extent that is not known yet."""
    return bool(getattr(given, "is_symbolic", False))


def rows_of(tensor: Tensor) -> Source:
    """The rows of a tensor."""
    if not tensor.shape:
        raise TypeError("a tensor of rank 0 has no elements to go through; x.item() is its number")
    return Source(
        tensor.stack, (tensor,), lambda _, rows: rows[0], tensor.shape[0], None, lambda: rows_of(tensor[::-1])
    )


def staged_range(stack: Any, *bounds: Any) -> Source:
    """The numbers of a range, of whose bounds one is a tensor or an unknown extent."""
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    for each in (start, stop, step):
        if isinstance(each, Tensor) and (each.shape != () or each.dtype.kind not in "iu"):
            raise DTypeError(f"range wants integers, or tensors of one, given {each.dtype}{list(each.shape)}")
        if not isinstance(each, (int, np.integer, Tensor)) and not symbolic(each):
            raise DTypeError(f"range wants integers, or tensors of one, given {each!r}")
    if symbolic(start) or symbolic(step) or (symbolic(stop) and (isinstance(start, Tensor) or (start, step) != (0, 1))):
        raise ControlFlowError(f"range of an extent that is not known begins at 0, step by step, given range{bounds}")
    if symbolic(stop):
        return Source(stack, (), lambda k, _: k, stop)
    ops = stack.ops
    start, stop, step = (_int64(stack, each) for each in (start, stop, step))
    if type(step) is int and step == 0:
        raise ValueError("range() arg 3 must not be zero")
    if all(type(each) is int for each in (start, stop, step)):
        length, count = len(range(start, stop, step)), cast("Any", None)
    else:
        distance = ops.subtract(stop, start) if isinstance(stop, Tensor) or isinstance(start, Tensor) else stop - start
        if type(step) is int:
            ahead = distance if step > 0 else -distance
            count = ops.floor_divide(ahead + (abs(step) - 1), abs(step)) if abs(step) != 1 else ahead
        else:
            count = -ops.floor_divide(-(distance + 0 * step), step)
        length, count = None, ops.maximum(count, 0)

    def turned() -> Source:
        times: Any = length if count is None else count
        return staged_range_of(stack, start + (times - 1) * step, -step, length, count, lambda: made)

    made = staged_range_of(stack, start, step, length, count, turned)
    return made


def staged_range_of(stack: Any, start: Any, step: Any, length: Any, count: Any, turned: Any) -> Source:
    """So many numbers, each by a step from the one before."""

    def item(k: Any, _: Any) -> Any:
        found = k if type(step) is int and step == 1 else k * step
        found = found if type(start) is int and start == 0 else found + start
        return stands_for(found, int)

    return Source(stack, (), item, length, count, turned)


def _int64(stack: Any, value: Any) -> Any:
    if not isinstance(value, Tensor):
        return int(value)
    return value if value.dtype == np.int64 else value.astype("int64")


def numbered(source: Source, start: Any = 0) -> Source:
    """As `enumerate`."""

    def item(k: Any, rows: Sequence[Any]) -> Any:
        return stands_for(k + start if type(start) is not int or start else k, int), source.item(k, rows)

    return Source(source.stack, source.slices, item, source.length, source.count)


def together(stack: Any, given: Sequence[Any]) -> Source:
    """As `zip`: it ends with the shortest."""
    sources = [each if isinstance(each, Source) else source_of(stack, each) for each in given]
    lengths = [each.length for each in sources if each.length is not None]
    if lengths and all(map(known, lengths)):
        length: Any = min(lengths)
    elif lengths and all(same_extent(lengths[0], each) for each in lengths):
        length = lengths[0]
    elif lengths:
        raise ControlFlowError(f"zip of tensors whose first extents are {lengths}: which is the shortest is not known")
    else:
        length = None
    counts = [each.count for each in sources if each.count is not None]
    count = counts[0] if counts else None
    for each in counts[1:]:
        count = stack.ops.minimum(count, each)
    parts, slices = [], list[Any]()
    for each in sources:
        parts.append((each, len(slices), len(slices) + len(each.slices)))
        slices += [t if not known(length) or t.shape[0] == length else t[:length] for t in each.slices]

    def item(k: Any, rows: Sequence[Any]) -> Any:
        return tuple([each.item(k, rows[first:last]) for each, first, last in parts])

    return Source(stack, tuple(slices), item, length, count)


def _numbers(stack: Any, given: Sequence[Any]) -> Source:
    """Numbers of a list."""
    kind, rows = common_kind(map(type, given)), (stack.asarray([*given]),)

    def item(_: Any, rows: Sequence[Any]) -> Any:
        return stands_for(rows[0], kind)

    return Source(stack, rows, item, len(given), None, lambda: _numbers(stack, given[::-1]))


def source_of(stack: Any, given: Any) -> Source:
    """That of a tensor, an array, a range, or a list of numbers."""
    if isinstance(given, Tensor):
        return rows_of(given)
    if type(given) is range:
        return staged_range(stack, given.start, given.stop, given.step)
    if isinstance(given, np.ndarray):
        return rows_of(stack.asarray(given))
    if isinstance(given, (list, tuple)) and given and all(type(each) in SCALARS for each in given):
        return _numbers(stack, given)
    raise ControlFlowError(
        f"what goes together with a tensor in zip is a tensor, an array, a range, or a list of numbers, given a "
        f"{type(given).__name__}: stack it to a tensor"
    )
