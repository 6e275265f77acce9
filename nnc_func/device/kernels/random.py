"""Kernels of random draws: Philox 4x64 with ten rounds, in array arithmetic, and through NumPy's generator.

Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011; both give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from nnc_func.device.kernels.linalg import Arrays, Scratch, allocating, beside, spans
from nnc_func.facets.kernels import Kernel, reference

MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)  # added to the key from round to round
LOW_HALF = 0xFFFFFFFF
DRAWS, SPLITS, FOLDS = 0, 1, 2  # last word of the counter: blocks for different uses are never the same
GIVEN, WORDS = ("key0", "key1", "first", "use"), ("w0", "w1", "w2", "w3")  # of a block
CHUNK = 1 << 14  # numbers that are drawn at a time, so that they stay in cache; a multiple of 4
RAW = 1 << 11  # words, for which NumPy takes memory of its own; a multiple of 4


# --- Philox in array-standard arithmetic -------------------------------------------------------------


def _product(a: Any, by: int) -> tuple[Any, Any]:
    """High and low word of the 128-bit product, from products of 32-bit halves."""
    a_low, a_high = a & LOW_HALF, a >> 32
    b_low, b_high = by & LOW_HALF, by >> 32
    middle = a_high * b_low + ((a_low * b_low) >> 32)
    other = a_low * b_high + (middle & LOW_HALF)
    return a_high * b_high + (middle >> 32) + (other >> 32), a * by


def philox(key: tuple[Any, Any], counter: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
    """The block of each counter, as four words; key and counter are uint64 arrays of rank 1 that broadcast."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for step in range(10):
        if step:
            k0, k1 = k0 + WEYL[0], k1 + WEYL[1]
        high0, low0 = _product(c0, MULTIPLIERS[0])
        high1, low1 = _product(c2, MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
    return c0, c1, c2, c3


ROUNDS = f"""
unsigned long long k0 = key0, k1 = key1, c0 = first, c1 = 0, c2 = 0, c3 = use;
for (int step = 0; step < 10; ++step) {{
    if (step) {{ k0 += {WEYL[0]}ULL; k1 += {WEYL[1]}ULL; }}
    unsigned long long high0 = __umul64hi(c0, {MULTIPLIERS[0]}ULL), low0 = c0 * {MULTIPLIERS[0]}ULL;
    unsigned long long high1 = __umul64hi(c2, {MULTIPLIERS[1]}ULL), low1 = c2 * {MULTIPLIERS[1]}ULL;
    c0 = high1 ^ c1 ^ k0; c1 = low1; c2 = high0 ^ c3 ^ k1; c3 = low0;
}}
w0 = c0; w1 = c1; w2 = c2; w3 = c3;
"""


@cache
def _on_gpu(xp: Any) -> Any:
    """The same as one kernel of the GPU: in array arithmetic it is two hundred."""
    takes, gives = (
        ", ".join(f"uint64 {name}" for name in names) for names in (("key0", "key1", "first", "use"), WORDS)
    )
    return xp.ElementwiseKernel(takes, gives, ROUNDS, "philox")


def _blocks(xp: Any, key: Any, first: Any, use: int) -> tuple[Any, Any, Any, Any]:
    """The blocks with counters ``(first[i], 0, 0, use)``."""
    if hasattr(xp, "ElementwiseKernel"):
        return _on_gpu(xp)(key[0:1], key[1:2], first, np.uint64(use))  # type: ignore[no-any-return]
    zero = first ^ first
    return philox((key[0:1], key[1:2]), (first, zero, zero, zero + use))


def _counters(xp: Any, key: Any, count: int) -> Any:
    return xp.arange(1, count + 1, dtype=xp.uint64, **beside(xp, key))


def _words(xp: Any, key: Any, count: int) -> Any:
    """The first words of the stream of draws, as one array."""
    words = xp.stack(_blocks(xp, key, _counters(xp, key, -(-count // 4)), DRAWS), axis=1)
    return xp.reshape(words, (-(-count // 4) * 4,))[:count]


# --- from words to numbers, in any namespace ---------------------------------------------------------


def _unit(xp: Any, words: Any, dtype: Any) -> Any:
    """Numbers in [0, 1) from the top bits of words: as many as the dtype has in its significand."""
    if np.dtype(dtype) == np.float32:
        return xp.astype(words >> 40, xp.float32) * 2.0**-24
    return xp.astype(words >> 11, xp.float64) * 2.0**-53


def _threshold(probability: float) -> int:
    """The number of 53-bit integers k with ``k * 2**-53 < probability``; exact."""
    return math.ceil(probability * 2.0**53)


def _split_reference(xp: Any, key: Any, *, count: int) -> Any:
    return xp.stack(_blocks(xp, key, _counters(xp, key, count), SPLITS)[:2], axis=1)


def _fold_in_reference(xp: Any, key: Any, data: Any) -> Any:
    signed = xp.isdtype(data.dtype, "signed integer")
    words = xp.astype(xp.astype(data, xp.int64), xp.uint64) if signed else xp.astype(data, xp.uint64)
    return xp.concat(_blocks(xp, key, xp.reshape(words, (1,)), FOLDS)[:2])


def _bits_reference(xp: Any, key: Any, *, shape: tuple[int, ...]) -> Any:
    return xp.reshape(_words(xp, key, math.prod(shape)), shape)


def _uniform_reference(xp: Any, key: Any, *, shape: tuple[int, ...], dtype: Any, low: float, high: float) -> Any:
    found = _unit(xp, _words(xp, key, math.prod(shape)), dtype)
    if (low, high) != (0.0, 1.0):
        found = found * (high - low) + low
    return xp.reshape(found, shape)


def _normal_reference(xp: Any, key: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    count = math.prod(shape)
    pairs = xp.reshape(_unit(xp, _words(xp, key, count + count % 2), np.float64), ((count + 1) // 2, 2))
    radius = xp.sqrt(-2.0 * xp.log(1.0 - pairs[:, 0]))
    angle = pairs[:, 1] * (2.0 * math.pi)
    found = xp.stack((radius * xp.cos(angle), radius * xp.sin(angle)), axis=1)
    found = xp.reshape(found, (count + count % 2,))[:count]
    return xp.reshape(xp.astype(found, xp.float32 if np.dtype(dtype) == np.float32 else xp.float64), shape)


def _bernoulli_reference(xp: Any, key: Any, *, shape: tuple[int, ...], probability: float) -> Any:
    return xp.reshape((_words(xp, key, math.prod(shape)) >> 11) < _threshold(probability), shape)


# --- NumPy: its own Philox ---------------------------------------------------------------------------


def _generator(key: Any, counter: int = 0) -> np.random.Philox:
    """NumPy's generator whose first block is that of the counter after this one."""
    return np.random.Philox(key=np.ascontiguousarray(key), counter=counter)


def _split_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, count: int) -> None:
    outs[0][...] = _generator(arrays[0], SPLITS << 192).random_raw(4 * count).reshape(count, 4)[:, :2]


def _fold_in_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays) -> None:
    key, data = arrays
    counter = (int(data) % 2**64 + (FOLDS << 192)) - 1
    outs[0][...] = _generator(key, counter).random_raw(2)


def _bits_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, shape: tuple[int, ...]) -> None:
    flat, generator = outs[0].reshape(-1), _generator(arrays[0])
    for span in spans(flat.size, RAW):
        flat[span] = generator.random_raw(span.stop - span.start)


def _uniform_into(
    xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, shape: tuple[int, ...], dtype: Any, low: float,
    high: float,
) -> None:  # fmt: skip
    flat, generator = outs[0].reshape(-1), _generator(arrays[0])
    scaled, doubles = (low, high) != (0.0, 1.0), np.random.Generator(generator)
    for span in spans(flat.size, RAW):
        part = flat[span]
        if part.dtype == np.float64:
            doubles.random(out=part)  # takes the top 53 bits of each word, too
        else:
            words = generator.random_raw(part.size)
            np.right_shift(words, 40, out=words)
            np.multiply(words.view(np.int64), np.float32(2.0**-24), out=part, dtype=np.float32, casting="unsafe")
        if scaled:
            np.multiply(part, part.dtype.type(high - low), out=part)
            np.add(part, part.dtype.type(low), out=part)


def _normal_scratch(avals: Arrays, *, shape: tuple[int, ...], dtype: Any) -> Scratch:
    half = min(CHUNK, math.prod(shape) + 1) // 2
    return ((2 * half,), np.dtype("float64")), ((3, half), np.dtype("float64"))


def _normal_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, shape: tuple[int, ...], dtype: Any) -> None:
    flat, doubles, (drawn, parts) = outs[0].reshape(-1), np.random.Generator(_generator(arrays[0])), scratch
    for span in spans(flat.size, CHUNK):
        count = span.stop - span.start
        half = (count + 1) // 2
        uniforms = drawn[: 2 * half]
        radius, angle, wave = parts[:, :half]
        doubles.random(out=uniforms)
        np.subtract(1.0, uniforms[0::2], out=radius)
        np.log(radius, out=radius)
        np.multiply(radius, -2.0, out=radius)
        np.sqrt(radius, out=radius)
        np.multiply(uniforms[1::2], 2.0 * math.pi, out=angle)
        for start, function in ((0, np.cos), (1, np.sin)):
            function(angle, out=wave)
            np.multiply(radius, wave, out=wave)
            part = flat[span][start::2]
            part[...] = wave[: part.size]


def _bernoulli_into(
    xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays, *, shape: tuple[int, ...], probability: float
) -> None:
    flat, generator, threshold = outs[0].reshape(-1), _generator(arrays[0]), np.uint64(_threshold(probability))
    for span in spans(flat.size, RAW):
        words = generator.random_raw(span.stop - span.start)
        np.right_shift(words, 11, out=words)
        np.less(words, threshold, out=flat[span])


# --- kernels -----------------------------------------------------------------------------------------


def _kernels(
    into: Callable[..., None], result: Callable[..., tuple[Any, Any]], fallback: Callable[..., Any],
    scratch: Callable[..., Scratch] | None = None,
) -> tuple[Kernel, ...]:  # fmt: skip
    """NumPy's generator, and array arithmetic anywhere else."""
    numpy = Kernel(
        "numpy.random.Philox", compute=allocating(into, result, scratch), into=into, scratch=scratch,
        namespaces=frozenset({"numpy"}),
    )  # fmt: skip
    return numpy, reference(fallback)


def _as_asked(key: Any, *, shape: tuple[int, ...], dtype: Any = np.uint64, **_: Any) -> tuple[Any, Any]:
    return shape, dtype


RANDOM_SPLIT = _kernels(_split_into, lambda key, *, count: ((count, 2), np.uint64), _split_reference)
RANDOM_FOLD_IN = _kernels(_fold_in_into, lambda key, data: ((2,), np.uint64), _fold_in_reference)
RANDOM_BITS = _kernels(_bits_into, _as_asked, _bits_reference)
RANDOM_UNIFORM = _kernels(_uniform_into, _as_asked, _uniform_reference)
RANDOM_NORMAL = _kernels(_normal_into, _as_asked, _normal_reference, scratch=_normal_scratch)
RANDOM_BERNOULLI = _kernels(_bernoulli_into, lambda key, *, shape, probability: (shape, np.bool_), _bernoulli_reference)
