"""Fourier transforms, and the mel scale."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nnc_func.errors import OnnxError
from nnc_func.onnx.table import onnx_operator


def _dft(o: Any, x: Any, length: Any, axis: int, inverse: int, onesided: int) -> Any:
    """Of numbers whose last axis has real and, if there are two, imaginary parts."""
    parts = x.shape[-1]
    if parts not in (1, 2):
        raise OnnxError(f"the last axis has real and imaginary parts, given extent {parts}")
    at = o.axis(axis, len(x.shape))
    if at == len(x.shape) - 1:
        raise OnnxError("the last axis is that of real and imaginary parts")
    z = _joined(o, x)
    if onesided and inverse:
        n = 2 * (x.shape[at] - 1) if length is None else length
        return o.expand_dims(o.cast(o.irfft(z, n=n, axis=at), dtype=x.dtype), axis=-1)
    found = (o.ifft if inverse else o.fft)(z, n=length, axis=at)
    if onesided:
        key: list[Any] = [slice(None)] * (len(x.shape) - 1)
        key[at] = slice(0, (x.shape[at] if length is None else length) // 2 + 1)
        found = o.index(found, key=tuple(key))
    return o.cast(o.stack(o.real(found), o.imag(found), axis=-1), dtype=x.dtype)


def _joined(o: Any, x: Any) -> Any:
    wide = x if x.dtype.itemsize >= 4 else o.cast(x, dtype="float32")
    kind = "complex64" if wide.dtype == np.float32 else "complex128"
    listed = o.unstack(wide, axis=-1)
    z = o.cast(listed[0], dtype=kind)
    return z if len(listed) == 1 else o.add(z, o.multiply(o.cast(listed[1], dtype=kind), 1j))


def _length(o: Any, given: Any) -> Any:
    if given is None:
        return None
    if given.size != 1 or (given.dtype != object and int(given.ravel()[0]) < 1):
        raise OnnxError(f"a length is one number from 1 on, given {given.tolist()}")
    return o.integers(given)[0]


@onnx_operator("DFT", since=17, known=("dft_length",))
def dft_by_attribute(
    o: Any, x: Any, dft_length: Any = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Any:
    """The discrete Fourier transform along an axis."""
    return _dft(o, x, _length(o, dft_length), axis, inverse, onesided)


@onnx_operator("DFT", since=20, known=("dft_length", "axis"))
def dft(o: Any, x: Any, dft_length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0) -> Any:
    """The discrete Fourier transform along an axis."""
    at = -2 if axis is None else o.integers(axis)[0]
    return _dft(o, x, _length(o, dft_length), at, inverse, onesided)


@onnx_operator("STFT", since=17, known=("frame_step", "frame_length"))
def stft(
    o: Any, signal: Any, frame_step: Any, window: Any = None, frame_length: Any = None, *, onesided: int = 1
) -> Any:
    """Fourier transforms of windows of a signal (batch, time, parts); one of rank 2 is real, and has no last axis."""
    if len(signal.shape) == 2:
        signal = o.expand_dims(signal, axis=-1)
    if len(signal.shape) != 3:
        raise OnnxError(f"a signal has the axes batch, time and parts, or batch and time; given {list(signal.shape)}")
    step, length = _length(o, frame_step), _length(o, frame_length)
    if length is None:
        if window is None:
            raise OnnxError("a window or frame_length is wanted")
        length = window.shape[0]
    _batch, total, _parts = o.extents(signal)
    if length > total:
        raise OnnxError(f"frames of {length} of a signal of {total}")
    o.sized(((total - length) // step + 1, length))
    starts = np.arange(0, total - length + 1, step)
    places = o.tensor(starts[:, None] + np.arange(length))
    frames = o.take(signal, places, axis=1)
    if window is not None:
        frames = o.multiply(frames, o.reshape(window, shape=(length, 1)))
    return _dft(o, frames, None, 2, 0, onesided)


@onnx_operator(
    "MelWeightMatrix", since=17,
    known=("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz"),
)  # fmt: skip
def mel_weight_matrix(
    o: Any, num_mel_bins: Any, dft_length: Any, sample_rate: Any, lower_edge_hertz: Any, upper_edge_hertz: Any, *,
    output_datatype: int = 1,
) -> Any:  # fmt: skip
    """Triangles on the mel scale, 2595 log₁₀(1 + f/700), over the bins of a Fourier transform."""
    bins, length, rate = (_length(o, n) for n in (num_mel_bins, dft_length, sample_rate))
    edges = (2595 * math.log10(1 + float(f) / 700) for f in (lower_edge_hertz, upper_edge_hertz))
    low, high = edges
    spectrum = length // 2 + 1
    mel = o.add(o.multiply(o.arange(start=0.0, stop=float(bins + 2), dtype="float64"), (high - low) / (bins + 2)), low)
    hertz = o.multiply(o.subtract(o.power(10.0, o.divide(mel, 2595.0)), 1.0), 700.0)
    at = o.floor(o.divide(o.multiply(hertz, float(length + 1)), float(rate)))
    lower, centre, upper = (o.index(at, key=(slice(i, i + bins),)) for i in range(3))
    f = o.reshape(o.arange(start=0.0, stop=float(spectrum), dtype="float64"), shape=(spectrum, 1))
    rising = o.divide(o.subtract(f, lower), o.maximum(o.subtract(centre, lower), 1.0))
    falling = o.divide(o.subtract(upper, f), o.maximum(o.subtract(upper, centre), 1.0))
    up = o.logical_and(o.greater_equal(f, lower), o.less_equal(f, centre))
    down = o.logical_and(o.greater(f, centre), o.less(f, upper))
    peak = o.where(o.equal(centre, lower), 1.0, rising)
    found = o.where(up, peak, o.where(down, falling, 0.0))
    return o.cast(found, dtype=o.dtype(output_datatype))
