"""Formulas: small expressions as one reads them, in text and in LaTeX. They are for the eye, not read back.

Nested sums and products are written without the parentheses that tell the order of evaluation, numbers first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.body import Body, bodies_of
from nnc_func.declaration import Items
from nnc_func.facets.dims import known
from nnc_func.graph.formulas.typesetting import INFIX, latex, text
from nnc_func.graph.leaves import CONSTANT, HELD, INPUT, VARIABLE
from nnc_func.graph.node import Node, Value
from nnc_func.op import Op

MOST = 200  # parts of an expression that are written; what is deeper is an ellipsis
DEEP = 40  # applications within each other
FUSED = {"blockwise": "", "blockwise_several": "", "matmul_blockwise": "matmul", "conv2d_blockwise": "conv2d"}
"""Operators that are written as what they compute, and what those begin with that finish another operator."""
BODIES = frozenset({"loop", "branch", "custom"})  # written by what their bodies compute
Names = Mapping[Node, str]


@frozen
class Formula:
    """An expression as it is written.

    Attributes
    ----------
    kind
        ``"number"``, ``"name"``, ``"sum"``, ``"product"``, ``"negative"``, ``"fraction"``, ``"power"``, ``"call"``, or
        ``"group"``: something in brackets.
    word
        The number, the name, or the operator's name.
    parts, params
        What it is made of; parameters that are not as by default.
    """

    kind: str
    word: str = ""
    parts: tuple[Formula, ...] = ()
    params: tuple[tuple[str, str], ...] = ()

    @property
    def is_negative(self) -> bool:
        """Whether it begins with a sign that a sum can take over."""
        if self.kind == "product":
            return self.parts[0].is_negative
        return self.kind == "negative" or (self.kind == "number" and self.word.startswith("-"))

    @property
    def opposite(self) -> Formula:
        """It without that sign."""
        if self.kind == "negative":
            return self.parts[0]
        if self.kind == "product":
            return _product([self.parts[0].opposite, *self.parts[1:]])
        return Formula("number", self.word[1:])

    def __str__(self) -> str:
        return text(self)

    def to_latex(self) -> str:
        """As LaTeX writes it, without dollar signs."""
        return latex(self)

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.to_latex()}$"


def formula(value: Value, names: Names | None = None, *, deep: int = DEEP, grouped: bool = False) -> Formula:
    """The formula of a value; what is deeper than `deep`, or more than is read at once, is an ellipsis.

    Parameters
    ----------
    names
        Nodes that are written as names.
    grouped
        Nested sums and products keep the parentheses that tell the order of evaluation.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (), "float64")
    >>> found = formula((lazy.ops.sin(x) ** 2 - x * 3).value)
    >>> print(found)
    sin(x)**2 - 3*x
    >>> print(found.to_latex())
    \\sin^{2}\\left(x\\right) - 3 x
    """
    return _Writing(names or {}, grouped).of(value, deep)


class _Writing:
    """One formula in the making."""

    def __init__(self, names: Names, grouped: bool) -> None:
        self.names = names
        self.grouped = grouped
        self.left = MOST
        self.loops = 0  # that one is in

    def of(self, value: Value, deep: int) -> Formula:
        node = value.node
        if node in self.names:
            return _indexed(Formula("name", self.names[node]), value)
        leaf = _leaf(node)
        if leaf is not None:
            return leaf
        self.left -= 1
        if deep <= 0 or self.left < 0:
            return Formula("name", "…")
        parts = [self.of(a, deep - 1) for a in node.args]
        if node.op.name in BODIES:
            return self.results(node.op, parts, node.items)[value.index]
        return _indexed(self.applied(node.op, parts, node.items), value)

    # --- loops and branches --------------------------------------------------------------------------------------

    def results(self, op: Op, parts: list[Formula], items: Items) -> list[Formula]:
        """The results of an operator that computes bodies: each as what a body computes."""
        params = dict(items)
        if op.name == "loop":
            return self._looped(parts, params)
        if op.name == "branch":
            columns = zip(*(self._body(body, parts[1:]) for body in params["bodies"]), strict=True)
            is_truth = parts[0].word in INFIX and len(params["bodies"]) == 2
            default = (("default", "True"),) if params["default"] else ()
            return (
                [
                    Formula("call", "cond", (parts[0], then, otherwise))
                    if is_truth
                    else Formula("call", "case_of", (parts[0], otherwise, then, *rest), default)
                    for otherwise, then, *rest in columns
                ]
                if len(params["bodies"]) > 1
                else [Formula("call", "case_of", (parts[0], *c), default) for c in columns]
            )
        return self._body(params["body"], parts)

    def _body(self, body: Body, parts: Sequence[Formula]) -> list[Formula]:
        values = body.values(self.inside, [*parts])
        return [values[i] for i in body.results]

    def _looped(self, parts: list[Formula], params: Mapping[str, Any]) -> list[Formula]:
        """What is carried as assignments after a colon: `last` of a carry, `rows` of what is stacked each time."""
        constants, count, counted = params["constants"], params["carries"], params["counted"]
        first, last = constants + count, len(parts) - counted
        time, letter = Formula("name", "tsrq"[self.loops % 4]), "cdef"[self.loops % 4]
        carries = [Formula("name", letter if count == 1 else f"{letter}_{n}") for n in range(count)]
        slices = [Formula("call", "[]", (x, time)) for x in parts[first:last]]
        self.loops += 1
        after = self._body(params["body"], [*parts[:constants], *carries, *slices])
        self.loops -= 1
        steps = [Formula("call", "starts", pair) for pair in zip(carries, parts[constants:first], strict=True)]
        steps += [Formula("call", "becomes", pair) for pair in zip(carries, after, strict=False)]
        said = [("reverse", "True")] if params["reverse"] else []
        said += [("while", carries[0].word)] if params["conditional"] else []
        said += [("times", text(parts[-1]))] if counted else []
        said += [("times", str(params["length"]))] if params["length"] is not None and not slices else []
        heads = [*(("last", c) for c in carries), *(("rows", y) for y in after[count:])]
        return [Formula("call", word, (head, *steps), tuple(said)) for word, head in heads]

    def applied(self, op: Op, parts: list[Formula], items: Items) -> Formula:
        """An operator on what it is applied to."""
        name = op.name
        if name in FUSED and len(parts) <= MOST:
            return self._fused(op, parts, items)
        if name == "add" and self.grouped:
            return Formula("sum", parts=(parts[0], _group(parts[1])))
        if name == "add":
            return self._added([*self._joined(parts[0], "sum"), *self._joined(parts[1], "sum")])
        if name == "subtract":
            return self._added([*self._joined(parts[0], "sum"), negative(parts[1])])
        if name == "multiply":
            return self._multiplied(parts)
        if name == "negative":
            return Formula("negative", parts=(parts[0],)) if self.grouped else negative(parts[0])
        if name in ("divide", "reciprocal"):
            return self._divided(*(parts if name == "divide" else (Formula("number", "1"), *parts)))
        if name in ("power", "square"):
            return Formula("power", parts=(parts[0], parts[1] if name == "power" else Formula("number", "2")))
        return Formula("call", name, tuple(parts), _params(op, items))

    def _fused(self, op: Op, parts: list[Formula], items: Items) -> Formula:
        """A fused operator on what it computes: its body, of all its operands or of a product of the first ones."""
        first, leading = FUSED[op.name], 2 if FUSED[op.name] else 0
        rest = tuple((k, v) for k, v in items if not isinstance(v, Body))
        (body,) = bodies_of(items)
        made = [Formula("call", first, tuple(parts[:leading]), _params(op, rest))] if leading else []
        values = body.values(lambda op, parts, items: self.inside(op, parts, items), [*made, *parts[leading:]])
        return Formula("call", op.name, tuple(values[i] for i in body.results))

    def inside(self, op: Op, parts: list[Formula], items: Items) -> Any:
        """As `applied`, of an application in a body; an ellipsis where that is more than is read at once."""
        self.left -= 1
        is_read = self.left >= 0 and sum(map(_size, parts)) <= MOST  # a body may use each value twice
        if op.holds_body and op.multi_result and op.name not in FUSED:
            return self.results(op, parts, items)
        if not parts and op.name == "full":
            return Formula("number", number(np.dtype(dict(items)["dtype"]).type(dict(items)["value"])))
        return self.applied(op, parts, items) if is_read else Formula("name", "…")

    def _divided(self, above: Formula, below: Formula) -> Formula:
        if above.is_negative and not self.grouped:
            return negative(self._divided(above.opposite, below))
        return Formula("fraction", parts=(above, below))

    def _added(self, terms: list[Formula]) -> Formula:
        found = terms if self.grouped else _collected(terms)
        return found[0] if len(found) == 1 else Formula("sum", parts=tuple(found))

    def _joined(self, part: Formula, kind: str) -> tuple[Formula, ...]:
        return part.parts if part.kind == kind and not self.grouped else (part,)

    def _multiplied(self, parts: list[Formula]) -> Formula:
        if self.grouped:
            return Formula("product", parts=tuple(parts))
        minus = sum(p.kind == "negative" for p in parts) % 2
        factors = [f for p in parts for f in self._joined(p.opposite if p.kind == "negative" else p, "product")]
        numbers = [f for f in factors if f.kind == "number"]
        others = sorted(_powers([f for f in factors if f.kind != "number"]), key=_rank)
        product = _product([*numbers, *others])
        return negative(product) if minus else product


def _group(part: Formula) -> Formula:
    return Formula("group", parts=(part,)) if part.is_negative else part


def _rank(factor: Formula) -> int:
    """Names come before what is made of them."""
    base = factor.parts[0] if factor.kind == "power" else factor
    return 0 if base.kind == "name" else 1


def _collected(terms: list[Formula]) -> list[Formula]:
    """Equal terms of one sign as a multiple."""
    parted = [_coefficient(term) for term in terms]
    found: list[Formula] = []
    for at, ((share, rest), term) in enumerate(zip(parted, terms, strict=True)):
        shares = [s for s, r in parted if r == rest]
        if rest is None or len(shares) == 1 or min(shares) * max(shares) <= 0:
            found.append(term)
        elif all(r != rest for _, r in parted[:at]):
            share = sum(shares)
            multiple = _product([Formula("number", number(abs(share))), *_factors(rest)])
            found.append(multiple if share > 0 else negative(multiple))
    return found


def _coefficient(term: Formula) -> tuple[float, Formula | None]:
    """A term's factor in front, and the rest; None of a number."""
    if term.is_negative:
        share, rest = _coefficient(term.opposite)
        return -share, rest
    first, *others = _factors(term)
    if first.kind != "number":
        return 1.0, term
    return (float(first.word), _product(others)) if others and _is_real(first.word) else (1.0, None)


