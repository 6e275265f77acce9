"""A way to draw arguments for each function of the standard, by name: `CASES`; the ways are those of `cases.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.array_api.cases import (
    ANY,
    FLOATING,
    INTEGRAL,
    NUMERIC,
    PLAIN,
    REAL,
    Call,
    Case,
    Draw,
    array,
    axes_of,
    axis_of,
    binary,
    definite,
    fixed,
    made,
    matrices,
    narrowed,
    of_axis,
    reduction,
    shape,
    together,
    transform,
    unary,
)

INDICES = "int64"


def _broadcast_to(draw: Draw) -> Call:
    of = shape(draw)
    return (array(draw, ANY, narrowed(draw, of)), of), {}


def _several(draw: Draw) -> Call:
    of = shape(draw)
    return tuple(array(draw, ANY, narrowed(draw, of)) for _ in range(draw(st.integers(1, 3)))), {}


def _joined(draw: Draw) -> Call:
    arrays, axis = together(draw)
    return (arrays,), {"axis": None if draw(st.integers(0, 4)) == 0 else axis}


def _stacked(draw: Draw) -> Call:
    x = array(draw, ANY, most=2)
    arrays = [x, *(array(draw, ANY, x.shape, dtype=x.dtype) for _ in range(draw(st.integers(0, 2))))]
    return (arrays,), {"axis": draw(st.integers(-x.ndim - 1, x.ndim))}


def _reshaped(draw: Draw) -> Call:
    x = array(draw, ANY, side=1)
    return (x, draw(st.permutations(x.shape).map(tuple) | st.sampled_from([(-1,), (1, -1), (x.size, 1)]))), {}


def _squeezed(draw: Draw) -> Call:
    x = np.expand_dims(array(draw, ANY, most=2), 0)
    return (x, draw(st.sampled_from([0, (0,), -x.ndim]))), {}


def _moved(draw: Draw) -> Call:
    x = array(draw, ANY, least=1)
    count = draw(st.integers(1, x.ndim))
    found = tuple(tuple(draw(st.permutations(range(x.ndim)))[:count]) for _ in range(2))
    return (x, *(found if draw(st.booleans()) else (axis_of(draw, x), axis_of(draw, x)))), {}


def _rolled(draw: Draw) -> Call:
    x = array(draw, ANY, least=1)
    axis = draw(st.sampled_from([None, 0, -1, (0,)]))
    return (x, (draw(st.integers(-4, 4)),) if isinstance(axis, tuple) else draw(st.integers(-4, 4))), {"axis": axis}


def _repeated(draw: Draw) -> Call:
    x = array(draw, ANY, least=1)
    axis = draw(st.one_of(st.none(), st.just(axis_of(draw, x))))
    n = x.size if axis is None else x.shape[axis]
    one_by_one = array(draw, "i", (n,), {"i": [0, 1, 2]}, INDICES)
    return (x, one_by_one if draw(st.booleans()) else draw(st.integers(0, 3))), {"axis": axis}


def _tiled(draw: Draw) -> Call:
    x = array(draw, ANY, most=2)
    return (x, tuple(draw(st.lists(st.integers(0, 2), max_size=3)))), {}


def _taken(draw: Draw) -> Call:
    x = array(draw, ANY, least=1, side=1)
    axis = axis_of(draw, x)
    indices = array(draw, "i", (draw(st.integers(0, 3)),), {"i": range(-x.shape[axis], x.shape[axis])}, INDICES)
    return (x, indices), {"axis": axis}


def _taken_along(draw: Draw) -> Call:
    x = array(draw, ANY, least=1, side=1)
    axis = axis_of(draw, x)
    extents = list(x.shape)
    extents[axis] = draw(st.integers(0, 3))
    return (x, array(draw, "i", tuple(extents), {"i": range(x.shape[axis])}, INDICES)), {"axis": axis}


def _searched(draw: Draw) -> Call:
    numbers = sorted(draw(st.lists(st.integers(-5, 5), max_size=5)))
    of = np.array(numbers, draw(st.sampled_from(["int32", "float64"])))
    keywords: dict[str, Any] = {"side": draw(st.sampled_from(["left", "right"]))}
    if draw(st.booleans()):
        order = np.array(draw(st.permutations(range(len(of)))), np.int64)
        back = np.argsort(order)
        of, keywords["sorter"] = of[order], back
    return (of, array(draw, "i", pools=PLAIN, dtype=of.dtype, most=2)), keywords


def _clipped(draw: Draw) -> Call:
    x = array(draw, REAL)
    kind = x.dtype.kind
    low, high = (draw(st.sampled_from([None, {"i": n, "u": abs(n), "f": float(n)}[kind]])) for n in (-1, 3))
    if low is not None and draw(st.booleans()):
        low = np.full(narrowed(draw, x.shape), low, x.dtype)
    return (x, low, high), {}


def _chosen(draw: Draw) -> Call:
    (a, b), _ = binary(NUMERIC)(draw)
    return (array(draw, "b", narrowed(draw, np.shape(a))), a, b), {}


def _differences(draw: Draw) -> Call:
    x = array(draw, NUMERIC, least=1, pools=PLAIN)
    axis = axis_of(draw, x)
    keywords: dict[str, Any] = {"axis": axis, "n": draw(st.integers(0, 2))}
    for name in ("prepend", "append"):
        if draw(st.booleans()):
            extents = list(x.shape)
            extents[axis] = draw(st.integers(0, 2))
            keywords[name] = array(draw, NUMERIC, tuple(extents), PLAIN, x.dtype)
    return (x,), keywords


def _product(draw: Draw) -> Call:
    a = array(draw, NUMERIC, pools=PLAIN, least=1, side=1)
    n, batch = a.shape[-1], a.shape[:-2]
    of = draw(st.sampled_from([(n,), (n, 2), (*batch, n, 1), (2, n, 2) if a.ndim < 3 else (n, 3)]))
    return (a, array(draw, NUMERIC, of, PLAIN, a.dtype)), {}


def _contracted(draw: Draw) -> Call:
    a = array(draw, NUMERIC, pools=PLAIN, least=1, side=1)
    axes = draw(st.integers(0, a.ndim))
    b = array(draw, NUMERIC, (*a.shape[a.ndim - axes :], 2), PLAIN, a.dtype)
    named = (tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes)))
    return (a, b), {"axes": draw(st.sampled_from([axes, named]))}


def _dotted(draw: Draw) -> Call:
    a = array(draw, NUMERIC, pools=PLAIN, least=1, side=1)
    return (a, array(draw, NUMERIC, a.shape[-draw(st.integers(1, a.ndim)) :], PLAIN, a.dtype)), {"axis": -1}


def _crossed(draw: Draw) -> Call:
    of = [*shape(draw, most=2)]
    at = draw(st.integers(0, len(of)))
    of.insert(at, 3)
    a, b = (array(draw, NUMERIC, tuple(of), PLAIN, d) for d in [array(draw, NUMERIC, ()).dtype] * 2)
    return (a, b), {"axis": at - len(of)}


def _solved(draw: Draw, a: Any) -> Any:
    n = a.shape[-1]
    return array(draw, FLOATING, draw(st.sampled_from([(n,), (*a.shape[:-1], 2)])), PLAIN, a.dtype)


def _ranked(draw: Draw) -> Call:
    (x,), _ = matrices()(draw)
    return (x,), draw(st.sampled_from([{}, {"rtol": 1e-3}]))


def _power(draw: Draw) -> Call:
    (x,), _ = matrices(square=True)(draw)
    return (x, draw(st.integers(-2, 4))), {}


def _vector_norm(draw: Draw) -> Call:
    x = array(draw, FLOATING, pools=PLAIN, side=1)
    ord = draw(st.sampled_from([2, 1, 0, np.inf, -np.inf, 3, 0.5, -1, -2, -0.5, 20]))
    return (x,), {"axis": axes_of(draw, x), "keepdims": draw(st.booleans()), "ord": ord}


def _matrix_norm(draw: Draw) -> Call:
    (x,), _ = matrices()(draw)
    ord = draw(st.sampled_from(["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf]))
    return (x,), {"keepdims": draw(st.booleans()), "ord": ord}


def _permuted(draw: Draw) -> Call:
    x = array(draw, ANY)
    return (x, tuple(draw(st.permutations(range(x.ndim))))), {}


def _shifted(draw: Draw) -> Call:
    x = array(draw, FLOATING, least=1)
    return (x,), {"axes": draw(st.sampled_from([None, 0, (0,), tuple(range(x.ndim))]))}


def _dtype(draw: Draw, kinds: str) -> Any:
    return array(draw, kinds, ()).dtype


def _cast(draw: Draw) -> Call:
    x = array(draw, "biuf", pools=PLAIN | {"f": [0.0, 1.0, 2.5, 100.0], "i": [0, 1, 7], "u": [0, 1, 7]})
    return (x, _dtype(draw, ANY)), {"copy": draw(st.booleans())}


def _dtypes_of_a_kind(draw: Draw) -> Call:
    kinds = draw(st.sampled_from(["b", "i", "u", "f", "c", "fc"]))
    return tuple(_dtype(draw, kinds) for _ in range(draw(st.integers(1, 3)))), {}


KIND = ["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"]
WAYS = {"descending": [False, True], "stable": [False, True]}
INITIAL = {"include_initial": [False, True]}
FREQUENCIES = ((5,), {}), ((4,), {"d": 0.5}), ((1,), {"dtype": np.dtype("float32")})
CORRECTION = {"correction": [0.0, 1, 0.5]}
SIDES = st.sampled_from([*KIND, ("integral", "bool")])
SHIFTS = {"i": [0, 1, 3, 5], "u": [0, 1, 3, 5]}
POWERS = {**PLAIN, "i": [0, 1, 2, 3], "u": [0, 1, 2], "f": [0.0, 1.0, 2.0, -1.0, 0.5, np.inf, np.nan]}
DIVISORS = {"i": [1, 2, -3, 7], "u": [1, 2, 7], "f": [1.0, -2.0, 0.5, 3.7, np.inf, np.nan, 0.0, -0.0]}

CASES: dict[str, Case] = {
    **{n: unary(NUMERIC) for n in ("abs", "negative", "positive", "sign", "square", "isfinite", "isinf", "isnan")},
    **{n: unary(FLOATING) for n in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1")},
    **{n: unary(FLOATING) for n in ("log", "log1p", "log2", "log10", "sin", "sinh", "sqrt", "tan", "tanh")},
    **{n: unary(REAL) for n in ("ceil", "floor", "trunc")},
    "round": unary(NUMERIC), "reciprocal": unary(FLOATING), "signbit": unary("f"), "bitwise_invert": unary("biu"),
    "conj": unary(NUMERIC), "imag": unary("c"), "real": unary(NUMERIC), "logical_not": unary("b"),
    **{n: binary(NUMERIC) for n in ("add", "subtract", "multiply")},
    **{n: binary(ANY) for n in ("equal", "not_equal")},
    **{n: binary(REAL) for n in ("less", "less_equal", "greater", "greater_equal", "maximum", "minimum")},
    **{n: binary("f") for n in ("atan2", "copysign", "hypot", "logaddexp", "nextafter")},
    **{n: binary("biu") for n in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    **{n: binary(INTEGRAL, second=SHIFTS) for n in ("bitwise_left_shift", "bitwise_right_shift")},
    **{n: binary("b") for n in ("logical_and", "logical_or", "logical_xor")},
    **{n: binary(REAL, second=DIVISORS) for n in ("floor_divide", "remainder")},
    "divide": binary(FLOATING), "pow": binary(NUMERIC, pools=PLAIN, second=POWERS), "clip": _clipped,
    **{n: made(n) for n in ("zeros", "ones", "empty", "full", "eye", "arange", "linspace")},
    **{n: made(n) for n in ("zeros_like", "ones_like", "empty_like", "full_like")},
    "asarray": lambda draw: ((array(draw, ANY),), {"copy": draw(st.sampled_from([None, True]))}),
    "from_dlpack": lambda draw: ((array(draw, ANY),), {}),
    "meshgrid": lambda draw: (
        tuple(array(draw, "f", (draw(st.integers(0, 3)),), dtype="float32") for _ in range(draw(st.integers(1, 3)))),
        {"indexing": draw(st.sampled_from(["xy", "ij"]))},
    ),
    "tril": matrices(k=[-2, -1, 0, 1, 2]), "triu": matrices(k=[-2, -1, 0, 1, 2]),
    "astype": _cast, "can_cast": lambda draw: ((_dtype(draw, "iu"), _dtype(draw, "iu")), {}),
    "finfo": lambda draw: ((_dtype(draw, "fc"),), {}), "iinfo": lambda draw: ((_dtype(draw, "iu"),), {}),
    "isdtype": lambda draw: ((_dtype(draw, ANY), draw(SIDES)), {}), "result_type": _dtypes_of_a_kind,
    "broadcast_to": _broadcast_to, "broadcast_arrays": _several,
    "broadcast_shapes": fixed((((2, 1), (3,)), {}), (((),), {}), (((0, 1), (1, 4), (4,)), {})),
    "concat": _joined, "stack": _stacked, "unstack": of_axis(), "squeeze": _squeezed, "reshape": _reshaped,
    "expand_dims": lambda draw: ((x := array(draw, ANY, most=2),), {"axis": draw(st.integers(-x.ndim - 1, x.ndim))}),
    "flip": lambda draw: ((x := array(draw, ANY),), {"axis": axes_of(draw, x)}),
    "moveaxis": _moved, "permute_dims": _permuted, "matrix_transpose": matrices(kinds=ANY), "roll": _rolled,
    "repeat": _repeated, "tile": _tiled, "take": _taken, "take_along_axis": _taken_along,
    **{n: of_axis(REAL, least=1, keepdims=[False, True]) for n in ("argmax", "argmin")},
    "count_nonzero": reduction(ANY), "nonzero": lambda draw: ((array(draw, ANY, least=1),), {}),
    "searchsorted": _searched, "where": _chosen,
    "sort": of_axis(REAL, **WAYS), "argsort": of_axis(REAL, descending=[False, True]),
    **{n: lambda draw: ((array(draw, "biuf", most=2),), {}) for n in ("unique_all", "unique_counts", "unique_inverse")},
    "unique_values": lambda draw: ((array(draw, "biuf", most=2),), {}),
    "isin": lambda draw: (binary("iu")(draw)[0], {"invert": draw(st.booleans())}),
    "sum": reduction(NUMERIC, dtype=[None, None]), "prod": reduction(NUMERIC, dtype=[None, None]),
    "max": reduction(REAL, least=1), "min": reduction(REAL, least=1), "mean": reduction("fc", least=1),
    "any": reduction(ANY), "all": reduction(ANY),
    "std": reduction("f", least=1, **CORRECTION), "var": reduction("f", least=1, **CORRECTION),
    **{n: of_axis(NUMERIC, optional=True, **INITIAL) for n in ("cumulative_sum", "cumulative_prod")},
    "diff": _differences, "matmul": _product, "tensordot": _contracted, "vecdot": _dotted,
    "linalg.matmul": _product, "linalg.tensordot": _contracted, "linalg.vecdot": _dotted,
    "linalg.matrix_transpose": matrices(kinds=ANY), "linalg.cross": _crossed,
    "linalg.outer": lambda draw: (
        (x := array(draw, NUMERIC, pools=PLAIN, least=1, most=1), array(draw, NUMERIC, (2,), PLAIN, x.dtype)), {},
    ),
    "linalg.diagonal": matrices(kinds=ANY, offset=[-2, -1, 0, 1, 3]),
    "linalg.trace": matrices(kinds=NUMERIC, offset=[-2, -1, 0, 1, 3]),
    "linalg.cholesky": lambda draw: ((definite(draw),), {"upper": draw(st.booleans())}),
    **{f"linalg.{n}": matrices(square=True) for n in ("det", "inv", "slogdet")},
    "linalg.eigh": lambda draw: ((definite(draw),), {}), "linalg.eigvalsh": lambda draw: ((definite(draw),), {}),
    "linalg.matrix_norm": _matrix_norm, "linalg.vector_norm": _vector_norm, "linalg.matrix_power": _power,
    "linalg.matrix_rank": _ranked, "linalg.pinv": _ranked, "linalg.qr": matrices(mode=["reduced", "complete"]),
    "linalg.solve": matrices(square=True, right=_solved), "linalg.svd": matrices(full_matrices=[False, True]),
    "linalg.svdvals": matrices(),
    **{f"fft.{n}": transform(n) for n in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{f"fft.{n}": transform(n) for n in ("fftn", "ifftn", "rfftn", "irfftn")},
    **{f"fft.{n}": fixed(*FREQUENCIES) for n in ("fftfreq", "rfftfreq")},
    **{f"fft.{n}": _shifted for n in ("fftshift", "ifftshift")},
}  # fmt: skip
