"""A model's memory plan: its arena, the max load that no plan is smaller than, and the largest buffers."""

from __future__ import annotations

import argparse
from typing import Any

import nnc_func as nnc
from nnc_func.cli import subjects
from nnc_func.cli.answers import Answer, facts, table, with_files
from nnc_func.engine.allocators import ALLOCATORS
from nnc_func.engine.drawing.memory import tenants
from nnc_func.engine.planning.order import ORDERS

KINDS = ("html", "svg", "csv")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which plan, and in which form."""
    subjects.arguments(parser)
    parser.add_argument("--allocator", choices=sorted(ALLOCATORS), help="how offsets are found")
    parser.add_argument("--order", choices=sorted(ORDERS), help="the order of instructions; the best unless given")
    parser.add_argument("--top", type=subjects.positive, default=10, metavar="N", help="buffers listed (default 10)")
    for kind in KINDS:
        parser.add_argument(f"--{kind}", metavar="FILE", help=f"write it as {kind}; - is standard output")


def answer(given: argparse.Namespace) -> Answer:
    """The plan in numbers, made on the device `Null`: nothing is computed."""
    stack = _stack(given)
    found = subjects.closed(subjects.subject(given, stack))
    plan: Any = found.program().plan
    data: dict[str, Any] = {
        "name": found.name,
        "arena_bytes": plan.arena_bytes,
        "max_load_bytes": plan.max_load,
        "ratio": plan.ratio,
        "bytes_without_sharing": plan.unshared_bytes,
        "buffers": len(plan.planned),
        "kernels": plan.kernels,
        "instructions": len(plan.instructions),
    }
    top = sorted(tenants(plan), key=lambda t: -t.buffer.nbytes)[: given.top]
    rows = [
        (t.number, t.buffer.nbytes, t.buffer.offset, t.buffer.lower, t.buffer.upper, t.operator, t.is_scratch)
        for t in top
    ]
    titles = ("buffer", "bytes", "offset", "from", "until", "written_by", "is_scratch")
    shown = [(*row[:-2], f"{row[-2]} (scratch)" if row[-1] else row[-2]) for row in rows]
    text = facts(data) + "\n\n" + table(shown, [t.replace("_", " ") for t in titles[:-1]])
    answered = Answer(data | {"largest": [dict(zip(titles, row, strict=True)) for row in rows]}, text)
    asked = {kind: getattr(given, kind) for kind in KINDS if getattr(given, kind) is not None}
    return with_files(answered, {kind: (path, getattr(plan, f"to_{kind}")()) for kind, path in asked.items()})


def _stack(given: argparse.Namespace) -> Any:
    stack = nnc.lazy(nnc.Null())
    engine: Any = stack.engine
    if given.allocator:
        engine = engine.with_allocator(ALLOCATORS[given.allocator])
    if given.order:
        engine = engine.with_orders(given.order)
    return stack.swap(engine=engine)
