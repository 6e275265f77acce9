"""Dtypes of results: of each pair of dtypes, of Python's numbers on either side, in each form (`array_api`)."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from tests.array_api.cases import ANY, DTYPES, FLOATING, INTEGRAL, NUMERIC, REAL
from tests.array_api.functions import CASES
from tests.array_api.test_conformance import agree, found_in, plain, with_arrays

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
BOTH = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
EVERY = tuple(d for k in ANY for d in DTYPES[k])

UNARY = {
    **dict.fromkeys(("abs", "negative", "positive", "sign", "square", "round", "isfinite", "isinf", "isnan"), NUMERIC),
    **dict.fromkeys(("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1"), FLOATING),
    **dict.fromkeys(("log", "log1p", "log2", "log10", "sin", "sinh", "sqrt", "tan", "tanh", "reciprocal"), FLOATING),
    **dict.fromkeys(("ceil", "floor", "trunc"), REAL), "conj": NUMERIC, "real": NUMERIC, "imag": "c",
    "signbit": "f", "logical_not": "b", "bitwise_invert": "biu",
}  # fmt: skip
BINARY = {
    **dict.fromkeys(("add", "subtract", "multiply", "pow"), NUMERIC), "divide": FLOATING,
    **dict.fromkeys(("equal", "not_equal"), ANY), **dict.fromkeys(("floor_divide", "remainder"), REAL),
    **dict.fromkeys(("less", "less_equal", "greater", "greater_equal", "maximum", "minimum"), REAL),
    **dict.fromkeys(("atan2", "copysign", "hypot", "logaddexp", "nextafter"), "f"),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), "biu"),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), INTEGRAL),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), "b"),
}  # fmt: skip
OPERATORS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "floor_divide": "floordiv",
    "remainder": "mod", "pow": "pow", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
    "bitwise_left_shift": "lshift", "bitwise_right_shift": "rshift", "equal": "eq", "not_equal": "ne",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "negative": "neg",
    "positive": "pos", "abs": "abs", "bitwise_invert": "invert",
}  # fmt: skip

# --- numbers ------------------------------------------------------------------------------------------------

TAME = (1.0, -1.0, 0.5, -2.5, 3.75, 100.0)
PYTHONS: dict[str, tuple[Any, ...]] = {"b": (True, False), "i": (1, 3), "f": (0.5, 2.5), "c": (1 + 2j, 0.5j)}
ABOVE = {"b": "b", "i": "i", "u": "i", "f": "if", "c": "ifc"}
"""The kinds of Python's numbers that stand beside each kind of dtype."""


def numbers(dtype: str, tame: bool = False) -> Any:
    """Numbers of a dtype, out to where it ends; tame ones are those at which the standard and NumPy agree."""
    kind, given = np.dtype(dtype).kind, np.dtype(dtype)
    if kind == "b":
        return np.array([True, False])
    if kind in "iu":
        ends = np.iinfo(given)
        small = range(-3, 8) if kind == "i" else range(8)
        return np.array([ends.min, ends.min + 1, *small, 100, ends.max - 1, ends.max], given)
    if kind == "c":
        return np.array([complex(a, b) for a in TAME[:4] for b in (0.0, 1.0, -2.5)], given)
    limits = np.finfo(given)
    wild = (0.0, -0.0, limits.max, limits.smallest_normal, 1e-3, np.inf, -np.inf, np.nan)
    return np.array(TAME if tame else (*TAME, *wild), given)


def second(name: str, dtype: str) -> Any:
    """What stands on the right: no negative shifts and whole powers, no division of whole numbers by zero."""
    found = numbers(dtype, name in SPECIAL)
    if found.dtype.kind not in "iu":
        return found
    match name:
        case "bitwise_left_shift" | "bitwise_right_shift" | "pow":
            return found[(found >= 0) & (found <= 100)]
        case "floor_divide" | "remainder":
            return found[found != 0]
    return found


