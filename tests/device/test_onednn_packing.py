"""Constant weights are put into oneDNN's own order once: by which kernels, and what is refused (`device/onednn`)."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.device.onednn import packing
from nnc_func.device.onednn.handles import strided
from nnc_func.device.onednn.library import present
from nnc_func.device.onednn.primitives import GAP, Convolution, Primitive, Product, _Steps, convolution, product
from nnc_func.engine.plan_rows import DONATED, INPUT
from nnc_func.errors import DeviceWarning, PlanError

pytestmark = pytest.mark.usefixtures("of_several_threads")
LAZY, REFERENCE = nnc.lazy(nnc.CPU()), nnc.eager()
PACKED = "onednn, packed"
draw = np.random.default_rng(0)


def some(*shape: int) -> Any:
    return draw.normal(size=shape).astype("float32")


def kernels(program: Any) -> list[str]:
    return [i.kernel for i in program.plan.instructions if not i.view]


def network(stack: Any, x: Any, w: Any, dense: Any) -> Any:
    """A convolution with what follows it, and a product."""
    ops = stack.ops
    y = ops.relu(ops.conv2d(x, w, padding="SAME") + np.float32(0.5))
    return ops.reshape(y, shape=(y.shape[0], -1)) @ dense


def compiled(w: Any, dense: Any, stack: Any = LAZY) -> Any:
    x = stack.input("x", (2, 8, 8, 16), "float32")
    return stack.compile([x], network(stack, x, w, dense))


WEIGHTS = some(3, 3, 16, 24), some(8 * 8 * 24, 1500)


def test_constant_weights_are_packed_and_inputs_are_not() -> None:
    x, program = some(2, 8, 8, 16), compiled(*WEIGHTS)
    assert kernels(program).count(PACKED) == 2
    exact = [REFERENCE.asarray(a.astype("float64")) for a in (x, *WEIGHTS)]
    wanted = network(REFERENCE, *exact).numpy()
    near = 2e-6 * abs(wanted).max()  # sums of 1536 products, some of which cancel: 17 units of float32 in the greatest
    for _ in range(3):
        np.testing.assert_allclose(program(x), wanted, rtol=0, atol=near)
    inputs = [LAZY.input(f"w{i}", w.shape, "float32") for i, w in enumerate(WEIGHTS)]
    t = LAZY.input("x", x.shape, "float32")
    there = LAZY.compile([t, *inputs], network(LAZY, t, *inputs))
    assert kernels(there).count("onednn") == 2
    np.testing.assert_allclose(there(x, *WEIGHTS), wanted, rtol=0, atol=near)


@given(
    st.tuples(st.integers(1, 3), st.integers(5, 9), st.integers(5, 9), st.integers(1, 9)),
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 9)),
    st.sampled_from(["conv2d", "conv2d_input_gradient"]), st.sampled_from(["C", "F"]), st.sampled_from([1, 2]),
)  # fmt: skip
@example((1, 5, 5, 4), (1, 1, 1), "conv2d", "C", 2)
def test_packed_convolutions_are_numpys(images: Any, window: Any, name: str, order: Any, groups: int) -> None:
    """However the constant lies in memory."""
    n, height, width, channels = images
    x = some(n, height, width, channels * groups)
    w = np.array(some(*window[:2], channels, window[2] * groups), order=order)
    more: dict[str, Any] = {"groups": groups}
    if name == "conv2d_input_gradient":
        more["input_shape"] = x.shape
        x = some(*REFERENCE.ops.conv2d(x, w, groups=groups).shape)
    t = LAZY.input("x", x.shape, "float32")
    program = LAZY.compile([t], getattr(LAZY.ops, name)(t, w, **more))
    assert groups > 1 or kernels(program) == [PACKED]  # of few channels a group NumPy has some
    wanted = getattr(REFERENCE.ops, name)(x, w, **more).numpy()
    for _ in range(2):
        np.testing.assert_allclose(program(x), wanted, rtol=5e-5, atol=5e-5)


@given(
    st.integers(1, 40), st.integers(150, 200), st.integers(700, 800) | st.sampled_from([768, 1024]), st.booleans(),
    st.booleans(), st.sampled_from([(), (3,), (1,)]), st.sampled_from(["C", "F"]), st.booleans(),
)  # fmt: skip
def test_packed_products_are_numpys(
    rows: int, inner: int, columns: int, turned_a: bool, turned_b: bool, batch: Any, order: Any, more: bool
) -> None:
    """However the constant lies in memory; its rows may have gaps there (`primitives._apart`)."""
    a = some(3, *((inner, rows) if turned_a else (rows, inner)))
    b = np.array(some(*batch, *((columns, inner) if turned_b else (inner, columns))), order=order)
    exact = a.astype("float64"), b.astype("float64")
    wanted = np.matmul(
        exact[0].swapaxes(-1, -2) if turned_a else exact[0], exact[1].swapaxes(-1, -2) if turned_b else exact[1]
    )
    bias = some(columns)
    wanted = np.maximum(wanted + bias, 0) if more else wanted
    x = LAZY.input("x", a.shape, "float32")
    y = LAZY.ops.matmul(x, b, transpose_a=turned_a, transpose_b=turned_b)
    program = LAZY.compile([x], LAZY.ops.relu(y + bias) if more else y)
    for seen in (a, np.ascontiguousarray(a.swapaxes(1, 2)).swapaxes(1, 2), np.repeat(a, 2, axis=2)[..., ::2]):
        np.testing.assert_allclose(program(seen), wanted, rtol=5e-5, atol=5e-5)


def test_rows_of_constants_lie_apart_where_few_sets_of_a_cache_would_have_them() -> None:
    for swapped in (False, True):
        apart = product(Product((100, 64), (64, 256), False, swapped), (1,))
        assert apart.is_steady or apart.packings[1].nbytes == 4 * 64 * (256 + GAP)
    for right in ((64, 255), (1, 256)):
        close = product(Product((100, right[0]), right, False, False), (1,))
        assert close.is_steady or not close.packings


# --- memory ----------------------------------------------------------------------------------------------


def _packed() -> list[Any]:
    """What is there of all constants, put into order."""
    gc.collect()
    return [found.memory for known in packing._known.values() for found in known.kept]


def test_what_is_packed_is_shared_and_goes_with_its_constant() -> None:
    before = _packed()
    programs, x = [compiled(some(3, 3, 16, 24), some(8 * 8 * 24, 1500))], some(2, 8, 8, 16)
    wanted = programs[0](x)
    made = [found for found in _packed() if not any(found is each for each in before)]
    assert len(made) in (1, 2)  # for some processors products read matrices as they are

    def run() -> None:
        for _ in range(20):
            np.testing.assert_array_equal(programs[0](x), wanted)

    threads = [threading.Thread(target=run) for _ in range(4)]  # each has an arena of its own
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(_packed()) == len(before) + len(made)
    programs.clear()
    assert not any(found is each for found in _packed() for each in made)


def test_what_reads_a_constant_another_way_packs_another_array() -> None:
    """A square matrix as it is, and transposed: both are put into one order, and are not the same."""
    library, matrix = present(), some(16, 16)
    wanted = strided(library, (16, 16), (20, 1))
    found = []
    for strides in ((16, 1), (1, 16)):
        steps = _Steps(library)
        steps.packed(33, 1, strided(library, (16, 16), strides), wanted)
        primitive = Primitive(library, (), 3, 0, "none", steps.packings)
        found += [packing.shared(primitive, 1, matrix, matrix, packing.Seen()) for _ in range(2)]
    assert found[0] is found[1]
    assert found[2] is found[3]
    for packed, elements in ((found[0], matrix), (found[2], matrix.T)):
        seen = np.ndarray((16, 16), "float32", packed, strides=(80, 4))
        np.testing.assert_array_equal(seen, elements)


@pytest.mark.parametrize("turned", [False, True])
def test_a_square_constant_is_multiplied_as_it_is_and_transposed(turned: bool) -> None:
    w, a = some(256, 256), some(64, 256)
    x = LAZY.input("x", a.shape, "float32")
    ops = LAZY.ops
    first, second = (ops.matmul(x, w, transpose_b=each) for each in (turned, not turned))
    program = LAZY.compile([x], [first, second])
    for found, by in zip(program(a), (w.T, w) if turned else (w, w.T), strict=True):
        np.testing.assert_allclose(found, a @ by, rtol=1e-4, atol=1e-3)


def test_a_run_takes_no_memory_beside_its_plan() -> None:
    program, x = compiled(*WEIGHTS), some(2, 8, 8, 16)
    out = program(x)
    program(x, out=out)
    tracemalloc.start()
    try:
        program(x, out=out)
        assert tracemalloc.get_traced_memory()[1] <= 1 << 16
    finally:
        tracemalloc.stop()


def test_scratch_memory_is_without_the_weights() -> None:
    of = Convolution((1, 8, 8, 64), (3, 3, 64, 64), (8, 8), (1, 1), (1, 1), (1, 1), (1, 1), 1)
    plain, lasting = convolution(of, "forward"), convolution(of, "forward", (1,))
    assert plain.scratch >= lasting.scratch + 4 * 9 * 64 * 64
    assert lasting.packings[1].nbytes >= 4 * 9 * 64 * 64


# --- plans -----------------------------------------------------------------------------------------------


def test_a_plan_that_packs_what_may_change_is_refused() -> None:
    """The constant of a plan is made an input: the kernel would not see another array's elements."""
    x = LAZY.input("x", (2, 8, 8, 16), "float32")
    plan = LAZY.compile([x], LAZY.ops.conv2d(x, WEIGHTS[0])).plan.verify()
    (slot,) = plan.constants
    at = plan.slots[slot].buffer
    buffers = [evolve(b, kind=INPUT, source=1) if n == at else b for n, b in enumerate(plan.buffers)]
    wrong = evolve(plan, buffers=tuple(buffers), inputs=(*plan.inputs, slot), constants=(), input_names=())
    with pytest.raises(PlanError, match="puts operand 1 into order once, which must be a constant or a variable"):
        wrong.verify()
    plain = [evolve(i, kernel="onednn") for i in wrong.instructions]
    with pytest.raises(PlanError, match="wants scratch"):  # nothing else is wrong with it
        evolve(wrong, instructions=tuple(plain)).verify()


