"""Small primitives run in the caller's thread, and leave the number of threads as it was (`device/onednn`)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from attrs import evolve

import nnc_func as nnc
from nnc_func.device.onednn import primitives
from nnc_func.device.onednn.bound import bound
from nnc_func.device.onednn.elementwise import Chain, chain
from nnc_func.device.onednn.handles import row_major
from nnc_func.device.onednn.library import present, switches, threads
from nnc_func.device.onednn.primitives import After, Convolution, Primitive, convolution
from nnc_func.device.onednn.reorders import reorder

COUNT = 3
SHAPE = (4, 8)


@pytest.fixture(autouse=True)
def several_threads() -> Iterator[None]:
    """This thread's calls take three, whatever the machine has."""
    found = switches(present().path)
    assert found is not None
    before = found[0]()
    found[1](COUNT)
    yield
    found[1](before)


def some(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def run(primitive: Primitive, *arrays: Any) -> None:
    scratch = np.empty(primitive.room, np.uint8) if primitive.scratch else None
    bound(primitive, scratch, (np.asarray,) * (primitive.arrays - primitive.results))(*arrays)


def added(rows: int = SHAPE[0]) -> Primitive:
    return chain(Chain(rows, SHAPE[1], After("add", "whole"), ()))


def test_the_number_of_threads_is_what_it_was() -> None:
    made, (a, b, out) = added(), (some(*SHAPE), some(*SHAPE), np.empty(SHAPE, "float32"))
    assert made.calls_others
    run(made, a, b, out)
    np.testing.assert_array_equal(out, a + b)
    assert threads(present()) == COUNT


def test_while_it_runs_it_is_one_and_what_ends_it_puts_it_back() -> None:
    made, library, seen = added(), present(), list[int]()

    class Interrupted:
        """The library's functions; the one that runs a primitive is interrupted."""

        def __getattr__(self, name: str) -> Any:
            return getattr(library.functions, name)

        def dnnl_primitive_execute(self, *_: Any) -> int:
            seen.append(threads(library))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(evolve(made, library=evolve(library, functions=Interrupted())), *[some(*SHAPE)] * 3)
    assert seen == [1]
    assert threads(library) == COUNT


def test_what_is_large_or_remembers_its_number_is_called_as_it_is() -> None:
    assert not added(1_000_000).is_alone
    small = convolution(
        Convolution((1, 4, 4, 8), (1, 1, 8, 8), (4, 4), (1, 1), (1, 1), (0, 0), (0, 0), 1), "forward", (1,)
    )
    assert small.is_alone
    assert small.calls_others != small.implementation.startswith("br")
    several = reorder((1, 8, 4, 4), (128, 16, 4, 1), (128, 1, 32, 8))
    assert several.calls_others


def test_a_machine_of_one_thread_is_asked_nothing() -> None:
    found = switches(present().path)
    assert found is not None
    found[1](1)
    assert not added(5).is_alone


PROGRAM = """
import os
import numpy as np
import nnc_func as nnc
lazy = nnc.lazy(nnc.CPU())
x = lazy.input("x", (1, 16, 12, 12), "float32")
w, b = np.ones((3, 3, 16, 16), "float32") / 100, np.ones((16, 1, 1), "float32")
y = x
for _ in range(4):
    y = lazy.ops.relu(lazy.ops.conv2d(y, w, data_format="NCHW") + b)
program = lazy.compile([x], lazy.ops.sigmoid(y))
kernels = {i.kernel for i in program.plan.instructions}
assert "onednn" in kernels and "onednn, packed" in kernels, kernels
for _ in range(3):
    program(np.ones((1, 16, 12, 12), "float32"))
few = len(os.listdir("/proc/self/task"))
eager = nnc.eager(nnc.CPU())
eager.ops.conv2d(np.ones((1, 64, 64, 64), "float32"), np.ones((3, 3, 64, 64), "float32")).numpy()
print(few, len(os.listdir("/proc/self/task")))
"""


def test_small_networks_start_no_thread() -> None:
    asked = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **asked}, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["1", "2"]


@pytest.mark.parametrize("kind", ["lazy", "eager"])
def test_programs_and_calls_leave_it(kind: str) -> None:
    stack = getattr(nnc, kind)(nnc.CPU())
    a = some(1, 8, 4, 4)
    found = stack.jit(lambda x: stack.ops.conv2d(x, some(1, 1, 8, 8), data_format="NCHW") + 1.0)(a).numpy()
    wanted = np.einsum("nchw,co->nohw", a, some(1, 1, 8, 8)[0, 0]) + 1
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert threads(present()) == COUNT


def test_an_interrupt_while_one_is_made_puts_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes when the call has returned that sets the number: met from outside, once in 920 interrupts."""
    ask, limit = switches(present().path) or (None, None)

    def interrupted(number: int) -> None:
        limit(number)
        if number == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(primitives, "switches", lambda path: (ask, interrupted))
    with pytest.raises(KeyboardInterrupt):
        primitives.for_threads(1, lambda library: added())
    assert threads(present()) == COUNT


def test_no_function_of_python_runs_while_objects_are_handed_over() -> None:
    """An interrupt within one would come out as an error of ctypes, which no one expects who catches interrupts."""
    library, seen = present(), list[str]()
    description = row_major(library, (2, 3))
    size = library.functions.dnnl_memory_desc_get_size
    sys.setprofile(lambda frame, event, _: seen.append(event))
    size(description)
    sys.setprofile(None)
    assert "call" not in seen


RECURRENT = """
import os
import numpy as np
from nnc_func.device.onednn.bound import bound
from nnc_func.device.onednn.recurrent import Recurrent, recurrent
made = recurrent(Recurrent("lstm", 1, 2, 128, 128, False), (1, 2))
shapes = ((1, 2, 128), (128, 512), (128, 512), (512,), (2, 128), (2, 128), (1, 2, 128), (2, 128), (2, 128))
arrays = [np.ones(shape, "float32") for shape in shapes]
scratch = np.empty(made.room, np.uint8) if made.scratch else None
run = bound(made, scratch, (np.ascontiguousarray,) * 6)
for _ in range(3):
    run(*arrays)
print(len(os.listdir("/proc/self/task")))
"""


def test_small_recurrent_layers_start_no_thread() -> None:
    """With weights that are in order already they are one step, of small products, and ask all the same."""
    asked = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(
        [sys.executable, "-c", RECURRENT], env={**os.environ, **asked}, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["1"]
