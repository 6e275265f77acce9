"""Chains of elementwise operators, windows and relayouts by oneDNN are NumPy's (`graph/ops/library_chains`)."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.body import Body
from nnc_func.device.onednn import elementwise
from nnc_func.device.onednn.library import present
from nnc_func.errors import ShapeError
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.ops.activations import LEAST
from nnc_func.graph.ops.library_chains import in_twos, parts

CPU, FAST, NUMPY = nnc.CPU(), nnc.CPU(fast_math=True), nnc.NumPy()
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, -1e-45, 3e38, -3e38, -1.0, 1.0, -104.0], np.float32)
SHAPES = {"whole": (40, 8, 33), "channels": (33,), "ones": (1, 1, 33), "number": (), "one": (1, 1), "rows": (8, 1)}
BLOCKWISE = OPS["blockwise"]


def some(shape: tuple[int, ...], seed: int = 0, special: bool = False) -> Any:
    random = np.random.default_rng(seed)
    found = np.asarray(random.standard_normal(shape), np.float32)
    if special and shape:
        found.reshape(-1)[random.integers(found.size, size=20)] = random.choice(SPECIAL, 20)
    return found


def chosen(device: Any, op: Any, arrays: Any, **params: Any) -> Any:
    return device.choose(op, tuple(map(device.aval, arrays)), op.canonical(params))


# --- chains ----------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "multiply", "subtract", "fma", "relu", "tanh"]), st.integers(0, 9),
              st.integers(0, 9), st.booleans()),
    min_size=1, max_size=6,
)  # fmt: skip


def body_of(count: int, steps: Any) -> Body:
    """Each step takes what the last one gives, and others by number."""
    made: list[Any] = []
    value = 0
    for name, one, other, turned in steps:
        more = [n % (count + len(made)) for n in (one, other)]
        if name in ("relu", "tanh"):
            made.append((OPS[name], value))
        elif name == "fma":
            made.append((OPS[name], more[0], value, more[1]) if turned else (OPS[name], value, *more))
        else:
            made.append((OPS[name], more[0], value) if turned else (OPS[name], value, more[0]))
        value = count + len(made) - 1
    return Body.of(count, *made)


@given(STEPS, st.lists(st.sampled_from([*SHAPES]), max_size=3), st.integers(0, 99))
@example([("fma", 1, 2, False), ("fma", 1, 2, False), ("relu", 0, 0, False)], ["channels", "ones"], 0)
@example([("subtract", 1, 0, True), ("multiply", 3, 0, False), ("relu", 0, 0, False)], ["number", "whole"], 1)
@example([("multiply", 0, 0, False), ("add", 0, 0, False)], [], 2)
def test_a_chain_has_the_bits_of_its_operators(steps: Any, kinds: Any, seed: int) -> None:
    arrays = [some(SHAPES[kind], seed + n, True) for n, kind in enumerate(["whole", *kinds])]
    body = body_of(len(arrays), steps)
    with np.errstate(all="ignore"):
        wanted = NUMPY.bind(BLOCKWISE, *arrays, body=body)
        np.testing.assert_array_equal(CPU.bind(BLOCKWISE, *arrays, body=body), wanted)
        finite = [np.nan_to_num(a, posinf=3.0, neginf=-3.0) for a in arrays]
        bounded = NUMPY.bind(BLOCKWISE, *finite, body=body)
        if not np.isnan(bounded).any():
            np.testing.assert_array_equal(FAST.bind(BLOCKWISE, *finite, body=body), bounded)


@given(st.permutations(["whole", "channels", "number"]), st.sampled_from(["whole", "ones", "one"]))
def test_products_with_sums_are_by_the_library_whichever_is_whole(kinds: Any, last: str) -> None:
    arrays = [some(SHAPES[kind], n, True) for n, kind in enumerate([*kinds[:2], last])]
    takes = "whole" in kinds[:2]
    assert (chosen(CPU, OPS["fma"], arrays).name == "onednn") == takes
    np.testing.assert_array_equal(CPU.bind(OPS["fma"], *arrays), NUMPY.bind(OPS["fma"], *arrays))


def test_who_computes_what() -> None:
    x, s, small = some((40, 300)), some((300,)), some((4, 300))
    affine = Body.of(3, (OPS["multiply"], 0, 1), (OPS["add"], 3, 2))
    rectified = Body.of(3, (OPS["multiply"], 0, 1), (OPS["add"], 3, 2), (OPS["relu"], 4))
    long = Body.of(2, (OPS["multiply"], 0, 1), *[(OPS["tanh"], 2 + n) for n in range(4)])
    for device, body, arrays, name in (
        (CPU, affine, (x, s, s), "onednn"), (CPU, rectified, (x, s, s), "onednn"),
        (NUMPY, affine, (x, s, s), "in blocks"),
        (FAST, rectified, (x, s, s), "onednn, fast math"), (FAST, affine, (x, s, s), "onednn"),
        (CPU, long, (x, s), "in blocks"), (CPU, affine, (small, s, s), "in blocks"),
        (CPU, affine, (x.astype("float64"), s, s), "in blocks"),
    ):  # fmt: skip
        assert chosen(device, BLOCKWISE, arrays, body=body).name == name
    assert chosen(FAST, OPS["relu"], (x,)).name == "onednn, fast math"
    assert chosen(CPU, OPS["relu"], (x,)).name == "in steps"
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(FAST.bind(OPS["relu"], x), NUMPY.bind(OPS["relu"], x))


def test_a_rectifier_behind_a_chain_is_exact_for_any_bits() -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 32, (1 << 12, 64), dtype=np.uint64).astype(np.uint32)
    x = np.concatenate([bits.view(np.float32), np.tile(SPECIAL, 64).reshape(-1, 64)])
    body = Body.of(2, (OPS["multiply"], 0, 1), (OPS["relu"], 2))
    with np.errstate(all="ignore"):
        found, wanted = CPU.bind(BLOCKWISE, x, np.float32(1), body=body), np.maximum(x, 0)
    np.testing.assert_array_equal(found, wanted)
    assert not np.signbit(found[found == 0]).any()


def test_a_rectifier_that_loses_nan_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert elementwise.keeps_nan(present())
    monkeypatch.setattr(elementwise, "keeps_nan", lambda library: False)
    elementwise._chain.cache_clear()
    parts.cache_clear()
    x, s = CPU.aval(some((40, 301))), CPU.aval(some((301,)))
    body = Body.of(3, (OPS["multiply"], 0, 1), (OPS["add"], 3, 2), (OPS["relu"], 4))
    found = parts((x, s, s), body, False)
    assert found is not None
    assert [each.name for each in found.split.after] == ["add"]
    assert found.split.rest == Body.of(1, (OPS["relu"], 0))
    elementwise._chain.cache_clear()
    parts.cache_clear()


def test_a_sum_of_products_is_a_product_and_a_sum() -> None:
    body = Body.of(3, (OPS["fma"], 0, 1, 2), (OPS["tanh"], 3), (OPS["fma"], 3, 4, 0))
    assert in_twos(body) == Body.of(
        3, (OPS["multiply"], 0, 1), (OPS["add"], 3, 2), (OPS["tanh"], 4), (OPS["multiply"], 4, 5), (OPS["add"], 6, 0)
    )


@pytest.mark.parametrize("layout", [None, (0, 2, 3, 1), (3, 2, 1, 0)])
@pytest.mark.parametrize("rectified", [False, True])
def test_small_groups_are_one_operator_where_a_library_computes_them(layout: Any, rectified: bool) -> None:
    shape = (2, 32, 20, 20)
    x, s, b = some(shape), some((32, 1, 1), 1), some((32, 1, 1), 2)
    for device, names in ((CPU, ["blockwise"]), (NUMPY, ["fma", "relu"] if rectified else ["fma"])):
        lazy = nnc.lazy(device)
        given = lazy.input("x", shape, "float32")
        laid = given if layout is None else lazy.ops.relayout(given, layout=layout)
        y = laid * s + b
        y = lazy.ops.relu(y) if rectified else y
        rounding = lazy.swap(optimiser=lazy.optimiser.with_numerics("rounding"))
        program = rounding.compile([given], y)
        made = [i.op.name for i in program.plan.instructions if i.op.name != "relayout"]
        fits = device is NUMPY or layout in ((0, 2, 3, 1), (3, 2, 1, 0))
        if fits and layout == (0, 2, 3, 1):
            assert made == names or (device is CPU and not rectified and made == ["fma"])
        wanted = x * s + b
        np.testing.assert_array_equal(program(x), np.maximum(wanted, 0) if rectified else wanted)


@pytest.mark.parametrize("over", [0, 1, 2])
def test_results_may_lie_over_operands(over: int) -> None:
    arrays = [some((400, 300), n, True) for n in range(3)]
    plans = []
    for device in (CPU, NUMPY):
        lazy = nnc.lazy(device)
        lazy = lazy.swap(optimiser=lazy.optimiser.without_rules("fuse_elementwise"))
        inputs = [lazy.input(f"i{n}", a.shape, "float32") for n, a in enumerate(arrays)]
        given = [*inputs]
        given[over] = lazy.ops.cumulative_sum(given[over], axis=0)
        body = Body.of(3, (OPS["multiply"], 0, 1), (OPS["subtract"], 3, 2), (OPS["relu"], 4))
        chain = lazy.ops.blockwise(*given, body=body)
        plans.append(lazy.compile(inputs, lazy.ops.cumulative_sum(chain, axis=0)))
    (found, wanted) = plans
    assert "onednn" in {i.kernel for i in found.plan.instructions}
    assert found.plan.arena_bytes == arrays[0].nbytes
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found(*arrays), wanted(*arrays))


TAILS: Any = {
    "greater": lambda o, y: y > 0,
    "to float64": lambda o, y: o.cast(y, dtype="float64"),
    "to float16": lambda o, y: o.cast(y, dtype="float16"),
    "to int8": lambda o, y: o.cast(o.clip(y, min=-9, max=9), dtype="int8"),
    "isnan": lambda o, y: o.isnan(y),
    "complex": lambda o, y: o.complex(y, y * y),
    "counted": lambda o, y: o.count_nonzero(y),
}


@pytest.mark.parametrize("tail", TAILS)
def test_results_of_another_dtype_lie_in_memory_of_their_own(tail: str) -> None:
    """A chain once wrote float32 into them, four bytes an element."""
    x, b = some((128, 128), 0, True), some((128,), 1)
    for device in (CPU, FAST):
        found, wanted = (
            stack.jit(lambda x, b, o=stack.ops: TAILS[tail](o, (o.relu(x + b) - b) * x))(x, b).numpy()
            for stack in (nnc.lazy(device), nnc.lazy())
        )
        if device is CPU:
            np.testing.assert_array_equal(found, wanted)
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
    body = Body.of(2, (OPS["add"], 0, 1), (OPS["relu"], 2), (OPS["greater"], 3, 1))
    assert chosen(CPU, BLOCKWISE, (x, b), body=body).library is None


# --- windows ---------------------------------------------------------------------------------------------


@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3, 8, 20])),
    window=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.one_of(st.sampled_from(["SAME", "VALID"]), st.tuples(*[st.tuples(*[st.integers(0, 3)] * 2)] * 2)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    count_padding=st.booleans(),
    data_format=st.sampled_from(["NHWC", "NCHW"]),
    bad=st.sampled_from([0.0, np.nan, np.inf, -np.inf]),
)
def test_windows_are_as_by_numpy(shape: Any, data_format: str, count_padding: bool, bad: float, **params: Any) -> None:
    x = some(shape)
    x.reshape(-1)[x.size // 2] = bad
    given = x if data_format == "NHWC" else x.transpose(0, 3, 1, 2)
    for name, more in (("average_pool2d", {"count_padding": count_padding}), ("max_pool2d", {})):
        told = {**params, **more, "data_format": data_format}
        try:
            wanted = nnc.eager().ops.__getattr__(name)(given, **told).numpy()
        except ShapeError:
            return
        for device in (CPU, FAST):
            if device is FAST and name == "max_pool2d" and np.isnan(bad):
                continue
            lazy = nnc.lazy(device)
            images = lazy.input("x", given.shape, "float32")
            laid = lazy.ops.relayout(images, layout="NHWC", data_format=data_format)
            program = lazy.compile([images], getattr(lazy.ops, name)(laid, **told))
            with np.errstate(all="ignore"):
                np.testing.assert_allclose(program(given), wanted, rtol=1e-5, atol=1e-6)
                np.testing.assert_allclose(device.bind(OPS[name], given, **OPS[name].params | told), wanted,
                                           rtol=1e-5, atol=1e-6)  # fmt: skip


def test_maxima_that_lose_nan_want_fast_math() -> None:
    x = some((1, 16, 16, 8))
    of = {**OPS["max_pool2d"].params, "window": (3, 3), "data_format": "NHWC"}
    assert chosen(FAST, OPS["max_pool2d"], (x,), **of).library == "oneDNN, fast math"
    assert chosen(CPU, OPS["max_pool2d"], (x,), **of).library is None
    assert chosen(CPU, OPS["average_pool2d"], (x,), **of, count_padding=True).library == "oneDNN"


# --- functions -------------------------------------------------------------------------------------------


def test_the_sigmoid_is_exact_where_the_library_is_asked() -> None:
    """From `LEAST` on; arrays with lower numbers or NaN in them are NumPy's to the bit."""
    op = OPS["sigmoid"]
    (kernel,) = [k for k in op.kernels if k.library == "oneDNN"]
    numpy = next(k for k in op.kernels if k.name == "in steps")
    random = np.random.default_rng(0)
    every = np.arange(0, 1 << 32, 977, dtype=np.uint64).astype(np.uint32).view(np.float32)
    inside = every[every >= LEAST]
    x = inside[: len(inside) // 64 * 64].reshape(-1, 64)
    found, exact = kernel.compute(np, x), 1 / (1 + np.exp(-x.astype(np.float64)))
    wrong = np.abs(found - exact) / np.spacing(exact.astype(np.float32))
    assert wrong.max() <= 4, x.reshape(-1)[wrong.argmax()]
    assert found.min() >= 0
    assert found.max() <= 1
    for bad in (np.nan, np.nextafter(np.float32(LEAST), np.float32(-99)), -86.7, -87.5, -104.0, -np.inf):
        given = some((64, 256))
        given[random.integers(64), random.integers(256)] = bad
        with np.errstate(all="ignore"):
            wanted = numpy.compute(np, given)
        np.testing.assert_array_equal(kernel.compute(np, given), wanted)
        over = given.copy()  # where the result lies over the argument
        assert kernel.into is not None
        kernel.into(np, (over,), (over,), ())
        np.testing.assert_array_equal(over, wanted)
    assert chosen(CPU, op, (some((64, 256)),)) is kernel


# --- layouts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4), (1, 3, 17, 9), (2, 3, 2, 5, 4)])
def test_relayouts_keep_each_bit(shape: tuple[int, ...]) -> None:
    lazy = nnc.lazy(CPU)
    bits = np.random.default_rng(0).integers(0, 1 << 32, shape, dtype=np.uint64).astype(np.uint32)
    x = bits.view(np.float32)
    axes = range(len(shape))
    orders = [(*axes[1:], 0), (*axes[::-1],), (0, *axes[2:], 1)]
    for one, other in product(orders, orders):
        given = lazy.input("x", shape, "float32")
        there = lazy.ops.relayout(given, layout=one)
        back = lazy.ops.relayout(there, layout=other)
        program = lazy.compile([given], [lazy.ops.relayout(there, layout="row-major"), back])
        assert {i.kernel for i in program.plan.instructions if i.op.name == "relayout"} <= {"onednn", "reference"}
        for found in program(x):
            np.testing.assert_array_equal(np.ascontiguousarray(found).view(np.uint32), bits)
