"""A library's kernel and the elementwise operators that follow it, which are computed block by block in its result."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from nnc_func.body import Body
from nnc_func.device.kernels.linalg import last_channels
from nnc_func.device.kernels.onednn import for_one_call, into, result_array
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.layouts import NHWC
from nnc_func.graph.ops.lowering import Lowered, call_in_blocks

BLOCK = 1 << 17  # bytes of a block: it and what is beside it fit in the second cache


def blockwise(
    first: Kernel, after: Callable[[Body, Any, Any], Lowered], result: Callable[..., Any], accepts: Callable[..., bool]
) -> Kernel:
    """The kernel of an operator whose parameter ``body`` says what is done with the result of another one.

    Parameters
    ----------
    first
        The other operator's kernel, of two operands, with `bound` and `scratch`.
    after
        ``after(body, dtype, others)``: what is done with its result, of that dtype, and the arguments beside it.
    result
        ``result(*arrays, **params)``: shape and dtype.
    accepts
        ``accepts(avals, **params)``: whether the body's result may lie where that of the first kernel does.
    """

    def taken(avals: Any, *, body: Body, **params: Any) -> bool:
        return accepts(avals, body=body, **params) and first.accepts(avals[:2], **params)

    def scratch(avals: Any, *, body: Body, **params: Any) -> Any:
        shape, dtype = result(*avals, body=body, **params)
        count = max(min(BLOCK // dtype.itemsize, math.prod(shape)), *shape)  # of a block, or of its innermost axis
        registers = [((count,), d) for d, _ in after(body, dtype, avals[2:]).registers[1:]]
        assert first.scratch is not None, first
        return (*first.scratch(avals[:2], **params), *registers)

    def bound(avals: Any, *, body: Body, **params: Any) -> Any:
        *given, out = avals
        assert first.bound is not None, first
        assert first.scratch is not None, first
        of, pads = first.bound((*given[:2], out), **params), len(first.scratch(given[:2], **params))
        lowered, data_format = after(body, out.dtype, given[2:]), params.get("data_format", NHWC)

        def made(*given: Any) -> Callable[..., None]:
            run, registers = of(*given[:pads]), given[pads:]

            def finished(a: Any, b: Any, *arrays: Any) -> None:
                *others, out = arrays
                run(a, b, out)
                beside = [last_channels(np.broadcast_to(each, out.shape), data_format) for each in others]
                seen = last_channels(out, data_format)
                call_in_blocks(BLOCK, lowered, beside, seen, seen, registers)

            return finished

        return made

    def compute(xp: Any, *arrays: Any, **params: Any) -> Any:
        shape, dtype = result(*arrays, **params)
        out = result_array(shape, dtype, params.get("data_format", NHWC))
        bound((*arrays, out), **params)(*for_one_call(scratch(arrays, **params)))(*arrays, out)
        return out

    return Kernel(
        first.name, compute=compute, into=partial(into, bound), bound=bound, scratch=scratch, accepts=taken,
        by_shape=True, layouts=None, namespaces=first.namespaces, library=first.library,
    )  # fmt: skip
