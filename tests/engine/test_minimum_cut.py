"""Minimum cuts lower peaks within a budget (`engine/orders/minimum_cut`, `engine/orders/maximum_flow`).

Flows are compared with those of SciPy.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnc_func.engine.orders import MinimumCut, OrderProblem, cut_bound, simulated_peak
from nnc_func.engine.orders.base import answered
from nnc_func.engine.orders.maximum_flow import maximum_flow
from nnc_func.engine.orders.minimum_cut import NEAR, WIDER, Division
from nnc_func.errors import PlanError

sparse = pytest.importorskip("scipy.sparse")
search = pytest.importorskip("scipy.sparse.csgraph")


@st.composite
def networks(draw: Any, most: int = 9) -> tuple[int, list[tuple[int, int, int]]]:
    """Up to so many nodes, arcs in any direction, several between two nodes, and some that carry nothing."""
    count = draw(st.integers(2, most))
    node = st.integers(0, count - 1)
    return count, draw(st.lists(st.tuples(node, node, st.integers(0, 9)), max_size=4 * most))


def scipys(count: int, arcs: list[tuple[int, int, int]]) -> tuple[int, list[bool]]:
    """The flow from the first node to the second as SciPy finds it, and what its residual network reaches."""
    capacities = np.zeros((count, count), np.int32)
    for tail, head, capacity in arcs:
        capacities[tail, head] += capacity * (tail != head)
    found = search.maximum_flow(sparse.csr_array(capacities), 0, 1)
    rest = capacities - found.flow.toarray()
    reached = np.zeros(count, bool)
    reached[search.breadth_first_order(sparse.csr_array(rest > 0), 0, return_predecessors=False)] = True
    return int(found.flow_value), reached.tolist()


def grown(seed: int, tasks: int) -> OrderProblem:
    """A chain forward, one back that reads what the first one made, and branches off both: a training step's form."""
    draw = random.Random(seed)
    needs: list[list[int]] = []
    uses: list[list[int]] = []
    sizes: list[int] = []
    for task in range(tasks):
        near = range(max(0, task - 6), task)
        needs.append(
            sorted({*draw.sample(near, min(len(near), draw.randrange(3))), *([tasks - task] * (task > tasks // 2))})
        )
        uses.append([*needs[-1], task])
        sizes.append(draw.choice((0, 1, 64, 1000, 4096)))
    return OrderProblem(needs, uses, sizes)


@given(networks())
@settings(max_examples=200, deadline=None)
def test_flows_and_least_cuts_are_scipys(network: tuple[int, list[tuple[int, int, int]]]) -> None:
    count, arcs = network
    found = maximum_flow(count, arcs, 0, 1)
    flow, reached = scipys(count, arcs)
    assert (found.flow, [bool(one) for one in found.before]) == (flow, reached)
    assert found.is_least
    assert sum(c for tail, head, c in arcs if found.before[tail] and not found.before[head]) == flow


@given(networks(), st.integers(0, 9))
@settings(max_examples=50, deadline=None)
def test_a_flow_that_is_enough_is_one_and_no_more_than_there_is(network: Any, enough: int) -> None:
    count, arcs = network
    most, found = maximum_flow(count, arcs, 0, 1), maximum_flow(count, arcs, 0, 1, enough)
    assert found.flow == most.flow if found.is_least else enough <= found.flow <= most.flow


def test_flows_of_any_size_are_exact() -> None:
    found = maximum_flow(3, [(0, 2, 10**30 + 1), (2, 1, 10**30)], 0, 1)
    assert (found.flow, [*found.before]) == (10**30, [1, 0, 1])


@pytest.mark.parametrize("arcs", [[(0, 1, -1)], [(0, 2, 1)], [(-1, 1, 1)]])
def test_a_network_that_is_none_is_refused(arcs: Any) -> None:
    with pytest.raises(PlanError, match="of 2 nodes"):
        maximum_flow(2, arcs, 0, 1)
    with pytest.raises(PlanError, match="wanted two"):
        maximum_flow(2, [], 1, 1)


@pytest.mark.parametrize("seed", range(4))
def test_cuts_of_large_problems_are_those_of_the_whole_network(seed: int) -> None:
    """SciPy is asked of all tasks and buffers, without leaving out what is no choice."""
    problem = grown(seed, 120)
    count, buffers = len(problem), len(problem.sizes)
    endless = sum(problem.sizes) + 1
    for task in range(0, count, 7):
        arcs = [(2 + t, 2 + n, endless) for t, needed in enumerate(problem.needs) for n in needed]
        for b, users in enumerate(problem.users):
            begun, done = 2 + count + b, 2 + count + buffers + b
            arcs += [(2 + u, begun, endless) for u in users] + [(done, 2 + u, endless) for u in users]
            arcs.append((begun, done, problem.sizes[b]))
            if task in users:
                arcs += [(0, begun, endless), (done, 1, endless)]
        arcs += [(0, 2 + n, endless) for n in problem.needs[task]] + [(2 + task, 1, endless)]
        arcs += [(2 + f, 1, endless) for f in problem.followers[task]]
        assert cut_bound(problem, task) == scipys(2 + count + 2 * buffers, arcs)[0]


@pytest.mark.parametrize("seed", range(3))
def test_orders_get_no_worse_what_is_proven_holds_and_it_is_always_the_same(seed: int) -> None:
    problem = grown(seed, 2 * NEAR + 90)
    start = [*range(len(problem))]
    found = MinimumCut().solved(problem, start)
    assert found.peak == simulated_peak(problem, answered(lambda _: found.order, problem))
    assert found.bound <= cut_bound(problem, *range(len(problem))) <= found.peak <= simulated_peak(problem, start)
    assert found == MinimumCut().solved(problem, start)


def test_peaks_fall_where_tasks_are_far_apart() -> None:
    problem = grown(1, 3 * NEAR * WIDER)
    start = simulated_peak(problem, range(len(problem)))
    assert MinimumCut().solved(problem, range(len(problem))).peak < 0.9 * start


@pytest.mark.parametrize("steps", [0, 10_000, 50_000, 200_000])
def test_no_more_arcs_are_looked_at_than_the_budget_says_but_for_the_last_cuts(steps: int) -> None:
    problem = grown(2, 1000)
    arcs = sum(map(len, problem.needs)) + sum(map(len, problem.uses)) + len(problem)
    division = Division(problem, range(len(problem)), steps)
    division.improve()
    assert division.looked <= steps + 40 * arcs
    more = Division(problem, range(len(problem)))
    more.improve()
    assert more.peak <= division.peak
    assert division.looked <= more.looked


def test_with_no_steps_the_order_stays() -> None:
    problem = grown(3, 500)
    assert MinimumCut(0).improved(problem, range(500)) == [*range(500)]
