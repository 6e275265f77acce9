"""bfloat16 is computed in float32: one kernel for every operator that does arithmetic, whatever its own kernels are.

Operands are widened, which is exact, the operator's kernel for float32 computes, accumulating in float32, and its
results are rounded once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from nnc_func.aval import Aval
from nnc_func.device.kernels.move import converted
from nnc_func.device.shared.kernel_choice import first_that_runs, fresh
from nnc_func.facets.dtypes import FLOAT32, REGISTERED, is_bfloat16
from nnc_func.facets.kernels import CALL, Kernel
from nnc_func.op import Op

NAME = "in float32"


def is_narrow(op: Op, avals: tuple[Aval, ...]) -> bool:
    """Whether the operator is computed in float32: some operand is bfloat16, and it does more than move elements.

    What applies other operators one by one leaves it to each of them.
    """
    return not op.data_movement and not op.kernels[-1].applies and any(a.dtype.num >= REGISTERED for a in avals)


@lru_cache(1024)
def in_float32(op: Op) -> Kernel:
    """The kernel that computes an operator of bfloat16 in float32."""

    def compute(xp: Any, *arrays: Any, **params: Any) -> Any:
        wide = [converted(xp, a, FLOAT32) if is_bfloat16(a.dtype) else a for a in arrays]
        if any(params.get("dtype") == a.dtype for a in arrays if is_bfloat16(a.dtype)):
            params = {**params, "dtype": FLOAT32}
        kernel = first_that_runs(op, tuple(Aval(a.shape, a.dtype) for a in wide), params, xp.__name__)
        found = fresh(xp, kernel, tuple(params.items()))(*wide)
        dtypes = op.dtype(*(a.dtype for a in arrays), **params)
        if not op.multi_result:
            return converted(xp, xp.asarray(found), dtypes)
        return tuple(converted(xp, xp.asarray(f), d) for f, d in zip(found, dtypes, strict=True))

    return Kernel(NAME, compute=compute)


@lru_cache(4096)
def kernel_named(op: Op, name: str) -> Kernel | None:
    """The operator's kernel of that name, if it has one."""
    found = next((k for k in op.kernels if k.name == name), None)
    if found is None and name == CALL.name:
        return CALL
    return in_float32(op) if found is None and name == NAME else found
