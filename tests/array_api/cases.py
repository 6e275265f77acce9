"""For every function of the standard: how arguments are drawn. Arrays are NumPy's; whoever calls converts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

Draw = Callable[[Any], Any]
Call = tuple[tuple[Any, ...], dict[str, Any]]
Case = Callable[[Draw], Call]

DTYPES = {
    "b": ("bool",),
    "i": ("int8", "int16", "int32", "int64"),
    "u": ("uint8", "uint16", "uint32", "uint64"),
    "f": ("float32", "float64"),
    "c": ("complex64", "complex128"),
}
POOLS: dict[str, Any] = {
    "b": [True, False],
    "i": [0, 1, -1, 2, 3, -5, 7, 100, -128, 127],
    "u": [0, 1, 2, 3, 7, 100, 127, 255],
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.7, -4.2, 1e-30, 1e30, np.inf, -np.inf, np.nan],
    "c": [0j, 1 + 0j, -1 + 0j, 1j, 0.5 - 2j, -3 + 0.25j, 2.5 + 1j],
}
PLAIN = {**POOLS, "f": [0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 3.7, -4.2]}
NUMERIC, REAL, INTEGRAL, FLOATING, ANY = "iufc", "iuf", "iu", "fc", "biufc"


def shape(draw: Draw, least: int = 0, most: int = 3, side: int = 0) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.integers(side, 3), min_size=least, max_size=most)))


def array(draw: Draw, kinds: str, of: Any = None, pools: Any = POOLS, dtype: Any = None, **shapes: Any) -> Any:
    found = np.dtype(draw(st.sampled_from([d for k in kinds for d in DTYPES[k]]))) if dtype is None else np.dtype(dtype)
    extents = shape(draw, **shapes) if of is None else of
    size = int(np.prod(extents))
    elements = draw(st.lists(st.sampled_from(pools[found.kind]), min_size=size, max_size=size))
    with np.errstate(all="ignore"):
        return np.array(elements, found).reshape(extents)


def axis_of(draw: Draw, x: Any) -> int:
    return draw(st.integers(-x.ndim, x.ndim - 1))


def axes_of(draw: Draw, x: Any) -> Any:
    if x.ndim == 0:
        return draw(st.sampled_from([None, ()]))
    some = st.lists(st.integers(0, x.ndim - 1), unique=True, max_size=x.ndim).map(tuple)
    return draw(st.one_of(st.none(), st.integers(-x.ndim, x.ndim - 1), some))


# --- kinds of functions -----------------------------------------------------------------------------------------


def unary(kinds: str) -> Case:
    return lambda draw: ((array(draw, kinds),), {})


def narrowed(draw: Draw, of: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to this one."""
    kept = of[draw(st.integers(0, len(of))) :]
    return tuple(1 if draw(st.booleans()) else n for n in kept)


def binary(kinds: str, pools: Any = POOLS, second: Any = None) -> Case:
    def case(draw: Draw) -> Call:
        a = array(draw, kinds, pools=pools)
        kind = a.dtype.kind
        among = "iu" if kind in "iu" and a.dtype != "uint64" else kind
        b = array(draw, among, narrowed(draw, a.shape), pools=second or pools)
        if a.dtype.kind == "i" and b.dtype == "uint64":
            b = b.astype("int64")
        if draw(st.booleans()) and draw(st.booleans()):
            number = draw(st.sampled_from((second or pools)[kind]))
            limits = np.iinfo(a.dtype) if kind in "iu" else None
            if limits is None or limits.min <= number <= limits.max:
                return (a, number), {}
        return ((a, b) if second or draw(st.booleans()) else (b, a)), {}

    return case


def reduction(kinds: str, least: int = 0, **more: Any) -> Case:
    def case(draw: Draw) -> Call:
        x = array(draw, kinds, pools=PLAIN, side=least)
        keywords = {"axis": axes_of(draw, x), "keepdims": draw(st.booleans())}
        return (x,), keywords | {k: draw(st.sampled_from(v)) for k, v in more.items()}

    return case


