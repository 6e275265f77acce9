"""Each rewriting of loops alone keeps values, once (`graph/rewriting/loops`, `graph/rewriting/branches`).

They are judged as rules are: random programs with one and without it give the same, bit by bit where it rounds as
before; done again it finds nothing; and a test that did not see it fire often says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.body import Application, Body
from nnc_func.graph.node import Value
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rewriting import bodies as rewriting
from nnc_func.graph.rewriting import loops
from nnc_func.graph.rewriting.evaluating import computed, on_host
from nnc_func.testing.agreement import SLOPE, agree, comparable, drawn
from nnc_func.testing.control_steps import Block, Loop
from nnc_func.testing.program import CONSTANT, Leaf, Program, Step
from nnc_func.testing.programs import LARGEST, programs

LAZY = nnc.lazy()
BARE = LAZY.optimiser.without_rules(*{rule.name for rule in LAZY.optimiser.rules})
Rewrite = Callable[[Any, Any], None]


def multiply_before(found: Any, used: Any) -> None:
    while found.multiply_before():
        continue


def multiply_after(found: Any, used: Any) -> None:
    while found.multiply_after():
        continue


SMOOTH = programs(control_flow=True, smooth=True, most_steps=6)
REWRITES: dict[str, Rewrite] = {
    "what nobody wants": lambda found, used: found.remove_unwanted(used),
    "outside": lambda found, used: found.compute_outside(),
    "products before": multiply_before,
    "products after": multiply_after,
}
WHOLE = loops._Loop.rewrite


class Alone:
    """One rewriting, applied to graphs; how many loops or branches it changed so far."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fired = 0
        self.name = name
        rewrite, of_branch, of_loops = REWRITES.get(name), rewriting.simplified_branch, rewriting.fused
        of_loops = rewriting.fused

        def alone(found: Any, used: Any, at_once: bool) -> None:
            if name == "all":
                WHOLE(found, used, at_once)
            elif rewrite is not None:
                rewrite(found, used)
            self.fired += found.changed

        def branches(*args: Any) -> Any:
            found = of_branch(*args) if name in ("branches", "all") else None
            self.fired += found is not None
            return found

        def fusion(*args: Any) -> Any:
            found, fewer = of_loops(*args) if name in ("fusion", "all") else (args[0], 0)
            self.fired += fewer
            return found, fewer

        BARE.known_bodies.clear()  # of another rewriting, which left there what this one does
        monkeypatch.setattr(loops._Loop, "rewrite", alone)
        monkeypatch.setattr(rewriting, "simplified_branch", branches)
        monkeypatch.setattr(rewriting, "fused", fusion)

    def __call__(self, roots: Sequence[Value]) -> Sequence[Value]:
        return rewriting._with_bodies_optimised(roots, BARE)[0]


def graph_of(program: Program, differentiated: bool) -> tuple[list[Value], dict[Any, Any]]:
    """Outputs and the variables' next values as nodes, or gradients of the outputs' squares; and what is fed."""
    leaves, feeds = [], {}
    for leaf in program.leaves:
        if leaf.kind == CONSTANT and not differentiated:
            leaves.append(LAZY.asarray(leaf.value()))
        else:
            leaves.append(LAZY.input(leaf.name, leaf.shape, leaf.dtype))
            feeds[leaves[-1].value] = leaf.value()

    def loss(*given: Any) -> Any:
        values = program.applied(LAZY, given)
        return sum(((values[n] ** 2).sum() for n in program.outputs if values[n].dtype.kind == "f"), LAZY.asarray(0.0))

    if differentiated:
        smooth = tuple([n for n, leaf in enumerate(leaves) if leaf.dtype.kind == "f"])
        wanted = [*LAZY.grad(loss, smooth)(*leaves)] if smooth else []
    else:
        values = program.applied(LAZY, leaves)
        wanted = [values[n] for n in (*program.outputs, *(following for _, following in program.updates))]
    return [LAZY.operator.lift(each.value) for each in wanted], feeds


def keeps(program: Program, alone: Alone, differentiated: bool = False) -> None:
    """Values stay, and there is nothing to do afterwards."""
    _, met = program.on_arrays([leaf.value() for leaf in program.leaves])
    comparable(met.largest, SLOPE if differentiated else LARGEST)
    roots, feeds = graph_of(program, differentiated)
    found = alone(roots)
    before = [on_host(root, computed([root], feeds, LAZY.device), LAZY.device) for root in roots]
    after = [on_host(root, computed([root], feeds, LAZY.device), LAZY.device) for root in found]
    if alone.name in ("products before", "products after", "all"):
        agree(after, before, program, met.largest, f"{alone.name}: result")
    else:
        for one, other in zip(after, before, strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"), (
                f"{alone.name} changes bits of\n{program}"
            )
    fired = alone.fired
    alone(found)
    assert alone.fired == fired, f"{alone.name} finds something the second time in\n{program}"


