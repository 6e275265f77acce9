"""Products of bfloat16 by oneDNN lose nothing, whatever stands in their operands (`device/kernels/onednn_bfloat16`)."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func import nn
from nnc_func.device.kernels import onednn_bfloat16 as narrow
from nnc_func.device.kernels import onednn_calls
from nnc_func.device.kernels.onednn_bfloat16 import PAIR, Exact, exponent
from nnc_func.device.onednn.bfloat16 import is_native
from nnc_func.device.onednn.library import present
from nnc_func.graph.ops import CATALOGUE

pytestmark = pytest.mark.usefixtures("of_several_threads")
B, F = np.dtype(ml_dtypes.bfloat16), np.dtype("float32")
EAGER, LAZY, REFERENCE = nnc.eager(nnc.CPU()), nnc.lazy(nnc.CPU()), nnc.eager()
NATIVE = is_native(present())  # whether this processor multiplies bfloat16
EMULATED = "in float32"
ONE, PACKED = ("onednn", "onednn, packed") if NATIVE else (EMULATED, EMULATED)
SMALLEST = 2.0**-133  # a subnormal number


def kernels(program: Any) -> list[str]:
    return [i.kernel for i in program.plan.instructions if not i.view]


def drawn(seed: int, shape: tuple[int, ...], least: int, most: int, zeros: bool = False) -> Any:
    """Numbers of any sign with such exponents; with half of them zero."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=shape) * 2.0 ** draw.uniform(least, most, size=shape)
    return np.where(draw.random(shape) < 0.5, 0, x).astype(B) if zeros else x.astype(B)


def is_close(found: Any, exact: Any, magnitudes: Any, count: int) -> None:
    """Rounded once, from a sum in float32 of so many terms of those magnitudes: nothing more is lost than that."""
    assert found.dtype == B
    bound = abs(exact) * 2.0**-8 + magnitudes * 2.0**-24 * (count + 2) + SMALLEST / 2
    assert (abs(found.astype("float64") - exact) <= bound).all()


def same(found: Any, wanted: Any) -> bool:
    return bool(found.dtype == wanted.dtype and np.array_equal(found.astype(F), wanted.astype(F), equal_nan=True))


EXPONENTS = st.sampled_from([(-1, 1), (-8, 8), (-140, -127), (-135, -100), (-70, -50), (-60, 0), (20, 50)])


# --- matrix products ---------------------------------------------------------------------------------------


@given(
    st.tuples(st.integers(1, 70), st.integers(1, 300), st.integers(1, 70)), st.tuples(EXPONENTS, EXPONENTS),
    st.tuples(st.booleans(), st.booleans()), st.sampled_from([(), (1,), (3,)]), st.booleans(), st.integers(0, 9),
)  # fmt: skip
@example((64, 64, 64), ((-135, -100), (20, 50)), (False, False), (), False, 0)
@example((64, 64, 64), ((-70, -50), (-70, -50)), (False, True), (3,), True, 0)
def test_matrix_products_lose_nothing(
    extents: Any, exponents: Any, turned: Any, batch: Any, zeros: bool, seed: int
) -> None:
    """At once, and compiled, with a constant or an input on the right, whatever the strides."""
    rows, inner, columns = extents
    a = drawn(seed, (*batch, *((inner, rows) if turned[0] else (rows, inner))), *exponents[0], zeros)
    b = drawn(seed + 1, (columns, inner) if turned[1] else (inner, columns), *exponents[1])
    wide = [x.astype("float64") for x in (a, b)]
    left, right = (x.swapaxes(-1, -2) if t else x for x, t in zip(wide, turned, strict=True))
    facts = left @ right, abs(left) @ abs(right), inner
    params = {"transpose_a": turned[0], "transpose_b": turned[1]}
    is_close(EAGER.ops.matmul(a, b, **params).numpy(), *facts)
    x, y = LAZY.input("x", a.shape, B), LAZY.input("y", b.shape, B)
    lazily = LAZY.compile([x, y], LAZY.ops.matmul(x, y, **params))
    fixed = LAZY.compile([x], LAZY.ops.matmul(x, b, **params))
    for seen in (a, np.repeat(a, 2, axis=-1)[..., ::2], np.asfortranarray(a)):
        is_close(lazily(seen, b), *facts)
        is_close(fixed(seen), *facts)


