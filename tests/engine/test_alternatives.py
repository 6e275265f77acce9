"""Alternatives of one planning: what they share (`engine/planning/alternatives`, `engine/planning/passes`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attrs import fields

import nnc_func as nnc
from nnc_func import models
from nnc_func.config import config
from nnc_func.engine.allocators import BestFit, Problem, answered, arena_size
from nnc_func.engine.allocators.outward_fit import OutwardFit
from nnc_func.engine.plan_rows import ARENA
from nnc_func.engine.planning.alternatives import Alternatives
from nnc_func.engine.planning.committing import Arrangement, loose, short
from nnc_func.engine.planning.draft import Draft
from nnc_func.engine.planning.kernel_table import NO_TABLE, kernels_of
from nnc_func.engine.planning.liveness import footprint
from nnc_func.engine.planning.passes import PASSES, Passes
from nnc_func.errors import PlanError


def _step(name: str) -> tuple[Any, Any]:
    stack = nnc.lazy(nnc.Null())
    graph = models.get(name).training(stack, 8, seed=None)
    return stack, stack.graph.optimised(graph)[0]


def _alternatives(stack: Any, graph: Any) -> tuple[Alternatives, list[Arrangement]]:
    made = Alternatives(stack.engine.request(graph))
    whole = loose(made.root.kernels, made.sequence)
    assert whole is not None
    return made, [short(graph, made.root.kernels, made.sequence), whole]


@pytest.mark.parametrize("name", ["mnist", "lenet-5"])
def test_arrangements_share_instructions_and_take_what_each_takes_alone(name: str) -> None:
    stack, graph = _step(name)
    together, arrangements = _alternatives(stack, graph)
    for arrangement in arrangements:
        shared, alone = together.draft(arrangement), Alternatives(together.request).draft(arrangement)
        assert footprint(shared) == footprint(alone)
        assert (shared.commit, shared.order) == (alone.commit, alone.order)
        assert [row[0] for row in shared.instructions] == [row[0] for row in alone.instructions]
    assert len(arrangements) > len(together.aliased) == 1


def test_a_short_section_that_is_surely_dear_is_not_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its updates are products of matrices, which come before it: each takes a fresh array beside its variable."""
    asked: list[Arrangement] = []
    draft = Alternatives.draft

    def watched(self: Alternatives, arrangement: Arrangement) -> Draft:
        asked.append(arrangement)
        return draft(self, arrangement)

    stack, graph = _step("mnist")
    made, (brief, first) = _alternatives(stack, graph)
    monkeypatch.setattr(Alternatives, "draft", watched)
    plan = stack.engine.compile(graph).plan.verify()
    assert {a.early for a in asked} == {first.early}
    assert not any(b.kind == "next" for b in plan.buffers)
    monkeypatch.undo()
    assert footprint(made.draft(brief)) > 5 * plan.arena_bytes


# --- passes of a user's own -----------------------------------------------------------------------------


def _chain(stack: Any) -> Any:
    x = stack.input("x", (1000,), "float32")
    return stack.compile([x], stack.ops.sort(stack.ops.exp(stack.ops.sort(x))))


def test_each_pass_may_be_replaced_by_one_that_watches() -> None:
    """A wrapper around each of this library's passes sees it run in its place, and changes nothing."""
    lazy, seen = nnc.lazy(), list[str]()

    def watching(name: str, own: Any) -> Any:
        def watched(draft: Draft) -> Draft:
            seen.append(name)
            return own(draft)  # type: ignore[no-any-return]

        return watched

    names = [each.name for each in fields(Passes)]
    engine = lazy.engine.with_passes(**{name: watching(name, getattr(PASSES, name)) for name in names})
    wanted, found = _chain(lazy), _chain(lazy.swap(engine=engine))
    assert list(dict.fromkeys(seen)) == names
    assert str(found.plan) == str(wanted.plan)


