"""The written form of extents, parameters and array elements: to text and back, exactly, without evaluating code.

Whole graphs are written by `text` and read by `parsing`.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nnc_func.body import Application, Body, bodies, body, written
from nnc_func.declaration import Items
from nnc_func.errors import GraphError, NncError
from nnc_func.facets.dims import Dim, Extent, Quotient, known
from nnc_func.facets.dtypes import as_dtype, kind_of
from nnc_func.op import Op

DEEPEST = 64  # brackets inside brackets: more than any graph needs, and less than Python's stack holds
LONGEST = 512  # operators of an expression
LARGEST_EXTENT = 1 << 62
LARGEST = 1 << 64  # no number is as large
WORDS: Mapping[str, Any] = {"True": True, "False": False, "None": None, "nan": float("nan"), "inf": float("inf")}
NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")
TOKEN = re.compile(
    r"""\s*(?:
      (?P<comment>\#.*)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<quoted>`[^`\n]*`)
    | (?P<value>%\d+)
    | (?P<buffer>@\d+)
    | (?P<digest>sha256:[0-9a-f]{64})
    | (?P<bits>0x[0-9a-f]+)
    | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)
    | (?P<unknown>\?\d+)
    | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
    | (?P<sign><-|//|[()\[\]{},;=:*+\-.<>|])
    )""",
    re.VERBOSE,
)


# --- to text ----------------------------------------------------------------------------------------------


class Names:
    """How symbols are written: their own names, those of unknown extents counted from 0 as they appear."""

    def __init__(self) -> None:
        self._unknown: dict[str, str] = {}

    def extent(self, extent: Extent) -> str:
        """An extent, as it is read back."""
        if not isinstance(extent, Dim):
            return str(extent)
        for name in sorted((s for s in extent.symbols if s.startswith("?")), key=lambda s: int(s[1:])):
            self._unknown.setdefault(name, f"?{len(self._unknown)}")
        return _sum(extent.substitute({s: Dim.named(self._of(s)) for s in extent.symbols}))

    def _of(self, name: str) -> str:
        return self._unknown.get(name) or quoted(name)

    def aval(self, aval: Any) -> str:
        """An aval: ``float32[n, 784]``."""
        return f"{aval.dtype}[{', '.join(map(self.extent, aval.shape))}]{aval.where}"

    def literal(self, value: Any) -> str:
        """A parameter.

        Raises
        ------
        GraphError
            It has no written form.
        """
        if isinstance(value, tuple):
            inside = ", ".join(map(self.literal, value))
            return f"({inside},)" if len(value) == 1 else f"({inside})"
        if isinstance(value, Dim):
            return self.extent(value)
        if isinstance(value, str):
            return json.dumps(value, ensure_ascii=False)
        if isinstance(value, np.dtype):
            return str(value)
        if isinstance(value, complex):
            return f"complex({value.real!r}, {value.imag!r})"
        if value is None or isinstance(value, (bool, int, float)):
            return repr(value)
        if isinstance(value, Body):
            return written(value, lambda each: self.parameters(each.op, each.items))
        if callable(value):
            raise GraphError(
                f"{value!r} is a function of this process, which cannot be written as text: compute with operators of "
                "the stack what is to be saved"
            )
        raise GraphError(f"a {type(value).__name__} cannot be written as text: {value!r}")

    def parameters(self, op: Op, items: Items, where: Callable[[], str] = str) -> list[str]:
        """The parameters of an application: ``axis=0``.

        Parameters
        ----------
        where
            The user's line, which is asked for where one has no written form.

        Raises
        ------
        GraphError
            One that has no written form; names it and the operator.
        """
        said = []
        for name, value in items:
            if isinstance(value, np.dtype) and op.converters.get(name) is not as_dtype:
                raise GraphError(f"{op.name}: {name}={value!r} is not read back unless it is declared as a DType")
            try:
                said.append(f"{name}={self.literal(value)}")
            except GraphError as error:
                line = where()
                raise GraphError(f"{op.name}{f' ({line})' if line else ''}: {name}: {error}") from None
        return said


def quoted(name: str) -> str:
    """A name, in backticks where it is not an identifier or means something else."""
    if NAME.match(name) and name not in WORDS and name != "complex":
        return name
    return "`" + json.dumps(name)[1:-1].replace("`", "\\u0060") + "`"


def _sum(extent: Extent) -> str:
    if known(extent):
        return str(extent)
    assert isinstance(extent, Dim)
    written = ""
    for monomial, coefficient in sorted(extent.terms.items(), key=lambda item: (-len(item[0]), str(item[0]))):
        factors = [_factor(atom) for atom in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        written += ("-" if coefficient < 0 else "+") + "*".join(factors)
    return written.removeprefix("+")


def _factor(atom: str | Quotient) -> str:
    if isinstance(atom, str):
        return atom
    return f"({_operand(atom.numerator)} // {_operand(atom.divisor)})"


def _operand(extent: Extent) -> str:
    if isinstance(extent, Dim):
        (monomial, coefficient), *others = extent.terms.items()
        if others or len(monomial) > 1 or (monomial and coefficient != 1):
            return f"({_sum(extent)})"
    return _sum(extent)


def array_text(array: Any) -> str:
    """The elements of an array, nested as it is: read back, they are the same bits.

    Examples
    --------
    >>> array_text(np.float32([[0.1, -0.0], [float("nan"), 1e30]]))
    '[[0.1, -0.0], [nan, 1e+30]]'
    """
    if array.ndim:
        return f"[{', '.join(map(array_text, array))}]"
    value = array[()]
    kind = array.dtype.kind
    if kind in "biu":
        return str(value.item())
    if kind == "c":
        return f"complex({_real_text(value.real)}, {_real_text(value.imag)})"
    return _real_text(value)


def _real_text(value: Any) -> str:
    size = float(abs(value))
    if np.isnan(value) or np.isinf(value):
        written = "nan" if np.isnan(value) else "inf" if value > 0 else "-inf"
    elif size == 0 or 1e-4 <= size < 1e16:
        written = np.format_float_positional(value, unique=True, trim="0")
    else:
        written = np.format_float_scientific(value, unique=True, trim="-")
    if type(value)(written).tobytes() == value.tobytes():
        return written
    return "0x" + str(value.astype(value.dtype.newbyteorder("<")).tobytes()[::-1].hex())


# --- from text --------------------------------------------------------------------------------------------


Named = Callable[["Line"], Op]  # reads the name of an operator, and finds it


class Line:
    """The words of one line, taken from left to right.

    Raises
    ------
    GraphError
        What is there is not what is wanted; names the line.
    """

    def __init__(self, text: str, number: int, dims: dict[str, Extent]) -> None:
        self.number = number
        self.dims = dims  # symbols by their written names; unknown ones are added as they come
        self._depth = 0
        self._operators = 0
        self._at = 0
        self._tokens: list[tuple[str, str]] = []
        self._columns: list[int] = []
        self.comment = ""
        start, text = 0, text.rstrip()
        while start < len(text):
            found = TOKEN.match(text, start)
            if found is None:
                raise self.error(f"{text[start : start + 20].strip()!r} has no meaning here")
            kind = str(found.lastgroup)
            if kind == "comment":
                self.comment = found.group(kind)
            else:
                self._tokens.append((kind, found.group(kind)))
                self._columns.append(found.start(kind) + 1)
            start = found.end()

    def error(self, words: str) -> GraphError:
        """An error that names the line."""
        return GraphError(f"line {self.number}: {words}")

    @property
    def column(self) -> int:
        """Where the next word starts, counted from 1; of the last one where all are taken."""
        return self._columns[min(self._at, len(self._columns) - 1)] if self._columns else 1

    @property
    def empty(self) -> bool:
        """Whether all words are taken."""
        return self._at == len(self._tokens)

    def peek(self, text: str, ahead: int = 0) -> bool:
        """Whether that sign or name comes next."""
        at = self._at + ahead
        return at < len(self._tokens) and self._tokens[at][1] == text and self._tokens[at][0] in ("sign", "name")

    def kind(self, ahead: int = 0) -> str:
        """What kind of word comes next."""
        at = self._at + ahead
        return self._tokens[at][0] if at < len(self._tokens) else "end"

    def take(self, text: str) -> bool:
        """Take that sign or name if it comes next."""
        found = self.peek(text)
        self._at += found
        return found

    def expect(self, text: str) -> None:
        """Take that sign or name."""
        if not self.take(text):
            raise self.error(f"wanted {text!r}, found {self._found()}")

    def word(self, *kinds: str) -> str:
        """Take a word of one of the kinds."""
        if self.kind() not in kinds:
            raise self.error(f"wanted a {' or '.join(kinds)}, found {self._found()}")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def mark(self) -> int:
        """Where we are, for `back`."""
        return self._at

    def back(self, mark: int) -> None:
        """Go to a place that was marked."""
        self._at = mark

    def skip_array(self) -> None:
        """Pass over the elements of an array."""
        depth = 0
        while not self.empty:
            if not depth and (self.peek(":") or self.peek(",")):
                return
            depth += (self.peek("[") or self.peek("(")) - (self.peek("]") or self.peek(")"))
            self._at += 1

    def end(self) -> None:
        """Nothing may follow."""
        if not self.empty:
            raise self.error(f"{self._found()} is too much")

    def _found(self) -> str:
        return "the end of the line" if self.empty else repr(self._tokens[self._at][1])

    # --- words that mean something ----------------------------------------------------------------------

    def whole(self, kind: str, sign: str = "") -> int:
        """The number in a word such as ``17``, or ``%17`` with its sign."""
        written = self.word(kind).removeprefix(sign)
        if not written.isdecimal() or len(written) > 20 or int(written) >= LARGEST:
            raise self.error(f"wanted a whole number below 2**64, found {written:.30}")
        return int(written)

    def string(self) -> str:
        """A quoted string."""
        written = self.word("string")
        try:
            return str(json.loads(written))
        except ValueError as error:
            raise self.error(f"{written} is no string: {error}") from None

    def name(self) -> str:
        """A name, perhaps in backticks."""
        written = self.word("name", "quoted")
        try:
            return str(json.loads(f'"{written[1:-1]}"')) if written.startswith("`") else written
        except ValueError:
            raise self.error(f"{written} is no name") from None

    def sequence(self, item: Callable[[], Any], close: str) -> list[Any]:
        """Items with commas between them, up to and with the closing sign; a comma may end them."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise self.error(f"more than {DEEPEST} brackets inside each other")
        found: list[Any] = []
        while not self.take(close):
            found.append(item())
            if not self.take(","):
                self.expect(close)
                break
        self._depth -= 1
        return found

    def dtype(self) -> np.dtype[Any]:
        """A dtype by its name."""
        order = next((s for s in ("<", ">", "|") if self.take(s)), "")
        written = order + self.word("name")
        try:
            found = as_dtype(written)
        except TypeError:
            raise self.error(f"{written!r} is no dtype") from None
        if kind_of(found) not in "biufc":
            raise self.error(f"{written!r} is no dtype of numbers or booleans")
        return found

    def literal(self) -> Any:
        """A parameter: a number, a string, a tuple, an extent, True, False or None."""
        if self.kind() == "string":
            return self.string()
        return self._guard(self._plus)

    def extent(self) -> Extent:
        """An extent: a number or an expression in symbols."""
        found = self._guard(self._plus)
        if not isinstance(found, Dim) and (type(found) is not int or not 0 <= found < LARGEST_EXTENT):
            raise self.error(f"{found!r} is no extent")
        return found

    def arguments(self, op: Op, operand: Callable[[], Any], named: Named) -> tuple[list[Any], dict[str, Any]]:
        """``(%1, %2, axis=0)``: operands, each read by `operand`, and parameters by name.

        Parameters
        ----------
        named
            Reads an operator by its name: of bodies that are parameters.
        """
        operands: list[Any] = []
        params: dict[str, Any] = {}
        self.expect("(")

        def argument() -> None:
            if self.kind() == "value":
                if params:
                    raise self.error("operands come before parameters")
                operands.append(operand())
                return
            key = self.name()
            if key in params:
                raise self.error(f"{key} is given twice")
            self.expect("=")
            params[key] = self._parameter(op.converters.get(key), named)

        self.sequence(argument, ")")
        return operands, params

    def _parameter(self, convert: Any, named: Named) -> Any:
        if convert is as_dtype and not self.peek("None"):
            return self.dtype()
        if convert is bodies:
            self.expect("(")
            return tuple(self.sequence(lambda: self.body(named), ")"))
        return self.body(named) if convert is body and not self.peek("None") else self.literal()

    def body(self, named: Named) -> Body:
        """``(%0, %1) { %2 = add(%0, %1); return %2 }``."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise self.error(f"more than {DEEPEST} brackets inside each other")
        self.expect("(")
        numbers = itertools.count()
        total = count = len(self.sequence(lambda: self._numbered(next(numbers)), ")"))
        self.expect("{")
        applications = []
        while not self.take("return"):
            applications.append(self._application(total, named))
            total += applications[-1].count
        results = [self._of_body(total)] if self.kind() == "value" else []
        while self.take(","):
            results.append(self._of_body(total))
        self.expect("}")
        self._depth -= 1
        try:
            return Body(count, applications, results)
        except NncError as error:
            raise self.error(str(error)) from None

    def _application(self, known: int, named: Named) -> Application:
        made = 0
        while self.kind() == "value":
            self._numbered(known + made)
            made += 1
            if not self.take(","):
                break
        if made:
            self.expect("=")
        op = named(self)
        operands, params = self.arguments(op, lambda: self._of_body(known), named)
        self.expect(";")
        try:
            return Application(op, tuple(operands), params, made)
        except NncError as error:
            raise self.error(str(error)) from None

    def _numbered(self, wanted: int) -> None:
        """The next value of a body: they are numbered from 0 on, as they come."""
        number = self.whole("value", "%")
        if number != wanted:
            raise self.error(f"values in a body are numbered as they come: wanted %{wanted}, found %{number}")

    def _of_body(self, known: int) -> int:
        number = self.whole("value", "%")
        if number >= known:
            raise self.error(f"%{number} is not defined above, in its body")
        return number

    def elements(self, of: np.dtype[Any]) -> list[Any]:
        """Numbers in any nest of brackets, as a flat list of elements of that dtype."""
        if not self.take("["):
            return [self._guard(lambda: self._element(of))]
        return [e for part in self.sequence(lambda: self.elements(of), "]") for e in part]

    # --- expressions ------------------------------------------------------------------------------------

    def _guard(self, read: Callable[[], Any]) -> Any:
        self._operators = 0
        try:
            return read()
        except (ValueError, TypeError, ArithmeticError) as error:
            raise error if isinstance(error, GraphError) else self.error(str(error)) from None

    def _plus(self) -> Any:
        found = self._times()
        while self.peek("+") or self.peek("-"):
            add = self.take("+") or not self.take("-")
            found, other = self._both(found, self._times())
            found = found + other if add else found - other
        return found

    def _times(self) -> Any:
        found = self._atom()
        while self.peek("*") or self.peek("//"):
            multiply = self.take("*") or not self.take("//")
            found, other = self._both(found, self._atom())
            found = found * other if multiply else found // other
        return found

    def _both(self, left: Any, right: Any) -> tuple[Any, Any]:
        """Two extents that are computed with."""
        self._operators += 1
        for value in (left, right):
            if isinstance(value, bool) or not isinstance(value, (int, Dim)):
                raise self.error(f"{value!r} is no extent, so it cannot be computed with")
        if self._operators > LONGEST:
            raise self.error(f"an extent of more than {LONGEST} operators")
        return left, right

    def _atom(self) -> Any:
        if self.take("-"):
            if self.peek("-"):
                raise self.error("a sign follows a sign")
            return -self._atom()
        if self.take("("):
            return self._brackets()
        if self.kind() == "string":
            return self.string()
        if self.kind() == "number":
            return self._number()
        if self.kind() == "unknown":
            return self.dims.setdefault(self.word("unknown"), Dim.fresh())
        if self.take("complex"):
            return complex(*self._parts(lambda: float(self._signed())))
        if self.kind() == "name" and self._tokens[self._at][1] in WORDS:
            return WORDS[self.word("name")]
        return Dim.named(self.name())

    def _number(self) -> int | float:
        if self._tokens[self._at][1].isdecimal():
            return self.whole("number")
        return float(self.word("number"))

    def _brackets(self) -> Any:
        if self.take(")"):
            return ()
        first = self.sequence(self._plus, ")")
        ended = self._tokens[self._at - 2][1] == ","
        return tuple(first) if len(first) > 1 or ended else first[0]

    def _parts(self, real: Callable[[], Any]) -> list[Any]:
        self.expect("(")
        found = self.sequence(real, ")")
        if len(found) != 2:
            raise self.error("complex(…) has two parts")
        return found

    def _signed(self) -> str:
        sign = "-" if self.take("-") else ""
        return sign + self.word("number", "name")

    def _element(self, of: np.dtype[Any]) -> Any:
        if of.kind == "c" and self.take("complex"):
            part, found = of.type(0).real.dtype, np.zeros((), of)
            found.real, found.imag = self._parts(lambda: self._element(part))
            return found[()]
        if self.kind() == "bits":
            return _from_bits(int(self.word("bits"), 16), of)
        written = self._signed()
        if of.kind == "b":
            if written not in ("True", "False"):
                raise self.error(f"{written} is no boolean")
            return written == "True"
        return int(written) if of.kind in "iu" else of.type(written)


def _from_bits(bits: int, of: np.dtype[Any]) -> Any:
    return np.frombuffer(bits.to_bytes(of.itemsize, "little"), of.newbyteorder("<"))[0]
