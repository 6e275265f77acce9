"""The standard's special cases, of each function, dtype and engine (`array_api/elementwise`)."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.graph.rules.rule import Numerics
from tests.array_api import special_cases

NAN, INF = math.nan, math.inf
LAZY = nnc.lazy()
EXACT = LAZY.swap(optimiser=LAZY.optimiser.with_numerics(Numerics.EXACT))
STACKS = {
    "eager": nnc.eager(),
    "lazy": EXACT,
    "twice": nnc.eager().swap(device=EXACT),
    "strict": nnc.eager(nnc.Strict()),
}
POSITIVE = (1.0, 0.5, 2.0, 3.0, 2.5, 40.0, 1e-30, 1e30)
NEGATIVE = tuple(-x for x in POSITIVE)
ODD, EVEN, FRACTION = (1.0, 3.0, 5.0), (2.0, 4.0, 6.0), (0.5, 2.5, 1.5, 1e-30)
WORDS: dict[str, tuple[float, ...]] = {
    "positive": POSITIVE, "negative": NEGATIVE, "nonzero": POSITIVE + NEGATIVE,
    "finite": (*POSITIVE, *NEGATIVE, 0.0, -0.0), "above": (*POSITIVE, INF), "below": (*NEGATIVE, -INF),
    "number": (*POSITIVE, *NEGATIVE, 0.0, -0.0, INF, -INF), "any": (*POSITIVE, *NEGATIVE, 0.0, -0.0, INF, -INF, NAN),
    "odd": ODD, "even": EVEN, "fraction": FRACTION, "large": (2.0, -3.0, 1e30, INF, -INF),
    "small": (0.5, -0.25, 1e-30, 0.0, -0.0), "±0": (0.0, -0.0), "±inf": (INF, -INF), "±1": (1.0, -1.0),
}  # fmt: skip


def values(word: str) -> tuple[float, ...]:
    """The numbers that a word of an argument stands for."""
    if word in WORDS:
        return WORDS[word]
    if word[0] == "-" and word[1:] in WORDS:
        return tuple(-x for x in WORDS[word[1:]])
    return (number(word),)


def number(word: str) -> float:
    """A number as it is written: 3pi/4, -inf."""
    if "pi" in word:
        times, _, over = word.partition("pi")
        return float({"": 1, "-": -1}.get(times) or float(times)) * math.pi / float(over[1:] or 1)
    return float(word)


def wanted(word: str, x: float, y: float) -> tuple[float, bool]:
    """What a word of a result stands for, of these arguments, and whether its sign is left open."""
    if word[0] == "?":
        return number(word[1:]), True
    if word in ("|x|", "|y|", "-|x|"):
        return (-1 if word[0] == "-" else 1) * abs(x if "x" in word else y), False
    if word in ("x", "y"):
        return (x if word == "x" else y), False
    if "*" in word:
        factor, _, function = word.partition("*")
        return float(np.float64(number(factor)) * getattr(math, function)(y)), False
    return number(word), False


def cases(table: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Of each line the function, and the words of its arguments and of its result."""
    for line in table.strip().splitlines():
        given, _, found = line.partition(":")
        name, *arguments = given.split()
        yield name, arguments, found.split()


def same(found: Any, wanted_: float, open_sign: bool, tight: float) -> bool:
    """Whether a number is the one that is wanted, with its sign, to so many ulps if it is an approximation."""
    found = float(found)
    if math.isnan(wanted_) or math.isnan(found):
        return math.isnan(wanted_) and math.isnan(found)
    if open_sign:
        found, wanted_ = abs(found), abs(wanted_)
    if math.copysign(1, found) != math.copysign(1, wanted_):
        return False
    return found == wanted_ or (math.isfinite(wanted_) and math.isclose(found, wanted_, rel_tol=tight))


def grouped(table: str) -> dict[str, list[tuple[tuple[float, ...], list[str]]]]:
    """By function: arguments, and the words of the result."""
    found: dict[str, list[tuple[tuple[float, ...], list[str]]]] = {}
    for name, arguments, result in cases(table):
        rows = found.setdefault(name, [])
        rows += [(each, result) for each in itertools.product(*map(values, arguments))]
    return found


REAL, COMPLEX = grouped(special_cases.REAL), grouped(special_cases.COMPLEX)
by_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


def check_parts(name: str, rows: Any, found: Any) -> None:
    """Each element against what is wanted of it: a number, or two parts."""
    tight = 4 * float(np.finfo(found.dtype).eps) if found.dtype.kind in "fc" else 0.0
    wrong = []
    for (arguments, words), each in zip(rows, found.tolist() if found.dtype.kind == "b" else found, strict=True):
        x, y = (*arguments, NAN)[:2]
        parts = (each,) if len(words) == 1 else (each.real, each.imag)
        if not all(same(p, *wanted(w, x, y), tight) for p, w in zip(parts, words, strict=True)):
            wrong.append(f"{name}{arguments}: {each}, wanted {' '.join(words)}")
    assert not wrong, f"{len(wrong)} of {len(rows)}:\n" + "\n".join(wrong[:20])


def columns(rows: Any, dtype: str) -> list[Any]:
    return [np.array(each, dtype) for each in zip(*(arguments for arguments, _ in rows), strict=True)]


def held(rows: Any, dtype: str) -> Any:
    """The rows as the dtype rounds their arguments."""
    rounded = zip(*(c.tolist() for c in columns(rows, dtype)), strict=True)
    return [(arguments, words) for arguments, (_, words) in zip(rounded, rows, strict=True)]


