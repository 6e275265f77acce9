"""Random numbers in ONNX: Philox 4x64 in integer arithmetic, word by word as the operators have it.

A runtime gives the same bits: nothing is left to its own generator.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from nnc_func.facets.dims import product

INT64 = np.dtype("int64")
UINT64 = np.dtype("uint64")
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)  # added to the key from round to round
LOW_HALF = 0xFFFFFFFF
ROUNDS = 10
DRAWS, SPLITS, FOLDS = 0, 1, 2  # last word of the counter


def _product(g: Any, a: Any, by: int) -> tuple[Any, Any]:
    """High and low word of the 128-bit product, from products of 32-bit halves."""
    low, high = g.bitwise_and(a, LOW_HALF), g.bitwise_right_shift(a, 32)
    by_low, by_high = by & LOW_HALF, by >> 32
    middle = g.add(g.multiply(high, by_low), g.bitwise_right_shift(g.multiply(low, by_low), 32))
    other = g.add(g.multiply(low, by_high), g.bitwise_and(middle, LOW_HALF))
    carried = g.add(g.bitwise_right_shift(middle, 32), g.bitwise_right_shift(other, 32))
    return g.add(g.multiply(high, by_high), carried), g.multiply(a, by)


def _round(g: Any, c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> tuple[tuple[Any, ...], tuple[()]]:
    high0, low0 = _product(g, c0, MULTIPLIERS[0])
    high1, low1 = _product(g, c2, MULTIPLIERS[1])
    first, third = (g.bitwise_xor(g.bitwise_xor(*pair), key) for *pair, key in ((high1, c1, k0), (high0, c3, k1)))
    return (first, low1, third, low0), ()


def _blocks(g: Any, key: Any, first: Any, use: int) -> tuple[Any, ...]:
    """The four words of the blocks with counters ``(first[i], 0, 0, use)``: a loop of ten rounds."""
    steps = np.arange(ROUNDS, dtype=UINT64)
    with np.errstate(over="ignore"):
        weyl = [g.constant(steps * np.uint64(each)) for each in WEYL]
    keys = [g.add(k, w) for k, w in zip(g.split(key, sections=2), weyl, strict=True)]
    nothing = g.multiply(first, 0)
    found: tuple[Any, ...] = g.scan(partial(_round, g), (first, nothing, nothing, g.add(nothing, use)), keys, 0)[0]
    return found


def _words(g: Any, key: Any, count: Any) -> Any:
    blocks = -(-count // 4)
    counters = g.arange(start=1, stop=blocks + 1, dtype=UINT64)
    words = g.reshape(g.stack(*_blocks(g, key, counters, DRAWS), axis=1), shape=(4 * blocks,))
    return g.slice(words, starts=(0,), stops=(count,), steps=(1,))


def _unit(g: Any, words: Any, dtype: Any) -> Any:
    """Numbers in [0, 1) from the top bits of words."""
    bits = 24 if dtype.itemsize == 4 else 53
    return g.multiply(g.cast(g.bitwise_right_shift(words, 64 - bits), dtype=dtype), 2.0**-bits)


def random_split(g: Any, key: Any, *, count: int) -> Any:
    """The first two words of a block for each key."""
    counters = g.arange(start=1, stop=count + 1, dtype=UINT64)
    return g.stack(*_blocks(g, key, counters, SPLITS)[:2], axis=1)


def random_fold_in(g: Any, key: Any, data: Any) -> Any:
    """The first two words of a block of its own."""
    word = g.reshape(g.cast(g.cast(data, dtype=INT64), dtype=UINT64), shape=(1,))
    return g.concat(*_blocks(g, key, word, FOLDS)[:2])


def random_bits(g: Any, key: Any, *, shape: Any) -> Any:
    """Words of the stream."""
    return g.reshape(_words(g, key, product(shape)), shape=shape)


def random_uniform(g: Any, key: Any, *, shape: Any, dtype: Any, low: float, high: float) -> Any:
    """Scaled, product and sum rounded one after the other."""
    found = _unit(g, _words(g, key, product(shape)), dtype)
    if (low, high) != (0.0, 1.0):
        found = g.add(g.multiply(found, high - low), low)
    return g.reshape(found, shape=shape)


def random_normal(g: Any, key: Any, *, shape: Any, dtype: Any) -> Any:
    """Box and Muller's transform of pairs, in float64."""
    count = product(shape)
    pairs = (count + 1) // 2
    drawn = g.reshape(_unit(g, _words(g, key, 2 * pairs), np.dtype("float64")), shape=(pairs, 2))
    first, second = (g.reshape(each, shape=(pairs,)) for each in g.split(drawn, sections=2, axis=1))
    radius = g.sqrt(g.multiply(g.log(g.subtract(1.0, first)), -2.0))
    angle = g.multiply(second, 2.0 * math.pi)
    both = g.stack(g.multiply(radius, g.cos(angle)), g.multiply(radius, g.sin(angle)), axis=1)
    flat = g.slice(g.reshape(both, shape=(2 * pairs,)), starts=(0,), stops=(count,), steps=(1,))
    return g.reshape(g.cast(flat, dtype=dtype), shape=shape)


def random_bernoulli(g: Any, key: Any, *, shape: Any, probability: float) -> Any:
    """Whether a 53-bit integer is below an exact threshold."""
    words = g.bitwise_right_shift(_words(g, key, product(shape)), 11)
    return g.reshape(g.less(words, math.ceil(probability * 2.0**53)), shape=shape)
