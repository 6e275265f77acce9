"""The models that commands are about: networks of the zoo by name, ``.onnx`` files, saved graphs and programs."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.archives.archive import format_of
from nnc_func.device.cpu import NumPy
from nnc_func.errors import FileFormatError, GraphError, OnnxError, OperatorError
from nnc_func.graph.text.files import load_graph
from nnc_func.loading import load_program
from nnc_func.onnx.scopes import Unresolved
from nnc_func.stacks import lazy


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
    saved
        The program that a file has, with its own plan.
    """

    name: str
    stack: Any
    graph: Any
    examples: tuple[Any, ...] | None = None
    saved: Any = None

    def program(self) -> Any:
        """The saved program, or its graph, compiled."""
        return self.stack.engine.compile(self.graph) if self.saved is None else self.saved

    def plan(self) -> Any:
        """The plan that a saved program has; else one of its graph, made on its stack.

        A program with unknown extents has a plan for each size that it met, and none for others: it is planned anew.
        """
        has_one = self.saved is not None and not hasattr(self.saved, "programs")
        return (self.saved if has_one else self.stack.engine.compile(self.graph)).plan


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which model, and how large."""
    parser.add_argument(
        "model", metavar="MODEL",
        help="a name that `models` lists, an .onnx file, or a file of a graph's or program's own `save`",
    )  # fmt: skip
    options(parser)


def options(parser: argparse.ArgumentParser) -> None:
    """What there is to choose of a model."""
    parser.add_argument("--batch", type=positive, default=None, metavar="N", help="examples at once (zoo; default 1)")
    parser.add_argument("--training", action="store_true", help="a training step instead of inference (zoo)")
    parser.add_argument(
        "--dim", type=extent, action="append", default=[], metavar="NAME=N",
        help="an unknown extent of a file's model; one without a name is INPUT.AXIS, such as x.0",
    )  # fmt: skip
    parser.add_argument(
        "--value", type=elements, action="append", default=[], metavar="INPUT=N[,N…]",
        help="the elements of a small input of an .onnx file, which becomes a constant; where they decide shapes",
    )  # fmt: skip
    parser.add_argument(
        "--allow", action="append", default=[], metavar="OPERATOR",
        help="an operator that a saved graph or program may apply although it does more than compute, such as print",
    )  # fmt: skip


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
    option = next((name for name in ("dim", "value", "allow") if getattr(given, name)), None)
    if option is not None:
        raise GraphError(f"--{option} is for models in files; {given.model} of the zoo takes --batch")
    from nnc_func import models

    try:
        model = models.get(given.model)
    except OperatorError as error:
        raise OperatorError(f"{error}; and there is no file of that name") from None
    batch = given.batch or 1
    graph = model.make(stack, batch, given.training, seed=0 if computes else None)
    return Subject(model.name, stack, graph, model.examples(batch) if computes else None)


def is_file(name: str) -> bool:
    """Whether that names a file rather than a network of the zoo."""
    return name.lower().endswith(".onnx") or "/" in name or "\\" in name or Path(name).is_file()


def _file(given: argparse.Namespace, stack: Any) -> Subject:
    if given.training or given.batch:
        option = "--training" if given.training else "--batch"
        raise GraphError(f"{option} is for models of the zoo; {given.model} is a file: its extents are set by --dim")
    what = format_of(given.model)
    if what is None:
        return _onnx(given, stack)
    if given.value:
        raise GraphError(f"--value is for .onnx files; {given.model} is a {what}")
    try:
        return _saved(given, stack, what)
    except FileFormatError as error:
        raise FileFormatError(f"{error}; here, by --allow" if "allow=" in str(error) else str(error)) from None


def _saved(given: argparse.Namespace, stack: Any, what: str) -> Subject:
    if what not in ("graph", "program"):
        raise GraphError(f"{given.model} is a {what}; wanted a graph, a program, or an .onnx file")
    if what == "graph":
        return Subject(given.model, stack, _specialised(given, load_graph(given.model, stack, allow=given.allow)))
    program = load_program(given.model, stack if stack.device == NumPy() else lazy(), allow=given.allow)
    return Subject(given.model, stack, _specialised(given, program.graph.to(stack)), saved=program)


def _onnx(given: argparse.Namespace, stack: Any) -> Subject:
    from nnc_func.onnx import from_onnx

    if given.allow:
        raise GraphError(f"--allow is for saved graphs and programs; {given.model} is none")
    try:
        model, sizes = from_onnx(Path(given.model), lazy()), dict(given.dim)
    except OnnxError as error:
        if given.model.lower().endswith(".onnx"):
            raise
        raise OnnxError(f"{error}; and it is no graph or program that this library saved, or not all of one") from None
    if given.value or not model.has_program:
        check_extents(given.model, sizes, extents(model))
        graph = _with_elements(model, sizes, dict(given.value)).to(stack)
    else:
        graph = _specialised(given, model.program.source.to(stack))  # what is known of shapes is computed on a device
    return Subject(given.model, stack, graph)


def _specialised(given: argparse.Namespace, graph: Any) -> Any:
    """The graph for the extents that are given."""
    symbols, sizes = {described(graph, symbol): symbol for symbol in graph.symbols}, dict(given.dim)
    check_extents(given.model, sizes, symbols)
    return graph.specialised({symbols[name]: size for name, size in sizes.items()}) if sizes else graph


def check_extents(name: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise where an extent is given that a model does not have.

    Raises
    ------
    GraphError
        Names it, and those that the model has.
    """
    unknown = [each for each in given if each not in known]
    if unknown:
        raise GraphError(f"{name} has no unknown extent {unknown[0]!r}; it has: {', '.join(sorted(known)) or 'none'}")


