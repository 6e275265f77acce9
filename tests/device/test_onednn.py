"""oneDNN's kernels on ``CPU()``: as exact as NumPy's, planned, and absent where the library is (`device/onednn`)."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import tracemalloc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import threadpoolctl
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.device.kernels import onednn
from nnc_func.device.onednn.bound import bound
from nnc_func.device.onednn.library import library, present
from nnc_func.device.onednn.primitives import Convolution, Product, convolution, product
from nnc_func.device.shared import workers
from nnc_func.errors import DeviceError, NncError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.testing import check_operator
from nnc_func.testing.laws import hold, into_is_compute, strides_do_not_matter

pytestmark = pytest.mark.usefixtures("of_several_threads")
EAGER, LAZY, REFERENCE = nnc.eager(nnc.CPU()), nnc.lazy(nnc.CPU()), nnc.eager()
OPERATORS = sorted(op.name for op in CATALOGUE.values() if any(k.library == "oneDNN" for k in op.kernels))
draw = np.random.default_rng(0)


def some(*shape: int) -> Any:
    return draw.normal(size=shape).astype("float32")


def contiguous(x: Any) -> Any:
    return np.ascontiguousarray(x)


def run_with(text: str, **environment: str) -> str:
    """What a process of its own prints."""
    found = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return found.stdout.strip()


# --- laws ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
@pytest.mark.parametrize("name", OPERATORS)
def test_the_laws_of_an_operator_hold(name: str, stack: Any) -> None:
    check_operator(CATALOGUE[name], stack, examples=10)


@pytest.mark.slow
@pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
@pytest.mark.parametrize("name", OPERATORS)
def test_the_laws_hold_in_many_cases(name: str, stack: Any) -> None:
    check_operator(CATALOGUE[name], stack, examples=200)


def test_the_laws_hold_of_results_that_lie_otherwise() -> None:
    """Found by the nightly laws: results were given memory row by row, whatever their layout."""
    given = ([some(2, 3, 3)], {"layout": (2, 1, 0), "data_format": "NHWC"})
    hold(LAZY, CATALOGUE["relayout"], [into_is_compute, strides_do_not_matter], given)


def test_the_library_is_what_computes() -> None:
    kernels = {
        "matmul": ((some(128, 256), some(256, 128)), {}),
        "conv2d": ((some(2, 9, 9, 16), some(3, 3, 16, 8)), {}),
    }  # fmt: skip
    assert set(kernels) < set(OPERATORS)
    for name, (arrays, params) in kernels.items():
        op = CATALOGUE[name]
        assert LAZY.device.choose(op, tuple(map(LAZY.device.aval, arrays)), op.canonical(params)).library == "oneDNN"


def test_one_thread_leaves_products_to_blas_where_the_library_is_not_steady(monkeypatch: pytest.MonkeyPatch) -> None:
    op, avals = CATALOGUE["matmul"], tuple(map(LAZY.device.aval, (some(128, 300), some(300, 128))))
    items = op.canonical({})
    assert LAZY.device.choose(op, avals, items).library == "oneDNN"
    monkeypatch.setattr(onednn, "count", lambda: 1)
    is_steady = product(Product((128, 300), (300, 128), False, False)).is_steady
    assert LAZY.device.choose(op, avals, items).library == ("oneDNN" if is_steady else None)
    conv = tuple(map(LAZY.device.aval, (some(2, 9, 9, 16), some(3, 3, 16, 8))))
    assert LAZY.device.choose(CATALOGUE["conv2d"], conv, CATALOGUE["conv2d"].canonical({})).library == "oneDNN"


CONVOLUTIONS = st.fixed_dictionaries(
    {
        "stride": st.tuples(st.integers(1, 3), st.integers(1, 3)),
        "dilation": st.tuples(st.integers(1, 2), st.integers(1, 3)),
        "padding": st.sampled_from(["VALID", "SAME"])
        | st.tuples(*[st.tuples(st.integers(0, 3), st.integers(0, 3))] * 2),
        "groups": st.sampled_from([1, 1, 2, 4]),
    }
)
EXTENTS = st.tuples(st.integers(1, 3), st.integers(6, 13), st.integers(6, 13), st.integers(1, 5))


@given(EXTENTS, st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 6)), CONVOLUTIONS, st.data())
def test_convolutions_and_gradients_are_numpys(images: Any, window: Any, params: Any, data: Any) -> None:
    """All three, eager and planned, in both data formats, however images lie in memory."""
    n, height, width, channels = images
    kh, kw, out = window
    groups = params["groups"]
    x, w = some(n, height, width, channels * groups), some(kh, kw, channels, out * groups)
    wanted = REFERENCE.ops.conv2d(x, w, **params).numpy()
    g = some(*wanted.shape)
    seen = data.draw(st.sampled_from([x, np.repeat(x, 2, axis=3)[..., ::2], np.asfortranarray(x), x[:, ::-1][:, ::-1]]))
    np.testing.assert_allclose(EAGER.ops.conv2d(seen, w, **params).numpy(), wanted, rtol=2e-5, atol=2e-5)
    for name, arrays, more in (
        ("conv2d", (x, w), {}),
        ("conv2d_input_gradient", (g, w), {"input_shape": x.shape}),
        ("conv2d_kernel_gradient", (x, g), {"kernel_shape": w.shape}),
    ):
        there = [LAZY.input(f"x{i}", a.shape, "float32") for i, a in enumerate(arrays)]
        program = LAZY.compile(there, getattr(LAZY.ops, name)(*there, **params, **more))
        at_once = getattr(REFERENCE.ops, name)(*arrays, **params, **more).numpy()
        np.testing.assert_allclose(program(*arrays), at_once, rtol=5e-5, atol=5e-5)
        eager = getattr(EAGER.ops, name)(*arrays, **params, **more).numpy()
        np.testing.assert_array_equal(program(*arrays), eager)


MATRICES = st.integers(1, 40) | st.integers(120, 200)


@given(
    MATRICES, MATRICES, MATRICES, st.booleans(), st.booleans(),
    st.sampled_from([((), ()), ((2,), ()), ((), (2,)), ((2, 3), (1, 3)), ((1,), (4,)), ((2, 1), (3,)), ((2, 3), (2, 3)),
                     ((1, 1), (1, 1)), ((4,), (4,))]), st.data(),
)  # fmt: skip
def test_matrix_products_are_numpys(
    rows: int, inner: int, columns: int, turned_a: bool, turned_b: bool, batches: Any, data: Any
) -> None:
    a = some(*batches[0], *((inner, rows) if turned_a else (rows, inner)))
    b = some(*batches[1], *((columns, inner) if turned_b else (inner, columns)))
    wanted = np.matmul(a.swapaxes(-1, -2) if turned_a else a, b.swapaxes(-1, -2) if turned_b else b)
    params = {"transpose_a": turned_a, "transpose_b": turned_b}

    def seen(x: Any) -> Any:
        ways = [
            x,
            np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
            np.repeat(x, 2, axis=-1)[..., ::2],
            np.ascontiguousarray(x[..., ::-1, :])[..., ::-1, :],
            np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -2, 0)), 0, -2),  # as heads of attention lie
            np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -1, 0)), 0, -1),
            np.concatenate([x, x + 1], -1)[..., : x.shape[-1]],
            np.repeat(x, 2, axis=-2)[..., ::2, :],
            np.repeat(x.reshape(-1, *x.shape[-2:]), 2, axis=0)[::2].reshape(x.shape),
            np.frombuffer(b"." + x.tobytes(), np.uint8)[1:].view("float32").reshape(x.shape),  # not aligned
        ]
        return data.draw(st.sampled_from(ways))

    left, right = seen(a), seen(b)
    np.testing.assert_allclose(EAGER.ops.matmul(left, right, **params).numpy(), wanted, rtol=2e-5, atol=2e-5)
    x, y = LAZY.input("x", a.shape, "float32"), LAZY.input("y", b.shape, "float32")
    program = LAZY.compile([x, y], LAZY.ops.matmul(x, y, **params))
    np.testing.assert_allclose(program(left, right), wanted, rtol=2e-5, atol=2e-5)
    np.testing.assert_array_equal(program(a, b), EAGER.ops.matmul(a, b, **params).numpy())


def test_heads_of_attention_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operands in views whose strides the library can take; the twentieth way to lie forgets the first ones."""
    x, y = some(2, 128, 4, 48), some(2, 128, 4, 48)

    def scores(ops: Any, x: Any, y: Any) -> Any:
        q, k = (ops.permute_dims(each, axes=(0, 2, 1, 3)) for each in (x, y))
        return ops.matmul(ops.matmul(q, k, transpose_b=True), k)

    there = [LAZY.input(n, x.shape, "float32") for n in "xy"]
    program = LAZY.compile(there, scores(LAZY.ops, *there))
    assert [i.kernel for i in program.plan.instructions if i.op.name == "matmul"] == ["onednn", "onednn"]
    wanted = scores(REFERENCE.ops, x, y).numpy()
    monkeypatch.setattr(onednn, "contiguous", lambda x: x if x.flags.c_contiguous else pytest.fail("a copy"))
    np.testing.assert_allclose(program(x, y), wanted, rtol=2e-5, atol=2e-3)
    np.testing.assert_allclose(scores(EAGER.ops, x, y).numpy(), wanted, rtol=2e-5, atol=2e-3)
    wide = some(130, 400)
    for step in range(20):
        part = wide[:, step : step + 128] if step % 2 else np.ascontiguousarray(wide[:, : 128 + step])[:, :128]
        np.testing.assert_allclose(EAGER.ops.matmul(part, part, transpose_b=True).numpy(), part @ part.T,
                                   rtol=2e-5, atol=2e-4)  # fmt: skip


