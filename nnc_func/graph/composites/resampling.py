"""Tensors resampled along any axes by any rule in use: the nearest elements, or some weighed along each axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets.dims import known, product
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.resampling import Resampling, resampled_extents
from nnc_func.facets.samples import FLOATS, Samples, Tolerance
from nnc_func.facets.shapes import normalise_axes, normalise_axis
from nnc_func.graph.composite import composite
from nnc_func.graph.ops.families import Axes, Nested, Tensor

if TYPE_CHECKING:
    from nnc_func.graph.tensors.namespace import Ops

FEW = 8
"""So many neighbours are weighed one by one; more are a product with a matrix."""
NARROW = 96
"""A product with a matrix is faster along axes up to that extent: half as long at 32, twice as long at 224."""


def constant(o: Ops[Any], array: Any, x: Tensor) -> Any:
    """An array of the host as an operand beside `x`, in its place."""
    place = o.place(x)
    return array if place is None else o.transfer(array, place=place)


def _listed(name: str, value: Any, count: int, kinds: Any) -> tuple[Any, ...] | None:
    if value is None:
        return None
    found = value if isinstance(value, tuple) else (value,) * count
    if len(found) == count and all(isinstance(v, kinds) and not isinstance(v, bool) and v >= 0 for v in found):
        return found
    raise OperatorError(f"{name} is a number, not negative, or one for each of {count} axes, given {value!r}")


def _wanted(how: Resampling, extents: Any, size: Any, scale: Any, aspect: str) -> Any:
    """The extents that are asked for, and by what these are scaled."""
    if (size is None) == (scale is None):
        raise OperatorError(f"either size or scale says how large it becomes; given size={size}, scale={scale}")
    if any(known(n) and n == 0 for n in extents):
        raise ShapeError(f"an axis without elements is not resampled, given the extents {extents}")
    scales = _listed("scale", scale, len(extents), (int, float))
    if scales is not None and not all(0 < s < float("inf") for s in scales):
        raise OperatorError(f"a scale is a positive number, given {scale!r}")
    if not all(known(n) or (scales and how.copies(scales[i])) for i, n in enumerate(extents)):
        raise ShapeError(
            f"resample wants extents that are known, or to copy elements a whole number of times, given {extents}; "
            "resize takes unknown ones"
        )
    return resampled_extents(extents, _listed("size", size, len(extents), int), scales, aspect)


def _regions(region: Any, count: int) -> tuple[tuple[float, float], ...]:
    found = ((0.0, 1.0),) * count if region is None else region
    if not isinstance(found, tuple) or len(found) != count or not all(
        isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(v, (int, float)) for v in pair) for pair in found
    ):  # fmt: skip
        raise OperatorError(f"region is a pair (start, end) for each of {count} axes, given {region!r}")
    return found


def _copied(o: Ops[Any], x: Tensor, times: dict[int, int]) -> Tensor:
    """Each element so many times along axes."""
    if all(t == 1 for t in times.values()):
        return x
    apart: list[Any] = []
    wide: list[Any] = []
    for axis, n in enumerate(x.shape):
        t = times.get(axis, 1)
        apart += [n] if t == 1 else [n, 1]
        wide += [n] if t == 1 else [n, t]
    copied = o.broadcast_to(o.reshape(x, shape=tuple(apart)), shape=tuple(wide))
    return o.reshape(copied, shape=tuple(n * times.get(axis, 1) for axis, n in enumerate(x.shape)))


def _weighed(o: Ops[Any], x: Tensor, axis: int, places: Any, weights: Any) -> Tensor:
    """The sum of a few neighbours."""
    shape, total = (len(places), *(1,) * (len(x.shape) - axis - 1)), None
    for place, weight in zip(places.T, weights.T, strict=True):
        share = constant(o, weight.reshape(shape).astype(o.dtype(x)), x)
        part = o.multiply(o.take(x, constant(o, place, x), axis=axis), share)
        total = part if total is None else o.add(total, part)
    return total


def _along(o: Ops[Any], x: Tensor, axis: int, how: Resampling, positions: Any, scale: float) -> Tensor:
    n = x.shape[axis]
    if np.array_equal(positions, np.arange(n)):
        return x
    if how.method == "nearest":
        return o.take(x, constant(o, how.nearest(positions, n), x), axis=axis)
    places, shares = how.neighbours(positions, n, scale)
    if n > NARROW and places.shape[1] <= FEW:
        return _weighed(o, x, axis, places, shares)
    weights = constant(o, how.weights(positions, n, scale).astype(o.dtype(x)), x)
    if axis == len(x.shape) - 1:
        return o.tensordot(x, weights, axes=((axis,), (1,)))
    before, behind = x.shape[:axis], x.shape[axis + 1 :]
    found = o.matmul(weights, o.reshape(x, shape=(*before, n, product(behind))))
    return o.reshape(found, shape=(*before, len(positions), *behind))


def _outside(o: Ops[Any], x: Tensor, axis: int, missing: Any, fill: float) -> Tensor:
    mask = constant(o, missing.reshape(-1, *(1,) * (len(x.shape) - axis - 1)), x)
    return o.where(mask, o.number(fill, x), x)


_CASES: Any = (
    ((2, 3, 4), {"axes": (1, 2), "size": (5, 2)}),
    ((3, 4), {"axes": 0, "scale": 2.5}),
    ((1, 2, 4, 4), {"axes": (2, 3), "scale": (0.6, 0.8), "antialias": True}),
    ((4, 5), {"axes": (0, -1), "size": (3, 7), "exclude_outside": True, "coordinates": "asymmetric"}),
    ((4, 5), {"axes": (0, 1), "size": (8, 3), "coordinates": "align_corners", "rounding": "floor"}),
    ((4, 5), {"axes": (1,), "size": (1,), "coordinates": "pytorch_half_pixel", "rounding": "ceil"}),
    ((4, 5), {"axes": (0, 1), "size": 3, "coordinates": "tf_crop_and_resize", "region": ((0.2, 1.3), (0.9, 0.1)),
              "fill": 7.0}),
    ((4, 6), {"axes": (0, 1), "size": (7, 7), "aspect": "not_larger", "rounding": "round_prefer_ceil"}),
    ((5,), {"axes": 0, "scale": 0.3, "coordinates": "half_pixel_symmetric", "coefficient": -0.5}),
    ((0, 3), {"axes": 1, "size": 2}),
)  # fmt: skip


@composite(
    tolerance=Tolerance(64.0),
    samples=Samples(relation="cases", dtypes=FLOATS, cases=tuple(
        ((x,), {**params, "method": method}) for x, params in _CASES for method in ("nearest", "linear", "cubic")
    )),
)  # fmt: skip
def resample(
    o: Ops[Any], x: Tensor, /, *, axes: Axes, size: Nested | None = None, scale: Nested | None = None,
    method: str = "linear", coordinates: str = "half_pixel", rounding: str = "round_prefer_floor",
    coefficient: float = -0.75, antialias: bool = False, exclude_outside: bool = False, aspect: str = "stretch",
    region: Nested | None = None, fill: float = 0.0,
) -> Tensor:  # fmt: skip
    """Resampled along some axes by any rule of ONNX's Resize: nearest, linear, cubic; with or without antialiasing.

    `size` gives the extents of the `axes`, or `scale` what they are multiplied by (rounded down), a number or one for
    each axis. With `size`, ``aspect="not_larger"`` or ``"not_smaller"`` scales all axes by one number, so that none
    becomes larger, or smaller, than was asked for.

    Where element i of the result lies among the n of an axis, its scale being s, `coordinates` says:

    - ``"half_pixel"``: at ``(i + 0.5) / s - 0.5``; ``"pytorch_half_pixel"`` at 0 if it is the only one;
      ``"half_pixel_symmetric"`` keeps the middle where it is if the scaled extent is no whole number;
    - ``"align_corners"``: at ``i (n - 1) / (s n - 1)``; ``"asymmetric"``: at ``i / s``;
    - ``"tf_crop_and_resize"``: in the `region`, pairs (start, end) in which 0 and 1 are the first and the last element;
      what lies outside is `fill`.

    ``"nearest"`` takes the element to which `rounding` rounds that: ``"round_prefer_floor"``, ``"round_prefer_ceil"``,
    ``"floor"`` or ``"ceil"``. ``"linear"`` weighs two neighbours, ``"cubic"`` four, by Keys' kernel with `coefficient`;
    with `antialias` as many more as an axis shrinks. Beyond the ends the outermost elements are repeated, or, with
    `exclude_outside`, not counted.

    Refused: integers to be weighed, and unknown extents along the axes, unless each element is copied a whole number
    of times.
    """
    how = Resampling(method, coordinates, rounding, coefficient, antialias, exclude_outside)
    if method != "nearest" and kind_of(o.dtype(x)) not in "fc":
        raise DTypeError(
            f"{method} resampling weighs floating numbers, given {o.dtype(x)}; cast them, or use 'nearest'"
        )
    ordered = normalise_axes(axes, len(x.shape))
    at = tuple(normalise_axis(a, len(x.shape)) for a in axes) if isinstance(axes, tuple) else ordered
    extents = tuple(x.shape[a] for a in at)
    sizes, scales = _wanted(how, extents, size, scale, aspect)
    times = {axis: how.copies(s) for axis, s in zip(at, scales, strict=True)}
    x = _copied(o, x, {axis: t for axis, t in times.items() if t})
    outside = []
    for axis, n, m, s, pair in zip(at, extents, sizes, scales, _regions(region, len(at)), strict=True):
        if times[axis]:
            continue
        positions = how.positions(n, m, s, pair) if m else np.zeros(0)
        if coordinates == "tf_crop_and_resize":
            missing = (positions < 0) | (positions > n - 1)
            outside += [(axis, missing)] if missing.any() else []
        x = _along(o, x, axis, how, positions, s)
    for axis, missing in outside:
        x = _outside(o, x, axis, missing, fill)
    return x
