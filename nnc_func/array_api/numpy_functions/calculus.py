"""NumPy's functions of samples: differences, integrals, interpolation, convolution, polynomials."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.array_api.numpy_functions.shapes import flat, part
from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.shapes import normalise_axes, normalise_axis

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace


def _floating(xp: ArrayNamespace, x: Any) -> Any:
    x = xp.asarray(x)
    return x if kind_of(x.dtype) in "fc" else xp.astype(x, np.float64)


def _ediff1d(xp: ArrayNamespace, /, *, ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    middle = xp.diff(flat(xp, ary))
    ends = [None if x is None else xp.astype(flat(xp, x), middle.dtype) for x in (to_begin, to_end)]
    some = [x for x in (ends[0], middle, ends[1]) if x is not None]
    return xp.concat(some, axis=0) if len(some) > 1 else middle


def _along(xp: ArrayNamespace, x: Any, axis: int, rank: int) -> Any:
    return xp.reshape(x, tuple(-1 if i == axis else 1 for i in range(rank)))


def _gradient(xp: ArrayNamespace, /, *spacing: Any, f: Any, axis: Any = None, edge_order: int = 1) -> Any:
    x = _floating(xp, f)
    axes = normalise_axes(axis, x.ndim)
    given = spacing or (1.0,)
    given = given * len(axes) if len(given) == 1 and np.ndim(given[0]) == 0 else given
    if len(given) != len(axes):
        raise TypeError(f"gradient wants one spacing, or one for each of {len(axes)} axes, given {len(given)}")
    if edge_order not in (1, 2):
        raise OperatorError(f"gradient: edge_order is 1 or 2, given {edge_order}")
    found = tuple(_slope(xp, x, h, at, edge_order) for h, at in zip(given, axes, strict=True))
    return found[0] if isinstance(axis, int) or len(axes) == 1 else found


def _slope(xp: ArrayNamespace, f: Any, h: Any, axis: int, order: int) -> Any:
    """Differences of second order inside, of an order at both ends; by the distances of neighbours along the axis."""
    n = f.shape[axis]
    if n < order + 1:
        raise ShapeError(f"gradient with edge_order={order} wants {order + 1} elements along axis {axis}, given {n}")
    h = xp.asarray(h)
    steps = xp.broadcast_to(xp.astype(h, np.float64), (n - 1,)) if h.ndim == 0 else xp.diff(_floating(xp, h))
    if steps.shape != (n - 1,):
        raise ShapeError(f"gradient: {h.shape} coordinates of the {n} elements along axis {axis}")

    def at(start: Any, stop: Any) -> Any:
        return part(f, axis, start, stop)

    def times(weight: Any, values: Any) -> Any:
        return xp.multiply(_along(xp, weight, axis, f.ndim), values)

    a, b = steps[:-1], steps[1:]
    middle = xp.add(
        times((b - a) / (a * b), at(1, -1)),
        xp.subtract(times(a / (b * (a + b)), at(2, None)), times(b / (a * (a + b)), at(None, -2))),
    )
    if order == 1:
        first = xp.divide(xp.subtract(at(1, 2), at(0, 1)), steps[0])
        last = xp.divide(xp.subtract(at(n - 1, n), at(n - 2, n - 1)), steps[n - 2])
    else:
        a, b = steps[:1], steps[1:2]
        first = times(-(2 * a + b) / (a * (a + b)), at(0, 1)) + times((a + b) / (a * b), at(1, 2))
        first = first - times(a / (b * (a + b)), at(2, 3))
        a, b = steps[n - 3 : n - 2], steps[n - 2 :]
        last = times((2 * b + a) / (b * (a + b)), at(n - 1, n)) - times((a + b) / (a * b), at(n - 2, n - 1))
        last = last + times(b / (a * (a + b)), at(n - 3, n - 2))
    return xp.astype(xp.concat([first, middle, last], axis=axis), f.dtype)


def _trapezoid(xp: ArrayNamespace, /, *, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    y = xp.asarray(y)
    at = normalise_axis(axis, y.ndim)
    width = dx
    if x is not None:
        x = xp.asarray(x)
        width = _along(xp, xp.diff(x), at, y.ndim) if x.ndim == 1 else xp.diff(x, axis=axis)
    pairs = xp.add(part(y, at, 1, None), part(y, at, None, -1))
    return xp.sum(xp.divide(xp.multiply(width, pairs), 2.0), axis=at)


def _interp(
    space: ArrayNamespace, /, *, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    x, at, values = _floating(space, x), _floating(space, xp), _floating(space, fp)
    if at.ndim != 1 or at.shape != values.shape or not at.shape[0]:
        raise ShapeError(f"interp wants two vectors of one extent, at least 1, given {at.shape} and {values.shape}")
    if period is not None:
        x, at, values = _periodic(space, x, at, values, abs(period))
        left = right = None
    n = at.shape[0]
    low = space.ops.clip(space.subtract(space.searchsorted(at, x, side="right"), 1), min=0, max=max(n - 2, 0))
    high = space.ops.clip(space.add(low, 1), min=0, max=n - 1)
    x0, y0, x1, y1 = (space.ops.take(v, i, axis=0) for i in (low, high) for v in (at, values))
    slope = space.divide(space.subtract(y1, y0), space.where(space.equal(x0, x1), 1.0, space.subtract(x1, x0)))
    found = space.add(space.multiply(slope, space.subtract(x, x0)), y0)
    found = space.where(space.greater_equal(x, at[n - 1]), values[n - 1], found)
    found = space.where(space.less(x, at[0]), values[0] if left is None else left, found)
    return found if right is None else space.where(space.greater(x, at[n - 1]), right, found)


def _periodic(xp: ArrayNamespace, x: Any, at: Any, values: Any, period: Any) -> tuple[Any, Any, Any]:
    x, at = xp.remainder(x, period), xp.remainder(at, period)
    order = xp.argsort(at)
    at, values = (xp.take(v, order, axis=0) for v in (at, values))
    at = xp.concat([at[-1:] - period, at, at[:1] + period], axis=0)
    return x, at, xp.concat([values[-1:], values, values[:1]], axis=0)


def _unwrap(xp: ArrayNamespace, /, *, p: Any, discont: Any = None, axis: int = -1, period: float = 2 * math.pi) -> Any:
    x = xp.asarray(p)
    at = normalise_axis(axis, x.ndim)
    steps, half = xp.diff(x, axis=at), period / 2
    found = xp.subtract(xp.remainder(xp.add(steps, half), period), half)
    found = xp.where(xp.logical_and(xp.equal(found, -half), xp.greater(steps, 0)), half, found)
    turns = xp.where(xp.less(xp.abs(steps), half if discont is None else discont), 0.0, xp.subtract(found, steps))
    rest = xp.add(part(x, at, 1, None), xp.cumulative_sum(turns, axis=at))
    return xp.concat([xp.astype(part(x, at, None, 1), rest.dtype), rest], axis=at)


# --- convolution ----------------------------------------------------------------------------------------------


def _correlated(xp: ArrayNamespace, a: Any, v: Any, mode: str) -> Any:
    """Sums of products of a shorter vector with every window of a longer one, as far over its ends as is asked for."""
    n = v.shape[0]
    before, after = {"full": (n - 1, n - 1), "same": (n // 2, n - n // 2 - 1), "valid": (0, 0)}[mode]
    signal, kernel = xp.reshape(a, (1, -1, 1)), xp.reshape(v, (-1, 1, 1))
    return xp.reshape(xp.ops.conv1d(signal, kernel, padding=((before, after),)), (-1,))


def _vectors(xp: ArrayNamespace, a: Any, v: Any, mode: str, name: str) -> tuple[Any, Any]:
    found = [xp.reshape(x, (-1,)) if x.ndim == 0 else x for x in map(xp.asarray, (a, v))]
    if any(x.ndim != 1 or not x.shape[0] for x in found):
        raise ShapeError(f"{name} wants two vectors with elements, given {found[0].shape} and {found[1].shape}")
    if mode not in ("full", "same", "valid"):
        raise OperatorError(f"{name}: mode is 'full', 'same' or 'valid', given {mode!r}")
    return found[0], found[1]


def _convolve(xp: ArrayNamespace, /, *, a: Any, v: Any, mode: str = "full") -> Any:
    a, v = _vectors(xp, a, v, mode, "convolve")
    a, v = (v, a) if v.shape[0] > a.shape[0] else (a, v)
    return _correlated(xp, a, xp.flip(v), mode)


def _correlate(xp: ArrayNamespace, /, *, a: Any, v: Any, mode: str = "valid") -> Any:
    a, v = _vectors(xp, a, v, mode, "correlate")
    v = xp.conj(v) if v.dtype.kind == "c" else v
    if v.shape[0] > a.shape[0]:
        return xp.flip(_correlated(xp, v, a, mode))
    return _correlated(xp, a, v, mode)


# --- polynomials ----------------------------------------------------------------------------------------------


def _polyval(xp: ArrayNamespace, /, *, p: Any, x: Any) -> Any:
    coefficients, x = xp.asarray(p), xp.asarray(x)
    found = xp.zeros_like(x)
    for i in range(coefficients.shape[0]):
        found = xp.add(xp.multiply(found, x), coefficients[i])
    return found


def _together(combine: str) -> Callable[..., Any]:
    def together(xp: ArrayNamespace, /, *, a1: Any, a2: Any) -> Any:
        given = [flat(xp, a) for a in (a1, a2)]
        most = max(a.shape[0] for a in given)
        return getattr(xp, combine)(*(xp.ops.pad(a, widths=((most - a.shape[0], 0),)) for a in given))

    return together


def _polymul(xp: ArrayNamespace, /, *, a1: Any, a2: Any) -> Any:
    return _convolve(xp, a=a1, v=a2)


def _polyder(xp: ArrayNamespace, /, *, p: Any, m: int = 1) -> Any:
    found = flat(xp, p)
    for _ in range(m):
        n = found.shape[0]
        found = xp.multiply(found[:-1], np.arange(n - 1, 0, -1)) if n else found
    return found


def _polyint(xp: ArrayNamespace, /, *, p: Any, m: int = 1, k: Any = None) -> Any:
    found, constants = flat(xp, p), np.broadcast_to(np.asarray(0 if k is None else k), (m,))
    for constant in constants.tolist():
        divided = xp.divide(found, np.arange(found.shape[0], 0, -1))
        found = xp.ops.pad(divided, widths=((0, 1),), value=constant)
    return found


def _polyfit(xp: ArrayNamespace, /, *, x: Any, y: Any, deg: int, w: Any = None) -> Any:
    matrix, y = _vander(xp, x=_floating(xp, x), N=deg + 1), _floating(xp, y)
    if w is not None:
        w = _floating(xp, w)
        matrix, y = matrix * w[:, None], y * (w if y.ndim == 1 else w[:, None])
    scale = xp.linalg.vector_norm(matrix, axis=0)
    found = xp.ops.lstsq(matrix / scale, y)
    return xp.divide(found, scale if found.ndim == 1 else scale[:, None])


def _vander(xp: ArrayNamespace, /, *, x: Any, N: int | None = None, increasing: bool = False) -> Any:  # noqa: N803
    x = xp.asarray(x)
    if x.ndim != 1:
        raise ShapeError(f"vander wants a vector, given shape {x.shape}")
    x = x if kind_of(x.dtype) in "fc" else xp.astype(x, np.result_type(x.dtype, np.int64))
    count = x.shape[0] if N is None else N
    powers = [xp.ones_like(x)] if count else []
    for _ in range(1, count):
        powers.append(xp.multiply(powers[-1], x))
    if not powers:
        return xp.zeros((x.shape[0], 0), dtype=x.dtype)
    return xp.stack(powers if increasing else powers[::-1], axis=1)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "ediff1d": _ediff1d, "gradient": _gradient, "trapezoid": _trapezoid, "interp": _interp, "unwrap": _unwrap,
    "convolve": _convolve, "correlate": _correlate, "polyval": _polyval, "polyadd": _together("add"),
    "polysub": _together("subtract"), "polymul": _polymul, "polyder": _polyder, "polyint": _polyint,
    "polyfit": _polyfit, "vander": _vander,
}  # fmt: skip
