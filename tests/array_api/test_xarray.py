"""xarray on tensors: it calls NumPy's functions on what a DataArray holds (`array_api/numpy_functions`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
BOTH = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
M = np.array([[1.0, -2.5, 3.0], [0.5, 4.0, -1.0]])
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def grouped(d: Any) -> Any:
    return d.assign_coords(g=("b", [0, 1, 0])).groupby("g")


def placed(d: Any) -> Any:
    return d.assign_coords(b=[0.0, 1.0, 3.0])


CALLS: Mapping[str, Callable[[Any, Any], Any]] = {
    "median": lambda xr, d: (d.median(), d.median("a"), d.median(("a", "b"))),
    "quantile": lambda xr, d: (d.quantile(0.3, "b"), d.quantile([0.1, 0.5])),
    "running": lambda xr, d: (d.cumsum("b"), d.cumprod("a")),
    "positions": lambda xr, d: (d.argmax("b"), d.argmin("a"), placed(d).idxmax("b")),
    "spread": lambda xr, d: (d.var("a", ddof=1), d.std(), d.min("b"), d.prod("a"), d.count("a")),
    "moved": lambda xr, d: (d.shift(b=1), d.roll(b=1), d.diff("b"), d.pad(b=1), d.pad(b=1, mode="edge")),
    "rounded": lambda xr, d: (d.round(1), d.clip(0, 2), abs(d), -d, d**2, d.astype("float32"), d.real),
    "products": lambda xr, d: (d.dot(d), d.dot(d.isel(a=0)), xr.dot(d, d.rename(a="c"), dim="b")),
    "groups": lambda xr, d: (
        grouped(d).mean(), grouped(d).sum(), grouped(d) - grouped(d).mean(), grouped(d).max(), grouped(d).median(),
        grouped(d).map(lambda x: x.sum()), placed(d).groupby_bins("b", [-1, 0.5, 3]).mean(), grouped(d).first(),
    ),
    "missing": lambda xr, d: (
        d.where(d > 0), d.where(d > 0).fillna(9.0), d.where(d > 0).mean("b"), d.isnull(), d.dropna("b"),
        d.where(d > 0).combine_first(d),
    ),
    "chosen": lambda xr, d: (
        placed(d).sel(b=[3.0, 0.0]), d[0, ::2], d.loc[0, 1], placed(d).reindex(b=[1.0, 2.0]), d.head(b=2),
        d.sortby(xr.DataArray([3, 1, 2], dims="b")), d.isin([1.0, 3.0]),
    ),
    "shapes": lambda xr, d: (
        d.expand_dims("z"), d.expand_dims("z").squeeze(), d.stack(z=("a", "b")), d.transpose(), xr.concat([d, d], "a"),
        placed(d).assign_coords(a=[0, 1]).stack(z=("a", "b")).unstack("z"), d.isel(b=slice(2)).coarsen(b=2).mean(),
        d.broadcast_like(xr.DataArray(np.ones((2, 2)), dims=("a", "q"))),
    ),
    "calculus": lambda xr, d: (
        placed(d).differentiate("b"), placed(d).integrate("b"), placed(d).cumulative_integrate("b"),
    ),
    "together": lambda xr, d: (
        xr.corr(d, d * 2 + 1, "b"), xr.cov(d, d, "b"), d.weighted(xr.DataArray([1.0, 2.0, 3.0], dims="b")).mean("b"),
        xr.apply_ufunc(np.exp, d), np.maximum(d, 0.0), (d > 0).any("a"), (d > 0).all(),
    ),
    "copied": lambda xr, d: (d.copy(), d.copy(deep=True), d.to_dataset(name="q").mean()["q"]),
}  # fmt: skip


@BOTH
@pytest.mark.parametrize("name", CALLS)
def test_methods_have_the_values_that_they_have_of_arrays(stack: nnc.Stack, name: str) -> None:
    import xarray

    theirs = CALLS[name](xarray, xarray.DataArray(M, dims=("a", "b")))
    ours = CALLS[name](xarray, xarray.DataArray(stack.asarray(M), dims=("a", "b")))
    for found, wanted in zip(ours, theirs, strict=True):
        assert type(found.data) is nnc.Tensor
        assert (found.dims, found.dtype) == (wanted.dims, wanted.dtype)
        np.testing.assert_allclose(found.data.numpy(), wanted.data)


@BOTH
def test_values_and_comparisons(stack: nnc.Stack) -> None:
    import xarray

    x = xarray.DataArray(stack.asarray(M), dims=("a", "b"))
    assert x.equals(x.copy(deep=True))
    assert float(x.isel(a=0, b=0)) == x.isel(a=0, b=0).item() == 1
    assert x.values.tolist() == M.tolist()
    assert "xarray.DataArray" in x._repr_html_()
    changed = x.copy(deep=True)
    changed[0, 1] = 7.0
    assert (changed.data.tolist()[0][1], x.data.tolist()[0][1]) == (7, -2.5)


@pytest.mark.slow
@BOTH
def test_interpolation_between_labels_is_of_values(stack: nnc.Stack) -> None:
    """SciPy does it, which takes the elements."""
    import xarray

    x = placed(xarray.DataArray(stack.asarray(M), dims=("a", "b")))
    np.testing.assert_allclose(x.interp(b=[0.5, 2.0]).values, [[-0.75, 0.25], [2.25, 1.5]])


@BOTH
def test_what_xarray_does_by_memory_is_refused_in_words(stack: nnc.Stack) -> None:
    import xarray

    x = xarray.DataArray(stack.asarray(M), dims=("a", "b"))
    with pytest.raises(AttributeError, match="the array API has no 'lib', and NumPy's does not work on tensors"):
        x.rolling(b=2).mean()
    with pytest.raises(TypeError, match="Vectorized indexing is not supported"):
        x.isel(a=xarray.DataArray([0, 1], dims="z"), b=xarray.DataArray([2, 0], dims="z"))


def test_graphs_are_built_through_it() -> None:
    import xarray

    stack = STACKS["lazy"]

    def f(v: Any) -> Any:
        x = xarray.DataArray(v, dims=("a", "b"))
        return (grouped(x).mean() * 2).sum().data

    gradient = stack.grad(f)(M).numpy()
    np.testing.assert_allclose(gradient, np.broadcast_to([1.0, 2.0, 1.0], (2, 3)))


@BOTH
def test_the_namespace_has_what_works_of_numpys_beyond_the_standard(stack: nnc.Stack) -> None:
    xp = stack.array_api
    assert xp.pad([1, 2], 1).tolist() == [0, 1, 2, 0]
    assert xp.einsum("i,i->", stack.asarray([1.0, 2.0]), [3.0, 4.0]).item() == 11
    assert not hasattr(xp, "packbits")
    with pytest.raises(AttributeError, match="the array API has no 'roots'"):
        xp.roots  # noqa: B018 - looking it up is what raises