def test_a_packed_program_is_saved_and_read(tmp_path: Path) -> None:
    program, x = compiled(*WEIGHTS), some(2, 8, 8, 16)
    path = tmp_path / "packed.nnc"
    program.save(path)
    again = nnc.load_program(path, LAZY)
    assert kernels(again) == kernels(program)
    np.testing.assert_array_equal(again(x), program(x))


def test_a_table_names_the_kernel_and_constants_are_packed_all_the_same() -> None:
    program, x = compiled(*WEIGHTS), some(2, 8, 8, 16)
    tuned = program.autotune(x).program
    np.testing.assert_allclose(tuned(x), program(x), rtol=2e-4, atol=2e-4)


# --- other machines --------------------------------------------------------------------------------------

LOADING = """
import sys, warnings, numpy as np, nnc_func as nnc
from nnc_func.errors import NncError
device = nnc.NumPy() if "numpy" in sys.argv else nnc.CPU()
stack = nnc.eager(device) if "eager" in sys.argv else nnc.lazy(device)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    try:
        program = nnc.load_program(sys.argv[1], stack)
        print("symbolic" if "Symbolic" in type(program).__name__ else program.plan.machine)
        print(*[f"{float(n):.3f}" for n in np.ravel(program(np.full((2, 8, 8, 16), 0.5, "float32")))[:3]])
    except NncError as error:
        print(type(error).__name__, error)
print(*[f"{w.filename} {w.message}" for w in seen if "planned" in str(w.message)], sep=" and ")
"""


