"""The page of what is alive tells each value, what it costs, and what keeps it (`engine/dynamic/live_page`)."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.engine.dynamic.live import Live
from nnc_func.engine.dynamic.live_page import KINDS, MOST, Row, freed_without, rows_of
from tests.engine.dynamic_stacks import fresh
from tests.profiles import examples


class Page(HTMLParser):
    """The text of each cell, by table and row, and of paragraphs; tags are to be closed in the order of opening."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.paragraphs: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        """Note a tag."""
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "p":
            self.paragraphs.append("")

    def handle_startendtag(self, tag: str, attributes: Any) -> None:
        """HTML knows no elements that close themselves but those that are empty anyway."""
        raise AssertionError(f"<{tag}/>")

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text of a cell or a paragraph."""
        if "td" in self.open or "th" in self.open:
            self.tables[-1][-1][-1] += data
        elif "p" in self.open:
            self.paragraphs[-1] += data


def rows(stack: nnc.Stack) -> list[Row]:
    """Of all that is alive."""
    return rows_of(stack.engine.recording)


def test_each_value_is_told_with_what_it_costs_and_what_keeps_it() -> None:
    stack = fresh()
    ops, w, c = stack.ops, stack.variable("weights", np.ones((4, 3))), stack.asarray(np.ones((2, 4)))
    hidden = ops.tanh(c @ w)
    loss = (hidden * hidden).sum()
    page = Page(stack.live._repr_html_())
    values, by_operator = page.tables
    cells = {row[0].split(" ", 1)[-1]: row[1:] for row in values[1:]}
    assert [*cells] == ["weights", "matmul", "tanh", "multiply", "sum", "constant"]
    assert cells["weights"][2:4] == ["96 B", "variable 'weights' has it; without it 112 B less is kept"]
    assert cells["matmul"][0].startswith("test_dynamic_live_page.py:")
    assert cells["matmul"][1:4] == ["float64[2, 3]", "48 B", "for gradients"]
    assert [name.split(" ")[-1] for name in cells["matmul"][4].split(", ")] == ["tanh", "sum"]
    assert cells["matmul"][5].endswith("weights")
    assert cells["multiply"][4].endswith("sum")
    assert cells["tanh"][3] == "a tensor holds it"
    assert cells["constant"][2] == "64 B"
    assert "an operand of #" in cells["constant"][3]
    assert by_operator[0] == ["made by", "values", "held", "bytes", "kept for gradients"]
    assert ["variable", "1", "1", "96 B", "0 B"] in by_operator
    assert "5 values, 4 applications" in page.paragraphs[0]
    del loss, hidden
    assert Page(stack.live._repr_html_()).tables[0][1][4] == "variable 'weights' has it"


def test_results_of_gradients_and_of_several_results_have_their_names() -> None:
    stack = fresh()
    x = +stack.variable("x", np.random.default_rng(0).normal(size=(3, 3)))
    q, r = stack.ops.qr(x)
    del q
    names = [row.name.split(" ", 1)[1] for row in rows(stack)]
    assert "qr[1]" in names
    assert any(name.startswith("0 of #") for name in names)  # Q, which no tensor holds
    slope = stack.gradients([(r * r).sum()], [x])[0]
    assert "gradients[0]" in [row.name.split(" ", 1)[1] for row in rows(stack) if not row.readers]
    assert slope.shape == (3, 3)


def test_rows_are_what_the_figures_count() -> None:
    stack = fresh()
    x = +stack.variable("x", np.ones(100))
    parts = stack.ops.split(x * 1, sections=(20, 80), axis=0)
    y = parts[0] * stack.asarray(np.ones(20)) + 1.0
    live, found = stack.live, rows(stack)
    saved = {id(row.array): row.nbytes for row in found if not row.held}
    assert (len(saved), sum(saved.values())) == (live.saved, live.bytes)
    assert sum(not row.readers and row.result is None for row in found) == live.symbols
    assert (y.shape, x.shape) == ((20,), (100,))


