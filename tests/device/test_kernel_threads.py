"""Kernels that cut their work give the same bits in any number of threads (`device/kernels/blocks`)."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.device.kernels import blocks
from nnc_func.device.shared import workers
from nnc_func.device.shared.namespace import candidates
from nnc_func.graph.ops import CATALOGUE as OPS

NUMPY = nnc.NumPy()
BAD = (np.nan, np.inf, -np.inf, -0.0)


def results(name: str, arrays: Any, params: dict[str, Any], patch: Any, threads: int) -> dict[str, Any]:
    """What each planned kernel of an operator gives when so many threads are spare and any work is worth them."""
    patch.setattr(workers, "spare", lambda: threads)
    patch.setattr(blocks, "WORTH", 1)
    op = OPS[name]
    of = dict(op.canonical(params))
    found = {}
    for kernel in candidates(op, tuple(map(NUMPY.aval, arrays)), of, "numpy"):
        with np.errstate(all="ignore"):
            found[kernel.name] = kernel.compute(np, *arrays, **of)
    return found


@given(
    st.integers(1, 9), st.integers(1, 40), st.integers(3, 40), st.integers(1, 9), st.sampled_from(["NHWC", "NCHW"]),
    st.sampled_from([((2, 2), (2, 2)), ((3, 2), (1, 2)), ((3, 3), (2, 2))]), st.sampled_from(["float32", "float64"]),
    st.integers(0, 99),
)  # fmt: skip
def test_pools_are_the_same_in_any_number_of_threads(
    images: int, height: int, width: int, channels: int, data_format: str, window: Any, dtype: str, seed: int
) -> None:
    random = np.random.default_rng(seed)
    size, stride = window
    height = max(height, size[0])
    shape = (images, height, width, channels) if data_format == "NHWC" else (images, channels, height, width)
    x = random.integers(-3, 4, shape).astype(dtype)  # many are alike
    x.reshape(-1)[random.integers(x.size, size=2)] = random.choice(BAD, 2)
    of = {"window": size, "stride": stride, "data_format": data_format}
    pooled = OPS["max_pool2d"].kernels[-1].compute(np, x, **dict(OPS["max_pool2d"].canonical(of)))
    g = random.standard_normal(pooled.shape).astype(dtype)
    average = {**of, "input_shape": shape}
    cases = [("max_pool2d", (x,), of), ("average_pool2d", (x,), of), ("max_pool2d_gradient", (x, g), of),
             ("max_pool2d_tangent", (x, x), of), ("average_pool2d_gradient", (g,), average)]  # fmt: skip
    for name, arrays, params in cases:
        with pytest.MonkeyPatch.context() as patch:
            alone, shared = (results(name, arrays, params, patch, n) for n in (1, 3))
        assert len(alone) > 1
        for kernel, found in shared.items():
            np.testing.assert_array_equal(found, alone[kernel], strict=True, err_msg=f"{name}, {kernel}")


@given(st.lists(st.integers(1, 300), min_size=1, max_size=4), st.integers(-4, 3), st.integers(0, 99))
def test_softmax_is_the_same_in_any_number_of_threads(shape: list[int], axis: int, seed: int) -> None:
    from nnc_func.device.kernels import losses

    shape = [n if i < 2 else 1 + n % 9 for i, n in enumerate(shape)]
    axis %= len(shape)
    random = np.random.default_rng(seed)
    x = random.standard_normal(shape).astype("float32") * 9
    x.reshape(-1)[random.integers(x.size, size=2)] = random.choice(BAD, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(losses, "PART", 64)  # elements: small ones come in parts, too
        alone, shared = (results("softmax", (x,), {"axis": axis}, patch, n) for n in (1, 3))
        patch.setattr(losses, "PART", 1 << 40)
        whole = results("softmax", (x,), {"axis": axis}, patch, 1)
    for kernel, found in shared.items():
        np.testing.assert_array_equal(found, alone[kernel], strict=True)
        np.testing.assert_allclose(found, whole[kernel], rtol=1e-6)


def test_an_error_of_a_piece_is_raised_and_all_threads_end() -> None:
    def work(piece: int, thread: int) -> None:
        if piece == 3:
            raise ValueError("of piece 3")

    with pytest.raises(ValueError, match="of piece 3"):
        blocks.in_turn(range(9), 3, work)
    found: list[int] = []
    blocks.in_turn(range(9), 2, lambda piece, thread: found.append(piece))
    assert sorted(found) == list(range(9))


def test_kernels_have_the_cores_while_those_of_a_library_take_turns_with_them() -> None:
    """`one_thread` is of BLAS; `shared` and `side_by_side` leave one thread to each kernel."""
    before = workers.spare()
    with workers.one_thread():
        assert workers.spare() == before
        with workers.shared(2):
            assert workers.spare() == 1
        assert workers.spare() == before
        seen: list[int] = []
        workers.side_by_side(lambda thread: seen.append(workers.spare()), 2)
        assert seen == [1, 1]
    assert workers.spare() == before
    with workers.shared(2), workers.one_thread():
        assert workers.spare() == 1
    assert workers.spare() == before


def test_an_interrupt_at_any_line_leaves_blas_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking was counted: an interrupt between a line and the next left BLAS at one thread for good.

    A function that traces may raise where no signal comes, between the end of a `with` and what that calls: locks stay
    held then, for other threads. So all is asked of a share that other tests do not have.
    """
    monkeypatch.setattr(workers, "_SHARE", workers._Share())

    def run() -> None:
        with workers.one_thread():
            workers.side_by_side(lambda thread: None, 2)
            workers.spare()

    run()
    before = [each.get_num_threads() for each in workers._blas()]
    at = count = 0

    def line(frame: Any, event: str, arg: Any) -> Any:
        nonlocal count
        if event == "line":
            count += 1
            if count == at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return line

    def called(frame: Any, event: str, arg: Any) -> Any:
        return line if frame.f_code.co_filename == workers.__file__ else None

    tracing = sys.gettrace()
    while count >= at:  # until there are fewer lines
        at, count = at + 1, 0
        sys.settrace(called)
        try:
            run()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(tracing)
        assert [each.get_num_threads() for each in workers._blas()] == before
        assert not workers._SHARE._askers
        assert workers._SHARE._before is None
    assert at > 20


