"""Products of many elements: what they are in any order, and how far a kernel's own order may bring them.

A kernel multiplies in an order of its own. In one order a partial product overflows or underflows, in another it does
not, and no format is wide enough for all of them: so mantissas and exponents are multiplied apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nnc_func.facets.dtypes import kind_of, limits_of
from nnc_func.facets.shapes import normalise_axes, reduced
from nnc_func.graph.node import Node

PRODUCTS = frozenset(("prod", "cumulative_prod"))
STEP = 64  # errors of factors are taken so many times, and the effect divided: float64 does not show half a unit


def is_product(node: Node) -> bool:
    """Whether a node multiplies floating or complex elements along axes."""
    return node.op.name in PRODUCTS and kind_of(node.aval.dtype) in "fc"


def product(node: Node, factors: Any, within: bool = False) -> Any:
    """What a node's product of these elements is, where no partial product overflows or underflows.

    Parameters
    ----------
    within
        Finite factors have a finite product: the format's largest number stands for what is beyond it.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> node = lazy.ops.prod(lazy.input("x", (4,), "float64")).value.node
    >>> product(node, np.array([1e300, 1e300, 1e-300, 1e-300])).round(9)
    np.float64(1.0)
    >>> product(node, np.array([1e300, 1e300, 0, 1]))
    np.float64(0.0)
    >>> product(node, np.array([1e300, 1e300, 1, 1])), product(node, np.array([1e300, 1e300, 1, 1]), within=True)
    (np.float64(inf), np.float64(1.7976931348623157e+308))
    """
    along = normalise_axes(node.params["axis"], factors.ndim)
    rest = [i for i in range(factors.ndim) if i not in along]
    rows = factors.transpose(*along, *rest).reshape(-1, *(factors.shape[i] for i in rest))
    if node.op.name == "prod":
        *_, (mantissas, exponents) = _partial_products(rows)
        made = _scaled(mantissas, exponents, within)
        return made.reshape(reduced(factors.shape, **node.params))[()]
    partial = [_scaled(*each, within) for each in _partial_products(rows)][1:]
    return np.moveaxis(np.stack(partial), 0, along[0]) if partial else factors


def _partial_products(rows: Any) -> Iterator[tuple[Any, Any]]:
    """Products of none of the rows, of the first, of the first two, and so on, as mantissas and exponents."""
    total, exponents = np.ones(rows.shape[1:], rows.dtype), np.zeros(rows.shape[1:], np.int64)
    yield total, exponents
    for row in rows:
        factor, own = _apart(row)
        total, carry = _apart(total * factor)
        exponents = exponents + own + carry
        yield total, exponents


def _apart(numbers: Any) -> tuple[Any, Any]:
    """Mantissas and exponents; of what is not finite the number itself, and zero."""
    complex_ = numbers.dtype.kind == "c"
    sizes = np.maximum(np.abs(numbers.real), np.abs(numbers.imag)) if complex_ else np.abs(numbers)
    exponents = np.where(np.isfinite(sizes), np.frexp(sizes)[1], 0)
    return _scaled(numbers, -exponents), exponents


def _scaled(numbers: Any, exponents: Any, within: bool = False) -> Any:
    """Numbers times powers of two."""
    if numbers.dtype.kind == "c":
        made = np.empty(numbers.shape, numbers.dtype)
        made.real, made.imag = (_scaled(part, exponents, within) for part in (numbers.real, numbers.imag))
        return made
    limits = np.finfo(numbers.dtype)
    most = int(limits.maxexp) - int(limits.minexp) + limits.nmant + 2  # more makes no difference
    made = np.ldexp(numbers, np.clip(exponents, -most, most).astype(np.intc))
    return np.where(np.isfinite(numbers) & np.isinf(made), np.copysign(limits.max, made), made) if within else made


def spread_of_product(node: Node, factors: Any, errors: Any, size: Any) -> Any:
    """How far the product of elements of these magnitudes may be from that size, with these errors of elements.

    A unit for each factor; and where some order has a partial product that is less than any normal number, one unit of
    the least number for each, times all factors that are larger than one, which may all come later.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> node = lazy.ops.prod(lazy.input("x", (3,), "float64")).value.node
    >>> exact, least = np.zeros(3), np.finfo("float64").smallest_subnormal
    >>> float(spread_of_product(node, np.array([0.5, 4, 3]), exact, 6.0) / np.finfo("float64").eps)
    18.0
    >>> float(spread_of_product(node, np.array([least, 4, 3]), exact, 12 * least) / least)
    36.0
    """
    limits = limits_of(node.aval.dtype)
    with np.errstate(all="ignore"):
        logs = np.log2(factors)
        least, most = _added(node, np.minimum(logs, 0)), _added(node, np.maximum(logs, 0))
        underflows = np.isfinite(least) & (least < np.log2(float(limits.tiny)))
        lost = np.where(underflows, float(limits.smallest_subnormal) * np.exp2(most), 0.0)
        own = _added(node, np.ones(factors.shape)) * (float(limits.eps) * size + lost)
        if not errors.any():
            return own
        return own + (product(node, factors + STEP * errors) - product(node, factors)) / STEP


def _added(node: Node, numbers: Any) -> Any:
    """Sums along the axes of a product."""
    if node.op.name == "cumulative_prod":
        return np.cumsum(numbers, axis=node.params["axis"])
    return np.sum(numbers, **node.params)
