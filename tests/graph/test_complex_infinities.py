"""Rules that are wrong of complex infinities alone are refuted (`testing/rules`, `graph/rewriting/evaluating`).

That is at the level where parts beside a NaN do not tell.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnc_func.errors import DTypeError
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rewriting.evaluating import differs
from nnc_func.graph.rules.conditions import that
from nnc_func.graph.rules.reducing import REDUCTIONS
from nnc_func.graph.rules.rule import ROUNDING, SIGNED_ZERO, rewrite, rule
from nnc_func.testing.rules import examined
from tests.graph.rewriting import OPTIMISER, bind, check_equal, stack_with_fused, variable

conj, square, exp = OPS["conj"], OPS["square"], OPS["exp"]
INF, NAN = np.inf, np.nan


def is_complex(x: Any) -> Any:
    """Nothing is wrong of real numbers then."""
    return that(lambda x: x.dtype.kind == "c", x, says=f"{x} is complex")


@rule
def add_what_is_left(x):
    """A number less itself is zero, unless it is infinite."""
    return rewrite(conj(x)).to(conj(x) + (x - x)).when(is_complex(x)).up_to(ROUNDING)


@rule
def subtract_by_scaling(x, y):
    """Of an infinite number the imaginary part becomes NaN: infinity times zero."""
    return rewrite(x - y).to(x + y * -1).when(is_complex(x), is_complex(y)).up_to(ROUNDING)


@rule
def conjugate_by_division(x):
    """One in the place of infinity over infinity."""
    return rewrite(conj(x)).to(conj(x) * x / x).when(is_complex(x)).up_to(ROUNDING)


@pytest.mark.parametrize(
    "planted", [add_what_is_left, subtract_by_scaling, conjugate_by_division], ids=lambda r: r.name
)
def test_what_goes_wrong_at_complex_infinities_is_refuted(planted: Any) -> None:
    assert "elsewhere" in examined(planted, stack_with_fused()).counterexample


PARTS = (0.0, -0.0, 1.0, INF, -INF, NAN)
SHAPES: tuple[tuple[tuple[int, ...], Any], ...] = (((36,), ()), ((36, 1), 1), ((1, 36), 0), ((1, 1, 36), (0, 1)))
DTYPES = ("bool", "uint8", "float16", "float32", "complex64", "complex128")


def elements(dtype: str) -> Any:
    """Each special number of a dtype; of a complex one each pair of them."""
    found = np.zeros(36, dtype)
    if found.dtype.kind == "c":
        found.real, found.imag = np.repeat(PARTS, 6), np.tile(PARTS, 6)
    else:
        found[:] = np.resize(PARTS if found.dtype.kind == "f" else (0, 1), 36)
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", REDUCTIONS, ids=str)
def test_a_reduction_of_one_element_keeps_it_as_the_kernel_does(op: Any, dtype: str) -> None:
    """Found by a fresh seed: the mean over no axis of -inf + NaN j lost a NaN."""
    rounded = ROUNDING if op.name == "logsumexp" else SIGNED_ZERO
    for shape, axis in SHAPES:
        x = variable("x", shape, dtype)
        try:
            root = bind(op.name, x, axis=axis)
        except DTypeError:
            return
        check_equal([root], OPTIMISER.optimise([root]).roots, rounded, {x.node: elements(dtype).reshape(shape)})


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (complex(INF, NAN), complex(NAN, NAN), ""),
        (complex(INF, NAN), complex(NAN, -INF), ""),
        (complex(INF, NAN), complex(1, NAN), ""),  # not finite either
        (complex(INF, NAN), complex(1, 2), "NaN is elsewhere"),
        (complex(INF, 0), complex(INF, NAN), "NaN is elsewhere"),
        (complex(INF, 0), complex(-INF, 0), "infinity is elsewhere"),
        (complex(INF, 1), complex(INF, INF), "infinity is elsewhere"),
        (complex(0, 1), complex(NAN, 1), "NaN is elsewhere"),
    ],
)
def test_parts_tell_unless_they_are_beside_a_nan(old: complex, new: complex, why: str) -> None:
    assert differs(np.complex64([old]), np.complex64([new]), ROUNDING) == why
    assert differs(np.complex64([old]), np.complex64([new]), SIGNED_ZERO)
    assert not differs(np.complex64([old]), np.complex64([old]), SIGNED_ZERO)
