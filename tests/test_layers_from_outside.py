"""Layers of a user's own, tried from outside (`layer`, `stacks`)."""

from __future__ import annotations

from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.autodiff import Autodiff
from nnc_func.device import NumPy
from nnc_func.errors import DTypeError, FileFormatError, LayerError, RunError, UnknownOperatorError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.layer import PassThrough, layer
from nnc_func.op import Catalogue
from tests.test_layer_effects import (
    BOTH,
    MAKE,
    WAYS,
    DoubledAbove,
    DoubledDevice,
    SpeltAbove,
    SpeltOperator,
    X,
    everywhere,
    placed,
    program_of,
)


@pytest.mark.parametrize("role", ["engine", "autodiff"])
def test_a_class_of_ones_own_is_asked_at_each_call(role: str) -> None:
    @layer(on="graph")
    class Engine(nnc.engine.Eager):  # type: ignore[type-arg]
        def bind(self, op: Any, *args: Any, **params: Any) -> Any:
            found = nnc.engine.Eager.bind(self, op, *args, **params)
            return nnc.engine.Eager.bind(self, CATALOGUE["multiply"], found, 3) if op.name == "exp" else found

    @layer(on=("engine", "device"))
    class Own(Autodiff):  # type: ignore[type-arg]
        def bind(self, op: Any, *args: Any, **params: Any) -> Any:
            found = Autodiff.bind(self, op, *args, **params)
            return Autodiff.bind(self, CATALOGUE["multiply"], found, 3) if op.name == "exp" else found

    stack = nnc.eager().swap(**{role: {"engine": Engine, "autodiff": Own}[role]})
    x = stack.asarray([0.0])
    assert [stack.ops.exp(x).item() for _ in range(3)] == [3.0, 3.0, 3.0]


def _as_property(call: Any) -> Any:
    return property(lambda self: lambda op, *args, **params: call(self, op, *args, **params))


class _Descriptor:
    def __init__(self, call: Any) -> None:
        self.call = call

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else partial(self.call, instance)


@pytest.mark.parametrize("kind", [_as_property, _Descriptor, partialmethod], ids=["property", "descriptor", "partial"])
@pytest.mark.parametrize("role", ["device", "engine"])
def test_a_bind_need_not_be_a_plain_function(role: str, kind: Any) -> None:
    def call(self: Any, op: Any, *args: Any, **params: Any) -> Any:
        found = self.lower.bind(op, *args, **params)
        return self.lower.bind(CATALOGUE["multiply"], found, 3) if op.name == "exp" else found

    @layer(on=role)
    class Above(PassThrough):
        lower: Any
        bind = kind(call)

    for make in MAKE.values():
        stack = make().insert(Above)
        x = stack.asarray([0.0])
        assert [stack.ops.exp(x).item() for _ in range(3)] == [3.0, 3.0, 3.0]
        assert program_of(stack, lambda ops, x: ops.exp(x), np.zeros(1))(np.zeros(1))[0] == 3.0


def test_a_bind_that_would_be_lost_is_refused() -> None:
    with pytest.raises(
        LayerError, match="Mine has a bind of its own, where its base passes on that of the layer below"
    ):

        @layer(on="graph")
        class Mine(nnc.engine.Lazy):  # type: ignore[type-arg]
            def bind(self, op: Any, *args: Any, **params: Any) -> Any:
                return self.graph.bind(op, *args, **params)


@layer(on="device")
class Sums(PassThrough):
    """Sums of two are twice what they are."""

    device: Any

    def bind(self, op: Any, *args: Any, **params: Any) -> Any:
        found = self.device.bind(op, *args, **params)
        return found * 2 if op.name == "add" else found


def test_products_are_not_fused_over_a_device() -> None:
    found = everywhere(lambda s: s.insert(Sums), lambda ops, x: ops.tanh(x @ x + 1), np.eye(3, dtype="float32"))
    np.testing.assert_array_equal(found, np.tanh((np.eye(3, dtype="float32") + 1) * 2))


def test_devices_in_places_and_under_stacks_are_asked() -> None:
    def placed_devices(stack: nnc.Stack) -> nnc.Stack:
        return stack.swap(device=nnc.Places(a=DoubledAbove(NumPy()), b=DoubledDevice()))

    def there(ops: Any, x: Any) -> Any:
        return ops.transfer(ops.exp(ops.transfer(x, place="b")) + 1, place="a") + ops.exp(x)

    for make in MAKE.values():
        stack = placed_devices(make())
        x = stack.input("x", (3,), "float64")
        program = stack.compile([x], there(stack.ops, x))
        for _ in range(2):
            np.testing.assert_array_equal(
                stack.device.to_numpy(program(X[0].astype(float))), np.exp(X[0].astype(float)) * 4 + 1
            )
        np.testing.assert_array_equal(
            there(stack.ops, stack.asarray(X[0])).numpy(), np.exp(X[0]) * 2 + 1 + np.exp(X[0]) * 2
        )
    below = nnc.eager(DoubledAbove(NumPy()))
    for make in MAKE.values():
        np.testing.assert_array_equal(make(below).ops.exp(np.ones(2)).numpy(), np.exp(np.ones(2)) * 2)


