"""Decorators for families of operators: most facets are the family's. And the kernels that come with a name.

Operators are declared one a function; what all of a family share (shapes, casts, in-place) is said here once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from attrs import evolve

from nnc_func.device.kernels.move import NUMPY, Arrays, cast, converted, dtype_of
from nnc_func.device.shared.unrolled import maker, unrolled
from nnc_func.errors import DTypeError
from nnc_func.facets import dtypes, layouts, shapes
from nnc_func.facets.derivatives import Constant, Custom, Derivative, Linear
from nnc_func.facets.dims import known, product
from nnc_func.facets.dtypes import kind_of
from nnc_func.facets.kernels import ALL, Kernel, reference, ufunc
from nnc_func.op import Op, operator

Axes = Any  # converted by op.axes
Extent = Any  # converted by op.extent
Bodies = Any  # a tuple of `Body`
Sizes = Any  # converted by op.sizes
DType = Any  # converted by numpy.dtype
Nested = Any  # converted by declaration.nested
Key = Any  # converted by declaration.index_key
Function = Any  # converted by op.function
Policy = Any  # converted by op.policy
Tensor = Any  # whatever flows through an interpretation
number = Any  # converted by op.number

Decorator = Callable[[Callable[..., Any]], Op]
STEPS = Constant("it is constant between its jumps")


# --- dtype rules -----------------------------------------------------------------------------------------


def real(*given: dtypes.DType, **_: Any) -> dtypes.DType:
    """Promotion of numbers that have an order: neither booleans nor complex numbers."""
    return _no_complex(dtypes.numeric(*given))


def real_floating(*given: dtypes.DType, **_: Any) -> dtypes.DType:
    """As `floating`, complex numbers refused."""
    return _no_complex(dtypes.floating(*given))


def _no_complex(found: dtypes.DType) -> dtypes.DType:
    if found.kind == "c":
        raise DTypeError(f"wanted real numbers, given {found.name}")
    return found


def logical(*given: dtypes.DType, **_: Any) -> dtypes.DType:
    """Booleans of booleans."""
    for each in given:
        if each.kind != "b":
            raise DTypeError(f"wanted booleans, given {each.name}; compare it with something, or cast it to bool")
    return dtypes.BOOL


def holding(dtype: dtypes.DType, value: Any, what: str) -> dtypes.DType:
    """That dtype, which must have such a value.

    Raises
    ------
    DTypeError
        It has not: no fraction is an integer, and no integer has all values.
    """
    dtypes.check_held(dtype)
    if not known(value):
        value = 0  # an extent: which one is checked when it is known
    kind = "?" if isinstance(value, bool) else {int: "i", float: "f", complex: "c"}[type(value)]
    fits = {"b": value in (0, 1), "i": kind in "?i", "u": kind in "?i", "f": kind != "c"}.get(kind_of(dtype), True)
    if fits and dtype.kind in "iu":
        fits = np.iinfo(dtype).min <= value <= np.iinfo(dtype).max
    elif type(value) is int and abs(value) > dtypes.LARGEST:
        fits = False
    if not fits:
        given = dtypes.written(value) if kind == "i" else repr(value)
        raise DTypeError(f"{what}={given} is no {dtype.name}; give another value, or cast the tensor first")
    return dtype


# --- kernels ---------------------------------------------------------------------------------------------


def pointwise(numpy: str, standard: str, common: dtypes.DTypeRule, widens: bool) -> tuple[Kernel, ...]:
    """The kernels of an elementwise operator with a name in NumPy (and CuPy) and one in the standard.

    Parameters
    ----------
    common
        The rule for the dtype in which it is computed.
    widens
        It gives some arguments a wider dtype than NumPy would: those are computed by NumPy in that dtype.
    """

    def natural(avals: Any, **_: Any) -> bool:
        given = [a.dtype for a in avals]
        return bool(np.result_type(*given) == common(*given))

    def widened(xp: Any, *arrays: Any) -> Any:
        return xp.asarray(getattr(xp, numpy)(*arrays, dtype=common(*(a.dtype for a in arrays))))

    def widened_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays) -> None:
        getattr(xp, numpy)(*arrays, outs[0], dtype=outs[0].dtype)

    def standardised(xp: Any, *arrays: Any) -> Any:
        wanted = common(*map(dtype_of, arrays))
        return getattr(xp, standard)(*(converted(xp, a, wanted) for a in arrays))

    plain = evolve(ufunc(numpy), namespaces=NUMPY)
    last = reference(standardised, infallible=True)
    if not widens:
        return plain, last
    wide = Kernel(
        f"{numpy}, widened", compute=widened, into=widened_into, namespaces=NUMPY, infallible=True, strided=True
    )
    return evolve(plain, accepts=natural), wide, last


def standing_in(numpy: str, compute: Callable[..., Any], common: dtypes.DTypeRule) -> tuple[Kernel, ...]:
    """The kernels of a function that NumPy has and the standard has not: elsewhere it is computed by ``(xp, x)``."""

    def standardised(xp: Any, *arrays: Any) -> Any:
        wanted = common(*map(dtype_of, arrays))
        return compute(xp, *(converted(xp, a, wanted) for a in arrays))

    return (*pointwise(numpy, numpy, common, widens=True)[:-1], reference(standardised, infallible=True))


def comparable(*given: dtypes.DType, **_: Any) -> dtypes.DType:
    """Promotion; booleans become the smallest integers, since the standard orders numbers only."""
    found = dtypes.promote(*given)
    return np.dtype("int8") if found.kind == "b" else found


def in_steps(
    into: Callable[..., None], *, shape: Callable[..., Any] = shapes.broadcast, dtype: dtypes.DTypeRule, **facts: Any
) -> Kernel:
    """A kernel for NumPy and CuPy that is written as its `into`; `compute` allocates for it."""
    scratch = facts.get("scratch")

    def compute(xp: Any, *arrays: Any, **params: Any) -> Any:
        out = xp.empty(shape(*(a.shape for a in arrays), **params), dtype(*(a.dtype for a in arrays), **params))
        wanted = scratch(arrays, **params) if scratch else ()
        into(xp, arrays, (out,), tuple(xp.empty(*each) for each in wanted), **params)
        return out

    facts = {"name": "in steps", "namespaces": NUMPY, "infallible": True, "strided": True, **facts}
    return Kernel(compute=compute, into=into, **facts)


BLOCK = 65536  # elements of scratch: a few blocks fit in the innermost caches


def block(shape: tuple[Any, ...], dtype: dtypes.DType) -> tuple[tuple[Any, Any], ...]:
    """Scratch for a block of an array, or for all of it where it is smaller; where that is not known, for a row."""
    size = product(shape)
    if known(size):
        return (((max(1, min(size, BLOCK)),), dtype),)
    row = product(shape[1:])
    rows = max(1, BLOCK // row) if isinstance(row, int) and row else 1
    if known(shape[0]):
        rows = max(1, min(rows, shape[0]))
    return (((rows, *shape[1:]), dtype),)


def _by_blocks(call: Callable[..., Any], scratch: Arrays, arrays: list[Any]) -> None:
    """Call it with parts of the arrays, all of one rank and the last one the result, that are no larger than scratch.

    Scratch is in runs, of which each part has one of its own shape.
    """
    shape, size, most = arrays[-1].shape, arrays[-1].size, scratch[0].size
    if size <= most:
        call(*arrays, *[s[:size].reshape(shape) for s in scratch])
        return
    rows = most * shape[0] // size
    for start in range(0, shape[0], max(rows, 1)):
        where: Any = slice(start, min(start + rows, shape[0])) if rows else start
        _by_blocks(call, scratch, [a[where] if a.shape[0] != 1 else a if rows else a[0] for a in arrays])


def _outermost_first(array: Any) -> list[int] | None:
    """The axes of an array in the order in which they lie in memory; None where that is how they are counted."""
    found = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]) if array.shape[axis] != 1 else 0)
    return None if array.flags.c_contiguous or found == list(range(array.ndim)) else found


def _computed(call: Callable[..., Any], scratch: Arrays, order: Any, *arrays: Any) -> None:
    """Call it block by block, along the axes in that order, outermost first; None: as they are counted."""
    rank = arrays[-1].ndim
    seen = [a if a.ndim == rank else a[(None,) * (rank - a.ndim)] for a in arrays]
    _by_blocks(call, scratch, seen if order is None else [a.transpose(order) for a in seen])


def in_blocks(
    calls: Callable[..., Any], *, dtype: dtypes.DTypeRule, inner: dtypes.DTypeRule, overwrites: Any = ALL,
    registers: int = 1,
) -> tuple[Kernel, ...]:  # fmt: skip
    """Elementwise, through scratch of the `inner` dtype: in cache-sized blocks on NumPy, at one go on a GPU.

    ``calls(xp, count, dtype)`` lists the calls for that many operands and that inner dtype: (function, operands), an
    operand being a position, where the result and the `registers` of scratch come after the operands, or an array.
    """

    def some(avals: Any, **_: Any) -> tuple[tuple[Any, Any], ...]:
        return registers * block(shapes.broadcast(*(a.shape for a in avals)), inner(*(a.dtype for a in avals)))

    def whole(avals: Any, **_: Any) -> tuple[tuple[Any, Any], ...]:
        return registers * ((shapes.broadcast(*(a.shape for a in avals)) or (1,), inner(*(a.dtype for a in avals))),)

    def into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays) -> None:
        listed = calls(xp, len(arrays), scratch[0].dtype)

        def call(*each: Any) -> None:
            for function, operands in listed:
                function(*[each[i] if isinstance(i, int) else i for i in operands])

        _computed(call, tuple([s.reshape(-1) for s in scratch]), _outermost_first(outs[0]), *arrays, outs[0])

    @lru_cache(256)
    def made(count: int, dtype: dtypes.DType) -> Any:
        return maker(calls(np, count, dtype), count + 1, registers)

    def bound(avals: Any) -> Any:
        *given, out = avals
        if not all(map(known, out.shape)) or not out.size:
            return None
        (count,), dtype = some(given)[0]
        if out.size <= count and out.layout is None:
            of = made(len(given), dtype)
            return lambda *scratch: of(*[s.reshape(out.shape) for s in scratch])
        call = unrolled(calls(np, len(given), dtype), len(avals) + registers)
        return lambda *scratch: partial(_computed, call, scratch, out.layout)

    here = frozenset({"numpy"})
    facts: dict[str, Any] = {"dtype": dtype, "overwrites": overwrites}
    return (
        in_steps(into, name="in blocks", scratch=some, namespaces=here, bound=bound, **facts),
        in_steps(into, scratch=whole, **facts),
    )


def floats_only(avals: Any, **_: Any) -> bool:
    """Whether the arguments are floating as they stand."""
    return all(kind_of(a.dtype) in "fc" for a in avals)


def rounding(numpy: str, standard: str) -> tuple[Kernel, ...]:
    """Kernels for rounding to an integer: an integer stays what it is (NumPy before 2.1 made it a float)."""

    def rounded(xp: Any, x: Any) -> Any:
        return getattr(xp, standard)(x) if kind_of(dtype_of(x)) in "fc" else cast(xp, x, dtype=dtype_of(x))

    return evolve(ufunc(numpy), namespaces=NUMPY, accepts=floats_only), reference(rounded, infallible=True)


# --- decorators ------------------------------------------------------------------------------------------


def elementwise(
    derivative: Derivative,
    *,
    kernel: str | Kernel | tuple[Kernel, ...] | None = None,
    standard: str | None = None,
    dtype: dtypes.DTypeRule = dtypes.floating,
    **facets: Any,
) -> Decorator:
    """An operator on each element by itself: shapes broadcast, any argument of the result's aval may be overwritten.

    `kernel` is NumPy's name for it where that is not the operator's, or its kernels; `standard` the array API's.
    """

    def decorate(signature: Callable[..., Any]) -> Op:
        own = signature.__name__.rstrip("_")
        if isinstance(kernel, (Kernel, tuple)):
            kernels = kernel if isinstance(kernel, tuple) else (kernel,)
        else:
            kernels = pointwise(kernel or own, standard or own, dtype, dtype in (dtypes.floating, real_floating))
        facts = {"layout": layouts.common, **facets}
        own_derivative = evolve(derivative, by_element=True) if isinstance(derivative, (Linear, Custom)) else derivative
        declare = operator(shape=shapes.broadcast, dtype=dtype, derivative=own_derivative, kernels=kernels, **facts)
        return declare(signature)

    return decorate


def predicate(
    why: str, *, common: dtypes.DTypeRule, dtype: dtypes.DTypeRule = dtypes.boolean, **facets: Any
) -> Decorator:
    """An elementwise question: booleans come out, and no derivative."""

    def decorate(signature: Callable[..., Any]) -> Op:
        name = signature.__name__
        kernels = pointwise(name, name, common, widens=False)
        return elementwise(Constant(why), kernel=kernels, dtype=dtype, **facets)(signature)

    return decorate
