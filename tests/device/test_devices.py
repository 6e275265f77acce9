"""What each device is: a value that satisfies the signature, imports nothing early, and keeps to itself (`device`)."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any, ClassVar

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.autodiff import Autodiff
from nnc_func.device.shared.bind_kernels import binds_kernels
from nnc_func.device.shared.views import HostViews
from nnc_func.errors import DeviceError, DTypeError, NncError, ShapeError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.layer import PassThrough, below, layer
from nnc_func.layer_protocols import DeviceSignature, PlannedDeviceSignature
from nnc_func.nn import NN
from nnc_func.stack import Stack

DEVICES = {
    "numpy": nnc.NumPy(), "null": nnc.Null(), "strict": nnc.Strict(), "strict elsewhere": nnc.Strict("device1"),
    "null like a GPU": nnc.Null(like="cupy"), "CPU": nnc.CPU(), "GPU": nnc.CuPy(), "second GPU": nnc.CuPy(1),
}  # fmt: skip
HERE = {name: device for name, device in DEVICES.items() if "GPU" not in name or "null" in name}
each = pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
each_here = pytest.mark.parametrize("device", HERE.values(), ids=HERE)
add = CATALOGUE["add"]


def stacks_on(device: Any) -> dict[str, Any]:
    """Every composition of two engines at most."""
    return {
        "eager": nnc.eager(device),
        "lazy": nnc.lazy(device),
        "eager over lazy": nnc.eager(nnc.lazy(device)),
        "lazy over eager": nnc.lazy(nnc.eager(device)),
        "short": Stack(NN(Autodiff(device))),
    }


# --- values ----------------------------------------------------------------------------------------------


@each
def test_it_satisfies_the_signature(device: Any) -> None:
    checked: DeviceSignature[Any] = device
    assert checked.role == "device"
    assert below(device) is None
    for member in ("bind", "asarray", "aval", "to_numpy", "owns", "synchronise"):
        assert callable(getattr(device, member)), member


@pytest.mark.parametrize("device", [nnc.NumPy(), nnc.CPU(), nnc.Null(), nnc.CuPy()], ids=repr)
def test_it_has_memory_to_plan_in(device: Any) -> None:
    checked: PlannedDeviceSignature[Any] = device
    assert all(callable(getattr(checked, m)) for m in ("arena", "view", "empty", "writing", "viewing", "choose"))


def test_arenas_begin_at_aligned_addresses() -> None:
    device = nnc.NumPy()
    arenas = [device.arena(n) for n in range(200)]  # all held: none is the same memory
    assert {arena.ctypes.data % device.alignment for arena in arenas if arena.size} == {0}


def test_strict_has_none() -> None:
    assert not hasattr(nnc.Strict(), "arena")


@each
def test_it_is_a_value(device: Any) -> None:
    again = eval(repr(device), vars(nnc))
    assert again == device
    assert hash(again) == hash(device)
    assert pickle.loads(pickle.dumps(device)) == device
    assert copy.deepcopy(device) == device
    assert nnc.lazy(device) == nnc.lazy(again)
    assert pickle.loads(pickle.dumps(nnc.eager(device))) == nnc.eager(device)


def test_different_devices_differ() -> None:
    assert len(set(DEVICES.values())) == len(DEVICES)
    assert repr(nnc.CuPy()) == "CuPy()"
    assert repr(nnc.CuPy(1)) == "CuPy(1)"
    assert repr(nnc.Null()) == "Null()"
    assert repr(nnc.Strict()) == "Strict()"
    assert repr(nnc.Strict("device1")) == "Strict('device1')"


def test_what_it_computed_is_no_part_of_it() -> None:
    used, fresh = nnc.Null(), nnc.Null()
    used.bind(add, used.empty((3,), "float32"), 1.0)
    assert used.counts.applications == 1
    assert used == fresh
    assert hash(used) == hash(fresh)
    assert pickle.loads(pickle.dumps(used)).counts.applications == 0


def test_composing_a_stack_imports_no_optional_package() -> None:
    text = (
        "import sys, nnc_func as nnc; s = nnc.lazy(); s.swap(device=nnc.CuPy()); s.swap(device=nnc.Strict());"
        "s.swap(device=nnc.Null()); print(sorted({'cupy', 'array_api_strict'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# --- what flows in and out -------------------------------------------------------------------------------


@each_here
def test_an_array_is_made_of_numbers_and_lists_and_arrays(device: Any) -> None:
    for value in (1, 1.5, True, [1, 2], [[1.0], [2.0]], np.float32([1, 2]), np.float32(3)):
        found, wanted = device.asarray(value), np.asarray(value)
        assert device.owns(found)
        assert device.aval(found) == nnc.Aval(wanted.shape, wanted.dtype)
        assert device.asarray(found) is found
    assert device.aval(device.asarray([1, 2], "float32")) == nnc.Aval((2,), "float32")
    assert device.aval(device.asarray(device.asarray([1, 2]), "float32")) == nnc.Aval((2,), "float32")


@each_here
@pytest.mark.parametrize("value", ["words", object(), [None], ["a", "b"], np.array(["x"]), np.datetime64("2020")])
def test_what_is_no_number_is_refused(device: Any, value: Any) -> None:
    with pytest.raises(DeviceError):
        device.asarray(value)


@each_here
def test_scalars_are_weak(device: Any) -> None:
    x = device.asarray(np.float32([1, 2]))
    assert device.aval(device.bind(add, x, 1.5)).dtype == np.float32
    assert device.aval(device.bind(add, device.asarray([1, 2]), 1.5)).dtype == np.float64
    assert device.aval(device.bind(add, 1, 2)).dtype == np.int64
    with pytest.raises(DTypeError, match="300"):
        device.bind(add, device.asarray(np.uint8([1])), 300)


@each_here
def test_data_of_the_host_is_brought_over(device: Any) -> None:
    """NumPy arrays are nobody's: what runs on one stack runs on each, on lazy and eager ones alike."""
    found = device.bind(add, device.asarray([1.0, 2.0]), np.float64([10, 20]))
    assert device.owns(found)
    assert device.owns(device.bind(add, np.float64(3), np.float64([10, 20])))


