"""An operator of one's own: declared once, with its derivative and its kernel, it works on every stack that has it."""

from __future__ import annotations

from typing import Any

import numpy as np

import nnc_func as nnc
from nnc_func.facets import dtypes, shapes
from nnc_func.facets.derivatives import partials
from nnc_func.facets.kernels import reference


def _mish(xp: Any, x: Any) -> Any:
    return x * xp.tanh(xp.log1p(xp.exp(x)))


def _slope(o: Any, y: Any, x: Any) -> Any:
    """The derivative, written with operators: so it is differentiated again, recorded, and rewritten like any other."""
    t = o.tanh(o.softplus(x))
    return o.add(t, o.multiply(o.multiply(x, o.sigmoid(x)), o.subtract(1, o.multiply(t, t))))


@nnc.operator(shape=shapes.broadcast, dtype=dtypes.floating, derivative=partials(_slope), kernels=reference(_mish))
def mish(x: Any, /) -> Any:
    """``x tanh(softplus(x))``; Misra, "Mish: a self regularized non-monotonic activation function", 2019."""


def with_mish(stack: nnc.Stack) -> nnc.Stack:
    """The stack with one operator more: it is in `stack.ops` there; a catalogue is a value, so in no other stack."""
    return stack.swap(type=stack.type.with_ops(mish))


def main() -> None:
    """Value, first and second derivative on two stacks, and a look at the graph."""
    for stack in (with_mish(nnc.eager()), with_mish(nnc.lazy())):
        x = stack.asarray(np.linspace(-2, 2, 5))
        first = stack.grad(lambda x: mish(x).sum())
        second = stack.grad(lambda x, first=first: first(x).sum())
        print(mish(x).numpy().round(4), first(x).numpy().round(4), second(x).numpy().round(4), sep="\n", end="\n\n")
    lazy = with_mish(nnc.lazy())
    x = lazy.input("x", ("n",), "float32")
    print(lazy.compile(inputs=[x], outputs=lazy.grad(lambda x: mish(x).sum())(x)).graph)


if __name__ == "__main__":
    main()
