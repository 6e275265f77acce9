"""The Optimiser: same values from fewer nodes; Owl's faults (`graph/optimiser`, `graph/rewriting`, `graph/rules`).

The graph may be any, and each of those faults is a test.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import GraphError, LayerError, RuleError
from nnc_func.facets import dtypes, shapes
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE
from nnc_func.facets.kernels import reference
from nnc_func.graph.leaves import CONSTANT
from nnc_func.graph.node import topological
from nnc_func.graph.operator import Operator
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.optimiser import Optimiser
from nnc_func.graph.origin import describe as line
from nnc_func.graph.rules import EXACT, REASSOCIATION, ROUNDING, SIGNED_ZERO, rewrite, rule
from nnc_func.graph.rules.conditions import that, used_once
from nnc_func.op import operator
from tests.graph.rewriting import OPTIMISER, bind, check_equal, fills, optimiser_with, variable

exp, tanh, absolute, fma = OPS["exp"], OPS["tanh"], OPS["abs"], OPS["fma"]


# --- the layer -------------------------------------------------------------------------------------------


def test_it_stands_on_an_operator_layer() -> None:
    with pytest.raises(LayerError, match=r"Optimiser is built on an? Operator"):
        Optimiser(nnc.NumPy())  # type: ignore[arg-type]


def test_it_is_a_value() -> None:
    assert Optimiser(OPTIMISER.operator) == Optimiser(OPTIMISER.operator)
    assert pickle.loads(pickle.dumps(OPTIMISER)) == OPTIMISER
    assert OPTIMISER.with_numerics(EXACT) != OPTIMISER
    assert isinstance(OPTIMISER.operator, Operator)


def test_rules_are_added_taken_away_and_named_once() -> None:
    fewer = OPTIMISER.without_rules("drop_unit")
    x = variable("x")
    total = bind("add", x, 0)
    assert OPTIMISER.optimise([total]).roots == (x,)
    assert fewer.optimise([total]).roots == (total,)
    with pytest.raises(RuleError, match="no rule nothing"):
        OPTIMISER.without_rules("nothing")
    with pytest.raises(RuleError, match="two rules named drop_unit"):
        OPTIMISER.with_rules(next(r for r in OPTIMISER.rules if r.name == "drop_unit"))


def test_a_weaker_rule_does_not_fire() -> None:
    x = variable("x")
    roots = [bind("add", x, 0), bind("multiply", x, 1), bind("power", x, 2)]
    assert OPTIMISER.with_numerics(EXACT).optimise(roots).roots == (roots[0], x, roots[2])
    assert OPTIMISER.with_numerics(SIGNED_ZERO).optimise(roots).roots == (x, x, roots[2])
    assert OPTIMISER.with_numerics(ROUNDING).optimise(roots).roots == (x, x, bind("multiply", x, x))
    twice = bind("sum", bind("sum", x, axis=0), axis=0)
    assert OPTIMISER.optimise([twice]).roots == (twice,)
    assert OPTIMISER.with_numerics(REASSOCIATION).optimise([twice]).roots == (bind("sum", x, axis=(0, 1)),)


def test_a_foreign_root_is_refused() -> None:
    other = nnc.lazy().swap(type=nnc.lazy().type.with_ops(announce))
    with pytest.raises(GraphError, match="no node of this stack"):
        OPTIMISER.optimise([variable("x", on=other.optimiser)])


def test_what_was_done_is_told() -> None:
    x = variable("x")
    found = OPTIMISER.optimise([bind("multiply", bind("add", x, 0), 1)], trace=True)
    assert [name for name, _ in found.trace] == ["drop_unit", "drop_unit"]
    assert all("rewriting.py" in where for _, where in found.trace)
    assert found.statistics["drop_unit"].matched == 2
    assert (found.nodes_before, found.nodes_after, found.edges_before, found.edges_after) == (5, 1, 4, 0)
    assert "nodes 5 -> 1, edges 4 -> 0" in str(found)
    assert "drop_unit" in str(found)


def test_a_new_node_has_the_origin_of_what_it_replaces() -> None:
    x, y = variable("x"), variable("y")
    root = bind("add", x, bind("negative", y))
    (found,) = OPTIMISER.optimise([root]).roots
    assert found.node.op.name == "subtract"
    assert line(found.node.origin) == line(root.origin)


# --- Owl's faults ----------------------------------------------------------------------------------------


def test_owl_002_zeros_that_widen_are_kept() -> None:
    x = variable("x", (3,))
    zeros = np.zeros((2, 3), np.float32)
    z = OPTIMISER.operator.lift(np.zeros((100, 3), np.float32))
    roots = [bind("add", x, zeros), bind("add", zeros, x), bind("add", z, z), bind("add", x, np.float64(0))]
    check_equal(roots, OPTIMISER.optimise(roots).roots)


def test_owl_004_a_product_added_to_itself() -> None:
    on = OPTIMISER.without_rules("fuse_multiply_add").with_rules(fuse_multiply_add)
    a, b = variable("a"), variable("b")
    y = bind("multiply", a, b)
    roots = [bind("add", y, y), y, bind("add", bind("multiply", a, a), b)]
    found = on.optimise(roots).roots
    check_equal(roots, found)
    assert found[0] is bind("multiply", y, 2)
    assert found[1] is y, "a product that is asked for stays"
    assert found[2].node.op is fma


@rule
def fuse_multiply_add(a, b, c):
    """A product that only a sum uses is computed with the sum."""
    product = a * b
    return rewrite(product + c).to(fma(a, b, c)).when(used_once(product)).up_to(ROUNDING)


def test_owl_006_both_operands_transposed() -> None:
    x, y = variable("x", (3, 2)), variable("y", (4, 3))
    root = bind("matmul", bind("permute_dims", x), bind("permute_dims", y))
    (found,) = OPTIMISER.optimise([root]).roots
    assert found is bind("matmul", x, y, transpose_a=True, transpose_b=True)
    check_equal([root], [found])
    square = variable("s", (3, 3))
    flagged = bind("matmul", bind("permute_dims", square), square, transpose_a=True)
    assert OPTIMISER.optimise([flagged]).roots == (bind("matmul", square, square),)


def test_owl_006_other_permutations_are_no_transpose() -> None:
    x, y = variable("x", (2, 3, 4)), variable("y", (3, 5))
    root = bind("matmul", bind("permute_dims", x, axes=(2, 0, 1)), y)
    assert OPTIMISER.optimise([root]).roots == (root,)


def test_owl_008_and_020_zero_is_no_excuse_for_forgetting_nan() -> None:
    x = variable("x", (4,))
    feeds = {x: np.float32([np.nan, np.inf, 0.0, 1.0])}
    roots = [bind("multiply", x, 0), bind("divide", 0, x), bind("divide", x, x), bind("subtract", x, x)]
    check_equal(roots, OPTIMISER.optimise(roots).roots, EXACT, feeds)
    whole = variable("n", (4,), "int64")
    (found,) = OPTIMISER.optimise([bind("multiply", whole, 0)]).roots
    assert found is OPTIMISER.bind(OPS["full"], shape=(4,), value=0, dtype="int64")


def test_owl_009_one_as_divisor() -> None:
    x = variable("x")
    ones = bind("full", shape=(2, 3), value=1, dtype="float32")
    assert OPTIMISER.optimise([bind("divide", x, ones)]).roots == (x,)


def test_owl_017_any_epsilon_in_the_rate_of_adagrad() -> None:
    h = variable("h")
    root = bind("divide", 0.01, bind("sqrt", bind("add", h, 1e-7)))
    check_equal([root], OPTIMISER.optimise([root]).roots, EXACT, {h: np.abs(fills([h])[h])})


def test_owl_023_broadcasts_that_are_needed_stay() -> None:
    a, b, wide = variable("a", (1, 3)), variable("b", (2, 1)), variable("c", (2, 3))
    to = {"shape": (2, 3)}
    row, column = bind("broadcast_to", a, **to), bind("broadcast_to", b, **to)
    roots = [
        bind("add", row, row),
        bind("add", row, a),
        bind("multiply", row, column),
        bind("subtract", wide, row),
        bind("subtract", row, wide),
        bind("add", row, 1),
    ]
    found = OPTIMISER.optimise(roots).roots
    check_equal(roots, found)
    assert found[2] in (bind("multiply", a, b), bind("multiply", b, a))
    assert found[3] is bind("subtract", wide, a)
    assert found[5] is bind("broadcast_to", bind("add", a, 1), shape=(2, 3))  # it is still there, of fewer sums


def test_owl_024_one_axis_of_many_is_summed_with_its_shape() -> None:
    x = variable("x", (2, 1, 3))
    roots = [bind("sum", x, axis=1), bind("sum", x, axis=1, keepdims=True), bind("sum", x, axis=0)]
    found = OPTIMISER.optimise(roots).roots
    check_equal(roots, found)
    assert found[1] is x


# --- the driver ------------------------------------------------------------------------------------------


@operator(
    shape=shapes.same,
    dtype=dtypes.first,
    derivative=NOT_DIFFERENTIABLE("an effect"),
    pure=False,
    kernels=reference(lambda xp, x: x + 0),
)
def announce(x: Any, /) -> Any:
    """An effect: each application counts."""


def test_effects_are_rebuilt_and_neither_merged_nor_dropped() -> None:
    on = optimiser_with(announce)
    x = variable("x", on=on)
    clean = bind("add", x, 0, on=on)
    first, second = on.bind(announce, clean), on.bind(announce, clean)
    assert first is not second
    both = bind("add", first, second, on=on)
    roots = on.optimise([both, first, second]).roots
    effects = [n for n in topological(roots) if n.op is announce]
    assert len(effects) == 2
    assert set(effects) == {roots[1], roots[2]}
    assert all(n.args == (x,) for n in effects)


def test_an_effect_is_in_no_pattern() -> None:
    with pytest.raises(RuleError, match="announce is an effect"):

        @rule
        def hush(x):
            """An effect cannot be rewritten."""
            return rewrite(announce(x)).to(x)


def test_several_results_and_repeated_operands_and_roots_inside() -> None:
    x = variable("x", (4, 3))
    left, right = bind("split", bind("add", x, 0), sections=2)
    total = bind("add", left, right)
    roots = [total, left, bind("multiply", total, total), bind("add", right, 0), total]
    found = OPTIMISER.optimise(roots).roots
    check_equal(roots, found)
    assert found[0] is found[4]
    assert found[3].node is found[1].node
    assert found[3].index == 1


def test_a_rule_that_changes_the_aval_is_refused_and_counted() -> None:
    @rule
    def shrink(x):
        """A wrong rule: it forgets an axis."""
        return rewrite(exp(x)).to(OPS["sum"](x, axis=0))

    root = bind("exp", variable("x"))
    found = OPTIMISER.with_rules(shrink).optimise([root])
    assert found.roots == (root,)
    assert found.statistics["shrink"].refused == 1
    assert found.statistics["shrink"].matched == 0


@pytest.mark.parametrize("error", [RecursionError, MemoryError])
def test_what_is_not_the_fault_of_a_rule_is_not_said_to_be(error: type[Exception]) -> None:
    def fits(_: Any) -> bool:
        raise error

    @rule
    def deep(x):
        """It is tried where calls are too many already, or memory is short."""
        return rewrite(exp(x)).to(x).when(that(fits, x, says="x fits"))

    with pytest.raises(error) as told:
        OPTIMISER.with_rules(deep).optimise([bind("exp", variable("x"))])
    assert "while the rule deep was tried" in told.value.__notes__[0]


def test_a_right_side_that_cannot_be_is_refused() -> None:
    @rule
    def impossible(x):
        """A wrong rule: its right side has no shape."""
        return rewrite(exp(x)).to(OPS["reshape"](x, shape=(7,)))

    root = bind("exp", variable("x"))
    assert OPTIMISER.with_rules(impossible).optimise([root]).statistics["impossible"].refused == 1


@rule
def there(x):
    """A wrong rule, and its way back."""
    return rewrite(exp(x)).to(tanh(x))


@rule
def back(x):
    """A wrong rule, and its way there."""
    return rewrite(tanh(x)).to(exp(x))


@rule
def grow(x):
    """A wrong rule that never ends."""
    return rewrite(exp(x)).to(exp(tanh(x)))


def test_rules_that_undo_each_other_are_named() -> None:
    root = bind("exp", variable("x"))
    with pytest.raises(RuleError, match=r"there and back lead from exp\(x\)(.|\n)*back: tanh\(x\) -> exp\(x\)"):
        OPTIMISER.with_rules(back, there).optimise([root])
    with pytest.raises(RuleError, match=r"grow fired 1001 times .* on exp\(x\), which became exp\(tanh\(x\)\)$"):
        OPTIMISER.with_rules(grow).optimise([root])


def test_a_rule_that_breaks_is_named() -> None:
    @rule
    def broken(x):
        """A rule with a condition that fails."""
        from nnc_func.graph.rules.conditions import that

        return rewrite(exp(x)).to(x).when(that(lambda x: 1 // 0, x, says="it divides"))

    with pytest.raises(RuleError, match="rule broken failed on exp"):
        OPTIMISER.with_rules(broken).optimise([bind("exp", variable("x"))])


def test_what_becomes_used_once_by_a_rewrite_is_seen() -> None:
    on = OPTIMISER.without_rules("fuse_multiply_add").with_rules(fuse_multiply_add)
    a, b, c = variable("a"), variable("b"), variable("c")
    product = bind("multiply", a, b)
    other = bind("multiply", bind("negative", bind("negative", product)), 1)
    roots = [bind("add", product, c), bind("multiply", bind("subtract", other, product), 0)]
    found = on.optimise(roots)
    assert on.optimise(found.roots).roots == found.roots


def test_constants_are_folded_while_they_are_small() -> None:
    x = variable("x", (3,))
    root = bind("add", x, bind("exp", bind("multiply", np.float32([1, 2, 3]), 2)))
    (found,) = OPTIMISER.optimise([root]).roots
    assert [a.node.op for a in found.node.args][1] is CONSTANT
    check_equal([root], [found], EXACT)
    big = OPTIMISER.operator.lift(np.ones((200, 200)))
    kept = bind("exp", big)
    assert OPTIMISER.optimise([kept]).roots == (kept,)
    filled = bind("full", shape=(50,), value=2, dtype="float64")
    assert OPTIMISER.optimise([filled]).roots == (filled,)
    assert OPTIMISER.optimise([bind("exp", filled)]).roots[0].node.op.name == "full"
    assert OPTIMISER.optimise([bind("sum", filled)]).roots[0].node.op is CONSTANT


def test_random_numbers_are_not_folded() -> None:
    drawn = bind("random_uniform", np.array([1, 2], np.uint64), shape=(2,))
    (found,) = OPTIMISER.optimise([drawn]).roots
    assert found.node.op.name == "random_uniform"