# --- programs in which it has something to do ---------------------------------------------------------------


@st.composite
def with_products(draw: Any) -> Program:
    """A loop over matrices, whose body multiplies slices, carries and constants by each other."""
    times, rows, width = (draw(st.sampled_from((3, 1, 2, 0))) for _ in range(3))
    rows, width = max(rows, 1), max(width, 1)
    wide = draw(st.sampled_from((width, 1, 40)))
    shapes = [(times, rows, width), (rows, width), (width, width), (width, wide), (wide, width)]
    leaves = [Leaf("input", f"x{n}", shape, "float64", n) for n, shape in enumerate(shapes)]
    base = len(leaves)  # values in the body: the carry, the slice, results of steps
    carry, slice_ = base, base + 1
    matrices = {carry: (rows, width), slice_: (rows, width), 1: (rows, width)}
    steps: list[Step] = []

    def add(name: str, args: tuple[int, ...], shape: tuple[int, int], **params: Any) -> None:
        steps.append(Step(OPS[name], args, params))
        matrices[base + 1 + len(steps)] = shape

    count = draw(st.integers(1, 5))
    for n in range(count):
        kind = "product" if n in (0, count - 1) else draw(st.sampled_from(("product", "tanh", "add")))
        one = slice_ if not n and draw(st.booleans()) else draw(st.sampled_from(sorted(matrices, reverse=True)))
        if kind == "product":
            by = draw(st.sampled_from([n for n in (2, 3, 4) if matrices[one][1] in shapes[n]]))
            turned = shapes[by][0] != matrices[one][1] or (shapes[by][0] == shapes[by][1] and draw(st.booleans()))
            shape = (rows, shapes[by][0] if turned else shapes[by][1])
            add("matmul", (one, by), shape, transpose_a=False, transpose_b=turned)
        elif kind == "tanh":
            add("tanh", (one,), matrices[one])
        else:
            add(
                "add",
                (one, draw(st.sampled_from([n for n, s in matrices.items() if s == matrices[one]]))),
                matrices[one],
            )
    carries = [n for n, shape in matrices.items() if shape == (rows, width)]
    results = draw(st.lists(st.sampled_from(sorted(matrices)), max_size=2))
    results += [*steps[-1].args[:1], base + 1 + len(steps)]  # the last product, and what it is a product of
    body = Block(base, 2, tuple(steps), (draw(st.sampled_from(carries)), *results))
    kept = draw(st.sampled_from((None,) * 3 + (2, "carries", "budget:1kB", "budget:4kB")))
    how = () if kept is None else (("checkpoint", kept),)
    loop = Loop("scan", False, (1,), (0,), 0, None, draw(st.booleans()), how, body)
    return Program(tuple(leaves), (loop,), tuple(range(base, base + 1 + len(results))), ())


@st.composite
def loops_of_bodies(draw: Any) -> Program:
    """A loop that nobody traced, so that its body computes what is the same each time, and what nobody wants."""
    constants, carries, slices = (draw(st.integers(low, 2)) for low in (1, 0, 0))
    times, reverse, counted = draw(st.integers(0, 3)), draw(st.booleans()), draw(st.booleans())
    shapes = [(2, 2)] * (constants + carries) + [(times, 2, 2)] * slices
    leaves = [Leaf("input", f"x{n}", shape, "float64", n) for n, shape in enumerate(shapes)]
    if counted:
        leaves.append(Leaf("input", f"x{len(shapes)}", (), "int64", len(shapes)))
    made = []
    for _ in range(draw(st.integers(1, 5))):
        op = OPS[draw(st.sampled_from(("tanh", "add", "multiply", "matmul", "exp")))]
        value = st.integers(0, len(shapes) + len(made) - 1)
        made.append(Application(op, tuple([draw(value) for _ in op.args]), op.canonical({})))
    value = st.integers(0, len(shapes) + len(made) - 1)
    results = [draw(value) for _ in range(carries + draw(st.integers(not carries, 2)))]
    params = {
        "body": Body(len(shapes), made, tuple(results)), "constants": constants, "carries": carries,
        "length": None if slices else times, "reverse": reverse, "counted": counted,
    }  # fmt: skip
    first = len(leaves)
    outputs = tuple([first + n for n in draw(st.lists(st.integers(0, len(results) - 1), min_size=1, unique=True))])
    return Program(tuple(leaves), (Step(OPS["loop"], tuple(range(first)), params),), outputs, ())