def loaded(path: Path, *args: str, **environment: str) -> list[str]:
    """What a process with other settings says: of which machine the plan is, some elements, and warnings."""
    given_ = {"OMP_NUM_THREADS": "2", **environment}
    found = subprocess.run(
        [sys.executable, "-c", LOADING, str(path), *args], capture_output=True, text=True, env={**os.environ, **given_}
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.splitlines()


@pytest.mark.parametrize("is_symbolic", [False, True])
def test_a_file_of_another_machine_is_planned_again_and_says_so(tmp_path: Path, is_symbolic: bool) -> None:
    """With other threads, other instruction sets, without the library, and on a device that has none."""
    path = tmp_path / "here.nnc"
    making = (
        "import sys, numpy as np, nnc_func as nnc\n"
        "lazy, n = nnc.lazy(nnc.CPU()), 'n' if sys.argv[2] == 'True' else 2\n"
        "x = lazy.input('x', (n, 8, 8, 16), 'float32')\n"
        "program = lazy.compile([x], lazy.ops.relu(lazy.ops.conv2d(x, np.full((3, 3, 16, 24), 0.25, 'float32')) + 1))\n"
        "program(np.ones((2, 8, 8, 16), 'float32')); program.save(sys.argv[1])"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", making, str(path), str(is_symbolic)], check=True, env=environment)
    machine, wanted, *said = loaded(path)
    assert "symbolic" in machine if is_symbolic else "2 threads" in machine
    assert wanted == "19.000 19.000 19.000"
    assert not said or not said[0]
    others: Any = (
        ((), {"OMP_NUM_THREADS": "1"}, "1 thread"),
        ((), {"ONEDNN_MAX_CPU_ISA": "SSE41"}, "SSE 4.1, 2 threads"),
        (("numpy",), {"NNC_ONEDNN": ""}, "without such a library"),
    )
    for args, more, here in others[:1] if is_symbolic else others:
        machine, found, said_now = loaded(path, *args, **more)
        assert found == wanted
        assert machine == "symbolic" or machine.endswith(here) or (not machine and here.startswith("without"))
        assert said_now.startswith("<string> ")
        assert f"planned again for this machine, {'' if here.startswith('without') else 'oneDNN'}" in said_now
        assert said_now.endswith(here)
    if not is_symbolic:
        assert "load it in a lazy stack" in loaded(path, "numpy", "eager")[0]


def test_a_plan_names_its_machine_and_is_read_back() -> None:
    plan = compiled(*WEIGHTS).plan
    assert plan.machine == LAZY.device.library_setting
    assert plan.machine.startswith("oneDNN 3.")
    assert nnc.Plan.parse(str(plan), LAZY) == plan
    x = LAZY.input("x", (3,), "float64")
    assert not LAZY.compile([x], x + 1).plan.machine
    other = evolve(plan, machine="oneDNN 9.9.9, none, 64 threads", arena_bytes=plan.arena_bytes // 2)
    with pytest.raises(PlanError, match=r"was made for oneDNN 9\.9\.9, none, 64 threads, and CPU\(\) has oneDNN 3"):
        LAZY.program(other, constants=WEIGHTS)


def test_inputs_that_are_given_up_are_so_in_a_file_that_is_planned_again(tmp_path: Path) -> None:
    path = tmp_path / "donated.nnc"
    x, y = LAZY.input("x", (2, 8, 8, 24), "float32"), LAZY.input("y", (2, 8, 8, 16), "float32")
    program = LAZY.compile([x, y], LAZY.ops.conv2d(y, WEIGHTS[0], padding="SAME") * 2 + x, donate=[x])
    program.save(path)
    with pytest.warns(DeviceWarning, match="planned again for this machine, without such a library"):
        again = nnc.load_program(path, nnc.lazy())
    kinds = [[plan.buffers[plan.slots[s].buffer].kind for s in plan.inputs] for plan in (program.plan, again.plan)]
    assert kinds[0] == kinds[1]
    assert DONATED in kinds[0]
    given_ = some(2, 8, 8, 24), some(2, 8, 8, 16)
    np.testing.assert_allclose(again(*map(np.copy, given_)), program(*map(np.copy, given_)), rtol=1e-4, atol=1e-4)
