"""The FFT extension against NumPy, and its transposes (`graph/composites/fourier`, `graph/ops/fourier`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.errors import DTypeError, NncError, OperatorError, ShapeError
from nnc_func.testing.strategies import arrays

EAGER, LAZY = nnc.eager(), nnc.lazy()
FEW = settings(max_examples=max(8, settings().max_examples // 2))
NORMS = ("backward", "ortho", "forward")
COMPLEX, REAL = ("fft", "ifft", "irfft", "hfft"), ("rfft", "ihfft")
shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


def near(found: Any, wanted: Any, relative: float = 1e-12) -> None:
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    assert np.all(np.abs(found - wanted) <= relative * max(1.0, float(np.abs(wanted).max(initial=0)))), (found, wanted)


def drawn(data: Any, is_complex: bool) -> Any:
    return data.draw(arrays(data.draw(shapes), "complex128" if is_complex else "float64"))


@pytest.mark.parametrize("name", [*COMPLEX, *REAL])
@FEW
@given(data=st.data(), norm=st.sampled_from(NORMS))
def test_transforms_along_an_axis_are_numpys(name: str, data: Any, norm: str) -> None:
    x = drawn(data, name in COMPLEX)
    axis, n = data.draw(st.integers(-x.ndim, x.ndim - 1)), data.draw(st.sampled_from([None, 1, 2, 3, 6]))
    if n is None and name in ("irfft", "hfft") and x.shape[axis] == 1:
        return  # two times nothing
    found = getattr(EAGER.ops, name)(EAGER.asarray(x), n=n, axis=axis, norm=norm).numpy()
    near(found, getattr(np.fft, name)(x, n=n, axis=axis, norm=norm))


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@FEW
@given(data=st.data(), norm=st.sampled_from(NORMS))
def test_transforms_along_several_axes_are_numpys(name: str, data: Any, norm: str) -> None:
    x = drawn(data, name != "rfftn")
    axes = data.draw(
        st.permutations(range(x.ndim)).flatmap(lambda p: st.integers(1, x.ndim).map(lambda k: tuple(p[:k])))
    )
    s = data.draw(st.none() | st.tuples(*[st.integers(2, 5)] * len(axes)))
    if s is None and name == "irfftn" and x.shape[axes[-1]] == 1:
        return
    found = getattr(EAGER.ops, name)(EAGER.asarray(x), s=s, axes=axes, norm=norm).numpy()
    near(found, getattr(np.fft, name)(x, s=s, axes=axes, norm=norm))


@FEW
@given(data=st.data(), norm=st.sampled_from(NORMS))
def test_transforms_are_undone_and_keep_what_parseval_says(data: Any, norm: str) -> None:
    ops, z = EAGER.ops, drawn(data, True)
    x = z.real.copy()
    t = EAGER.asarray(z)
    near(ops.ifftn(ops.fftn(t, norm=norm), norm=norm).numpy(), z)
    near(ops.irfftn(ops.rfftn(EAGER.asarray(x), norm=norm), s=x.shape, norm=norm).numpy(), x)
    near(np.linalg.norm(ops.fftn(t, norm="ortho").numpy()), np.linalg.norm(z))
    near(ops.ifftshift(ops.fftshift(t)).numpy(), z, 0.0)
    near(ops.fftshift(t).numpy(), np.fft.fftshift(z), 0.0)
    near(ops.ifftshift(t, axes=-1).numpy(), np.fft.ifftshift(z, axes=-1), 0.0)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("d", [1.0, 0.3])
def test_frequencies_are_numpys(n: int, d: float) -> None:
    near(EAGER.ops.fftfreq(n=n, d=d).numpy(), np.fft.fftfreq(n, d), 1e-15)
    near(EAGER.ops.rfftfreq(n=n, d=d).numpy(), np.fft.rfftfreq(n, d), 1e-15)
    assert str(EAGER.ops.fftfreq(n=n, dtype="float32").dtype) == "float32"


@pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
@pytest.mark.parametrize("n", [1, 4, 5])
def test_gradients_of_half_spectra_are_those_of_whole_ones(stack: Any, n: int) -> None:
    """The energy of all frequencies, by the half of them: the mirrored ones count, too."""
    ops, x = stack.ops, np.arange(1.0, n + 1)

    def energy(x: Any) -> Any:
        half = ops.square(ops.abs(ops.rfft(x)))
        mirrored = half[1 : (n + 1) // 2]
        return ops.add(ops.sum(half), ops.sum(mirrored))

    near(energy(stack.asarray(x)).numpy(), np.asarray(n * np.sum(x**2)))
    near(stack.grad(energy)(x).numpy(), 2 * n * x)


def test_an_unknown_extent_is_transformed() -> None:
    x = LAZY.input("x", (None, 3), "float64")
    outputs = [LAZY.ops.rfft(x, axis=0), LAZY.ops.fftshift(x, axes=0)]
    program = LAZY.compile(inputs=[x], outputs=outputs)
    for n in (4, 5):
        given_ = np.arange(3.0 * n).reshape(n, 3) ** 2
        found = program(given_)
        near(found[0], np.fft.rfft(given_, axis=0))
        near(found[1], np.fft.fftshift(given_, axes=0))


def test_dtypes_follow_the_precision() -> None:
    ops, x = EAGER.ops, EAGER.asarray(np.float32([1, 2, 3, 4]))
    assert str(ops.rfft(x).dtype) == str(ops.fft(x).dtype) == "complex64"
    assert str(ops.irfft(ops.rfft(x)).dtype) == "float32"
    assert str(ops.fft(EAGER.asarray([1, 2])).dtype) == "complex128"


def test_misuse_is_refused_in_words() -> None:
    ops, x = EAGER.ops, EAGER.asarray(np.ones((2, 3)))
    refused: list[tuple[Any, type[NncError], str]] = [
        (lambda: ops.fft(x, norm="half"), OperatorError, "'ortho'"),
        (lambda: ops.fft(x, n=0), ShapeError, "one element at least"),
        (lambda: ops.fft(x, axis=2), ShapeError, "axis 2"),
        (lambda: ops.fftn(x, s=(2, 2), axes=(0,)), OperatorError, "as many extents as axes"),
        (lambda: ops.fftn(x, s=(2, 2, 2)), OperatorError, "3 axes"),
        (lambda: ops.rfftn(x, axes=()), OperatorError, "one axis at least"),
        (lambda: ops.rfft(ops.fft(x)), DTypeError, "real numbers"),
        (lambda: ops.fft(EAGER.asarray(np.ones((0,)))), ShapeError, "no elements"),
        (lambda: ops.inverse_real_fourier(ops.fft(x), n=9), ShapeError, "5 frequencies"),
        (lambda: ops.fftfreq(n=0), ShapeError, "one element at least"),
    ]
    for call, kind, words in refused:
        with pytest.raises(kind, match=words):
            call()