@each_here
def test_what_an_operator_does_not_take_is_refused_with_the_avals(device: Any) -> None:
    x = device.asarray(np.float32([1, 2]))
    with pytest.raises(ShapeError, match=r"add\(float32\[2\], float32\[3\]\)"):
        device.bind(add, x, device.asarray(np.float32([1, 2, 3])))
    with pytest.raises(DTypeError, match=r"add\(bool"):
        device.bind(add, device.asarray([True]), device.asarray([True]))
    with pytest.raises(NncError, match="add takes 2 tensors, given 1"):
        device.bind(add, x)
    with pytest.raises(NncError, match="no parameter 'axis'"):
        device.bind(add, x, x, axis=0)


# --- arrays of other devices -----------------------------------------------------------------------------

PAIRS = [(a, b) for a in HERE for b in HERE if b not in ("numpy", "CPU") and type(HERE[a]) is not type(HERE[b])]
PAIRS += [("strict", "strict elsewhere"), ("strict elsewhere", "strict")]


@pytest.mark.parametrize(("one", "other"), PAIRS)
@pytest.mark.parametrize("kind", ["eager", "lazy", "eager over lazy", "lazy over eager", "short"])
def test_an_array_of_another_device_is_refused(kind: str, one: str, other: str) -> None:
    stack, foreign = stacks_on(HERE[one])[kind], HERE[other].asarray([1.0, 2.0])
    assert not HERE[one].owns(foreign)
    with pytest.raises(DeviceError, match=r"no array of this device|cannot make|no elements"):
        stack.ops.add(stack.asarray([1.0, 2.0]), foreign)
    with pytest.raises(DeviceError, match=r"no array of this device|cannot make|no elements"):
        stack.asarray(foreign)


