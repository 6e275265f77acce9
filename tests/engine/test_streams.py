"""On several streams every legal order computes the same (`engine/planning/streams`, `engine/verifying/races`)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.engine.allocators import NoReuse
from nnc_func.engine.plan import Plan
from nnc_func.engine.verifying.races import check_streams
from nnc_func.errors import PlanError
from nnc_func.testing.programs import LARGEST, Program, programs
from nnc_func.testing.schedules import RandomScheduler, Replay, legal_orders

LAZY = nnc.lazy()
NO_FUSION = LAZY.swap(optimiser=LAZY.optimiser.up_to_phase("layout"))
ULPS = 256
EXAMPLES, ORDERS = 90, 120


def streaming(seed: int, streams: int = 3, stack: Any = NO_FUSION) -> Any:
    return stack.swap(engine=stack.engine.with_streams(streams, RandomScheduler(seed)))


def agree(found: Any, wanted: Any, allowed: float) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        if other.dtype.kind in "fc":
            np.testing.assert_allclose(one, other, rtol=0, atol=allowed)
        else:
            np.testing.assert_array_equal(one, other)


def rewired(plan: Plan, t: int, waits: tuple[int, ...]) -> Plan:
    """The plan, in which one instruction waits for something else."""
    rows = list(plan.instructions)
    rows[t] = evolve(rows[t], waits=waits)
    return evolve(plan, instructions=tuple(rows))


# --- every legal order -----------------------------------------------------------------------------------


@settings(max_examples=max(EXAMPLES, settings().max_examples))
@given(programs(most_steps=16), st.integers(0, 2**20), st.integers(2, 4))
def test_legal_orders_of_random_programs_give_numpys_values(program: Program, seed: int, streams: int) -> None:
    state = [v.value() for v in program.variables]
    outputs, following, largest = program.run_numpy(program.feeds(), state)
    assume(largest < LARGEST)
    built = program.build(streaming(seed, streams))
    built.program.plan.verify()
    replay = Replay.of(built.program)
    assume(replay.plan.streams > 1)
    first: list[bytes] | None = None
    for order in different(replay.plan, seed):
        replay.sequence = order
        for variable, value in zip(built.variables, state, strict=True):
            variable.value.array = value.copy()
        with np.errstate(all="ignore"):
            found = [*replay(*program.feeds()), *(v.value.array for v in built.variables)]
        if first is None:
            agree(found, [*outputs, *following], ULPS * program.epsilon() * max(largest, 1.0))
            first = [f.tobytes() for f in found]
        assert [f.tobytes() for f in found] == first


def different(plan: Plan, seed: int) -> list[tuple[int, ...]]:
    """Legal orders, each once: small plans have few."""
    return sorted({tuple(order) for order in legal_orders(plan, ORDERS, seed)})


def test_ten_thousand_different_legal_orders_of_random_graphs_compute_the_same() -> None:
    feeds = [np.linspace(0.1, 1, 16).reshape(4, 4) / (i + 1) for i in range(2)]
    tried = 0
    for seed in itertools.count():
        program = graph(streaming(seed, 2 + seed % 3), random.Random(seed), 40)
        state = [v.array.copy() for v in program.variables.values()]
        replay, first = Replay.of(program), None
        for replay.sequence in different(program.plan, seed):
            for variable, value in zip(program.variables.values(), state, strict=True):
                variable.array = value.copy()
            with np.errstate(all="ignore"):
                found = [*replay.run(feeds), *(v.array for v in program.variables.values())]
            if first is None:
                eager = graph(nnc.eager(), random.Random(seed), 40)
                with np.errstate(all="ignore"):
                    wanted = eager.run(feeds)
                after = {n.data.name: n.data.array for n in eager.graph.variables}
                wanted += [after[name] for name in program.variables]
                for one, other in zip(found, wanted, strict=True):
                    np.testing.assert_allclose(one, other, rtol=1e-9)
                first = [f.tobytes() for f in found]
            assert [f.tobytes() for f in found] == first
            tried += 1
        if tried >= 10_000:
            break


def test_the_fuzzer_sees_a_missing_wait() -> None:
    """Of programs whose waits are taken away, all but few have an order among thirty that gives other bits."""
    seen = tried = 0
    x = np.linspace(0.1, 1, 16).reshape(4, 4)
    for seed in range(60):
        stack = streaming(seed, 2)
        o, given_ = stack.ops, stack.input("x", (4, 4), "float64")
        chain = [o.cumulative_sum(o.tanh(given_ * float(i + 1)), axis=0) @ given_ for i in range(3)]
        program = stack.compile([given_], [o.flip(chain[0] @ chain[1] + chain[2], axis=0)])
        hasty = evolve(program.plan, instructions=tuple(evolve(i, waits=()) for i in program.plan.instructions))
        if program.plan.streams == 1 or hasty.instructions == program.plan.instructions:
            continue
        tried += 1
        replay, wanted = Replay.of(program, hasty), program(x)[0].tobytes()
        for order in legal_orders(hasty, 30, seed):
            replay.sequence = order
            if replay(x)[0].tobytes() != wanted:
                seen += 1
                break
    assert tried > 40
    assert seen > 0.9 * tried


# --- the checker -----------------------------------------------------------------------------------------


def graph(stack: Any, draw: random.Random, most: int = 14) -> Any:
    """A random program with views, in-place steps, several results and updates."""
    o = stack.ops
    variables = [stack.variable(f"w{i}", np.arange(16.0).reshape(4, 4) / 9 + i) for i in range(2)]
    inputs = [stack.input(f"x{i}", (4, 4), "float64") for i in range(2)]
    values = [*inputs, *variables]
    makers: Any = [
        lambda a, b: a + b,
        lambda a, b: a * b,
        lambda a, _: o.tanh(a),
        lambda a, _: o.permute_dims(a),
        lambda a, b: a @ b,
        lambda a, b: o.concat(a[0:2], b[1:3], axis=0),
        lambda a, _: o.reshape(o.reshape(a, shape=(16,)), shape=(4, 4)),
        lambda _, b: o.concat(*o.split(b, sections=2)),
    ]
    for _ in range(draw.randrange(3, most)):
        values.append(draw.choice(makers)(draw.choice(values[-6:]), draw.choice(values)))
    updates = [(w, draw.choice(values)) for w in variables if draw.random() < 0.8]
    return stack.compile(inputs=inputs, outputs=draw.choices(values, k=2), updates=updates)


def plans(count: int, most: int = 14) -> Iterator[Plan]:
    """So many plans of several streams."""
    seeds = itertools.count()
    while count:
        seed = next(seeds)
        plan = graph(streaming(seed, 2 + seed % 3), random.Random(seed), most).plan
        if plan.streams > 1:
            count -= 1
            yield plan


def test_every_wait_of_two_hundred_schedules_matters_and_the_checker_says_so() -> None:
    refuted = schedules = 0
    for plan in plans(1000):
        check_streams(plan)
        waits = [(t, w) for t, i in enumerate(plan.instructions) for w in i.waits]
        schedules += bool(waits)
        for t, w in waits:  # each is needed: what another implies is no wait of a plan
            with pytest.raises(PlanError, match=f"instruction {t} "):
                check_streams(rewired(plan, t, tuple(x for x in plan.instructions[t].waits if x != w)))
            refuted += 1
        if schedules == 200:
            break
    assert schedules == 200
    assert refuted > schedules


def test_waits_that_say_nothing_more_may_be_added_and_removed() -> None:
    draw = random.Random(0)
    for plan in plans(40):
        more = plan
        for t, i in enumerate(plan.instructions):
            if not i.view and t:
                more = rewired(more, t, tuple(sorted({*i.waits, *draw.sample(range(t), min(t, 2))})))
        check_streams(more)
        check_streams(plan)


def test_the_checker_says_what_brute_force_says() -> None:
    """Two instructions of which each can be the first, and that touch the same bytes: so says every legal order."""
    draw = random.Random(1)
    wrong = right = 0
    for plan in plans(150, 7):
        rows = [t for t, i in enumerate(plan.instructions) if i.waits]
        if not rows or len(plan.instructions) > 9:
            continue
        for t in draw.sample(rows, 1):
            waits = plan.instructions[t].waits
            others = [w for w in range(t) if draw.random() < 0.3]
            damaged = rewired(plan, t, tuple(sorted({*draw.sample(waits, len(waits) - 1), *others})))
            if disturbed(damaged):
                wrong += 1
                with pytest.raises(PlanError):
                    check_streams(damaged)
            else:
                right += 1
                check_streams(damaged)
    assert wrong > 20
    assert right > 5


def disturbed(plan: Plan) -> bool:
    """Whether some legal order has two instructions the other way round that may not be."""
    rows = plan.instructions
    before = [[True] * len(rows) for _ in rows]  # in all legal orders
    for order in every_order(plan):
        for a, b in itertools.combinations(order, 2):
            before[b][a] = False
    return any(
        not before[a][b]
        and (a < plan.commit <= b or touched(plan, a) & written(plan, b) or written(plan, a) & touched(plan, b))
        for a, b in itertools.combinations([t for t, i in enumerate(rows) if not i.view], 2)
    )


def every_order(plan: Plan, done: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """All the orders that streams and waits allow."""
    rows = plan.instructions
    if len(done) == len(rows):
        yield done
    for t, i in enumerate(rows):
        needed = {*i.waits, *(u for u in range(t) if rows[u].stream == i.stream)}
        if t not in done and needed <= {*done}:
            yield from every_order(plan, (*done, t))


def bytes_of(plan: Plan, slot: int) -> set[Any]:
    """Every byte of a slot; of what it is a view of, if it is one."""
    shown = {r: i.operands[i.op.view.argument] for i in plan.instructions if i.view and i.op.view for r in i.results}
    while slot in shown:
        slot = shown[slot]
    s = plan.slots[slot]
    b = plan.buffers[s.buffer]
    kind = "output" if b.kind == "lent" else b.kind
    strides = s.strides or np.empty(s.aval.shape, s.aval.dtype).strides
    starts = [b.offset + s.offset + int(np.dot(at, strides)) for at in np.ndindex(s.aval.shape)]
    return {(kind, b.source, start + n) for start in starts for n in range(s.aval.dtype.itemsize)}


def written(plan: Plan, t: int) -> set[Any]:
    i = plan.instructions[t]
    return {n for s in (*i.results, *i.scratch) for n in bytes_of(plan, s)}


def touched(plan: Plan, t: int) -> set[Any]:
    return written(plan, t) | {n for s in plan.instructions[t].operands for n in bytes_of(plan, s)}


def test_memory_given_to_what_may_run_meanwhile_is_refuted() -> None:
    """Two buffers at one place: refused, or right in every order."""
    refused = allowed = 0
    for plan in plans(500, 9):
        arena = [n for n, b in enumerate(plan.buffers) if b.kind == "arena" and b.nbytes]
        if len(plan.instructions) > 9:
            continue
        for one, other in itertools.combinations(arena, 2):
            rows = list(plan.buffers)
            rows[other] = evolve(rows[other], offset=rows[one].offset)
            moved = evolve(plan, buffers=tuple(rows))
            if disturbed(moved):
                refused += 1
                with pytest.raises(PlanError):
                    check_streams(moved)
            else:
                allowed += 1
                check_streams(moved)
    assert refused >= 5
    assert allowed >= 5


@pytest.mark.parametrize(
    ("waits", "words"), [((5,), "which does not come before it"), ((-1,), "which does not come before it")]
)
def test_a_wait_that_might_last_for_ever_is_refused(waits: tuple[int, ...], words: str) -> None:
    plan = next(p for p in plans(20) if len(p.instructions) > 3 and not p.instructions[1].view)
    with pytest.raises(PlanError, match=words):
        check_streams(rewired(plan, 1, waits))


def test_the_commit_section_starts_when_all_else_is_over() -> None:
    found = 0
    for plan in plans(60):
        if 0 < plan.commit < len(plan.instructions) and plan.instructions[plan.commit].waits:
            found += 1
            with pytest.raises(PlanError, match="in the commit section, may start before"):
                check_streams(rewired(plan, plan.commit, ()))
    assert found > 10


# --- what plans are --------------------------------------------------------------------------------------


def test_one_stream_gives_the_plan_that_there_was() -> None:
    for seed in range(10):
        one = graph(NO_FUSION, random.Random(seed)).plan
        costly = graph(NO_FUSION.swap(engine=NO_FUSION.engine.with_streams(4)), random.Random(seed)).plan
        assert str(one).split("#") == str(costly).split("#")  # small: not worth a wait


def test_plans_are_deterministic() -> None:
    for seed in range(10):
        one, other = (graph(streaming(seed), random.Random(seed)).plan for _ in range(2))
        assert str(one) == str(other)


def test_an_allocator_that_knows_lifetimes_only_is_given_longer_ones() -> None:
    def in_order(problem: Any) -> list[int]:
        assert problem.uses is None
        from nnc_func.engine.allocators.best_fit import in_order

        return in_order(problem.rounded, problem.lower, problem.upper)

    for seed in range(40):
        stack = streaming(seed)
        stack = stack.swap(engine=stack.engine.with_allocator(in_order))
        graph(stack, random.Random(seed)).plan.verify()
        stack = stack.swap(engine=stack.engine.with_allocator(NoReuse()))
        graph(stack, random.Random(seed)).plan.verify()


def test_a_scheduler_that_is_wrong_is_named() -> None:
    def forgetful(tasks: Any, streams: int) -> Any:
        return [(0, 0)]

    def backwards(tasks: Any, streams: int) -> Any:
        return [(t, 0) for t in reversed(range(len(tasks)))]

    def outside(tasks: Any, streams: int) -> Any:
        return [(t, streams) for t in range(len(tasks))]

    x = NO_FUSION.input("x", (3,), "float64")
    value = NO_FUSION.ops.cumulative_sum(NO_FUSION.ops.tanh(x), axis=0)
    for wrong, words in ((forgetful, "each of 2 tasks"), (backwards, "before what it needs"), (outside, "in stream 2")):
        stack = NO_FUSION.swap(engine=NO_FUSION.engine.with_streams(2, wrong))
        with pytest.raises(PlanError, match=f"{wrong.__name__} .*{words}"):
            stack.engine.compile(stack.graph.close([x.value], [value.value]))


@pytest.mark.parametrize("streams", [0, -1, 1.5])
def test_the_number_of_streams_is_checked(streams: Any) -> None:
    with pytest.raises(PlanError, match="1 stream or more"):
        LAZY.engine.with_streams(streams)