def test_a_pass_has_an_effect() -> None:
    """Without results in place, and with a row that frees nothing: each in the plan, which stays right."""
    lazy = nnc.lazy()
    given = np.random.default_rng(0).standard_normal(1000).astype("float32")

    def forever(draft: Draft) -> Draft:
        draft = PASSES.lifetimes(draft)
        for storage in draft.storages:
            if storage.kind == ARENA:
                storage.last = len(draft.instructions) - 1
        return draft

    for passes, larger in (({"in_place": lambda draft: draft}, True), ({"lifetimes": forever}, True)):
        program = _chain(lazy.swap(engine=lazy.engine.with_passes(**passes)))
        assert (program.plan.verify().arena_bytes > _chain(lazy).plan.arena_bytes) is larger
        np.testing.assert_array_equal(program(given), np.sort(np.exp(np.sort(given))))


def test_a_pass_that_makes_an_unsafe_plan_is_caught() -> None:
    """Offsets that are all 0: what is alive at one time lies in one place."""

    def stacked(draft: Draft) -> Draft:
        draft = PASSES.allocate(draft)
        draft.offsets = dict.fromkeys(draft.offsets, 0)
        return draft

    lazy = nnc.lazy()
    with pytest.raises(PlanError, match="overlap"):
        _chain(lazy.swap(engine=lazy.engine.with_passes(allocate=stacked, in_place=lambda draft: draft)))


def test_a_draft_of_another_graph_is_refused() -> None:
    """It was run: whatever was asked for gave the first program's values."""
    lazy, kept = nnc.lazy(), list[Draft]()

    def first(draft: Draft) -> Draft:
        kept.append(PASSES.order(draft))
        return kept[0]

    stack = lazy.swap(engine=lazy.engine.with_passes(order=first))
    x = stack.input("x", (3,), "float32")
    stack.compile([x], x * 2)
    with pytest.raises(PlanError, match="the pass first gives the draft of another graph, 'program'"):
        stack.compile([x], x * 3, name="other")


def test_a_plan_that_computes_something_else_is_refused() -> None:
    """It is safe: verification alone lets it pass."""

    def swapped(draft: Draft) -> Draft:
        rows = draft.instructions
        sine = next(row for row in rows if row.node.op.name == "sin")
        draft.instructions = [row if row.node.op.name != "exp" else row._replace(node=sine.node, kernel=sine.kernel)
                              for row in rows]  # fmt: skip
        return PASSES.lend(draft)

    def other(draft: Draft) -> Draft:
        draft = PASSES.allocate(draft)
        draft.constant_values = [array + 1 for array in draft.constant_values]
        return draft

    def fewer(draft: Draft) -> Draft:
        draft = PASSES.allocate(draft)
        draft.constant_values = []
        return draft

    for passes, words in (
        ({"lend": swapped}, "does not compute what its graph says"),
        ({"allocate": other}, "does not compute what its graph says"),
        ({"allocate": fewer}, "0 constants are given for the plan's 1"),
    ):
        lazy = nnc.lazy()
        stack = lazy.swap(engine=lazy.engine.with_passes(**passes))
        x = stack.input("x", (3,), "float32")
        with pytest.raises(PlanError, match=words):
            stack.compile([x], [stack.ops.sin(x), stack.ops.exp(x) * 7])


def test_storages_that_take_over_each_other_are_refused() -> None:
    """Compiling never ended."""

    def around(draft: Draft) -> Draft:
        draft = PASSES.in_place(draft)
        for number, storage in enumerate(draft.storages):
            storage.merged = (number + 1) % len(draft.storages)
        return draft

    lazy = nnc.lazy()
    with pytest.raises(PlanError, match="in a circle"):
        _chain(lazy.swap(engine=lazy.engine.with_passes(in_place=around)))


@pytest.mark.parametrize("name", [each.name for each in fields(Passes)])
def test_a_pass_that_does_nothing_is_harmless_or_told_of(name: str) -> None:
    lazy = nnc.lazy()
    stack = lazy.swap(engine=lazy.engine.with_passes(**{name: lambda draft: draft}))
    given = np.random.default_rng(0).standard_normal(1000).astype("float32")
    if name in ("choose", "alias", "lifetimes", "allocate"):
        with pytest.raises(PlanError, match=rf"not this library's own \({name}\)"):
            _chain(stack)
    else:
        np.testing.assert_array_equal(_chain(stack)(given), np.sort(np.exp(np.sort(given))))


