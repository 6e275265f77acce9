"""Parts, indices and what is quantised, as by onnxruntime (`onnx/operators/selecting`, `onnx/extents`).

Parameters are drawn, and what does not fit is refused in words.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import OnnxError
from tests.onnx.models import parsed
from tests.onnx.test_against_onnxruntime import EXAMPLES, STACKS, check, numbers

FEW = st.lists(st.integers(1, 4), min_size=1, max_size=3)
BOUNDS = st.integers(-7, 7) | st.sampled_from([2**31 - 1, -(2**31) + 1])
STEPS = st.sampled_from([1, 2, 5, -1, -2, -3])


def _vector(*values: Any) -> Any:
    return np.array(values, "int64")


@EXAMPLES
@given(FEW, st.data(), STACKS)
def test_parts(extents: list[int], data: Any, stack: Any) -> None:
    rank = len(extents)
    axis, start, end, step = data.draw(st.tuples(st.integers(-rank, rank - 1), BOUNDS, BOUNDS, STEPS))
    if step < 0 and end > 100:
        end = -end  # onnxruntime takes that for the beginning, which nothing says
    bounds = [_vector(n) for n in (start, end, axis, step)]
    check(stack, "Slice", [numbers(0, *extents), *bounds], {}, constant=(1, 2, 3, 4))


@EXAMPLES
@given(st.integers(1, 4), BOUNDS, BOUNDS, STEPS, STACKS)
@example(4, -6, -7, -3, nnc.lazy())
def test_parts_of_shapes(rank: int, start: int, end: int, step: int, stack: Any) -> None:
    end = -end if step < 0 and end > 100 else end
    extents = [*range(2, 2 + rank)]
    model = parsed(f"""f (float{extents} x) => (int64[m] y) {{
        s = Shape(x)
        a = Constant<value_ints = [{start}]>()
        b = Constant<value_ints = [{end}]>()
        c = Constant<value_ints = [0]>()
        d = Constant<value_ints = [{step}]>()
        y = Slice(s, a, b, c, d)
    }}""")
    last = min(end if end >= 0 else end + rank, rank) if step > 0 else max(end if end >= 0 else end + rank, -1)
    first = start if start >= 0 else start + rank
    first = min(max(first, 0), rank if step > 0 else rank - 1)
    wanted = [extents[i] for i in range(first, last, step)]
    assert nnc.from_onnx(model, stack)(np.zeros(extents, "float32")).tolist() == wanted


@EXAMPLES
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(-2, 2), st.integers(-2, 2)), min_size=1, max_size=3), STACKS)
def test_padding_that_adds_or_takes_away(axes: list[tuple[int, int, int]], stack: Any) -> None:
    extents = [n + max(0, -a) + max(0, -b) for n, a, b in axes]
    pads = _vector(*(a for _, a, _ in axes), *(b for _, _, b in axes))
    check(stack, "Pad", [numbers(0, *extents), pads, np.float32(1.5)], {}, constant=(1, 2))


@EXAMPLES
@given(FEW, st.data(), STACKS)
def test_elements_of_each_place(extents: list[int], data: Any, stack: Any) -> None:
    axis = data.draw(st.integers(-len(extents), len(extents) - 1))
    n = extents[axis]
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    indices = rng.integers(-n, n, [data.draw(st.integers(1, m)) for m in extents])
    check(stack, "GatherElements", [numbers(0, *extents), indices], {"axis": axis}, constant=(1,))
    reduction = data.draw(st.sampled_from(["add", "mul", "max", "min"]))
    updates = numbers(1, *indices.shape)
    check(stack, "ScatterElements", [numbers(0, *extents), indices, updates], {"axis": axis, "reduction": reduction})


@pytest.mark.parametrize("points", [(False, False), (True, False), (True, True)])
def test_quantised_products_of_rows_with_their_own_zeros(points: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 255, (3, 4)).astype("uint8"), rng.integers(0, 255, (4, 3)).astype("uint8")
    of_a, of_b = np.array([1, 50, 200], "uint8"), np.array([7, 90, 3], "uint8")
    model = parsed("""f (uint8[3, 4] a, uint8[4, 3] b, uint8[p] c, uint8[q] d) => (int32[3, 3] y) {
        y = MatMulInteger(a, b, c, d)
    }""")
    c, d = (z if whole else z[:1] for z, whole in zip((of_a, of_b), points, strict=True))
    rows = c.astype("int32")[:, None]
    wanted = (a.astype("int32") - rows) @ (b.astype("int32") - d.astype("int32"))
    for stack in (nnc.eager(), nnc.lazy()):
        np.testing.assert_array_equal(nnc.from_onnx(model, stack)(a, b, c, d), wanted)


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ("Div(n, k)", [[-1], [0]]),
        ("Equal(n, zero)", [[False], [True]]),
        ("Mul(n, k)", [[-6], [0]]),
        ("ReduceProd<keepdims = 0>(n)", [3, 0]),
        ("ReduceProd<noop_with_empty_axes = 1, keepdims = 0>(n)", [[3], [0]]),
    ],
)
def test_extents_that_are_not_known_beside_numbers(told: str, wanted: list[Any], stack: Any) -> None:
    """Division is towards zero, and an extent may be zero."""
    kind = ("bool" if told.startswith("Equal") else "int64") + ("[1]" if isinstance(wanted[0], list) else "")
    model = parsed(f"""f (float[n] x) => ({kind} y) {{
        n = Shape(x)
        k = Constant<value_ints = [-2]>()
        zero = Constant<value_ints = [0]>()
        y = {told}
    }}""")
    found = nnc.from_onnx(model, stack)
    assert [found(np.zeros(n, "float32")).tolist() for n in (3, 0)] == wanted


REFUSED = {
    "a required input": ("y = Concat<axis = 0>('', x)", "missing"),
    "too many parts": ("y, z = Split<axis = 0, num_outputs = 1000000>(x)", "num_outputs"),
    "strides of zero": ("y = AveragePool<kernel_shape = [2], strides = [0]>(x)", "strides"),
    "dilations of zero": ("y = MaxPool<kernel_shape = [2], dilations = [0]>(x)", "dilations"),
    "scales of fewer axes": ("s = Constant<value_floats = [2.0]>() y = Resize(x, '', s)", "3 axes"),
    "several diagonals": ("k = Constant<value_ints = [1, 2]>() y = Trilu(x, k)", "one number"),
    "extents of fewer axes": ("s = Constant<value_ints = [1, 2]>() y = CenterCropPad(x, s)", "3 axes"),
    "what its entry did not foresee": (
        "s = Constant<value_ints = [3]>() t = Constant<value_ints = [1, 1]>() y = Col2Im(x, s, t)",
        "given float32[2, 3, 4], int64[1], int64[2]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused_with_words(what: str) -> None:
    body, told = REFUSED[what]
    model = parsed(f"f (float[2, 3, 4] x) => (float[a, b, c] y) {{ {body.replace(chr(39) * 2, 'nothing')} }}")
    for node in model.graph.node:
        node.input[:] = ["" if name == "nothing" else name for name in node.input]
    with pytest.raises(OnnxError, match=told.replace("[", r"\[")):
        nnc.from_onnx(model, nnc.lazy())
