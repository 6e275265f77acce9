"""Kernels of images that lie in memory in the order of the other data format: the same kernels, shown them so.

Images of the format NCHW whose channels lie innermost are images of the format NHWC to a kernel that is shown a
transposed view: so a convolution may run where its memory suits it, whatever its axes are called.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from nnc_func.device.kernels.linalg import Arrays, Scratch
from nnc_func.facets.kernels import Kernel, Operand
from nnc_func.facets.layouts import NCHW, NHWC, ROW_MAJOR
from nnc_func.facets.views import Cost

TO = {NHWC: (0, 3, 1, 2), NCHW: (0, 2, 3, 1)}  # data format to the axes of the other one
OTHER = {NHWC: NCHW, NCHW: NHWC}


def reordered(kernel: Kernel, images: tuple[bool, ...]) -> Kernel:
    """The kernel for images in the order of the other data format.

    Parameters
    ----------
    kernel
        With `compute`, `into` and `scratch`, for row-major arrays, of an operator with the parameter ``data_format``.
    images
        Which of its arguments, and at last whether its result, are images; the others stay row-major.
    """
    compute, into, scratch = kernel.compute, kernel.into, kernel.scratch
    assert compute is not None, kernel
    assert into is not None, kernel

    def turned(arrays: Arrays, data_format: str, which: tuple[bool, ...]) -> Arrays:
        return tuple(a.transpose(TO[data_format]) if it else a for a, it in zip(arrays, which, strict=True))

    def computed(xp: Any, *arrays: Any, data_format: str, **params: Any) -> Any:
        views = turned(arrays, data_format, images[:-1])
        found = compute(xp, *views, data_format=OTHER[data_format], **_params(params, data_format))
        return found.transpose(TO[OTHER[data_format]]) if images[-1] else found

    def written(xp: Any, arrays: Arrays, outs: Arrays, given: Arrays, *, data_format: str, **params: Any) -> None:
        views, results = turned(arrays, data_format, images[:-1]), turned(outs, data_format, images[-1:])
        into(xp, views, results, given, data_format=OTHER[data_format], **_params(params, data_format))

    def shown(avals: Arrays, data_format: str) -> Arrays:
        return tuple(
            Operand(_permuted(a.shape, data_format) if it else a.shape, a.dtype)
            for a, it in zip(avals, images[:-1], strict=True)
        )

    def wanted(avals: Arrays, *, data_format: str, **params: Any) -> Scratch:
        assert scratch is not None
        return scratch(shown(avals, data_format), data_format=OTHER[data_format], **_params(params, data_format))

    def cost(args: Arrays, results: Arrays, *, data_format: str, **params: Any) -> Cost:
        assert kernel.cost is not None
        given = shown(args, data_format)
        return kernel.cost(given, results, data_format=OTHER[data_format], **_params(params, data_format))

    def accepts(avals: Arrays, *, data_format: str, **params: Any) -> bool:
        if all(a.layout is None for a in avals):
            return False
        return kernel.accepts(shown(avals, data_format), data_format=OTHER[data_format], **_params(params, data_format))

    return evolve(
        kernel, name=f"{kernel.name}, reordered", compute=computed, into=written, accepts=accepts,
        scratch=None if scratch is None else wanted, cost=None if kernel.cost is None else cost,
        layouts=tuple(tuple(order if it else ROW_MAJOR for it in images) for order in OTHER),
        bound=None,  # which is of row-major images
    )  # fmt: skip


def _permuted(shape: tuple[int, ...], data_format: str) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in TO[data_format])


def _params(params: dict[str, Any], data_format: str) -> dict[str, Any]:
    """The parameters, those that are shapes of images permuted too."""
    if "input_shape" not in params:
        return params
    return params | {"input_shape": _permuted(params["input_shape"], data_format)}


def with_reordered(kernels: tuple[Kernel, ...], images: tuple[bool, ...]) -> tuple[Kernel, ...]:
    """The kernels, and before the last one, the reference, those of NumPy once more for images in the other order."""
    others = [k for k in kernels if k.layouts is not None and k.namespaces == frozenset({"numpy"})]
    return (*kernels[:-1], *(reordered(k, images) for k in others), kernels[-1])