@st.composite
def counted_products(draw: Any) -> Program:
    """A loop that goes as often as an input says, and makes products of slices and constants, or only stacks some."""
    times, rows, width = (
        draw(st.sampled_from((32, 36, 45, 37, 31, 0))),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
    )
    shapes = [(width, width), (rows, width), (times, rows, width)]
    leaves = [Leaf("input", f"x{n}", shape, "float64", n) for n, shape in enumerate(shapes)]
    count = Leaf("input", "count", (), "int64", draw(st.integers(0, 99)), elements=(-1, times + 1))
    turned = {"transpose_a": False, "transpose_b": draw(st.booleans())}
    op = OPS[draw(st.sampled_from(("add", "multiply")))]
    made = [
        Application(OPS["matmul"], (2, 0), OPS["matmul"].canonical(turned)),
        Application(op, (3, 1), ()),
        Application(OPS["tanh"], (4,), ()),
        Application(OPS["matmul"], (5, 0), OPS["matmul"].canonical(turned)),
    ]
    params = {
        "body": Body(3, made, (5, draw(st.sampled_from((3, 4))), 5, 6)), "constants": 1, "carries": 1, "counted": True,
        "reverse": draw(st.booleans()),
    }  # fmt: skip
    outputs = draw(st.lists(st.integers(4, 7), min_size=1, unique=True))
    return Program((*leaves, count), (Step(OPS["loop"], (0, 1, 2, 3), params),), tuple(outputs), ())


@st.composite
def sibling_loops(draw: Any) -> Program:
    """Loops beside and after each other: they share what they slice, carry and keep, or slice each other's rows."""
    times, more = draw(st.sampled_from((3, 4, 1))), draw(st.integers(0, 3))
    shapes: list[tuple[int, ...]] = [(2,), (2,), (times, 2), (times, 2), (more, 2)]
    leaves = [Leaf("input", f"x{n}", shape, "float64", n) for n, shape in enumerate(shapes)]
    leaves.append(Leaf("input", "n", (), "int64", 0))
    shapes.append(())
    steps: list[Step] = []
    for _ in range(draw(st.integers(3, 6))):
        extent = draw(st.sampled_from((times,) * 6 + (more,)))
        kept = [n for n, shape in enumerate(shapes) if shape == (2,)]
        stacked = [n for n, shape in enumerate(shapes) if shape == (extent, 2)]
        if draw(st.integers(0, 5)) == 5:  # what stands between loops
            value = draw(st.sampled_from((*kept, *stacked)))
            steps.append(Step(OPS["tanh"], (value,), {}))
            shapes.append(shapes[value])
            continue
        constants, carries, slices = (
            tuple(draw(st.lists(st.sampled_from(among), min_size=least, max_size=2)))
            for among, least in ((kept, 0), (kept, 0), (stacked[-4:], 1))
        )
        counted = draw(st.integers(0, 4)) == 4
        given = len(constants) + len(carries) + len(slices)
        made = []
        for _ in range(draw(st.integers(1, 3))):
            op = OPS[draw(st.sampled_from(("tanh", "add", "sin", "multiply")))]
            value = st.integers(0, given + len(made) - 1)
            made.append(Application(op, tuple([draw(value) for _ in op.args]), op.canonical({})))
        value = st.integers(0, given + len(made) - 1)
        results = [draw(value) for _ in range(len(carries) + draw(st.integers(not carries, 2)))]
        params = {
            "body": Body(given, made, tuple(results)), "constants": len(constants), "carries": len(carries),
            "length": None, "reverse": draw(st.integers(0, 4)) == 4, "counted": counted,
        }  # fmt: skip
        steps.append(Step(OPS["loop"], (*constants, *carries, *slices, *([5] if counted else [])), params))
        shapes += [(2,)] * len(carries) + [(extent, 2)] * (len(results) - len(carries))
    results = list(range(len(leaves), len(shapes)))
    outputs = draw(st.lists(st.sampled_from(results), min_size=min(3, len(results)), max_size=5, unique=True))
    return Program(tuple(leaves), tuple(steps), tuple(outputs), ())


