"""Rules as the Python that they are compiled to (`graph/rewriting/matchers`, `graph/rules/rule`)."""
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import traceback

import pytest

import nnc_func as nnc
from nnc_func.errors import RuleError
from nnc_func.graph.formulas.formula import formula
from nnc_func.graph.node import Node
from nnc_func.graph.rewriting.matchers import is_number, same, written
from nnc_func.graph.rules import RULES, Family, Pass
from nnc_func.graph.rules.combine import fuse_multiply_add
from nnc_func.graph.rules.conditions import that
from nnc_func.graph.rules.pattern import Param, Scalar
from nnc_func.graph.rules.rule import ANY, Rule, rewrite, rewriter, rule, whole_graph
from nnc_func.graph.rules.signs import subtract_negative

LAZY = nnc.lazy()
OPS = LAZY.type.ops


def fired(made: Rule, root: Node) -> str | None:
    """What the rule makes of the root, as text."""
    builder = LAZY.optimiser.tables[0].builder
    builder.forget()
    found = written(made).function(builder)(root, lambda value: 1)
    return None if found is None else str(formula(found, deep=4))


def variable(name: str) -> nnc.Tensor:
    """A floating input."""
    return LAZY.input(name, (2,), "float64")


def test_a_rule_shows_what_it_is_compiled_to() -> None:
    lines = subtract_negative.source.splitlines()
    assert lines[0] == "def attempt(node, users, why=None):"
    assert "# subtract_negative: (x - -y) -> (x + y)" in lines[1]
    assert " for " not in subtract_negative.source
    assert sum(" for " in line for line in fuse_multiply_add.source.splitlines()) == 2  # of the sum and of the product


def test_one_instance_of_each_rule_compiles() -> None:
    for each in RULES:
        if isinstance(each, Rule | Family):
            for made in list(each.instances(OPS))[:1]:
                assert written(made).code is written(made).code
                compile(made.source, "rule", "exec")


def test_operands_are_exchanged_until_all_of_it_matches_conditions_included() -> None:
    @rule
    def second(x, y, z):
        """A product and a sum, of which a condition likes one order only."""
        named = that(lambda v: v.node.data == "c", y, says="y is c")
        return rewrite(x * y + z).to(x).when(named)

    a, b, c = map(variable, "abc")
    assert fired(second, (a + b * c).value) == "b"
    assert fired(second, (c * b + a).value) == "b"
    assert fired(second, (a * b + c).value) is None
    builder, why = LAZY.optimiser.tables[0].builder, []
    assert written(second).function(builder)((a * b + c).value, lambda value: 1, why) is None
    assert [c.text for c in why] == ["y is c", "y is c"]


def test_one_variable_is_one_value_and_one_number_the_same_bits() -> None:
    @rule
    def twice(x, a: Scalar, p: Param):
        """The same tensor, number and parameter, each twice."""
        return rewrite(OPS["sum"](x * a, axis=p) + OPS["sum"](x + a, axis=p)).to(OPS["sum"](x, axis=p))

    x, y = map(variable, "xy")
    total = LAZY.ops.sum
    assert fired(twice, (total(x * 2, axis=0) + total(x + 2, axis=0)).value) is not None
    assert fired(twice, (total(x * 2, axis=0) + total(y + 2, axis=0)).value) is None
    assert fired(twice, (total(x * 2, axis=0) + total(x + 3, axis=0)).value) is None
    assert fired(twice, (total(x * 2, axis=0) + total(x + 2)).value) is None


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [(1, 1, True), (1, 1.0, False), (1, True, False), (0.0, -0.0, False), (None, None, True), ("a", "a", True)],
)
def test_parameters_are_the_same_in_type_and_bits(one: object, other: object, equal: bool) -> None:
    assert same(one, other) is equal


def test_zeros_are_told_apart_unless_either_will_do() -> None:
    assert is_number(0.0, 0.0, either=False)
    assert not is_number(-0.0, 0.0, either=False)
    assert is_number(-0.0, 0, either=True)
    assert not is_number(None, 0, either=True)
    assert is_number(2, 2.0, either=False)
    assert not is_number(float("nan"), 0, either=True)


def test_a_failure_shows_the_line_that_was_written() -> None:
    def fails(x: object) -> bool:
        raise ZeroDivisionError

    @rule
    def failing(x):
        """A condition that fails."""
        return rewrite(OPS["exp"](x)).to(x).when(that(fails, x, says="it is not asked"))

    stack = LAZY.swap(optimiser=LAZY.optimiser.with_rules(failing))
    x = stack.input("x", (2,), "float64")
    with pytest.raises(RuleError, match="rule failing failed on exp") as told:
        stack.optimiser.optimise([stack.ops.exp(x).value])
    lines = "".join(traceback.format_exception(told.value.__cause__))
    assert 'File "nnc_func rule failing"' in lines
    assert "if not holds_" in lines
    assert "it is not asked" in failing.source


def test_rules_that_compute_tell_of_themselves() -> None:
    @rewriter(ANY, looks=1)
    def nothing(node, builder):
        """Finds nothing."""

    @whole_graph(of=(OPS["exp"],))
    def never(roots, order, builder):
        """Is not given graphs without exponentials."""
        raise ZeroDivisionError

    assert str(nothing) == "nothing: Finds nothing."
    assert list(nothing.instances(OPS)) == [nothing]
    stack = LAZY.swap(optimiser=LAZY.optimiser.with_rules(nothing, never))
    x = stack.input("x", (2,), "float64")
    stack.optimiser.optimise([(x + 1).value])
    with pytest.raises(ZeroDivisionError):
        stack.optimiser.optimise([stack.ops.exp(x).value])
    assert isinstance(never, Pass)
    assert never.of == {OPS["exp"]}
