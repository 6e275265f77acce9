"""Convolutions go over a large image in bands (`device/kernels/columns`, `device/kernels/conv`)."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import models
from nnc_func.device.kernels import conv
from nnc_func.device.kernels.columns import HOST_COLUMNS, planned
from nnc_func.graph.ops import CATALOGUE

DRAWN = range(120)


def _drawn(draw: random.Random) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Shapes of images and of a kernel, and the parameters of a convolution that takes them."""
    while True:
        groups, images = draw.choice([1, 1, 2, 3]), draw.choice([0, 1, 2, 3])
        channels, out = draw.choice([1, 2, 9]), draw.choice([1, 3]) * groups
        around = tuple((draw.randint(0, n), draw.randint(0, n)) for n in (7, 3))
        params = {
            "stride": (draw.randint(1, 3), draw.randint(1, 3)), "padding": draw.choice(["SAME", "VALID", around]),
            "dilation": (draw.randint(1, 2), draw.randint(1, 2)), "groups": groups,
            "data_format": draw.choice(["NHWC", "NCHW"]),
        }  # fmt: skip
        extents = draw.randint(1, 9), draw.randint(1, 9)
        last = params["data_format"] == "NHWC"
        x = (images, *extents, channels * groups) if last else (images, channels * groups, *extents)
        w = (draw.randint(1, 4), draw.randint(1, 4), channels, out)
        try:
            CATALOGUE["conv2d"].shape(x, w, **params)
        except nnc.errors.ShapeError:
            continue
        return x, w, params


@pytest.mark.parametrize("limit", [1, 64, 300, 2000])
def test_bands_equal_the_reference(limit: int) -> None:
    draw, banded = random.Random(limit), 0
    for seed in DRAWN:
        x_shape, w_shape, params = _drawn(draw)
        numbers = np.random.default_rng(seed)
        shape = CATALOGUE["conv2d"].shape(x_shape, w_shape, **params)
        x, w, g = (numbers.standard_normal(s) for s in (x_shape, w_shape, shape))
        plan = planned(limit, 8, x_shape, w_shape, **params)
        banded += plan.height < plan.over.outputs[0]
        for into, scratch, reference, arrays, more in (
            (conv._conv_into, conv._conv_scratch, conv._conv_reference, (x, w), {}),
            (
                conv._input_gradient_into, conv._input_gradient_scratch, conv._input_gradient_reference, (g, w),
                {"input_shape": x_shape},
            ),
            (
                conv._kernel_gradient_into, conv._kernel_gradient_scratch, conv._kernel_gradient_reference, (x, g),
                {"kernel_shape": w_shape},
            ),
        ):  # fmt: skip
            wanted = reference(np, *arrays, **more, **params)  # type: ignore[operator]
            out = np.full(wanted.shape, np.nan)
            given = tuple(np.full(s, np.nan, d) for s, d in scratch(limit, arrays, **more, **params))  # type: ignore[operator]
            into(limit, np, arrays, (out,), given, **more, **params)  # type: ignore[operator]
            np.testing.assert_allclose(out, wanted, rtol=1e-12, atol=1e-12, err_msg=f"{x_shape} {w_shape} {params}")
    assert banded > 10 or limit == 2000, banded


@pytest.mark.parametrize("kernels", [conv.CONV2D, conv.CONV2D_INPUT_GRADIENT, conv.CONV2D_KERNEL_GRADIENT])
def test_a_large_image_takes_no_more_columns_than_many_small_ones(kernels: Any) -> None:
    x, w, g = (nnc.Aval(s, "float32") for s in ((2, 570, 570, 64), (3, 3, 64, 64), (2, 568, 568, 64)))
    params = {"stride": (1, 1), "padding": "VALID", "dilation": (1, 1), "groups": 1, "data_format": "NHWC"}
    given, more = {
        id(conv.CONV2D): ((x, w), {}),
        id(conv.CONV2D_INPUT_GRADIENT): ((g, w), {"input_shape": x.shape}),
        id(conv.CONV2D_KERNEL_GRADIENT): ((x, g), {"kernel_shape": w.shape}),
    }[id(kernels)]
    kernel = next(k for k in kernels if k.name == "columns on numpy")
    taken = sum(math.prod(shape) * dtype.itemsize for shape, dtype in kernel.scratch(given, **more, **params))
    assert taken <= 2.5 * HOST_COLUMNS  # columns, and a part of the sum: 743 MB when they were of a whole image


def test_training_a_u_net_takes_no_more_than_its_activations() -> None:
    stack = nnc.lazy(nnc.Null())
    plan = stack.engine.compile(models.get("u-net").training(stack, 2, seed=None)).plan
    assert plan.arena_bytes <= 0.75 * 1_929_829_184  # what it took with columns of whole images


@pytest.mark.parametrize("seed", DRAWN)
def test_what_is_bound_computes_the_same(seed: int) -> None:
    """Of images that are one block, again and again in the same scratch memory, and of images with gaps."""
    x_shape, w_shape, params = _drawn(random.Random(seed))
    draw = np.random.default_rng(seed)
    x, w = (draw.standard_normal(shape).astype("float32") for shape in (x_shape, w_shape))
    kernel = next(k for k in CATALOGUE["conv2d"].kernels if k.name == "columns on numpy")
    wanted = kernel.compute(np, x, w, **params)
    found = np.empty_like(wanted)
    of = kernel.bound((x, w, found), **params)
    if of is None:
        assert 0 in x_shape or not found.size or x_shape[0] > 1
        return
    run = of(*[np.full(shape, np.nan, dtype) for shape, dtype in kernel.scratch((x, w), **params)])
    for given in (x, np.repeat(x, 2, axis=-1)[..., ::2]):
        found.fill(np.nan)
        run(given, w, found)
        np.testing.assert_array_equal(found, wanted)