def test_kernels_are_the_processors_own_where_it_has_them() -> None:
    x = LAZY.input("x", (64, 256), B)
    w = LAZY.input("w", (256, 128), B)
    assert kernels(LAZY.compile([x, w], x @ w)) == [ONE]
    assert kernels(LAZY.compile([x], x @ drawn(0, (256, 128), -1, 1))) == [PACKED]
    numpy = nnc.lazy()
    x = numpy.input("x", (64, 256), B)
    assert kernels(numpy.compile([x], x @ drawn(0, (256, 128), -1, 1))) == [EMULATED]


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0, 3e38, 2.0**-133])
@pytest.mark.parametrize("other", [np.nan, np.inf, 0.0, 1.0, -3e38, 2.0**-133])
def test_special_numbers_are_multiplied_as_in_float32(special: float, other: float) -> None:
    a, b = np.zeros((40, 64), B), np.zeros((64, 48), B)
    a[3, 5], b[5, 7], b[5, 8] = special, other, 1
    with np.errstate(all="ignore"):
        wanted = np.matmul(a.astype(F), b.astype(F)).astype(B)
        assert same(EAGER.ops.matmul(a, b).numpy(), wanted)


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_an_infinity_at_the_end_of_an_odd_window_is_one(batch: tuple[int, ...], is_turned: bool) -> None:
    """Products are summed in pairs: the last of an odd number is multiplied by what lies behind, or a zero."""
    memory = np.ones((*batch, 19, 106), B)
    a = memory[..., 1:17, 1:102] if not is_turned else np.ones((*batch, 106, 19), B)[..., 1:102, 1:17].swapaxes(-1, -2)
    b = np.ones((*batch, 101, 27), B)
    a[..., 7, -1] = np.inf
    x, y = LAZY.input("x", a.shape, B), LAZY.input("y", b.shape, B)
    found = LAZY.compile([x, y], x @ y)(a, b).astype(F)
    assert (found[..., 7, :] == np.inf).all()
    assert np.isfinite(np.delete(found, 7, axis=-2)).all()


def test_what_underflows_only_in_the_processors_instructions_is_kept() -> None:
    """A sum of products each below the least normal number; a subnormal operand; a difference that is one."""
    a, b = np.full((32, 256), 2.0**-70, B), np.full((256, 32), 2.0**-60, B)
    assert (EAGER.ops.matmul(a, b).numpy() == np.array(2.0**-122, B)).all()
    a, b = np.full((32, 256), SMALLEST, B), np.full((256, 32), 2.0**100, B)
    assert (EAGER.ops.matmul(a, b).numpy() == np.array(2.0**-25, B)).all()
    a, b = np.zeros((32, 256), B), np.full((256, 32), 2.0**-60, B)
    a[:, 0], a[:, 1] = 1.5 * 2.0**-66, -(2.0**-66)
    assert (EAGER.ops.matmul(a, b).numpy() == np.array(2.0**-127, B)).all()


@given(st.integers(-70, -50), st.integers(-70, -50), st.integers(0, 127), st.integers(0, 127))
@example(-56, -56, 1, 0)
def test_at_the_bound_differences_are_exact(first: int, second: int, bits: int, more: int) -> None:
    """Of two products that differ in their last bit the difference is what it is, by whichever way."""
    a, b = np.zeros((24, 64), B), np.zeros((64, 24), B)
    x, y = (1 + bits / 128) * 2.0**first, (1 + more / 128) * 2.0**second
    a[:, 0], a[:, 1], b[0], b[1] = x, -(2.0**first), y, y
    wanted = (x - 2.0**first) * y
    assert (EAGER.ops.matmul(a, b).numpy() == np.array(wanted, B)).all()