def _factors(term: Formula) -> tuple[Formula, ...]:
    return term.parts if term.kind == "product" else (term,)


def _is_real(word: str) -> bool:
    return not set(word) - set("0123456789.e+-")


def _powers(factors: list[Formula]) -> list[Formula]:
    """Equal factors as powers."""
    counts = {f: factors.count(f) for f in factors}
    return [f if n == 1 else Formula("power", parts=(f, Formula("number", str(n)))) for f, n in counts.items()]


def negative(part: Formula) -> Formula:
    """It with another sign.

    Examples
    --------
    >>> print(negative(Formula("name", "x")), negative(negative(Formula("name", "x"))))
    -x x
    """
    return part.opposite if part.is_negative else Formula("negative", parts=(part,))


def _product(factors: list[Formula]) -> Formula:
    kept = [f for f in factors if not (f.kind == "number" and f.word == "1")] if len(factors) > 1 else factors
    if not kept:
        return Formula("number", "1")
    return kept[0] if len(kept) == 1 else Formula("product", parts=tuple(kept))


def _indexed(found: Formula, value: Value) -> Formula:
    return Formula("call", "[]", (found, Formula("number", str(value.index)))) if value.node.op.multi_result else found


def _size(part: Formula) -> int:
    """How many parts are written."""
    return 1 + sum(map(_size, part.parts))


