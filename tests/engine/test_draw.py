"""Pictures of plans: every buffer is where the plan puts it, and the page stands alone (`engine/drawing`)."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

import nnc_func as nnc
from nnc_func import models
from nnc_func.engine.allocators import Problem
from nnc_func.engine.drawing.comparison import Answer, comparison_page
from nnc_func.engine.drawing.memory import (
    LEFT,
    WIDTH,
    _legend,
    _outline,
    coloured,
    html,
    load,
    reach,
    svg,
    tenants,
)
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import Buffer

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def plan(lazy: Any) -> Plan:
    x = lazy.input("x", (64, 64), "float32")
    y = lazy.ops.tanh(x @ x)
    z = lazy.ops.exp(y @ x) @ y
    found = lazy.compile(inputs=[x], outputs=[lazy.ops.sum(z @ x, axis=0) + 1]).plan
    assert isinstance(found, Plan)
    return found


def arena(*rows: tuple[int, int, int, int]) -> Plan:
    size = max((row[0] + row[3] for row in rows), default=0)
    return Plan((), (), tuple(Buffer("arena", *row) for row in rows), (), (), (), (), (), 0, size, 1)


def test_every_buffer_is_where_the_plan_puts_it(plan: Plan) -> None:
    root = ElementTree.fromstring(svg(plan))
    drawn = {int(g.attrib["data-buffer"]): g for g in root.iter(f"{SVG}g") if "data-buffer" in g.attrib}
    assert sorted(drawn) == [n for n, b in enumerate(plan.buffers) if b.kind == "arena"]
    down = float(next(iter(drawn.values())).find(f"{SVG}rect").attrib["height"])  # type: ignore[union-attr]
    assert down > 1
    for number, group in drawn.items():
        rectangle, b = group.find(f"{SVG}rect"), plan.buffers[number]
        assert rectangle is not None
        left, width = float(rectangle.attrib["x"]), float(rectangle.attrib["width"])
        assert left == pytest.approx(86 + 900 * b.lower / len(plan.instructions), abs=0.01)
        assert width == pytest.approx(900 * (b.upper - b.lower) / len(plan.instructions), abs=0.01)
        bottom = float(rectangle.attrib["y"]) + float(rectangle.attrib["height"])
        assert bottom == pytest.approx(62 + 420 * (1 - b.offset / plan.arena_bytes), abs=0.02)
        words = str(group.findtext(f"{SVG}title"))
        assert f"buffer {number}: " in words
        assert "test_draw.py:" in words


def test_load_and_reach() -> None:
    found = tenants(arena((10, 0, 2, 0), (20, 1, 3, 10), (5, 2, 3, 0)))
    assert load(found, 3) == [10, 30, 25]
    assert reach(found, 3) == [10, 30, 30]


def test_the_page_needs_nothing_else(plan: Plan) -> None:
    page = html(plan)
    assert page.startswith("<!doctype html>")
    for outside in ("src=", "href=", "@import", "url(http", "<link", "fetch("):
        assert outside not in page
    assert page.count("http") == page.count('xmlns="http://www.w3.org/2000/svg"')
    assert "Portfolio" in page
    assert "max load" in page
    assert page.count("<tr") == 1 + min(20, len(plan.planned))


def test_text_is_escaped(lazy: Any) -> None:
    scope: dict[str, Any] = {}
    source = "def build(x):\n    return (x @ x) @ x\n"
    exec(compile(source, "<script>&.py", "exec"), scope)
    x = lazy.input("x", (8, 8), "float32")
    page = html(lazy.compile(inputs=[x], outputs=[scope["build"](x)]).plan)
    assert page.count("<script>") == 1  # the page's own
    assert "&lt;script&gt;&amp;.py:2" in page


@pytest.mark.parametrize("rows", [(), ((0, 0, 1, 0),), ((1, 0, 1, 0),), ((1 << 50, 0, 100_000, 0),)])
def test_edges(rows: Any) -> None:
    ElementTree.fromstring(svg(arena(*rows)))
    assert html(arena(*rows)).endswith("</html>")


def test_many_buffers_are_not_all_drawn() -> None:
    picture = svg(arena(*((1 + i % 7, i, i + 1, 0) for i in range(20_100))))
    assert picture.count("data-buffer") == 20_000
    assert "the 20000 largest of 20100 buffers" in picture


def test_a_plan_draws_itself(plan: Plan) -> None:
    assert plan.to_svg() == svg(plan) == plan._repr_html_()
    assert plan.to_html() == html(plan)


def test_fragmentation_ends_where_the_arena_is_empty() -> None:
    path = _outline([None, 50.0, 50.0, 0.0, None, None, 100.0], 0.0, 100.0, 100.0)
    x = [f"{LEFT + t * WIDTH / 7:.1f}" for t in range(8)]
    assert path == (
        f"M{x[1]} 100.0V50.0H{x[3]}V100.0H{x[4]}V100.0ZM{x[6]} 100.0V0.0H{x[7]}V100.0Z"
    )  # two shapes, and nothing between them
    assert _outline([], 0.0, 100.0, 100.0) == ""


def test_the_legend_names_all_operators_in_as_many_lines_as_it_takes() -> None:
    names = [f"operator_number_{n}" for n in range(40)]
    colours = coloured((name, 1) for name in names)
    assert len(colours) == len(set(colours.values())) == 40
    parts, more = _legend(colours)
    told = "".join(parts)
    assert all(f">{name}<" in told for name in names)
    assert more > 0
    assert max(float(x) for x in re.findall(r'<text x="([0-9.]+)"', told)) < LEFT + WIDTH
    stack = nnc.lazy(nnc.Null())
    plan = stack.engine.compile(models.get("transformer-encoder").reduced().make(stack, 2, True, seed=None)).plan
    picture = plan.to_svg()
    wrote = {t.operator for t in tenants(plan) if t.operator}
    assert len(wrote) > 10
    assert all(f">{name}</text>" in picture for name in wrote)


def test_ratios_of_the_page_are_to_what_pins_leave_possible() -> None:
    problem = Problem([64, 64], [0, 1], [1, 2], pins=[192, -1])
    page = comparison_page("pinned", [Answer(problem, [192, 0], 256, "one")])
    assert '"bound": 256' in page
    assert ">1.0000<" in page
