"""Strategies draw what they say, all of it, and failures shrink to what one can read (`testing/strategies`)."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, assume, example, find, given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.aval import Aval
from nnc_func.body import Application, Body
from nnc_func.errors import RuleError, ShapeError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.rules import RULES
from nnc_func.testing import Program, strategies
from nnc_func.testing.agreement import agree, drawn
from nnc_func.testing.programs import INPUT, LARGEST, Leaf, Step, programs
from nnc_func.testing.registration import register
from tests.profiles import NIGHTLY

EAGER = nnc.eager()


@given(strategies.shapes(min_rank=1, max_rank=2, min_side=1, max_side=4))
def test_shapes_keep_to_their_bounds(shape: tuple[int, ...]) -> None:
    assert 1 <= len(shape) <= 2
    assert all(1 <= n <= 4 for n in shape)


@given(st.integers(1, 4).flatmap(lambda count: st.tuples(st.just(count), strategies.broadcastable_shapes(count))))
def test_broadcastable_shapes_broadcast(drawn_: tuple[int, tuple[tuple[int, ...], ...]]) -> None:
    count, shapes = drawn_
    assert len(shapes) == count
    np.broadcast_shapes(*shapes)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: strategies.shapes(min_rank=3, max_rank=2),
        lambda: strategies.shapes(min_side=-1),
        lambda: strategies.broadcastable_shapes(0),
    ],
)
def test_bounds_within_which_nothing_is_are_refused(wrong: object) -> None:
    with pytest.raises(ShapeError, match="at least"):
        wrong()  # type: ignore[operator]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    "found",
    [np.isnan, np.isposinf, np.isneginf, lambda x: (x == 0) & np.signbit(x), lambda x: (x != 0) & (abs(x) < 1e-300)],
    ids=["nan", "inf", "-inf", "-0.0", "denormal"],
)
def test_special_elements_are_drawn_where_they_are_asked_for(dtype: str, found: object) -> None:
    smallest = np.finfo(dtype).smallest_subnormal
    wanted = found if dtype == "float64" else lambda x: found(x) | (x == smallest)  # type: ignore[operator]
    assert find(strategies.arrays((1,), dtype, special=True), lambda x: bool(wanted(x).any())).shape == (1,)  # type: ignore[operator]


@given(strategies.arrays(strategies.shapes(), strategies.dtypes("fc")))
def test_elements_are_finite_unless_others_are_asked_for(x: np.ndarray) -> None:
    assert np.isfinite(x).all()
    assert x.flags.c_contiguous


@given(strategies.avals(symbolic=True))
def test_avals_are_avals(aval: Aval) -> None:
    assert isinstance(aval, Aval)


@given(st.data())
def test_graphs_for_a_rule_have_a_value_for_every_input(data: st.DataObject) -> None:
    rule = data.draw(st.sampled_from([r for r in RULES if getattr(r, "samples", True)]))
    found = data.draw(strategies.graphs_for(rule, EAGER))
    assert all(node.aval.shape == array.shape for node, array in found.feeds.items())


def test_rules_from_which_no_graph_can_be_drawn_say_so() -> None:
    @nnc.rule
    def double(x):  # type: ignore[no-untyped-def]
        """Of a sum of equals a product."""
        return nnc.rewrite(x + x).to(x * 2)

    empty = nnc.lazy().swap(type=type(EAGER.type)(EAGER.device, type(CATALOGUE)(())))
    with pytest.raises(RuleError, match="lacks its operators"):
        strategies.graphs_for(double, empty)


# --- programs --------------------------------------------------------------------------------------------


def operators_drawn(count: int) -> Counter[str]:
    found: Counter[str] = Counter()
    drawn(strategies.programs(), lambda program: found.update(step.op.name for step in program.steps), count)
    return found


PURE = {op.name for op in CATALOGUE.values() if not op.effect and op.name != "token"}


def test_programs_are_made_of_the_catalogue() -> None:
    found = operators_drawn(10_000 if NIGHTLY else 300)  # which ones depends on the seed: 0.55 to 0.69 over ten
    assert set(found) <= PURE
    assert len(found) >= (1.0 if NIGHTLY else 0.4) * len(PURE), sorted(PURE - set(found))


def test_programs_have_several_results_random_operators_sharing_aliases_and_updates() -> None:
    found: list[Program] = []
    drawn(strategies.programs(), found.append, 300)
    for has in (
        lambda p: any(s.op.multi_result for s in p.steps),
        lambda p: any(s.op.name.startswith("random") for s in p.steps),
        lambda p: any(n > 1 for n in Counter(a for s in p.steps for a in s.args).values()),
        lambda p: any(s.op.view is not None for s in p.steps),
        lambda p: bool(p.updates),
    ):
        assert sum(map(has, found)) >= 2


@pytest.mark.parametrize("seed", range(1, 21 if NIGHTLY else 3))
def test_programs_shrink_to_small_ones(seed: int) -> None:
    smallest = find(
        strategies.programs(),
        lambda p: any(s.op.name == "sum" for s in p.steps),
        settings=settings(max_examples=2000, database=None, phases=[Phase.generate, Phase.shrink]),
        random=Random(seed),
    )
    assert (len(smallest.leaves), len(smallest.steps), len(smallest.outputs)) == (1, 1, 1)


BOXES = (Leaf(INPUT, "x0", (2, 4), "float32"), Leaf(INPUT, "x1", (2,), "float32", 1))
UNBOUNDED = Program(
    BOXES, (Step(CATALOGUE["non_maximum_suppression"], (0, 1), {"count": 3, "overlap": 0.5, "lowest": -np.inf}),),
    (2,), (),
)  # fmt: skip


NESTED = Body(2, [Application(CATALOGUE["loop"], (0, 1), {
    "body": Body.of(2, (CATALOGUE["multiply"], 0, 1), (CATALOGUE["clip"], 2, {"min": -np.inf})), "constants": 1,
    "carries": 1, "length": 2,
})], (2,))  # fmt: skip
LOOPED = Program(
    (Leaf(INPUT, "x0", (2,), "float32"), Leaf(INPUT, "x1", (2,), "float32", 1)),
    (Step(CATALOGUE["loop"], (0, 1), {"body": NESTED, "constants": 1, "carries": 1, "length": 3}),), (2,), (),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(strategies.programs())
@example(UNBOUNDED)
@example(LOOPED)
def test_a_program_prints_as_code_that_runs(program: Any) -> None:
    scope: dict[str, Any] = {}
    exec(str(program), scope)
    wanted, _, largest = program.run_numpy(program.feeds(), [v.value() for v in program.variables])
    assume(largest < LARGEST)
    with np.errstate(all="ignore"):
        found = scope["program"](*program.feeds())
    agree(found, wanted, program, largest, "output")


def test_a_graph_for_a_rule_prints_as_code_that_runs() -> None:
    rule = next(r for r in RULES if r.name == "drop_cast")
    found = find(strategies.graphs_for(rule, nnc.eager()), lambda graph: graph.root.op.name == "cast")
    scope: dict[str, Any] = {}
    exec(repr(found), scope)
    assert scope["root"].dtype == found.root.dtype


# --- what Hypothesis knows -------------------------------------------------------------------------------

register()


@settings(max_examples=5)
@given(st.from_type(Aval), st.from_type(nnc.Op), st.from_type(nnc.Stack), st.from_type(Program))
def test_types_have_strategies(aval: Aval, op: nnc.Op, stack: nnc.Stack, program: Program) -> None:
    assert (type(aval), type(op), type(stack), type(program)) == (Aval, nnc.Op, nnc.Stack, Program)


@pytest.mark.parametrize("first", ["from nnc_func.testing import Program", "import hypothesis"])
def test_types_have_strategies_whichever_package_is_first(first: str) -> None:
    """The first import of Hypothesis may be amid that of the module that defines a type."""
    code = f"""{first}
from hypothesis import find, strategies
from nnc_func.testing import Program
print(type(find(strategies.from_type(Program), lambda _: True)) is Program)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert found.stdout == "True\n", found.stderr


@pytest.mark.parametrize("dtype", ["int8", "uint8", "complex64", "complex128", "float32", "bool"])
def test_programs_have_leaves_of_wide_and_narrow_dtypes(dtype: str) -> None:
    found = find(programs(most_steps=2), lambda program: any(leaf.dtype == dtype for leaf in program.leaves))
    assert dtype in {leaf.dtype for leaf in found.leaves}
