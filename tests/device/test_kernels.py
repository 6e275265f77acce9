"""What samples do not reach: several blocks of images, NaN in windows, infinities beside padding (`device/kernels`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import nnc_func as nnc
from nnc_func.aval import Aval
from nnc_func.device import NumPy
from nnc_func.device.kernels import depthwise, index, pool, scatter, shifted
from nnc_func.device.shared.kernel_choice import fresh
from nnc_func.device.shared.namespace import writing
from nnc_func.facets.kernels import Kernel, ufunc
from nnc_func.graph.ops import CATALOGUE, activations
from nnc_func.op import Op
from nnc_func.testing.laws import equal

CONVOLUTIONS = [CATALOGUE[name] for name in ("conv2d", "conv2d_input_gradient", "conv2d_kernel_gradient")]
POOLS = [op for op in CATALOGUE.values() if "pool2d" in op.name]
FORMATS = ["NHWC", "NCHW"]


def computed(op: Op, kernel: str, *args: Any, **params: Any) -> Any:
    found = next(k for k in op.kernels if k.name == kernel)
    return fresh(np, found, op.canonical(params))(*args)


def by_single_columns(op: Op, args: Any, like: Any, **params: Any) -> Any:
    """The kernel by columns, one image at a time, in memory that held NaN."""
    kernel: Any = next(k for k in op.kernels if k.name == "columns on numpy")
    avals, canonical = tuple(Aval(a.shape, a.dtype) for a in args), dict(op.canonical(params))
    scratch = tuple(np.full(shape, np.nan, dtype) for shape, dtype in kernel.scratch.func(1, avals, **canonical))
    out = np.full_like(like, np.nan)
    kernel.into.func(1, np, args, (out,), scratch, **canonical)
    return out


def on_host(op: Op) -> list[Kernel]:
    found = [k for k in op.kernels[:-1] if k.library is None and k.namespaces and "numpy" in k.namespaces]
    return [k for k in found if "reordered" not in k.name and k.name != "along rows"]  # of images that lie otherwise


def images(rng: Any, data_format: str, *shape: int) -> Any:
    found = rng.standard_normal(shape)
    return np.ascontiguousarray(found.transpose(0, 3, 1, 2)) if data_format == "NCHW" else found


@pytest.fixture
def one_image_at_a_time(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(pool, "BLOCK", 1)
    monkeypatch.setattr(shifted, "LIMIT", 1)
    monkeypatch.setattr(depthwise, "LIMIT", 1)
    shifted._flat.cache_clear()
    yield
    shifted._flat.cache_clear()


@pytest.mark.usefixtures("one_image_at_a_time")
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("padding", ["VALID", "SAME", ((2, 0), (0, 1))])
def test_convolutions_of_several_blocks(data_format: str, groups: int, padding: Any) -> None:
    rng = np.random.default_rng(0)
    x, w = images(rng, data_format, 3, 6, 7, 4), rng.standard_normal((3, 2, 4 // groups, 4))
    same: dict[str, Any] = {
        "stride": 1, "padding": padding, "dilation": (1, 2), "groups": groups, "data_format": data_format,
    }  # fmt: skip
    forward, to_input, to_kernel = CONVOLUTIONS
    g = rng.standard_normal(computed(forward, "reference", x, w, **same).shape)
    for op, args, more in (
        (forward, (x, w), {}),
        (to_input, (g, w), {"input_shape": x.shape}),
        (to_kernel, (x, g), {"kernel_shape": w.shape}),
    ):
        wanted = computed(op, "reference", *args, **same, **more)
        avals = tuple(Aval(a.shape, a.dtype) for a in args)
        fitting = [k for k in on_host(op) if k.accepts(avals, **dict(op.canonical({**same, **more})))]
        by_channel = groups == 4 and data_format == "NHWC"  # then the convolution itself has three kernels more
        assert len(fitting) == 3 + (groups == 4 and (data_format == "NHWC" or op is to_input)) + 2 * (
            by_channel and op is forward
        )
        for kernel in fitting:
            equal(computed(op, kernel.name, *args, **same, **more), wanted, 64, f"{op}, {kernel.name}")
        equal(by_single_columns(op, args, wanted, **same, **more), wanted, 64, f"{op}, by columns")


@pytest.mark.usefixtures("one_image_at_a_time")
@pytest.mark.parametrize("op", POOLS, ids=str)
@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("stride", [2, 3])
def test_pools_of_several_blocks(op: Op, data_format: str, stride: int) -> None:
    rng = np.random.default_rng(0)
    x = images(rng, data_format, 3, 6, 7, 4)
    params: dict[str, Any] = {"window": 3, "stride": stride, "padding": "SAME", "data_format": data_format}
    g = rng.standard_normal(computed(CATALOGUE["max_pool2d"], "reference", x, **params).shape)
    more = {"input_shape": x.shape} if op.name == "average_pool2d_gradient" else {}
    args = {"g": (g,), "x": (x,), "xg": (x, g), "xt": (x, x)}["".join(op.args)]
    wanted = computed(op, "reference", *args, **params, **more)
    for kernel in on_host(op):
        equal(computed(op, kernel.name, *args, **params, **more), wanted, 16, f"{op}, {kernel.name}")


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_not_finite_stays_where_it_belongs(data_format: str, value: float) -> None:
    rng = np.random.default_rng(0)
    x, w = images(rng, data_format, 2, 4, 5, 2), rng.standard_normal((2, 3, 2, 3))
    g = rng.standard_normal(computed(CONVOLUTIONS[0], "reference", x, w, data_format=data_format).shape)
    with np.errstate(all="ignore"):
        x.flat[7] = value
        more = {"kernel_shape": w.shape, "data_format": data_format}
        found, wanted = (computed(CONVOLUTIONS[2], k, x, g, **more) for k in ("shifted products", "reference"))
        equal(found, wanted, 64)
        w.flat[5] = value
        more = {"input_shape": x.shape, "data_format": data_format}
        found, wanted = (computed(CONVOLUTIONS[1], k, g, w, **more) for k in ("shifted products", "reference"))
        equal(found, wanted, 64)
        found, wanted = (
            computed(CONVOLUTIONS[0], k, x, w, data_format=data_format) for k in ("shifted products", "reference")
        )
        equal(found, wanted, 64)


# --- NaN in windows ----------------------------------------------------------------------------------


def routed(x: Any, g: Any, size: int, stride: int) -> Any:
    """The gradient of the maximum, window by window: to the first NaN, else to the first largest."""
    found = np.zeros_like(x)
    for i in range(g.shape[0]):
        for j in range(g.shape[1]):
            window = x[i * stride : i * stride + size, j * stride : j * stride + size]
            r, c = np.unravel_index(np.argmax(window), window.shape)  # NaN is the largest, the first one wins
            found[i * stride + r, j * stride + c] += g[i, j]
    return found


@given(
    arrays("float64", (5, 6), elements=st.sampled_from([0.0, 1.0, np.nan, np.inf, -np.inf])), st.sampled_from([1, 2, 3])
)
@example(np.array([[0.0, np.nan], [np.nan, 1.0]]), 2)
def test_a_window_with_a_nan_follows_its_first_nan(x: Any, stride: int) -> None:
    windows = tuple((n - 2) // stride + 1 for n in x.shape)
    g = np.arange(1.0, 1 + np.prod(windows)).reshape(windows)
    wanted = routed(x, g, 2, stride)
    t = np.arange(1.0, 1 + x.size).reshape(x.shape)
    picked = [
        [
            (routed(x, np.eye(g.size)[i * windows[1] + j].reshape(windows), 2, stride) * t).sum()
            for j in range(windows[1])
        ]
        for i in range(windows[0])
    ]
    gradient, tangent = CATALOGUE["max_pool2d_gradient"], CATALOGUE["max_pool2d_tangent"]
    for name in ("axis by axis", "offset by offset", "reference"):
        found = computed(gradient, name, x[None, :, :, None], g[None, :, :, None], window=2, stride=stride)
        equal(found[0, :, :, 0], wanted, 0.0, f"gradient, {name}")
        found = computed(tangent, name, x[None, :, :, None], t[None, :, :, None], window=2, stride=stride)
        equal(found[0, :, :, 0], np.array(picked), 0.0, f"tangent, {name}")


def test_every_host_kernel_was_met() -> None:
    assert [k.name for k in on_host(CONVOLUTIONS[0])] == [
        "channel by channel", "rows of windows", "few rows of windows", "columns on numpy", "columns of 512 KiB",
        "shifted products",
    ]  # fmt: skip
    assert [k.name for k in on_host(CATALOGUE["max_pool2d"])] == ["axis by axis", "offset by offset"]


# --- runs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8"])
@pytest.mark.parametrize("size", [1, activations.RUN, activations.RUN + 1, 3 * activations.RUN - 1])
def test_rectifying_run_by_run_is_rectifying(size: int, dtype: str) -> None:
    x = (np.random.default_rng(0).standard_normal(size) * 9).astype(dtype)
    if x.dtype.kind == "f":
        x[0], x[-1] = np.nan, -0.0
    wanted = np.maximum(x, 0)
    for shown in (x, np.stack([x, x], axis=1)[:, 0]):
        found = computed(CATALOGUE["relu"], "in steps", shown)
        np.testing.assert_array_equal(found, wanted)
        if x.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


# --- long rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("axis", [0, 1])
def test_long_rows_are_added_in_the_order_of_their_indices(dtype: str, axis: int) -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((5, 5, index.LONG)) * 9).astype(dtype)
    at = np.array([[3, -1, 3], [0, 3, -5]])
    updates = np.take(x, rng.integers(0, 5, at.shape), axis=axis)
    wanted = np.moveaxis(x, axis, 0).copy()
    np.add.at(wanted, at.reshape(-1), np.moveaxis(updates.reshape(*x.shape[:axis], 6, *x.shape[axis + 1 :]), axis, 0))
    wanted = np.moveaxis(wanted, 0, axis)
    found = computed(CATALOGUE["scatter_add"], "add.at", x, at, updates, axis=axis)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "complex64"])
@pytest.mark.parametrize(("count", "extent"), [(index.MANY, 5), (500, 1), (500, 700), (900, 40)])
def test_many_long_rows_are_added_in_that_order_too(
    dtype: str, count: int, extent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half of them at one index; some at a time, and fewer."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((extent, index.LONG)) * 9).astype(dtype)
    at = np.where(rng.random(count) < 0.5, rng.integers(-extent, extent), rng.integers(-extent, extent, count))
    updates = (rng.standard_normal((count, index.LONG)) * 9).astype(dtype)
    wanted = x.copy()
    np.add.at(wanted, at, updates)
    for most in (index.TOGETHER, count // 3):
        monkeypatch.setattr(index, "TOGETHER", most)
        np.testing.assert_array_equal(computed(CATALOGUE["scatter_add"], "add.at", x, at, updates, axis=0), wanted)


@pytest.mark.parametrize("rows", [2, index.SMALL])
def test_no_index_from_outside_is_wrapped(rows: int) -> None:
    """Whether NumPy looks at the indices, or this library."""
    x, at = np.ones((5, 3)), np.zeros(rows, "int64")
    for wrong in (5, -6):
        at[-1] = wrong
        with pytest.raises(IndexError, match=f"index {wrong} is outside of an axis of extent 5; wanted -5 to 4"):
            index.take_into(np, (x, at), (np.empty((rows, 3)),), (), axis=0)
        with pytest.raises(IndexError, match=f"index {wrong} is outside of an axis of extent 5; wanted -5 to 4"):
            scatter.set_into(np, (x, at, np.zeros((rows, 3))), (x,), (), axis=0)
    assert x.all(), "nothing is written before all indices are looked at"


# --- images in the order of the other data format ----------------------------------------------------


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("padding", ["VALID", ((2, 0), (0, 1))])
@pytest.mark.parametrize("op", [*CONVOLUTIONS, *POOLS], ids=str)
def test_reordered_kernels_equal_the_reference(op: Op, data_format: str, padding: Any) -> None:
    rng = np.random.default_rng(0)
    x, w = images(rng, data_format, 3, 6, 7, 4), rng.standard_normal((3, 2, 4, 5))
    params: dict[str, Any] = {"padding": padding, "data_format": data_format}
    params |= {"window": 3, "stride": 1} if op in POOLS else {}
    forward = CATALOGUE["max_pool2d"] if op in POOLS else CONVOLUTIONS[0]
    g = rng.standard_normal(computed(forward, "reference", *((x,) if op in POOLS else (x, w)), **params).shape)
    args = [{"x": x, "w": w, "g": g, "t": x}[name] for name in op.args]
    params |= {name: value.shape for name, value in (("input_shape", x), ("kernel_shape", w)) if name in op.params}
    wanted = computed(op, "reference", *args, **params)
    axes = (0, 2, 3, 1) if data_format == "NCHW" else (0, 3, 1, 2)
    args = [a if a is w else computed(CATALOGUE["relayout"], "reference", a, layout=axes) for a in args]
    avals = tuple(Aval(a.shape, a.dtype, None if a is w else axes) for a in args)
    items = op.canonical(params)
    kernels = [k for k in NumPy().candidates(op, avals, items) if k.name != "reference"]
    assert len(kernels) == 2 + (op in CONVOLUTIONS)
    result = Aval(wanted.shape, wanted.dtype, op.layout(avals, wanted.shape, **dict(items)))
    for kernel in kernels:
        out = NumPy().empty(result.shape, result.dtype, result.strides)
        scratch = tuple(np.full(s, 7, d) for s, d in (kernel.scratch(avals, **dict(items)) if kernel.scratch else ()))
        NumPy().writing(op, kernel, items, 1, scratch)(*args, out)
        equal(out, wanted, 64, f"{op}, {kernel.name}")
        equal(fresh(np, kernel, items)(*args), wanted, 64, f"{op}, {kernel.name}, eager")
    row_major = tuple(a.having(layout=None) for a in avals)
    assert not any("reordered" in k.name for k in NumPy().candidates(op, row_major, items))


def drawn(name: str, dtype: str) -> list[Any]:
    """Operands of a ufunc: two thirds are not zero, and half of these are negative where it takes such."""
    x = np.tile([1, 0, 1], 11).astype(dtype)
    signs = np.where(np.arange(33) % 2, -1, 1).astype(dtype)
    return [x if dtype == "bool" or (dtype, name) == ("int64", "power") else x * signs] * getattr(np, name).nin


def takes(name: str, dtype: str) -> bool:
    """Whether it has a loop for that dtype."""
    try:
        getattr(np, name)(*drawn(name, dtype))
    except TypeError:
        return False
    return True


BY_ELEMENT = sorted(
    {k.ufunc for op in CATALOGUE.values() for k in op.kernels if k.ufunc and not getattr(np, k.ufunc).signature}
)
DTYPES = ("float32", "float64", "int64", "bool")


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in BY_ELEMENT for d in DTYPES if takes(n, d)])
def test_results_with_gaps_are_written_whole(name: str, dtype: str) -> None:
    """NumPy 2.4's isfinite, isinf, isnan and signbit forget elements there, from sixteen on: they are not asked to."""
    given = drawn(name, dtype)
    wanted = getattr(np, name)(*given)
    before = ~wanted if wanted.dtype == bool else wanted + 1
    gaps = np.stack([before, before], axis=1)[:, 0]
    writing(np, ufunc(name), (), 1, ())(*given, gaps)
    equal(gaps, wanted, 0.0, name)


def test_questions_beside_each_other_are_answered_alike() -> None:
    lazy = nnc.lazy()
    x = lazy.input("x", (40,), "float32")
    program = lazy.compile([x], lazy.ops.stack(lazy.ops.isnan(x), lazy.ops.isnan(x + 1), axis=1))
    values = np.where(np.arange(40) % 3, np.float32("nan"), np.float32(1))
    np.testing.assert_array_equal(program(values), np.isnan(values)[:, None].repeat(2, 1))
