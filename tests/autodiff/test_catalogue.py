"""Every differentiable operator and composite, 200 random cases each, by every order of the modes: nightly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import DTypeError
from nnc_func.graph.composites import COMPOSITES
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op
from nnc_func.testing.derivatives import DERIVATIVE_LAWS, is_smooth, routes_agree
from nnc_func.testing.samples import arguments

LAZY = nnc.lazy()
EXAMPLES = 200
MANY = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
SMOOTH = [each for each in (*CATALOGUE.values(), *COMPOSITES.values()) if is_smooth(each)]


@pytest.mark.slow
@pytest.mark.parametrize("each", SMOOTH, ids=str)
@MANY
@given(data=st.data())
def test_derivatives_of_the_whole_catalogue(each: Any, data: Any) -> None:
    arrays, params = data.draw(arguments(each, differentiable=True))
    for law in (*DERIVATIVE_LAWS, routes_agree):
        law(LAZY, each, arrays, params)


def _takes_complex(each: Any) -> bool:
    samples = each.samples
    if "complex128" not in samples.dtypes or samples.relation == "cases" or not isinstance(each, Op):
        return False
    try:
        each.dtype(*[np.dtype("complex128")] * len(each.args), **each.params)
    except DTypeError:
        return False
    except TypeError:  # the rule wants a parameter that has no default
        return True
    return True


@pytest.mark.slow
@pytest.mark.parametrize("each", [s for s in SMOOTH if _takes_complex(s)], ids=str)
@MANY
@given(data=st.data())
def test_derivatives_of_complex_numbers(each: Any, data: Any) -> None:
    arrays, params = data.draw(arguments(each, "complex128"))
    for law in (*DERIVATIVE_LAWS, routes_agree):
        law(LAZY, each, arrays, params)
