"""Groups that would hold much are cut: bits stay, no more is held than one after another (`graph/rules/cutting`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.graph.node import topological
from nnc_func.graph.rules.cutting import HELD, READ, Cutting
from nnc_func.graph.rules.fuse import fuse_elementwise

PLAIN = nnc.lazy().swap(optimiser=nnc.lazy().optimiser.without_rules(*(r.name for r in nnc.lazy().optimiser.rules)))
FUSED = PLAIN.swap(optimiser=PLAIN.optimiser.with_rules(fuse_elementwise.from_size(0), phase="fuse"))
SHAPE = (400, 500)
BYTES = 8 * 400 * 500  # beside which scratch, of blocks, is little


def planned(f: Callable[..., Any], wanted: int, shape: tuple[int, int] = SHAPE) -> Any:
    """The plan of a function of operators and of that many matrices, with the bits of what is not fused."""
    arrays = [np.random.default_rng(i).normal(size=shape) for i in range(wanted)]
    programs = []
    for each in (FUSED, PLAIN):
        inputs = [each.input(f"x{i}", shape, "float64") for i in range(wanted)]
        programs.append(each.compile(inputs, f(each.ops, *inputs)))
    np.testing.assert_array_equal(*(np.asarray(program(*arrays)) for program in programs))
    return programs[0].plan.verify()


def read(plan: Any, instruction: Any) -> int:
    """How many matrices it reads."""
    return sum(plan.slots[slot].aval.shape == SHAPE for slot in instruction.operands)


def groups(plan: Any) -> list[Any]:
    """What is computed together."""
    return [i for i in plan.instructions if i.op.name.startswith("blockwise")]


def weighted(o: Any, *xs: Any) -> Any:
    """A sum of products, of which each factor is computed for it alone."""
    total = o.sort(xs[0]) * 0.5
    for i, x in enumerate(xs[1:]):
        total = total + o.sort(x) * (i + 1.5)
    return total


def test_a_sum_of_products_holds_few_factors() -> None:
    plan = planned(weighted, 16)
    assert len(groups(plan)) == 15
    assert max(read(plan, i) for i in groups(plan)) == READ
    assert plan.arena_bytes <= (READ + 2) * BYTES


def test_what_holds_four_is_not_cut() -> None:
    plan = planned(weighted, HELD)
    assert [read(plan, i) for i in groups(plan)] == [HELD]


def test_what_is_there_anyway_is_not_counted() -> None:
    plan = planned(lambda o, *xs: sum(x * (i + 1.5) for i, x in enumerate(xs)), 16)
    assert len(groups(plan)) == 1


def test_results_that_are_read_one_by_one_are_made_a_few_at_a_time() -> None:
    def f(o: Any, x: Any) -> Any:
        y = o.exp(x)
        total = o.sum(y)
        for i in range(16):
            total = total + o.sum(o.sort(y + i))
        return total

    plan = planned(f, 1)
    assert max(len(i.results) for i in groups(plan)) <= HELD + 1  # what passes, too
    assert plan.arena_bytes <= (HELD + 3) * BYTES


def test_what_broadcasts_is_made_where_it_is_read() -> None:
    """Levels of an image pyramid: each is chosen by a small mask that is made first."""

    def f(o: Any, level: Any, *xs: Any) -> Any:
        found = weighted(o, *xs[:4])
        for k in range(1, 4):
            found = o.where(o.equal(level[:, :1], k), weighted(o, *xs[4 * k : 4 * k + 4]), found)
        return found

    plan = planned(f, 17)
    assert max(read(plan, i) for i in groups(plan)) == READ
    assert len(groups(plan)) == 4 * 3 + 3  # masks are small
    assert plan.arena_bytes <= (READ + 3) * BYTES  # what is chosen from comes first: it needs most


def test_where_a_group_has_one_result_it_is_cut_where_that_is_its_last() -> None:
    o = PLAIN.ops
    x = PLAIN.input("x", SHAPE, "float64")
    shared = o.exp(x)
    total = o.sort(x) * shared
    for i in range(9):
        total = total + o.sort(x - i) * shared
    inside = {"multiply", "add", "exp"}
    members = [n for n in topological([total.value]) if n.op.name in inside]
    users: dict[Any, set[Any]] = {}
    for node in topological([total.value]):
        for a in node.args:
            users.setdefault(a.node, set()).add(node)
    for several in (True, False):
        pieces = Cutting(members, SHAPE, lambda n: users.get(n, ()), {total.value.node}, 0, several).pieces()
        assert sorted(n.serial for piece in pieces for n in piece) == sorted(n.serial for n in members)
        assert len(pieces) == 10
        assert [n.op.name for n in pieces[0]] == ["exp"]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=30))
@settings(max_examples=25, deadline=None)
def test_any_graph_of_elementwise_operators_has_the_bits_of_what_is_not_cut(drawn: Any) -> None:
    def f(o: Any, x: Any, y: Any) -> Any:
        values = [o.sort(x), o.sort(y), o.max(o.sort(y), axis=1, keepdims=True)]
        for kind, i, j in drawn:
            one, other = values[i % len(values)], values[j % len(values)]
            values.append((one + other, one * 0.5 - other, o.sort(one), o.max(one, axis=1, keepdims=True))[kind])
        return sum(o.sum(each) for each in values)

    planned(f, 2, (4, 5))
