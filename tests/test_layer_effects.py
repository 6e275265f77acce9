"""Layers of a user's own, one in each role: what they do is seen, alike on every engine (`layer`, `stacks`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import nn
from nnc_func.autodiff import Autodiff
from nnc_func.device import NumPy
from nnc_func.device.shared.bind_kernels import kernel_device
from nnc_func.engine.running.program import Program
from nnc_func.errors import ShapeError, UnknownOperatorError
from nnc_func.graph.graph import Graph
from nnc_func.graph.operator import Operator
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.optimiser import Optimiser
from nnc_func.graph.shape import Shape
from nnc_func.graph.symbol import Symbol
from nnc_func.graph.type import Type
from nnc_func.layer import PassThrough, layer, members
from nnc_func.layer_protocols import PlannedDeviceSignature
from nnc_func.op import Catalogue

X = np.linspace(-2, 3, 6, dtype="float32").reshape(2, 3)
MAKE = {"eager": nnc.eager, "lazy": nnc.lazy}
BOTH = pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
WAYS = pytest.mark.parametrize("way", ["swap", "insert"])


# --- the layers: each by itself, and as a class of its own that says the same --------------------------------


class Doubled:
    """exp is twice what it is."""

    def bind(self, op: Any, *args: Any, **params: Any) -> Any:
        found = super().bind(op, *args, **params) if isinstance(self, NumPy) else self.device.bind(op, *args, **params)  # type: ignore[misc,attr-defined]
        return found * 2 if op.name == "exp" else found


@layer(on="device")
class DoubledAbove(Doubled, PassThrough):
    device: Any


@layer()
class DoubledDevice(Doubled, NumPy):
    pass


def half(dtypes: Any, several: bool) -> Any:
    if several:
        return tuple(half(d, False) for d in dtypes)
    return np.dtype("float16") if dtypes.kind == "f" else dtypes


@layer(on="type")
class HalfAbove(PassThrough):
    """Floating results are float16."""

    type: Any

    def bind(self, op: Any, *dtypes: Any, **params: Any) -> Any:
        return half(self.type.bind(op, *dtypes, **params), op.multi_result)


@layer(on="device")
class HalfType(Type):  # type: ignore[type-arg]
    def bind(self, op: Any, *dtypes: Any, **params: Any) -> Any:
        return half(Type.bind(self, op, *dtypes, **params), op.multi_result)


def same_shapes(op: Any, avals: Any) -> None:
    if len({a.shape for a in avals if a.shape}) > 1:
        raise ShapeError(f"{op.name}: shapes differ, and this stack does not broadcast")


@layer(on="shape")
class StrictAbove(PassThrough):
    """Nothing is broadcast but numbers."""

    shape: Any

    def infer(self, op: Any, avals: Any, items: Any) -> Any:
        same_shapes(op, avals)
        return self.shape.infer(op, avals, items)


@layer(on="type")
class StrictShape(Shape):  # type: ignore[type-arg]
    def infer(self, op: Any, avals: Any, items: Any) -> Any:
        same_shapes(op, avals)
        return Shape.infer(self, op, avals, items)


def placed(stack: nnc.Stack, role: str, way: str, above: Any, own: Any) -> nnc.Stack:
    return stack.insert(above) if way == "insert" else stack.swap(**{role: own})


def value(stack: nnc.Stack, f: Any, *args: Any) -> Any:
    return f(stack.ops, *map(stack.asarray, args)).numpy()


def program_of(stack: nnc.Stack, f: Any, *args: Any) -> Any:
    inputs = [stack.input(f"x{i}", a.shape, a.dtype) for i, a in enumerate(args)]
    return stack.compile(inputs, f(stack.ops, *inputs))


def everywhere(change: Any, f: Any, *args: Any, planned: bool = True) -> Any:
    """The value of a function on stacks that are changed alike: computed at once, recorded, compiled on either."""
    found = []
    for make in MAKE.values():
        stack = change(make())
        found.append(value(stack, f, *args))
        program = program_of(stack, f, *args)
        assert not planned or make is nnc.eager or isinstance(program, Program), program
        found.append(program(*args))
    for other in found[1:]:
        assert other.dtype == found[0].dtype
        np.testing.assert_array_equal(other, found[0])
    return found[0]


# --- device ---------------------------------------------------------------------------------------------


@WAYS
def test_a_device_computes_otherwise_and_programs_stay_planned(way: str) -> None:
    def change(stack: nnc.Stack) -> nnc.Stack:
        return placed(stack, "device", way, DoubledAbove, DoubledDevice())

    found = everywhere(change, lambda ops, x: ops.exp(x) + 1, X)
    np.testing.assert_array_equal(found, np.exp(X) * 2 + 1)
    program = program_of(change(nnc.lazy()), lambda ops, x: ops.exp(x) + 1, X)
    assert program.stats.bind_calls == 2  # each result is copied to where it is planned
    assert program_of(nnc.lazy(), lambda ops, x: ops.exp(x) + 1, X).stats.bind_calls == 0


@WAYS
def test_a_device_is_asked_of_views_parts_folds_and_large_values(way: str) -> None:
    @layer(on="device")
    class Negative(PassThrough):
        """What moves elements changes their sign."""

        device: Any

        def bind(self, op: Any, *args: Any, **params: Any) -> Any:
            found = self.device.bind(op, *args, **params)
            return -found if op.name in ("permute_dims", "concat") else found

    @layer()
    class NegativeDevice(NumPy):
        def bind(self, op: Any, *args: Any, **params: Any) -> Any:
            found = NumPy.bind(self, op, *args, **params)
            return -found if op.name in ("permute_dims", "concat") else found

    def change(stack: nnc.Stack) -> nnc.Stack:
        return placed(stack, "device", way, Negative, NegativeDevice())

    def f(ops: Any, x: Any) -> Any:
        return ops.concat(ops.exp(ops.permute_dims(x, axes=(1, 0))), ops.tanh(ops.permute_dims(x, axes=(1, 0))), axis=0)

    np.testing.assert_array_equal(everywhere(change, f, X), -np.concatenate([np.exp(-X.T), np.tanh(-X.T)]))
    doubled = everywhere(
        lambda s: placed(s, "device", way, DoubledAbove, DoubledDevice()),
        lambda ops, x: ops.exp(np.ones(2)) + 0 * x,
        X[0, :2],
    )
    np.testing.assert_array_equal(doubled, np.exp(np.ones(2)) * 2)
    large = np.ones((1 << 17,), "float32")
    wide = everywhere(
        lambda s: placed(s, "device", way, DoubledAbove, DoubledDevice()),
        lambda ops, x: ops.tanh(ops.exp(x) + 1) * x,
        large,
    )
    np.testing.assert_array_equal(wide, np.tanh(np.exp(large) * 2 + 1) * large)


def test_a_device_that_says_how_results_are_written_saves_the_copy() -> None:
    @layer(on="device")
    class Written(Doubled, PassThrough):
        device: Any

        def writing(self, op: Any, kernel: Any, items: Any, outs: int, scratch: Any) -> Any:
            call = self.device.writing(op, kernel, items, outs, scratch)

            def run(*arrays: Any) -> None:
                call(*arrays)
                if op.name == "exp":
                    arrays[-1][...] *= 2

            return run

    found = everywhere(lambda s: s.insert(Written), lambda ops, x: ops.exp(x) + 1, X)
    np.testing.assert_array_equal(found, np.exp(X) * 2 + 1)
    assert program_of(nnc.lazy().insert(Written), lambda ops, x: ops.exp(x) + 1, X).stats.bind_calls == 0


@pytest.mark.parametrize(
    "device",
    [
        NumPy(),
        nnc.Null(),
        nnc.Places(a=NumPy(), b=nnc.Null()),
        DoubledAbove(NumPy()),
        kernel_device(DoubledAbove(NumPy())),
    ],
    ids=repr,
)
def test_what_says_that_it_has_memory_has_all_that_planning_asks(device: Any) -> None:
    assert device.has_memory
    assert [name for name in members(PlannedDeviceSignature) if not hasattr(device, name)] == []


# --- type -----------------------------------------------------------------------------------------------


@WAYS
def test_a_type_that_narrows_computes_in_the_kernels_dtype_and_casts_once(way: str) -> None:
    def change(stack: nnc.Stack) -> nnc.Stack:
        return placed(stack, "type", way, HalfAbove, HalfType)

    found = everywhere(change, lambda ops, x: ops.tanh(x), X)
    assert found.dtype == "float16"
    np.testing.assert_array_equal(found, np.tanh(X).astype("float16"))
    deep = everywhere(change, lambda ops, x: ops.softmax(ops.tanh(x * 3 + 1) @ x.T, axis=-1) - ops.mean(x), X)
    assert deep.dtype == "float16"
    mantissa = everywhere(change, lambda ops, x: ops.split(ops.exp(x), sections=3, axis=1)[1] / 3, X)
    assert mantissa.dtype == "float16"
    assert everywhere(change, lambda ops, x: ops.exp(ops.sum(x)) * 2, X).shape == ()
    for make in MAKE.values():
        stack = change(make())
        assert stack.grad(lambda x: (x * x).sum())(stack.asarray(X)).dtype == "float16"


@WAYS
def test_a_narrowed_graph_says_so(way: str) -> None:
    stack = placed(nnc.lazy(), "type", way, HalfAbove, HalfType)
    x = stack.input("x", (2,), "float32")
    assert stack.shape.bind(stack.type.ops["tanh"], x.aval) == nnc.Aval((2,), "float16")
    assert [n.op.name for n in stack.compile([x], stack.ops.tanh(x)).graph.nodes if n.args] == ["tanh", "cast"]


# --- a catalogue ----------------------------------------------------------------------------------------


def small(stack: nnc.Stack, *names: str) -> nnc.Stack:
    return stack.swap(type=Type(stack.device, Catalogue([CATALOGUE[n] for n in names])))


@BOTH
def test_an_operator_outside_the_catalogue_is_refused_by_name(make: Any) -> None:
    stack = small(make(), "add")
    x = stack.asarray(X)
    np.testing.assert_array_equal((x + x + 1).numpy(), X + X + 1)
    with pytest.raises(UnknownOperatorError, match="tanh"):
        stack.ops.tanh(x)
    with pytest.raises(UnknownOperatorError, match="multiply is not an operator of this stack"):
        x * x
    with pytest.raises(UnknownOperatorError, match="tanh is not an operator of this stack"):
        stack.bind(CATALOGUE["tanh"], x)
    with pytest.raises(UnknownOperatorError, match="tanh is not an operator of this stack"):
        program_of(stack, lambda ops, x: stack.bind(CATALOGUE["tanh"], x), X)


@BOTH
def test_a_derivative_that_needs_a_missing_operator_is_refused_by_name(make: Any) -> None:
    stack = small(make(), "add", "sin", "full")
    with pytest.raises(UnknownOperatorError, match="cos is not an operator of this stack"):
        stack.grad(stack.ops.sin)(stack.asarray(1.0))


def test_rules_whose_right_side_leaves_the_catalogue_do_not_fire() -> None:
    names = ("add", "multiply", "exp", "divide", "sqrt", "maximum", "sum", "matmul", "permute_dims", "reshape", "mean")
    stack = small(nnc.lazy(), *names)
    big = np.linspace(0, 1, 1 << 17, dtype="float32").reshape(1 << 10, -1)

    def f(ops: Any, x: Any) -> Any:
        y = ops.maximum(ops.exp(x * x + 1) * x / 2 + 0, 0)
        return ops.sum(
            ops.permute_dims(ops.permute_dims(y, axes=(1, 0)) * 1, axes=(1, 0)) / ops.sqrt(ops.mean(y * y)), axis=0
        )

    program = program_of(stack, f, big)
    assert {n.op.name for n in program.graph.nodes if n.args} <= {*names}
    np.testing.assert_allclose(program(big), value(stack, f, big), rtol=1e-5)


# --- shape ----------------------------------------------------------------------------------------------


@WAYS
def test_a_shape_layer_refuses_on_every_engine(way: str) -> None:
    def change(stack: nnc.Stack) -> nnc.Stack:
        return placed(stack, "shape", way, StrictAbove, StrictShape)

    found = everywhere(change, lambda ops, x, y: ops.tanh(x + y) * 2, X, X)
    np.testing.assert_array_equal(found, np.tanh(X + X) * 2)
    for make in MAKE.values():
        stack = change(make())
        x, row = stack.asarray(X), stack.asarray(X[0])
        (x + x).numpy()  # the kernel for these dtypes is known
        with pytest.raises(ShapeError, match="this stack does not broadcast"):
            (x + row).numpy()


# --- symbol, operator, optimiser, graph ---------------------------------------------------------------


class Negated:
    """A difference is a sum."""

    def apply(self, op: Any, values: Any, items: Any, where: Any = None) -> Any:
        below = super().apply if isinstance(self, Symbol) else self.symbol.apply  # type: ignore[misc,attr-defined]
        if op.name == "subtract":
            return below(
                CATALOGUE["add"], (values[0], below(CATALOGUE["negative"], (values[1],), (), where)), (), where
            )
        return below(op, values, items, where)


@layer(on="symbol")
class NegatedAbove(Negated, PassThrough):
    symbol: Any


@layer(on="shape")
class NegatedSymbol(Negated, Symbol):  # type: ignore[type-arg]
    pass


class Spelt:
    """A sigmoid is a quotient."""

    def bind(self, op: Any, *args: Any, **params: Any) -> Any:
        bind = super().bind if isinstance(self, Operator) else self.operator.bind  # type: ignore[misc,attr-defined]
        if op.name != "sigmoid":
            return bind(op, *args, **params)
        powers = bind(CATALOGUE["exp"], bind(CATALOGUE["negative"], *args))
        return bind(CATALOGUE["divide"], 1.0, bind(CATALOGUE["add"], powers, 1.0))


@layer(on="operator")
class SpeltAbove(Spelt, PassThrough):
    operator: Any


@layer(on="symbol")
class SpeltOperator(Spelt, Operator):  # type: ignore[type-arg]
    pass


class Named:
    """Graphs have a name of their own."""

    def close(self, inputs: Any, outputs: Any, updates: Any = (), name: str = "graph", *args: Any, **named: Any) -> Any:
        below = super().close if isinstance(self, Graph) else self.graph.close  # type: ignore[misc,attr-defined]
        return below(inputs, outputs, updates, f"my {name}", *args, **named)


@layer(on="graph")
class NamedAbove(Named, PassThrough):
    graph: Any


@layer(on="optimiser")
class NamedGraph(Named, Graph):  # type: ignore[type-arg]
    pass


class Kept:
    """Nothing is rewritten."""

    def optimise(self, roots: Any, **named: Any) -> Any:
        layer = self if isinstance(self, Optimiser) else self.optimiser  # type: ignore[attr-defined]
        return Optimiser.optimise(Optimiser(layer.operator, ()), roots, **named)


@layer(on="optimiser")
class KeptAbove(Kept, PassThrough):
    optimiser: Any


@layer(on="operator")
class KeptOptimiser(Kept, Optimiser):  # type: ignore[type-arg]
    pass


def names(program: Any) -> list[str]:
    return [n.op.name for n in program.source.nodes if n.args]


@WAYS
@BOTH
def test_a_symbol_layer_changes_graphs(make: Any, way: str) -> None:
    stack = placed(make(), "symbol", way, NegatedAbove, NegatedSymbol)
    program = program_of(stack, lambda ops, x, y: ops.exp(x) - y, X, X)
    assert names(program) == ["exp", "negative", "add"]
    np.testing.assert_array_equal(program(X, X), np.exp(X) - X)


@WAYS
@BOTH
def test_an_operator_layer_changes_graphs(make: Any, way: str) -> None:
    stack = placed(make(), "operator", way, SpeltAbove, SpeltOperator)
    program = program_of(stack, lambda ops, x: ops.sigmoid(x), X)
    assert names(program) == ["negative", "exp", "add", "divide"]
    np.testing.assert_allclose(program(X), 1 / (1 + np.exp(-X)), rtol=1e-6)


@WAYS
def test_an_optimiser_layer_changes_plans(way: str) -> None:
    stack = placed(nnc.lazy(), "optimiser", way, KeptAbove, KeptOptimiser)
    f = lambda ops, x: ops.negative(-ops.exp(x))  # noqa: E731
    program = program_of(stack, f, X)
    assert (program.plan.kernels, program_of(nnc.lazy(), f, X).plan.kernels) == (3, 1)
    np.testing.assert_array_equal(program(X), np.exp(X))


@WAYS
@BOTH
def test_a_graph_layer_changes_graphs(make: Any, way: str) -> None:
    stack = placed(make(), "graph", way, NamedAbove, NamedGraph)
    program = program_of(stack, lambda ops, x: ops.exp(x), X)
    assert program.source.name == "my program"


# --- engine, autodiff, nn -----------------------------------------------------------------------------


class Tripled:
    """exp is three times what it is."""

    def bind(self, op: Any, *args: Any, **params: Any) -> Any:
        bind = self.engine.bind if hasattr(self, "engine") else self.graph.bind  # type: ignore[attr-defined]
        if isinstance(self, nnc.engine.Eager):
            bind = super().bind  # type: ignore[misc]
        found = bind(op, *args, **params)
        return bind(CATALOGUE["multiply"], found, 3) if op.name == "exp" else found


@layer(on="engine")
class TripledAbove(Tripled, PassThrough):
    engine: Any


@layer(on="graph")
class TripledEager(Tripled, nnc.engine.Eager):  # type: ignore[type-arg]
    pass


@layer(on="graph")
class TripledLazy(nnc.engine.Lazy):  # type: ignore[type-arg]
    def compile(self, graph: Any, donated: Any = ()) -> Any:
        return nnc.engine.Lazy.compile(self.with_allocator("no_reuse"), graph, donated)


def test_an_engine_layer_is_asked_on_every_engine() -> None:
    found = everywhere(lambda s: s.insert(TripledAbove), lambda ops, x: ops.exp(x) + 1, X)
    np.testing.assert_array_equal(found, np.exp(X) * 3 + 1)
    stack = nnc.eager().swap(engine=TripledEager)
    np.testing.assert_array_equal(value(stack, lambda ops, x: ops.exp(x) + 1, X), np.exp(X) * 3 + 1)


def test_an_engine_of_ones_own_plans_otherwise() -> None:
    def f(ops: Any, x: Any) -> Any:
        return ops.sum(ops.exp(x) @ ops.exp(x).T) * ops.tanh(x @ x.T)

    mine, theirs = (
        program_of(s, f, np.ones((64, 64), "float32")) for s in (nnc.lazy().swap(engine=TripledLazy), nnc.lazy())
    )
    assert mine.plan.arena_bytes > theirs.plan.arena_bytes


class Twice:
    """Derivatives whose cotangents are twice what they are."""

    def __init__(self, derivative: Any, bind: Any) -> None:
        self.derivative, self.bind = derivative, bind

    def pull(self, cotangents: Any) -> Any:
        return self.derivative.pull([None if c is None else self.bind(CATALOGUE["multiply"], c, 2) for c in cotangents])


@layer(on="autodiff")
class TwiceAbove(PassThrough):
    autodiff: Any

    def linearize(self, f: Any, primals: Any) -> Any:
        values, derivative = self.autodiff.linearize(f, primals)
        return values, Twice(derivative, self.autodiff.bind)


@layer(on=("engine", "device"))
class TwiceAutodiff(Autodiff):  # type: ignore[type-arg]
    def linearize(self, f: Any, primals: Any) -> Any:
        values, derivative = Autodiff.linearize(self, f, primals)
        return values, Twice(derivative, self.bind)


@WAYS
def test_an_autodiff_layer_changes_gradients_on_every_engine(way: str) -> None:
    for make in MAKE.values():
        stack = placed(make(), "autodiff", way, TwiceAbove, TwiceAutodiff)
        found = stack.grad(lambda x: (x * x).sum())(stack.asarray(X)).numpy()
        np.testing.assert_array_equal(found, 4 * X)


@layer(on="nn")
class Hurried(PassThrough):
    """Trains at twice the rate."""

    nn: Any

    def train(self, *args: Any, **settings: Any) -> Any:
        return self.nn.train(*args, **{**settings, "rate": 2 * settings["rate"]})


@layer(on="autodiff")
class HurriedNN(nn.NN):  # type: ignore[type-arg]
    def train(self, *args: Any, **settings: Any) -> Any:
        return nn.NN.train(self, *args, **{**settings, "rate": 2 * settings["rate"]})


@WAYS
@BOTH
def test_a_nn_layer_is_asked_to_train(make: Any, way: str) -> None:
    x = np.linspace(-1, 1, 8, dtype="float32").reshape(8, 1)
    model = nn.Dense(1).init(0, (None, 1))

    def bias(stack: nnc.Stack, rate: float) -> Any:
        batches = nn.Batches(x, 2 * x + 1, size=8)
        return nn.train(stack, model, nn.quadratic, nn.SGD(), batches, rate=rate, steps=3, progress=False).model.bias

    mine = bias(placed(make(), "nn", way, Hurried, HurriedNN), 0.1)
    np.testing.assert_array_equal(mine, bias(make(), 0.2))