# --- the least magnitude -----------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 0xFFFF), min_size=1, max_size=40), st.integers(1, 50), st.booleans())
@example([0, 0x8000], 1, False)
@example([0x7FC0, 0xFF80], 3, True)
@example([1, 0x3F80], 3, True)
@example([0x3F80, 0x3F80, 0x7F80], 2, False)
def test_the_exponent_of_the_least_magnitude(elements: list[int], room: int, reverses: bool) -> None:
    x = np.array(elements, np.uint16).view(B)
    x = np.broadcast_to(x[::-1], (2, x.size)).T if reverses else x
    magnitudes = [n & 0x7FFF for n in elements if n & 0x7FFF]
    wanted = min(magnitudes) >> 7 if magnitudes else 256
    assert exponent(x, np.empty(room, np.uint16)) == wanted
    is_finite = all(n & 0x7F80 != 0x7F80 for n in elements)
    assert exponent(x, np.empty(room, np.uint16), finite=True) == (wanted if is_finite else 0)


@pytest.mark.parametrize(("left", "right", "is_kept"), [
    (PAIR // 2, PAIR // 2, True), (PAIR // 2, PAIR // 2 - 1, False), (1, PAIR - 1, True), (0, 255, False),
])  # fmt: skip
def test_who_computes_depends_on_exponents(left: int, right: int, is_kept: bool) -> None:
    by: list[str] = []
    run = Exact(lambda *_: by.append("run"), lambda *_: by.append("widely"), (), False, np.empty(8, np.uint16))
    a, b = (np.array([[max(each, 1) << 7 if each else 1]], np.uint16).view(B) for each in (left, right))
    run(a, b, np.empty((1, 1), B))
    run(b, a, np.empty((1, 1), B))
    assert by == ["run" if is_kept else "widely"] * 2


# --- convolutions ------------------------------------------------------------------------------------------


@given(
    st.sampled_from(["conv2d", "conv2d_input_gradient", "conv2d_kernel_gradient"]), st.sampled_from(["NHWC", "NCHW"]),
    st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), st.integers(1, 20), st.integers(1, 20)),
    st.integers(1, 3), st.tuples(st.integers(1, 3), st.integers(1, 3)), st.sampled_from([(1, 1), (2, 1), (1, 2)]),
    st.sampled_from([1, 2]), st.tuples(EXPONENTS, EXPONENTS), st.integers(0, 9),
)  # fmt: skip
@example("conv2d", "NHWC", (2, 8, 8, 16, 16), 3, (1, 1), (1, 1), 1, ((-140, -127), (20, 50)), 0)
@example("conv2d_kernel_gradient", "NHWC", (1, 4, 32, 2, 2), 2, (1, 1), (2, 1), 2, ((-1, 1), (-1, 1)), 0)
@example("conv2d_kernel_gradient", "NHWC", (1, 8, 128, 24, 24), 3, (1, 1), (2, 2), 1, ((-1, 1), (-1, 1)), 0)
@example("conv2d_kernel_gradient", "NHWC", (1, 4, 1, 16, 16), 2, (1, 2), (1, 1), 1, ((-1, 1), (-1, 1)), 0)
@example("conv2d_kernel_gradient", "NHWC", (3, 2, 1, 6, 6), 3, (3, 1), (1, 1), 1, ((-1, 1), (-1, 1)), 0)
@example("conv2d_kernel_gradient", "NHWC", (2, 2, 2, 1, 16), 2, (1, 3), (1, 1), 1, ((-1, 1), (-1, 1)), 0)
def test_convolutions_lose_nothing(
    name: str, data_format: str, extents: Any, size: int, stride: Any, dilation: Any, groups: int, exponents: Any,
    seed: int,
) -> None:  # fmt: skip
    """Whatever was in scratch memory before: some elements of gradients were what lay there."""
    n, height, width, channels, out = extents
    shape = (n, height, width, channels * groups)
    wide = nnc.eager()
    params: dict[str, Any] = {
        "padding": "SAME", "stride": stride, "dilation": dilation, "groups": groups, "data_format": data_format
    }  # fmt: skip

    def laid(x: Any) -> Any:
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if data_format == "NCHW" else x

    x, w = laid(np.zeros(shape)), np.zeros((size, size, channels, out * groups))
    result = wide.ops.conv2d(x, w, **params).shape
    shapes = {"x": x.shape, "w": w.shape, "y": result}
    which = {"conv2d": "xw", "conv2d_input_gradient": "yw", "conv2d_kernel_gradient": "xy"}[name]
    if name == "conv2d_input_gradient":
        params["input_shape"] = x.shape
    elif name == "conv2d_kernel_gradient":
        params["kernel_shape"] = w.shape
    arrays = [drawn(seed + i, shapes[each], *exponents[i]) for i, each in enumerate(which)]
    doubles = [a.astype("float64") for a in arrays]
    exact = getattr(wide.ops, name)(*doubles, **params).numpy()
    magnitudes = getattr(wide.ops, name)(*map(abs, doubles), **params).numpy()
    count = max(size * size * channels, n * height * width, size * size * out)
    op = getattr(EAGER.ops, name)
    for _ in range(2):  # the first call has memory of its own, and this thread's others share one
        onednn_calls._known.scratch.view(np.uint8)[...] = 0xFF
        is_close(op(*arrays, **params).numpy(), exact, magnitudes, count)
    inputs = [LAZY.input(f"x{i}", a.shape, B) for i, a in enumerate(arrays)]
    of = getattr(LAZY.ops, name)
    is_close(LAZY.compile(inputs, of(*inputs, **params))(*arrays), exact, magnitudes, count)
    is_close(LAZY.compile(inputs[:1], of(inputs[0], arrays[1], **params))(arrays[0]), exact, magnitudes, count)


