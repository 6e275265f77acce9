"""Convolution and pooling along one to three axes, against loops over windows (`graph/ops/conv`, `graph/ops/pool`)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets.windows import DATA_FORMATS

EAGER, LAZY = nnc.eager(), nnc.lazy()
AXES = pytest.mark.parametrize("axes", [1, 2, 3])
FEW = settings(max_examples=max(8, settings().max_examples // 3))


# --- loops -----------------------------------------------------------------------------------------------


class Geometry:
    """Windows along some axes, drawn; padding as numbers.

    Those of a pool have an element of the images in each window; where `divides`, strides that go with SAME divide the
    extents.
    """

    def __init__(self, data: Any, axes: int, pool: bool = False, divides: bool = False) -> None:
        draw = data.draw
        kind = draw(st.sampled_from(["VALID", "SAME", "amounts"]))
        self.axes = axes
        rows = [self._axis(draw, kind, 6 - axes, pool, divides) for _ in range(axes)]
        self.extents, self.window, self.stride, self.dilation, self.around = zip(*rows, strict=True)
        self.spans = tuple(d * (k - 1) + 1 for d, k in zip(self.dilation, self.window, strict=True))
        rows = zip(self.extents, self.around, self.spans, self.stride, strict=True)
        self.outputs = tuple((n + sum(a) - k) // s + 1 for n, a, k, s in rows)
        assert kind != "SAME" or self.outputs == tuple(
            -(-n // s) for n, s in zip(self.extents, self.stride, strict=True)
        )
        self.padding = self.around if kind == "amounts" else kind
        self.groups = draw(st.integers(1, 2))
        self.data_format = draw(st.sampled_from(DATA_FORMATS[axes]))
        self.random = np.random.default_rng(draw(st.integers(0, 9)))

    @staticmethod
    def _axis(draw: Any, kind: str, most: int, pool: bool, divides: bool) -> tuple[Any, ...]:
        """Of one axis: extent, window, stride, dilation, and what is around."""
        window, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        span = dilation * (window - 1) + 1
        width = st.integers(0, min(2, span - 1) if pool else 2)
        around = (draw(width), draw(width)) if kind == "amounts" else (0, 0)
        least = 2 if pool and kind != "VALID" else 1  # dilated windows may have an extent of 1 between their elements
        least = least if kind == "SAME" else max(least, span - sum(around))
        extent = draw(st.integers(least, max(least, most)))
        strides = [s for s in (1, 2, 3) if not (divides and kind == "SAME") or extent % s == 0]
        stride = draw(st.sampled_from(strides))
        if kind == "SAME":
            total = max((-(-extent // stride) - 1) * stride + span - extent, 0)
            around = (total // 2, total - total // 2)
        return extent, window, stride, dilation, around

    @property
    def params(self) -> dict[str, Any]:
        names = ("stride", "padding", "dilation", "data_format")
        return {name: getattr(self, name) for name in names}

    def windows(self) -> Any:
        """Each window's place, and its elements: place in the window and in the images."""
        for at in itertools.product(*map(range, self.outputs)):
            inside = []
            for k in itertools.product(*map(range, self.window)):
                rows = zip(at, k, self.stride, self.dilation, self.around, strict=True)
                place = tuple(a * s + i * d - before for a, i, s, d, (before, _) in rows)
                if all(0 <= p < n for p, n in zip(place, self.extents, strict=True)):
                    inside.append((k, place))
            yield at, inside

    def given(self, x: Any) -> Any:
        """Images with channels last in the drawn data format."""
        return np.moveaxis(x, -1, 1).copy() if self.data_format[1] == "C" else x

    def found(self, y: Any) -> Any:
        """A result with channels last."""
        return np.moveaxis(y.numpy(), 1, -1) if self.data_format[1] == "C" else y.numpy()

    def draw(self, *shape: int) -> Any:
        return self.random.integers(-4, 5, shape).astype("float64")


def looped(geometry: Geometry, x: Any, w: Any) -> Any:
    found = np.zeros((x.shape[0], *geometry.outputs, w.shape[-1]))
    inputs, outputs = w.shape[-2], w.shape[-1] // geometry.groups
    for at, inside in geometry.windows():
        for k, place in inside:
            for g in range(geometry.groups):
                ins, outs = slice(g * inputs, (g + 1) * inputs), slice(g * outputs, (g + 1) * outputs)
                found[(slice(None), *at, outs)] += x[(slice(None), *place, ins)] @ w[(*k, slice(None), outs)]
    return found


