"""Resize and Upsample of ONNX, which are our `resample`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nnc_func.errors import OperatorError, ShapeError
from nnc_func.facets.dims import known
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.resampling import Resampling, resampled_extents
from nnc_func.graph.composites.resampling import NARROW
from nnc_func.graph.ops.families import Tensor
from nnc_func.onnx.context import Context
from nnc_func.onnx.operators.windows import Ints
from nnc_func.onnx.table import onnx_operator

FLOAT32 = np.dtype("float32")


def _resampled(o: Context, x: Tensor, axes: Ints, how: Resampling, **params: Any) -> Tensor:
    """Along those axes; integers that are weighed are rounded to integers of their dtype again."""
    if not axes:
        return x
    _check_sizes(o, [x.shape[a] for a in axes], how, params)
    own = x.dtype
    if how.method != "nearest" and kind_of(own) not in "fc":
        x = o.cast(x, dtype=FLOAT32)
    y = o.resample(
        x, axes=tuple(axes), method=how.method, coordinates=how.coordinates, rounding=how.rounding,
        coefficient=how.coefficient, antialias=how.antialias, exclude_outside=how.exclude_outside, **params,
    )  # fmt: skip
    if y.dtype == own:
        return y
    bounds = np.iinfo(own)
    return o.cast(o.clip(o.round(y), min=int(bounds.min), max=int(bounds.max)), dtype=own)


def _check_sizes(o: Context, extents: Sequence[Any], how: Resampling, params: Mapping[str, Any]) -> None:
    """Raise where the places and weights of an axis would be more than reading the model may make."""
    if all(map(known, extents)) and all(extents):
        scale = params.get("scale")
        if scale is not None and not all(0 < s < np.inf for s in scale):
            raise OperatorError(f"a scale is a positive number, given {scale}")
        wanted, _ = resampled_extents(tuple(extents), params.get("size"), scale, params.get("aspect", "stretch"))
        for n, m in zip(extents, wanted, strict=True):
            o.sized((m, n if how.antialias else min(n, NARROW)))


def _one_each(name: str, values: Any, axes: Ints) -> dict[int, Any]:
    if len(values) != len(axes) or any(isinstance(v, list) for v in values):
        raise OperatorError(f"{name} are one number for each of {len(axes)} axes, given {values}")
    return dict(zip(axes, values, strict=True))


def _by_scales(
    o: Context, x: Tensor, axes: Ints, scales: Any, how: Resampling, region: Any = None, fill: float = 0.0
) -> Tensor:
    given = _one_each("scales", np.asarray(scales).tolist(), axes)
    changed = [a for a in axes if given[a] != 1 or region]
    if not all(known(x.shape[a]) or how.copies(given[a]) for a in changed):
        o.extents(x)  # says that they are not known
    scale = tuple(given[a] for a in changed)
    return _resampled(o, x, changed, how, scale=scale, region=_of(region, axes, changed), fill=fill)


def _of(region: Any, axes: Ints, some: Ints) -> Any:
    """The region of some of its axes, as pairs."""
    return region and tuple((region[i], region[i + len(axes)]) for i in map(list(axes).index, some))


def _factor(n: Any, m: Any) -> int:
    """What an extent that is not known is to be multiplied by, if that is known."""
    found = m // n
    return found if known(found) and found * n == m else 0


def _by_sizes(
    o: Context, x: Tensor, axes: Ints, sizes: Any, how: Resampling, aspect: str, region: Any, fill: float
) -> Tensor:
    wanted = _one_each("sizes", o.integers(sizes), axes)
    changed = [a for a in axes if wanted[a] != x.shape[a] or region or aspect != "stretch"]
    for axis in [a for a in changed if aspect == "stretch" and not known(x.shape[a])]:
        factor = _factor(x.shape[axis], wanted[axis])
        if how.copies(factor):
            x = _resampled(o, x, [axis], how, scale=factor)
            changed.remove(axis)
    if not all(known(x.shape[a]) for a in changed):
        o.extents(x)  # says that they are not known
    if not all(known(wanted[a]) for a in changed):
        raise ShapeError(f"extents of {[str(wanted[a]) for a in changed]} are not known")
    size = tuple(wanted[a] for a in changed)
    return _resampled(o, x, changed, how, size=size, aspect=aspect, region=_of(region, axes, changed), fill=fill)


# --- entries ---------------------------------------------------------------------------------------------


def _method(mode: str) -> str:
    return {"bilinear": "linear", "trilinear": "linear"}.get(mode, mode)


@onnx_operator("Upsample", since=7)
def upsample_by_attribute(o: Context, x: Tensor, /, *, scales: Any, mode: str = "nearest") -> Tensor:
    """Each axis times a scale: the element at the floor of ``i / scale``, or weighed with the next one."""
    return resize_by_scales(o, x, scales, mode=mode)


@onnx_operator("Upsample", since=(9, 10), known=("scales",))
@onnx_operator("Resize", since=10, known=("scales",))
def resize_by_scales(o: Context, x: Tensor, scales: Any, /, *, mode: str = "nearest") -> Tensor:
    """Each axis times a scale: the element at the floor of ``i / scale``, or weighed with the next one."""
    how = Resampling(_method(mode), coordinates="asymmetric", rounding="floor")
    return _by_scales(o, x, range(len(x.shape)), scales, how)


@onnx_operator("Resize", since=(11, 13, 18, 19), known=("roi", "scales", "sizes"))
def resize(
    o: Context, x: Tensor, roi: Any = None, scales: Any = None, sizes: Any = None, /, *, antialias: int = 0,
    axes: Ints | None = None, coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0, extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest", nearest_mode: str = "round_prefer_floor",
) -> Tensor:  # fmt: skip
    """Axes brought to other extents, by scales or sizes; places, weights and edges as the attributes say."""
    how = Resampling(
        _method(mode), coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(antialias),
        bool(exclude_outside),
    )  # fmt: skip
    rank = len(x.shape)
    over = tuple(range(rank)) if axes is None else o.axes(axes, rank)
    region = None
    if how.coordinates == "tf_crop_and_resize":
        whole = [0.0] * len(over) + [1.0] * len(over)
        region = np.asarray(roi, np.float64).tolist() if roi is not None and np.size(roi) else whole
    by_scale = scales is not None and np.size(scales)
    if bool(by_scale) == bool(sizes is not None and np.size(sizes)):
        raise OperatorError("Resize wants scales or sizes, and not both")
    if by_scale:
        return _by_scales(o, x, over, scales, how, region, extrapolation_value)
    return _by_sizes(o, x, over, sizes, how, keep_aspect_ratio_policy, region, extrapolation_value)