@pytest.mark.parametrize("special", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["conv2d", "conv2d_input_gradient", "conv2d_kernel_gradient"])
@pytest.mark.parametrize("channels", [1, 3, 16, 17])
def test_what_is_not_finite_reaches_what_it_is_a_part_of(name: str, channels: int, special: float) -> None:
    """Pairs are summed: the other one of an odd channel is the next pixel's, times zero."""
    shapes = {"x": (1, 3, 4, channels), "w": (2, 2, channels, channels), "y": (1, 2, 3, channels)}
    which = {"conv2d": "xw", "conv2d_input_gradient": "yw", "conv2d_kernel_gradient": "xy"}[name]
    more = {"conv2d": {}, "conv2d_input_gradient": {"input_shape": shapes["x"]}}
    params = more.get(name, {"kernel_shape": shapes["w"]})
    for place in range(2):
        arrays = [np.ones(shapes[each], B) for each in which]
        at = 0, 1, min(1, arrays[place].shape[2] - 1), 0
        arrays[place][at] = special
        found = getattr(EAGER.ops, name)(*arrays, **params).numpy()
        with np.errstate(all="ignore"):
            wanted = getattr(REFERENCE.ops, name)(*[a.astype(F) for a in arrays], **params).numpy()
        np.testing.assert_array_equal(np.isfinite(found.astype(F)), np.isfinite(wanted))


@pytest.mark.parametrize(("width", "size", "stride", "before", "dilation"), [
    (12, 5, 7, 3, 1), (14, 2, 6, 4, 1), (15, 2, 6, 4, 2), (15, 3, 6, 5, 1), (13, 3, 8, 4, 2), (12, 4, 8, 3, 1),
    (15, 3, 5, 4, 2), (11, 4, 4, 3, 2), (10, 3, 5, 3, 2),
])  # fmt: skip
def test_windows_apart_that_leave_the_end_out_write_nowhere_else(
    width: int, size: int, stride: int, before: int, dilation: int
) -> None:
    """The library has written behind its arrays, and the process was ended."""
    x, w = drawn(0, (1, 2, width, 16), -1, 1), drawn(1, (1, size, 16, 16), -1, 1)
    params: dict[str, Any] = {
        "stride": (1, stride), "padding": ((0, 0), (before, 0)), "dilation": (1, dilation)
    }  # fmt: skip
    exact = REFERENCE.ops.conv2d(x.astype("float64"), w.astype("float64"), **params).numpy()
    magnitudes = REFERENCE.ops.conv2d(abs(x).astype("float64"), abs(w).astype("float64"), **params).numpy()
    is_close(EAGER.ops.conv2d(x, w, **params).numpy(), exact, magnitudes, 16 * size)
    t = LAZY.input("t", x.shape, B)
    program = LAZY.compile([t], LAZY.ops.conv2d(t, w, **params))
    assert kernels(program) == [EMULATED]


# --- what follows ------------------------------------------------------------------------------------------


