"""Pictures of graphs are well formed, tell every node once, overlap nothing, and stay the same (`graph/pictures`)."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.graph.pictures.graphs import ONE_BY_ONE, dot, svg
from nnc_func.graph.pictures.layered import layered, spread
from nnc_func.graph.pictures.records import matched, records
from nnc_func.graph.pictures.svg import escaped, sized

SVG = "{http://www.w3.org/2000/svg}"
LAZY = nnc.lazy()


def training_step(depth: int = 3) -> Any:
    """A program with inputs, variables, constants, views and updates."""
    x, target = (LAZY.input(name, (8, 4), "float32") for name in ("x", "target"))
    weights = [LAZY.variable(f"w{i}", np.ones((4, 4), "float32")) for i in range(depth)]

    def loss(given_: Any) -> Any:
        y = x
        for w in given_:
            y = LAZY.ops.tanh(y @ w + LAZY.asarray(np.arange(4, dtype="float32")))
        return LAZY.ops.mean(LAZY.ops.square(y - target))

    value, gradient = LAZY.value_and_grad(loss)(weights)
    updates = [(w, w - 0.1 * g) for w, g in zip(weights, gradient, strict=True)]
    return LAZY.compile(inputs=[x, target], outputs=[value], updates=updates, name="step")


def chain(length: int) -> Any:
    x = LAZY.input("x", (2,), "float32")
    y = x
    for _ in range(length):
        y = LAZY.ops.tanh(y) + x
    return LAZY.graph.close([x.value], [y.value], name="chain")


def boxes(picture: str) -> list[tuple[str, float, float, float, float, str]]:
    """Tooltip, left, top, width, height and fill of every record."""
    found = []
    for group in ElementTree.fromstring(picture).iter(f"{SVG}g"):
        words, box = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        if words is not None and box is not None:
            x, y, width, height = (float(box.attrib[k]) for k in ("x", "y", "width", "height"))
            found.append((str(words.text), x, y, width, height, box.attrib["fill"]))
    return found


def test_every_node_is_drawn_once_and_none_on_another() -> None:
    program = training_step()
    found = boxes(svg(program.graph, program.plan))
    assert len(found) == len(program.graph.nodes)
    for i, (_, x, y, width, height, _) in enumerate(found):
        for _, u, v, other, tall, _ in found[:i]:
            assert x + width <= u or u + other <= x or y + height <= v or v + tall <= y


def test_words_fit_into_their_boxes() -> None:
    program = training_step()
    root = ElementTree.fromstring(svg(program.graph, program.plan))
    for group in root.iter(f"{SVG}g"):
        box = group.find(f"{SVG}rect")
        if box is None:
            continue
        right = float(box.attrib["x"]) + float(box.attrib["width"])
        for words in group.findall(f"{SVG}text"):
            if "text-anchor" not in words.attrib:
                assert float(words.attrib["x"]) + len(str(words.text)) * 11 * 0.61 <= right


def test_the_picture_holds_all_that_is_drawn() -> None:
    picture = svg(training_step().graph)
    root = ElementTree.fromstring(picture)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for _, x, y, w, h, _ in boxes(picture):
        assert x >= 0
        assert x + w + 24 <= width + 24
        assert y + h + 70 <= height


def test_colours_are_those_of_memory() -> None:
    program = training_step()
    found = records(program.graph, program.plan, None)
    fills = {b[0]: b[5] for b in boxes(svg(program.graph, program.plan))}
    by_block: dict[int, set[str]] = {}
    for record in found.values():
        assert record.block is not None
        by_block.setdefault(record.block, set()).add(fills[record.description])
    assert all(len(each) == 1 for each in by_block.values())
    assert any(sum(r.block == b for r in found.values()) > 1 for b in by_block)  # something is shared


def test_buffers_are_found_from_the_plan() -> None:
    program = training_step()
    assert matched(program.graph, program.plan) == program.blocks
    assert svg(program.graph, program.plan) == svg(program.graph, program.plan, program.blocks)


def test_the_graph_that_was_compiled_shares_what_is_the_same() -> None:
    program = training_step()
    found = matched(program.source, program.plan)
    assert set(found) >= {n for n in program.source.nodes if n.op.name in ("input", "variable")}


def test_the_line_of_the_user_is_told() -> None:
    told = [words for words, *_ in boxes(svg(training_step().source)) if " = tanh(" in words]
    assert told
    assert all("\nat test_show.py:" in words and "in loss" in words for words in told)


def test_outputs_and_updates_are_named() -> None:
    picture = svg(training_step().graph)
    assert ">output 0<" in picture
    assert ">update of w2<" in picture


@pytest.mark.parametrize("draw", [svg, dot])
def test_the_same_graph_is_drawn_the_same(draw: Any) -> None:
    first, second = (draw(training_step().graph, training_step().plan) for _ in range(2))
    lines = re.compile(r"\w+\.py:\d+ in [\w<>]+")  # a constant may have been asked for elsewhere, while that lives
    assert lines.sub("", first) == lines.sub("", second)


@pytest.mark.parametrize("name", ['<script>alert("&")</script>', "a\0b\ud800", "{|}<>\\"])
def test_names_are_escaped(name: str) -> None:
    x = LAZY.input(name, (2,), "float32")
    graph = LAZY.graph.close([x.value], [LAZY.operator.lift((x + 1).value)], name=name)
    picture = svg(graph)
    ElementTree.fromstring(picture)
    assert "<script>" not in picture
    assert dot(graph).count("\n") == 7


def test_graphs_of_nothing_are_drawn() -> None:
    ElementTree.fromstring(svg(LAZY.graph.close([], [])))
    x = LAZY.input("unused", (2,), "float32").value
    assert len(boxes(svg(LAZY.graph.close([x], [])))) == 1


def test_a_graph_that_is_too_large_is_summed_up_and_says_so() -> None:
    graph = chain(ONE_BY_ONE)
    picture = svg(graph)
    assert "this is a summary by operator" in picture
    assert "1500 × tanh" in picture
    ElementTree.fromstring(picture)


def test_edges_that_are_too_long_are_told_by_number() -> None:
    xs = [LAZY.input(f"x{i}", (2,), "float32") for i in range(20)]
    y = xs[0]
    for _ in range(400):
        y = LAZY.ops.tanh(y)
    for x in xs[1:]:
        y = y + x
    picture = svg(LAZY.graph.close([x.value for x in xs], [LAZY.operator.lift(y.value)]))
    assert ", far above" in picture


def test_graphviz_has_each_node_and_edge() -> None:
    program = training_step()
    written = dot(program.graph, program.plan)
    assert written.startswith('digraph "step" {')
    assert written.count(" -> ") == program.graph.statistics["edges"]
    assert written.count("[label=") == len(program.graph.nodes)


def test_graphs_and_programs_draw_themselves() -> None:
    program = training_step()
    assert program.graph.to_svg() == svg(program.graph) == program.graph._repr_html_()
    assert program.graph.to_dot(program.plan) == dot(program.graph, program.plan)


# --- layout -------------------------------------------------------------------------------------------------

graphs = st.lists(st.lists(st.integers(0, 30), max_size=3), max_size=30).map(
    lambda rows: [(a % i, i) for i, row in enumerate(rows) if i for a in row]
)


@given(graphs, st.integers(0, 30))
def test_layers_keep_their_distance(edges: list[tuple[int, int]], more: int) -> None:
    count = max([more, *(b for _, b in edges)]) + 1
    layer = [0] * count
    for a, b in sorted(edges, key=lambda e: e[1]):
        layer[b] = max(layer[b], layer[a] + 1)
    widths = [20.0 + 7 * (i % 5) for i in range(count)]
    found = layered(layer, edges, widths, 10.0)
    points = [(x, w, level) for x, w, level in zip(found.x, widths, layer, strict=True)]
    points += [(x, 4.0, level) for trunk in found.trunks.values() for x, level in trunk]
    for level in set(layer):
        row = sorted((x - w / 2, x + w / 2) for x, w, at in points if at == level)
        assert all(right + 10 <= left + 1e-6 for (_, right), (left, _) in pairwise(row))
    assert all(x - w / 2 >= -1e-6 and x + w / 2 <= found.width + 1e-6 for x, w, _ in points)
    for a, b in edges:
        assert len(found.trunks.get(a, ())) >= layer[b] - layer[a] - 1


@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(0.1, 10), st.floats(0, 20)), min_size=1, max_size=12))
def test_places_are_in_order_and_balanced(rows: list[tuple[float, float, float]]) -> None:
    wanted, weights, gaps = [list(column) for column in zip(*rows, strict=True)]
    found = spread(wanted, weights, gaps[1:])
    assert all(b - a >= gap - 1e-6 for (a, b), gap in zip(pairwise(found), gaps[1:], strict=True))
    pull = sum(w * (f - x) for w, f, x in zip(weights, found, wanted, strict=True))
    assert abs(pull) < 1e-6 * sum(weights) * 300  # nothing is gained by moving all of them


def test_words_of_pictures() -> None:
    assert escaped("<&>\"'\x00\ud800") == "&lt;&amp;&gt;&quot;&#x27;\ufffd\ufffd"
    assert [sized(n) for n in (0, 1, 1023, 1024, 1000 * 1024, 1 << 30, 5 << 40)] == [
        "0 B",
        "1 B",
        "1023 B",
        "1 KiB",
        "1000 KiB",
        "1 GiB",
        "5 TiB",
    ]
