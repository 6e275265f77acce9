"""The page of a history: every rewrite drawn before and after, stepped by buttons or arrow keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from nnc_func.errors import NncError
from nnc_func.graph.fragments import names_of, near, sides
from nnc_func.graph.leaves import INPUT
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.origin import describe
from nnc_func.graph.pictures.svg import clipped, element, escaped, page
from nnc_func.graph.rewriting.report import table
from nnc_func.graph.rewriting.termination import said
from nnc_func.graph.rewriting.watching import Merge
from nnc_func.tree import ONE_LEAF

MOST = 400  # rewrites that have a picture
WHOLE = 40  # nodes of a graph that is drawn whole after each rewrite


def page_of(history: Any) -> str:
    """The page.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,), "float32")
    >>> program = lazy.compile(inputs=[x], outputs=[x * 1])
    >>> "drop_unit" in page_of(program.graph.history)
    True
    """
    docs = {rule.name: rule.doc for rule in history.source.layer.optimiser.rules}
    is_small = len(history.source.nodes) <= WHOLE
    steps = [_section(history, i, docs, is_small) for i in range(min(len(history), MOST))]
    left_out = f"; the first {MOST} are shown" if len(history) > MOST else ""
    counts = f"{len(history.source.nodes):,} nodes at first, {len(history):,} rewrites{left_out}."
    merged = element("h2", "One node, asked for more than once") + _merges(history) if history.merges else ""
    figures = element("h2", "Rules") + element("pre", escaped("\n".join(table(history.statistics))))
    body = (element("p", counts), _controls(len(steps)), *steps, merged, figures, element("script", _SCRIPT))
    return page(f"History of {history.source.name}", *body, style=_STYLE)


def _controls(count: int) -> str:
    slide = element("input", type="range", min=1, max=max(count, 1), value=1, id="slide")
    back = element("button", "← back", id="back", type="button")
    return element("nav", back, slide, element("button", "next →", id="next", type="button"), '<span id="at"></span>')


def _section(history: Any, i: int, docs: Any, is_small: bool) -> str:
    step = history[i]
    where = describe(step.where, 2)
    head = element("h2", f"{i + 1}  {escaped(step.rule)} ", element("small", f"phase {escaped(step.phase)}"))
    parts = [head, element("p", escaped(docs.get(step.rule, "")))]
    if where:
        parts.append(element("p", "built at ", element("code", escaped(where)), class_="where"))
    parts.append(_sides(history, step) if len(step.before) == 1 else _pass(step))
    if is_small:
        whole = element("summary", "the whole graph after it") + element("figure", history.at(i + 1).to_svg())
        parts.append(element("details", whole))
    return element("section", *parts, class_="step", id=f"step-{i + 1}")


def _sides(history: Any, step: Any) -> str:
    (before,), (after,) = step.before, step.after
    names = names_of([before, after])
    columns = [
        element(
            "div", element("h3", what), element("pre", escaped(clipped(text, 400))),
            element("figure", _picture(history, side, names, what)),
        )
        for what, text, side in zip(("before", "after"), sides(before, after), (before, after), strict=True)
    ]  # fmt: skip
    return element("div", *columns, class_="sides")


def _picture(history: Any, value: Any, names: Any, what: str) -> str:
    try:
        return str(fragment(history.source, value, names, what).to_svg())
    except NncError:  # what is known of its operands does not suffice to build it apart
        return escaped(said(value))


def _pass(step: Any) -> str:
    """What a pass changed, told by how many of each operator there are."""
    was, now = (Counter(n.op.name for n in topological(roots)) for roots in (step.before, step.after))
    changed = [(name, was[name], now[name]) for name in sorted({*was, *now}) if was[name] != now[name]]
    rows = [element("tr", *(element("td", escaped(cell)) for cell in row)) for row in changed]
    head = element("tr", *(element("th", words) for words in ("operator", "before", "after")))
    return element("table", head, *rows)


def _merges(history: Any) -> str:
    rows = []
    for merge in history.merges[:MOST]:
        when = "as it was built" if not merge.at else f"after rewrite {merge.at}"
        lines = "".join(element("li", element("code", escaped(line))) for line in lines_of(merge))
        rows.append(element("li", element("code", escaped(clipped(said(merge.value), 120))), f", {when}:",
                            element("ul", lines)))  # fmt: skip
    return element("ul", *rows)


def lines_of(merge: Merge) -> list[str]:
    """The user lines of what became one node.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (2,), "float32")
    >>> lines_of(Merge(0, x.value, (("model.py:1", "f"), ("model.py:2", "f"))))
    ['model.py:1 in f', 'model.py:2 in f']
    """
    return list(dict.fromkeys(filter(None, map(describe, merge.origins))))


# --- a part of a graph as a graph ------------------------------------------------------------------------


def fragment(source: Any, value: Value, names: Mapping[Node, str], name: str) -> Any:
    """The graph of a value down to what is named, and to `NEAR` applications, of whose operands inputs are made.

    It is of the stack of the graph `source`.
    """
    cut, layer = dict(names), source.layer
    below = {a.node for n in near(value.node) for a in n.args if n not in cut} - near(value.node)
    cut.update((n, f"… {i}") for i, n in enumerate(n for n in below if n.args and n not in cut))
    done: dict[Node, Any] = {n: layer.symbol.input(letter, n.aval) for n, letter in cut.items() if n.avals}
    for node in topological([value], cut):
        args = tuple([_result(done, cut, a) for a in node.args])
        made = layer.symbol.apply(node.op, args, node.items, node.origin) if args else node
        done[node] = made[0].node if type(made) is tuple else made
    root = _result(done, cut, value)
    inputs = tuple(n for n in topological([root]) if n.op is INPUT)
    return evolve(
        source, inputs=inputs, outputs=(root,), updates=(), name=name, structure=ONE_LEAF, effects=(), source=None
    )


def _result(done: Mapping[Node, Any], cut: Mapping[Node, str], value: Value) -> Any:
    found = done[value.node]
    return found.result(value.index) if value.node.op.multi_result and value.node not in cut else found


_STYLE = """
nav { position: sticky; top: 0; background: #fff; padding: .6em 0; border-bottom: 1px solid #d0d7de; display: flex;
  gap: .6em; align-items: center; } nav input { flex: 1; } h2 small { color: #656d76; font-weight: normal; }
.step { display: none; } .step.shown { display: block; }
.sides { display: grid; grid-template-columns: 1fr 1fr; gap: 1em; } .sides > div { min-width: 0; }
.sides pre { white-space: pre-wrap; background: #f6f8fa; padding: .6em; }
.sides svg, details svg { max-width: 100%; height: auto; }
.where { color: #656d76; } td, th { text-align: left; padding: 0 1em 0 0; }
"""
_SCRIPT = """
const steps = [...document.querySelectorAll('.step')], slide = document.getElementById('slide');
function show(i) {
  i = Math.max(1, Math.min(steps.length, i));
  steps.forEach((s, k) => s.classList.toggle('shown', k === i - 1));
  slide.value = i; document.getElementById('at').textContent = steps.length ? i + ' of ' + steps.length : 'none';
  history.replaceState(null, '', '#' + i);
}
slide.oninput = () => show(+slide.value);
document.getElementById('back').onclick = () => show(+slide.value - 1);
document.getElementById('next').onclick = () => show(+slide.value + 1);
document.onkeydown = e => { if (e.key === 'ArrowLeft') show(+slide.value - 1);
  if (e.key === 'ArrowRight') show(+slide.value + 1); };
show(+location.hash.slice(1) || 1);
"""
