"""Arrays are shown in memory only where they lie inside it, as integers say (`device/shared/bounds`, `device/cpu`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.device import Null, NumPy
from nnc_func.device.shared.bounds import check_view, strided
from nnc_func.errors import DeviceError

MEMORY = NumPy().arena(64)
each_device = pytest.mark.parametrize("device", [NumPy(), Null()], ids=repr)
OUTSIDE: dict[str, tuple[Any, ...]] = {
    "strides that wrap": (0, (2**56 + 1, 64), (768, 1)),
    "strides that wrap in the product": (0, (3, 2), (2**63, 1)),
    "beyond the end": (60, (5,), None),
    "before the start": (0, (5,), (-1,)),
    "a negative offset": (-1, (1,), None),
    "no number": (0.0, (1,), None),
    "a truth value": (True, (1,), None),
    "a truth value for an extent": (0, (True,), None),
    "a negative extent": (0, (-1,), None),
    "two negative extents": (0, (-1, -1), None),
    "many axes": (0, (1,) * 65, None),
    "a stride too few": (0, (2, 2), (1,)),
    "empty, far away": (65, (0,), None),
    "empty, with wild strides": (0, (0, 2), (1, 2**62)),
    "empty, with a wild extent": (0, (0, 2**62), (1, 1)),
}


@each_device
@pytest.mark.parametrize("name", OUTSIDE)
def test_what_lies_outside_is_refused(name: str, device: Any) -> None:
    offset, shape, strides = OUTSIDE[name]
    with pytest.raises(DeviceError, match="outside of 64 bytes"):
        device.view(device.arena(64), offset, shape, "uint8", strides)


def test_memory_that_is_no_run_of_bytes_is_refused_in_words() -> None:
    with pytest.raises(DeviceError, match="is no run of bytes: "):
        NumPy().view(np.zeros((4, 8))[:, ::2], 0, (2,), "uint8")


@each_device
def test_what_lies_inside_is_shown(device: Any) -> None:
    memory = device.arena(64)
    assert device.view(memory, 63, (1,), "uint8").shape == (1,)
    assert device.view(memory, 63, (8, 8), "uint8", (-8, -1)).shape == (8, 8)
    assert device.view(memory, 64, (0, 7), "float64").shape == (0, 7)


def test_an_empty_array_has_strides_of_its_own() -> None:
    assert NumPy().view(MEMORY, 0, (0, 7), "float64", (1 << 40, 8)).strides == (56, 8)


def test_what_is_written_backwards_is_planned_without_elements() -> None:
    stack = nnc.lazy(nnc.Null())
    x = stack.input("x", (2, 3), "float32")
    y = stack.ops.assemble(x * 2, shape=(2, 3), offsets=((1, 0),), strides=((-1, 1),), fill=0)
    program = stack.compile([x], [y])
    assert any(s.strides is not None and s.strides[0] < 0 for s in program.plan.slots)
    assert program(np.ones((2, 3), "float32"))[0].shape == (2, 3)


NEAR = st.integers(-3, 12) | st.sampled_from([2**31, 2**32 - 1, 2**56 + 1, 2**61, 2**62, 2**63, 2**64 + 1, -(2**63)])


@given(st.integers(0, 200), NEAR, st.lists(st.tuples(NEAR, NEAR), max_size=3), st.sampled_from([1, 2, 4, 8, 16]))
def test_it_is_accepted_exactly_where_every_element_is_inside(nbytes: int, offset: int, axes: Any, size: int) -> None:
    shape, strides = tuple(n for n, _ in axes), tuple(s for _, s in axes)
    corners = [offset]
    for n, s in axes:
        corners += [c + (n - 1) * s for c in corners]
    inside = all(n > 0 for n in shape) and all(c >= 0 and c + size <= nbytes for c in corners)
    inside = inside and all(abs(x) < 1 << 62 for x in (*shape, *strides))
    try:
        check_view(nbytes, offset, shape, strides, size)
    except DeviceError:
        assert not inside or 0 in shape
    else:
        assert inside or (0 in shape and 0 <= offset <= nbytes)


@pytest.mark.parametrize(
    ("shape", "strides"), [((6,), (8,)), ((2,), (-8,)), ((2, 2), (8, 2**63)), ((2**61 + 1,), (8,))]
)
def test_windows_outside_of_an_array_are_refused(shape: Any, strides: Any) -> None:
    with pytest.raises(DeviceError, match="outside of 40 bytes"):
        strided(np, np.arange(5), shape, strides)


def test_windows_of_an_array_that_runs_backwards() -> None:
    assert strided(np, np.arange(5)[::-1], (2, 2), (-16, -8)).tolist() == [[4, 3], [2, 1]]
