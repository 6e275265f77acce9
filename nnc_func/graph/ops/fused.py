"""Operators that rewriting introduces: a mask without branches, and elementwise operators computed block by block.

A block stays in the caches from the first step to the last, so memory is read once and written once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.device.kernels.move import memory_order
from nnc_func.device.namespace import choose, fresh, writing
from nnc_func.errors import DeviceError, DTypeError, OperatorError
from nnc_func.facets import layouts, shapes
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE, Linear
from nnc_func.facets.dims import known, product
from nnc_func.facets.kernels import ALL, Kernel, reference
from nnc_func.facets.onnx import elementwise as onnx_elementwise
from nnc_func.facets.samples import ANY, EXACT, Samples
from nnc_func.facets.views import Cost
from nnc_func.graph.ops.families import Nested, Tensor, elementwise, in_steps
from nnc_func.op import Op, operator

BLOCK = 1 << 18  # bytes of a block of the result: a few of them fit in the second cache
Steps = tuple[tuple[Any, ...], ...]  # (operator's name, position of an operand, ...): arguments first, then steps


def step_operator(name: str) -> Op:
    """The operator of that name, of this module or else of the catalogue of this library.

    Raises
    ------
    OperatorError
        There is none.
    """
    from nnc_func.graph.ops import CATALOGUE  # which is made of modules like this one

    found = masked if name == masked.name else CATALOGUE.get(name)
    if found is None:
        raise OperatorError(f"blockwise has a step {name!r}, and there is no such operator")
    return found


def is_step(op: Op) -> bool:
    """Whether the operator can be named in a step: it is this library's own."""
    try:
        return step_operator(op.name) is op
    except OperatorError:
        return False


def step_kernel(op: Op, dtypes: tuple[Any, ...], on: str = "numpy") -> Kernel | None:
    """The kernel that computes an operator in blocks; None if that cannot be done."""
    if op.shape is not shapes.broadcast or not op.pure or op.several or op.params or op.variadic:
        return None
    try:
        found = choose(op, tuple(Aval((), d) for d in dtypes), {}, on)
    except DeviceError:
        return None
    writes = found.ufunc is not None or found.into is not None
    return found if writes and found.scratch is None and found.infallible else None


