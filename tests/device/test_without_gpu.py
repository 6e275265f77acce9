"""What the GPU device says where there is no GPU, and what it does, on a pretended one (`device/gpu`)."""

from __future__ import annotations

import importlib
import sys
import types
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.device.shared.namespace import choose
from nnc_func.errors import DeviceError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op
from nnc_func.testing.laws import equal, results
from nnc_func.testing.samples import arguments
from tests.device.pretended import PretendedCuPy

EXAMPLES = max(5, settings.default.max_examples // 5) if settings.default else 5


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A pretended CuPy, with one GPU."""
    return pretend(monkeypatch, 1)


def pretend(monkeypatch: pytest.MonkeyPatch, gpus: int) -> Any:
    found = PretendedCuPy(gpus)
    monkeypatch.setitem(sys.modules, "cupy", found)
    monkeypatch.setitem(sys.modules, "cupyx", types.SimpleNamespace(errstate=lambda **_: nullcontext()))
    return found


# --- without -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
@pytest.mark.parametrize(
    "use", [lambda s: s.asarray([1.0]), lambda s: s.ops.add([1.0], 2.0).numpy(), lambda s: s.device.xp]
)
def test_without_cupy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, make: Any, use: Any) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)  # importing it raises ImportError
    stack = make(nnc.CuPy())  # composing it needs none
    with pytest.raises(DeviceError, match=r"nnc_func\[cuda12x\].*nnc_func\[cuda13x\]") as error:
        use(stack)
    assert "cupy" in str(error.value)
    assert error.value.__cause__ is None  # one error, not a chain


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 0)
    with pytest.raises(DeviceError, match=r"CuPy\(\) needs a GPU, and CUDA sees none"):
        nnc.eager(nnc.CuPy()).asarray([1.0])


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 2)
    nnc.CuPy(1).asarray([1.0])
    for index in (2, -1):
        with pytest.raises(DeviceError, match="there are 2 GPUs on this machine, numbered from 0"):
            nnc.CuPy(index).asarray([1.0])


def test_gpu_tests_are_skipped_with_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("tests.device.test_gpu")
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert "nnc_func[cuda12x]" in module.why_not()
    pretend(monkeypatch, 0)
    assert "CUDA sees none" in module.why_not()
    pretend(monkeypatch, 1)
    assert module.why_not() == ""


# --- with a pretended one ----------------------------------------------------------------------------------


@pytest.mark.parametrize("op", CATALOGUE.values(), ids=CATALOGUE)
def test_its_kernels_equal_numpys(op: Op) -> None:
    """The kernels that it chooses, at once and planned, run by NumPy."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        pretend(monkeypatch, 1)
        gpu, host = nnc.lazy(nnc.CuPy()), nnc.NumPy()
        assert gpu.device.xp.__name__ == "cupy"

        @settings(max_examples=EXAMPLES)
        @given(st.data())
        def check(data: Any) -> None:
            arrays, params = data.draw(arguments(op))
            wanted = results(op, host.bind(op, *arrays, **params))
            at_once = results(op, gpu.device.bind(op, *map(gpu.device.asarray, arrays), **params))
            inputs = [gpu.input(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]
            made = gpu.bind(op, *inputs, **params)
            planned = gpu.compile(inputs=inputs, outputs=list(made) if op.multi_result else [made])(*arrays)
            for one, two, other in zip(at_once, planned, wanted, strict=True):
                equal(one, other, op.tolerance.ulps, f"{op} at once")
                equal(two, other, op.tolerance.ulps, f"{op} planned")

        check()


def test_values_come_back_by_asnumpy(cupy: Any) -> None:
    np.testing.assert_array_equal(nnc.lazy(nnc.CuPy()).ops.add([1.0, 2.0], 1).numpy(), [2, 3])
    assert cupy.copied
    nnc.CuPy().synchronise()
    assert cupy.cuda.synchronised == [0]


def test_one_gpu_is_never_entered_and_one_of_two_always(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = pretend(monkeypatch, 1)
    nnc.lazy(nnc.CuPy()).ops.add([1.0, 2.0], 1).numpy()
    assert alone.cuda.entered == []
    several = pretend(monkeypatch, 2)
    monkeypatch.setattr(nnc.CuPy, "owns", lambda self, array: isinstance(array, np.ndarray))
    nnc.lazy(nnc.CuPy(1)).ops.add([1.0, 2.0], 1).numpy()
    assert set(several.cuda.entered) == {1}


def test_views_of_an_arena(cupy: Any) -> None:
    gpu = nnc.CuPy()
    arena = gpu.arena(128)
    view = gpu.view(arena, 64, (2, 3), "float32")
    view[...] = 1
    assert arena[64:88].view("float32").tolist() == [1] * 6
    assert not np.shares_memory(view, arena[:64])
    assert gpu.view(arena, 128, (0, 3), "float64").shape == (0, 3)
    assert gpu.view(arena, 0, (), "int64").shape == ()


def test_no_room_is_told(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise MemoryError("out of memory allocating 8,000 bytes")

    gpu = nnc.CuPy()
    assert gpu.xp is cupy
    monkeypatch.setattr(np, "empty", full)
    with pytest.raises(DeviceError, match=r"CuPy\(\) has no room for float64\[1000\]: out of memory"):
        gpu.empty((1000,), "float64")


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize(("shape", "axis"), [((300, 4), 0), ((20, 3, 20, 5), (2, 0, 1)), ((300, 3, 2), (-3,))])
def test_many_rows_are_summed_as_a_product(cupy: Any, name: str, shape: Any, axis: Any, keepdims: bool) -> None:
    gpu, x = nnc.CuPy(), np.random.default_rng(0).normal(size=shape)
    op, params = CATALOGUE[name], {"axis": axis, "keepdims": keepdims}
    assert choose(op, (nnc.Aval(shape, "float64"),), params, "cupy").name == "of rows"
    wanted = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(gpu.bind(op, gpu.asarray(x), **params), wanted, rtol=1e-12, atol=1e-12)
    program = nnc.lazy(gpu)
    symbol = program.input("x", shape, "float64")
    found = program.compile([symbol], program.bind(op, symbol, **params))(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("shape", "axis"), [((300, 4), 1), ((300, 4), None), ((300,), 0), ((9, 4), 0), ((0, 4), 0)])
def test_few_rows_and_other_axes_are_reduced(shape: Any, axis: Any) -> None:
    kernel = choose(CATALOGUE["sum"], (nnc.Aval(shape, "float64"),), {"axis": axis, "keepdims": False}, "cupy")
    assert kernel.name == "sum"
