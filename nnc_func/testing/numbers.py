"""Elements of arrays: small ones, and those where formats, casts and functions begin to behave otherwise.

Each regime is a way to draw them, of which most elements of an array are. The same seed gives the same elements,
however many there are, so that a smaller array has the first of them.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.declaration import cached_by_bits
from nnc_func.facets.dtypes import kind_of, limits_of

REGIMES = (
    "simple", "ordinary", "points", "magnitudes", "odd", "near", "bounds", "scales", "large", "whole", "ties",
)  # fmt: skip
FINITE = (0.0, 1.0, -1.0, 2.0, 3.0, 0.5, -0.0, -2.5, 0.1, 0.7)
POINTS = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0)
MANTISSAS = (7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64)
"""Bits of whole numbers that a format holds exactly, with and without a sign: the next number is not held."""
NARROWER = (7, 10, 23)
"""Bits after the first of formats that are narrower than others: bfloat16, float16, float32."""
SEEDS = 1 << 14
_TABLE = np.random.default_rng(20261123).random(8191)
_NORMAL = np.random.default_rng(42).standard_normal(8191)
_STRIDES = (1, 7, 31, 127)


@frozen
class Elements:
    """How the elements of a graph's arrays are drawn.

    Attributes
    ----------
    regime
        One of `REGIMES`.
    focus
        From zero to one: near which number elements are that are near each other, in all arrays.
    points
        Numbers that occur in the rule.
    """

    regime: str = "simple"
    focus: float = 0.0
    points: tuple[float, ...] = ()


def numbers(size: int, dtype: np.dtype[Any], how: Elements, seed: int) -> Any:
    """So many elements.

    Examples
    --------
    >>> numbers(3, np.dtype("float32"), Elements(), 0).tolist()
    [0.0, 1.0, -1.0]
    >>> numbers(3, np.dtype("int64"), Elements("bounds"), 5).dtype
    dtype('int64')
    """
    kind = kind_of(dtype)
    if kind == "b":
        return _uniform(size, seed, 0) < 0.5
    if kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        found = np.empty(size, dtype)
        found.real, found.imag = numbers(size, part, how, seed), numbers(size, part, how, seed * 3 + 1)
        return found
    drawn = (_floats if kind == "f" else _integers)(size, dtype, how, seed)
    if how.regime != "simple":  # independent of each other
        simple = (_floats if kind == "f" else _integers)(size, dtype, Elements(), seed)
        drawn = np.where(_uniform(size, seed, 3) < 1 / 8, simple, drawn)
    return drawn.astype(dtype)


def _uniform(size: int, seed: int, which: int) -> Any:
    stride = _STRIDES[which % len(_STRIDES)]
    start = (seed * 97 + which * 1009) * pow(stride, -1, _TABLE.size) % _TABLE.size
    found = _strided(stride)
    return found[start : start + size] if size <= _TABLE.size else found[(start + np.arange(size)) % _TABLE.size]


@cache
def _strided(stride: int) -> Any:
    """The table in steps, twice, so that a part of it is as long as the table is."""
    return _TABLE[stride * np.arange(2 * _TABLE.size) % _TABLE.size]


def _listed(values: Any, size: int, seed: int) -> Any:
    """One of a list, each: all in turn at first, so that small seeds are simple."""
    if seed < 16:
        return values[(seed + (1 + seed // 4) * np.arange(size)) % len(values)]
    return values[(_uniform(size, seed, 0) * len(values)).astype(int)]


# --- floating ones -------------------------------------------------------------------------------------


def _floats(size: int, dtype: np.dtype[Any], how: Elements, seed: int) -> Any:
    limits = limits_of(dtype)
    one, other = _uniform(size, seed, 0), _uniform(size, seed, 1)
    sign = np.where(_uniform(size, seed, 2) < 0.5, -1.0, 1.0)
    match how.regime:
        case "simple":
            found: Any = _listed(np.array(FINITE), size, seed)
        case "ordinary":
            found = _NORMAL[(seed * 31 + np.arange(size)) % _NORMAL.size]
        case "points":
            found = _listed(_points(how.points, dtype), size, seed)
        case "magnitudes":
            low, high = int(limits.minexp) - int(limits.nmant), int(limits.maxexp)
            found = sign * np.ldexp(1 + other, (low + one * (high - low)).astype(int))
        case "odd":
            found = _listed(_special(dtype), size, seed)
        case "near":
            found = _near(size, float(limits.eps), how.focus, one, other, sign)
        case "bounds":
            found = sign * _listed(_bounds(), size, seed)
        case "scales":
            found = sign * np.exp2((one - 0.5) * 60) * (1 + other)
        case "ties":
            found = sign * _ties(size, seed, int(limits.nmant))
        case "large":
            found = float(limits.max) / 16 * (1 + 15 * one) * (sign if seed % 2 else 1)
        case _:
            found = np.round((one - 0.5) * 40)
    with np.errstate(all="ignore"):
        return found.astype(dtype)


def _near(size: int, eps: float, focus: float, one: Any, other: Any, sign: Any) -> Any:
    """Equal, nearly equal and opposite ones: a few units in the last place, or a little, from one number."""
    centre = 2.0 ** round(focus * 24 - 4) * (1 + focus)
    steps = np.round(one * 8 - 4) * eps
    apart = np.where(other < 0.5, steps, np.where(other < 0.8, (one - 0.5) * 1e-3, 0.0))
    return centre * (1 + apart) * np.where(sign * (one > 0.7) < 0, -1.0, 1.0)


def _ties(size: int, seed: int, bits: int) -> Any:
    """Between two numbers of a narrower format, or beside that by less than another format between them holds."""
    one, other = _uniform(size, seed, 0), _uniform(size, seed, 1)
    kept = _listed(np.array([n for n in NARROWER if n < bits] or [1]), size, seed)
    odd = 2 * np.floor(one * 8) + 1
    beside = np.sign(np.round(other * 4 - 2)) * np.exp2(
        -np.ceil(kept + 2 + _uniform(size, seed, 5) * (bits - kept - 2))
    )
    return (1 + odd * np.exp2(-kept - 1.0) + beside) * np.exp2(np.floor(other * 64) % 8 - 2)


@cached_by_bits(256)
def _points(others: tuple[float, ...], dtype: np.dtype[Any]) -> Any:
    """Points, and both neighbours of each."""
    with np.errstate(all="ignore"):
        found = np.array([*POINTS, *others], np.float64).astype(dtype)
        ends = [np.nextafter(found, dtype.type(end)) for end in (np.inf, -np.inf)]
    return np.stack([found, *ends]).T.ravel()


@cache
def _special(dtype: np.dtype[Any]) -> Any:
    limits = limits_of(dtype)
    bounds = [float(getattr(limits, name)) for name in ("max", "tiny", "smallest_subnormal")]
    return np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, *bounds, -bounds[0], *FINITE])


@cache
def _bounds() -> Any:
    """Whole numbers beside which casts lose digits, and halves, at which rounding turns."""
    whole = [2.0**m + step for m in MANTISSAS for step in (-1, 0, 1)]
    return np.array([0.5, 1.5, 2.5, 0.49999997, *whole])


# --- whole ones ----------------------------------------------------------------------------------------


def _integers(size: int, dtype: np.dtype[Any], how: Elements, seed: int) -> Any:
    limits = np.iinfo(dtype)
    low, high, bits = int(limits.min), int(limits.max), int(limits.bits) - (limits.min < 0)
    one, other = _uniform(size, seed, 0), _uniform(size, seed, 1)
    step = np.round(one * 4 - 2).astype(int)
    match how.regime:
        case "simple":
            small = np.array([0, 1, -1, 2, 3, -2] if low else [0, 1, 2, 3, 5])
            found: list[int] = _listed(small, size, seed).tolist()
        case "odd" | "large":
            ends = _listed(np.array([0, 1]), size, seed)
            found = [high - abs(s) if e else low + abs(s) for e, s in zip(ends.tolist(), step.tolist(), strict=True)]
        case "near":
            centre = 1 << _exponent(how.focus, bits)
            found = [centre + s for s in step.tolist()]
        case "bounds":
            powers = [m for m in MANTISSAS if m <= bits]
            chosen = _listed(np.array(powers or [bits]), size, seed).tolist()
            found = [(1 << m) + s for m, s in zip(chosen, step.tolist(), strict=True)]
        case "magnitudes" | "scales":
            signs = np.where(low < 0, np.sign(other - 0.5), 1).astype(int).tolist()
            found = [g * (1 << int(u * bits)) + s for u, s, g in zip(one.tolist(), step.tolist(), signs, strict=True)]
        case "points":
            centres = [int(p) for p in how.points if math.isfinite(p) and low <= p <= high] + [0, 1, -1]
            chosen = _listed(np.array(centres, object), size, seed).tolist()
            found = [c + s for c, s in zip(chosen, step.tolist(), strict=True)]
        case "ties":
            kept = [n for n in (*NARROWER, 52) if n + 2 < bits] or [1]
            chosen = _listed(np.array(kept), size, seed).tolist()
            found = [
                ((2 << n) + 2 * int(u * 8) + 1 << int(v * max(1, bits - n - 2))) + s
                for n, u, v, s in zip(chosen, one.tolist(), other.tolist(), np.sign(step).tolist(), strict=True)
            ]
        case "ordinary":
            found = [low + int(u * (high - low)) for u in one.tolist()]
        case _:
            found = [round(u * 20 - 10) for u in one.tolist()]
    return np.array([min(max(n, low), high) for n in found], dtype)


def _exponent(focus: float, bits: int) -> int:
    """Of a power of two: often one up to which a format holds whole numbers."""
    usual = [m for m in (11, 24, 53) if m < bits]
    if usual and focus < 0.6:
        return usual[int(focus / 0.6 * len(usual))]
    return int((focus - 0.6 if usual else focus) / (0.4 if usual else 1.0) * (bits - 1))