@lru_cache(4096)
def step_dtypes(steps: Steps, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Dtypes of the arguments and of all steps."""
    found = list(given)
    for name, *at in steps:
        found.append(step_operator(name).dtype(*(found[i] for i in at)))
    return tuple(found)


def _dtype(*given: Any, steps: Steps) -> Any:
    if not steps:
        raise OperatorError("blockwise needs a step at least")
    return step_dtypes(steps, given)[-1]


def _cost(args: tuple[Any, ...], results: tuple[Any, ...], *, steps: Steps) -> Cost:
    return Cost(sum(step_operator(name).cost(args, results).flops for name, *_ in steps))


# --- masks -----------------------------------------------------------------------------------------------


def _masked_dtype(x: Any, condition: Any) -> Any:
    if condition.kind != "b":
        raise DTypeError(f"masked wants a condition of booleans, given {condition.name}")
    return x


def _masked(xp: Any, x: Any, condition: Any) -> Any:
    return xp.where(condition, x, xp.zeros_like(x))


def _masked_bits(avals: Any, **_: Any) -> bool:
    return bool(avals[0].dtype.itemsize <= 8)


def _masked_into(xp: Any, arrays: Any, outs: Any, scratch: Any) -> None:
    """Bits times one or zero: no branch to mispredict, many times faster than a masked copy."""
    (x, condition), (out,) = arrays, outs
    if x.dtype.kind == "b":
        xp.logical_and(x, condition, out)
        return
    bits = f"i{x.dtype.itemsize}"
    xp.multiply(x.view(bits), condition, out.view(bits))


@elementwise(
    Linear(lambda o, g, x, condition: o.sum_to(o.where(condition, g, 0), x.shape), arguments=(0,)),
    dtype=_masked_dtype,
    kernel=(
        in_steps(_masked_into, dtype=_masked_dtype, name="bits", accepts=_masked_bits, overwrites=ALL),
        reference(_masked, infallible=True),
    ),
    onnx=onnx_elementwise.masked, tolerance=EXACT,
    samples=Samples(relation="cases", cases=tuple(
        (((x, dtype), (condition, "bool")), {})
        for x, condition in (((2, 3), (2, 3)), ((3,), (2, 1)), ((), ()), ((0, 2), (2,)))
        for dtype in ANY
    )),
    moves=True,
)  # fmt: skip
def masked(x: Tensor, condition: Tensor, /) -> Tensor:
    """`x` where the condition is true, and zero elsewhere, whatever stands in `x` there."""


# --- the reference ---------------------------------------------------------------------------------------


def _reference(xp: Any, *xs: Any, steps: Steps) -> Any:
    return one_by_one(xp, xs, shapes.broadcast(*(x.shape for x in xs)), steps)


def one_by_one(xp: Any, xs: Any, shape: Any, steps: Steps) -> Any:
    """One step after another, in any namespace; the last one's result, in that shape."""
    values = list(xs)
    for name, *at in steps:
        op, operands = step_operator(name), [values[i] for i in at]
        values.append(fresh(xp, op.kernels[-1], ())(*operands))
    return values[-1] if values[-1].shape == shape else xp.asarray(xp.broadcast_to(values[-1], shape), copy=True)


# --- in blocks -------------------------------------------------------------------------------------------


@frozen
class Lowered:
    """Steps as calls on registers.

    Attributes
    ----------
    calls
        (function, numbers of operands, number of the result): arguments, then registers, then the result.
    registers
        Their dtypes.
    copies
        The last step may not write over what it reads, so its result goes through a register.
    """

    calls: tuple[tuple[Any, tuple[int, ...], int], ...]
    registers: tuple[Any, ...]
    copies: bool


class _Registers:
    """Scratch arrays by dtype; one is free again once nothing reads what it holds."""

    def __init__(self) -> None:
        self.dtypes: list[Any] = []
        self.free: list[int] = []

    def take(self, dtype: Any) -> int:
        for i, r in enumerate(self.free):
            if self.dtypes[r] == dtype:
                return self.free.pop(i)
        self.dtypes.append(dtype)
        return len(self.dtypes) - 1


@lru_cache(4096)
def lowered(steps: Steps, given: tuple[Any, ...], own: bool = False) -> Lowered:
    """Steps on arguments of these dtypes; the first argument lies in a register of its `own`, or none does.

    Raises
    ------
    OperatorError
        A step is no operator, or one that cannot be computed in blocks.
    """
    import numpy as np

    dtypes, registers, calls = step_dtypes(steps, given), _Registers(), []
    count = len(given)
    last_use = {i: step for step, (_, *at) in enumerate(steps) for i in at}
    held: dict[int, int] = {0: registers.take(given[0])} if own else {}  # value to register
    copies = False
    for step, (name, *at) in enumerate(steps):
        kernel = step_kernel(step_operator(name), tuple(dtypes[i] for i in at))
        if kernel is None:
            raise OperatorError(f"blockwise has a step {name!r}, which cannot be computed in blocks")
        dying = sorted({held[i] for i in at if i in held and last_use[i] == step})
        last = step == len(steps) - 1
        if last and kernel.overwrites == ALL:
            target = -1
        else:
            copies = copies or last
            if kernel.overwrites == ALL:
                registers.free += dying
                dying = []
            target = registers.take(dtypes[count + step])
        operands = tuple(count + held[i] if i in held else i for i in at)
        registers.free += dying
        held[count + step] = target
        calls.append((writing(np, kernel, (), 1, ()), operands, -1 if target < 0 else count + target))
    return Lowered(tuple(calls), tuple(registers.dtypes), copies)


def _flat(avals: Any, shape: Any) -> bool:
    """Whether every argument has the result's shape or one element: then blocks are runs of elements."""
    return all(a.shape == shape or product(a.shape) == 1 for a in avals)


def _block(shape: Any, dtype: Any, flat: bool) -> tuple[Any, ...]:
    """The shape of a block of the result."""
    row: Any = 1 if flat else product(shape[1:])
    length: Any = product(shape) if flat else shape[0]
    wanted = max(1, BLOCK // (dtype.itemsize * row)) if known(row) and row else 1
    rows = min(wanted, max(length, 1)) if known(length) else wanted
    return (rows,) if flat else (rows, *shape[1:])


def _scratch(avals: Any, *, steps: Steps) -> tuple[tuple[tuple[int, ...], Any], ...]:
    shape = shapes.broadcast(*(a.shape for a in avals))
    given = tuple(a.dtype for a in avals)
    block = _block(shape, step_dtypes(steps, given)[-1], _flat(avals, shape))
    return tuple((block, d) for d in lowered(steps, given).registers)


def _into(xp: Any, arrays: Any, outs: Any, scratch: Any, *, steps: Steps) -> None:
    (out,) = outs
    flat = _flat(arrays, out.shape)
    if flat and not out.flags.c_contiguous:
        _into_runs(xp, arrays, out, scratch, steps)
        return
    if flat:
        if not out.flags.c_contiguous:  # in another layout: elements side by side in memory are taken together
            order = memory_order(out)
            out, *arrays = (a.transpose(order) if a.ndim == len(order) else a for a in (out, *arrays))
        # a strided argument is copied: rare, and still one pass
        arrays = [a.reshape(-1) if a.shape == out.shape else a.reshape(()) for a in arrays]
        out = out.reshape(-1)
    whole = [a.ndim < out.ndim or a.shape[0] != out.shape[0] for a in arrays]
    found = lowered(steps, tuple(a.dtype for a in arrays))
    length = out.shape[0]
    rows = _block(out.shape, out.dtype, flat)[0]
    for start in range(0, length, rows):
        part = slice(start, min(start + rows, length))
        blocks = [a if all_of_it else a[part] for a, all_of_it in zip(arrays, whole, strict=True)]
        blocks += [s[: part.stop - start] for s in scratch]
        blocks.append(out[part])
        call_steps(found, blocks)


def call_steps(steps: Lowered, blocks: list[Any]) -> None:
    """Run them on blocks: of the arguments, of the registers, of the result."""
    for call, operands, target in steps.calls:
        call(*[blocks[i] for i in operands], blocks[target])
    if steps.copies:
        blocks[-1][...] = blocks[target]


def _into_runs(xp: Any, arrays: Any, out: Any, scratch: Any, steps: Steps) -> None:
    """Into a part of another array: as rows of runs without gaps, or, where it falls into no such, by a copy."""
    at = max(k for k in range(out.ndim) if out.strides[k] != out.itemsize * product(out.shape[k + 1 :]))
    shape = (product(out.shape[: at + 1]), product(out.shape[at + 1 :]))
    whole = out.reshape(shape)
    rows = [a.reshape(shape) if a.shape == out.shape else a.reshape(()) for a in arrays]
    found = lowered(steps, tuple(a.dtype for a in arrays))
    length = _block(out.shape, out.dtype, True)[0]
    height, width = max(1, length // shape[1]), min(length, shape[1])
    for top in range(0, shape[0], height):
        for left in range(0, shape[1], width):
            part = slice(top, top + height), slice(left, left + width)
            target = whole[part]
            blocks = [a[part] if a.ndim else a for a in rows]
            blocks += [s[: target.size].reshape(target.shape) for s in scratch]
            call_steps(found, [*blocks, target])
    if not xp.shares_memory(whole, out):
        out[...] = whole.reshape(out.shape)


def _compute(xp: Any, *arrays: Any, steps: Steps) -> Any:
    out = xp.empty(shapes.broadcast(*(a.shape for a in arrays)), _dtype(*(a.dtype for a in arrays), steps=steps))
    _into(xp, arrays, (out,), tuple(xp.empty(*each) for each in _scratch(arrays, steps=steps)), steps=steps)
    return out


ADAGRAD = (("sqrt", 2), ("add", 5, 4), ("multiply", 3, 1), ("divide", 7, 6), ("subtract", 0, 8))
RELU = (("add", 0, 1), ("relu", 2))
CASES = tuple(
    (tuple((shape, dtype, (0.1, 3.0)) for shape in given), {"steps": steps})
    for given, steps in (
        (((3, 4), (3, 4), (3, 4), (), ()), ADAGRAD),
        (((2, 3, 4, 5), (5,)), RELU),
        (((2, 3), (2, 1)), RELU),
        (((0, 3), (3,)), RELU),
        (((), ()), RELU),
        (((5,), (5,)), (("greater", 0, 1), ("where", 2, 0, 1))),
    )
    for dtype in ("float32", "float64")
)


@operator(
    shape=shapes.broadcast,
    dtype=_dtype,
    layout=layouts.common,
    kernels=(
        Kernel(
            "in blocks",
            compute=_compute,
            into=_into,
            overwrites=ALL,
            scratch=_scratch,
            namespaces=frozenset({"numpy"}),
            infallible=True,
            strided=True,
        ),
        reference(_reference, infallible=True),
    ),
    derivative=NOT_DIFFERENTIABLE("it is made after derivatives have been taken: differentiate what it was made of"),
    cost=_cost,
    onnx=onnx_elementwise.blockwise,
    tolerance=EXACT,
    samples=Samples(relation="cases", cases=CASES),
)
def blockwise(*xs: Tensor, steps: Nested) -> Tensor:
    """Elementwise operators, one after another, computed block by block so that no intermediate goes to memory.

    A step is ``(operator's name, position of an operand, ...)``; positions count the arguments, then the steps. The
    last step is the result, and has the shape to which all arguments broadcast. It has the bits that the operators
    have one by one.
    """
