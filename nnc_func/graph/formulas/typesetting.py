"""Formulas set in text and in LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from nnc_func.graph.formulas.formula import Formula

SUM, PRODUCT, SIGN, POWER, ATOM = range(5)  # how tightly what is written holds together
INFIX = {
    "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=",
    "starts": ":=", "becomes": "<-",
}  # fmt: skip
GREEK = frozenset((
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu",
    "nu", "xi", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega",
))  # fmt: skip
NAMED = frozenset(("sin", "cos", "tan", "sinh", "cosh", "tanh", "log", "max", "min", "det", "exp"))  # as LaTeX has them
CALLED = {
    "asin": r"\arcsin", "acos": r"\arccos", "atan": r"\arctan", "maximum": r"\max", "minimum": r"\min",
    "log2": r"\log_{2}", "log10": r"\log_{10}", "sigmoid": r"\sigma", "lgamma": r"\log\Gamma",
}  # fmt: skip
RELATIONS = {"==": "=", "!=": r"\neq", "<=": r"\leq", ">=": r"\geq", "<-": r"\leftarrow"}
Set: TypeAlias = "Callable[[Formula], tuple[str, int]]"


def text(formula: Formula) -> str:
    """As one types it.

    Examples
    --------
    >>> from nnc_func.graph.formulas.formula import Formula
    >>> x, two = Formula("name", "x"), Formula("number", "2")
    >>> text(Formula("fraction", parts=(x, Formula("sum", parts=(x, two)))))
    'x/(x + 2)'
    """
    return _text(formula)[0]


def _text(formula: Formula) -> tuple[str, int]:
    kind, parts = formula.kind, formula.parts
    if kind in ("number", "name"):
        return formula.word, SIGN if formula.word.startswith("-") else ATOM
    if kind == "group":
        return f"({text(parts[0])})", ATOM
    if kind == "sum":
        return _summed(parts, _text, "({})"), SUM
    if kind == "product":
        return "*".join(_within(p, SIGN if i else PRODUCT, _text, "({})") for i, p in enumerate(parts)), PRODUCT
    if kind == "negative":
        return "-" + _within(parts[0], POWER if parts[0].is_negative else PRODUCT, _text, "({})"), SIGN
    if kind == "fraction":
        return f"{_within(parts[0], PRODUCT, _text, '({})')}/{_within(parts[1], POWER, _text, '({})')}", PRODUCT
    if kind == "power":
        return f"{_within(parts[0], ATOM, _text, '({})')}**{_within(parts[1], POWER, _text, '({})')}", POWER
    return _called(formula)


def _called(formula: Formula) -> tuple[str, int]:
    word, parts = formula.word, formula.parts
    if word in INFIX:
        return f" {INFIX[word]} ".join(_within(p, PRODUCT, _text, "({})") for p in parts), SUM - 1
    if word == "matmul" and not formula.params:
        return " @ ".join(_within(p, SIGN if i else PRODUCT, _text, "({})") for i, p in enumerate(parts)), PRODUCT
    if word == "[]":
        return f"{_within(parts[0], ATOM, _text, '({})')}[{text(parts[1])}]", ATOM
    inside = [*map(text, parts), *(f"{k}={v}" for k, v in formula.params)]
    return f"{word}({', '.join(inside)})", ATOM


def _within(part: Formula, least: int, write: Set, brackets: str) -> str:
    """A part, in brackets where it holds together less tightly than it must there."""
    found, holds = write(part)
    return found if holds >= least else brackets.format(found)


def _summed(parts: tuple[Formula, ...], write: Set, brackets: str) -> str:
    first = _within(parts[0], PRODUCT, write, brackets)
    rest = [
        f" - {_within(p.opposite, PRODUCT, write, brackets)}"
        if p.is_negative
        else f" + {_within(p, PRODUCT, write, brackets)}"
        for p in parts[1:]
    ]
    return first + "".join(rest)


# --- LaTeX -----------------------------------------------------------------------------------------------

BRACKETS = r"\left({}\right)"
SCIENTIFIC = re.compile(r"([\d.]+)e([+-]?\d+)")


def latex(formula: Formula) -> str:
    r"""As LaTeX writes it.

    Examples
    --------
    >>> from nnc_func.graph.formulas.formula import Formula
    >>> x, two = Formula("name", "x"), Formula("number", "2")
    >>> print(latex(Formula("fraction", parts=(x, Formula("sum", parts=(x, two))))))
    \frac{x}{x + 2}
    """
    return _latex(formula)[0]


def _latex(formula: Formula) -> tuple[str, int]:
    kind, parts = formula.kind, formula.parts
    if kind == "number":
        return _number(formula.word), SIGN if formula.word.startswith("-") or "e" in formula.word else ATOM
    if kind == "name":
        return symbol(formula.word), ATOM
    if kind == "group":
        return BRACKETS.format(latex(parts[0])), ATOM
    if kind == "sum":
        return _summed(parts, _latex, BRACKETS), SUM
    if kind == "product":
        first = SIGN if _is_sum(parts[0]) else PRODUCT  # a sum goes on to the end of a product
        return _juxtaposed([_within(p, SIGN if i else first, _latex, BRACKETS) for i, p in enumerate(parts)]), PRODUCT
    if kind == "negative":
        return "-" + _within(parts[0], POWER if parts[0].is_negative else PRODUCT, _latex, BRACKETS), SIGN
    if kind == "fraction":
        return rf"\frac{{{latex(parts[0])}}}{{{latex(parts[1])}}}", POWER
    if kind == "power":
        return _raised(*parts), POWER
    return _applied(formula)


def _juxtaposed(factors: list[str]) -> str:
    found = factors[0]
    for each in factors[1:]:
        found += (r" \cdot " if each[0].isdigit() or each[0] == "-" else " ") + each
    return found


def _raised(base: Formula, exponent: Formula) -> str:
    power = latex(exponent)
    if power == "0.5":
        return rf"\sqrt{{{latex(base)}}}"
    if base.kind == "call" and base.word in NAMED - {"exp"} and power.isdecimal() and not base.params:
        return rf"\{base.word}^{{{power}}}\left({latex(base.parts[0])}\right)"
    return f"{_within(base, ATOM, _latex, BRACKETS)}^{{{power}}}"


def _applied(formula: Formula) -> tuple[str, int]:
    word, parts = formula.word, formula.parts
    inside = [latex(p) for p in parts]
    if word in ("cond", "case_of"):
        return _cases(word, inside, dict(formula.params)), ATOM
    if word in ("last", "rows") and len(inside) > 1:
        head, steps = inside[0], r",\; ".join([*inside[1:], *_params(formula)])
        return rf"\operatorname{{{word}}}\left({head} : {steps}\right)", ATOM
    if word == "sqrt":
        return rf"\sqrt{{{inside[0]}}}", ATOM
    if word == "exp":
        return rf"e^{{{inside[0]}}}", POWER
    if word == "abs":
        return rf"\left|{inside[0]}\right|", ATOM
    if word == "cast":
        return _latex(parts[0])
    if word in INFIX:
        sign = RELATIONS.get(INFIX[word], INFIX[word])
        return f" {sign} ".join(_within(p, PRODUCT, _latex, BRACKETS) for p in parts), SUM - 1
    if word == "matmul":
        return _matrices(formula), PRODUCT
    if word == "permute_dims" and not formula.params:
        return rf"{_within(parts[0], ATOM, _latex, BRACKETS)}^{{\mathsf{{T}}}}", POWER
    if word == "sum":
        over = f"_{{{', '.join(_params(formula))}}}" if formula.params else ""
        return rf"\sum{over} {_within(parts[0], SIGN, _latex, BRACKETS)}", PRODUCT
    if word == "[]":
        return f"{_within(parts[0], ATOM, _latex, BRACKETS)}_{{{inside[1]}}}", ATOM
    return rf"{_function(word)}\left({', '.join([*inside, *_params(formula)])}\right)", ATOM


def _cases(word: str, inside: list[str], params: dict[str, str]) -> str:
    """What one of several branches gives, and when: the condition, or the index, comes first."""
    index, *values = inside
    whens = [rf"\text{{if }} {index} = {n}" for n in range(len(values))]
    if word == "cond":
        whens = [rf"\text{{if }} {index}", r"\text{otherwise}"]
    elif params:
        whens[-1] = r"\text{otherwise}"
    rows = [f"{value} & {when}" for value, when in zip(values, whens, strict=True)]
    return r"\begin{cases} " + r" \\ ".join(rows) + r" \end{cases}"


def _params(formula: Formula) -> list[str]:
    """Parameters, without which different calls would read alike."""
    return [rf"\mathrm{{{_escaped(k)}}}=\mathrm{{{_escaped(v)}}}".replace("…", r"\dots") for k, v in formula.params]


def _is_sum(part: Formula) -> bool:
    return part.kind == "call" and part.word == "sum"


def _matrices(formula: Formula) -> str:
    flags = dict(formula.params)
    found = []
    for part, flag in zip(formula.parts, ("transpose_a", "transpose_b"), strict=True):
        turned = r"^{\mathsf{T}}" if flags.get(flag) == "True" else ""
        found.append(_within(part, ATOM if turned else SIGN, _latex, BRACKETS) + turned)
    return " ".join(found)


def _function(word: str) -> str:
    if word in CALLED:
        return CALLED[word]
    return rf"\{word}" if word in NAMED else rf"\operatorname{{{_escaped(word)}}}"


def symbol(name: str) -> str:
    r"""A name as LaTeX sets it: one letter, a Greek one, others upright, digits at the end below the line.

    Examples
    --------
    >>> print(symbol("x"), symbol("alpha"), symbol("w_1"), symbol("rate"))
    x \alpha w_{1} \mathrm{rate}
    """
    if name == "…":
        return r"\dots"
    stem, _, below = name.rpartition("_")
    if stem and below.isalnum():
        return f"{symbol(stem)}_{{{below}}}"
    if name in GREEK:
        return rf"\{name}"
    return name if len(name) == 1 and name.isalpha() else rf"\mathrm{{{_escaped(name)}}}"


def _escaped(name: str) -> str:
    return "".join(rf"\{c}" if c in "_&%$#{}" else r"\backslash{}" if c == "\\" else c for c in name)


def _number(word: str) -> str:
    if word.isalpha() and word not in ("inf", "nan"):
        return rf"\mathrm{{{word}}}"
    found = SCIENTIFIC.sub(_power_of_ten, word)
    return found.replace("inf", r"\infty").replace("nan", r"\mathrm{nan}")


def _power_of_ten(found: re.Match[str]) -> str:
    mantissa, exponent = found.groups()
    return rf"10^{{{int(exponent)}}}" if mantissa == "1" else rf"{mantissa} \cdot 10^{{{int(exponent)}}}"
