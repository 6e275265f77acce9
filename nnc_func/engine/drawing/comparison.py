"""A page of several answers to one question: a slider over allocators and orders, and the difference of two plans.

It needs nothing but itself: the buffers and the offsets are in it as JSON, and a script draws them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from attrs import field, frozen

from nnc_func.engine.allocators.base import arena_size, lower_bound
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.engine.allocators.problems.reductions import by_space
from nnc_func.engine.drawing.memory import coloured
from nnc_func.graph.pictures.svg import element, escaped, hue, page, sized

MOST = 20_000  # rectangles; of more buffers, those of the largest area are drawn


@frozen
class Answer:
    """One plan on the page.

    Attributes
    ----------
    problem
        What it answers.
    offsets
        One a buffer, in bytes.
    arena
        Bytes.
    label
        What to call it: its order and its allocator.
    seconds
        How long it took to find.
    kinds, description
        What kind each buffer is, for its colour, and what to say of it; empty: nothing is known.
    """

    problem: Problem
    offsets: Sequence[int] = field(repr=False)
    arena: int
    label: str
    seconds: float = 0.0
    kinds: Sequence[str] = field(default=(), repr=False)
    description: Sequence[str] = field(default=(), repr=False)


def comparison_page(title: str, answers: Sequence[Answer]) -> str:
    """The page.

    Parameters
    ----------
    title
        What was planned.
    answers
        In the order of the slider; the first is shown.

    Examples
    --------
    >>> problem = Problem([64, 64, 64], [0, 1, 2], [2, 3, 4])
    >>> shown = [Answer(problem, [0, 64, 0], 128, "best fit"), Answer(problem, [0, 64, 128], 192, "no reuse")]
    >>> comparison_page("three", shown).count("best fit")
    3
    """
    problems: list[Problem] = []
    described: list[dict[str, Any]] = []
    rows = []
    for answer in answers:
        if not any(answer.problem is p for p in problems):
            problems.append(answer.problem)
            described.append(_described(answer))
        at = next(i for i, p in enumerate(problems) if answer.problem is p)
        kept = described[at]["kept"]
        bases = _bases(answer)
        rows.append(
            {
                "problem": at,
                "label": answer.label,
                "arena": answer.arena,
                "seconds": answer.seconds,
                "offset": [int(answer.offsets[i]) + low + bases[i] for i, low in kept],
            }
        )
    data = {"problems": [{k: v for k, v in d.items() if k != "kept"} for d in described], "answers": rows}
    body = (
        element("p", escaped(_summary(answers))),
        _CONTROLS,
        element("p", "", id="says"),
        '<canvas id="map" width="1000" height="440"></canvas>',
        '<p id="legend" class="legend"></p>',
        '<canvas id="load" width="1000" height="130"></canvas>',
        '<div id="other"><p id="differs"></p><canvas id="second" width="1000" height="440"></canvas>'
        '<p id="others" class="legend"></p></div>',
        '<pre id="tip"></pre>',
        element("h2", "All of them"),
        _table(answers),
        element("script", json.dumps(data).replace("</", "<\\/"), type="application/json", id="data"),
        element("script", _SCRIPT),
    )
    return page(title, *body, style=_STYLE)


def _summary(answers: Sequence[Answer]) -> str:
    best = min(answers, key=lambda a: a.arena)
    count = len({id(a.problem) for a in answers})
    plans = f"{len(answers)} plans" + (f", {count} orders" if count > 1 else "") if len(answers) > 1 else "one plan"
    return (
        f"{plans}, of {len(best.problem)} buffers; the smallest arena is that of {best.label}, "
        f"{sized(best.arena)}, where {sized(best.problem.max_load)} are alive at most."
    )


def _bases(answer: Answer) -> list[int]:
    """Where the space of each buffer begins in the picture, in bytes: one above the other."""
    problem = answer.problem
    if problem.spaces is None:
        return [0] * len(problem)
    found, base = np.zeros(len(problem), np.int64), 0
    for buffers, part in by_space(problem):
        found[buffers] = base
        base += arena_size(part, np.asarray(answer.offsets, np.int64)[buffers])
    return found.tolist()


def _described(answer: Answer) -> dict[str, Any]:
    """A problem as the page has it, a rectangle a piece that is alive; of many the largest."""
    problem = answer.problem
    columns = attrs.astuple(problem.pieces)
    pieces = [p for p in zip(*(c.tolist() for c in columns), strict=True) if p[3] < p[4]]
    areas = [(high - low) * (upper - lower) for _, lower, upper, low, high in pieces]
    kept = sorted(sorted(range(len(pieces)), key=lambda n: (-areas[n], n))[:MOST])
    shown = [pieces[n] for n in kept]
    kinds = [answer.kinds[p[0]] if answer.kinds else "" for p in shown]
    colours = coloured(zip(kinds, [areas[n] for n in kept], strict=True))
    steps = np.unique(np.concatenate((problem.lower, problem.upper)))
    return {
        "kept": [(p[0], p[3]) for p in shown],
        "left_out": len(pieces) - len(kept),
        "bound": lower_bound(problem),
        "size": [high - low for *_, low, high in shown],
        "lower": [p[1] for p in shown],
        "upper": [p[2] for p in shown],
        "name": [problem.name(p[0]) for p in shown],
        "description": [answer.description[p[0]] if answer.description else "" for p in shown],
        "colour": [colours[k] if k else hue(p[0], 0.74, 0.6) for k, p in zip(kinds, shown, strict=True)],
        "first": int(steps[0]) if len(steps) else 0,
        "last": int(steps[-1]) if len(steps) else 1,
        "legend": list(colours.items()),
    }


def _ratio(answer: Answer) -> str:
    bound = lower_bound(answer.problem)
    return f"{answer.arena / bound:.4f}" if bound else "1"


def _table(answers: Sequence[Answer]) -> str:
    titles = ("plan", "arena", "of the lower bound", "buffers", "ms")
    rows = [
        element(
            "tr",
            element("td", escaped(a.label)),
            *(
                element("td", escaped(cell), class_="number")
                for cell in (
                    sized(a.arena),
                    _ratio(a),
                    len(a.problem),
                    f"{1e3 * a.seconds:.1f}",
                )
            ),
            data_answer=i,
        )
        for i, a in enumerate(answers)
    ]
    head = element("tr", *(element("th", t, **({"class_": "number"} if n else {})) for n, t in enumerate(titles)))
    return element("table", element("thead", head), element("tbody", *rows))


_CONTROLS = """
<nav><button id="back" type="button">←</button><input id="slide" type="range" min="0" value="0">
<button id="next" type="button">→</button>
<label>compare with <select id="against"><option value="-1">nothing</option></select></label></nav>
"""

_STYLE = """
nav { display: flex; gap: .6em; align-items: center; } nav input { flex: 1; } #says { font-weight: 600; }
canvas { display: block; max-width: 100%; } #other { display: none; margin-top: 1em; }
.legend { margin: 0 0 .5em 84px; font-size: 11px; color: #656d76; } .legend span { margin-right: 1.1em;
  white-space: nowrap; } .legend i { display: inline-block; width: 10px; height: 10px; margin-right: 4px; }