def test_an_asker_that_left_without_a_word_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt may end the function of a weak reference: BLAS was not held any more after that."""
    share = workers._Share()
    monkeypatch.setattr(workers, "_blas", [library := _Library(4)].copy)
    asker = workers._Asker()
    share.hold(asker, 1)
    (key,) = share._askers
    share._askers[key] = weakref.ref(asker)  # whose function was ended
    del asker
    gc.collect()
    assert library.threads == 1
    other = workers._Asker()
    share.hold(other, 2)
    assert library.threads == 2
    share.free(other)
    assert library.threads == 4
    assert share.spare() == 4


def test_a_library_that_was_loaded_later_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found on 3.13: SciPy's BLAS had all cores beside streams where it was imported after they first ran."""
    share, libraries = workers._Share(), [_Library(4)]
    monkeypatch.setattr(workers, "_blas", libraries.copy)
    for count in 1, 2:
        asker = workers._Asker()
        share.hold(asker, 1)
        assert [each.threads for each in libraries] == [1] * count
        share.free(asker)
        assert [each.threads for each in libraries] == [4] * count
        libraries.append(_Library(4))
        monkeypatch.setitem(sys.modules, "a_module_with_a_blas_of_its_own", workers)


class _Library:
    """A library of BLAS, as threadpoolctl has it."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def get_num_threads(self) -> int:
        return self.threads

    def set_num_threads(self, threads: int) -> None:
        self.threads = threads


def blas() -> Any:
    """NumPy's library, as threadpoolctl has it."""
    pytest.importorskip("threadpoolctl")
    return workers._SHARE._known()[0]


def in_another(call: Callable[[], Any], ended: threading.Event) -> Any:
    """What it gives in a thread that lives until that event."""
    found: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=lambda: (found.put(call()), ended.wait(60)), daemon=True).start()
    return found.get(timeout=60)


def test_blas_is_held_whichever_thread_was_the_first_to_hold_it() -> None:
    """threadpoolctl obeys the first thread that sets a number, as long as that lives, and says nothing to others."""
    library, ended = blas(), threading.Event()

    def held() -> int:
        with workers.one_thread():
            return int(library.get_num_threads())

    before = library.get_num_threads()
    threadpoolctl = pytest.importorskip("threadpoolctl")
    try:
        with threadpoolctl.threadpool_limits(2, user_api="blas"):
            assert [in_another(held, ended), held(), in_another(held, ended), held()] == [1, 1, 1, 1]
            assert library.get_num_threads() == 2
    finally:
        ended.set()
    assert library.get_num_threads() == before


def test_blas_is_given_back_by_whichever_thread_ends_it() -> None:
    """A walk may be continued by another thread, which asks and leaves."""
    library, ended = blas(), threading.Event()
    threadpoolctl = pytest.importorskip("threadpoolctl")
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        for begun, over in itertools.permutations([lambda call: call(), partial(in_another, ended=ended)]):
            holding = workers.one_thread()
            begun(holding.__enter__)
            assert library.get_num_threads() == 1
            over(lambda holding=holding: holding.__exit__(None, None, None))
            assert library.get_num_threads() == 2
    ended.set()
