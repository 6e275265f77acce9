"""Matrix product and the elementwise operators that follow it as one operator: made by rewriting.

It is BLAS's gemm and more: factors, an addend, a bias, an activation, whatever is done to each element, as a body says.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from nnc_func.body import Body
from nnc_func.device.kernels.columns import AGAIN
from nnc_func.device.kernels.linalg import MATMUL, allocating, multiply_into, product
from nnc_func.device.kernels.onednn import LARGE_PRODUCT, PACKED, PRODUCT
from nnc_func.device.shared.unrolled import maker
from nnc_func.errors import ShapeError
from nnc_func.facets import dims, shapes
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE
from nnc_func.facets.kernels import Kernel, reference
from nnc_func.facets.onnx import matrices as onnx_matrices
from nnc_func.facets.samples import Samples
from nnc_func.facets.views import Cost
from nnc_func.graph.ops.activations import sigmoid
from nnc_func.graph.ops.binary import add, multiply
from nnc_func.graph.ops.bodies import check_fusible, check_one_result, dtypes_in, flops_of, one_by_one
from nnc_func.graph.ops.families import Tensor
from nnc_func.graph.ops.library_fused import blockwise
from nnc_func.graph.ops.linalg import matmul
from nnc_func.graph.ops.lowering import Lowered, call_in_blocks, lowered
from nnc_func.graph.ops.transcendental import tanh
from nnc_func.op import operator


def _shape(a: Any, b: Any, *others: Any, body: Body, **params: Any) -> Any:
    found = matmul.shape(a, b, **params)
    if shapes.broadcast(found, *others) != found:
        raise ShapeError(f"matmul_blockwise wants others that broadcast to the product, {found}, given {others}")
    if not body.depends(body.results[0], 0):
        raise ShapeError(f"matmul_blockwise wants a result that is made of the product, {found}, given {body}")
    return found


def _dtype(a: Any, b: Any, *others: Any, body: Body, **_: Any) -> Any:
    check_fusible(body, "matmul_blockwise", 1 + len(others))
    check_one_result(body, "matmul_blockwise")
    return dtypes_in(body, (matmul.dtype(a, b), *others))[-1]


def _cost(args: tuple[Any, ...], results: tuple[Any, ...], *, body: Body, **params: Any) -> Cost:
    a, b, *others = args
    made = results[0].having(dtype=matmul.dtype(a.dtype, b.dtype))  # the body may end with another dtype
    return Cost(matmul.cost((a, b), (made,), **params).flops + flops_of(body, (made, *others)), threaded=True)


def _one_by_one(xp: Any, a: Any, b: Any, *others: Any, body: Body, **params: Any) -> Any:
    first = MATMUL[-1].compute(xp, a, b, **params)  # type: ignore[misc]
    return one_by_one(xp, (first, *others), body)[-1]


# --- block by block --------------------------------------------------------------------------------------

BLOCK = 1 << 18  # bytes of a block of the product: a few of them fit in the second cache
BESIDE = 1 << 22  # bytes of the product that are made at a time where the result may lie over an argument
FEW, FEW_BESIDE = 1 << 16, 1 << 19  # the same of a kernel that does with less
ROWS = 256  # of it, at least, so that products stay efficient


def accepts(avals: Any, *, body: Body, **_: Any) -> bool:
    """Whether the product can be computed where the result is to be: floating, of the result's dtype."""
    dtypes = [a.dtype for a in avals]
    return bool(dtypes[0] == dtypes[1] and dtypes[0].kind in "fc" and _dtype(*dtypes, body=body) == dtypes[0])


def _finishes(avals: Any, *, body: Body, **_: Any) -> bool:
    """Whether the body's result is of the product's dtype."""
    dtypes = [a.dtype for a in avals]
    return bool(dtypes[0] == dtypes[1] == _dtype(*dtypes, body=body))


def lowered_after(body: Body, dtype: Any, others: Any) -> Lowered:
    """A body on a product of that dtype, which lies in a register of its own, and other arguments."""
    dtypes = (dtype, *(each.dtype for each in others))
    return lowered(body, dtypes, ((True,),) * len(dtypes), own=True)


