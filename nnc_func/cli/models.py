"""The networks of the zoo: nodes, edges, parameters, FLOPs and bytes of each, counted without computing anything."""

from __future__ import annotations

import argparse
from typing import Any

from nnc_func.cli.answers import Answer, facts, table
from nnc_func.cli.subjects import positive

TITLES = ("model", "nodes", "edges", "parameters", "GFLOPs", "max load MB", "arena MB", "kernels")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which ones, and what of them."""
    parser.add_argument("names", nargs="*", metavar="MODEL", help="these only; all unless given")
    parser.add_argument("--batch", type=positive, default=1, metavar="N", help="examples at once (default 1)")
    parser.add_argument("--training", action="store_true", help="training steps instead of inference")


def answer(given: argparse.Namespace) -> Answer:
    """What there is, and what each takes."""
    from nnc_func import models

    known = [models.get(name) for name in given.names or models.names()]
    if not given.names and given.training:
        known = [model for model in known if model.trains]
    found = [(model, models.summary(model, given.batch, given.training).as_dict()) for model in known]
    data = [{"title": model.title, "source": model.source, **counts} for model, counts in found]
    lines = table([_row(counts) for _, counts in found], TITLES)
    if len(found) == 1 and given.names:
        lines += "\n\n" + facts({"title": found[0][0].title, "source": found[0][0].source})
    return Answer(data, lines)


def _row(counts: dict[str, Any]) -> tuple[Any, ...]:
    return (
        counts["name"], counts["nodes"], counts["edges"], counts["parameters"], round(counts["flops"] / 1e9, 3),
        round(counts["max_load_bytes"] / 1e6, 2), round(counts["arena_bytes"] / 1e6, 2), counts["kernels"],
    )  # fmt: skip
