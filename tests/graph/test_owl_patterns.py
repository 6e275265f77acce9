"""Owl's 25 patterns: what each was meant to do is done, and what was wrong with it is not (`graph/rules`).

See docs/owl_patterns.md.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import topological
from nnc_func.graph.rules import EXACT, REASSOCIATION, RULES
from tests.graph.rewriting import OPTIMISER, bind, check_equal, names, values, variable

TABLE = Path(__file__).parents[2] / "docs" / "owl_patterns.md"
FAST = OPTIMISER.with_numerics(REASSOCIATION, fast_math=True)
ODD = np.array([[np.nan, np.inf, -np.inf], [-0.0, 0.0, 2.0]], np.float32)


def optimised(*roots: Any, on: Any = OPTIMISER) -> Any:
    """The roots rewritten, one or a list of them; values are those before."""
    found = on.optimise(roots).roots
    if on is OPTIMISER:
        check_equal(roots, found)
    return found[0] if len(roots) == 1 else list(found)


def filled(value: Any, shape: Any = (2, 3), dtype: str = "float32") -> Any:
    return bind("full", shape=shape, value=np.dtype(dtype).type(value).item(), dtype=dtype)


# --- the table -------------------------------------------------------------------------------------------


def test_the_table_has_every_pattern_and_names_rules_and_tests_that_exist() -> None:
    rows = [line.split("|")[1:-1] for line in TABLE.read_text().splitlines() if re.match(r"\| \d\d\d ", line)]
    assert [row[0].strip() for row in rows] == [f"{n:03d}" for n in range(25)]
    known = {each.name for each in RULES}
    for number, _, rules, wrong, test in rows:
        named = set(re.findall(r"`(\w+)`", rules))
        assert named <= known, f"pattern {number}: no rule {named - known}"
        assert named or "none: " in rules
        assert wrong.strip()
        (name,) = re.findall(r"`(\w+)`", test)
        assert callable(globals()[name])


def fired(*roots: Any, on: Any = OPTIMISER) -> set[str]:
    """Names of the rules that all rules together make use of."""
    return {step.rule for step in on.optimise(roots, trace=True).steps}


def named(row: int) -> dict[str, str]:
    """The rules of a row, each with what stands behind it in brackets."""
    (line,) = [line for line in TABLE.read_text().splitlines() if line.startswith(f"| {row:03d} ")]
    return dict(re.findall(r"`(\w+)`(?: \(\*?(\w*)[^)]*\))?", line.split("|")[3]))


X, WIDE, ROW = variable("x"), variable("x", (1024, 1024)), variable("x", (1, 3))
NUMBER, WHOLE = variable("x", ()), variable("x", (), "int32")
UPDATE = bind(
    "divide",
    bind("multiply", 0.1, X),
    bind("add", bind("sqrt", bind("add", variable("h"), bind("multiply", X, X))), 1e-7),
)
MEANT: dict[int, list[Any]] = {
    2: [bind("add", X, filled(0)), bind("add", X, filled(0, (4, 2, 3)))],
    4: [bind("add", bind("multiply", X, ROW), X)],
    5: [bind("add", bind("multiply", bind("matmul", variable("a", (2, 4)), variable("b", (4, 3))), 2), X)],
    6: [
        bind("matmul", bind("permute_dims", X, axes=(1, 0)), X),
        bind("matmul", X, bind("permute_dims", X, axes=(1, 0))),
    ],
    8: [bind("divide", filled(0), X)],
    9: [bind("divide", X, filled(1)), bind("divide", X, filled(1, (4, 2, 3)))],
    10: [bind("add", bind("multiply", filled(2), filled(3)), bind("add", np.ones(3, "float32"), np.float32(2)))],
    12: [bind("add", bind("exp", filled(2)), bind("exp", np.arange(3.0).astype("float32")))],
    14: [
        bind("multiply", 3, filled(2)), bind("multiply", NUMBER, filled(0)), bind("multiply", NUMBER, filled(1)),
        bind("multiply", WHOLE, filled(0, dtype="int32")), bind("multiply", X, filled(1)),
    ],
    15: [bind("add", 3, filled(0))],
    17: [bind("subtract", X, UPDATE), bind("divide", 0.1, bind("sqrt", bind("add", bind("abs", WIDE), 1e-32)))],
    18: [bind("stop_gradient", X), bind("cast", X, dtype="float32"), bind("transfer", X, place=None),
         bind("relayout", X, layout="row-major")],
    20: [bind("multiply", X, filled(0)), bind("multiply", WHOLE, filled(0, dtype="int32"))],
    21: [bind("multiply", filled(1), X), bind("multiply", filled(1, (4, 2, 3)), X)],
    22: [bind("reshape", filled(2.5), shape=(6,))],
    23: [bind("add", moved, X) for moved in (
        bind("broadcast_to", ROW, shape=(2, 3)), bind("tile", ROW, repetitions=(2, 1)),
    )],
    24: [bind("sum", ROW, axis=0), bind("sum", bind("sum", X, axis=1), axis=0)],
}  # fmt: skip
"""Of each pattern that a rule stands for, what it was meant for."""


def test_every_pattern_with_rules_is_tried() -> None:
    assert sorted(MEANT) == [n for n in range(25) if named(n)]


@pytest.mark.parametrize("row", MEANT)
def test_the_rules_of_a_row_fire_on_what_it_was_meant_for(row: int) -> None:
    """Among all rules, each where its mark says; and what is exact elsewhere stays as it is."""
    rules = named(row)
    usual, all_ = (set().union(*(fired(root, on=on) for root in MEANT[row])) for on in (OPTIMISER, FAST))
    assert {n for n, mark in rules.items() if mark not in ("fast", "reassociation")} <= usual
    assert set(rules) <= all_
    assert not usual & {n for n, mark in rules.items() if mark in ("fast", "reassociation")}
    check_equal(MEANT[row], OPTIMISER.optimise(MEANT[row]).roots)


# --- one by one ------------------------------------------------------------------------------------------


def test_owl_000_any_operator_is_visited() -> None:
    x = variable("x")
    pair = bind("split", bind("add", x, 0), sections=3, axis=1)
    roots = [bind(name, x, 1) for name in ("hypot", "minimum", "maximum")]
    roots += [bind("logsumexp", x), bind("fma", x, x, x), bind("stack", *pair), bind("take", x, np.array([0]))]
    found = optimised(*roots)
    assert tuple(OPTIMISER.optimise(found).roots) == tuple(found)


def test_owl_001_rules_of_one_operator_meet() -> None:
    x, y = variable("x"), variable("y")
    total = bind("add", bind("add", x, 0), bind("negative", bind("multiply", y, 1)))
    assert optimised(total) is bind("subtract", x, y)
    assert optimised(bind("multiply", bind("multiply", x, 1), -1)) is bind("negative", x)


def test_owl_002_zeros_that_widen() -> None:
    x = variable("x", (3,))
    wide = bind("broadcast_to", x, shape=(2, 3))
    assert optimised(bind("add", x, filled(0))) is wide
    assert optimised(bind("add", filled(0), x)) is wide
    assert optimised(bind("add", x, np.float64(0))) is bind("cast", x, dtype="float64")
    zeros = filled(0)
    assert optimised(bind("add", zeros, zeros)) is zeros


def test_owl_003_nothing_is_left_of_what_does_nothing() -> None:
    x = variable("x")
    assert optimised(bind("reshape", bind("add", x, 0), shape=(2, 3))) is x


def test_owl_004_products_in_sums() -> None:
    a, b = variable("a"), variable("b")
    product = bind("multiply", a, b)
    twice, kept, fused = optimised(bind("add", product, product), product, bind("add", bind("multiply", a, a), b))
    assert kept is product
    assert twice is bind("multiply", product, 2)
    assert names(fused)[-1] == "fma"


def test_owl_005_an_addend_joins_the_product() -> None:
    x, w, b = variable("x", (4, 3)), variable("w", (3, 5)), variable("b", (5,))
    found = optimised(bind("add", bind("matmul", x, w), b))
    assert "add" not in names(found)


def test_owl_006_both_transposed() -> None:
    x, y = variable("x", (3, 2)), variable("y", (4, 3))
    root = bind("matmul", bind("permute_dims", x), bind("permute_dims", y))
    found = optimised(root)
    assert names(found).count("permute_dims") <= 1
    turned = variable("t", (2, 3, 4))
    kept = bind("matmul", bind("permute_dims", turned, axes=(2, 0, 1)), variable("z", (3, 5)))
    assert "permute_dims" in names(optimised(kept))


def test_owl_007_rules_of_division() -> None:
    x = variable("x")
    assert optimised(bind("divide", bind("divide", x, 1), 4)) is bind("multiply", x, 0.25)


def test_owl_008_zero_divided() -> None:
    x = variable("x")
    root = bind("divide", 0, x)
    check_equal([root], OPTIMISER.optimise([root]).roots, EXACT, {x: ODD})
    assert optimised(root, on=FAST).node.op.name == "full"


def test_owl_009_divided_by_one() -> None:
    x = variable("x")
    assert optimised(bind("divide", x, filled(1))) is x
    assert optimised(bind("divide", variable("n", (3,), "int64"), filled(1, dtype="float64"))).dtype == np.float64


def test_owl_010_constants_are_folded() -> None:
    x = variable("x")
    folded = optimised(
        bind("add", x, bind("multiply", np.array([1, 2, 3], np.float32), np.array([0.5, 0.25, 1], np.float32)))
    )
    assert [a.node.op for a in folded.node.args][1] is CONSTANT
    exact = bind("power", OPTIMISER.operator.lift(np.int64(3)), np.int64(39))
    assert int(values([optimised(exact)], {})[0]) == 3**39


def test_owl_011_the_device_folds() -> None:
    root = bind("tanh", bind("divide", np.float32(1), np.float32(3)))
    (before,), (after,) = values([root], {}), values([optimised(root)], {})
    assert before.tobytes() == after.tobytes()


@pytest.mark.parametrize("name", ["exp", "lgamma", "erfinv", "floor", "isnan", "softplus", "cbrt"])
def test_owl_012_any_function_of_a_constant(name: str) -> None:
    assert optimised(bind(name, OPTIMISER.operator.lift(np.float32(0.5)))).node.op is CONSTANT


def test_owl_014_fills_scaled() -> None:
    x = variable("x", ())
    for value in (0, 1, 2):
        assert optimised(bind("multiply", 3, filled(value))) is filled(3 * value)
    root = bind("multiply", x, filled(0))
    check_equal([root], OPTIMISER.optimise([root]).roots, EXACT, {x: np.float32(np.inf)})
    assert optimised(bind("multiply", x, filled(1))) is bind("broadcast_to", x, shape=(2, 3))


def test_owl_015_fills_shifted() -> None:
    assert optimised(bind("add", filled(0), 3)) is filled(3)
    assert optimised(bind("subtract", 3, filled(1))) is filled(2)


def test_owl_016_operands_of_a_division() -> None:
    x = variable("x")
    assert optimised(bind("divide", 3, bind("add", x, 0))) is bind("divide", 3, x)


def test_owl_017_any_epsilon() -> None:
    h = variable("h")
    for epsilon in (1e-32, 1e-7):
        root = bind("divide", 0.01, bind("sqrt", bind("add", bind("square", h), epsilon)))
        optimised(root)


def test_owl_018_copies() -> None:
    x = variable("x")
    assert optimised(bind("stop_gradient", bind("cast", x, dtype="float32"))) is x


def test_owl_020_zero_times() -> None:
    x, whole = variable("x"), variable("n", (2, 3), "int64")
    root = bind("multiply", x, 0)
    check_equal([root], OPTIMISER.optimise([root]).roots, EXACT, {x: ODD})
    assert optimised(root, on=FAST) is filled(0)
    assert optimised(bind("multiply", filled(0, (4, 1, 1), "int64"), whole)) is filled(0, (4, 2, 3), "int64")


def test_owl_021_one_times() -> None:
    x = variable("x")
    assert optimised(bind("multiply", filled(1), x)) is x
    assert optimised(bind("multiply", filled(1, (4, 1, 1)), x)) is bind("broadcast_to", x, shape=(4, 2, 3))


def test_owl_022_any_fill_is_moved() -> None:
    for value in (0, 1, 2.5):
        assert optimised(bind("reshape", filled(value), shape=(6,))) is filled(value, (6,))


def test_owl_023_repetitions_that_are_needed() -> None:
    row, column, wide = variable("a", (1, 3)), variable("b", (2, 1)), variable("c", (2, 3))
    over, down = bind("broadcast_to", row, shape=(2, 3)), bind("broadcast_to", column, shape=(2, 3))
    tiled = bind("tile", row, repetitions=(2, 1))
    roots = [bind("add", over, over), bind("multiply", over, down), bind("subtract", wide, over), bind("add", tiled, 1)]
    roots += [bind("add", tiled, tiled), bind("add", tiled, row)]
    found = optimised(*roots)
    assert [f.shape for f in found] == [(2, 3)] * 6
    assert found[2] is bind("subtract", wide, row)


def test_owl_024_sums_keep_their_shape() -> None:
    x = variable("x", (2, 1, 3))
    roots = [bind("sum", x, axis=1), bind("sum", x, axis=1, keepdims=True), bind("sum", x, axis=0)]
    found = optimised(*roots)
    assert [f.shape for f in found] == [(2, 3), (2, 1, 3), (1, 3)]
    assert found[1] is x
    assert "sum" not in {n.op.name for n in topological([found[0]])}