@pytest.mark.parametrize("kind", ["eager", "lazy"])
@pytest.mark.parametrize("one", HERE)
def test_a_program_refuses_them_too(kind: str, one: str) -> None:
    stack = stacks_on(HERE[one])[kind]
    other = HERE["null" if one != "null" and one != "null like a GPU" else "strict"]
    x = stack.input("x", (2,), "float64")
    program = stack.compile(inputs=[x], outputs=x + 1)
    program(np.float64([1, 2]))
    with pytest.raises(DeviceError):
        program(other.asarray(np.float64([1, 2])))


@pytest.mark.parametrize("kind", ["eager", "lazy", "eager over lazy"])
def test_a_tensor_of_another_stack_comes_over_where_one_says_so(kind: str) -> None:
    x = stacks_on(nnc.Strict("device1"))[kind].ops.add([1.0, 2.0], 1)
    for name in ("numpy", "strict", "null"):
        here = stacks_on(HERE[name])[kind].asarray(x)
        assert here.aval == nnc.Aval((2,), "float64")
    np.testing.assert_array_equal(stacks_on(nnc.NumPy())[kind].asarray(x).numpy(), [2, 3])


# --- stacks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["eager", "lazy", "eager over lazy", "lazy over eager"])
@each_here
def test_a_stack_on_it_runs(kind: str, device: Any) -> None:
    """Operators, programs with feedback, jit and derivatives; values where the device has elements."""
    stack = stacks_on(device)[kind]
    ops, given = stack.ops, np.float32([1, 2, 3])
    x, v = stack.input("x", (3,), "float32"), stack.variable("v", given)
    program = stack.compile(inputs=[x], outputs={"y": ops.exp(x) * 1 + 0.5}, updates=[(v, v + x)])
    program(given)
    first = program(given)["y"]
    gradient = stack.grad(lambda t: (t * t * t).sum())(given)
    double = stack.jit(lambda t: t * 2)(given)
    assert stack.aval(first) == gradient.aval == double.aval == v.aval == nnc.Aval((3,), "float32")
    assert repr(gradient).startswith("Tensor(float32[3]")
    if not isinstance(device, nnc.Null):
        np.testing.assert_allclose(stack.to_numpy(first), np.exp(given) + 0.5, rtol=1e-6)
        np.testing.assert_allclose(gradient.numpy(), 3 * given**2, rtol=1e-6)
        np.testing.assert_array_equal(double.numpy(), 2 * given)
        np.testing.assert_array_equal(v.numpy(), 3 * given)


def test_the_short_stack_differentiates_on_each() -> None:
    for device in HERE.values():
        stack = stacks_on(device)["short"]
        found = stack.grad(lambda t: (t * t).sum())(stack.asarray([1.0, 2.0]))
        assert found.aval == nnc.Aval((2,), "float64")


@each_here
def test_a_graph_moves_to_it(device: Any) -> None:
    lazy = nnc.lazy()
    x = lazy.input("x", (3,), "float32")
    graph = lazy.compile(inputs=[x], outputs=[x * 2 + 1]).source
    there = nnc.lazy(device)
    found = there.engine.compile(graph.to(there))(np.float32([1, 2, 3]))[0]
    assert device.aval(found) == nnc.Aval((3,), "float32")
    back = graph.to(there).to(lazy)  # small constants are known on every device, on Null too
    assert str(back) == str(graph)


STANDARD = ("bool", "int8", "uint64", "float32", "float64", "complex64", "complex128")


