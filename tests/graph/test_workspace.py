"""The graph being rewritten: who uses what, its order, equals (`graph/rewriting/workspace`, `graph/rewriting/mutable`).

And what becomes of it in the stack.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any
from weakref import ref

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nnc_func.errors import RuleError
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rewriting.building import Builder
from nnc_func.graph.rewriting.mutable import MutableNode
from nnc_func.graph.rewriting.operator_index import heads_of
from nnc_func.graph.rewriting.workspace import Workspace
from nnc_func.graph.rules.rule import rewriter, whole_graph
from tests.graph.rewriting import OPTIMISER, bind, variable

UNARY, BINARY = ("exp", "tanh", "sin"), ("add", "multiply")
NUMBERS = st.lists(st.tuples(*[st.integers(0, 20)] * 3), min_size=1, max_size=12)


def applied(pool: list[Value], kind: int, one: int, other: int, make: Any) -> Value:
    """An application of some operator to some of these values."""
    a, b = pool[one % len(pool)], pool[other % len(pool)]
    name = (*UNARY, *BINARY)[kind % 5]
    return make(name, a) if name in UNARY else make(name, a, b)  # type: ignore[no-any-return]


def values(numbers: list[tuple[int, int, int]]) -> list[Value]:
    """Two variables, and random applications of what came before."""
    pool: list[Value] = [variable("x"), variable("y")]
    for each in numbers:
        pool.append(applied(pool, *each, make=bind))
    return pool


def on(numbers: list[tuple[int, int, int]]) -> tuple[Workspace, Builder]:
    """A workspace of a random graph, whose roots are the last values."""
    pool = values(numbers)
    builder = Builder(OPTIMISER.operator)
    work = builder.workspace = Workspace((pool[-1], pool[-1 - len(pool) // 2], pool[-1]), builder)
    return work, builder


def check(work: Workspace) -> None:
    """Everything that a workspace keeps of its graph is what one finds by going through it."""
    order = work.order()
    assert set(order) == set(topological(work.roots))
    assert len(set(order)) == len(order)
    place = {node: i for i, node in enumerate(order)}
    assert all(one.place < other.place for one, other in pairwise(order))
    assert all(work.places()[node.place] is node for node in order)
    users: dict[Node, Counter[Node]] = {node: Counter() for node in order}
    for node in order:
        for a in node.args:
            assert place[a.node] < place[node]
            users[a.node][node] += 1
    roots = Counter(r.node for r in work.roots)
    for node in order:
        assert sorted(map(id, work.users(node))) == sorted(map(id, users[node]))
        assert node.uses == users[node].total() + roots[node]
    keys = [(n.op, n.items, n.args) for n in order if n.args]
    assert len(set(keys)) == len(keys)
    heads = work.by_heads()
    assert all(node in heads[heads_of(node)] for node in order)
    assert heads.operators() == {node.op for node in order}
    assert all(heads.of(op) == [n for n in order if n.op is op] for op in heads.operators())


@given(NUMBERS, NUMBERS)
@example([(0, 0, 0), (0, 2, 0), (1, 3, 0)], [(0, 2, 3)])  # by what depends on it
@example([(0, 0, 0), (1, 0, 0), (3, 2, 3), (3, 3, 2)], [(1, 2, 0)])  # two become one
@example([(2, 0, 0), (0, 2, 0)], [(0, 0, 0), (0, 17, 0)])  # what is gone comes back elsewhere
def test_what_is_replaced_leaves_a_graph(numbers: Any, changes: Any) -> None:
    work, builder = on(numbers)
    for at, kind, other in changes:
        order = [n for n in work.order() if n.args]
        if not order:
            break
        old = order[at % len(order)]
        new: Value = applied(
            list(work.order()), kind, other, at, lambda name, *args: builder.apply(OPS[name], args, {})
        )
        if kind % 3 == 0:
            new = work.order()[other % len(work.order())]
        new = work.own(new)
        if new is old:
            continue
        depends = old in topological([new])
        fresh = work.enter(new, old)
        assert (fresh is None) == depends
        if fresh is None:
            return
        work.replace([(old, new)])
        check(work)
        assert old.users is None
    roots, shown = work.finished()
    assert [n.op for n in shown] == [n.op for n in work.order()]
    assert all(r.table.get((n.op, n.items, *map(id, n.args))) is n for r in roots for n in shown if n.args)
    assert all(type(n) is Node for n in shown)


@given(NUMBERS)
def test_nodes_of_the_stack_are_left_alone(numbers: Any) -> None:
    pool = values(numbers)
    nodes = topological(pool)
    before = [written(node) for node in nodes]
    builder = Builder(OPTIMISER.operator)
    work = builder.workspace = Workspace((pool[-1],), builder)
    assert [written(node) for node in nodes] == before
    assert not set(map(id, nodes)) & set(map(id, topological(work.roots)))
    root = work.roots[0].node
    work.enter(work.own(pool[0]), root)
    work.replace([(root, work.own(pool[0]))])
    work.finished()
    work.close()
    assert [written(node) for node in nodes] == before
    OPTIMISER.optimise([pool[-1]])
    assert [written(node) for node in nodes] == before


def written(node: Node) -> list[Any]:
    """All that a node holds."""
    names = [name for each in type(node).__mro__ for name in getattr(each, "__slots__", ()) if name != "__weakref__"]
    return [getattr(node, name) for name in names]


def test_a_node_holds_what_is_true_of_it_and_no_more() -> None:
    assert {*Node.__slots__} == {"args", "avals", "data", "items", "op", "origin", "references", "serial"}


def test_what_rules_and_passes_meet_is_of_the_rewriting_and_leaves_are_known_by_their_numbers() -> None:
    met: list[Node] = []
    x = variable("x")

    @rewriter()
    def look(node, builder):
        """Nothing, but what it meets is kept."""
        met.extend((node, *node.args))
        return None

    @whole_graph()
    def gather(roots, order, builder):
        """Nothing, but what it meets is kept."""
        met.extend(order)
        numbers.append([builder.number_of(n) for n in order])
        return roots, 0

    numbers: list[Any] = []
    value = bind("add", bind("exp", x), OPTIMISER.operator.lift(2.5))
    assert OPTIMISER.with_rules(look, gather).optimise([value]).roots == (value,)
    assert met
    assert all(type(n) is MutableNode for n in met)
    assert 2.5 in numbers[0]


def test_a_leaf_of_the_stack_that_a_rule_gives_is_the_copy_that_there_is() -> None:
    x, y = variable("x"), variable("y")

    @rewriter()
    def known(node, builder):
        """An exponential is a variable, by a node of the stack: wrong, but what is asked here is which node it is."""
        return {"exp": x, "tanh": y}.get(node.op.name)

    found = OPTIMISER.with_rules(known).optimise([bind("subtract", bind("exp", x), x), bind("sin", bind("tanh", x))])
    assert found.roots[1] is bind("sin", y)
    assert x not in found.roots[1].node.args
    assert found.statistics["known"].matched == 2


def test_results_are_one_object_while_they_live() -> None:
    node = bind("qr", variable("x"), mode="reduced")[0].node
    one = node.result(1)
    assert node.result(1) is one
    assert node.results[1] is one
    gone = ref(node.result(0))
    assert gone() is None
    assert node.result(0).index == 0


@given(NUMBERS)
def test_what_is_left_as_it_was_is_what_it_was(numbers: Any) -> None:
    work, _ = on(numbers)
    before = topological(work.shown(r) for r in work.roots)
    check(work)
    roots, shown = work.finished()
    assert set(before) == set(shown) == set(work.before)
    assert roots == tuple(work.shown(r) for r in work.roots)


@given(NUMBERS, st.integers(0, 20))
def test_other_roots_leave_a_graph(numbers: Any, which: int) -> None:
    work, builder = on(numbers)
    some = work.order()[which % len(work.order())]
    new = builder.apply(OPS["abs"], (builder.apply(OPS["sin"], (some,), {}),), {})
    work.turn((new, some, new))
    assert work.roots == [new, some, new]
    check(work)


@given(NUMBERS, st.integers(0, 20), st.integers(0, 20))
def test_nodes_on_which_nothing_depends_are_left_out(numbers: Any, one: int, other: int) -> None:
    pool = values(numbers)
    roots = (pool[one % len(pool)], pool[other % len(pool)])
    builder = Builder(OPTIMISER.operator)
    work = builder.workspace = Workspace(roots, builder, topological(pool))
    check(work)
    assert set(work.before) == set(topological(roots))
    assert work.finished()[0] == roots


def test_what_is_shown_follows_what_is_replaced() -> None:
    x = variable("x")
    inner = bind("sin", x)
    builder = Builder(OPTIMISER.operator)
    work = builder.workspace = Workspace((bind("exp", bind("tanh", inner)),), builder)
    (root,) = work.roots
    assert work.shown(root) is bind("exp", bind("tanh", inner))
    own = next(n for n in work.order() if n.op.name == "sin")
    leaf = work.own(x)
    work.enter(leaf, own)
    work.replace([(own, leaf)])
    assert work.shown(root) is bind("exp", bind("tanh", x))


def test_a_pass_may_not_use_what_it_replaces() -> None:
    @whole_graph()
    def around(roots, order, builder):
        """A wrong pass."""
        return {roots[0]: builder.apply(OPS["tanh"], (roots[0],), {})}, 1

    with pytest.raises(RuleError, match=r"pass around replaces exp.* by what depends on it"):
        OPTIMISER.with_rules(around).optimise([bind("exp", variable("x"))])
