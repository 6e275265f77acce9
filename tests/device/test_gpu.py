"""CuPy equals NumPy; marked gpu, and skipped with the reason where CuPy or a GPU is missing (`device/gpu`)."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func import nn
from nnc_func.errors import DeviceError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op
from nnc_func.testing.laws import equal, results
from nnc_func.testing.samples import arguments
from tests.nn.models import images, leaves, small_cnn


def why_not() -> str:
    """What is missing; empty where nothing is."""
    try:
        nnc.CuPy().asarray([1.0])
    except DeviceError as error:
        return str(error)
    return ""


def alike(op: Op, arrays: Any, found: list[Any], wanted: Any, what: str) -> None:
    """The values are NumPy's; vectors of a decomposition have the device's signs, and are as exact as they are apart.

    Of batches CuPy's singular values are Jacobi's: measured to 62 units where LAPACK's are to 25, so these are
    multiplied out, and what is computed of them has four times the operator's tolerance.
    """
    ulps = max(4.0, op.tolerance.ulps) * (4 if op.name == "cofactors" else 1)
    for at, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if op.name not in ("qr", "svd", "eigh"):
            equal(one, other, ulps, what)
        elif op.name != "svd" or at == 1:
            equal(np.abs(one), np.abs(other), ulps, what)
    if op.name == "svd":
        (u, s, vh), (x,) = found, arrays
        k = s.shape[-1]
        equal((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x.astype(u.dtype), 4 * ulps, f"{what}, multiplied out")
        for vectors in (u, vh):
            inner = vectors.conj().swapaxes(-1, -2) @ vectors if vectors is u else vectors @ vh.conj().swapaxes(-1, -2)
            equal(inner, np.broadcast_to(np.eye(inner.shape[-1], dtype=inner.dtype), inner.shape), 4 * ulps, what)


REASON = why_not()
EXAMPLES = max(5, settings.default.max_examples // 5) if settings.default else 5
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(REASON), reason=REASON)]


@pytest.mark.parametrize("op", CATALOGUE.values(), ids=CATALOGUE)
def test_it_equals_numpy(op: Op) -> None:
    host, gpu = nnc.NumPy(), nnc.CuPy()

    @settings(max_examples=EXAMPLES)
    @given(st.data())
    def check(data: Any) -> None:
        arrays, params = data.draw(arguments(op))
        found = results(op, gpu.bind(op, *map(gpu.asarray, arrays), **params))
        wanted = results(op, host.bind(op, *arrays, **params))
        assert all(gpu.owns(each) for each in found)
        alike(op, arrays, [gpu.to_numpy(each) for each in found], wanted, f"{op} on {gpu!r}")

    check()


@pytest.mark.parametrize("op", CATALOGUE.values(), ids=CATALOGUE)
def test_a_planned_program_equals_numpy(op: Op) -> None:
    """Kernels that write into an arena."""
    gpu, host = nnc.lazy(nnc.CuPy()), nnc.eager()

    @settings(max_examples=EXAMPLES)
    @given(st.data())
    def check(data: Any) -> None:
        arrays, params = data.draw(arguments(op))
        inputs = [gpu.input(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]
        made = gpu.bind(op, *inputs, **params)
        found = gpu.compile(inputs=inputs, outputs=list(made) if op.multi_result else [made])(*arrays)
        wanted = results(op, host.device.bind(op, *arrays, **params))
        alike(op, arrays, [gpu.device.to_numpy(each) for each in found], wanted, f"{op}, planned")

    check()


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy, lambda d: nnc.eager(nnc.lazy(d))], ids=["eager", "lazy", "over"])
def test_it_trains_as_numpy_does(make: Any) -> None:
    x, y = images(8)
    trained = [
        nn.train(
            stack,
            small_cnn(dropout=0.2),
            nn.softmax_cross_entropy,
            nn.SGD(momentum=0.9),
            nn.Batches(x, y, 4),
            rate=0.01,
            steps=5,
            progress=False,
            seed=3,
        )
        for stack in (nnc.eager(), make(nnc.CuPy()))
    ]
    np.testing.assert_allclose(trained[1].losses, trained[0].losses, rtol=1e-4)
    for found, wanted in zip(leaves(trained[1].model), leaves(trained[0].model), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)


def test_a_result_that_is_held_is_not_written_over() -> None:
    """Nor one of which only a view is held."""
    gpu = nnc.lazy(nnc.CuPy())
    x = gpu.input("x", (4,), "float32")
    program = gpu.compile(inputs=[x], outputs=[x * 2])
    views = [program(np.full(4, i, "float32"))[0][1:] for i in range(4)]
    for i, view in enumerate(views):
        np.testing.assert_array_equal(gpu.device.to_numpy(view), np.full(3, 2 * i, "float32"))


def test_views_lie_in_the_arena() -> None:
    gpu = nnc.CuPy()
    arena = gpu.arena(1024)
    assert arena.data.ptr % gpu.alignment == 0
    view = gpu.view(arena, 256, (2, 3), "float64")
    assert view.data.ptr == arena.data.ptr + 256
    assert gpu.view(arena, 1024, (0, 3), "float64").shape == (0, 3)
    gpu.synchronise()


def test_arrays_of_other_devices_are_refused() -> None:
    gpu, x = nnc.CuPy(), nnc.CuPy().asarray([1.0, 2.0])
    for stack in (nnc.eager(), nnc.lazy(), nnc.eager(nnc.Strict()), nnc.eager(nnc.Null())):
        with pytest.raises(DeviceError, match="no array of this device"):
            stack.ops.add(stack.asarray([1.0, 2.0]), x)
    with pytest.raises(DeviceError, match="no array of this device"):
        gpu.bind(CATALOGUE["add"], x, nnc.Strict().asarray([1.0, 2.0]))


def test_an_index_beyond_the_last_gpu_is_refused() -> None:
    with pytest.raises(DeviceError, match=r"CuPy\(99\): there are \d+ GPUs"):
        nnc.CuPy(99).asarray([1.0])


def test_a_stack_on_it_pickles() -> None:
    stack = pickle.loads(pickle.dumps(nnc.lazy(nnc.CuPy())))
    np.testing.assert_array_equal(stack.ops.add([1.0, 2.0], 1).numpy(), [2, 3])


def test_no_room_is_told() -> None:
    with pytest.raises(DeviceError, match=r"CuPy\(\) has no room for uint8"):
        nnc.CuPy().arena(1 << 50)
