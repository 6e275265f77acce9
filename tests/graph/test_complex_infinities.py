"""Rules that are wrong of complex infinities alone, at the level where parts beside a NaN do not tell."""
# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import that
from nnc_func.graph.rules.evaluating import differs
from nnc_func.graph.rules.rule import ROUNDING, SIGNED_ZERO, rewrite, rule
from nnc_func.testing.rules import examined
from tests.graph.rewriting import stack_with_fused

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
