"""Kernels of oneDNN: recurrent layers, all times at once.

They keep NaN and infinities where the library's code for the processor does, which is tried once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.device.kernels.onednn import (
    FAST,
    LIBRARY,
    PACKED,
    Run,
    Scratch,
    contiguous,
    kernel_of,
    pad,
    takes,
)
from nnc_func.device.kernels.recurrent import LAYERS
from nnc_func.errors import NncError
from nnc_func.facets.kernels import Kernel

if TYPE_CHECKING:
    from nnc_func.device.onednn.library import Library
    from nnc_func.device.onednn.primitives import Primitive

SPECIAL = (np.nan, np.inf, -np.inf, 1e30, -1e30)
WEIGHTS = (1, 2)  # operands that may stay the same


def _layer(kind: str, avals: Sequence[Any], *, reverse: bool, lasting: tuple[int, ...] = ()) -> Primitive:
    from nnc_func.device.onednn.recurrent import Recurrent, recurrent

    times, samples, inputs = avals[0].shape
    return recurrent(Recurrent(kind, times, samples, inputs, avals[4].shape[1], reverse), lasting)


@lru_cache
def _keeps_nonfinite(library: Library, kind: str) -> bool:
    """Whether layers of a kind keep NaN and infinities, on this processor: each operand is tried with each of these."""
    from nnc_func.device.onednn.bound import bound
    from nnc_func.device.onednn.recurrent import BIASES, GATES, Recurrent, recurrent

    times, samples, inputs, hidden, gates = 2, 2, 3, 9, GATES[kind]
    layer = recurrent(Recurrent(kind, times, samples, inputs, hidden, False))
    state = (samples, hidden)
    shapes = [(times, samples, inputs), (inputs, gates * hidden), (hidden, gates * hidden), (BIASES[kind] * hidden,)]
    shapes += [state] * (layer.results - 1)
    outs = [np.empty(shape, np.float32) for shape in ((times, *state), *[state] * (layer.results - 1))]
    run = bound(layer, np.empty(layer.room, np.uint8) if layer.scratch else None, (np.asarray,) * len(shapes))
    draw = np.random.default_rng(0)
    for n, special in product(range(len(shapes)), SPECIAL):
        given = [draw.standard_normal(shape).astype(np.float32) for shape in shapes]
        given[n].flat[draw.choice(given[n].size, gates, replace=False)] = special
        run(*given, *outs)
        with np.errstate(all="ignore"):
            wanted = LAYERS[kind](np, *given)
        if not all(np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True) for a, b in zip(outs, wanted, strict=True)):
            return False
    return True


def _takes(kind: str, exactly: bool, avals: Sequence[Any], **params: Any) -> bool:
    from nnc_func.device.onednn.library import present

    if not takes(avals):
        return False
    try:
        return bool(_layer(kind, avals, **params)) and (not exactly or _keeps_nonfinite(present(), kind))
    except NncError:  # it has none
        return False


def _scratch(kind: str, avals: Sequence[Any], **params: Any) -> Scratch:
    return pad(_layer(kind, avals, **params))


def _bound(kind: str, avals: Sequence[Any], *, shares: bool = False, **params: Any) -> Callable[..., Run]:
    from nnc_func.device.onednn.bound import bound

    layer = _layer(kind, avals, **params)
    ready = (contiguous,) * (layer.arrays - layer.results)
    return lambda *scratch: bound(layer, scratch[0] if scratch else None, ready, shares)


def _empty(x: Any, w: Any, r: Any, b: Any, h: Any, *cells: Any, **_: Any) -> Any:
    shapes = ((x.shape[0], *h.shape), h.shape, *(c.shape for c in cells))
    return tuple([np.empty(shape, np.float32) for shape in shapes])


def recurrent_kernels(kind: str) -> tuple[Kernel, ...]:
    """Of a recurrent layer: exact, and without that; and both with weights that stay the same."""
    found = []
    for more, library, exactly in (("", LIBRARY, True), (", fast math", FAST, False)):
        given = partial(_bound, kind), partial(_scratch, kind), partial(_takes, kind, exactly), _empty
        found.append(kernel_of(f"onednn{more}", *given, library=library, packed=f"{PACKED}{more}"))
        found.append(kernel_of(f"{PACKED}{more}", *given, WEIGHTS, library=library))
    return tuple(found)
