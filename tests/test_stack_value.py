"""A stack is a value: printable, comparable, hashable, picklable as its recipe (`stacks`, `layer`)."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.autodiff import Autodiff
from nnc_func.device import NumPy
from nnc_func.engine import Eager, Lazy
from nnc_func.engine.allocators import NoReuse
from nnc_func.errors import LayerError
from nnc_func.layer import PassThrough, layer
from nnc_func.nn import NN
from nnc_func.stack import Stack

ROLES = ("device", "type", "shape", "symbol", "operator", "optimiser", "graph", "engine", "autodiff", "nn")


@layer(on="engine")
class Renamed(PassThrough):
    """A layer above an engine, at module level, so that it pickles."""

    engine: Any
    name: str = "mine"


def added(stack: Any) -> Any:
    return stack.ops.add(np.float32([1, 2]), 1).numpy()


def test_each_layer_is_a_module_of_the_stack(stack: Any) -> None:
    assert [getattr(stack, role).role for role in ROLES] == [*ROLES]
    assert stack.engine.graph == stack.graph
    assert stack.top == stack.nn


def test_it_equals_what_is_made_by_the_same_recipe(stack: Any) -> None:
    again = type(stack)(NN(Autodiff(type(stack.engine)(stack.graph))))
    assert again == stack
    assert hash(again) == hash(stack)
    fewer = stack.optimiser.without_rules(stack.optimiser.rules[0].name)
    assert stack.swap(optimiser=fewer) != stack


def test_it_pickles_as_its_recipe(stack: Any) -> None:
    again = pickle.loads(pickle.dumps(stack))
    assert again == stack
    assert copy.deepcopy(stack) == stack
    np.testing.assert_array_equal(added(again), np.float32([2, 3]))


def test_it_prints_as_it_is_written(stack: Any) -> None:
    assert repr(stack).startswith("Stack(NN(autodiff=Autodiff(engine=")
    assert repr(stack).count("NumPy()") == 1


def test_eager_and_lazy_differ_by_their_engine() -> None:
    eager, lazy = nnc.eager(), nnc.lazy()
    assert eager != lazy
    assert eager.graph == lazy.graph
    assert eager.swap(engine=Lazy) == lazy
    assert lazy.swap(engine=Eager) == eager


def test_a_layer_is_swapped_by_its_role() -> None:
    lazy = nnc.lazy()
    other = lazy.swap(engine=lazy.engine.with_allocator(NoReuse()))
    assert other.engine.allocator == NoReuse()
    assert other.swap(engine=lazy.engine) == lazy
    np.testing.assert_array_equal(added(other), np.float32([2, 3]))


def test_a_stack_is_a_device_of_another() -> None:
    twice = nnc.eager().swap(device=nnc.lazy())
    assert twice.device == nnc.lazy()
    np.testing.assert_array_equal(added(twice), np.float32([2, 3]))


def test_an_unknown_role_is_answered_with_the_roles(stack: Any) -> None:
    with pytest.raises(LayerError) as error:
        stack.swap(motor=Eager)
    assert all(role in str(error.value) for role in ROLES)


def test_a_wrong_layer_is_refused_with_words(stack: Any) -> None:
    with pytest.raises(LayerError, match=r"Type is built on an? Device"):
        stack.swap(device=stack.shape)
    with pytest.raises(LayerError, match=r"Autodiff is built on an Engine or a Device"):
        stack.swap(engine=stack.graph)


def test_a_shorter_stack_says_which_layers_it_has() -> None:
    short = Stack(NN(Autodiff(NumPy())))
    np.testing.assert_array_equal(added(short), np.float32([2, 3]))
    with pytest.raises(LayerError, match=r"there is no engine layer .* it has: nn, autodiff, device"):
        short.engine  # noqa: B018 - looking it up is what raises


def test_a_layer_of_ones_own_is_inserted(stack: Any) -> None:
    mine = stack.insert(Renamed)
    assert mine.engine.name == "mine"
    assert mine != stack
    assert mine == stack.insert(Renamed)
    assert pickle.loads(pickle.dumps(mine)) == mine
    np.testing.assert_array_equal(added(mine), np.float32([2, 3]))
    assert mine.swap(engine=stack.engine) == mine  # exchanged beneath it: a layer of one's own is not dropped


@pytest.mark.parametrize("role", ROLES)
def test_it_is_inserted_above_any_layer(stack: Any, role: str) -> None:
    @layer(on=role)
    class Between(PassThrough):
        lower: Any

    mine = stack.insert(Between)
    assert type(getattr(mine, role)) is Between
    np.testing.assert_array_equal(added(mine), np.float32([2, 3]))


def test_a_layer_that_fits_nowhere_is_refused(stack: Any) -> None:
    @layer(on="motor")
    class Wheel(PassThrough):
        motor: Any

    with pytest.raises(LayerError, match="motor"):
        stack.insert(Wheel)
