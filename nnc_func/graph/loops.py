"""`map`, `fold` and `scan`: functions of tensors applied along an axis, of trees too; written out step by step.

Every step is traced, so whatever flows through a stack may flow through them: values, inputs, values that are
differentiated. The extent of the axis is known. What a step carries keeps its structure, shapes and dtypes, which is
checked, so that a program may be written with one body for all steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import known, same_extent
from nnc_func.facets.shapes import normalise_axis
from nnc_func.tree import Structure, flatten

SCALARS = (bool, int, float, complex)


def scan(
    stack: Any, f: Callable[..., Any], init: Any, xs: Any, *, axis: int = 0, reverse: bool = False,
    length: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """What a function carries along an axis, and its outputs side by side.

    Parameters
    ----------
    f
        ``f(carry, x)`` returns the next carry and an output.
    init
        The first carry: a tensor, or a tree of them.
    xs
        A tensor, or a tree of them, of which `x` has a slice each, without the axis. None: `x` is None.
    axis
        Of all tensors in `xs`, and of the outputs.
    reverse
        From the last slice to the first; the outputs stand where their slices stood.
    length
        The number of steps, where `xs` has no tensor.

    Returns
    -------
    The last carry, and the outputs stacked along `axis`: trees as `f` returns them.

    Raises
    ------
    ShapeError
        An extent that is not known, or extents that differ.
    OperatorError
        A carry that changes its structure, a shape or a dtype; no number of steps.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> total, sums = stack.scan(lambda total, x: (total + x, total), stack.asarray(0.0), [1.0, 2.0, 3.0])
    >>> total.numpy(), sums.numpy()
    (array(6.), array([0., 1., 3.]))
    """
    steps, slices = _sliced(stack, xs, axis, length)
    leaves, structure = flatten(init)
    carry, outputs, made = [_tensor(stack, leaf) for leaf in leaves], [], None
    for i in range(steps) if not reverse else reversed(range(steps)):
        found = f(structure.build(carry), slices(i))
        if not isinstance(found, tuple) or len(found) != 2:
            raise OperatorError("a function that is scanned returns a pair: the next carry and an output")
        carry = _carried(stack, found[0], structure, carry)
        listed, made = _alike(found[1], made)
        outputs.append([_tensor(stack, leaf) for leaf in listed])
    if reverse:
        outputs.reverse()
    if made is None:
        return structure.build(carry), _nothing(stack, f, structure.build(carry), xs, axis)
    columns = zip(*outputs, strict=True)
    return structure.build(carry), made.build([_stacked(stack, column, axis) for column in columns])


def fold(
    stack: Any, f: Callable[..., Any], init: Any, xs: Any, *, axis: int = 0, reverse: bool = False
) -> Any:  # fmt: skip
    """What a function carries along an axis: ``f(carry, x)`` returns the next carry; see `scan`.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> stack.fold(lambda value, x: value * 10 + x, stack.asarray(0), [1, 2, 3]).numpy()
    array(123)
    """
    return scan(stack, lambda carry, x: (f(carry, x), None), init, xs, axis=axis, reverse=reverse)[0]


def map_(stack: Any, f: Callable[..., Any], *xs: Any, axis: int = 0) -> Any:
    """The outputs of a function of each slice of tensors, or of trees of them, along an axis, stacked along it.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> stack.map(lambda x, y: x.sum() * y, [[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0]).numpy()
    array([ 3., 70.])
    """
    return scan(stack, lambda _, x: (None, f(*x)), None, xs, axis=axis)[1]


# --- steps --------------------------------------------------------------------------------------------------


def _leaves(tree: Any) -> tuple[list[Any], Structure]:
    """As `flatten`; a list of numbers is a tensor, as it is for operators."""
    return flatten(tree, is_leaf=lambda node: isinstance(node, list) and _is_numbers(node))


def _is_numbers(node: Any) -> bool:
    return isinstance(node, SCALARS) or (isinstance(node, list) and all(map(_is_numbers, node)))


def _tensor(stack: Any, leaf: Any) -> Any:
    return stack.asarray(leaf) if isinstance(leaf, (list, np.ndarray, np.generic, *SCALARS)) else leaf


def _sliced(stack: Any, xs: Any, axis: int, length: int | None) -> tuple[int, Callable[[int], Any]]:
    """The number of steps, and the slice of each."""
    leaves, structure = _leaves(xs)
    tensors = [_tensor(stack, leaf) for leaf in leaves]
    found: list[Any] = [] if length is None else [length]
    for x in tensors:
        found.append(x.shape[normalise_axis(axis, len(x.shape))])
        if not known(found[-1]):
            raise ShapeError(f"steps along an axis of extent {found[-1]}: how many there are must be known")
    if not found:
        raise OperatorError("a scan of no tensor wants length=, the number of steps")
    if not all(same_extent(n, found[0]) for n in found):
        raise ShapeError(f"what goes together step by step has one extent along axis {axis}, given {found}")
    if found[0] < 0:
        raise ShapeError(f"a number of steps is not negative, given length={found[0]}")
    parts = [stack.ops.unstack(x, axis=axis) for x in tensors]
    return found[0], lambda i: structure.build([part[i] for part in parts])


def _carried(stack: Any, carry: Any, structure: Structure, before: list[Any]) -> list[Any]:
    leaves, found = flatten(carry)
    if found != structure:
        raise OperatorError(f"a carry keeps its structure: it was {structure}, and f returns {found}")
    tensors = [_tensor(stack, leaf) for leaf in leaves]
    for was, now in zip(before, tensors, strict=True):
        if len(was.shape) != len(now.shape) or not all(map(same_extent, was.shape, now.shape)):
            raise OperatorError(f"a carry keeps its shape: it was {tuple(was.shape)}, and f returns {tuple(now.shape)}")
        if was.dtype != now.dtype:
            raise OperatorError(f"a carry keeps its dtype: it was {was.dtype}, and f returns {now.dtype}; cast one")
    return tensors


def _alike(output: Any, made: Structure | None) -> tuple[list[Any], Structure]:
    leaves, found = _leaves(output)
    if made is not None and found != made:
        raise OperatorError(f"outputs have one structure: it was {made}, and f returns {found}")
    return leaves, found


def _stacked(stack: Any, column: Any, axis: int) -> Any:
    return stack.ops.stack(*column, axis=axis)


def _nothing(stack: Any, f: Callable[..., Any], carry: Any, xs: Any, axis: int) -> Any:
    """The outputs of no step: their shapes are found with inputs in place of slices."""
    leaves, structure = _leaves(xs)
    inputs = []
    for i, leaf in enumerate(leaves):
        x = _tensor(stack, leaf)
        at = normalise_axis(axis, len(x.shape))
        inputs.append(stack.input(f"slice_{i}", (*x.shape[:at], *x.shape[at + 1 :]), x.dtype))
    listed, made = _leaves(f(carry, structure.build(inputs))[1])
    empty = []
    for leaf in listed:
        y = _tensor(stack, leaf)
        at = normalise_axis(axis, len(y.shape) + 1)
        empty.append(stack.ops.full(shape=(*y.shape[:at], 0, *y.shape[at:]), value=0, dtype=y.dtype))
    return made.build(empty)
