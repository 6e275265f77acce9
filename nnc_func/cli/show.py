"""A model's graph: as text, or written as a picture, a page, or in Graphviz's language."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

import nnc_func as nnc
from nnc_func.cli import subjects
from nnc_func.cli.answers import Answer, with_files

KINDS = ("svg", "html", "dot")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which graph, and in which form."""
    subjects.arguments(parser)
    parser.add_argument("--optimised", action="store_true", help="after rewriting, instead of as it is built")
    for kind in KINDS:
        parser.add_argument(f"--{kind}", metavar="FILE", help=f"write it as {kind}; - is standard output")


def answer(given: argparse.Namespace) -> Answer:
    """The graph, in the form that is asked for."""
    stack = nnc.lazy(nnc.Null())
    graph: Any = subjects.subject(given, stack).graph
    if given.optimised:
        graph, _ = stack.graph.optimised(graph)
    asked = {kind: getattr(given, kind) for kind in KINDS if getattr(given, kind) is not None}
    text = str(graph)
    operators = Counter(node.op.name for node in graph.nodes)
    data = {
        "name": graph.name,
        **graph.statistics,
        "inputs": {node.data: repr(node.aval) for node in graph.inputs},
        "outputs": [repr(value.aval) for value in graph.outputs],
        "operators": dict(operators.most_common()),
        "text": text,
    }
    answered = Answer(data, "" if asked else text)  # a file is instead of it
    return with_files(answered, {kind: (path, getattr(graph, f"to_{kind}")()) for kind, path in asked.items()})