def of_axis(kinds: str = ANY, least: int = 0, optional: bool = False, **more: Any) -> Case:
    def case(draw: Draw) -> Call:
        x = array(draw, kinds, pools=PLAIN, least=1, side=least)
        axis = None if optional and x.ndim == 1 and draw(st.booleans()) else axis_of(draw, x)
        return (x,), {"axis": axis} | {k: draw(st.sampled_from(v)) for k, v in more.items()}

    return case


def matrices(square: bool = False, kinds: str = FLOATING, right: Any = None, **more: Any) -> Case:
    def case(draw: Draw) -> Call:
        batch = shape(draw, most=1, side=1)
        n, m = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        found = array(draw, kinds, (*batch, n, n if square else m), pools=PLAIN)
        if square:  # well conditioned
            found = (found * found.dtype.type(0.125) + np.eye(n, dtype=found.dtype) * 4).astype(found.dtype)
        args: tuple[Any, ...] = (found,)
        if right is not None:
            args += (right(draw, found),)
        return args, {k: draw(st.sampled_from(v)) for k, v in more.items()}

    return case


def definite(draw: Draw) -> Any:
    (found,), _ = matrices(square=True)(draw)
    return ((found + np.conj(found.mT)) / 2).astype(found.dtype)


def transform(name: str) -> Case:
    def case(draw: Draw) -> Call:
        kinds = {"rfft": "f", "ihfft": "f", "rfftn": "f"}.get(name, "c")
        x = array(draw, kinds, pools=PLAIN, least=1, side=1)
        least = 2 if name in ("irfft", "hfft", "irfftn") else 1
        norm = {"norm": draw(st.sampled_from(["backward", "ortho", "forward"]))}
        if not name.endswith("n"):
            return (x,), {"axis": axis_of(draw, x), "n": draw(st.sampled_from([None, 2, 3, 5])), **norm} | (
                {"n": 4} if least == 2 else {}
            )
        axes = tuple(draw(st.lists(st.integers(0, x.ndim - 1), unique=True, min_size=1, max_size=x.ndim)))
        s = tuple(draw(st.sampled_from([2, 3, 4])) for _ in axes)
        return (x,), {"s": s, "axes": axes, **norm}

    return case


def together(draw: Draw) -> Any:
    """Arrays that can be joined: a list of them, and the axis."""
    x = array(draw, ANY, least=1)
    axis = axis_of(draw, x)
    others = []
    for _ in range(draw(st.integers(0, 2))):
        extents = list(x.shape)
        extents[axis] = draw(st.integers(0, 2))
        others.append(array(draw, ANY, tuple(extents), dtype=x.dtype))
    return [x, *others], axis


def fixed(*calls: Call) -> Case:
    return lambda draw: draw(st.sampled_from(calls))


def made(name: str) -> Case:
    """Of creation functions: dtypes, and what they are made with."""

    def case(draw: Draw) -> Call:
        dtype = draw(st.sampled_from([None, "float32", "int16", "complex64"]))
        keywords = {} if dtype is None else {"dtype": np.dtype(dtype)}
        of = shape(draw)
        match name:
            case "full":
                return (of, draw(st.sampled_from([3, True, 2.5] if dtype is None else [3]))), keywords
            case "full_like":
                return (array(draw, ANY, of), 1), keywords
            case "zeros_like" | "ones_like" | "empty_like":
                return (array(draw, ANY, of),), keywords
            case "eye":
                n, m = draw(st.integers(0, 4)), draw(st.one_of(st.none(), st.integers(0, 4)))
                return (n, m), {"k": draw(st.integers(-3, 3)), **keywords}
            case "linspace":
                chosen = {} if dtype == "int16" else keywords
                return (draw(st.integers(-3, 3)), draw(st.sampled_from([2, -4.5]))), {
                    "num": draw(st.integers(0, 5)), "endpoint": draw(st.booleans()), **chosen,
                }  # fmt: skip
            case "arange":
                args = draw(st.sampled_from([(4,), (1, 6), (1, 8, 3), (5, 0, -2), (0.0, 2.0, 0.5), (3, 1)]))
                whole = all(isinstance(a, int) for a in args)
                return args, {} if dtype == "complex64" or (dtype == "int16" and not whole) else keywords
        return (of,), keywords

    return case