def test_a_type_gives_numbers_their_dtype() -> None:
    @layer(on="type")
    class Wide(PassThrough):
        type: Any

        def scalar(self, number: Any, dtypes: Any) -> Any:
            return np.dtype("float64") if type(number) is float else self.type.scalar(number, dtypes)

    assert everywhere(lambda s: s.insert(Wide), lambda ops, x: x + 1.0, X).dtype == "float64"
    assert everywhere(lambda s: s.insert(Wide), lambda ops, x: x + 1, X).dtype == "float32"


@BOTH
def test_a_layer_above_type_may_have_another_catalogue(make: Any) -> None:
    @layer(on="type")
    class Small(PassThrough):
        type: Any

        @property
        def ops(self) -> Any:
            return Catalogue([CATALOGUE["add"]])

    stack = make().insert(Small)
    x = stack.asarray(X)
    np.testing.assert_array_equal((x + x).numpy(), X + X)
    for refused in (lambda: stack.ops.tanh(x), lambda: x * x, lambda: stack.bind(CATALOGUE["tanh"], x)):
        with pytest.raises(UnknownOperatorError, match=r"is not an operator of this stack|no operator named 'tanh'"):
            refused()


@WAYS
def test_an_operator_layer_is_asked_at_once_too(way: str) -> None:
    def f(ops: Any, x: Any) -> Any:
        return ops.sigmoid(x) * 2

    found = everywhere(lambda s: placed(s, "operator", way, SpeltAbove, SpeltOperator), f, X, planned=False)
    np.testing.assert_allclose(found, 2 / (1 + np.exp(-X)), rtol=1e-6)
    stack = placed(nnc.eager(), "operator", way, SpeltAbove, SpeltOperator)
    assert stack.jit(lambda x: stack.ops.sigmoid(x))(X).numpy().tobytes() == stack.ops.sigmoid(X).numpy().tobytes()


def test_a_program_of_such_a_device_is_saved_and_one_of_another_refused(tmp_path: Path) -> None:
    mine, plain = nnc.lazy(DoubledAbove(NumPy())), nnc.lazy()
    f = lambda ops, x: (ops.exp(x) + 1, x, ops.reshape(x, shape=(3, 2)))  # noqa: E731
    program = program_of(mine, f, X)
    program.plan.verify()
    program.save(tmp_path / "mine.nnc")
    program_of(plain, f, X).save(tmp_path / "plain.nnc")
    for one, other in zip(nnc.load_program(tmp_path / "mine.nnc", mine)(X), program(X), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(FileFormatError, match="whose layer's `bind` computes, unlike NumPy"):
        nnc.load_program(tmp_path / "mine.nnc", plain)
    with pytest.raises(FileFormatError, match="without a layer whose `bind` computes"):
        nnc.load_program(tmp_path / "plain.nnc", mine)


def test_a_device_that_resolves_otherwise_is_planned_so() -> None:
    @layer()
    class Resolving(NumPy):
        def resolve(self, op: Any, avals: Any, items: Any) -> Any:
            call = NumPy.resolve(self, op, avals, items)
            return (lambda *arrays: call(*arrays) * 2) if op.name == "exp" else call

    found = everywhere(lambda s: s.swap(device=Resolving()), lambda ops, x: ops.exp(x) + 1, X)
    np.testing.assert_array_equal(found, np.exp(X) * 2 + 1)


def test_a_kernel_that_fails_now_and_then_fails_each_time_that_it_does() -> None:
    runs: list[int] = []

    @layer()
    class Failing(NumPy):
        def resolve(self, op: Any, avals: Any, items: Any) -> Any:
            call = NumPy.resolve(self, op, avals, items)

            def run(*arrays: Any) -> Any:
                runs.append(1)
                if len(runs) % 2 == 0:
                    raise ValueError("every second time")
                return call(*arrays)

            return run if op.name == "exp" else call

    stack = nnc.eager(Failing())
    x = stack.asarray(X)
    stack.ops.exp(x)
    with pytest.raises(
        RunError, match=r"exp\(float32\[2, 3\]\) failed.*every second time.*test_layers_from_outside.py"
    ):
        stack.ops.exp(x)
    assert len(runs) == 2


@BOTH
def test_a_whole_number_that_no_float_holds_is_refused(make: Any) -> None:
    x = make().asarray(X)
    for number in (10**400, -(10**5000)):
        with pytest.raises(DTypeError, match=r"the scalar of \d+ bits does not fit in float32"):
            x + number
    with pytest.raises(DTypeError, match=r"the scalar of \d+ bits does not fit in int64"):
        make().asarray([1, 2]) + 10**5000
    with pytest.raises(DTypeError, match=r"the scalar 1180591620717411303424 does not fit in int64"):
        make().ops.exp(2**70)


def test_what_is_its_argument_does_not_change_with_the_callers_array() -> None:
    given = np.ones(3)
    found = nnc.eager().ops.squeeze(given, axis=())
    given[...] = 7
    np.testing.assert_array_equal(found.numpy(), np.ones(3))
