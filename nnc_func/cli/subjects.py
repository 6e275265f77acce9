"""The models that commands are about: networks of the zoo by name, and ``.onnx`` files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from attrs import frozen

from nnc_func.errors import GraphError, OperatorError


@frozen
class Subject:
    """A model on a stack, as it was asked for.

    Attributes
    ----------
    name
        As it was given.
    stack
        That it lives on.
    graph
        Its closed graph, not optimised.
    examples
        Random inputs for it, as NumPy arrays, where the zoo has some.
    """

    name: str
    stack: Any
    graph: Any
    examples: tuple[Any, ...] | None = None

    def program(self) -> Any:
        """Its graph, compiled."""
        return self.stack.engine.compile(self.graph)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which model, and how large."""
    parser.add_argument("model", metavar="MODEL", help="a name that `models` lists, or an .onnx file")
    parser.add_argument("--batch", type=positive, default=None, metavar="N", help="examples at once (zoo; default 1)")
    parser.add_argument("--training", action="store_true", help="a training step instead of inference (zoo)")
    parser.add_argument(
        "--dim", type=extent, action="append", default=[], metavar="NAME=N", help="an unknown extent of an .onnx file"
    )


def subject(given: argparse.Namespace, stack: Any, computes: bool = False) -> Subject:
    """The model that the arguments name, on that stack.

    Parameters
    ----------
    computes
        Its weights will be used: they are drawn. Else they are outlines, and cost nothing.

    Raises
    ------
    OperatorError, OnnxError, GraphError
        There is none, it cannot be read, or an option is for models of the other kind.
    """
    if is_file(given.model):
        return _file(given, stack)
    if given.dim:
        raise GraphError(f"--dim is for .onnx files; {given.model} of the zoo takes --batch")
    from nnc_func import models

    try:
        model = models.get(given.model)
    except OperatorError as error:
        raise OperatorError(f"{error}; a file's name ends in .onnx") from None
    batch = given.batch or 1
    graph = model.make(stack, batch, given.training, seed=0 if computes else None)
    return Subject(model.name, stack, graph, model.examples(batch) if computes else None)


def is_file(name: str) -> bool:
    """Whether that names a file rather than a network of the zoo."""
    return name.lower().endswith(".onnx") or "/" in name or "\\" in name


def _file(given: argparse.Namespace, stack: Any) -> Subject:
    if given.training or given.batch:
        option = "--training" if given.training else "--batch"
        raise GraphError(f"{option} is for models of the zoo; {given.model} is a file: its extents are set by --dim")
    from nnc_func.onnx import from_onnx
    from nnc_func.stacks import lazy

    graph = from_onnx(Path(given.model), lazy()).program.source.to(stack)  # what is known of shapes is computed there
    sizes = dict(given.dim)
    unknown = [name for name in sizes if name not in graph.symbols]
    if unknown:
        has = ", ".join(sorted(graph.symbols)) or "none"
        raise GraphError(f"{given.model} has no unknown extent {unknown[0]!r}; it has: {has}")
    return Subject(given.model, stack, graph.specialised(sizes) if sizes else graph)


def closed(found: Subject) -> Subject:
    """The same, if nothing about its shapes is unknown.

    Raises
    ------
    GraphError
        Extents are unknown: says which options give them.
    """
    if found.graph.symbols:
        options = " ".join(f"--dim {name}=N" for name in sorted(found.graph.symbols))
        raise GraphError(f"{found.name} has unknown extents; say {options}")
    return found


# --- kinds of arguments ----------------------------------------------------------------------------------


def positive(text: str) -> int:
    """A number of at least 1."""
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"wanted a number of at least 1, given {text!r}")
    return int(text)


def seed(text: str) -> int:
    """A number of at least 0."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"wanted a number of at least 0, given {text!r}")
    return int(text)


def extent(text: str) -> tuple[str, int]:
    """An unknown extent and its number.

    Examples
    --------
    >>> extent("n=4")
    ('n', 4)
    """
    name, equals, number = text.partition("=")
    if not (name and equals and number.isdigit()):
        raise argparse.ArgumentTypeError(f"wanted NAME=N, such as n=4, given {text!r}")
    return name, int(number)