def _with_elements(model: Any, sizes: dict[str, int], values: dict[str, Any]) -> Any:
    """The graph of a model for those extents and elements; where more must be known, the message says which options."""
    shapes = {}
    for each in model.inputs:
        if each.name not in values and each.shape is not None:
            named = [(f"{each.name}.{axis}" if n is None else n, n) for axis, n in enumerate(each.shape)]
            shapes[each.name] = tuple(sizes.get(name, n) for name, n in named)
    arrays = {name: array(model, name, numbers) for name, numbers in values.items()}
    try:
        return model.specialised(arrays, shapes)
    except OnnxError as error:
        inputs = error.inputs if isinstance(error, Unresolved) else frozenset()
        wanted = [f"--value {name}=N" for name in sorted(inputs - set(values))]
        wanted = wanted or [f"--dim {name}=N" for name in extents(model) if name not in sizes]
        raise GraphError(f"{error}; say {' '.join(wanted)}" if wanted else str(error)) from error


def array(model: Any, name: str, numbers: tuple[float, ...]) -> Any:
    """Numbers as an array for an input of a model.

    Raises
    ------
    GraphError
        There is no such input, or its dtype has no such numbers.
    """
    declared = next((i for i in model.inputs if i.name == name), None)
    if declared is None:
        raise GraphError(f"{model.name!r} has no input {name!r}; it has: {', '.join(i.name for i in model.inputs)}")
    found = np.array(numbers).astype(declared.dtype)
    if not np.array_equal(found, numbers):
        raise GraphError(f"input {name!r} is of {declared.dtype}, given {', '.join(map(str, numbers))}")
    return found.reshape(()) if declared.shape == () and found.size == 1 else found


def extents(model: Any) -> list[str]:
    """What unknown extents of a model's inputs are called here.

    Examples
    --------
    >>> import onnx, nnc_func as nnc
    >>> text = '<ir_version: 8, opset_import: ["": 18]> f (float[?, n, 3] x) => (float[?, n, 3] y) { y = Abs (x) }'
    >>> extents(nnc.from_onnx(onnx.parser.parse_model(text)))
    ['x.0', 'n']
    """
    shapes = [(i.name, i.shape or ()) for i in model.inputs]
    named = [f"{name}.{axis}" if n is None else n for name, shape in shapes for axis, n in enumerate(shape)]
    return list(dict.fromkeys(n for n in named if isinstance(n, str)))


def described(graph: Any, symbol: str) -> str:
    """What an unknown extent of a graph is called here: its name, or the first input and axis that has it."""
    if not symbol.startswith("?"):
        return symbol
    places = ((node.data, axis, n) for node in graph.inputs for axis, n in enumerate(node.aval.shape))
    return next((f"{name}.{axis}" for name, axis, n in places if str(n) == symbol), symbol)


def closed(found: Subject) -> Subject:
    """The same, if nothing about its shapes is unknown.

    Raises
    ------
    GraphError
        Extents are unknown: says which options give them.
    """
    if found.graph.symbols:
        options = " ".join(f"--dim {name}=N" for name in sorted(described(found.graph, s) for s in found.graph.symbols))
        raise GraphError(f"{found.name} has unknown extents; say {options}")
    return found


# --- kinds of arguments ----------------------------------------------------------------------------------


def is_natural(text: str) -> bool:
    """Whether that is a number of 0 or more, in the digits 0 to 9.

    Examples
    --------
    >>> is_natural("12"), is_natural("1_2"), is_natural("²"), is_natural("٣")
    (True, False, False, False)
    """
    return text.isascii() and text.isdigit()


def positive(text: str) -> int:
    """A number of at least 1."""
    if not is_natural(text) or not int(text):
        raise argparse.ArgumentTypeError(f"wanted a number of at least 1, given {text!r}")
    return int(text)


def seed(text: str) -> int:
    """A number of at least 0."""
    if not is_natural(text):
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
    if not (name and equals and is_natural(number)):
        raise argparse.ArgumentTypeError(f"wanted NAME=N, such as n=4, given {text!r}")
    return name, int(number)


def elements(text: str) -> tuple[str, tuple[float, ...]]:
    """An input and its elements.

    Examples
    --------
    >>> elements("sr=16000"), elements("axes=0,-1")
    (('sr', (16000,)), ('axes', (0, -1)))
    """
    name, equals, numbers = text.partition("=")
    try:
        if not numbers.isascii() or "_" in numbers:
            raise ValueError
        found = tuple(float(n) if set(n) & set(".en") else int(n) for n in numbers.split(","))
    except ValueError:
        found = ()
    if not (name and equals and found):
        raise argparse.ArgumentTypeError(f"wanted INPUT=N[,N…], such as sr=16000, given {text!r}")
    return name, found
