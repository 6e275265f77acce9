"""bfloat16 is computed in float32: one kernel for every operator that does arithmetic, whatever its own kernels are.

Operands are widened, which is exact, the operator's kernel for float32 computes, accumulating in float32, and its
results are rounded once. So are products of float16 on NumPy, whose BLAS has none: a hundred times faster than by its
loops over elements, which widen each of these anew.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.device.kernels.move import converted
from nnc_func.device.shared.kernel_choice import first_that_runs, fresh
from nnc_func.facets.dtypes import FLOAT32, REGISTERED
from nnc_func.facets.kernels import CALL, Kernel, private_bytes
from nnc_func.op import Op

NAME = "in float32"
FLOAT16 = np.dtype("float16")


def is_narrow(op: Op, avals: tuple[Aval, ...], params: dict[str, Any], on: str) -> bool:
    """Whether the operator is computed in float32: some operand is bfloat16, and it does more than move elements.

    Or its result is float16, and it is a product, as BLAS computes them. What applies other operators one by one leaves
    it to each of them.
    """
    if op.data_movement or op.kernels[-1].applies:
        return False
    if any(a.dtype.num >= REGISTERED for a in avals):
        return True
    if on != "numpy" or not op.kernels[-1].multiplies or not any(a.dtype == FLOAT16 for a in avals):
        return False
    return bool(op.dtype(*(a.dtype for a in avals), **params) == FLOAT16)


def _results(op: Op, avals: tuple[Aval, ...], params: dict[str, Any]) -> tuple[Aval, ...]:
    shapes, dtypes = op.shape(*(a.shape for a in avals), **params), op.dtype(*(a.dtype for a in avals), **params)
    if not op.multi_result:
        return (Aval(shapes, dtypes),)
    return tuple(Aval(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True))


def _is_widened(dtype: Any) -> bool:
    return bool(dtype.num >= REGISTERED or dtype == FLOAT16)


@lru_cache(1024)
def in_float32(op: Op) -> Kernel:
    """The kernel that computes an operator of bfloat16 or float16 in float32."""

    def of_wide(arrays: Any, params: dict[str, Any], on: str) -> tuple[Kernel, dict[str, Any], tuple[Aval, ...]]:
        """The kernel for widened operands, its parameters, and their avals."""
        if any(params.get("dtype") == a.dtype for a in arrays if _is_widened(a.dtype)):
            params = {**params, "dtype": FLOAT32}
        wide = tuple(Aval(a.shape, FLOAT32 if _is_widened(a.dtype) else a.dtype) for a in arrays)
        return first_that_runs(op, wide, params, on), params, wide

    def compute(xp: Any, *arrays: Any, **params: Any) -> Any:
        kernel, wanted, _ = of_wide(arrays, params, xp.__name__)
        wide = [converted(xp, a, FLOAT32) if _is_widened(a.dtype) else a for a in arrays]
        found = fresh(xp, kernel, tuple(wanted.items()))(*wide)
        dtypes = op.dtype(*(a.dtype for a in arrays), **params)
        if not op.multi_result:
            return converted(xp, xp.asarray(found), dtypes)
        return tuple(converted(xp, xp.asarray(f), d) for f, d in zip(found, dtypes, strict=True))

    def private(avals: Any, **params: Any) -> int:
        """Operands and results in float32, what their kernel takes beside, and the results that are copied."""
        kernel, wanted, wide = of_wide(avals, params, "numpy")
        made, results = _results(op, wide, wanted), _results(op, tuple(avals), params)
        scratch = kernel.scratch(wide, **wanted) if kernel.scratch is not None else ()
        given = sum(w.nbytes for w, a in zip(wide, avals, strict=True) if w.dtype != a.dtype)
        given += sum(math.prod(shape) * dtype.itemsize for shape, dtype in scratch)
        beside = private_bytes(kernel, wide, made, wanted)
        is_new = kernel.private is not None or kernel.into is not None or kernel.ufunc is not None
        made_bytes: int = sum(m.nbytes for m in made) if is_new else 0  # else they are among what it takes beside
        return int(given + beside + made_bytes + sum(r.nbytes for r in results))

    return Kernel(NAME, compute=compute, private=private)


@lru_cache(4096)
def kernel_named(op: Op, name: str) -> Kernel | None:
    """The operator's kernel of that name, if it has one."""
    found = next((k for k in op.kernels if k.name == name), None)
    if found is None and name == CALL.name:
        return CALL
    return in_float32(op) if found is None and name == NAME else found