def _overwrites(count: int, **_: Any) -> tuple[tuple[int, ...], ...]:
    """What is added to the product, or multiplied with it."""
    return (tuple(range(2, count)),)


def _is_beside(shape: Any, dtype: Any, others: Any) -> bool:
    """Whether the result may lie over an argument: then the product is made beside it, wherever the result lies."""
    return any(each.shape == shape and each.dtype == dtype for each in others)


def _scratch(block: int, beside: int, avals: Any, *, body: Body, **params: Any) -> Any:
    """Registers of a block each, behind some rows of the product where that is made beside the result."""
    a, b, *others = avals
    shape = matmul.shape(a.shape, b.shape, **params)
    found = lowered_after(body, a.dtype, others)
    registers = [((_length(shape, block // a.dtype.itemsize, 1),), d) for d, _ in found.registers[1:]]
    if _is_beside(shape, a.dtype, others):
        return ((_length(shape, beside // a.dtype.itemsize, ROWS),), a.dtype), *registers
    return tuple(registers)


def _cost_of(block: int, beside: int, args: Any, results: Any, *, body: Body, **params: Any) -> Cost:
    """What is made beside the result goes part by part, and each part reads the right operand again."""
    (out,), steps = results, len(body.applications)
    flops = matmul.cost(args[:2], results, **params).flops + out.size * steps
    parts = 1
    if _is_beside(out.shape, out.dtype, args[2:]) and out.size:
        parts = -(-out.size // _length(out.shape, beside // out.dtype.itemsize, ROWS))
    launches = parts + max(parts, -(-out.nbytes // block)) * steps
    return Cost(flops, AGAIN * parts * args[1].nbytes, threaded=True, launches=launches)


def _length(shape: Any, most: int, rows: int) -> int:
    """So many elements of a product, or so many of its rows where that is more; but no more than it has."""
    size = dims.product(shape)
    length = max(most, rows * shape[-1]) if dims.known(shape[-1]) else most
    return min(length, size) if dims.known(size) else length


def _bound(block: int, avals: Any, *, body: Body, **params: Any) -> Any:
    """All at once, where the product fits in a cache."""
    *given, out = avals
    if out.nbytes > block:
        return None
    found = lowered_after(body, out.dtype, given[2:])
    at = len(given)
    is_beside = _is_beside(out.shape, out.dtype, given[2:])
    count = is_beside + len(found.registers) - 1
    registers = [*range(at + 1, at + 1 + count)]
    first = registers.pop(0) if is_beside else at
    values = [first, *range(2, at), first, *registers, at]
    calls: list[Any] = [(product(avals, **params)(), (0, 1, first))]
    calls += [(call, tuple(values[i] for i in (*operands, target))) for call, operands, target in found.calls]
    calls += [(np.copyto, (values[result], values[register])) for register, result in found.copies]
    made, size, shape = maker(calls, len(avals), count), out.size, out.shape
    return lambda *scratch: made(*[s[:size].reshape(shape) for s in scratch])


def _into(block: int, xp: Any, arrays: Any, outs: Any, scratch: Any, *, body: Body, **params: Any) -> None:
    a, b, *others = arrays
    (out,) = outs
    found = lowered_after(body, out.dtype, others)
    whole = [xp.broadcast_to(each, out.shape) for each in others]
    if _is_beside(out.shape, out.dtype, others):
        _beside(block, found, a, b, whole, out, scratch, params)
        return
    multiply_into(xp, (a, b), outs, (), **params)
    call_in_blocks(block, found, whole, out, out, scratch)


def _beside(block: int, found: Lowered, a: Any, b: Any, others: Any, out: Any, scratch: Any, params: Any) -> None:
    """The product and the body, as much of the product at a time as there is scratch for."""
    product, *registers = scratch
    if out.size <= product.size:
        made = product[: out.size].reshape(out.shape)
        multiply_into(np, (a, b), (made,), (), **params)
        call_in_blocks(block, found, others, made, out, registers)
        return
    count = product.size // out[0].size
    for top in range(0, out.shape[0], count or 1):
        part = slice(top, top + count) if count else top
        if out.ndim == 2:
            left, right = a[:, part] if params["transpose_a"] else a[part], b
        else:
            left, right = _leading(a, part, out.ndim), _leading(b, part, out.ndim)
        _beside(block, found, left, right, [each[part] for each in others], out[part], scratch, params)


def _leading(x: Any, part: Any, ndim: int) -> Any:
    """A part of the first axis of an operand that is broadcast to that rank."""
    if x.ndim < ndim:
        return x
    return x[slice(None) if isinstance(part, slice) else 0] if x.shape[0] == 1 else x[part]


def _in_blocks(name: str, block: int, beside: int) -> Kernel:
    """The kernel with registers of so many bytes, that makes so many of the product where it makes it beside."""
    scratch, into = partial(_scratch, block, beside), partial(_into, block)
    return Kernel(
        name, compute=allocating(into, _result, scratch), into=into, bound=partial(_bound, block),
        overwrites=_overwrites, scratch=scratch, accepts=accepts,
        cost=partial(_cost_of, block, beside), namespaces=frozenset({"numpy"}),
        infallible=True, copies_strided=True,
    )  # fmt: skip


def _result(a: Any, b: Any, *others: Any, body: Body, **params: Any) -> Any:
    return matmul.shape(a.shape, b.shape, **params), a.dtype


_library = partial(blockwise, lowered_after=lowered_after, result=_result, accepts=_finishes)
GEMM = Body.of(4, (multiply, 0, 1), (multiply, 3, 2), (add, 4, 5))  # alpha, beta, C
DENSE = Body.of(2, (add, 0, 1), (tanh, 2))
GATED = Body.of(1, (sigmoid, 0), (multiply, 0, 1))
CASES = tuple(
    (tuple((shape, dtype) for shape in given), {"body": body, **params})
    for given, body, params in (
        (((3, 4), (4, 2), (), (), (3, 2)), GEMM, {}),
        (((4, 300), (4, 2000), (), (), (300, 2000)), GEMM, {"transpose_a": True}),
        (((2, 3, 4), (1, 4, 5), (2, 3, 5), (3, 5)), Body.of(3, (add, 0, 1), (multiply, 2, 3), (add, 4, 1)), {}),
        (((4, 3), (2, 4), (2,)), DENSE, {"transpose_a": True, "transpose_b": True}),
        (((2, 3, 4), (4, 5), (5,)), DENSE, {}),
        (((2, 3, 4), (2, 4, 5), (3, 1)), DENSE, {}),
        (((300, 2), (2, 300), (300,)), DENSE, {}),
        (((3, 4), (4, 2)), GATED, {}),
        (((0, 3), (3, 2), (2,)), DENSE, {}),
        (((2, 0), (0, 3), (3,)), DENSE, {}),
    )
    for dtype in ("float32", "float64")
)


@operator(
    shape=_shape,
    dtype=_dtype,
    kernels=(
        _library(LARGE_PRODUCT, "onednn, fast math", fast=True, packed=f"{PACKED}, fast math"),
        _library(LARGE_PRODUCT, "onednn", packed=PACKED),
        _in_blocks("in blocks", BLOCK, BESIDE),
        _in_blocks("in small blocks", FEW, FEW_BESIDE),
        _library(PRODUCT, "onednn, small"),
        _library(PRODUCT, f"{PACKED}, fast math", fast=True, lasting=(1,)),
        _library(PRODUCT, PACKED, lasting=(1,)),
        reference(_one_by_one, multiplies=True),
    ),
    derivative=NOT_DIFFERENTIABLE("it is made after derivatives have been taken: differentiate what it was made of"),
    cost=_cost,
    onnx=onnx_matrices.matmul_blockwise,
    tolerance=matmul.tolerance,
    samples=Samples(relation="cases", cases=CASES),
)
def matmul_blockwise(
    a: Tensor, b: Tensor, /, *others: Tensor, body: Body, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
    """`matmul` and the elementwise operators that follow it, finished where the product is, block by block.

    The parameters of the body are the product and the other arguments, which broadcast to the product; its result is
    that of its last operator. The other parameters are those of `matmul`. Gemm's ``alpha a b + beta c`` is a body of
    two multiplications and an addition.
    """
