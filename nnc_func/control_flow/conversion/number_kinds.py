"""Tensors that stand for numbers of Python, and for which kind of number.

A number of Python takes the dtype of what it meets, and has a kind that code may ask for. Tensors stand for counters of
loops, for numbers of which a tensor decides which one it is, and for what operators compute of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Number
from typing import Any
from weakref import ref

import numpy as np

from nnc_func.control_flow.tracing import SCALARS
from nnc_func.graph.tensors.tensor import Tensor

Kind = type
"""`bool`, `int`, `float`, `complex`; `Number`: one of these; `object`: a number, or none."""
LIKE = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}


class _Standing(ref[Tensor]):
    """A tensor, and the kind of number."""

    __slots__ = ("key", "kind")


standing: dict[int, Any] = {}
"""Tensors by identity; they leave it when they end."""


def _ended(known: Any) -> None:
    key: int = known.key
    if standing.get(key) is known:
        del standing[key]


def kind_of(value: Any) -> Kind | None:
    """The kind of number that something is; None: it is no number.

    Examples
    --------
    >>> kind_of(2), kind_of("2")
    (<class 'int'>, None)
    """
    if type(value) in SCALARS:
        return type(value)
    known = standing.get(id(value))
    return known.kind if known is not None and known() is value else None


def stands_for(value: Any, kind: Kind | None) -> Any:
    """It, of which one knows then that it is a number of a kind, if it is a tensor.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> count = stands_for(nnc.eager().asarray(3), int)
    >>> kind_of(count), kind_of(count + 1)
    (<class 'int'>, None)
    """
    if kind is not None and isinstance(value, Tensor):
        known: Any = _Standing(value, _ended)
        known.key, known.kind = id(value), kind
        standing[id(value)] = known
    return value


def alike(tensor: Tensor) -> Tensor:
    """Another tensor of the same value, that stands for the same kind of number."""
    return stands_for(Tensor(tensor.stack, tensor.value), kind_of(tensor))  # type: ignore[no-any-return]


def is_known(tensor: Tensor) -> bool:
    """Whether the elements of a tensor are there, not only what computes them.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> is_known(nnc.eager().asarray(3))
    True
    """
    return hasattr(tensor.value, "__dlpack__")


def known_number(value: Any) -> Any:
    """The number of Python for which a tensor stands, where it is known; None: it stands for none, or it is not.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> known_number(stands_for(nnc.eager().asarray(3), int)), known_number(nnc.eager().asarray(3))
    (3, None)
    """
    kind = kind_of(value) if isinstance(value, Tensor) else None
    return kind(value.item()) if kind in SCALARS and kind is not None and is_known(value) else None


def is_number(value: Any) -> bool:
    """Whether something surely is a number."""
    return kind_of(value) not in (None, object)


def common_kind(kinds: Iterable[Kind | None]) -> Kind | None:
    """The kind of what is of one of some kinds; None: no number.

    Examples
    --------
    >>> common_kind([int, int]), common_kind([int, float]), common_kind([int, None]), common_kind([None])
    (<class 'int'>, <class 'numbers.Number'>, <class 'object'>, None)
    """
    found = {*kinds}
    if len(found) == 1:
        return found.pop()
    return object if found & {None, object} else Number


def common_dtype(dtypes: Iterable[Any], numbers: Iterable[Any]) -> Any:
    """The dtype of some dtypes and numbers together: beside another dtype a number has none of its own.

    Examples
    --------
    >>> common_dtype([np.float32], [2.0]), common_dtype([], [1, 2.0])
    (dtype('float32'), dtype('float64'))
    """
    dtypes, numbers = [*dtypes], [*numbers]
    if not dtypes:
        return np.result_type(*(each if type(each) in SCALARS else each.dtype for each in numbers))
    return np.result_type(*dtypes, *(LIKE[n.dtype.kind] if isinstance(n, Tensor) else n for n in numbers))
