"""Phases of rules, their constants, what was asked for (`graph/rules/phases`, `graph/rules/folding`, `graph/counters`).

Constants are computed by rules, and what is asked for while a graph is built is counted.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import RuleError
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.optimiser import Optimiser
from nnc_func.graph.rules import PHASES, RULES, Phase, rewrite, rule, whole_graph
from nnc_func.graph.rules.conditions import same_aval, same_dtype
from nnc_func.graph.rules.digits import keeps_digits
from nnc_func.graph.rules.pattern import Constant, folded
from nnc_func.testing.rules import check_rule, examined
from tests.graph.rewriting import OPTIMISER, bind, names, variable

GOLDEN = Path(__file__).parents[1] / "golden"
BENCH = Path(__file__).parents[2] / "bench"
exp, tanh, absolute, negative = OPS["exp"], OPS["tanh"], OPS["abs"], OPS["negative"]


@rule
def lower(x):
    """What exp is made of, as it were."""
    return rewrite(exp(tanh(x))).to(absolute(negative(-x)))


@rule
def hide(x):
    """Hides an absolute value, and makes something that the first phase simplifies."""
    return rewrite(absolute(x)).to(tanh(negative(-x)))


def phased(*phases: Phase) -> Any:
    return Optimiser(OPTIMISER.operator, phases)


# --- phases ----------------------------------------------------------------------------------------------


def test_a_phase_begins_when_no_rule_of_the_one_before_fires() -> None:
    @rule
    def twice(x):
        """Needs both applications of the absolute value."""
        return rewrite(exp(absolute(absolute(x)))).to(x)

    x = variable("x")
    root = bind("exp", bind("abs", bind("abs", bind("multiply", x, 1))))
    simplify = Phase("simplify", [r for r in RULES if r.name == "drop_unit"])
    assert phased(simplify, Phase("first", [twice]), Phase("second", [hide])).optimise([root]).roots == (x,)
    found = phased(simplify, Phase("first", [hide]), Phase("second", [twice])).optimise([root])
    assert names(found.roots[0]) == ["input", "negative", "negative", "tanh", "negative", "negative", "tanh", "exp"]


def test_rules_of_earlier_phases_stay_in_force() -> None:
    on = phased(PHASES[0], Phase("later", [hide]))
    x = variable("x")
    found = on.optimise([bind("abs", x)], trace=True)
    assert found.roots == (bind("tanh", x),)
    assert [name for name, _ in found.trace] == ["hide", "drop_involution"]
    assert on.optimise(found.roots).roots == found.roots


def test_what_a_pass_makes_is_simplified_in_its_phase() -> None:
    times = []

    @whole_graph()
    def doubled(roots, order, builder):
        """Negates twice what is not negated."""
        times.append(len(order))
        if any(n.op.name == "exp" for n in order):
            return [builder.apply(OPS["negative"], (bind("negative", bind("tanh", order[0])),), {})], 1
        return roots, 0

    x = variable("x")
    found = phased(PHASES[0], Phase("later", [doubled])).optimise([bind("exp", x)])
    assert found.roots == (bind("tanh", x),)
    assert times == [2, 2]


def test_a_pass_that_never_ends_is_named() -> None:
    @whole_graph()
    def deeper(roots, order, builder):
        """A wrong pass: it finds something each time."""
        return [builder.apply(OPS["exp"], (roots[0],), {})], 1

    with pytest.raises(RuleError, match=r"rewriting does not end: .* deeper still fire"):
        phased(Phase("first", [deeper])).optimise([variable("x")])


def test_rules_join_a_phase_and_leave_it() -> None:
    last = OPTIMISER.phases[-1].name
    on = OPTIMISER.with_rules(hide, phase=last)
    assert on.phases[-1].rules[-1] is hide
    assert on.phases[:-1] == OPTIMISER.phases[:-1]
    assert on.without_rules("hide") == OPTIMISER
    assert OPTIMISER.with_rules(hide).phases[0].rules[-1] is hide
    assert OPTIMISER.up_to_phase("simplify").rules == PHASES[0].rules
    assert Optimiser(OPTIMISER.operator, RULES).phases == (Phase("simplify", RULES),)
    assert Optimiser(OPTIMISER.operator, ()).optimise([bind("add", variable("x"), 0)]).statistics == {}
    assert pickle.loads(pickle.dumps(OPTIMISER)).phases == OPTIMISER.phases
    assert OPTIMISER.rules == RULES
    with pytest.raises(RuleError, match="no phase 'later'; the phases are simplify"):
        OPTIMISER.with_rules(hide, phase="later")
    with pytest.raises(RuleError, match="no phase 'later'"):
        OPTIMISER.up_to_phase("later")
    with pytest.raises(RuleError, match="two phases named simplify"):
        phased(Phase("simplify"), Phase("simplify"))
    with pytest.raises(RuleError, match="phases, or rules"):
        phased(Phase("simplify"), lower)  # type: ignore[arg-type]


# --- constants -------------------------------------------------------------------------------------------


@rule
def gather_factors(x, a: Constant, b: Constant):
    """Constant factors are one."""
    outer = x * a * b
    return (
        rewrite(outer)
        .to(x * folded(a * b))
        .when(same_aval(x, outer), same_dtype(x, a), same_dtype(x, b), keeps_digits(OPS["multiply"], (a,), b, x))
        .up_to("reassociation")
        .with_fast_math()
    )


def factors(stack: Any) -> tuple[Any, Any]:
    on = stack.swap(optimiser=stack.optimiser.with_rules(gather_factors).with_numerics("reassociation", fast_math=True))
    x = on.input("x", (200, 200), "float32")
    y = x * np.full((200, 200), 3, "float32") * np.float32(2)
    return on, on.graph.close([x.value], [y.value])


def test_a_rule_computes_a_constant_larger_than_the_limit() -> None:
    lazy, graph = factors(nnc.lazy())
    optimised, _ = lazy.graph.optimised(graph)
    assert optimised.statistics == {"nodes": 3, "edges": 2, "applications": 1}
    np.testing.assert_array_equal(optimised.constants[0].data, np.full((200, 200), 6, "float32"))


def test_a_device_without_elements_rewrites_alike() -> None:
    null, graph = factors(nnc.lazy(nnc.Null()))
    optimised, _ = null.graph.optimised(graph)
    assert optimised.statistics == {"nodes": 3, "edges": 2, "applications": 1}
    assert null.engine.compile(graph).plan.kernels == 1


def test_a_constant_that_is_not_finite_is_left_to_the_run() -> None:
    lazy = nnc.lazy().swap(optimiser=nnc.lazy().optimiser.with_rules(gather_factors).with_numerics(3, fast_math=True))
    x = lazy.input("x", (2,), "float32")
    y = x * np.float32([3e38, 1]) * 1e30
    found = lazy.optimiser.optimise([y.value])
    assert found.roots == (y.value,)
    assert found.statistics["gather_factors"].refused == 1


def test_rules_of_constants_are_checked_as_others() -> None:
    found = examined(gather_factors, nnc.eager(), examples=100)
    assert found.fired
    assert not found.counterexample

    @rule
    def wrong(x, a: Constant):
        """A constant that is added is subtracted."""
        return rewrite(x + a).to(x - folded(a * 1))

    with pytest.raises(RuleError, match="it is not sound"):
        check_rule(wrong, nnc.eager(), examples=100)


# --- what was asked for ----------------------------------------------------------------------------------


def test_applications_are_counted_whether_or_not_they_are_new() -> None:
    lazy = nnc.lazy()
    x = lazy.input("x", (2,), "float32")
    with nnc.counted(lazy) as asked:
        y = x + x
        assert asked.applications == 1
        z = (x + x) * y
    lazy.graph.optimised(lazy.graph.close([x.value], [(z * 1).value]))
    assert asked.applications == 3
    assert repr(asked) == "<3 applications asked for>"


def test_asked_for_golden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking for more is seen: the counts are those of the file, which NNC_RENEW=1 writes."""
    monkeypatch.syspath_prepend(str(BENCH))
    import reduction

    from tests.golden.test_golden import compare

    counted = [reduction.counts(subject) for subject in reduction.SUBJECTS]
    compare("asked", "\n".join(f"{c['graph']}: {c['asked for']}" for c in counted))
    assert all(c["left"] <= c["built"] <= c["asked for"] for c in counted)