def test_what_keeps_small_numbers_is_computed_with_a_product_and_rounded_once() -> None:
    x, w, bias, more = (drawn(i, s, -3, 3) for i, s in enumerate([(64, 256), (256, 128), (128,), (64, 128)]))
    t, u = LAZY.input("t", x.shape, B), LAZY.input("u", more.shape, B)
    program = LAZY.compile([t, u], LAZY.ops.relu(t @ w + bias + u))
    assert kernels(program) == ([PACKED] if NATIVE else [EMULATED] * 4)
    wide = [a.astype("float64") for a in (x, w, bias, more)]
    sums = wide[0] @ wide[1] + wide[2] + wide[3]
    magnitudes = abs(wide[0]) @ abs(wide[1]) + abs(wide[2]) + abs(wide[3])
    found = program(x, more)
    near = magnitudes * 2.0**-24 * 260 + abs(sums) * 2.0 ** -(8 if NATIVE else 6) + (0 if NATIVE else 2.0**-6)
    assert (abs(found.astype("float64") - np.maximum(sums, 0)) <= near).all()
    x[3, 5] = np.nan
    assert np.isnan(program(x, more).astype(F)[3]).all()


def test_a_small_addend_is_not_lost() -> None:
    x, w = np.zeros((64, 256), B), drawn(0, (256, 128), -1, 1)
    bias = np.full((128,), SMALLEST, B)
    t = LAZY.input("t", x.shape, B)
    assert same(LAZY.compile([t], t @ w + bias)(x), np.broadcast_to(bias, (64, 128)))


@pytest.mark.parametrize("last", ["sigmoid", "tanh", "multiply", "silu"])
def test_what_follows_and_may_make_numbers_small_is_computed_by_itself(last: str) -> None:
    x, w = drawn(0, (64, 256), -3, 3), drawn(1, (256, 128), -3, 3)
    t = LAZY.input("t", x.shape, B)
    product = LAZY.ops.relu(t @ w)
    y = product * np.float32(2.0**-30).astype(B) if last == "multiply" else getattr(LAZY.ops, last)(product)
    program = LAZY.compile([t], y)
    assert kernels(program)[:1] == [PACKED if NATIVE else EMULATED]
    assert kernels(program)[-1] == EMULATED
    one = nnc.eager()
    wanted = one.ops.relu(one.ops.matmul(x, w))
    wanted = wanted * np.float32(2.0**-30).astype(B) if last == "multiply" else getattr(one.ops, last)(wanted)
    np.testing.assert_allclose(program(x).astype(F), wanted.numpy().astype(F), rtol=2**-6, atol=2**-6)


def test_a_convolution_is_finished_too() -> None:
    x, w, bias = (drawn(i, s, -3, 3) for i, s in enumerate([(2, 8, 8, 16), (3, 3, 16, 32), (32,)]))
    t = LAZY.input("t", x.shape, B)
    program = LAZY.compile([t], LAZY.ops.relu(LAZY.ops.conv2d(t, w, padding="SAME") + bias))
    assert kernels(program) == ([PACKED] if NATIVE else [EMULATED] * 3)
    wide = [a.astype("float64") for a in (x, w, bias)]
    sums = REFERENCE.ops.conv2d(*wide[:2], padding="SAME").numpy() + wide[2]
    np.testing.assert_allclose(program(x).astype("float64"), np.maximum(sums, 0), rtol=2**-6, atol=2**-3)


# --- what stays the same -----------------------------------------------------------------------------------


def test_weights_that_change_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    before = narrow.exponent

    def counting(x: Any, buffer: Any, finite: bool = False) -> int:
        looked.append(x.size)
        return before(x, buffer, finite)

    monkeypatch.setattr(narrow, "exponent", counting)
    x, shape = np.full((64, 256), 2.0**60, B), (256, 128)
    w = LAZY.variable("w", np.full(shape, 0.5, B))
    t = LAZY.input("t", x.shape, B)
    program = LAZY.compile([t], t @ w)
    g = LAZY.input("g", shape, B)
    writing = LAZY.compile([g], [], [(w, g * 1)])
    for value in (0.5, SMALLEST, 0.25, SMALLEST):
        writing(np.full(shape, value, B))
        for _ in range(3):
            assert same(program(x), np.full((64, 128), value * 2.0**68, B))
    if NATIVE:
        assert looked.count(64 * 256) == 12
        assert 4 <= looked.count(256 * 128) <= 8  # twice for each value