def _params(op: Op, items: Items) -> tuple[tuple[str, str], ...]:
    return tuple((k, _short(v)) for k, v in items if k not in op.params or _differs(v, op.params[k]))


def _differs(value: Any, default: Any) -> bool:
    return type(value) is not type(default) or bool(value != default)


def _short(value: Any) -> str:
    said = str(value)
    return said if len(said) <= 24 else said[:23] + "…"


def _leaf(node: Node) -> Formula | None:
    """A leaf, or a fill of one number."""
    if node.op is INPUT:
        return Formula("name", str(node.data))
    if node.op is VARIABLE:
        return Formula("name", node.data.name)
    if node.op is CONSTANT:
        return _constant(node)
    if node.op is HELD:
        return Formula("name", "held")
    if node.op.name == "full" and not node.args:
        filled = node.params["value"]
        return Formula("number", number(node.dtype.type(filled)) if known(filled) else str(filled))
    return None


def _constant(node: Node) -> Formula:
    data = node.table.literals.get(node, node.data)  # known, though the device has no elements, or has them far away
    if isinstance(data, np.ndarray) and data.size == 1:
        return Formula("number", number(data.reshape(())[()]))
    if isinstance(data, np.ndarray) and data.ndim == 1 and data.size <= 4:
        return Formula("name", f"[{', '.join(map(number, data))}]")
    return Formula("name", repr(node.aval))


def number(value: Any) -> str:
    """A number in as few characters as tell it from others of its dtype.

    Examples
    --------
    >>> number(np.float32(0.1)), number(np.float64(2)), number(np.int8(-3)), number(-np.inf)
    ('0.1', '2', '-3', '-inf')
    """
    return str(value).removesuffix(".0")