@pytest.mark.parametrize("wanted", STANDARD)
@pytest.mark.parametrize("given", STANDARD)
def test_what_can_be_cast_is_cast_on_the_standard_too(given: str, wanted: str) -> None:
    """Of complex numbers the standard casts none, also to booleans."""
    x, cast = np.array([0, 1, 3]).astype(given), CATALOGUE["cast"]
    found = [nnc.eager(device) for device in (nnc.NumPy(), nnc.Strict())]
    if given.startswith("c") and wanted[0] not in "cb":
        for stack in found:
            with pytest.raises(DTypeError, match="no imaginary part"):
                stack.bind(cast, x, dtype=wanted)
    else:
        one, other = (stack.bind(cast, x, dtype=wanted).numpy() for stack in found)
        assert one.dtype == other.dtype == wanted
        np.testing.assert_array_equal(one, other)


# --- what an engine asks of them beside -----------------------------------------------------------------


def test_a_writing_of_ones_own_is_asked_and_the_devices_own_may_be_passed_by() -> None:
    """Above it or derived from it: `binds_kernels` speaks for the `writing` that stands beside it."""

    @layer()
    class Derived(nnc.NumPy):
        def writing(self, *given: Any) -> Any:
            return super().writing(*given)

    @layer(on="device")
    class Above(PassThrough):
        device: Any

        def writing(self, *given: Any) -> Any:
            return self.device.writing(*given)

    @layer(on="device")
    class Transparent(PassThrough):
        device: Any

    plain = nnc.NumPy()
    assert binds_kernels(plain)
    assert binds_kernels(Transparent(plain))
    assert not any(map(binds_kernels, (Derived(), Above(plain), Transparent(Above(plain)), nnc.Null(), nnc.CuPy())))
    assert not binds_kernels(nnc.Places(one=plain))


def test_views_are_made_as_the_device_says() -> None:
    """What it locates is asked for once, at `at`; a device that locates nothing is asked for each view."""
    made: list[int] = []

    class Counting(HostViews):
        @staticmethod
        def at(*given: Any) -> Any:
            made.append(1)
            return np.ndarray(*given)

    @layer()
    class Told(nnc.NumPy):
        views: ClassVar[Any] = Counting()

    @layer()
    class Untold(nnc.NumPy):
        views: ClassVar[Any] = None

    given = np.arange(6.0)
    for device, count in ((Told(), 4), (Untold(), 0)):
        made.clear()
        stack = nnc.lazy(device)
        x = stack.input("x", (6,), "float64")
        program = stack.compile([x], stack.ops.cumulative_sum(x[1:], axis=0))
        for _ in range(4):  # the first in the general way, later ones written out
            np.testing.assert_array_equal(program(given), np.cumsum(given[1:]))
        assert len(made) == count


@pytest.mark.parametrize("attribute", ["__array_namespace__", "__cuda_array_interface__"])
def test_arrays_of_a_gpu_are_no_data_of_the_host(attribute: str) -> None:
    """CuPy's have the one, PyTorch's the other; neither is copied without a word."""
    elsewhere = type("ndarray", (), {attribute: {}, "shape": (2,), "device": "cuda:0"})()
    with pytest.raises(DeviceError, match="on cuda:0, which is no array of this device"):
        nnc.NumPy().asarray(elsewhere)


@pytest.mark.parametrize("order", [1, -1])
def test_complex_numbers_of_python_keep_the_signs_of_their_zeros(order: int) -> None:
    """Equal numbers were one array: the second one had the zeros of the first."""
    x = np.array([complex(-5, -0.0)])
    for stack in (nnc.eager(), nnc.lazy(), nnc.dynamic(), nnc.dynamic(memoise=True), nnc.dynamic(replay_after=1)):
        given = stack.asarray(x)
        for c in [complex(1, 0.0), complex(1, -0.0), complex(0.0, 1), complex(-0.0, 1)][::order]:
            for _ in range(2):
                np.testing.assert_array_equal(stack.ops.sqrt(given + c).numpy(), np.sqrt(x + c))
                found, wanted = (given * c).numpy(), x * c
                np.testing.assert_array_equal(np.signbit(found.view(float)), np.signbit(wanted.view(float)))