def test_models_train_as_they_do_on_numpy() -> None:
    x = np.random.default_rng(0).normal(size=(64, 40)).astype(B)
    y = (x.astype(F).sum(1) > 0).astype("int64")
    losses = []
    for device in (nnc.CPU(), nnc.NumPy()):
        for stack in (nnc.eager(device), nnc.lazy(device)):
            model = nn.Sequential(nn.Dense(160), nn.relu, nn.Dense(2)).init(0, (None, 40), "bfloat16")
            done = nn.train(
                stack, model, nn.softmax_cross_entropy, nn.SGD(), nn.Batches(x, y, 32), rate=0.1, steps=30,
                progress=False,
            )  # fmt: skip
            assert done.model[0].weight.dtype == B
            losses.append(np.asarray(done.losses, "float64"))
    assert all(each[-4:].mean() < each[0] / 2 for each in losses)
    for each in losses[1:]:
        np.testing.assert_allclose(each, losses[0], rtol=0.2, atol=0.1)


# --- other processors --------------------------------------------------------------------------------------


def test_a_processor_without_it_computes_in_float32() -> None:
    text = (
        "import numpy as np, ml_dtypes, nnc_func as nnc\n"
        "lazy = nnc.lazy(nnc.CPU()); x = lazy.input('x', (64, 256), 'bfloat16')\n"
        "program = lazy.compile([x], x @ np.full((256, 128), 0.5, ml_dtypes.bfloat16))\n"
        "print(program.plan.instructions[0].kernel, float(program(np.ones((64, 256), ml_dtypes.bfloat16))[0, 0]))"
    )
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environment)
    assert found.stdout.split() == ["in", "float32", "128.0"], found.stderr


def test_kernels_that_take_it_are_a_librarys() -> None:
    """What computes in NumPy alone would have to be a kernel for it on every device."""
    found = {k.library is not None for op in CATALOGUE.values() for k in op.kernels if k.narrow}
    assert found == {True}


# --- fast math ---------------------------------------------------------------------------------------------


def test_with_fast_math_operands_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """And sigmoids are computed with a product: what is lost are small numbers, and NaN behind it."""
    monkeypatch.setattr(narrow, "exponent", lambda *_: pytest.fail("it was looked at"))
    fast, eager = nnc.lazy(nnc.CPU(fast_math=True)), nnc.eager(nnc.CPU(fast_math=True))
    named = ["onednn, packed, fast math" if NATIVE else EMULATED]
    a, w = drawn(0, (64, 256), -3, 3), drawn(1, (256, 128), -3, 3)
    images, k = drawn(2, (2, 8, 8, 16), -3, 3), drawn(3, (3, 3, 16, 32), -3, 3)
    x, t = fast.input("x", a.shape, B), fast.input("t", images.shape, B)
    wide = [each.astype("float64") for each in (a, w, images, k)]
    product, convolved = wide[0] @ wide[1], REFERENCE.ops.conv2d(*wide[2:], padding="SAME").numpy()
    programs = (
        ([x], a, x @ w, product), ([t], images, fast.ops.conv2d(t, k, padding="SAME"), convolved),
        ([x], a, fast.ops.sigmoid(x @ w), 1 / (1 + np.exp(-product))),
    )  # fmt: skip
    for inputs, array, made, wanted in programs:
        program = fast.compile(inputs, made)
        assert kernels(program)[:1] == named
        assert len(kernels(program)) == 1 or not NATIVE
        np.testing.assert_allclose(program(array).astype("float64"), wanted, rtol=2**-6, atol=2**-4)
    np.testing.assert_allclose(eager.ops.matmul(a, w).numpy().astype("float64"), product, rtol=2**-6, atol=2**-4)
    y = drawn(4, convolved.shape, -3, 3)
    found = eager.ops.conv2d_kernel_gradient(images, y, kernel_shape=k.shape, padding="SAME").numpy()
    wanted = REFERENCE.ops.conv2d_kernel_gradient(wide[2], y.astype("float64"), kernel_shape=k.shape, padding="SAME")
    np.testing.assert_allclose(found.astype("float64"), wanted.numpy(), rtol=2**-5, atol=2**-2)