SPECIAL = ("floor_divide", "remainder", "pow")  # of what is infinite see test_special_cases


def promotable(kinds: str) -> Iterator[tuple[str, str]]:
    """Pairs of dtypes that the standard promotes: of one kind, integers of both signs where there is room."""
    for one, other in itertools.product(EVERY, repeat=2):
        if {np.dtype(one).kind, np.dtype(other).kind} <= {*kinds} and promoted(one, other) is not None:
            yield one, other


def promoted(*dtypes: str) -> Any:
    try:
        return plain(strict.result_type(*(getattr(strict, d) for d in dtypes)))
    except TypeError:
        return None


# --- one function of all dtypes -------------------------------------------------------------------------------


def forms(name: str) -> list[Callable[[Any, Any], Callable[..., Any]]]:
    """The function, its operator, and that in place: of a namespace, and of whether the left dtype is the result's."""
    found: list[Callable[[Any, Any], Callable[..., Any]]] = [lambda xp, _: getattr(xp, name)]
    if name in OPERATORS:
        word = OPERATORS[name]
        plain_form = getattr(operator, f"__{word}__")
        found.append(lambda xp, _: plain_form)
        if (in_place := getattr(operator, f"__i{word}__", None)) and word != "invert":
            found.append(lambda xp, stays: in_place if stays else plain_form)
    return found


def check_all(stack: Any, name: str, calls: list[tuple[Any, ...]]) -> None:
    """Each form of each call eagerly; lazily, in one program, each call in one of its forms."""
    xp, ways = stack.array_api, forms(name)
    with np.errstate(all="ignore"):
        wanted = [plain(getattr(strict, name)(*(with_arrays(strict, a) for a in call))) for call in calls]
        stays = [isinstance(c[0], np.ndarray) and w.dtype == c[0].dtype for c, w in zip(calls, wanted, strict=True)]
        rounds = [[way(xp, s) for s in stays] for way in ways]
        if stack is STACKS["lazy"]:
            rounds = [[rounds[k % len(ways)][k] for k in range(len(calls))]]
        for chosen in rounds:
            arrays = [a for call in calls for a in call if isinstance(a, np.ndarray)]

            def program(*given: Any, chosen: Any = chosen) -> Any:
                left = iter(given)
                return tuple(
                    f(*(next(left) if isinstance(a, np.ndarray) else a for a in call))
                    for f, call in zip(chosen, calls, strict=True)
                )

            run = stack.jit(program) if stack is STACKS["lazy"] else program
            found = run(*map(xp.asarray, arrays))
            for call, a, b in zip(calls, found, wanted, strict=True):
                try:
                    agree(name, plain(a), b)
                except AssertionError as error:
                    raise AssertionError(f"{name} of {call}: {error}") from None


@BOTH
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_on_every_dtype(stack: Any, name: str) -> None:
    check_all(stack, name, [(numbers(d),) for k in UNARY[name] for d in DTYPES[k]])


@BOTH
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_on_every_pair_of_dtypes(stack: Any, name: str) -> None:
    pairs = promotable(BINARY[name])
    check_all(stack, name, [(numbers(a, name in SPECIAL)[:, None], second(name, b)) for a, b in pairs])


@BOTH
@pytest.mark.parametrize("name", BINARY)
def test_pythons_numbers_on_either_side_keep_the_dtype(stack: Any, name: str) -> None:
    calls: list[tuple[Any, ...]] = []
    for dtype in (d for k in BINARY[name] for d in DTYPES[k]):
        kind = np.dtype(dtype).kind
        for number in (n for k in ABOVE[kind] if k in BINARY[name] or k == "i" for n in PYTHONS[k]):
            calls += [(numbers(dtype, name in SPECIAL), number), (number, second(name, dtype))]
            calls += [(numbers(dtype, name in SPECIAL)[0], number)]
    check_all(stack, name, [tuple(np.asarray(a) if isinstance(a, np.generic) else a for a in call) for call in calls])


