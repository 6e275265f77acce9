"""Python's keys, of whatever NumPy takes between brackets, as what `index` and `index_update` take.

Boolean tensors are positions of their true elements, so their number must be known when one indexes: of a tensor that
has a value it is computed at once, on every stack; of one without, an `ExtentError` says what to do instead.
"""

from __future__ import annotations

from typing import Any

from nnc_func.errors import DTypeError, ShapeError
from nnc_func.facets.dtypes import weak
from nnc_func.graph.composites.entries import BASIC, is_tensor, separated, shows_nothing
from nnc_func.graph.composites.indexing import chosen, index, index_update, taking
from nnc_func.graph.tensors.namespace import Ops

SCALARS = (bool, int, float, complex)


def indexed(o: Ops[Any], x: Any, key: Any) -> Any:
    """``x[key]`` as NumPy has it.

    Parameters
    ----------
    o
        The operators of the layer in which `x` lives.
    key
        A whole number, a slice, None, ``...``, a boolean or integer tensor, array or list, or a tuple of them.

    Raises
    ------
    ShapeError
        Too many indices, a number or an array of the host out of range, a mask that does not fit.
    DTypeError
        An array of other than integers or booleans.
    ExtentError
        A boolean tensor without a value: how many elements there are is not known.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> x = stack.asarray(np.arange(6.0).reshape(2, 3))
    >>> indexed(Ops(stack.bind, stack.type.ops).functions, x, (slice(None), [2, 0])).numpy()
    array([[2., 0.],
           [5., 3.]])
    """
    entries = key if isinstance(key, tuple) else (key,)
    arrays: list[Any] = []
    if not all(type(e) in BASIC for e in entries):
        x, entries, arrays = separated(o, x, entries)
    try:
        return index.define(o, x, *arrays, key=entries)
    except (ShapeError, DTypeError):
        return index.over(o, x, *arrays, key=entries)  # fails as well, and names what was given and where


def index_updated(o: Ops[Any], x: Any, key: Any, values: Any, mode: str = "set") -> Any:
    """A new tensor: `x` with `values` where ``x[key]`` reads; see `index_update` for `mode`, and `indexed` for `key`.

    A boolean tensor over the first axes needs no value if `values` broadcast against what it masks.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> x = stack.asarray([1.0, -2.0, 3.0])
    >>> o = Ops(stack.bind, stack.type.ops).functions
    >>> index_updated(o, x, x < 0, 0.0).numpy(), index_updated(o, x, [0, 0], 1.0, "add").numpy()
    (array([1., 0., 3.]), array([ 3., -2.,  3.]))
    """
    if type(values) in SCALARS:
        values = o.full(shape=(), value=values, dtype=weak(values, [o.dtype(x)]))
    key = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    if is_tensor(key) and o.dtype(key).kind == "b" and len(values.shape) <= len(x.shape) - len(key.shape):
        return _masked(o, x, key, values, mode)
    whole = tuple(x.shape)
    x, plain, arrays = separated(o, x, key)
    found = index_update.over(o, x, values, *arrays, key=plain, mode=mode)
    return found if tuple(found.shape) == whole else o.reshape(found, shape=whole)


def _masked(o: Ops[Any], x: Any, mask: Any, values: Any, mode: str) -> Any:
    """By choice, so that nothing need be known of the mask."""
    if shows_nothing(mask, x.shape, 0):
        return x
    behind = len(x.shape) - len(mask.shape)
    values = o.cast(values, dtype=o.dtype(x)) if values.shape == () else taking(o, values, x)
    found = o.broadcast_like(values, x)
    combine, _ = chosen(mode)
    if combine is not None:
        found = getattr(o, combine)(x, found)
    mask = o.reshape(mask, shape=(*mask.shape, *(1,) * behind)) if behind else mask
    return o.where(mask, found, x)
