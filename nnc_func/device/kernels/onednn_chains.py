"""Kernels of oneDNN, element by element, in one go through memory: sums and products of arrays, and functions.

Sums and products have the bits that the operators have one by one. Its rectifier makes 0 of NaN, and is taken where
that is allowed; a function that is not exact everywhere is asked where it is, and NumPy elsewhere (`guarded`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from nnc_func.device.kernels.onednn import (
    FAST,
    Run,
    Scratch,
    accepted,
    contiguous,
    in_layout,
    kernel_of,
    kind_of,
    pad,
    result_array,
    takes,
)
from nnc_func.facets.kernels import ALL, Kernel
from nnc_func.facets.layouts import Layout

if TYPE_CHECKING:
    from nnc_func.device.onednn.primitives import After, Primitive

LEAST = 1 << 13  # elements: of fewer NumPy has answered before the library has begun


@frozen
class Whole:
    """What all of a chain is as large as.

    Attributes
    ----------
    shape, layout
        Of its result, and of each operand that has an element for each of the result's.
    """

    shape: tuple[int, ...]
    layout: Layout

    @classmethod
    def of(cls, arrays: Sequence[Any]) -> Whole | None:
        """Of what these broadcast to; None where there is little to do, or extents are not known."""
        if not takes(arrays):
            return None
        shape = np.broadcast_shapes(*[tuple(a.shape) for a in arrays])
        found = {getattr(a, "layout", None) for a in arrays if tuple(a.shape) == shape}
        if not shape or len(found) != 1 or math.prod(shape) < LEAST:
            return None
        return cls(shape, found.pop())

    @property
    def innermost(self) -> int:
        """The axis that lies innermost, counted from the last one."""
        return -1 if self.layout is None else self.layout[-1] - len(self.shape)

    def kind(self, operand: Any) -> str:
        """Which of `After.other` an operand is, or ``"none"`` of them."""
        return kind_of(operand, self.shape, self.layout, self.innermost)

    def chain(self, first: After, after: tuple[After, ...]) -> Primitive:
        """The primitive: of an array that is whole, the operands of the first operator and of the others, and a result.

        Raises
        ------
        DeviceError
            The library has none.
        """
        from nnc_func.device.onednn.elementwise import Chain, chain

        columns = self.shape[self.innermost]
        return chain(Chain(math.prod(self.shape) // columns, columns, first, after))

    def run(self, primitive: Primitive, steps: Sequence[After], scratch: Sequence[Any]) -> Run:
        """A function of the arrays of a primitive."""
        from nnc_func.device.onednn.bound import bound

        whole = in_layout(self.layout)
        others = [whole if each.other == "whole" else contiguous for each in steps if each.other]
        return bound(primitive, scratch[0] if scratch else None, (whole, *others))


# --- single operators ------------------------------------------------------------------------------------


def _multiplied_and_added(arrays: Sequence[Any]) -> tuple[Whole, tuple[int, int, int], tuple[After, After]] | None:
    """How a chain computes a * b + c: which operand is whole, and which of `After.other` the others are."""
    from nnc_func.device.onednn.primitives import After

    whole = Whole.of(arrays[:3])
    if whole is None:
        return None
    a, b, c = map(whole.kind, arrays[:3])
    order = (0, 1, 2) if a == "whole" else (1, 0, 2)
    if "none" in (a, b, c) or "whole" not in (a, b):
        return None
    return whole, order, (After("multiply", b if order[0] == 0 else a), After("add", c))


def _primitive(arrays: Sequence[Any]) -> Primitive:
    found = _multiplied_and_added(arrays)
    assert found is not None
    whole, _, (first, second) = found
    return whole.chain(first, (second,))


def _takes_fma(avals: Sequence[Any]) -> bool:
    return _multiplied_and_added(avals) is not None and accepted(_primitive, avals)


def _fma_scratch(avals: Sequence[Any]) -> Scratch:
    return pad(_primitive(avals))


def _bound_fma(avals: Sequence[Any]) -> Callable[..., Run]:
    found = _multiplied_and_added(avals)
    assert found is not None
    whole, (i, j, k), steps = found
    primitive = whole.chain(steps[0], steps[1:])

    def of(*scratch: Any) -> Run:
        run = whole.run(primitive, steps, scratch)
        return lambda *arrays: run(arrays[i], arrays[j], arrays[k], arrays[3])

    return of


def _empty(*arrays: Any) -> Any:
    return result_array(np.broadcast_shapes(*[a.shape for a in arrays]), np.float32)


LIBRARY_FMA: Kernel = kernel_of("onednn", _bound_fma, _fma_scratch, _takes_fma, _empty, overwrites=ALL)


def _function(name: str, arrays: Sequence[Any]) -> tuple[Whole, Primitive]:
    from nnc_func.device.onednn.primitives import After

    whole = Whole.of(arrays[:1])
    assert whole is not None
    return whole, whole.chain(After(name), ())


def _takes_function(name: str, avals: Sequence[Any]) -> bool:
    return Whole.of(avals[:1]) is not None and accepted(lambda: _function(name, avals)[1])


def _function_scratch(name: str, avals: Sequence[Any]) -> Scratch:
    return pad(_function(name, avals)[1])


def _bound_function(name: str, avals: Sequence[Any]) -> Callable[..., Run]:
    whole, primitive = _function(name, avals)
    return lambda *scratch: whole.run(primitive, (), scratch)


LIBRARY_RELU: Kernel = kernel_of(
    "onednn, fast math", partial(_bound_function, "fast relu"), partial(_function_scratch, "fast relu"),
    partial(_takes_function, "fast relu"), _empty, overwrites=ALL, library=FAST,
)  # fmt: skip


def guarded(name: str, least: float, otherwise: Callable[..., None]) -> Kernel:
    """The kernel of a function that the library computes well of numbers that are not below `least`.

    Parameters
    ----------
    name
        As in `device.onednn.handles.UNARY`.
    otherwise
        The `into` of a kernel without scratch memory, for arrays that have lower numbers in them, or NaN.
    """

    def bound(avals: Sequence[Any]) -> Callable[..., Run]:
        within = _bound_function(name, avals)

        def of(*scratch: Any) -> Run:
            run = within(*scratch)

            def guarded_run(x: Any, out: Any) -> None:
                if np.minimum.reduce(x, None) >= least:  # not of NaN
                    run(x, out)
                else:
                    otherwise(np, (x,), (out,), ())

            return guarded_run

        return of

    return kernel_of(
        "onednn", bound, partial(_function_scratch, name), partial(_takes_function, name), _empty, overwrites=ALL
    )