# --- functions of several arrays --------------------------------------------------------------------------------

SEVERAL = (
    "concat", "stack", "where", "isin", "matmul", "tensordot", "vecdot", "linalg.matmul", "linalg.tensordot",
    "linalg.vecdot", "linalg.outer", "linalg.cross", "linalg.solve", "broadcast_arrays",
)  # fmt: skip


def recast(draw: Any, arrays: list[Any]) -> list[Any]:
    """The same arrays in other dtypes, which can be promoted together."""
    groups = {"b": "b", "i": "iu", "u": "iu", "f": "fc", "c": "fc"}
    among = {groups[a.dtype.kind] for a in arrays}
    pool = [d for k in among.pop() for d in DTYPES[k]] if len(among) == 1 else list(EVERY)
    chosen = [draw(st.sampled_from(pool)) for _ in arrays]
    if promoted(*chosen) is None:
        chosen = [chosen[0]] * len(arrays)
    with np.errstate(all="ignore"):
        return [
            (a.real if a.dtype.kind == "c" and np.dtype(d).kind != "c" else a).astype(d)
            for a, d in zip(arrays, chosen, strict=True)
        ]


@BOTH
@pytest.mark.parametrize("name", SEVERAL)
@settings(max_examples=max(3, settings().max_examples // 5))
@given(data=st.data())
def test_functions_of_several_arrays_promote(stack: Any, name: str, data: Any) -> None:
    args, keywords = CASES[name](data.draw)
    if name in ("concat", "stack"):
        args = (recast(data.draw, args[0]),)
    else:
        at = 1 if name == "where" else 0
        args = (*args[:at], *recast(data.draw, [np.asarray(a) for a in args[at:]]))
    oracle = np if name == "isin" else strict  # theirs does not hear of invert
    with np.errstate(all="ignore"):
        found, wanted = (
            plain(found_in(xp, name)(*(with_arrays(xp, a) for a in args), **keywords))
            for xp in (stack.array_api, oracle)
        )
        agree(name + ".", found, wanted)


@BOTH
def test_a_choice_may_be_a_number(stack: Any) -> None:
    xp, mask = stack.array_api, np.array([[True], [False]])
    for dtype in EVERY:
        x, number = numbers(dtype), PYTHONS[ABOVE[np.dtype(dtype).kind][-1]][0]
        for args in ((mask, x, number), (mask, number, x)):
            found, wanted = (plain(n.where(*(with_arrays(n, a) for a in args))) for n in (xp, strict))
            agree("where", found, wanted)


@BOTH
def test_meshes_have_their_vectors_dtype(stack: Any) -> None:
    for dtype in EVERY[1:]:
        vectors = [numbers(dtype)[:n] for n in (2, 3, 1)]
        for indexing in ("xy", "ij"):
            found, wanted = (
                plain(xp.meshgrid(*(with_arrays(xp, v) for v in vectors), indexing=indexing))
                for xp in (stack.array_api, strict)
            )
            agree("meshgrid", found, wanted)


# --- sums and products in a dtype ---------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod", "linalg.trace"])
def test_sums_and_products_of_every_dtype_in_every_other(stack: Any, name: str) -> None:
    function, oracle = found_in(stack.array_api, name), found_in(strict, name)
    keywords: dict[str, Any] = {"axis": 1} if name.startswith("cumulative") else {}
    wanted = [(d, None) for d in EVERY[1:]] + [(a, b) for a, b in promotable(NUMERIC) if promoted(a, b) == b]
    if stack is STACKS["lazy"]:
        wanted = wanted[::4]
    for dtype, into in wanted:
        x = np.array([[1, 2, 3], [5, 7, 100]], dtype)
        found, theirs = (
            plain(f(with_arrays(xp, x), dtype=into and getattr(xp, into), **keywords))
            for f, xp in ((function, stack.array_api), (oracle, strict))
        )
        agree(name, found, theirs)