# --- numbers that are none -------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_goes_where_numpy_lets_it_go(bad: float) -> None:
    """Also through what follows the library's kernel in one operator."""
    a, b = some(130, 200), some(200, 90)
    a[2, 3] = bad
    x, w = some(2, 8, 8, 16), some(3, 3, 16, 8)
    x[1, 4, 4, 7] = bad
    ops = REFERENCE.ops
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(np.isnan(EAGER.ops.matmul(a, b).numpy()), np.isnan(a @ b))
        wanted = ops.relu(ops.conv2d(x, w) + np.float32(1)).numpy()
        t = LAZY.input("x", x.shape, "float32")
        found = LAZY.compile([t], LAZY.ops.relu(LAZY.ops.conv2d(t, w) + np.float32(1)))(x)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted))


# --- memory ----------------------------------------------------------------------------------------------


def test_a_run_takes_no_memory_beside_its_plan() -> None:
    x, w = LAZY.input("x", (4, 64, 64, 32), "float32"), LAZY.input("w", (3, 3, 32, 32), "float32")
    program = LAZY.compile([x, w], LAZY.ops.relu(LAZY.ops.conv2d(x, w)) * 2)
    assert any(i.kernel == "onednn" for i in program.plan.instructions)
    arrays = some(4, 64, 64, 32), some(3, 3, 32, 32)
    out = program(*arrays)
    program(*arrays, out=out)
    tracemalloc.start()
    try:
        program(*arrays, out=out)
        assert tracemalloc.get_traced_memory()[1] <= 1 << 16
    finally:
        tracemalloc.stop()


