"""Products of bytes: by a library that multiplies bytes, by floats, by integers, all to the bit (`graph/rules`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.device.kernels import onednn_integer
from nnc_func.device.onednn.integer import is_exact
from nnc_func.device.onednn.library import present
from nnc_func.errors import DTypeError, ShapeError

EAGER, LIBRARY = nnc.eager(), nnc.eager(nnc.CPU())
STACKS = (nnc.lazy(), nnc.lazy(nnc.CPU()))
BYTES = is_exact(present())
WINDOWS = st.fixed_dictionaries({
    "stride": st.tuples(st.integers(1, 3), st.integers(1, 2)),
    "padding": st.sampled_from(["VALID", "SAME", ((1, 0), (2, 1))]),
    "dilation": st.tuples(st.integers(1, 2), st.integers(1, 2)),
    "groups": st.sampled_from([1, 1, 2, 5]),
    "data_format": st.sampled_from(["NHWC", "NCHW"]),
})  # fmt: skip


def some(seed: int, shape: tuple[int, ...], dtype: str, low: int | None = None, high: int | None = None) -> Any:
    """Whole numbers, many of which are the least or the largest."""
    random, info = np.random.default_rng(seed), np.iinfo(dtype)
    bounds = [info.min if low is None else low, info.max if high is None else high]
    drawn = random.integers(*bounds, shape, endpoint=True)
    return np.where(random.random(shape) < 0.5, drawn, random.choice(bounds, shape)).astype(dtype)


def weights(seed: int, shape: tuple[int, ...], wide: int, channel: int) -> Any:
    """Of int8; or of int16, of which in so many channels of that axis some are no bytes."""
    if not wide:
        return some(seed, shape, "int8")
    found = some(seed, shape, "int16", -128, 127)
    beyond = some(seed + 1, shape, "int16", -255, 254)
    there = np.arange(shape[channel]).reshape([-1 if i == channel else 1 for i in range(len(shape))]) < wide
    return np.where(there, beyond, found)


def all_agree(function: Callable[..., Any], *arrays: Any) -> list[Any]:
    """Programs with the second operand constant, and given; one array, or each of the others, is an input."""
    x, w, z = arrays
    wanted = function(EAGER, x, w, z).numpy()
    np.testing.assert_array_equal(function(LIBRARY, x, w, z).numpy(), wanted)
    programs = []
    for stack in STACKS:
        for is_constant in (True, False):
            left, zero = stack.input("x", x.shape, x.dtype), stack.input("z", (), z.dtype)
            right = stack.asarray(w) if is_constant else stack.input("w", w.shape, w.dtype)
            inputs, given = ([left, zero], [x, z]) if is_constant else ([left, right, zero], [x, w, z])
            program = stack.compile(inputs, function(stack, left, right, zero))
            for _ in range(2):
                np.testing.assert_array_equal(program(*given), wanted)
            programs.append(program)
    return programs


@given(st.sampled_from(["uint8", "int8"]), st.tuples(*[st.integers(1, 9)] * 3), WINDOWS, st.integers(0, 3), st.data())
def test_convolutions(kind: str, extents: Any, windows: Any, wide: int, data: Any) -> None:
    n, height, width = 1 + extents[0] % 2, 4 + extents[1], 4 + extents[2]
    channels, out = (data.draw(st.integers(1, 5)) for _ in range(2))
    groups, seed = windows["groups"], data.draw(st.integers(0, 99))
    shape = (n, height, width, channels * groups)
    shape = shape if windows["data_format"] == "NHWC" else tuple(shape[i] for i in (0, 3, 1, 2))
    w = weights(seed, (2, 3, channels, out * groups), min(wide, channels), 2)
    all_agree(
        lambda stack, x, w, z: stack.ops.conv2d_integer(x, w, z, **windows),
        some(seed + 2, shape, kind), w, some(seed + 3, (), kind),
    )  # fmt: skip


@given(st.sampled_from(["uint8", "int8"]), st.lists(st.integers(1, 5), max_size=2), st.data())
def test_matrix_products(kind: str, batch: list[int], data: Any) -> None:
    rows, columns = (data.draw(st.sampled_from([1, 2, 3, 16, 33])) for _ in range(2))
    inner = data.draw(st.sampled_from([1, 2, 3, 16, 33, 514, 515, 1200]))
    seed, wide = data.draw(st.integers(0, 99)), data.draw(st.integers(0, min(inner, 20)))
    all_agree(
        lambda stack, x, w, z: stack.ops.matmul_integer(x, w, z),
        some(seed, (*batch, rows, inner), kind), weights(seed, (inner, columns), wide, 0), some(seed + 1, (), kind),
    )  # fmt: skip


@pytest.mark.parametrize(("wide", "more"), [(0, 0), (2, 2), (16, 16), (17, None)])
def test_who_multiplies(wide: int, more: int | None) -> None:
    """The library, weights that are no bytes as two of the same channel; not those that are no sum of two bytes."""
    x, w = some(0, (1, 5, 6, 16), "uint8"), weights(0, (3, 3, 16, 8), wide, 2)
    w = w if wide < 17 else np.where(w == w.max(), 256, w)
    program = all_agree(lambda stack, x, w, z: stack.ops.conv2d_integer(x, w, z), x, w, np.uint8(7))[2]
    kernels = {i.op.name: i.kernel for i in program.plan.instructions}
    if not BYTES or more is None:
        assert "conv2d_integer" not in kernels
        return
    assert kernels["conv2d_integer"] == onednn_integer.PACKED
    (found,) = [n for n in program.graph.nodes if n.op.name == "conv2d_integer"]
    assert found.args[1].shape == (3, 3, 16 + more, 8)


@pytest.mark.parametrize(("inner", "value"), [(519, 127), (600, 127), (600, 60), (70_000, -128)])
def test_large_sums_are_not_rounded_and_wrap_around(inner: int, value: int) -> None:
    """The library rounds sums to float32 that are larger than its whole numbers, where it takes something off them."""
    x, w = np.full((2, inner), 255, "uint8"), np.full((inner, 3), value, "int8")
    x[0, 0] -= 1
    w[0] -= value > 0
    programs = all_agree(lambda stack, x, w, z: stack.ops.matmul_integer(x, w, z), x, w, np.uint8(0))
    wanted = (x.astype("int64") @ w.astype("int64")).astype("int32")
    for stack in (EAGER, LIBRARY):
        np.testing.assert_array_equal(stack.ops.matmul_integer(x, w, np.uint8(0)).numpy(), wanted)
    kernels = {i.kernel for i in programs[2].plan.instructions if i.op.name == "matmul_integer"}
    assert (onednn_integer.PACKED in kernels) == (BYTES and value == 60)  # where the weights say that sums are small


def test_large_sums_of_windows() -> None:
    x, w = np.full((1, 4, 4, 66), 255, "uint8"), np.full((4, 4, 66, 2), 127, "int8")
    w[0, 0, 0] = 128 - 255  # and so an odd sum
    all_agree(lambda stack, x, w, z: stack.ops.conv2d_integer(x, w, z), x, w, np.uint8(0))
    all_agree(lambda stack, x, w, z: stack.ops.conv2d_integer(x, w, z), x, w.astype("int16") + 1, np.uint8(3))


@pytest.mark.parametrize(("operands", "error", "said"), [
    ((np.ones((2, 3), "int32"), np.ones((3, 2), "int8"), np.int32(0)), DTypeError, "given int32, int8 and int32"),
    ((np.ones((2, 3), "uint8"), np.ones((3, 2), "int8"), np.int8(0)), DTypeError, "the first one's dtype"),
    ((np.ones((2, 3), "uint8"), np.ones((2, 2), "int8"), np.uint8(0)), ShapeError, "(inner, columns)"),
    ((np.ones((2, 3), "uint8"), np.ones((3, 2), "int8"), np.ones(2, "uint8")), ShapeError, "subtract it before"),
])  # fmt: skip
def test_what_is_no_product_of_bytes_is_refused(operands: Any, error: type[Exception], said: str) -> None:
    for stack in (EAGER, *STACKS):
        with pytest.raises(error) as told:
            stack.ops.matmul_integer(*map(stack.asarray, operands))
        assert said in str(told.value)
        assert "matmul_integer" in str(told.value)
