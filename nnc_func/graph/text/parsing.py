"""Graphs read from text, line by line, by a tokenizer of their own: nothing is evaluated, imported or looked up.

The text is written by `text`; operators are those of the stack that reads it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.errors import FileFormatError, GraphError, NncError
from nnc_func.facets.dims import Dim, Extent
from nnc_func.facets.places import Place
from nnc_func.graph.leaves import HELD, Variable, brought
from nnc_func.graph.node import Node, Value
from nnc_func.graph.origin import Origin, origin
from nnc_func.graph.text.literals import Line
from nnc_func.graph.text.nesting import by_name, nested
from nnc_func.graph.text.trust import check_operator
from nnc_func.graph.transfer import effects_of
from nnc_func.op import Op
from nnc_func.tree import ONE_LEAF, Structure

NODE_COST, WORD_COST = 64, 192
"""Bytes that a character takes at most: in the shortest lines that make nodes, and in lines of many short words."""


def parsed(
    text: str,
    stack: Any,
    constants: Mapping[str, Any] | None = None,
    variables: Mapping[str, Any] | None = None,
    classes: Iterable[type] = (),
    origins: Mapping[int, Origin] | None = None,
    allow: Collection[str] | None = None,
) -> Any:
    """The graph that the text describes, built by a stack.

    Parameters
    ----------
    text
        As `printed` gives it; empty lines and comments may be added.
    stack
        Its catalogue has the operators. A Graph layer will do.
    constants
        Arrays by their hashes, ``"sha256:…"``, for those that the text does not give in full.
    variables
        Arrays, or `Variable` objects, by name. A variable that is not named here starts as zeros.
    classes
        Named tuples and attrs classes in which the outputs may be nested: no others are made.
    origins
        Lines of user code by the number of a value, told in errors and pictures.
    allow
        Of a text that is not trusted, names of operators that are not this library's, or do more than compute, and
        that it may apply. None: any.

    Raises
    ------
    GraphError
        The text is not that of a graph, or applies what is not allowed; names the line.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> text = '''graph "twice"(%0 "x" : float32[n])
    ... %1 = constant 2.0 : float32[]
    ... %2 = multiply(%0, %1) : float32[n]
    ... return %2'''
    >>> str(parsed(text, nnc.lazy())) == text
    True
    """
    reader = _Reader(stack, constants or {}, variables or {}, classes, origins or {}, allow)
    try:
        return reader.read(text)
    except RecursionError:
        raise GraphError("the text is nested too deeply") from None


def text_cost(text: str) -> int:
    """Bytes that reading a text of a graph takes at most: its nodes, and the words of its longest line.

    Examples
    --------
    >>> text_cost("graph")
    1280
    """
    return NODE_COST * len(text) + WORD_COST * max(map(len, text.split("\n")))


def placed(line: Line, shape: tuple[Extent, ...], dtype: Any) -> Aval:
    """The aval of that shape and dtype, with its layout and place if they follow: ``{1, 0} on gpu``."""
    order = line.sequence(lambda: line.whole("number"), "}") if line.take("{") else None
    place = line.name() if line.take("on") else None
    try:
        return Aval(shape, dtype, None if order is None else tuple(order), place)
    except ValueError as error:
        raise line.error(str(error)) from None


def shown_as(array: Any, dtype: Any, shape: Any) -> Any:
    """The same bytes as an array of another dtype and shape.

    Raises
    ------
    GraphError
        There are more or fewer.
    """
    if array.dtype == dtype and array.shape == tuple(shape):
        return array
    if array.nbytes != math.prod(shape) * dtype.itemsize:
        raise GraphError(f"the constant {array.dtype}{[*array.shape]} is wanted as {dtype}{[*shape]}, of other size")
    return np.frombuffer(np.asarray(array, order="C").tobytes(), dtype).reshape(shape)


class _Reader:
    """What has been read so far."""

    def __init__(
        self,
        stack: Any,
        constants: Mapping[str, Any],
        variables: Mapping[str, Any],
        classes: Iterable[type],
        origins: Mapping[int, Origin],
        allow: Collection[str] | None,
    ) -> None:
        self.layer = getattr(stack, "graph", stack)
        self.symbol = self.layer.symbol
        self.ops = self.layer.operator.type.ops
        self.constants, self.variables, self.origins, self.allow = constants, variables, origins, allow
        self.classes = by_name(classes)
        self.values: dict[int, Value] = {}
        self.named: dict[str, Node] = {}  # variables
        self.dims: dict[str, Extent] = {}
        self.updates: list[tuple[Node, Value]] = []
        self.effects: list[Value] = []
        self.here = origin()

    def read(self, text: str) -> Any:
        """The graph."""
        lines = (Line(row, number, self.dims) for number, row in enumerate(text.split("\n"), 1))
        rows = (line for line in lines if not line.empty)  # one at a time: their words take fifty times their bytes
        header = last = next(rows, None)
        if header is None or last is None:
            raise GraphError("line 1: an empty text is no graph")
        name, inputs = self.header(header)
        for line in rows:
            if last is not header:
                self.statement(last)
            last = line
        if last is header or not last.take("return"):
            raise last.error("the last line is `return …`: the text is not complete")
        outputs, structure = self.outputs(last)
        try:
            return self.layer.close(inputs, outputs, self.updates, name, structure, **effects_of(self.effects))
        except NncError as error:
            raise GraphError(f"line {last.number}: {error}") from None

    # --- lines ------------------------------------------------------------------------------------------

    def header(self, line: Line) -> tuple[str, list[Node]]:
        """``graph "name"(%0 "x" : float32[n, 784])``."""
        line.expect("graph")
        name = line.string()
        line.expect("(")
        inputs: list[Node] = line.sequence(lambda: self.input(line), ")")
        line.end()
        return name, inputs

    def statement(self, line: Line) -> None:
        """A line between the first and the last."""
        if line.take("update"):
            self.update(line)
        elif line.take("effects"):
            self.effects.append(self.value(line))
            while line.take(","):
                self.effects.append(self.value(line))
        else:
            self.node(line)
        line.end()

    def input(self, line: Line) -> Node:
        number, name = self.number(line), line.string()
        line.expect(":")
        aval = self.aval(line, None)
        try:
            node: Node = self.symbol.input(name, aval)
        except NncError as error:
            raise line.error(str(error)) from None
        self.define(line, [number], node)
        return node

    def update(self, line: Line) -> None:
        """``update "w" <- %7``."""
        name = line.string()
        if name not in self.named:
            raise line.error(f"no variable {name!r} was defined above")
        line.expect("<-")
        self.updates.append((self.named[name], self.value(line)))

    def node(self, line: Line) -> None:
        """``%4, %5 = split(%1, sections=2, axis=0) : float32[2], float32[2]``."""
        numbers = [self.number(line)]
        while line.take(","):
            numbers.append(self.number(line))
        line.expect("=")
        if line.peek("variable") and line.kind(1) == "string":
            node = self.variable(line)
        elif line.peek("constant") and not line.peek("(", 1):
            line.expect("constant")
            ((array, place),) = self.array(line, 1)
            node = self.symbol.constant(array, place=place)
        elif line.peek("held") and not line.peek("(", 1):
            line.expect("held")
            node = self.held(self.array(line, len(numbers)))
        else:
            node = self.application(line, len(numbers))
        self.define(line, numbers, node)

    def variable(self, line: Line) -> Node:
        """``variable "w" : float32[784, 10]``."""
        line.expect("variable")
        name = line.string()
        line.expect(":")
        aval = self.aval(line, None)
        if name in self.named:
            raise line.error(f"a second variable {name!r}")
        given = self.variables.get(name)
        device = self.layer.device
        try:
            if not isinstance(given, Variable):
                value = np.zeros(aval.shape, aval.dtype) if given is None else given
                given = Variable(name, brought(device, value, place=aval.place), aval, device)
                found = device.aval(given.array)
            else:
                found = given.aval
        except (NncError, MemoryError, ValueError) as error:
            raise line.error(f"variable {name!r}: {error}") from None
        if found != aval or given.name != name:
            raise line.error(f"variable {name!r} is {aval!r}, given {given.name!r}, {found!r}")
        node: Node = self.symbol.variable(given)
        self.named[name] = node
        return node

    def held(self, arrays: list[tuple[Any, Place]]) -> Node:
        data = tuple(brought(self.layer.device, a, place=place) for a, place in arrays)
        return Node(self.symbol.table, HELD, (), (), tuple(map(self.layer.device.aval, data)), self.here, data)

    def application(self, line: Line, wanted: int) -> Node:
        """``add(%1, %2) : float32[3]``."""
        op = self.operator(line)
        name = op.name
        args, params = line.arguments(op, lambda: self.value(line), self.operator)
        line.expect(":")
        try:
            found = self.symbol.apply(op, tuple(args), op.canonical(params))
        except NncError as error:
            raise line.error(str(error)) from None
        node: Node = found[0].node if op.multi_result else found
        for index, aval in enumerate(node.avals):
            if index:
                line.expect(",")
            self.aval(line, aval, name)
        if len(node.avals) != wanted:
            raise line.error(f"{name} has {len(node.avals)} results, written are {wanted}")
        return node

    # --- parts ------------------------------------------------------------------------------------------

    def operator(self, line: Line) -> Op:
        name = line.name()
        if name not in self.ops:
            raise line.error(f"no operator {name!r} in this stack; a stack with it: stack.type.with_ops(...)")
        op: Op = self.ops[name]
        if self.allow is not None:
            try:
                check_operator(op, self.allow)
            except FileFormatError as error:
                raise line.error(str(error)) from None
        return op

    def number(self, line: Line) -> int:
        number = line.whole("value", "%")
        if number in self.values:
            raise line.error(f"%{number} is defined twice")
        return number

    def value(self, line: Line) -> Value:
        number = line.whole("value", "%")
        if number not in self.values:
            raise line.error(f"%{number} is not defined above")
        return self.values[number]

    def define(self, line: Line, numbers: list[int], node: Node) -> None:
        if len(set(numbers)) != len(node.avals):
            raise line.error(f"{node.op.name} has {len(node.avals)} results, written are {len(numbers)}")
        self.values.update(zip(numbers, node.results, strict=True))
        if node.origin == self.here:  # else it was there already, and keeps the line that first asked for it
            node.origin = self.origins.get(numbers[0], self.here)

    def aval(self, line: Line, inferred: Aval | None, name: str = "") -> Aval:
        """An aval as it is written, which must be the inferred one; an unknown extent may be a new one of that."""
        dtype = line.dtype()
        line.expect("[")
        at = iter(inferred.shape if inferred is not None else ())

        def extent() -> Extent:
            mine = next(at, None)
            new = line.kind() == "unknown" and (line.peek(",", 1) or line.peek("]", 1)) and isinstance(mine, Dim)
            if new and mine is not None:
                return self.dims.setdefault(line.word("unknown"), mine)
            return line.extent()

        found = placed(line, tuple(line.sequence(extent, "]")), dtype)
        if inferred is not None and found != inferred:
            raise line.error(f"{name} gives {inferred!r}, but {found!r} is written")
        return found

    def array(self, line: Line, count: int) -> list[tuple[Any, Place]]:
        """So many constants, with their places."""
        if line.peek("unknown"):
            raise line.error("a constant without elements, from a device that holds none, cannot be read back")
        start = line.mark()
        for _ in range(count):  # their dtypes come after their elements
            line.skip_array()
            if not line.take(","):
                break
        line.expect(":")
        avals = [self.aval(line, None)]
        while line.take(","):
            avals.append(self.aval(line, None))
        stop = line.mark()
        if len(avals) != count:
            raise line.error(f"{count} constants, but {len(avals)} dtypes and shapes")
        line.back(start)
        found = []
        for aval in avals:
            found.append((self.constant(line, aval), aval.place))
            line.take(",")
        line.back(stop)
        return found

    def constant(self, line: Line, aval: Aval) -> Any:
        if line.kind() == "digest":
            return self.given(line, line.word("digest"), aval)
        elements = line.elements(aval.dtype)
        if aval.symbols or len(elements) != math.prod(aval.shape):
            raise line.error(f"{len(elements)} elements are no {aval!r}")
        try:
            array = np.empty(len(elements), aval.dtype)
            array[:] = elements
        except (ValueError, OverflowError) as error:
            raise line.error(f"no {aval.dtype}: {error}") from None
        return array.reshape(aval.shape)

    def given(self, line: Line, name: str, aval: Aval) -> Any:
        if name not in self.constants:
            raise line.error(f"the constant {name[:15]}… is not in the text; give it: constants={{{name!r}: array}}")
        array = np.asarray(self.constants[name])
        if array.nbytes == aval.nbytes:
            array = shown_as(array, aval.dtype, aval.shape)  # names are of bytes, whatever these are shown as
        if array.shape != aval.shape or array.dtype != aval.dtype:
            raise line.error(f"the constant {name[:15]}… is {aval!r}, given {array.dtype}{list(array.shape)}")
        if hashlib.sha256(np.asarray(array, order="C").tobytes()).hexdigest() != name[7:]:
            raise line.error(f"the constant given as {name[:15]}… has other elements")
        return array

    # --- what is returned -------------------------------------------------------------------------------

    def outputs(self, line: Line) -> tuple[list[Value], Structure]:
        """``%5, %4``, ``[%5, {"a": %4}]``, or ``flat %5, %4`` where the nesting is not said."""
        leaves, found = nested(line, lambda: self.value(line), self.classes)
        return leaves, found or ONE_LEAF