def test_programs_keep_no_array_of_their_callers() -> None:
    x = LAZY.input("x", (160, 160), "float32")
    program = LAZY.compile([x], x @ x)
    given_ = some(160, 160)
    program(given_)
    seen = weakref.ref(given_)
    del given_
    gc.collect()
    assert seen() is None


def test_an_array_at_another_address_is_seen() -> None:
    """Of the same object, of another one, and of one that has the place of one that is gone."""
    x = LAZY.input("x", (160, 160), "float32")
    program = LAZY.compile([x], x @ x)
    for _ in range(50):
        a = some(160, 160)
        np.testing.assert_allclose(program(a), a @ a, rtol=1e-4, atol=1e-4)
        a *= 2
        np.testing.assert_allclose(program(a), a @ a, rtol=1e-4, atol=1e-4)
    misaligned = np.frombuffer(b"x" + some(160, 160).tobytes(), np.uint8)[1:].view("float32").reshape(160, 160)
    assert not misaligned.flags.aligned
    np.testing.assert_allclose(program(misaligned), misaligned @ misaligned, rtol=1e-4, atol=1e-4)


def test_scratch_memory_that_is_too_small_is_refused() -> None:
    windows = (4, 4), (1, 1), (1, 1), (1, 1), (1, 1)
    primitive = convolution(Convolution((1, 4, 4, 16), (3, 3, 16, 8), *windows, 1), "forward")
    assert primitive.scratch > 0
    with pytest.raises(DeviceError, match=f"wants {primitive.scratch} bytes"):
        bound(primitive, None, (contiguous, contiguous))


