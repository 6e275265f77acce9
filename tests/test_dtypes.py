"""Every dtype of the standard through every layer (`graph/type`, `facets/dtypes`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import DeviceError, DTypeError
from nnc_func.facets.dtypes import weak
from nnc_func.facets.samples import ANY, COMPLEX, INEXACT
from nnc_func.graph.text.files import load, save
from nnc_func.graph.text.literals import Line, array_text
from nnc_func.graph.text.writing import parsed, printed

EAGER, LAZY = nnc.eager(), nnc.lazy()
STRICT, NULL = nnc.eager(nnc.Strict()), nnc.lazy(nnc.Null())
dtypes = pytest.mark.parametrize("dtype", ANY)


def elements(dtype: str) -> Any:
    """Some of that dtype, with fractions and imaginary parts where it has any."""
    found = np.array([0, 1, 3]).astype(dtype)
    if dtype in INEXACT:
        found = found + np.array(0.1 + 0.3j if dtype in COMPLEX else 0.1).astype(dtype)
    return found


def choice(stack: Any, x: Any) -> Any:
    """A graph that any dtype goes through."""
    ops = stack.ops
    zero = ops.full(shape=(), value=False if x.dtype == np.bool_ else 0, dtype=x.dtype)
    return ops.where(ops.not_equal(x, zero), x, stack.asarray(elements(x.dtype.name)))


@dtypes
def test_engines_and_devices_give_the_same(dtype: str) -> None:
    x = elements(dtype)
    wanted = choice(EAGER, EAGER.asarray(x)).numpy()
    assert wanted.dtype == x.dtype
    unbound = LAZY.input("x", (3,), dtype)
    for found in (
        choice(LAZY, LAZY.asarray(x)).numpy(),
        choice(STRICT, STRICT.asarray(x)).numpy() if dtype != "float16" else wanted,  # the standard has no such dtype
        LAZY.compile([unbound], choice(LAZY, unbound))(x),
    ):
        assert found.dtype == x.dtype
        assert np.array_equal(found, wanted)


@dtypes
def test_null_plans_what_numpy_runs(dtype: str) -> None:
    plans = []
    for stack in (LAZY, NULL):
        x = stack.input("x", (3,), dtype)
        plans.append(str(stack.compile([x], choice(stack, x)).plan))
    assert plans[0] == plans[1]


@dtypes
def test_graphs_print_and_are_read_again(dtype: str) -> None:
    x = LAZY.input("x", (3,), dtype)
    graph = LAZY.compile([x], choice(LAZY, x)).graph
    assert printed(parsed(printed(graph), LAZY)) == printed(graph)


@dtypes
def test_files_keep_the_bits(dtype: str, tmp_path: Path) -> None:
    x, w = LAZY.input("x", (3,), dtype), LAZY.variable("w", elements(dtype))
    graph = LAZY.compile([x], [LAZY.ops.where(LAZY.ops.equal(x, w), w, x)]).graph
    save(graph, tmp_path / "graph.nnc")
    read = load(tmp_path / "graph.nnc", LAZY)
    assert printed(read) == printed(graph)
    (found,) = read.variables
    assert found.data.array.dtype == np.dtype(dtype)
    assert found.data.array.tobytes() == elements(dtype).tobytes()


@given(data=st.data(), dtype=st.sampled_from(ANY))
def test_every_element_is_written_and_read_bit_by_bit(data: Any, dtype: str) -> None:
    kind = np.dtype(dtype)
    value = np.frombuffer(data.draw(st.binary(min_size=kind.itemsize, max_size=kind.itemsize)), kind)[0]
    if kind.kind == "b":
        value = np.bool_(data.draw(st.booleans()))
    array = np.array(value)
    if kind.kind == "c" and np.isnan(array.real) + np.isnan(array.imag):
        return  # the payload of a NaN is kept of real numbers only
    (found,) = Line(array_text(array), 1, {}).elements(kind)
    assert np.array(found, kind).tobytes() == array.tobytes()


@given(st.sampled_from(ANY), st.sampled_from(ANY))
def test_promotion_is_numpys(a: str, b: str) -> None:
    ops = EAGER.ops
    found = ops.where(np.True_, EAGER.asarray(elements(a)), EAGER.asarray(elements(b)))
    assert found.dtype == np.result_type(np.dtype(a), np.dtype(b))


@given(st.sampled_from(ANY), st.sampled_from((True, 2, 0.5, 1j)))
def test_python_numbers_are_weak(dtype: str, number: Any) -> None:
    kind = np.dtype(dtype)
    wanted = np.result_type(kind, number)
    assert weak(number, [kind]) == wanted
    for stack in (EAGER, LAZY):
        found = stack.ops.equal(stack.asarray(elements(dtype)), number)
        assert np.array_equal(found.numpy(), elements(dtype) == number)
    if kind.kind != "b":
        assert (EAGER.asarray(elements(dtype)) + number).dtype == wanted


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_numbers_are_not_cast_to_real_ones_by_accident(dtype: str) -> None:
    x = EAGER.asarray(elements(dtype))
    with pytest.raises(DTypeError, match="no imaginary part; take real, imag or abs"):
        x.astype("float64")
    for stack in (EAGER, LAZY, STRICT):
        with pytest.raises(DTypeError, match="no imaginary part"):
            stack.asarray(elements(dtype), "float32")
    assert x.astype("bool").numpy().all()
    with pytest.raises(DTypeError, match="wanted real numbers"):
        EAGER.ops.floor(x)


# --- derivatives of complex numbers: docs/adr/0040 --------------------------------------------------------

Z = np.array([0.5 - 1.25j, -2.0 + 0.75j, 0.25 + 3j])


@pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
def test_the_gradient_of_a_real_function_is_dx_minus_i_dy(stack: Any) -> None:
    """∂L/∂x - i ∂L/∂y of L = |z|² + Re(z) Im(z) + angle(z), by hand."""
    ops = stack.ops

    def loss(z: Any) -> Any:
        return ops.sum(ops.square(ops.abs(z)) + ops.real(z) * ops.imag(z) + ops.angle(z))

    x, y = Z.real, Z.imag
    by_x = 2 * x + y - y / (x * x + y * y)
    by_y = 2 * y + x + x / (x * x + y * y)
    np.testing.assert_allclose(stack.grad(loss)(stack.asarray(Z)).numpy(), by_x - 1j * by_y, rtol=1e-14)


@pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
def test_a_holomorphic_function_has_its_complex_derivative(stack: Any) -> None:
    ops = stack.ops
    found = stack.grad(lambda z: ops.sum(ops.exp(z) * z + z**3), holomorphic=True)(stack.asarray(Z)).numpy()
    np.testing.assert_allclose(found, np.exp(Z) * (Z + 1) + 3 * Z**2, rtol=1e-13)


def test_a_real_argument_among_complex_ones_has_a_real_gradient() -> None:
    ops, x = EAGER.ops, np.array([0.5, -1.5, 2.0])
    found = EAGER.grad(lambda x: ops.sum(ops.square(ops.abs(x * Z + 1j))))(EAGER.asarray(x))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found.numpy(), 2 * ((x * Z + 1j) * Z.conj()).real, rtol=1e-14)


@pytest.mark.parametrize("name", ["abs", "sign", "angle"])
def test_at_zero_the_derivative_is_zero(name: str) -> None:
    ops = EAGER.ops
    found = EAGER.grad(lambda z: ops.sum(ops.real(getattr(ops, name)(z))))(EAGER.asarray(np.zeros(2, complex)))
    assert np.array_equal(found.numpy(), np.zeros(2))


@pytest.mark.parametrize("stack", [EAGER, LAZY, nnc.dynamic()], ids=["eager", "lazy", "dynamic"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_whole_numbers_of_any_size_stand_beside_floats(stack: Any, dtype: str) -> None:
    """Of ml_dtypes, bfloat16 takes integers of 64 bits: others ended in a TypeError that named nothing."""
    large, ones = 2**70, stack.asarray(np.ones(2), dtype=dtype)
    one = stack.ops.squeeze(ones[:1], axis=0)
    for found in (
        ones * large,
        stack.asarray(large, dtype=dtype),
        stack.ops.full(shape=(2,), value=large, dtype=dtype),
        stack.ops.pad(ones, widths=((1, 0),), value=large)[0],
        stack.asarray([one, large])[1],
        stack.asarray([1, large], dtype=dtype)[1],
        stack.ops.where(ones == 2, ones, large),
        stack.jit(lambda x: x * large)(ones),
    ):
        assert found.dtype == ones.dtype
        np.testing.assert_array_equal(found.numpy().astype("float64"), 2.0**70)


@pytest.mark.parametrize("stack", [EAGER, LAZY, nnc.dynamic()], ids=["eager", "lazy", "dynamic"])
def test_numbers_that_a_dtype_has_not_are_refused(stack: Any) -> None:
    for value, dtype in [(300, "uint8"), (-1, "uint8"), (2**70, "int64"), (2**2000, "bfloat16"), (np.nan, "int32")]:
        for number in (value, [value]):
            with pytest.raises(DeviceError, match=rf"{re.escape(repr(stack.device))}.*{dtype}"):
                stack.asarray(number, dtype=dtype)
    with pytest.raises(DTypeError, match="of 2001 bits is no float64"):
        stack.ops.full(shape=(2,), value=2**2000, dtype="float64")


@pytest.mark.parametrize("stack", [EAGER, LAZY, nnc.dynamic()], ids=["eager", "lazy", "dynamic"])
@pytest.mark.parametrize("name", ["f4", "f8"])
def test_the_order_of_bytes_is_this_machines(stack: Any, name: str) -> None:
    """Found from outside: kernels read other arrays as they lie, or refused them."""
    numbers = np.array([1.5, -2.0], f">{name}")
    native, wanted = np.dtype(name), np.tanh(np.array([1.5, -2.0], name))

    def tanh(x: Any) -> Any:
        return stack.ops.tanh(x)

    found = [
        tanh(numbers), tanh(stack.asarray(numbers)), tanh(stack.variable("v", numbers)), stack.jit(tanh)(numbers),
        tanh(stack.asarray([1.5, -2.0], dtype=f">{name}")), tanh(stack.ops.cast(numbers, dtype=f">{name}")),
        tanh(stack.ops.callback(numbers, function=lambda a: a, shapes=((2,),), dtypes=(f">{name}",), pure=True)[0]),
    ]  # fmt: skip
    for each in found:
        assert each.numpy().dtype == native
        assert each.numpy().dtype.isnative
        np.testing.assert_allclose(each.numpy(), wanted, rtol=1e-6)
    np.testing.assert_array_equal(stack.ops.relu_gradient(numbers, numbers).numpy(), [1.5, 0.0])
    mapped = numbers.view(np.memmap)
    np.testing.assert_array_equal(stack.ops.relu_gradient(mapped, mapped).numpy(), [1.5, 0.0])
    gradient = stack.grad(lambda x: tanh(x).sum())(numbers)
    np.testing.assert_allclose(gradient.numpy(), 1 - wanted**2, rtol=1e-5)
    np.testing.assert_array_equal(
        stack.scan(lambda c, x: (c + x, c * x), np.array(1, f">{name}"), numbers)[1], [1.5, -5]
    )


def test_an_input_of_another_order_of_bytes_is_native() -> None:
    x = LAZY.input("x", (2,), ">f4")
    assert x.dtype.isnative
    program = LAZY.compile([x], LAZY.ops.relu_gradient(x, x))
    np.testing.assert_array_equal(program(np.array([1.5, -2.0], ">f4")), [1.5, 0.0])
    out = np.zeros(2, ">f4")
    program(np.array([1.5, -2.0], ">f4"), out=[out])
    np.testing.assert_array_equal(out, [1.5, 0.0])
