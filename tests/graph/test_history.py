"""Histories: rewrites stepped, replayed, shown; costs; cycles (`graph/history`, `graph/rewriting`, `graph/rules/cost`).

Every rewrite is there in its order; rules tell what they cost and save, and cycles are told.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func import models
from nnc_func.errors import GraphError, RuleError
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.optimiser import Optimiser
from nnc_func.graph.rewriting.building import Builder
from nnc_func.graph.rewriting.rewriting import verify
from nnc_func.graph.rules import rewrite, rule
from nnc_func.graph.rules.algebra import drop_involution, drop_unit
from nnc_func.graph.rules.conditions import same_dtype
from nnc_func.graph.rules.cost import NOTHING, cheaper, work_of
from tests.graph.rewriting import OPTIMISER, bind, variable

LAZY = nnc.lazy()
FEW = LAZY.swap(optimiser=Optimiser(LAZY.operator, [drop_involution, drop_unit]))
exp, tanh, sin = OPS["exp"], OPS["tanh"], OPS["sin"]


def small() -> tuple[Any, Any]:
    x = FEW.input("x", (2,), "float32")
    with nnc.counted(FEW):
        first = FEW.ops.negative(-x) * 1 + (x + 0)
        second = (x + 0) * (x + 0)
    graph = FEW.graph.close([x.value], [(first + second).value])
    return graph, FEW.graph.optimised(graph)[0]


# --- histories -------------------------------------------------------------------------------------------


def test_a_history_steps_from_the_source_to_the_optimised_graph() -> None:
    graph, optimised = small()
    history = optimised.history
    assert [step.rule for step in history] == ["drop_involution", "drop_unit", "drop_unit"]
    assert history[0].phase == "simplify"
    assert history.source is graph
    assert optimised.source is graph
    assert str(history.at(0)) == str(graph)
    assert history.at(len(history)).roots == optimised.roots
    sizes = [len(history.at(i).nodes) for i in range(len(history) + 1)]
    assert sizes == sorted(sizes, reverse=True)
    assert "1  simplify: drop_involution: -(-x) -> x (built at test_history.py:" in str(history)
    assert repr(history) == "<history of 'graph': 3 rewrites, 1 merges>"


def test_each_graph_of_a_history_computes_the_same() -> None:
    _, optimised = small()
    history = optimised.history
    given = np.float32([3, -2])
    plain = FEW.swap(optimiser=FEW.optimiser.without_rules(*(r.name for r in FEW.optimiser.rules)))
    for i in range(len(history) + 1):
        np.testing.assert_array_equal(plain.engine.compile(history.at(i).to(plain))(given), given + given + given**2)


def test_what_is_one_node_is_told_with_every_line() -> None:
    _, optimised = small()
    (merge,) = optimised.history.merges
    assert merge.at == 0
    assert len(set(merge.origins)) == len(merge.origins) == 3
    assert "x + 0 is one node, asked for at test_history.py:" in repr(merge)


def test_what_becomes_one_node_by_rewriting_is_told() -> None:
    x = FEW.input("x", (2,), "float32")
    one = FEW.ops.exp(x * 1)
    other = FEW.ops.exp(x + 0)
    optimised, _ = FEW.graph.optimised(FEW.graph.close([x.value], [(one + other).value]))
    (merge,) = optimised.history.merges
    assert merge.value.node.op is exp
    assert merge.at == 2


@pytest.mark.parametrize("first", [True, False])
def test_both_lines_of_a_merge_are_told_whichever_goes(first: bool) -> None:
    x = FEW.input("x", (2,), "float32")
    if first:
        one = FEW.ops.cos(x * 1)
        other = FEW.ops.cos(x)
    else:
        one = FEW.ops.cos(x)
        other = FEW.ops.cos(x * 1)
    optimised, _ = FEW.graph.optimised(FEW.graph.close([x.value], [(one + other).value]))
    (merge,) = optimised.history.merges
    assert set(merge.origins) == {one.value.node.origin, other.value.node.origin}


@pytest.mark.parametrize("name", ["mnist", "char-lstm", "resnet-18"])
def test_a_history_is_replayed(name: str) -> None:
    """Sweeps, tries that came true later, and passes among them."""
    graph = models.get(name).reduced().training(LAZY, 2, seed=None)
    optimised, _ = LAZY.graph.optimised(graph)
    assert str(optimised.history.replay(graph)) == str(optimised)


def test_a_history_is_refused_where_there_is_none() -> None:
    graph, optimised = small()
    with pytest.raises(GraphError, match="was not made by rewriting"):
        _ = graph.history
    with pytest.raises(GraphError, match="there were 3 rewrites; given 4"):
        optimised.history.at(4)
    other = nnc.lazy(nnc.Null())
    with pytest.raises(GraphError, match="of another stack"):
        optimised.history.replay(graph.to(other))


def test_the_page_shows_every_rewrite_and_needs_nothing_else() -> None:
    graph = models.get("mnist").reduced().training(LAZY, 2, seed=None)
    history = LAZY.graph.optimised(graph)[0].history
    page = history.to_html()
    assert page.count('class="step"') == len(history)
    assert page.count("<svg") == 2 * sum(len(step.before) == 1 for step in history)
    assert all(step.rule in page for step in history)
    assert "src=" not in page
    assert "href=" not in page


# --- statistics and cost ---------------------------------------------------------------------------------


def test_statistics_tell_what_stood_against_a_rule_and_what_it_saved() -> None:
    x = variable("x", (1000,))
    wide = bind("add", x, np.float64(0))
    found = FEW.optimiser.optimise([bind("multiply", bind("add", x, 0), 1), wide], measure=True)
    count = found.statistics["drop_unit"]
    assert (count.tried, count.matched, count.refused) == (3, 2, 0)
    assert count.seconds > 0
    assert count.why == {"x and (x + 0) have one shape and dtype": 1}
    assert (count.saved.bytes, count.saved.flops, count.saved.launches) == (2 * 8004, 2000, 2)
    plain = FEW.optimiser.optimise([bind("multiply", bind("add", x, 0), 1), wide])
    assert plain.roots == found.roots
    assert plain.statistics["drop_unit"].matched == 2
    assert plain.steps == ()


def test_a_pass_saves_what_the_whole_graph_costs_less() -> None:
    a, b, c = variable("a", (8, 8)), variable("b", (8, 8)), variable("c", (8,))
    root = bind("tanh", bind("add", bind("matmul", a, b), c))
    found = LAZY.optimiser.optimise([root, bind("exp", a)], measure=True)
    count = found.statistics["fuse_matrix_product"]
    assert found.roots[0].node.op.name == "matmul_blockwise"
    assert count.saved.launches == 2
    assert count.saved.bytes == 4 * (8 * 8 * 4)  # the product and the sum are neither written nor read


def test_a_pass_tells_operators_where_both_sides_read_alike() -> None:
    deep = variable("x", (8, 8))
    for name in "abcde":
        deep = bind("tanh", bind("add", bind("matmul", deep, variable(name, (8, 8))), variable(name + name, (8,))))
    (step,) = LAZY.optimiser.optimise([bind("sum", deep), bind("exp", deep)], measure=True).steps
    assert repr(step) == "fuse_matrix_product: 5 matmul, 5 add, 5 tanh -> 5 matmul_blockwise"


def test_what_others_use_is_not_saved() -> None:
    @rule
    def from_the_right(a, b, c):
        """A product of three matrices begins where that is less work."""
        left, right = (a @ b) @ c, a @ (b @ c)
        return rewrite(left).to(right).when(cheaper(left, right), same_dtype(a, b)).up_to("reassociation")

    on = Optimiser(OPTIMISER.operator, [from_the_right], "reassociation")
    a, b, c = variable("a", (90, 90)), variable("b", (90, 90)), variable("c", (90, 1))
    product = bind("matmul", a, b)
    root = bind("matmul", product, c)
    assert on.optimise([root]).roots == (bind("matmul", a, bind("matmul", b, c)),)
    assert on.optimise([root, product]).roots == (root, product)
    square = bind("matmul", product, variable("d", (90, 90)))
    found = on.optimise([square], measure=True)
    assert found.roots == (square,)
    assert found.statistics["from_the_right"].why == {"(a @ (b @ c)) is cheaper than ((a @ b) @ c)": 1}


def test_the_cost_of_unknown_extents_is_estimated() -> None:
    x = variable("x", ("n", 10))
    assert work_of(bind("add", x, x)).bytes == 3 * 64 * 10 * 4
    assert work_of(bind("reshape", x, shape=(10, x.shape[0]))) == NOTHING


# --- ends ------------------------------------------------------------------------------------------------


@rule
def first(x):
    """A wrong rule, of three that lead round."""
    return rewrite(exp(x)).to(tanh(x))


@rule
def second(x):
    """A wrong rule, of three that lead round."""
    return rewrite(tanh(x)).to(sin(x))


@rule
def third(x):
    """A wrong rule, of three that lead round."""
    return rewrite(sin(x)).to(exp(x))


def test_a_cycle_is_told_in_its_order_with_its_terms() -> None:
    with pytest.raises(RuleError) as told:
        Optimiser(OPTIMISER.operator, [third, second, first]).optimise([bind("tanh", bind("add", variable("x"), 1))])
    assert str(told.value) == (
        "rewriting does not end: second and third and first lead from tanh(x + 1) back to it\n"
        "  second: tanh(x + 1) -> sin(x + 1)\n"
        "  third: sin(x + 1) -> exp(x + 1)\n"
        "  first: exp(x + 1) -> tanh(x + 1)"
    )


def test_growth_is_told_in_its_order() -> None:
    @rule
    def one(x):
        """A wrong rule that grows."""
        return rewrite(exp(x)).to(tanh(exp(x) + 1))

    @rule
    def other(x):
        """A wrong rule that goes on with it."""
        return rewrite(tanh(x)).to(exp(tanh(x)))

    with pytest.raises(RuleError, match=r"rewriting does not end: (one|other)"):
        Optimiser(OPTIMISER.operator, [one, other]).optimise([bind("exp", variable("x"))])


def test_what_rewriting_made_is_inferred_again() -> None:
    x = variable("x", (2, 3))
    builder = Builder(OPTIMISER.operator)
    verify([bind("exp", x)], [], builder)
    wrong = builder.made(OPS["exp"], (variable("y", (4,)),), (), x.avals)
    verify([wrong], [wrong], builder)
    with pytest.raises(RuleError, match=r"rewriting made exp\(input\[4\]\): float32\[2, 3\], whose operands give"):
        verify([wrong], [], builder)