def test_one_program_runs_in_several_threads() -> None:
    x = LAZY.input("x", (160, 160), "float32")
    program = LAZY.compile([x], LAZY.ops.tanh(x @ x) @ x)
    arrays = [some(160, 160) for _ in range(4)]
    wanted = [program(a) for a in arrays]
    wrong: list[int] = []

    def many(i: int) -> None:
        for _ in range(100):
            if not np.array_equal(program(arrays[i]), wanted[i]):
                wrong.append(i)

    threads = [threading.Thread(target=many, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


class _Seeing:
    """A standard output that notes how many threads BLAS has whenever something is printed."""

    def __init__(self, seen: list[int]) -> None:
        self.seen = seen

    def write(self, text: str) -> int:
        found = [each for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"]
        self.seen += [each["num_threads"] for each in found]
        return len(text)

    def flush(self) -> None:
        """Nothing is kept back."""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blas_has_one_thread_while_it_takes_turns_with_the_library(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads would look for work for 20 ms on the cores that the library's are given.

    After a run all is as before, and where the plan has no threaded call of BLAS nothing is changed.
    """
    x, y = LAZY.input("x", (2, 9, 9, 16), "float32"), LAZY.input("y", (200, 200), dtype)
    ops = LAZY.ops
    said = ops.print(y, after=LAZY.token())
    program = LAZY.compile([x, y], [ops.conv2d(x, some(3, 3, 16, 8)), y @ y], effects=[said])
    arrays = some(2, 9, 9, 16), np.ones((200, 200), dtype)
    seen: list[int] = []
    workers.spare()  # which looks for it
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        monkeypatch.setattr(sys, "stdout", _Seeing(seen))
        program(*arrays)
        program(*arrays)
        [*program.walk(arrays)]
        now: list[int] = []
        _Seeing(now).write("")
    assert len(seen) >= 3
    assert set(seen) == {1 if dtype == "float64" else 2}
    assert set(now) == {2}


def test_a_process_that_is_forked_computes() -> None:
    """Threads are not forked, and those of OpenMP are waited for."""
    text = (
        "import os, signal, numpy as np, nnc_func as nnc\n"
        "lazy = nnc.lazy(nnc.CPU()); x = lazy.input('x', (512, 512), 'float32'); program = lazy.compile([x], x @ x)\n"
        "ones = np.ones((512, 512), 'float32'); program(ones)\n"
        "child = os.fork()\n"
        "if not child:\n    signal.alarm(60); os._exit(int(program(ones).sum() != 512**3))\n"
        "print(os.waitpid(child, 0)[1], program(ones)[0, 0])"
    )
    assert run_with(text, OMP_NUM_THREADS="2") == "0 512.0"


# --- what it has not -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "complex64"])
def test_other_dtypes_are_numpys(dtype: str) -> None:
    a, b = some(3, 4).astype(dtype), some(4, 2).astype(dtype)
    found = EAGER.ops.matmul(a, b).numpy()
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, REFERENCE.ops.matmul(a, b).numpy())


@pytest.mark.parametrize("shapes", [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 0, 3, 4), (4, 5))])
def test_empty_products_are_numpys(shapes: Any) -> None:
    a, b = (np.ones(shape, "float32") for shape in shapes)
    np.testing.assert_array_equal(EAGER.ops.matmul(a, b).numpy(), a @ b)


def test_a_program_of_it_is_refused_by_a_device_without_it() -> None:
    x = LAZY.input("x", (160, 160), "float32")
    plan = LAZY.compile([x], x @ x).plan
    with pytest.raises(DeviceError, match=r"wants the kernel 'onednn', which NumPy\(\) has not: it runs on oneDNN"):
        nnc.lazy().program(plan)
    a = some(160, 160)
    np.testing.assert_allclose(nnc.lazy(nnc.CPU()).program(plan)(a), a @ a, rtol=1e-4, atol=1e-4)


def test_without_the_library_numpy_computes_and_a_line_says_so() -> None:
    text = (
        "import warnings, numpy as np, nnc_func as nnc\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    stack = nnc.eager(nnc.CPU()); x = stack.asarray(np.ones((2, 2), 'float32')); print((x @ x).sum().item())\n"
        "    x @ x\n"
        "print([str(w.message) for w in seen]); print('none' in nnc.CPU().describe())"
    )
    found = run_with(text, NNC_ONEDNN="").splitlines()
    assert found == [
        "8.0",
        "['CPU() computes with NumPy alone: NNC_ONEDNN is empty: oneDNN is not to be used']",
        "True",
    ]


def test_a_library_that_is_none_is_refused() -> None:
    text = (
        "import numpy as np, nnc_func as nnc\nfrom nnc_func.errors import DeviceError\n"
        "try:\n    nnc.eager(nnc.CPU()).asarray(np.ones((2, 2), 'float32')) @ np.ones((2, 2), 'float32')\n"
        "except DeviceError as error:\n    print(error)"
    )
    assert "NNC_ONEDNN=/nowhere/libdnnl.so.3: " in run_with(text, NNC_ONEDNN="/nowhere/libdnnl.so.3")
    mapped = [line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()]
    other = next(path for path in mapped if Path(path).name.startswith("libc."))
    assert "is no oneDNN" in run_with(text, NNC_ONEDNN=other)


def test_what_the_library_refuses_is_said_in_words() -> None:
    with pytest.raises(DeviceError, match=r"oneDNN 3\.\d+\.\d+, dnnl_matmul_primitive_desc_create: invalid arguments"):
        product(Product((2, 3), (4, 5), False, False))
    wrong = Convolution((1, 4, 4, 2), (3, 3, 2, 2), (4, 4), (1, 1), (1, 1), (0, 0), (0, 0), 1)
    with pytest.raises(NncError, match="dnnl_convolution_forward_primitive_desc_create: invalid arguments"):
        convolution(wrong, "forward")


def test_it_says_what_the_machine_has() -> None:
    said = nnc.CPU().describe()
    for part in (
        "processor: ",
        "cores: ",
        "caches: ",
        f"NumPy {np.__version__}",
        f"oneDNN {present().version}",
        "settings: ",
    ):
        assert part in said
    assert library() is library()


def test_arrays_that_are_the_same_in_each_call_are_looked_at_once() -> None:
    """But one that does not lie as it is wanted is copied each time: its elements may be others."""
    primitive = product(Product((40, 160), (160, 50), False, False))
    first = bound(primitive, np.empty(primitive.room, np.uint8) if primitive.scratch else None, (contiguous,) * 2)
    b, out = some(160, 50), np.empty((40, 50), "float32")
    fixed = first.fixed({1: b, 2: out})  # type: ignore[attr-defined]
    for _ in range(3):
        a = some(40, 160)
        b[...] = some(160, 50)
        fixed(a, None, None)
        np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-4)
    turned = some(50, 160).T
    copying = first.fixed({1: turned})  # type: ignore[attr-defined]
    for _ in range(2):
        turned[...] = some(160, 50)
        copying(a, turned, out)
        np.testing.assert_allclose(out, a @ turned, rtol=1e-4, atol=1e-4)
