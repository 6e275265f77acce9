"""check_operator passes what is right, and finds each facet that is wrong (`testing/operators`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attrs import evolve

import nnc_func as nnc
from nnc_func.facets import dtypes, shapes
from nnc_func.facets.boxes import Box
from nnc_func.facets.derivatives import Bilinear, Constant, Custom, Linear, partials
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.laws import commutative, idempotent, unit
from nnc_func.facets.samples import EXACT, Samples
from nnc_func.facets.views import Cost, Parts, View
from nnc_func.graph.ops import CATALOGUE
from nnc_func.testing import check_operator

FEW = 10


def _scaled(xp: Any, x: Any, *, by: float) -> Any:
    return xp.asarray(x * by)


def _scaled_into(xp: Any, arrays: Any, outs: Any, scratch: Any, *, by: float) -> None:
    xp.multiply(arrays[0], by, out=outs[0])


def declared(**facets: Any) -> Any:
    """x times a number, right but for the facets given."""
    right: dict[str, Any] = {
        "shape": shapes.same,
        "dtype": dtypes.first,
        "derivative": Linear(lambda o, g, x, *, by: o.multiply(g, by)),
        "kernels": (
            Kernel("in steps", compute=_scaled, into=_scaled_into, overwrites=(0,), namespaces=frozenset({"numpy"})),
            reference(_scaled, infallible=True),
        ),
        "onnx": "Mul",
        "tolerance": EXACT,
        "samples": Samples(dtypes=("float64", "float32"), min_rank=1),
    }

    @nnc.operator(**{**right, **facets})
    def scaled(x: Any, /, *, by: float = 2.0) -> Any:
        """The product with a number."""

    return scaled


def kernel(compute: Any = _scaled, into: Any = _scaled_into, **facts: Any) -> Any:
    """Kernels of which the first is given, the reference being right."""
    first = Kernel("own", compute=compute, into=into, namespaces=frozenset({"numpy"}), **facts)
    return (first, reference(_scaled, infallible=True))


def _reversed_into(xp: Any, arrays: Any, outs: Any, scratch: Any, *, by: float) -> None:
    outs[0][...] = 0  # reads its argument after it has written
    outs[0][...] = arrays[0] * by


def _with_rubbish(xp: Any, arrays: Any, outs: Any, scratch: Any, *, by: float) -> None:
    xp.multiply(arrays[0], by, out=outs[0])
    outs[0][...] += scratch[0].reshape(-1)[0] * 0


def _contiguous_into(xp: Any, arrays: Any, outs: Any, scratch: Any, *, by: float) -> None:
    np.ndarray(outs[0].shape, outs[0].dtype, outs[0].data if outs[0].flags.c_contiguous else bytearray(outs[0].nbytes))[
        ...
    ] = arrays[0] * by


def _in_order_of_memory(xp: Any, x: Any, *, by: float) -> Any:
    return np.ravel(x, order="K").reshape(x.shape) * by


def _slowly_drifting() -> Any:
    calls = iter(range(10**9))
    return lambda xp, x, *, by: x * by + next(calls)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "shape": ({"shape": lambda x, *, by: (*x, 1)}, "shape, dtype or layout"),
    "dtype": ({"dtype": lambda x, *, by: np.dtype("int64")}, "shape, dtype or layout"),
    "dtype that refuses": ({"samples": Samples(dtypes=("bool",)), "dtype": dtypes.numeric}, "samples, shape or dtype"),
    "layout": ({"layout": lambda avals, shape, **_: (0, 0, 0, 0, 0)}, "shape, dtype or layout"),
    "place": ({"place": lambda places, **_: "elsewhere"}, "place"),
    "compute": ({"kernels": kernel(lambda xp, x, *, by: x * by + 1e-3)}, "kernels .compute. or tolerance"),
    "compute that writes": ({"kernels": kernel(lambda xp, x, *, by: np.multiply(x, by, out=x))}, "compute.|view"),
    "into": ({"kernels": kernel(into=lambda xp, a, outs, s, *, by: np.add(a[0], by, out=outs[0]))}, "kernels .into"),
    "scratch": (
        {"kernels": kernel(into=_with_rubbish, scratch=lambda avals, **_: (((1,), np.dtype("float64")),))},
        "kernels .into, scratch.",
    ),
    "strided": ({"kernels": kernel(into=_contiguous_into, strided=True)}, "kernels .strided."),
    "arguments that are views": ({"kernels": kernel(_in_order_of_memory, None)}, "arguments that are views"),
    "overwrites": ({"kernels": kernel(into=_reversed_into, overwrites=(0,))}, "kernels .overwrites."),
    "view that copies": ({"view": View()}, "facet: view"),
    "view that is not told": (
        {"kernels": Kernel("view", compute=lambda xp, x, *, by: x), "derivative": Linear(lambda o, g, x, *, by: g)},
        "facet: view",
    ),
    "laws": ({"laws": (idempotent,)}, "facet: laws"),
    "pure": ({"kernels": reference(_slowly_drifting())}, "kernels .compute. or tolerance"),
    "parts": (
        {"parts": Parts(lambda given, result, *, by: [Box((0,) * len(result), result, (1,) * len(result))],
                        lambda *, by: 0)},
        "facet: parts",
    ),
    "cost": ({"cost": lambda args, made, **_: Cost(-1)}, "facet: cost"),
    "cost that fails": ({"cost": lambda args, made: Cost(1)}, "facet: cost"),
    "onnx": ({"onnx": None}, "onnx or derivative"),
    "partials": ({"derivative": partials(lambda o, y, x, *, by: by + 1)}, "facet: derivative"),
    "transpose": ({"derivative": Linear(lambda o, g, x, *, by: g)}, "facet: derivative"),
    "transpose that fails": ({"derivative": Linear(lambda o, g, x: g)}, "facet: derivative"),
    "tangent": (
        {"derivative": Custom(lambda o, ts, y, x, *, by: ts[0], (lambda o, g, y, x, *, by: o.multiply(g, by),))},
        "facet: derivative",
    ),
    "cotangent": (
        {"derivative": Custom(lambda o, ts, y, x, *, by: o.multiply(ts[0], by), (lambda o, g, y, x, *, by: g,))},
        "facet: derivative",
    ),
    "cotangent of another shape": (
        {"derivative": Linear(lambda o, g, x, *, by: o.sum(o.multiply(g, by)))},
        "facet: derivative",
    ),
    "constant": ({"derivative": Constant("it is said to be flat")}, "facet: derivative .it is not constant."),
}  # fmt: skip


@pytest.mark.draws
def test_what_is_right_passes() -> None:
    check_operator(declared(), examples=4)


OFTEN = {"shape", "into", "view that copies", "laws", "cost", "transpose", "cotangent", "place"}  # the rest nightly


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in OFTEN)) for n in WRONG])
def test_a_wrong_facet_is_found_and_named(name: str) -> None:
    facets, blamed = WRONG[name]
    with pytest.raises(AssertionError, match=rf"(?s)^scaled: .*{blamed}"):
        check_operator(declared(**facets), examples=FEW)


@pytest.mark.slow
def test_of_two_arguments() -> None:
    """Declared laws, and the sides of a bilinear derivative."""
    subtract, matmul = CATALOGUE["subtract"], CATALOGUE["matmul"]
    with pytest.raises(AssertionError, match=r"minus: .*facet: laws.*not commutative"):
        check_operator(evolve(subtract, name="minus", laws=(commutative,)), examples=FEW)
    with pytest.raises(AssertionError, match=r"minus: .*facet: laws"):
        check_operator(evolve(subtract, name="minus", laws=(unit(0),)), examples=FEW)
    swapped = Bilinear(matmul.derivative.right, matmul.derivative.left)
    with pytest.raises(AssertionError, match=r"product: .*facet: derivative"):
        check_operator(evolve(matmul, name="product", derivative=swapped), examples=FEW)
    check_operator(CATALOGUE["stop_gradient"], examples=3)
    check_operator(CATALOGUE["floor"], examples=3)
    check_operator(CATALOGUE["assemble"], examples=3)