DRAWN = {
    "fusion": sibling_loops(), "all, of siblings": sibling_loops(), "all, of gradients of siblings": sibling_loops(),
    "what nobody wants": programs(control_flow=True, most_steps=6), "outside": loops_of_bodies(),
    "products before": with_products(), "products after": with_products(),
    "products before, of counted loops": counted_products(), "products after, of counted loops": counted_products(),
    "branches": programs(control_flow=True, most_steps=6), "all": programs(control_flow=True, most_steps=6),
    "all, of bodies": loops_of_bodies(), "all, of gradients": SMOOTH, "all, of gradients of products": with_products(),
}  # fmt: skip


def judged(name: str, monkeypatch: pytest.MonkeyPatch, examples: int) -> Counter[str]:
    """On how many programs it did something, and on how many not."""
    alone, seen = Alone(name.split(",")[0], monkeypatch), Counter[str]()

    def each(program: Program) -> None:
        fired = alone.fired
        keeps(program, alone, "gradients" in name)
        seen["fired" if alone.fired > fired else "nothing to do"] += 1

    drawn(DRAWN[name], each, examples)
    return seen


@pytest.mark.parametrize("name", DRAWN)
def test_a_rewriting_alone_keeps_values_and_is_done_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = judged(name, monkeypatch, 20)
    assert seen["fired"] >= 3, seen


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_a_rewriting_alone_keeps_values_of_many(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = judged(name, monkeypatch, 2000)
    assert seen["fired"] >= 300, seen


def test_products_of_times_that_did_not_happen_are_zeros() -> None:
    """Although what is multiplied at once has infinity times zero there."""
    weights = np.array([[np.inf, 1.0], [1.0, 0.0]])
    rows, count = LAZY.input("x", (32, 3, 2), "float64"), LAZY.input("n", (), "int64")

    def body(total: Any, row: Any) -> Any:
        total = total + row
        return total, (total, total @ weights)

    outs = LAZY.scan(body, np.zeros((3, 2)), rows, length=count)[1]
    program = LAZY.compile([rows, count], list(outs))
    assert [i.op.name for i in program.plan.instructions].count("loop") == 2
    x = np.ones((32, 3, 2))
    for times in (0, 1, 16, 17, 32):
        sums, products = program(x, np.array(times))
        np.testing.assert_array_equal(sums[:, 0, 0], [n + 1 if n < times else 0 for n in range(32)])
        assert np.isinf(products[:times, :, 0]).all()
        assert not products[times:].any()


@pytest.mark.parametrize(("computed", "least"), [(False, (640, 2560)), (True, (1280, 3200))])
@pytest.mark.parametrize(
    ("checkpoint", "room"),
    [("", 9999), ("sqrt", 9999), ("products", 9999), ("carries", 0), ("3", 0)]
    + [(f"{word}:{n}", n) for word in ("rows", "budget") for n in (639, 640, 1279, 1280, 2559, 2560, 3199, 3200)],
)
def test_products_are_made_before_a_loop_as_far_as_it_has_room(
    checkpoint: str, room: int, computed: bool, least: tuple[int, int]
) -> None:
    """Rows of two products take 640 and 1,920 bytes, and what is sliced takes 640 where it is no input."""
    shapes = {"w": (4, 4), "v": (4, 12), "h": (2, 4), "g": (2, 12), "x": (10, 2, 4)}
    w, v, h, g, x = (LAZY.input(name, shape, "float64") for name, shape in shapes.items())
    given = [each.value for each in (w, v, h, g, LAZY.ops.exp(x) if computed else x)]
    matmul, add = OPS["matmul"], OPS["add"]
    body = Body.of(5, (matmul, 4, 0), (matmul, 4, 1), (add, 5, 2), (add, 6, 3), results=(7, 8))
    items = OPS["loop"].canonical({"body": body, "constants": 2, "carries": 2, "checkpoint": checkpoint})
    found = rewriting._with_bodies_optimised(LAZY.operator.symbol.apply(OPS["loop"], tuple(given), items), BARE)[0]
    inside = [each.op for each in found[0].node.params["body"].applications]
    assert inside.count(matmul) == sum(room < each for each in least)


@settings(max_examples=15)
@given(with_products())
def test_products_are_those_of_the_loop_written_out(program: Program) -> None:
    _, met = program.on_arrays([leaf.value() for leaf in program.leaves])
    assume(met.largest < LARGEST)
    wanted, _, largest = program.run_numpy(program.feeds(), [])
    built = program.build(nnc.lazy())
    agree([np.asarray(y) for y in built(*program.feeds())], wanted, program, largest, "output")