#tip { position: fixed; display: none; pointer-events: none; background: #1f2328; color: #fff; padding: 6px 9px;
  border-radius: 4px; max-width: 620px; white-space: pre-wrap; margin: 0; z-index: 2; }
table { border-collapse: collapse; font-size: 12px; } td, th { padding: 3px 10px; text-align: left; }
tr { border-bottom: 1px solid #d0d7de; } td.number, th.number { text-align: right; }
tbody tr { cursor: pointer; } tr.shown { background: #fff1c2; }
"""

_SCRIPT = """
const {problems, answers} = JSON.parse(document.getElementById('data').textContent);
const by = id => document.getElementById(id), slide = by('slide'), against = by('against'), tip = by('tip');
const LEFT = 84, RIGHT = 8, TOP = 26, BOTTOM = 22;
slide.max = answers.length - 1;
answers.forEach((a, i) => against.add(new Option(a.label, i)));
const bytes = n => { for (const u of ['B', 'KiB', 'MiB', 'GiB', 'TiB']) { if (n < 1024 || u === 'TiB')
  return (n < 10 && n % 1 ? n.toFixed(2) : n < 100 && n % 1 ? n.toFixed(1) : Math.round(n)) + ' ' + u; n /= 1024; } };

function round(span, count, binary) {
  let step = 1, n = 0;
  while (span / step > count) step *= binary || n++ % 3 !== 1 ? 2 : 2.5;
  return step;
}

function frame(canvas, problem, top, ticks) {
  const g = canvas.getContext('2d'), w = canvas.width - LEFT - RIGHT, h = canvas.height - TOP - BOTTOM;
  g.clearRect(0, 0, canvas.width, canvas.height);
  g.font = '10px system-ui, sans-serif'; g.fillStyle = '#656d76'; g.strokeStyle = '#d8dee4'; g.lineWidth = 1;
  for (let v = 0, step = round(top, ticks, true); v <= top; v += step) {
    const y = TOP + h - h * v / Math.max(top, 1);
    g.beginPath(); g.moveTo(LEFT, y); g.lineTo(LEFT + w, y); g.stroke();
    g.textAlign = 'right'; g.fillText(bytes(v), LEFT - 6, y + 3);
  }
  g.strokeStyle = '#8c959f'; g.strokeRect(LEFT, TOP, w, h);
  const span = Math.max(problem.last - problem.first, 1);
  const step = round(span, 10, false);
  for (let t = Math.ceil(problem.first / step) * step; t <= problem.last; t += step) {
    g.textAlign = t > problem.last - step / 3 ? 'right' : 'center';
    g.fillText(t, LEFT + w * (t - problem.first) / span, TOP + h + 14);
  }
  return {g, w, h, x: t => LEFT + w * (t - problem.first) / span, y: b => TOP + h - h * b / Math.max(top, 1)};
}

function legend(at, problem) {
  at.replaceChildren(...problem.legend.map(([kind, colour]) => {
    const one = document.createElement('span'), box = document.createElement('i');
    box.style.background = colour; one.append(box, kind); return one;
  }));
}

function boxes(canvas, answer, top, marked) {
  const p = problems[answer.problem], f = frame(canvas, p, top, 4), {g} = f;
  const all = p.size.map((size, i) => ({i, x: f.x(p.lower[i]), y: f.y(answer.offset[i] + size),
    w: Math.max(f.x(p.upper[i]) - f.x(p.lower[i]), .4), h: Math.max(f.y(0) - f.y(size), .4)}));
  for (const r of all) {
    g.fillStyle = p.colour[r.i]; g.fillRect(r.x, r.y, r.w, r.h);
    if (Math.min(r.w, r.h) > 3) { g.strokeStyle = '#57606a'; g.lineWidth = .5; g.strokeRect(r.x, r.y, r.w, r.h); }
  }
  g.strokeStyle = '#cf222e'; g.lineWidth = 1.5;
  for (const r of all) if (marked && marked.has(r.i)) g.strokeRect(r.x, r.y, r.w, r.h);
  const y = f.y(p.bound); g.setLineDash([4, 3]); g.strokeStyle = '#0b5cad';
  g.beginPath(); g.moveTo(LEFT, y); g.lineTo(LEFT + f.w, y); g.stroke(); g.setLineDash([]);
  canvas.onmousemove = e => {
    const s = canvas.width / canvas.clientWidth, box = canvas.getBoundingClientRect();
    const mx = (e.clientX - box.left) * s, my = (e.clientY - box.top) * s;
    const r = all.find(r => mx >= r.x && mx <= r.x + r.w && my >= r.y && my <= r.y + r.h);
    tip.style.display = r ? 'block' : 'none'; if (!r) return;
    tip.textContent = `buffer ${p.name[r.i]}: ${bytes(p.size[r.i])} at offset ${answer.offset[r.i]}, ` +
      `alive in [${p.lower[r.i]}, ${p.upper[r.i]})` + (p.description[r.i] ? '\\n' + p.description[r.i] : '');
    tip.style.left = Math.min(e.clientX + 12, innerWidth - 640) + 'px'; tip.style.top = e.clientY + 14 + 'px';
  };
  canvas.onmouseleave = () => { tip.style.display = 'none'; };
}

function curves(canvas, answer) {
  const p = problems[answer.problem], f = frame(canvas, p, answer.arena, 2), {g} = f, change = new Map();
  const times = [...new Set([...p.lower, ...p.upper])].sort((a, b) => a - b), at = new Map(times.map((t, i) => [t, i]));
  const load = new Float64Array(times.length + 1), ends = new Float64Array(times.length);
  p.size.forEach((size, i) => { load[at.get(p.lower[i])] += size; load[at.get(p.upper[i])] -= size; });
  for (let i = 1; i < times.length; i++) load[i] += load[i - 1];
  const order = p.size.map((_, i) => i).sort((a, b) => answer.offset[b] + p.size[b] - answer.offset[a] - p.size[a]);
  let left = times.length; const skip = Int32Array.from({length: times.length + 1}, (_, i) => i);
  const free = i => { while (skip[i] !== i) i = skip[i] = skip[skip[i]]; return i; };
  for (const b of order) { if (!left) break;
    for (let i = free(at.get(p.lower[b])); i < at.get(p.upper[b]); i = free(i)) {
      ends[i] = answer.offset[b] + p.size[b]; skip[i] = i + 1; left--; } }
  const area = (values, fill) => { g.beginPath(); g.moveTo(f.x(times[0]), f.y(0));
    times.forEach((t, i) => { g.lineTo(f.x(t), f.y(i ? values[i - 1] : 0)); g.lineTo(f.x(t), f.y(values[i])); });
    g.lineTo(f.x(times.at(-1)), f.y(0)); g.fillStyle = fill; g.fill(); };
  if (times.length) { area(ends, '#ffd8b5'); area(load, '#9ec5f8'); }
  g.fillStyle = '#656d76'; g.textAlign = 'left';
  g.fillText('bytes alive (blue), and what is lost below the highest buffer alive (orange)', LEFT, 14);
}

function show(i) {
  i = Math.max(0, Math.min(answers.length - 1, i)); slide.value = i;
  const a = answers[i], p = problems[a.problem], b = answers[+against.value];
  const top = Math.max(a.arena, b ? b.arena : 0);
  const ratio = (a.arena / Math.max(p.bound, 1)).toFixed(4), left = p.left_out && `; ${p.left_out} are not drawn`;
  by('says').textContent = `${a.label}: ${bytes(a.arena)}, ${ratio} of the lower bound, ` +
    `found in ${(1e3 * a.seconds).toFixed(1)} ms` + (left || '');
  const moved = new Set();
  if (b && b.problem === a.problem) a.offset.forEach((o, k) => { if (o !== b.offset[k]) moved.add(k); });
  legend(by('legend'), p); boxes(by('map'), a, top, moved); curves(by('load'), a);
  by('other').style.display = b ? 'block' : 'none';
  if (b) {
    by('differs').textContent = `${b.label}: ${bytes(b.arena)}; ` + (b.problem === a.problem
      ? `${moved.size} of ${a.offset.length} buffers lie elsewhere` : 'another order: other lifetimes')
      + (b.arena === a.arena ? '' : `, ${bytes(Math.abs(b.arena - a.arena))} ${b.arena < a.arena ? 'less' : 'more'}`);
    legend(by('others'), problems[b.problem]); boxes(by('second'), b, top, moved);
  }
  document.querySelectorAll('[data-answer]').forEach(row => row.classList.toggle('shown', +row.dataset.answer === i));
}
slide.oninput = () => show(+slide.value); against.onchange = () => show(+slide.value);
by('back').onclick = () => show(+slide.value - 1); by('next').onclick = () => show(+slide.value + 1);
document.querySelectorAll('[data-answer]').forEach(row => { row.onclick = () => show(+row.dataset.answer); });
show(0);
"""
