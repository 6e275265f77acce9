"""Eager calls that are alike share what is bound to oneDNN: nothing is made twice, or kept (`device/kernels`)."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.body import Body
from nnc_func.device.kernels import onednn_calls
from nnc_func.device.onednn.library import Library
from nnc_func.graph.ops import CATALOGUE

pytestmark = pytest.mark.usefixtures("of_several_threads")
EAGER, REFERENCE = nnc.eager(nnc.CPU()), nnc.eager()
ADDED = Body.of(2, (CATALOGUE["add"], 0, 1), (CATALOGUE["relu"], 2))
draw = np.random.default_rng(0)


def some(*shape: int) -> Any:
    return draw.normal(size=shape).astype("float32")


CALLS: dict[str, Any] = {
    "matmul": (lambda n: (some(n, 160), some(160, 170)), {}),
    "conv2d": (lambda n: (some(2, n, 9, 16), some(3, 3, 16, 8)), {"padding": "SAME"}),
    "conv2d_kernel_gradient": (lambda n: (some(2, n, 9, 16), some(2, n, 9, 8)), {"kernel_shape": (3, 3, 16, 8),
                                                                                 "padding": "SAME"}),
    "matmul_blockwise": (lambda n: (some(n, 160), some(160, 170), some(170)), {"body": ADDED}),
}  # fmt: skip


def applied(stack: Any, name: str, arrays: Any) -> Any:
    return stack.bind(CATALOGUE[name], *map(stack.asarray, arrays), **CALLS[name][1]).numpy()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the library is asked to make."""
    found: list[str] = []
    before = Library.made

    def counting(self: Library, name: str, *args: Any) -> Any:
        found.append(name)
        return before(self, name, *args)

    monkeypatch.setattr(Library, "made", counting)
    return found


@pytest.mark.parametrize("name", CALLS)
def test_the_second_call_makes_nothing(name: str, made: list[str]) -> None:
    n = 121 + 2 * [*CALLS].index(name)
    first, second = CALLS[name][0](n), CALLS[name][0](n)
    applied(EAGER, name, first)
    assert made
    made.clear()
    for arrays in (first, second, first):
        np.testing.assert_allclose(applied(EAGER, name, arrays), applied(REFERENCE, name, arrays), rtol=2e-4, atol=2e-4)
    assert not made


def test_elements_that_change_and_arrays_that_lie_otherwise_are_seen() -> None:
    a, b = some(130, 160), some(160, 170)
    for _ in range(2):
        for left in (a, np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2]):
            np.testing.assert_allclose(applied(EAGER, "matmul", (left, b)), a @ b, rtol=1e-4, atol=1e-4)
        b[...] = some(160, 170)


def test_no_array_is_kept() -> None:
    arrays = CALLS["matmul"][0](140)
    seen = [weakref.ref(x) for x in (*arrays, EAGER.device.bind(CATALOGUE["matmul"], *arrays))]
    del arrays
    gc.collect()
    assert [each() for each in seen] == [None] * 3


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch, made: list[str]) -> None:
    monkeypatch.setattr(onednn_calls, "KEPT", 2)
    monkeypatch.setattr(onednn_calls, "_known", onednn_calls._Known())
    cases = [CALLS["matmul"][0](n) for n in (150, 151, 152)]
    for arrays in (*cases, cases[1]):
        applied(EAGER, "matmul", arrays)
    assert len(onednn_calls._known.calls) == 2
    made.clear()
    applied(EAGER, "matmul", cases[1])
    assert not made
    np.testing.assert_allclose(applied(EAGER, "matmul", cases[0]), cases[0][0] @ cases[0][1], rtol=1e-4, atol=1e-4)
    assert made


def test_threads_have_their_own() -> None:
    arrays = CALLS["conv2d"][0](11)
    wanted, wrong = applied(EAGER, "conv2d", arrays), []

    def run() -> None:
        for _ in range(20):
            if not np.array_equal(applied(EAGER, "conv2d", arrays), wanted):
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


# --- scratch memory --------------------------------------------------------------------------------------


def _scratch_of(avals: Any, **params: Any) -> Any:
    return (((3,), np.dtype("uint8")), (avals[0].shape, avals[0].dtype))


def _bound_of(avals: Any, *, amid: Any = None) -> Any:
    def of(small: Any, large: Any) -> Any:
        def run(x: Any, out: Any) -> None:
            small[...], large[...] = 7, x
            if amid is not None:
                amid(x, out)
            out[...] = large + small[0]

        return run

    return of


def test_scratch_memory_is_aligned_and_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    known = onednn_calls._Known()
    monkeypatch.setattr(onednn_calls, "_known", known)
    for n in (10, 1000, 5, 1000):
        x, out = some(n), np.empty(n, "float32")
        onednn_calls.call(_bound_of, _scratch_of, 0, (x, out), {})
        np.testing.assert_array_equal(out, x + 7)
    assert len(known.calls) == 3
    arrays = known.memory((((3,), np.dtype("uint8")), ((4,), np.dtype("float64"))))
    assert all(each.__array_interface__["data"][0] % 64 == 0 for each in arrays)
    assert not np.shares_memory(*arrays)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_call_amid_another_has_scratch_memory_of_its_own(depth: int) -> None:
    def amid(x: Any, out: Any) -> None:
        onednn_calls.call(_bound_of, _scratch_of, 0, (x * 0, np.empty_like(out)), {})

    x, out = some(8), np.empty(8, "float32")
    for _ in range(depth):
        onednn_calls.call(_bound_of, _scratch_of, 0, (x, out), {"amid": amid})
        np.testing.assert_array_equal(out, x + 7)


def test_what_wants_much_scratch_memory_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    known = onednn_calls._Known()
    monkeypatch.setattr(onednn_calls, "_known", known)
    monkeypatch.setattr(onednn_calls, "MOST", 64)
    x, out = some(100), np.empty(100, "float32")
    onednn_calls.call(_bound_of, _scratch_of, 0, (x, out), {})
    np.testing.assert_array_equal(out, x + 7)
    assert not known.calls
    assert not known.scratch.nbytes
