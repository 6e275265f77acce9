"""Fewer nodes: equal ones are one, dead ones none, copies go (`graph/node`, `graph/rules/fold`, `graph/rules/memory`).

They are fewer by construction: equal applications are one, dead ones are none, and copies are not made.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.aval import Aval
from nnc_func.graph.node import topological
from tests.graph.rewriting import OPTIMISER, bind, check_equal, names, values, variable

SEED, OTHER = np.array([1, 2], np.uint64), np.array([1, 3], np.uint64)


def test_equal_applications_are_one_node_wherever_they_are_written() -> None:
    x = variable("x")
    assert bind("exp", bind("add", x, 1)) is bind("exp", bind("add", x, 1))
    assert bind("sum", x, axis=-1) is not bind("sum", x, axis=0)
    assert bind("add", x, np.float32(1)) is bind("add", x, 1)


def test_applications_that_become_equal_are_one_node() -> None:
    x, y = variable("x"), variable("y")
    roots = [bind("add", bind("multiply", x, 1), y), bind("subtract", x, bind("negative", y)), bind("add", x, y)]
    assert len(set(OPTIMISER.optimise(roots).roots)) == 1


def test_random_numbers_are_shared_exactly_when_their_keys_are_equal() -> None:
    drawn = [bind("random_uniform", key, shape=(2,)) for key in (SEED, SEED.copy(), OTHER)]
    assert drawn[0] is drawn[1]
    assert drawn[0] is not drawn[2]
    assert bind("random_uniform", SEED, shape=(3,)) is not drawn[0]
    roots = [bind("subtract", drawn[0], each) for each in drawn]
    check_equal(roots, OPTIMISER.optimise(roots).roots)


def test_effects_are_neither_shared_nor_dropped_nor_duplicated() -> None:
    x, y = variable("x"), variable("y")
    token = OPTIMISER.bind(OPTIMISER.operator.type.ops["token"])
    first = bind("print", token, bind("add", x, 0), text="{}")
    second = bind("print", first, bind("add", x, 0), text="{}")
    again = bind("print", token, bind("add", x, 0), text="{}")
    assert again is not first
    roots = OPTIMISER.optimise([second, again, bind("multiply", y, 1)]).roots
    assert names(roots[0]).count("print") == 2
    assert sum(n.op.name == "print" for n in topological(roots)) == 3


def test_what_nothing_needs_is_neither_in_the_graph_nor_computed() -> None:
    stack = nnc.lazy()
    x = stack.input("x", (3,), "float32")
    dead = stack.ops.exp(x * 3)
    program = stack.compile([x], [x + 1])
    assert "exp" not in {node.op.name for node in program.graph.nodes}
    assert dead.shape == (3,)


def test_operands_of_a_choice_that_is_known_are_dropped() -> None:
    x, y = variable("x"), variable("y")
    (found,) = OPTIMISER.optimise([bind("where", np.array(True), bind("exp", x), bind("log", y))]).roots
    assert names(found) == ["input", "exp"]
    (found,) = OPTIMISER.optimise([bind("where", np.zeros((2, 3), bool), bind("exp", x), y)]).roots
    assert found is y


@pytest.mark.parametrize("copy", ["stop_gradient", "cast", "reshape", "broadcast_to", "relayout", "transfer"])
def test_copies_that_change_nothing_are_dropped(copy: str) -> None:
    x = variable("x")
    params: dict[str, Any] = {
        "cast": {"dtype": "float32"},
        "reshape": {"shape": (2, 3)},
        "broadcast_to": {"shape": (2, 3)},
        "relayout": {"layout": (0, 1)},
        "transfer": {"place": None},
    }
    moved = bind(copy, x, **params.get(copy, {}))
    assert OPTIMISER.optimise([bind("exp", moved)]).roots == (bind("exp", x),)


def test_a_transfer_there_and_back_leaves_none() -> None:
    places = nnc.Places(one=nnc.NumPy(), two=nnc.NumPy())
    on = nnc.lazy(places).optimiser
    x = on.operator.symbol.input("x", Aval((2,), "float32", place="one"))
    away = bind("transfer", x, place="two", on=on)
    assert on.optimise([bind("transfer", away, place="one", on=on)]).roots == (x,)


# --- what looks sound and is not --------------------------------------------------------------------------


def test_comparisons_of_shifted_numbers_are_kept() -> None:
    """x + 1 < 3 is not x < 2: integers wrap around, and floats round."""
    for dtype, element in (("uint8", 255), ("float32", 2**24 + 2)):
        x = variable("x", (1,), dtype)
        root = bind("less", bind("add", x, 1), 3)
        (found,) = OPTIMISER.with_numerics("reassociation", fast_math=True).optimise([root]).roots
        assert found is root
        check_equal([root], [found], feeds={x: np.array([element], dtype)})


def test_the_test_for_nan_is_kept_with_fast_math() -> None:
    x = variable("x")
    roots = [bind("not_equal", x, x), bind("equal", x, x), bind("logical_not", bind("less", x, 0))]
    assert OPTIMISER.with_numerics("reassociation", fast_math=True).optimise(roots).roots == tuple(roots)


def test_sums_and_differences_of_floats_are_not_regrouped_without_fast_math() -> None:
    x, y = variable("x"), variable("y")
    shifted = bind("subtract", bind("add", x, y), y)
    assert OPTIMISER.optimise([shifted]).roots == (shifted,)
    assert OPTIMISER.with_numerics("reassociation", fast_math=True).optimise([shifted]).roots == (x,)
    whole = [variable(n, (2, 3), "int32") for n in "nm"]
    wrapping = bind("subtract", bind("add", *whole), whole[1])
    assert OPTIMISER.optimise([wrapping]).roots == (whole[0],)


# --- fills ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "value", "dtype", "wanted"),
    [
        ("sum", 3, "float32", 3.0 * 2**20),
        ("mean", 3, "float32", 3.0),
        ("max", 0.1, "float32", float(np.float32(0.1))),
        ("sum", 7, "int32", 7 * 2**20),
        ("min", -1, "int64", -1),
    ],
)
def test_reductions_of_large_fills_are_numbers(op: str, value: Any, dtype: str, wanted: Any) -> None:
    root = bind(op, bind("full", shape=(1024, 1024), value=value, dtype=dtype))
    (found,) = OPTIMISER.optimise([root]).roots
    assert found.node.op.name in ("full", "constant")
    assert values([found], {})[0] == np.asarray(wanted, found.dtype)


def test_sums_of_fills_that_round_are_computed() -> None:
    root = bind("sum", bind("full", shape=(1024, 1024), value=0.1, dtype="float32"))
    assert OPTIMISER.optimise([root]).roots == (root,)


def test_fills_stay_fills_when_they_are_cast_or_cut() -> None:
    filled = bind("full", shape=(1024, 64), value=2, dtype="int32")
    (found,) = OPTIMISER.optimise([bind("cast", filled, dtype="float32")]).roots
    assert found is bind("full", shape=(1024, 64), value=2.0, dtype="float32")
    (found,) = OPTIMISER.optimise(
        [bind("flip", bind("slice", filled, starts=(1, 0), stops=(9, 4), steps=(2, 1)))]
    ).roots
    assert found.node.op.name == "full"
    assert found.shape == (4, 4)
