"""Reference kernels of recurrent layers: time after time, by the formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _sigmoid(xp: Any, x: Any) -> Any:
    return 1 / (1 + xp.exp(-x))


def _over_times(
    xp: Any, x: Any, h: Any, reverse: bool, cell: Callable[..., tuple[Any, ...]], *states: Any
) -> tuple[Any, ...]:
    """Outputs of all times, and the last states, of ``cell(input, h, *states)``, which gives the next ones."""
    count, found = x.shape[0], (h, *states)
    y = xp.empty((count, *h.shape), dtype=h.dtype)
    for t in range(count - 1, -1, -1) if reverse else range(count):
        found = cell(x[t, ...], *found)
        y[t, ...] = found[0]
    return (y, *[xp.asarray(each, copy=True) for each in found])


def lstm(xp: Any, x: Any, w: Any, r: Any, b: Any, h: Any, c: Any, *, reverse: bool = False) -> tuple[Any, ...]:
    """A long short-term memory, gates in the order i, f, g, o; see `graph.ops.recurrent`."""
    n = h.shape[-1]

    def cell(x: Any, h: Any, c: Any) -> tuple[Any, ...]:
        gates = xp.matmul(x, w) + xp.matmul(h, r) + b
        given, forgotten, candidate, shown = (gates[:, k * n : (k + 1) * n] for k in range(4))
        c = _sigmoid(xp, forgotten) * c + _sigmoid(xp, given) * xp.tanh(candidate)
        return _sigmoid(xp, shown) * xp.tanh(c), c

    return _over_times(xp, x, h, reverse, cell, c)


def gru(xp: Any, x: Any, w: Any, r: Any, b: Any, h: Any, *, reverse: bool = False) -> tuple[Any, ...]:
    """Gated recurrent units, gates in the order z, r, n, reset after the product; see `graph.ops.recurrent`."""
    n = h.shape[-1]

    def cell(x: Any, h: Any) -> tuple[Any, ...]:
        given, again = xp.matmul(x, w) + b[: 3 * n], xp.matmul(h, r)
        update, reset = (_sigmoid(xp, given[:, k * n : (k + 1) * n] + again[:, k * n : (k + 1) * n]) for k in range(2))
        new = xp.tanh(given[:, 2 * n :] + reset * (again[:, 2 * n :] + b[3 * n :]))
        return ((1 - update) * new + update * h,)

    return _over_times(xp, x, h, reverse, cell)


LAYERS: dict[str, Callable[..., tuple[Any, ...]]] = {"lstm": lstm, "gru": gru}
