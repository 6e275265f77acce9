"""Orders: complex numbers as in NumPy, and the first few alone (`device/kernels/sorting`, `graph/ops/sorting`).

The first few of an order are had without the whole of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import nnc_func as nnc

EAGER, LAZY, STRICT = nnc.eager(), nnc.lazy(), nnc.eager(nnc.Strict())
FEW = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan])
complex_numbers = arrays(np.complex128, (2, 5), elements=st.builds(complex, FEW, FEW))
numbers = arrays(np.float64, (3, 7), elements=FEW)


@pytest.mark.parametrize("stack", [EAGER, LAZY, STRICT], ids=["eager", "lazy", "strict"])
@given(z=complex_numbers, axis=st.sampled_from([0, 1]))
def test_complex_numbers_are_ordered_as_by_numpy(stack: Any, z: np.ndarray, axis: int) -> None:
    """By real parts, then by imaginary ones; those with a NaN in the latter, in the former, in both come last."""
    found, order = stack.ops.sort(stack.asarray(z), axis=axis), stack.ops.argsort(stack.asarray(z), axis=axis)
    np.testing.assert_array_equal(found.numpy(), np.sort(z, axis=axis, kind="stable"))
    np.testing.assert_array_equal(order.numpy(), np.argsort(z, axis=axis, kind="stable"))
    down = stack.ops.argsort(stack.asarray(z), axis=axis, descending=True).numpy()
    mirrored = np.argsort(np.flip(z, axis), axis=axis, kind="stable")
    np.testing.assert_array_equal(down, np.flip(z.shape[axis] - 1 - mirrored, axis))


@given(complex_numbers)
def test_unique_complex_numbers_are_those_of_numpy(z: np.ndarray) -> None:
    wanted = np.unique(z, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    found = EAGER.array_api.unique_all(EAGER.asarray(z))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one.numpy(), other)


@pytest.mark.parametrize("stack", [EAGER, LAZY, STRICT], ids=["eager", "lazy", "strict"])
@given(x=numbers, k=st.integers(0, 7), largest=st.booleans())
def test_the_first_few_are_the_beginning_of_the_order(stack: Any, x: np.ndarray, k: int, largest: bool) -> None:
    order = EAGER.ops.argsort(EAGER.asarray(x), descending=largest).numpy()
    np.testing.assert_array_equal(stack.ops.argtop_k(stack.asarray(x), k=k, largest=largest).numpy(), order[:, :k])
    if k < 7:
        np.testing.assert_array_equal(stack.ops.kth_value(stack.asarray(x), k=k).numpy(), np.sort(x)[:, k])


def test_the_element_at_a_position_has_the_derivative() -> None:
    x = np.array([[3.0, 1.0, 2.0], [1.0, np.nan, 0.0]])
    for stack in (EAGER, LAZY):
        for k, wanted in ((1, [[0, 0, 1], [1, 0, 0]]), (-1, [[1, 0, 0], [0, 1, 0]])):
            found = stack.grad(lambda y, s=stack, k=k: s.ops.sum(s.ops.kth_value(y, k=k)))(stack.asarray(x))
            np.testing.assert_array_equal(found.numpy(), wanted)
