"""What a device says of its machine, and all that reads it (`facets/machine`, `device/shared/queries`)."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest
from attrs import evolve

import nnc_func as nnc
from nnc_func.device import Exact, NumPy
from nnc_func.device.shared.bind_kernels import kernel_device
from nnc_func.device.shared.queries import kernel_of, machine_of, writes_at_once
from nnc_func.errors import DeviceError
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.machine import CORE, Machine
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.rules.cost import cheaper, total, work_of
from nnc_func.layer import PassThrough, layer

SMALL = evolve(CORE, caches=(1 << 10, 1 << 12))
LARGE = evolve(CORE, caches=(1 << 10, 1 << 30))
DEVICES = [NumPy(), nnc.Null(), nnc.Null(like="cupy"), nnc.CuPy(1), nnc.Strict(), Exact(), nnc.Places(a=NumPy())]
FUSED = {"blockwise", "blockwise_several", "matmul_blockwise", "conv2d_blockwise", "attention_blockwise"}


@layer(on="device")
class Described(PassThrough):
    """A device on another machine."""

    device: Any
    machine: Machine


@layer(on="device")
class Doubled(PassThrough):
    """A device that looks at each operator."""

    device: Any

    def bind(self, op: Any, *args: Any, **params: Any) -> Any:
        return self.device.bind(op, *args, **params)


class Bare:
    """The least that is a device."""

    role = "device"

    def bind(self, op: Any, *args: Any, **params: Any) -> Any:
        return NumPy().bind(op, *args, **params)

    def asarray(self, value: Any, dtype: Any = None) -> Any:
        return NumPy().asarray(value, dtype)

    def aval(self, array: Any) -> Any:
        return NumPy().aval(array)


def chain(ops: Any, x: Any) -> Any:
    return ops.sqrt(ops.maximum(x * x + 1, 0))


def rows(ops: Any, x: Any) -> Any:
    return ops.exp(x - ops.max(x, axis=-1, keepdims=True)) * 2


def dense(ops: Any, x: Any) -> Any:
    return ops.tanh(x @ x.T + 1)


def attention(ops: Any, x: Any) -> Any:
    return ops.softmax(x @ x.T, axis=-1) @ x


def convolution(ops: Any, x: Any) -> Any:
    weights = np.ones((3, 3, 8, 8), "float32")
    return ops.relu(ops.conv2d(ops.reshape(x, shape=(1, 64, 64, 8)), weights) + 1)


GRAPHS = {"chain": chain, "rows": rows, "dense": dense, "attention": attention, "convolution": convolution}
SHAPES = {"convolution": (4096, 8)}  # the others take any matrix


def program_of(stack: nnc.Stack, f: Any, shape: tuple[int, ...] = (128, 256)) -> Any:
    x = stack.input("x", shape, "float32")
    return stack.compile([x], f(stack.ops, x))


def names(program: Any) -> set[str]:
    return {n.op.name for n in program.graph.nodes if n.args}


def text(program: Any) -> str:
    return re.sub(r"  # .*", "", str(program.plan))


# --- what is said ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES, ids=repr)
def test_every_device_describes_its_machine(device: Any) -> None:
    machine = device.machine
    assert type(machine) is Machine
    assert machine_of(device) is machine
    assert nnc.eager(device).machine == machine
    assert nnc.eager(nnc.lazy(device)).machine == machine
    assert Doubled(device).machine == machine
    assert kernel_device(Doubled(device)).machine == machine
    assert Described(device, SMALL).machine == SMALL


def test_a_device_need_not_describe_one() -> None:
    assert machine_of(Bare()) == CORE
    assert nnc.lazy(Bare()).machine == CORE
    add = CATALOGUE["add"]
    assert kernel_of(Bare(), add, (), ()) is None
    assert not writes_at_once(Bare(), add, (), ())
    x = np.linspace(0, 1, 1 << 20, dtype="float32").reshape(1024, 1024)
    program = program_of(nnc.lazy(Bare()), chain, x.shape)
    assert names(program).isdisjoint(FUSED)
    np.testing.assert_array_equal(program(x), np.sqrt(x * x + 1))


def test_one_that_plans_for_another_device_has_its_machine() -> None:
    assert nnc.Null().machine == NumPy().machine
    assert nnc.Null(like="cupy").machine == nnc.CuPy().machine
    assert nnc.Places(gpu=nnc.Null(like="cupy"), host=NumPy()).machine == nnc.CuPy().machine
    assert nnc.CuPy().machine.launch > NumPy().machine.launch


@pytest.mark.parametrize("make", [NumPy, nnc.Null, nnc.CuPy])
def test_a_machine_is_part_of_a_devices_recipe(make: Any) -> None:
    usual, device = make(), make(machine=SMALL)
    assert make(machine=usual.machine) == usual
    assert repr(make(machine=usual.machine)) == repr(usual) == f"{make.__name__}()"
    assert device != usual
    assert eval(repr(device), {name: getattr(nnc, name) for name in nnc.__all__}) == device
    assert hash(pickle.loads(pickle.dumps(device))) == hash(device)
    assert evolve(usual, machine=SMALL) == device
    assert nnc.lazy(device) == nnc.lazy(make(machine=SMALL)) != nnc.lazy(usual)


@pytest.mark.parametrize(
    "wrong",
    [
        {"arithmetic": 0}, {"bandwidth": -1.0}, {"contractions": "fast"}, {"launch": -1e-6}, {"launch": float("nan")},
        {"caches": (2, 1)}, {"caches": (0,)}, {"caches": (1, 1)}, {"caches": 1.5}, {"arithmetic": float("inf")},
    ],
)  # fmt: skip
def test_a_machine_that_there_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DeviceError, match=next(iter(wrong))):
        Machine(**wrong)


def test_a_kernel_takes_its_launch_its_bytes_and_its_arithmetic() -> None:
    machine = Machine(arithmetic=2.0, contractions=8.0, bandwidth=4.0, launch=1.0, caches=())
    assert machine.seconds(flops=0, nbytes=0) == 1
    assert machine.seconds(flops=6, nbytes=8) == 1 + 2 + 3
    assert machine.seconds(flops=16, nbytes=8, threaded=True) == 1 + 2 + 2
    assert machine.seconds(flops=16, nbytes=8, threaded=True, cores=2) == 1 + 2 + 1
    assert machine.cache == 0
    assert "no caches" in str(machine)


# --- costs ----------------------------------------------------------------------------------------------


def test_costs_are_those_of_the_machine() -> None:
    lazy = nnc.lazy()
    x = lazy.input("x", (1000,), "float32")
    node = (x + x).value
    machine = Machine(arithmetic=1.0, bandwidth=2.0, launch=3.0)
    assert work_of(node, machine).seconds == 3 + 12_000 / 2 + 1000
    assert total([node.node, node.node], machine).seconds == 2 * work_of(node, machine).seconds
    assert work_of(node) == work_of(node, CORE)
    assert work_of(node, machine).flops == work_of(node).flops


def written_out() -> Any:
    """One kernel for two, which does more arithmetic: it depends on the machine which is cheaper."""

    @nnc.rule
    def written_out(x):  # type: ignore[no-untyped-def]
        """A square of a square is one power."""
        squares, power = CATALOGUE["square"](CATALOGUE["square"](x)), CATALOGUE["power"](x, 4.0)
        return nnc.rewrite(squares).to(power).when(cheaper(squares, power)).up_to("rounding")

    return written_out


@pytest.mark.parametrize("describe", [lambda m: NumPy(machine=m), lambda m: Described(NumPy(), m)])
def test_what_is_cheaper_depends_on_the_machine(describe: Any) -> None:
    found = []
    for machine in (evolve(CORE, launch=1.0), evolve(CORE, arithmetic=1.0)):
        stack = nnc.lazy(describe(machine))
        stack = stack.swap(optimiser=type(stack.optimiser)(stack.operator, phases=(written_out(),)))
        x = stack.input("x", (16,), "float32")
        (root,) = stack.optimiser.optimise([stack.ops.square(stack.ops.square(x)).value]).roots
        found.append(root.node.op.name)
    assert found == ["power", "square"]


def test_what_rules_save_is_told_for_the_machine() -> None:
    saved = []
    for machine in (CORE, evolve(CORE, launch=1.0)):
        stack = nnc.lazy(nnc.Null(machine=machine))
        x = stack.input("x", (16,), "float32")
        report = stack.optimiser.optimise([(x + 0.0 * 1 - 0.0).value], measure=True)
        saved.append(sum(each.saved.seconds for each in report.statistics.values()))
    assert saved[0] < 1e-3
    assert saved[1] >= 1


def test_recomputation_is_estimated_for_the_machine() -> None:
    seconds = []
    for machine in (CORE, evolve(CORE, launch=1.0)):
        stack = nnc.lazy(nnc.Null(machine=machine))
        stack = stack.swap(engine=stack.engine.with_memory_budget(1 << 20))
        x = y = stack.input("x", (1 << 10,), "float32")
        for _ in range(8):
            y = stack.ops.sin(y)
        seconds.append(stack.compile([x], y).stats.recomputation.seconds)
    assert seconds[0] < 1e-3
    assert seconds[1] >= 8


# --- fusion ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("describe", [lambda m: NumPy(machine=m), lambda m: Described(NumPy(), m)])
@pytest.mark.parametrize("name", ["chain", "rows", "attention"])
def test_what_stays_in_the_caches_is_not_fused(describe: Any, name: str) -> None:
    f, x = GRAPHS[name], np.linspace(-1, 1, 128 * 256, dtype="float32").reshape(128, 256)
    whole, apart = (program_of(nnc.lazy(describe(machine)), f) for machine in (SMALL, LARGE))
    assert not names(whole).isdisjoint({"blockwise", "blockwise_several", "attention_blockwise"})
    assert names(apart).isdisjoint({"blockwise", "blockwise_several", "attention_blockwise"})
    np.testing.assert_allclose(whole(x), apart(x), rtol=1e-5)


def test_a_size_that_is_given_is_none_of_the_machine() -> None:
    stack = nnc.lazy(NumPy(machine=LARGE))
    own = next(r for r in stack.optimiser.rules if r.name == "fuse_elementwise")
    rest = stack.optimiser.without_rules(own.name)
    stack = stack.swap(optimiser=rest.with_rules(own.from_size(0), phase="fuse"))
    assert names(program_of(stack, chain)) == {"blockwise"}


@pytest.mark.parametrize("name", GRAPHS)
def test_an_equal_machine_changes_no_plan(name: str) -> None:
    f, machine = GRAPHS[name], Machine(10e9, 40e9, 10e9, 1.5e-6, (1 << 15, 1 << 21))
    plans = {
        text(program_of(nnc.lazy(device), f, SHAPES.get(name, (512, 2048))))
        for device in (NumPy(), NumPy(machine=machine), Described(NumPy(), machine), nnc.Null(), nnc.Null("numpy"))
    }
    assert len(plans) == 1


# --- which kernels fuse -----------------------------------------------------------------------------------


@layer(on="device")
class Compiling(PassThrough):
    """A device that has kernels of its own of some fused operators, for some steps."""

    device: Any
    fused: tuple[str, ...]
    refuses: str = ""

    def choose(self, op: Any, avals: Any, items: Any) -> Any:
        if op.name in self.fused and not (self.refuses and self.refuses in repr(items)):
            return Kernel("compiled", into=lambda *_, **__: None, namespaces=frozenset({"cupy"}))
        return self.device.choose(op, avals, items)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("machine", [SMALL, nnc.CuPy().machine])
def test_nothing_is_fused_where_it_would_run_one_by_one(name: str, machine: Machine) -> None:
    stack = nnc.lazy(nnc.Null(like="cupy", machine=machine))
    assert names(program_of(stack, GRAPHS[name], SHAPES.get(name, (2048, 2048)))).isdisjoint(FUSED)


@pytest.mark.parametrize(("name", "fused"), [
    ("chain", "blockwise"), ("rows", "blockwise_several"), ("dense", "matmul_blockwise"),
    ("attention", "attention_blockwise"), ("convolution", "conv2d_blockwise"),
])  # fmt: skip
def test_it_is_fused_where_the_device_has_a_kernel_of_it(name: str, fused: str) -> None:
    below = nnc.Null(like="cupy", machine=SMALL)
    shape = SHAPES.get(name, (128, 256))
    program = program_of(nnc.lazy(Compiling(below, tuple(FUSED))), GRAPHS[name], shape)
    assert fused in names(program)
    assert "compiled" in {i.kernel for i in program.plan.instructions}
    without = program_of(nnc.lazy(Compiling(below, tuple(FUSED - {fused}))), GRAPHS[name], shape)
    assert fused not in names(without)


def test_the_kernel_says_which_steps_it_takes() -> None:
    below = nnc.Null(like="cupy", machine=SMALL)
    program = program_of(
        nnc.lazy(Compiling(below, ("blockwise",), refuses="relu")), lambda ops, x: ops.sqrt(ops.relu(x * x + x))
    )
    assert names(program) == {"relu", "blockwise", "sqrt"}


def test_a_stack_that_is_a_device_says_what_its_device_does() -> None:
    x = nnc.Aval((4,), "float32")
    body = nnc.Body.of(1, (CATALOGUE["exp"], 0))
    for device, wanted in ((NumPy(), True), (nnc.Strict(), False), (Bare(), False)):
        stack = nnc.eager(device)
        items = CATALOGUE["blockwise"].canonical({"body": body})
        assert writes_at_once(stack, CATALOGUE["blockwise"], (x,), items) is wanted
    program = program_of(nnc.lazy(nnc.eager(NumPy(machine=SMALL))), chain)
    assert names(program) == {"blockwise"}


# --- streams --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("describe", [lambda m: nnc.Null(machine=m), lambda m: Described(nnc.Null(), m)])
def test_streams_are_dealt_for_the_machine(describe: Any) -> None:
    def branches(ops: Any, x: Any) -> Any:
        left = right = x
        for _ in range(4):
            left, right = ops.sin(left), ops.cos(right)
        return left + right

    dealt = []
    for machine in (evolve(CORE, bandwidth=1e7), evolve(CORE, bandwidth=1e15, arithmetic=1e15, launch=0.0)):
        stack = nnc.lazy(describe(machine))
        stack = stack.swap(engine=stack.engine.with_streams(2))
        dealt.append(program_of(stack, branches).plan.streams)
    assert dealt == [2, 1]