@AXES
@FEW
@given(data=st.data())
def test_convolution_is_a_loop_over_windows(axes: int, data: Any) -> None:
    geometry = Geometry(data, axes)
    x = geometry.draw(2, *geometry.extents, 2 * geometry.groups)
    w = geometry.draw(*geometry.window, 2, 3 * geometry.groups)
    y = getattr(EAGER.ops, f"conv{axes}d")(geometry.given(x), w, groups=geometry.groups, **geometry.params)
    np.testing.assert_array_equal(geometry.found(y), looped(geometry, x, w))


def test_convolution_of_complex_numbers_is_that_of_their_parts() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=s) + 1j * rng.normal(size=s) for s in ((1, 4, 5, 2), (2, 2, 1, 2)))
    y = EAGER.ops.conv2d(x, w, groups=2).numpy()
    parts = {(i, j): EAGER.ops.conv2d(i(x), j(w), groups=2).numpy() for i in _PARTS for j in _PARTS}
    np.testing.assert_allclose(y.real, parts[np.real, np.real] - parts[np.imag, np.imag])
    np.testing.assert_allclose(y.imag, parts[np.real, np.imag] + parts[np.imag, np.real])


_PARTS = (np.real, np.imag)


@AXES
@FEW
@given(data=st.data())
def test_transposed_convolution_is_the_adjoint_of_the_loop(axes: int, data: Any) -> None:
    geometry = Geometry(data, axes, divides=True)
    x = geometry.draw(1, *geometry.extents, 2 * geometry.groups)
    w = geometry.draw(*geometry.window, 2, 3 * geometry.groups)
    y = looped(geometry, x, w)
    g = geometry.draw(*y.shape)
    params: dict[str, Any] = {"groups": geometry.groups, **geometry.params}
    if geometry.padding != "SAME":
        rows = zip(geometry.extents, geometry.outputs, geometry.stride, geometry.spans, geometry.around, strict=True)
        params["output_padding"] = tuple(n - ((m - 1) * s + k - sum(a)) for n, m, s, k, a in rows)
    back = geometry.found(getattr(EAGER.ops, f"conv_transpose{axes}d")(geometry.given(g), w, **params))
    assert back.shape == x.shape
    assert (back * x).sum() == (g * y).sum()  # whole numbers: exactly


@AXES
@FEW
@given(data=st.data())
def test_pools_are_loops_over_windows(axes: int, data: Any) -> None:
    geometry = Geometry(data, axes, pool=True)
    x = geometry.draw(2, *geometry.extents, 2)
    most, mean, counted = (np.zeros((2, *geometry.outputs, 2)) for _ in range(3))
    for at, inside in geometry.windows():
        values = np.stack([x[(slice(None), *place)] for _, place in inside])
        here = (slice(None), *at)
        most[here], mean[here] = values.max(0), values.mean(0)
        counted[here] = values.sum(0) / np.prod(geometry.window)
    given_, params = geometry.given(x), {"window": geometry.window, **geometry.params}
    largest, average = (getattr(EAGER.ops, f"{kind}_pool{axes}d") for kind in ("max", "average"))
    np.testing.assert_array_equal(geometry.found(largest(given_, **params)), most)
    np.testing.assert_allclose(geometry.found(average(given_, **params)), mean, atol=1e-13)
    np.testing.assert_allclose(geometry.found(average(given_, count_padding=True, **params)), counted, atol=1e-13)


@AXES
def test_a_maximum_routes_to_its_first_element_and_to_the_first_nan(axes: int) -> None:
    ops = EAGER.ops
    x = np.zeros((1, *(2,) * axes, 1))
    pool = getattr(ops, f"max_pool{axes}d")

    def gradient() -> Any:
        return EAGER.grad(lambda t: ops.sum(pool(t, window=2)))(x).numpy().reshape(-1)

    assert list(np.flatnonzero(gradient())) == [0]
    x.reshape(-1)[1:] = np.nan
    assert list(np.flatnonzero(gradient())) == [1]


# --- unknown extents -------------------------------------------------------------------------------------


