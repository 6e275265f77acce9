"""What follows a convolution or a product: by oneDNN where it is exact, else by us (`graph/ops/library_fused`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.body import Body
from nnc_func.device.kernels import onednn
from nnc_func.errors import DeviceError
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.ops.library_fused import split

LAZY, FAST, EAGER = nnc.lazy(nnc.CPU()), nnc.lazy(nnc.CPU(fast_math=True)), nnc.eager()
draw = np.random.default_rng(0)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "add",
                "multiply",
                "subtract",
                "subtracted",
                "maximum",
                "relu",
                "tanh",
                "double",
                "clip",
                "sigmoid",
                "silu",
                "hard swish",
                "gelu",
                "gelu of ONNX",
            ]
        ),
        st.sampled_from(["whole", "channels", "leading ones", "number", "rows", "one image"]),
        st.sampled_from(["float32", "float32", "float32", "float64"]),
    ),
    min_size=1,
    max_size=6,
)


def some(*shape: int) -> Any:
    return draw.normal(size=shape).astype("float32")


def other(kind: str, shape: tuple[int, ...], channels: int) -> Any:
    """An operand that broadcasts to a result of that shape, whose channels are on that axis."""
    alone = [n if i == channels else 1 for i, n in enumerate(shape, -len(shape))]
    found = {
        "whole": shape, "leading ones": alone, "channels": alone[channels:], "number": (),
        "rows": (*shape[:-1], 1), "one image": (1, *shape[1:]),
    }  # fmt: skip
    return some(*found[kind])


def followed(ops: Any, y: Any, steps: Any, others: Any) -> Any:
    for (name, _, _), with_ in zip(steps, others, strict=True):
        if name in ("relu", "tanh", "sigmoid"):
            y = getattr(ops, name)(y)
        elif name == "silu":
            y = y * ops.sigmoid(y)
        elif name == "clip":
            y = ops.clip(y, min=-0.5, max=2)
        elif name == "hard swish":
            y = y * ops.clip(y + np.float32([3]), min=0, max=6) / np.float32([6])
        elif name == "gelu":
            y = (y * np.float32([0.5])) * ops.erfc(y * np.float32([-(0.5**0.5)]))
        elif name == "gelu of ONNX":
            y = y * ops.erfc(y * np.float32([-(0.5**0.5)])) * np.float32([0.5])
        elif name == "double":
            y = y + y
        elif name == "subtracted":
            y = with_ - y
        else:
            y = getattr(ops, name)(y, with_)
    return y


def compared(build: Any, steps: Any, arrays: Any, data_format: str = "NHWC") -> None:
    """The result of a program, with and without fast math, is that of each operator by NumPy."""
    wanted = build(EAGER.ops, *map(EAGER.asarray, arrays))
    channels = -1 if data_format == "NHWC" else -3
    others = [other(kind, wanted.shape, channels).astype(dtype) for _, kind, dtype in steps]
    expected = followed(EAGER.ops, wanted, steps, map(EAGER.asarray, others)).numpy()
    for lazy in (LAZY, FAST):
        inputs = [lazy.input(f"i{n}", a.shape, str(a.dtype)) for n, a in enumerate((*arrays, *others))]
        laid = inputs[0]
        if data_format == "NCHW":
            laid = lazy.ops.relayout(laid, layout="NHWC", data_format="NCHW")
        found = followed(lazy.ops, build(lazy.ops, laid, inputs[1]), steps, inputs[2:])
        program = lazy.compile(inputs, found)
        for _ in range(2):
            got = program(*arrays, *others)
            assert got.dtype == expected.dtype
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-3)


@given(STEPS, st.sampled_from(["NHWC", "NCHW"]), st.integers(1, 3), st.sampled_from([1, 3, 8]))
@example([("subtract", "leading ones", "float32"), ("multiply", "leading ones", "float32"),
          ("add", "leading ones", "float32"), ("relu", "number", "float32")], "NCHW", 2, 8)  # fmt: skip
@example([("add", "channels", "float32"), ("add", "whole", "float32"), ("relu", "number", "float32")], "NHWC", 1, 8)
def test_what_follows_a_convolution_is_as_by_numpy(steps: Any, data_format: str, n: int, out: int) -> None:
    x = some(n, 7, 6, 16) if data_format == "NHWC" else some(n, 16, 7, 6)
    w = some(3, 3, 16, out)

    def build(ops: Any, x: Any, w: Any) -> Any:
        return ops.conv2d(x, w, padding="SAME", data_format=data_format)

    compared(build, steps, (x, w), data_format)


@given(STEPS, st.sampled_from([(), (2,)]), st.integers(1, 40), st.integers(1, 40))
def test_what_follows_a_product_is_as_by_numpy(steps: Any, batch: Any, rows: int, columns: int) -> None:
    a, b = some(*batch, rows, 17), some(17, columns)
    compared(lambda ops, a, b: ops.matmul(a, b), steps, (a, b))


def test_sums_and_products_are_the_librarys_and_the_rest_is_ours() -> None:
    body = Body.of(
        5, (OPS["subtract"], 0, 1), (OPS["multiply"], 2, 5), (OPS["add"], 6, 3), (OPS["tanh"], 7), (OPS["add"], 8, 4)
    )
    found = split(body, ("channels", "whole", "number", "whole"), 8)
    assert [(each.name, each.other) for each in found.after] == [
        ("subtract", "channels"), ("multiply", "whole"), ("add", "number"),
    ]  # fmt: skip
    assert (found.others, found.beside) == ((0, 1, 2), (3,))
    assert found.rest == Body.of(2, (OPS["tanh"], 0), (OPS["add"], 2, 1))
    assert len(split(body, ("channels", "none", "number", "whole"), 8).after) == 1
    assert len(split(body, ("channels", "whole", "number", "whole"), 2).after) == 2
    turned = Body.of(2, (OPS["subtract"], 1, 0))
    twice = Body.of(2, (OPS["add"], 0, 1), (OPS["multiply"], 0, 2))
    assert not split(turned, ("whole",), 8).after
    assert not split(twice, ("whole",), 8).after
    assert split(Body.of(2, (OPS["add"], 1, 0)), ("whole",), 8).rest is None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_goes_on(bad: float) -> None:
    """From the images, and from what is added and multiplied."""
    x, w, b, c = some(1, 6, 6, 16), some(3, 3, 16, 8), some(8), some(1, 6, 6, 8)
    inputs = [LAZY.input(f"i{n}", a.shape, "float32") for n, a in enumerate((x, w, b, c))]

    def build(ops: Any, x: Any, w: Any, b: Any, c: Any) -> Any:
        return ops.relu(ops.conv2d(x, w, padding="SAME") * b + c)

    program = LAZY.compile(inputs, build(LAZY.ops, *inputs))
    for n, place in ((0, (0, 2, 3, 4)), (2, (5,)), (3, (0, 1, 1, 1))):
        arrays = [a.copy() for a in (x, w, b, c)]
        arrays[n][place] = bad
        with np.errstate(invalid="ignore"):
            wanted = build(EAGER.ops, *map(EAGER.asarray, arrays)).numpy()
            found = program(*arrays)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        np.testing.assert_array_equal(found == np.inf, wanted == np.inf)


def test_scratch_memory_is_of_what_is_left_alone() -> None:
    x, w, b = LAZY.input("x", (1, 32, 32, 16), "float32"), some(3, 3, 16, 8), some(8)
    y = LAZY.ops.conv2d(x, w)
    fused, more = (LAZY.compile([x], each) for each in (y + b, LAZY.ops.tanh(y + b)))
    assert [i.op.name for i in fused.plan.instructions] == ["conv2d_blockwise"]
    assert fused.plan.arena_bytes <= more.plan.arena_bytes


def test_the_librarys_rectifier_is_taken_where_nan_may_be_lost() -> None:
    x, w, b = some(1, 6, 6, 16), some(3, 3, 16, 8), some(8)
    x[0, 3, 3, 3] = np.nan
    kernels, lost = [], []
    for lazy in (LAZY, FAST):
        t = lazy.input("x", x.shape, "float32")
        program = lazy.compile([t], lazy.ops.relu(lazy.ops.conv2d(t, w) + b))
        kernels += [i.kernel for i in program.plan.instructions]
        lost.append(not np.isnan(program(x)).any())
    assert kernels == ["onednn, packed", "onednn, packed, fast math"]
    assert lost == [False, True]
    assert repr(FAST.device) == "CPU(fast_math=True)"
    body = Body.of(2, (OPS["add"], 0, 1), (OPS["relu"], 2), (OPS["multiply"], 3, 1))
    assert [each.name for each in split(body, ("channels",), 8, fast=True).after] == ["add", "fast relu", "multiply"]
    assert [each.name for each in split(body, ("channels",), 8).after] == ["add", "relu", "multiply"]


def test_a_program_of_fast_math_is_refused_without_it() -> None:
    t = FAST.input("x", (1, 6, 6, 16), "float32")
    plan = FAST.compile([t], FAST.ops.relu(FAST.ops.conv2d(t, t[:, :3, :3, :].reshape((3, 3, 16, 1))))).plan
    assert [i.kernel for i in plan.instructions if i.op.name == "conv2d_blockwise"] == ["onednn, fast math"]
    with pytest.raises(DeviceError, match="oneDNN, fast math"):
        LAZY.program(plan)


SHARE = Body.of(3, (OPS["add"], 0, 1), (OPS["clip"], 3, {"min": 0, "max": 6}), (OPS["multiply"], 4, 0),
                (OPS["divide"], 5, 2))  # fmt: skip


def test_functions_of_one_operand_are_the_librarys_under_fast_math() -> None:
    weighed = Body.of(1, (OPS["sigmoid"], 0), (OPS["multiply"], 1, 0))
    bounded = Body.of(1, (OPS["clip"], 0, {"min": -1, "max": 2}), (OPS["sigmoid"], 1))
    below = Body.of(1, (OPS["clip"], 0, {"min": None, "max": 2}))
    for body, names in ((weighed, ["swish"]), (bounded, ["clip", "sigmoid"]), (below, [])):
        assert [each.name for each in split(body, (), 8, fast=True).after] == names
        assert not split(body, (), 8).after
    assert split(bounded, (), 8, fast=True).after[0].numbers == (-1.0, 2.0)
    guessed = split(SHARE, ("number", "number"), 8, fast=True, guess=True)
    assert ([each.name for each in guessed.after], guessed.rest) == (["hardswish"], None)
    for (place, least, most), number in zip(guessed.given, (3, 6), strict=True):
        assert least < number < most < least + 1e-6, place
    assert not split(SHARE, ("number", "number"), 8, fast=True).after
    assert not split(SHARE, ("channels", "number"), 8, fast=True, guess=True).after


HALVED = Body.of(3, (OPS["multiply"], 0, 1), (OPS["multiply"], 0, 2), (OPS["erfc"], 4), (OPS["multiply"], 3, 5))
LATE = Body.of(3, (OPS["multiply"], 0, 2), (OPS["erfc"], 3), (OPS["multiply"], 0, 4), (OPS["multiply"], 5, 1))
OTHERWISE = Body.of(3, (OPS["multiply"], 0, 2), (OPS["erfc"], 3), (OPS["multiply"], 4, 1), (OPS["multiply"], 0, 5))
SQUARED = Body.of(3, (OPS["multiply"], 0, 2), (OPS["erfc"], 3), (OPS["multiply"], 4, 0), (OPS["multiply"], 0, 5))


@pytest.mark.parametrize(("body", "is_one"), [(HALVED, True), (LATE, True), (OTHERWISE, False), (SQUARED, False)])
def test_gelus_are_recognised(body: Body, is_one: bool) -> None:
    found = split(body, ("number", "number"), 8, fast=True, guess=True)
    assert [each.name for each in found.after] == (["gelu"] if is_one else [])
    assert not split(body, ("number", "number"), 8, fast=True).after or not is_one
    assert not [e for e in split(body, ("number", "channels"), 8, fast=True, guess=True).after if e.name == "gelu"]
    if is_one:
        for (_, least, most), number in zip(found.given, (-(0.5**0.5), 0.5), strict=True):
            assert least < number < most < least + 1e-6


@pytest.mark.parametrize("numbers", [(-(0.5**0.5), 0.5), (-0.7, 0.5), (-(0.5**0.5), 1.0)])
def test_a_gelu_is_the_librarys_where_its_numbers_are_so(numbers: tuple[float, float]) -> None:
    x, w = some(256, 64), some(64, 256) / np.float32(8)
    inputs = [FAST.input("x", x.shape, "float32"), *(FAST.input(f"n{i}", (1,), "float32") for i in range(2))]
    y = FAST.ops.matmul(inputs[0], w)
    program = FAST.compile(inputs, y * inputs[2] * FAST.ops.erfc(y * inputs[1]))
    assert [i.kernel for i in program.plan.instructions] == ["onednn, packed, fast math"]
    given_ = [np.float32([n]) for n in numbers]
    plain = (x.astype("float64") @ w).astype("float32")
    wanted = plain * given_[1] * EAGER.ops.erfc(plain * given_[0]).numpy()
    np.testing.assert_allclose(program(x, *given_), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("numbers", [(3, 6), (3, 5), (2, 6)])
def test_a_hard_swish_is_the_librarys_where_its_numbers_are_so(numbers: tuple[int, int]) -> None:
    x, w = some(1, 6, 6, 16), some(3, 3, 16, 8)
    inputs = [FAST.input("x", x.shape, "float32"), *(FAST.input(f"n{i}", (1,), "float32") for i in range(2))]
    y = FAST.ops.conv2d(inputs[0], w)
    program = FAST.compile(inputs, y * FAST.ops.clip(y + inputs[1], min=0, max=6) / inputs[2])
    assert [i.kernel for i in program.plan.instructions] == ["onednn, packed, fast math"]
    three, six = (np.float32([n]) for n in numbers)
    plain = EAGER.ops.conv2d(EAGER.asarray(x), EAGER.asarray(w)).numpy()
    wanted = plain * np.clip(plain + three, 0, 6) / six
    np.testing.assert_allclose(program(x, three, six), wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(program(x, three, six + 1), wanted * six / (six + 1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("stack", [LAZY, FAST], ids=["exact", "fast"])
@pytest.mark.parametrize("factor", [0.25, 1.0, 1.5, 0.0, -0.5, np.nan])
def test_a_leaky_rectifier_is_the_librarys_where_its_factor_is_one(factor: float, stack: Any) -> None:
    """Between 0 and 1 the larger of x and a x is one of both, as x has a sign: to the bit, NaN and infinities too."""
    x, w = some(1, 6, 6, 16), some(3, 3, 16, 8)
    w[..., 0] = 0
    x[0, 0, 0, 0], x[0, 3, 3, 1], x[0, 5, 5, 2] = np.nan, np.inf, -np.inf
    inputs = [stack.input("x", x.shape, "float32"), stack.input("a", (), "float32")]
    y = stack.ops.conv2d(inputs[0], stack.asarray(w)) + stack.asarray(some(8))
    program = stack.compile(inputs, stack.ops.maximum(inputs[1] * y, y))
    plain = stack.compile(inputs[:1], y)
    assert [i.kernel for i in program.plan.instructions] == ["onednn, packed"]
    before = plain(x)
    with np.errstate(invalid="ignore"):
        wanted = np.maximum(np.float32(factor) * before, before)
    found = program(x, np.float32(factor))
    np.testing.assert_array_equal(found, wanted)
    assert np.isnan(found).any()
    assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()


def test_a_leaky_rectifier_of_another_form_is_none() -> None:
    scaled = (OPS["multiply"], 0, 1)
    body = Body.of(2, scaled, (OPS["maximum"], 0, 2))
    found = split(body, ("number",), 8, guess=True)
    assert ([each.name for each in found.after], found.others, found.rest) == (["prelu"], (0,), None)
    assert not split(body, ("number",), 8).after or split(body, ("number",), 8).after[0].name != "prelu"
    for other in (
        Body.of(2, scaled, (OPS["minimum"], 0, 2)),
        Body.of(2, scaled, (OPS["maximum"], 2, 2)),
        Body.of(2, scaled, (OPS["maximum"], 0, 2), (OPS["add"], 3, 2)),
        Body.of(2, scaled, (OPS["maximum"], 0, 2), (OPS["add"], 3, 0)),
    ):
        assert all(each.name != "prelu" for each in split(other, ("number",), 8, guess=True).after), other
    assert all(each.name != "prelu" for each in split(body, ("channels",), 8, guess=True).after)


def _hard_swish(o: Any, y: Any, three: float = 3.0) -> Any:
    return y * o.clip(y + np.float32(three), min=0, max=6) / np.float32(6)


AFTER_PRODUCTS: Any = {
    "tanh of a hard swish": lambda o, y, r: o.tanh(_hard_swish(o, y)),
    "and of what only looks like one": lambda o, y, r: o.tanh(_hard_swish(o, y, 3.5)),
    "a scaled one": lambda o, y, r: _hard_swish(o, y) * r,
    "a squared one": lambda o, y, r: o.square(_hard_swish(o, y)) + r,
    "mish": lambda o, y, r: o.mish(y),
    "unary operators in its places": lambda o, y, r: o.exp(-y * y) + y,
    "squares": lambda o, y, r: o.square(o.square(o.clip(y, min=0, max=3) + y)),
}


@pytest.mark.parametrize("name", AFTER_PRODUCTS)
@pytest.mark.parametrize("threads", [1, 2])
def test_what_follows_a_guess_is_computed(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its registers were once those of the other way to take the body apart."""
    monkeypatch.setattr(onednn, "count", lambda: threads)
    a, w, r = some(300, 128), some(128, 64) / 8, some(300, 1)
    results = [
        stack.jit(lambda a, w, r, o=stack.ops: AFTER_PRODUCTS[name](o, a @ w, r))(a, w, r).numpy()
        for stack in (FAST, LAZY, nnc.lazy())
    ]
    for found in results[:2]:
        np.testing.assert_allclose(found, results[2], rtol=2e-4, atol=2e-4)


def test_bounds_of_a_clip_keep_their_signs() -> None:
    a, w = np.zeros((300, 128), np.float32), some(128, 64)
    for low in (-0.0, 0.0, -0.0):
        found = FAST.jit(lambda a, w, low=low: FAST.ops.clip(a @ w, min=low, max=6.0))(a, w).numpy()
        assert found.shape == (300, 64)
        assert not found.any()
    assert split(Body.of(1, (OPS["clip"], 0, {"min": -0.0, "max": 6.0})), (), 8, fast=True).after == ()
    assert len(split(Body.of(1, (OPS["clip"], 0, {"min": 0.0, "max": 6.0})), (), 8, fast=True).after) == 1
