"""Every planted fault is refuted, soon, by a small graph that shows it (`testing/rules`, `testing/counterexamples`).

It is refuted for what is wrong with it, and the graph's code shows it.
"""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.aval import Aval
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import same_shape
from nnc_func.graph.rules.rule import AnyRule, rewrite, rule
from nnc_func.testing.counterexamples import Instance
from nnc_func.testing.rewrites import Trial
from nnc_func.testing.rules import Report, examined
from tests.graph import planted, planted_useless
from tests.graph.rewriting import stack_with_fused

PLANTED = [
    found
    for module in (planted, planted_useless)
    for found in vars(module).values()
    if isinstance(found, AnyRule) and found.module == module.__name__
]
SECONDS, NODES = 10.0, 6
TOLD = {  # those that are refuted not by two values of one graph
    "flip_of_narrow": "where the extents 2 and 3 are unknown",
    "flip_of_short": "fails where extents are unknown",
    "never_fires": "it fires on 0 of",
    "double_by_adding": "does not end",
    "distribute": "never saves anything",
    "add_and_multiply": "computes again what others use",
    "needless_condition": "is not needed",
    "needless_numerics": "it says rounding, but keeps to",
    "needless_fast_math": "it says fast math, but keeps",
    "exchange": "does not end",
    "subtract_by_adding": "does not end",
    "grow": "does not end",
}
SHOWN_OTHERWISE = ("stack.compile", "without rounding", "finds something the second time")  # not by two values


class Apart(nnc.NumPy):
    """The same device, of another recipe: stacks on it have nodes of their own.

    One planted rule writes over constants, which all stacks of one recipe share.
    """


@pytest.fixture(scope="module")
def lazy() -> Any:
    return stack_with_fused().swap(device=Apart())


def test_what_is_planted_reaches_no_other_stack(lazy: Any) -> None:
    assert lazy.symbol.table is not stack_with_fused().symbol.table


@pytest.mark.parametrize("each", PLANTED, ids=lambda r: r.name)
def test_a_planted_fault_is_refuted(each: Any, lazy: Any) -> None:
    start = process_time()
    report = examined(each, lazy)
    assert process_time() - start < SECONDS
    wanted = TOLD.get(each.name)
    if wanted is None:
        assert report.counterexample
        assert 1 <= report.nodes <= NODES
        if not any(words in report.counterexample for words in SHOWN_OTHERWISE):
            shows_a_difference(report)
    else:
        assert not report.counterexample
        assert wanted in "\n".join(report.faults)


def shows_a_difference(report: Report) -> None:
    """The counterexample's own code runs, and what it computes is not the same before and after."""
    found: dict[str, Any] = {}
    with np.errstate(all="ignore"):
        exec(report.counterexample[report.counterexample.index("import nnc_func") :], found)
    if "after" in found:
        before, after = (getattr(found[name], "numpy", lambda name=name: found[name])() for name in ("before", "after"))
        assert (before.dtype, before.shape, before.tobytes()) != (after.dtype, after.shape, after.tobytes()), report


def test_what_tolerance_hides_is_seen_without_rounding(lazy: Any) -> None:
    x = lazy.symbol.input("x", Aval((8,), "float32"))
    root = lazy.operator.bind(OPS["divide"], lazy.operator.bind(OPS["sum"], x), 3.0)
    trial, instance = Trial(lazy.operator), Instance(root, {x: np.ones(8, "float32")})
    outcome = trial.outcome(planted.third_of_a_sum, instance)
    assert not outcome.why
    assert trial.exactly(planted.third_of_a_sum, instance, outcome).why.startswith("it differs without rounding")


def test_what_is_seen_at_a_point_modulo_a_prime_is_shown_with_numbers(lazy: Any) -> None:
    @rule
    def other_axis(x):  # type: ignore[no-untyped-def]
        """A sum of a transposed square is that of the square: along the wrong axis."""
        transposed = OPS["permute_dims"](x, axes=(1, 0))
        summed, other = (OPS["sum"](each, axis=(0,)) for each in (transposed, x))
        return rewrite(summed).to(other).when(same_shape(x, transposed)).up_to("reassociation")

    report = examined(other_axis, lazy)
    assert "without rounding" not in report.counterexample
    shows_a_difference(report)


def test_a_pass_that_finds_something_the_second_time_is_refuted_on_its_own_samples(lazy: Any) -> None:
    report = examined(planted_useless.exchange_all, lazy)
    assert "finds something the second time" in report.counterexample
    assert report.nodes == 2


def test_there_are_enough_of_them() -> None:
    assert len(PLANTED) >= 30
    assert len({r.name for r in PLANTED}) == len(PLANTED)
    assert TOLD.keys() <= {r.name for r in PLANTED}