def test_what_a_pass_has_replaced_comes_in_with_the_rules_of_the_next_phase() -> None:
    asked = []

    @whole_graph()
    def lowered(roots, order, builder):
        """Each exp of what is no tanh is a tanh of an exp."""
        asked.append(len(order))
        found = {}
        for node in order:
            if node.op is exp and node.args[0].node.op is not tanh:
                inner = builder.apply(exp, (bind("tanh", node.args[0]),), {})
                found[node] = builder.apply(tanh, (inner,), {})
        return found, len(found)

    x = variable("x")
    first = bind("exp", x)
    phases = Phase("first", [lowered]), Phase("later", [lower])
    found = phased(*phases).optimise([bind("add", first, bind("sin", first)), first])
    made = bind("tanh", bind("abs", bind("negative", bind("negative", x))))
    assert found.roots == (bind("add", made, bind("sin", made)), made)
    assert asked == [4, 7]


def test_what_becomes_equal_to_a_node_that_a_pass_has_replaced_is_replaced_too() -> None:
    @whole_graph()
    def lowered(roots, order, builder):
        """The exp of an absolute value is a tanh."""
        found = {
            n: bind("tanh", n.args[0].node.args[0]) for n in order if n.op is exp and n.args[0].node.op is absolute
        }
        return found, len(found)

    @rule
    def absolute_instead(x):
        """Takes absolute values where sines were."""
        return rewrite(OPS["sin"](x)).to(absolute(x))

    x = variable("x")
    phases = Phase("first", [lowered]), Phase("later", [absolute_instead])
    found = phased(*phases).optimise([bind("exp", bind("sin", x)), bind("exp", bind("abs", x))])
    assert found.roots == (bind("tanh", x), bind("tanh", x))