@by_stack
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", REAL)
def test_real_numbers(stack: Any, name: str, dtype: str) -> None:
    rows = held(REAL[name], dtype)
    xp = stack.array_api
    with np.errstate(all="ignore"):
        check_parts(name, rows, getattr(xp, name)(*map(xp.asarray, columns(rows, dtype))).numpy())


def joined(real: Any, imag: Any, dtype: str) -> Any:
    found = np.empty(real.shape, dtype)
    found.real, found.imag = real, imag
    return found


@by_stack
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers(stack: Any, name: str, dtype: str) -> None:
    part = "float32" if dtype == "complex64" else "float64"
    rows = held(COMPLEX[name], part)
    with np.errstate(all="ignore"):
        found = getattr(stack.array_api, name)(stack.asarray(joined(*columns(rows, part), dtype))).numpy()
        check_parts(name, rows, found)


# --- one function's cases from another's ------------------------------------------------------------------

PARTS = np.array(WORDS["any"])
EVERY = joined(*(each.reshape(-1) for each in np.meshgrid(PARTS, PARTS)), "complex128")


def computed(stack: Any, name: str, x: Any) -> Any:
    with np.errstate(all="ignore"):
        return getattr(stack.array_api, name)(stack.asarray(x)).numpy()


def agree(name: str, x: Any, found: Any, expected: Any) -> None:
    """Parts and their signs, but for those of what is NaN or left open."""
    wrong = []
    for z, a, b in zip(x, found, expected, strict=True):
        pairs = [(a.real, b.real), (a.imag, b.imag)]
        if b != b:  # the standard leaves the sign of what stands beside NaN open
            pairs = [(abs(p), abs(q)) for p, q in pairs]
        for mine, theirs in pairs:
            if not (mine == theirs or (mine != mine and theirs != theirs) or math.isclose(mine, theirs, rel_tol=1e-14)):
                wrong.append(f"{name}({z}): {a}, wanted {b}")
    assert not wrong, f"{len(wrong)} of {2 * len(x)}:\n" + "\n".join(wrong[:20])


@by_stack
@pytest.mark.parametrize("name", special_cases.CONJUGATED)
def test_functions_of_conjugates_are_conjugates(stack: Any, name: str) -> None:
    agree(name, EVERY.conj(), computed(stack, name, EVERY.conj()), computed(stack, name, EVERY).conj())


@by_stack
@pytest.mark.parametrize("name", special_cases.ODD)
def test_odd_functions(stack: Any, name: str) -> None:
    agree(name, -EVERY, computed(stack, name, -EVERY), -computed(stack, name, EVERY))


def quarter(z: Any, turns: int) -> Any:
    """Times j, so many times: parts change places, and one of them its sign."""
    for _ in range(turns):
        z = joined(-z.imag, z.real.copy(), "complex128")
    return z


@by_stack
@pytest.mark.parametrize(("name", "other"), special_cases.TURNED.items())
def test_circular_functions_are_hyperbolic_ones_of_what_is_turned(stack: Any, name: str, other: str) -> None:
    expected = computed(stack, other, quarter(EVERY, 1))
    agree(name, EVERY, computed(stack, name, EVERY), expected if name == "cos" else quarter(expected, 3))


@by_stack
@pytest.mark.parametrize(("name", "number"), special_cases.SCALED.items())
def test_logarithms_to_other_bases_are_natural_ones_divided(stack: Any, name: str, number: float) -> None:
    natural = computed(stack, "log", EVERY)
    expected = joined(natural.real / number, natural.imag / number, "complex128")
    agree(name, EVERY, computed(stack, name, EVERY), expected)


# --- operators, in place, and one number for all -----------------------------------------------------------


OPERATORS = {
    "add": (operator.add, operator.iadd), "subtract": (operator.sub, operator.isub),
    "multiply": (operator.mul, operator.imul), "divide": (operator.truediv, operator.itruediv),
    "floor_divide": (operator.floordiv, operator.ifloordiv), "remainder": (operator.mod, operator.imod),
    "pow": (operator.pow, operator.ipow),
}  # fmt: skip


@by_stack
@pytest.mark.parametrize(
    ("name", "form"),
    [(name, form) for name, forms in OPERATORS.items() for form in forms],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_operators_have_the_cases_of_their_functions(stack: Any, name: str, form: Callable[[Any, Any], Any]) -> None:
    """Beside a tensor, a tensor of rank 0, and a Python number."""
    rows, xp = REAL[name], stack.array_api
    by_second: dict[str, list[Any]] = {}
    for row in rows:
        by_second.setdefault(repr(row[0][1]), []).append(row)
    with np.errstate(all="ignore"):
        check_parts(name, rows, form(*map(xp.asarray, columns(rows, "float64"))).numpy())
        for some in by_second.values():
            left, right = columns(some, "float64")[0], some[0][0][1]
            for given in (xp.asarray(right), right):
                check_parts(name, some, form(xp.asarray(left), given).numpy())


@pytest.mark.parametrize("form", OPERATORS["add"])
def test_by_default_a_lazy_stack_drops_what_adds_zero(form: Callable[[Any, Any], Any]) -> None:
    """The one case that the default numerics do not keep: they allow another sign of a zero."""
    x = np.array([-0.0, 0.0, 1.0])
    signs = [np.signbit(stack.jit(lambda x: form(x, 0.0))(x).numpy()).tolist() for stack in (LAZY, EXACT)]
    assert signs == [[True, False, False], [False, False, False]]