@examples(few=50, nightly=3000)
@given(st.data())
def test_what_is_said_to_be_freed_is_freed(data: st.DataObject) -> None:
    stack, tensors = fresh(), list[Any]()
    tensors = [+stack.variable(name, 0.5) for name in "ab"]
    for _ in range(data.draw(st.integers(1, 20))):
        x, y = (data.draw(st.integers(0, len(tensors) - 1)) for _ in range(2))
        kind = data.draw(st.sampled_from(["unary", "binary", "constant", "drop"]))
        if kind == "drop" and len(tensors) > 1:
            del tensors[x]
        elif kind == "unary":
            tensors.append(stack.ops.sin(tensors[x]))
        elif kind == "constant":
            tensors.append(tensors[x] * stack.asarray(np.ones(3)))
        else:
            tensors.append(tensors[x] * tensors[y])
    found = rows(stack)
    chosen = data.draw(st.integers(0, len(tensors) - 1))
    record = tensors[chosen].value.record
    own = next(row.nbytes for row in found if row.record is record and row.held)
    promised, before = freed_without(found).get(record, 0), stack.live.bytes
    del tensors[chosen], found, record
    assert before - stack.live.bytes in (promised, promised - own)  # it may be needed as what lies between


def test_many_values_make_no_long_page() -> None:
    stack = fresh()
    x = y = +stack.variable("x", np.ones(3))
    for n in range(10_000):
        y = stack.ops.sin(y) if n % 2 else y * float(n)
    html = stack.live.to_html()
    assert len(html) < 100_000
    page = Page(html)
    assert len(page.tables[0]) == MOST + 1
    assert len(page.tables[1]) <= KINDS + 2
    assert ["sin", "5,000", "1", "117 KiB", "117 KiB"] in page.tables[1]
    assert x.shape == (3,)


def test_what_a_user_wrote_is_text() -> None:
    stack = fresh()
    x = stack.variable("<script>alert(1)</script>", np.ones(3))
    y = x * 2
    page = Page(stack.live.to_html())
    assert "script" not in page.tags
    assert "<script>alert(1)</scrip…" in page.tables[0][1][0]
    assert y.shape == (3,)


def test_the_page_stands_alone_and_takes_its_colours_from_around_it() -> None:
    stack = fresh()
    y = stack.variable("x", np.ones(3)) * 2
    fragment, whole = stack.live._repr_html_(), stack.live.to_html()
    assert whole.startswith("<!doctype html>")
    assert "prefers-color-scheme: dark" in whole
    for text in (fragment, whole):
        assert "http" not in text
        assert not {"script", "link", "img"}.intersection(Page(text).tags)
    style = fragment.partition("</style>")[0]
    assert "color: inherit" in style
    assert "#fff" not in style
    assert y.shape == (3,)


def test_figures_that_have_passed_say_so() -> None:
    stack = fresh()
    x = +stack.variable("x", np.ones(3))
    before = stack.live
    y = x * 2
    page = Page(before._repr_html_())
    assert page.paragraphs[0].startswith("1 values, 0 applications")
    assert "Now there are 2 values, 1 applications" in page.paragraphs[1]
    assert y.shape == (3,)
    assert Page(Live(1, 0, 0, 0)._repr_html_()).tables == []
    assert before == Live(1, 0, 0, 0)
    assert repr(before) == "Live(symbols=1, nodes=0, saved=0, bytes=0, evicted=0)"
    del x, y
    assert Page(stack.live._repr_html_()).paragraphs[-1] == "Nothing is recorded."


@pytest.mark.parametrize("memoise", [None, "1 MiB"])
def test_what_is_memoised_is_told_apart(memoise: Any) -> None:
    stack = fresh(memoise=memoise)
    x = stack.variable("x", np.ones(3))
    y, z = stack.ops.sin(x), stack.ops.sin(x)
    paragraphs = Page(stack.live._repr_html_()).paragraphs
    assert any("1 hits, 1 misses" in each for each in paragraphs) is (memoise is not None)
    assert (y.shape, z.shape) == ((3,), (3,))