def test_a_pass_that_gives_no_draft_is_named() -> None:
    lazy = nnc.lazy()
    with pytest.raises(PlanError, match=r"a pass is a function from a Draft to a Draft; <lambda> gives None"):
        _chain(lazy.swap(engine=lazy.engine.with_passes(lend=lambda draft: None)))


@pytest.mark.parametrize(
    ("passes", "words"),
    [
        ({"inplace": lambda draft: draft}, r"there is no pass inplace; there are choose, alias, order"),
        ({"order": "exact"}, r"a pass is a function from a Draft to a Draft, given order='exact'"),
    ],
)
def test_what_is_no_pass_is_refused(passes: Any, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        nnc.lazy().engine.with_passes(**passes)


def test_applications_of_one_form_are_asked_about_once() -> None:
    lazy = nnc.lazy()
    x, y = (lazy.input(name, (2, 5), "float32") for name in "xy")
    z = lazy.input("z", (5,), "float32")
    values = [lazy.ops.softmax(v, axis=-1).value for v in (x, y, z)]
    kernels, recorded, alike = kernels_of(lazy.graph.close([x.value, y.value, z.value], values), lazy.device, NO_TABLE)
    first, second, other = (v.node for v in values)
    assert alike[second] is first
    assert kernels[second] is kernels[first]
    assert other not in alike
    assert not recorded


def test_zeros_that_look_alike_are_forms_of_their_own() -> None:
    lazy = nnc.lazy()
    x = lazy.input("x", (4,), "float32")
    fills = [lazy.ops.full(shape=(4,), value=v, dtype="float32") for v in (0.0, -0.0)]
    graph = lazy.graph.close([x.value], [lazy.ops.maximum(x, f).value for f in fills])
    _, _, alike = kernels_of(graph, lazy.device, NO_TABLE)
    assert not any(node.op.name == "full" for node in alike)


def test_outward_fit_stacks_what_is_alive_at_the_busiest_step() -> None:
    """As a step of training: values that live from the forward pass to the backward one, and passing ones between."""
    draw = np.random.default_rng(0)
    count = 40
    sizes = (64 * draw.integers(1, 64, 3 * count)).tolist()
    lower, upper = [*range(0, 2 * count, 2)], [4 * count - t for t in range(0, 2 * count, 2)]
    starts = [*range(0, 4 * count, 2)]
    problem = Problem(sizes, lower + starts, upper + [t + 2 for t in starts])
    offsets = answered(OutwardFit(), problem)
    assert arena_size(problem, offsets) == problem.max_load
    assert arena_size(problem, answered(BestFit(), problem)) > 1.01 * problem.max_load


def test_only_what_no_part_of_a_gradient_covers_is_zeroed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of slices add up in the whole that they are parts of; the rest of it, and only that, is filled.

    Memory is poisoned before each instruction: what was left out would be NaN.
    """
    monkeypatch.setattr(config, "spec", 3)
    lazy = nnc.lazy()
    x = lazy.input("x", (12, 3), "float32")

    def loss(x: Any) -> Any:
        return (x[:4] ** 2).sum() + lazy.ops.sin(x[7:10]).sum()

    program = lazy.compile([x], lazy.grad(loss)(x))
    plan = program.plan
    filled = [i for i in plan.instructions if i.op.name == "fill"]
    assert sum(plan.slots[i.results[0]].aval.size for i in filled) == (12 - 4 - 3) * 3
    assert not any(i.op.name in ("copy", "full", "pad", "assemble", "add") for i in plan.instructions if not i.view)
    given = np.random.default_rng(0).standard_normal((12, 3)).astype("float32")
    wanted = np.zeros_like(given)
    wanted[:4], wanted[7:10] = 2 * given[:4], np.cos(given[7:10])
    np.testing.assert_allclose(np.asarray(program(given)), wanted, rtol=1e-6)