@AXES
def test_extents_may_be_unknown(axes: int) -> None:
    rng = np.random.default_rng(0)
    ops = LAZY.ops
    image = LAZY.input("x", ("n", *(f"d{i}" for i in range(axes)), 2), "float64")
    w = rng.standard_normal((*(2,) * axes, 2, 4))
    y = getattr(ops, f"conv{axes}d")(image, w, stride=2, padding=((1, 0),) * axes)
    z = getattr(ops, f"conv_transpose{axes}d")(y, w, stride=2)
    program = LAZY.compile([image], [z, getattr(ops, f"max_pool{axes}d")(y, window=2, stride=1)])
    for extent in (3, 5):
        x = rng.standard_normal((2, *(extent,) * axes, 2))
        found = program(x)
        once = getattr(EAGER.ops, f"conv{axes}d")(x, w, stride=2, padding=((1, 0),) * axes)
        again = getattr(EAGER.ops, f"conv_transpose{axes}d")(once, w, stride=2)
        np.testing.assert_allclose(found[0], again.numpy(), atol=1e-12)
        np.testing.assert_allclose(
            found[1], getattr(EAGER.ops, f"max_pool{axes}d")(once, window=2, stride=1).numpy(), atol=1e-12
        )


# --- refusals --------------------------------------------------------------------------------------------


def _ones(*shape: int) -> Any:
    return np.ones(shape)


@pytest.mark.parametrize(
    ("name", "args", "params", "words"),
    [
        ("conv1d", (_ones(1, 4, 3), _ones(2, 2, 2)), {}, "conv1d.*does not fit 3 channels"),
        ("conv1d", (_ones(1, 4, 3), _ones(5, 3, 2)), {}, "conv1d.*window of 5 elements does not fit in 4"),
        ("conv1d", (_ones(1, 4, 3), _ones(2, 3, 2)), {"padding": (1, 1)}, r"\(\(left, right\),\)"),
        ("conv1d", (_ones(1, 4, 4, 3), _ones(2, 3, 2)), {}, "rank 3, NWC"),
        ("conv2d", (_ones(1, 4, 4, 3), _ones(2, 2, 2, 4)), {"groups": 2}, "2 groups"),
        ("conv2d", (_ones(1, 4, 4, 4), _ones(2, 2, 2, 3)), {"groups": 2}, "out a multiple of 2"),
        ("conv2d", (_ones(1, 4, 4, 3), _ones(2, 2, 3, 4)), {"stride": 0}, "stride is a number of at least 1"),
        ("conv2d", (_ones(1, 4, 4, 3), _ones(2, 2, 3, 4)), {"data_format": "NWC"}, "unknown; wanted one of NHWC, NCHW"),
        ("conv3d", (_ones(1, 4, 4, 4, 3), _ones(2, 2, 2, 3, 4)), {"stride": (1, 2)}, "a triple"),
        ("conv3d", (_ones(1, 4, 4, 4, 3), _ones(2, 2, 3, 4)), {}, r"\(depth, height, width, in // groups, out\)"),
        ("conv_transpose2d", (_ones(1, 4, 4, 3), _ones(2, 2, 2, 4)), {}, "wants 4 channels"),
        ("conv_transpose2d", (_ones(1, 4, 4, 3), _ones(2, 2, 2, 3)), {"groups": 2}, "divides the 3 channels"),
        ("conv_transpose2d", (_ones(1, 4, 4, 3), _ones(2, 2, 2, 3)), {"output_padding": 1}, "less than the stride"),
        ("conv_transpose1d", (_ones(1, 1, 3), _ones(1, 2, 3)), {"padding": ((1, 1),)}, "result would have extents"),
        ("max_pool1d", (_ones(1, 4, 3),), {"window": 5}, "window of 5 elements"),
        ("max_pool2d", (_ones(1, 4, 4, 3),), {"window": 2, "padding": ((2, 0), (0, 0))}, "not narrower"),
        ("max_pool2d", (_ones(1, 2, 9, 3),), {"window": 2, "dilation": 3, "padding": "SAME"}, "step over an extent"),
        ("average_pool3d", (_ones(1, 4, 4, 4, 3),), {"window": (2, 0, 2)}, "at least 1"),
        ("global_max_pool", (_ones(2, 3),), {}, "wanted channels along axis -1"),
    ],
)  # fmt: skip
def test_refusals_say_what_is_wrong(stack: Any, name: str, args: Any, params: Any, words: str) -> None:
    with pytest.raises((ShapeError, DTypeError, OperatorError), match=words):
        getattr(stack.ops, name)(*map(stack.asarray, args), **params)
