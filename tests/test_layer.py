"""Layers compose like functors: checked, comparable, picklable, exchangeable (`layer`, `layer_protocols`)."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.autodiff import Autodiff
from nnc_func.device import NumPy
from nnc_func.engine import Eager, Lazy
from nnc_func.engine.allocators import NoReuse
from nnc_func.errors import LayerError, OperatorError
from nnc_func.graph.graph import Graph
from nnc_func.graph.operator import Operator
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.optimiser import Optimiser
from nnc_func.graph.shape import Shape
from nnc_func.graph.symbol import Symbol
from nnc_func.graph.type import Type
from nnc_func.layer import Layer, PassThrough, below, chain, find, layer, opens, swap
from nnc_func.nn import NN
from nnc_func.op import Catalogue

MAKERS: tuple[Callable[..., Any], ...] = (Type, Shape, Symbol, Operator, Optimiser, Graph, Lazy, Autodiff, NN)
ROLES = ("device", "type", "shape", "symbol", "operator", "optimiser", "graph", "engine", "autodiff", "nn")


def towers() -> list[Any]:
    """Every layer, each on the ones below it, the device first."""
    found: list[Any] = [NumPy()]
    for make in MAKERS:
        found.append(make(found[-1]))
    return found


TOWERS = towers()
every = pytest.mark.parametrize("top", TOWERS, ids=ROLES)
WRONG = [
    (make, lower)
    for make in (*MAKERS, Eager)
    for lower in TOWERS
    if lower.role not in make.stands_on  # type: ignore[attr-defined]
]


# --- composition is checked -----------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "lower"), WRONG, ids=[f"{m.__name__}-on-{lower.role}" for m, lower in WRONG])
def test_a_wrong_composition_says_what_is_wanted(make: Callable[..., Any], lower: Any) -> None:
    with pytest.raises(LayerError) as error:
        make(lower)
    roles = make.stands_on  # type: ignore[attr-defined]
    wanted = " or ".join(f"{'an' if role[0] in 'aeiou' else 'a'} {role.capitalize()}" for role in roles)
    assert str(error.value) == f"{make.__name__} is built on {wanted}, not on {lower!r}"


def test_the_sentence_reads_as_the_design_has_it() -> None:
    with pytest.raises(LayerError, match=r"^Shape is built on a Type, not on NumPy\(\)$"):
        Shape(NumPy())


def test_a_layer_error_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="not on 'numpy'"):
        Type("numpy")
    with pytest.raises(TypeError, match="not on None"):
        Type(None)
    with pytest.raises(TypeError, match="not on NumPy"):
        Shape(type=NumPy())


def test_a_layer_that_lacks_a_member_is_told_which() -> None:
    class Half:
        role = "device"

        def bind(self, op: Any, *args: Any, **params: Any) -> Any:
            return args[0]

    with pytest.raises(LayerError, match=r"plays that role but lacks asarray, aval$"):
        Type(Half())


def test_whatever_plays_the_role_is_accepted() -> None:
    class Doubling:
        role = "device"

        def bind(self, op: Any, *args: Any, **params: Any) -> Any:
            return NumPy().bind(op, *args, **params) * 2

        def asarray(self, value: Any, dtype: Any = None) -> Any:
            return np.asarray(value, dtype)

        def aval(self, array: Any) -> Any:
            return NumPy().aval(array)

    engine = Eager(Graph(Optimiser(Operator(Symbol(Shape(Type(Doubling())))))))
    assert engine.bind(CATALOGUE["add"], np.float64(1), np.float64(2)) == 6


@every
def test_a_layer_is_frozen(top: Any) -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        top.role = "engine"
    with pytest.raises(AttributeError):
        top.anything = 1


# --- looking down ---------------------------------------------------------------------------------------


def test_the_chain_goes_down_to_the_device() -> None:
    assert [each.role for each in chain(TOWERS[-1])] == [*reversed(ROLES)]
    assert below(TOWERS[0]) is None
    assert find(TOWERS[-1], "shape") is TOWERS[2]


def test_a_layer_that_is_not_there_is_named() -> None:
    with pytest.raises(LayerError, match="there is no Graph layer in Shape"):
        find(TOWERS[2], "graph")


def test_opened_layers_are_those_of_the_chain() -> None:
    engine = TOWERS[7]
    assert engine.device is TOWERS[0]
    assert engine.symbol is TOWERS[3]


# --- values ---------------------------------------------------------------------------------------------


@every
def test_equal_recipes_are_equal_layers(top: Any) -> None:
    again = towers()[ROLES.index(top.role)]
    assert again is not top
    assert again == top
    assert hash(again) == hash(top)
    assert {top: 1}[again] == 1


@every
def test_different_recipes_are_different_layers(top: Any) -> None:
    others = [each for each in TOWERS if each is not top]
    assert all(top != other for other in others)


def test_fields_above_the_first_count() -> None:
    lazy: Any = TOWERS[7]
    assert lazy.with_allocator(NoReuse()) != lazy
    assert Eager(TOWERS[6]) != lazy


@every
def test_a_layer_pickles_as_its_recipe(top: Any) -> None:
    text = pickle.dumps(top)
    assert pickle.loads(text) == top
    assert copy.deepcopy(top) == top


def test_what_a_layer_has_computed_is_not_pickled() -> None:
    engine: Any = towers()[7]
    before = len(pickle.dumps(engine))
    shape = engine.symbol.shape
    add = CATALOGUE["add"]
    for n in range(100):
        shape.bind(add, *[NumPy().aval(np.zeros(n + 1))] * 2)
    assert len(pickle.dumps(engine)) == before


def test_a_catalogue_is_a_part_of_the_recipe() -> None:
    few = Type(NumPy(), Catalogue((CATALOGUE["add"],)))
    assert few != TOWERS[1]
    assert Shape(few) == Shape(Type(NumPy(), Catalogue((CATALOGUE["add"],))))
    with pytest.raises(OperatorError, match="not an operator of this stack"):
        Shape(few).check(CATALOGUE["exp"])


@every
def test_a_layer_prints_as_it_is_written(top: Any) -> None:
    assert repr(top).startswith(type(top).__name__ + "(")
    assert "NumPy()" in repr(top)


def test_symbols_of_equal_recipes_share_their_nodes() -> None:
    one, two = towers()[3], towers()[3]
    assert one.constant(1.5) is two.constant(1.5)


# --- exchange -------------------------------------------------------------------------------------------


class Loud(NumPy):
    """Another device."""


@pytest.mark.parametrize("top", TOWERS[1:], ids=ROLES[1:])
def test_swapping_the_device_makes_all_above_it_anew(top: Any) -> None:
    other = swap(top, device=Loud())
    assert type(find(other, "device")) is Loud
    assert [each.role for each in chain(other)] == [each.role for each in chain(top)]
    assert swap(other, device=NumPy()) == top
    assert all(a is not b for a, b in zip(chain(other), chain(top), strict=True))


def test_swapping_keeps_what_is_below() -> None:
    top = TOWERS[-1]
    other = find(swap(top, engine=find(top, "engine").with_allocator(NoReuse())), "engine")
    assert other.allocator == NoReuse()
    assert other.graph is find(top, "graph")


def test_a_class_is_a_function_from_the_layer_below() -> None:
    engine = find(swap(TOWERS[-1], engine=Eager), "engine")
    assert isinstance(engine, Eager)
    assert engine.graph is TOWERS[6]


def test_several_layers_are_swapped_at_once() -> None:
    other = swap(TOWERS[-1], device=Loud(), engine=lambda graph: Lazy(graph, NoReuse()))
    assert type(find(other, "device")) is Loud
    assert find(other, "engine").allocator == NoReuse()


def test_a_given_layer_keeps_its_own_fields_on_a_new_device() -> None:
    given = Lazy(TOWERS[6], NoReuse())
    other = swap(TOWERS[-1], device=Loud(), engine=given)
    assert find(other, "engine").allocator == NoReuse()
    assert type(find(find(other, "engine"), "device")) is Loud


def test_swapping_nothing_gives_the_same() -> None:
    assert swap(TOWERS[-1]) is TOWERS[-1]


def test_an_unknown_role_is_answered_with_the_roles() -> None:
    with pytest.raises(LayerError) as error:
        swap(TOWERS[-1], motor=Eager)
    assert "there is no layer motor to swap" in str(error.value)
    assert all(role in str(error.value) for role in ROLES)


def test_swapping_in_a_layer_of_another_role_is_refused() -> None:
    with pytest.raises(LayerError, match="Type is built on a Device"):
        swap(TOWERS[-1], device=TOWERS[2])


# --- layers of one's own ----------------------------------------------------------------------------------


def _between(role: str, on: Any) -> Any:
    @layer(on=role)
    class Between(PassThrough):
        lower: Any
        marked: int = 7

    return Between(on)


@pytest.mark.parametrize("at", range(len(MAKERS)), ids=[m.__name__ for m in MAKERS])
def test_a_layer_of_ones_own_stands_between_any_two(at: int) -> None:
    top: Any = NumPy()
    for i, make in enumerate(MAKERS):
        if i == at:
            top = _between(top.role, top)
        top = make(top)
    assert [each.role for each in chain(top)].count(ROLES[at]) == 2
    assert find(top, ROLES[at]).marked == 7
    engine = find(top, "engine")
    found = engine.force([engine.bind(CATALOGUE["add"], np.float32([1, 2]), 1)])[0]
    np.testing.assert_array_equal(found, np.float32([2, 3]))


def test_it_changes_what_it_overrides() -> None:
    @layer(on="device")
    class Twice(PassThrough):
        device: Any

        def bind(self, op: Any, *args: Any, **params: Any) -> Any:
            return self.device.bind(op, *args, **params) * 2

    engine = swap(Eager(TOWERS[6]), device=Twice(NumPy()))
    assert engine.bind(CATALOGUE["add"], 1.0, 2.0) == 6


def test_it_is_refused_where_it_does_not_fit() -> None:
    with pytest.raises(LayerError, match=r"Between is built on a Shape, not on NumPy\(\)"):
        _between("shape", NumPy())


def test_it_may_open_layers_further_down() -> None:
    @layer(on="engine")
    class Timed(PassThrough):
        engine: Any
        device: Any = opens("graph.optimiser.operator.symbol.shape.type.device")

    assert Timed(TOWERS[7]).device is TOWERS[0]
    assert Timed(TOWERS[7]) == Timed(towers()[7])


def test_what_the_layer_below_lacks_is_lacking() -> None:
    with pytest.raises(AttributeError):
        _between("device", NumPy()).nothing_of_the_kind  # noqa: B018 - looking it up is what raises
    assert issubclass(type(_between("device", NumPy())), Layer)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_a_layer_is_exchanged_for_one_of_its_role(make: Any) -> None:
    """Seven layers would be gone, without a word."""
    stack = make()
    with pytest.raises(
        LayerError, match=r"wants an Engine, given NumPy\(\): the stack would be left without engine, graph, optimiser"
    ):
        stack.swap(engine=nnc.NumPy())
    with pytest.raises(LayerError, match=r"wants an Engine, given <function"):
        stack.swap(engine=lambda graph: nnc.NumPy())
    with pytest.raises(LayerError, match=r"wants an Engine, given Stack"):
        stack.swap(engine=nnc.lazy())
    assert stack.swap(device=nnc.lazy()).device == nnc.lazy()
    assert stack.swap(engine=stack.engine) == stack
