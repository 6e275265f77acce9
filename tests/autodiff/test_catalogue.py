"""Derivatives of the catalogue to second order, by every order of the modes (`facets/derivatives`, `autodiff`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import DTypeError
from nnc_func.facets.derivatives import Constant
from nnc_func.graph.composites import COMPOSITES
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op
from nnc_func.testing.derivatives import derivatives_hold, difference_is_zero, is_smooth
from nnc_func.testing.laws import hold
from nnc_func.testing.samples import arguments
from tests.profiles import examples

LAZY = nnc.lazy()
ALL = (*CATALOGUE.values(), *COMPOSITES.values())
SMOOTH = [each for each in ALL if is_smooth(each)]
CONSTANT = [each for each in ALL if isinstance(each.derivative, Constant) and each.args and getattr(each, "pure", True)]


@pytest.mark.parametrize("each", SMOOTH, ids=str)
@examples(few=3, nightly=200)
@given(data=st.data())
def test_derivatives_of_the_whole_catalogue(each: Any, data: Any) -> None:
    hold(LAZY, each, [derivatives_hold], data.draw(arguments(each, differentiable=True)))


@pytest.mark.parametrize("each", CONSTANT, ids=str)
@examples(few=2, nightly=200)
@given(data=st.data())
def test_what_says_that_it_has_no_slope_is_constant(each: Any, data: Any) -> None:
    hold(LAZY, each, [difference_is_zero], data.draw(arguments(each, differentiable=True)))


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
@examples(few=200, nightly=200)
@given(data=st.data())
def test_derivatives_of_complex_numbers(each: Any, data: Any) -> None:
    hold(LAZY, each, [derivatives_hold], data.draw(arguments(each, "complex128")))
