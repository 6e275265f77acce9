"""Products of a loop's body are BLAS's where a library's threads would sleep between them (`engine/planning`)."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import threadpoolctl

import nnc_func as nnc
from nnc_func.device.kernels.onednn_chains import ALONE
from nnc_func.device.onednn.elementwise import WEIGHT
from nnc_func.device.onednn.library import library, present, threads
from nnc_func.device.onednn.primitives import SMALL
from nnc_func.device.shared import workers
from nnc_func.engine.planning.kernel_table import Entry, KernelTable
from nnc_func.errors import RunError
from nnc_func.graph.ops import CATALOGUE

pytestmark = [
    pytest.mark.usefixtures("of_several_threads"),
    pytest.mark.skipif(isinstance(library(), str), reason=f"{library()}"),
]
LAZY, NUMPY = nnc.lazy(nnc.CPU()), nnc.lazy()
ROWS, UNITS, TIMES = 100, 128, 4
draw = np.random.default_rng(0)
W, X, BIAS = (
    draw.normal(size=s).astype("float32") / 12 for s in ((UNITS, 4 * UNITS), (TIMES, ROWS, UNITS), (4 * UNITS,))
)


def step(stack: Any, w: Any, x: Any, kernel: Any = None, seen: Any = None) -> Any:
    """A recurrent step's sum, with a convolution before it if there is a kernel for that; `seen` is called amid it."""
    ops = stack.ops
    if kernel is not None:
        images = ops.reshape(x, shape=(TIMES, 10, 10, UNITS))
        x = ops.reshape(ops.conv2d(images, kernel, padding="SAME"), shape=(TIMES, ROWS, UNITS))

    def body(h: Any, row: Any) -> tuple[Any, Any]:
        z = row @ w + h @ w
        parts = ops.split(z, axis=-1, sections=4)
        if seen is not None:
            (z,) = ops.callback(parts[0], function=seen, shapes=((ROWS, UNITS),), dtypes=("float32",), pure=True)
            parts = (z, *parts[1:])
        new = ops.sigmoid(parts[0]) * ops.tanh(parts[1]) + h * ops.sigmoid(parts[2])
        return new, new

    start = stack.asarray(np.zeros((ROWS, UNITS), "float32"))
    _, hs = stack.scan(body, start, x)
    return hs


def compiled(stack: Any, gradients: bool = True, **more: Any) -> Any:
    w, x = stack.input("w", W.shape, "float32"), stack.input("x", X.shape, "float32")

    def loss(w: Any) -> Any:
        return (step(stack, w, x, **more) * 0.5).sum()

    outputs = stack.value_and_grad(loss)(w) if gradients else loss(w)
    return stack.compile([w, x], outputs)


def kernels(plan: Any, name: str) -> set[str]:
    """Those of products, or of another operator, in a plan and the bodies of its loops."""
    found = {i.kernel for i in plan.instructions if name in i.op.name}
    return found.union(*[kernels(each.plan, name) for i in plan.instructions for each in i.loops])


def test_they_are_blas_and_the_values_are_numpys() -> None:
    program, other = compiled(LAZY), compiled(NUMPY)
    assert kernels(program.plan, "matmul") <= {"blas", "in blocks"}
    assert any("onednn" in each for each in kernels(program.plan, "sigmoid") | kernels(program.plan, "blockwise"))
    for mine, theirs in zip(program(W, X), other(W, X), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=1e-5)


def test_products_without_a_loop_and_beside_convolutions_stay_the_librarys() -> None:
    w, x = LAZY.input("w", W.shape, "float32"), LAZY.input("x", X.shape[1:], "float32")
    assert kernels(LAZY.compile([w, x], x @ w).plan, "matmul") == {"onednn"}
    kernel = draw.normal(size=(3, 3, UNITS, UNITS)).astype("float32") / 40
    beside = compiled(LAZY, kernel=kernel)
    assert "onednn" in kernels(beside.plan, "matmul")
    other = compiled(NUMPY, kernel=kernel)
    for mine, theirs in zip(beside(W, X), other(W, X), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-3, atol=1e-4)


def test_with_one_thread_nothing_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnc_func.engine.planning.threads.library_threads", lambda: 1)
    assert "onednn" in kernels(compiled(nnc.lazy(nnc.CPU())).plan, "matmul")


def test_a_table_that_names_the_librarys_is_obeyed() -> None:
    avals = [LAZY.input("a", (ROWS, UNITS), "float32").aval, LAZY.input("b", W.shape, "float32").aval]
    matmul = CATALOGUE["matmul"]
    table = KernelTable([Entry.of(matmul, matmul.canonical({}), avals, "onednn")])
    stack = LAZY.swap(engine=LAZY.engine.with_kernels(table))
    w, x = stack.input("w", W.shape, "float32"), stack.input("x", X.shape, "float32")
    body = lambda h, row: (stack.ops.matmul(row, w)[:, :UNITS], h.sum())  # noqa: E731 - a body
    start = stack.asarray(np.zeros((ROWS, UNITS), "float32"))
    program = stack.compile([w, x], stack.scan(body, start, x)[0])
    assert "onednn" in kernels(program.plan, "matmul")


class Seen:
    """What is set while a program runs."""

    def __init__(self, fails: bool = False) -> None:
        self.fails, self.found = fails, set[tuple[int, int]]()

    def __call__(self, x: Any) -> Any:
        known = {each.filepath for each in workers._SHARE._libraries or ()}
        of_blas = [
            each["num_threads"]
            for each in threadpoolctl.threadpool_info()
            if each["user_api"] == "blas" and each["filepath"] in known
        ]
        self.found.add((threads(present()), max(of_blas)))
        if self.fails:
            raise ValueError("as it was asked to")
        return x


@pytest.mark.parametrize("fails", [False, True])
def test_the_library_has_one_thread_during_a_run_and_blas_its_own(fails: bool) -> None:
    seen = Seen(fails)
    workers.spare()  # which looks for BLAS
    before = threads(present())
    assert before > 1
    program = compiled(LAZY, gradients=False, seen=seen)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        for _ in range(2):
            if fails:
                with pytest.raises(RunError, match="as it was asked to"):
                    program(W, X)
            else:
                program(W, X)
        if not fails:
            [*program.walk((W, X))]
    assert seen.found == {(1, 2)}
    assert threads(present()) == before


def test_another_thread_has_its_own() -> None:
    found: list[int] = []
    with workers.libraries_in_one_thread():
        other = threading.Thread(target=lambda: found.append(workers.library_threads()))
        other.start()
        other.join()
        mine = workers.library_threads()
        with workers.libraries_in_one_thread():
            pass
        assert workers.library_threads() == 1
    assert mine == 1
    assert found[0] > 1
    assert workers.library_threads() > 1


def test_what_is_small_is_what_has_a_primitive_for_one_thread() -> None:
    assert SMALL // WEIGHT == ALONE
