"""Elementwise operators of two or three arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.device.kernels.move import NUMPY, Arrays, converted, dtype_of
from nnc_func.device.kernels.onednn_chains import LIBRARY_FMA
from nnc_func.device.kernels.special_cases import FLOOR_DIVIDE, POWER, corrected
from nnc_func.errors import DTypeError
from nnc_func.facets import domains, dtypes, lowering
from nnc_func.facets.derivatives import ONE, Custom, Linear, partials
from nnc_func.facets.dtypes import is_bfloat16, kind_of
from nnc_func.facets.kernels import ALL, Kernel, reference
from nnc_func.facets.laws import (
    Law,
    absorbs,
    absorption,
    associative,
    boolean_algebra,
    cancels,
    commutative,
    complements,
    distributes_over,
    dual,
    idempotent,
    keeps_nonnegative,
    odd,
    undone_by,
    unit,
)
from nnc_func.facets.onnx import elementwise as onnx_elementwise
from nnc_func.facets.samples import ANY, EXACT, NUMBERS, Samples
from nnc_func.facets.views import per_element
from nnc_func.graph.ops.families import (
    STEPS,
    Tensor,
    elementwise,
    in_blocks,
    logical,
    pointwise,
    predicate,
    real,
    real_floating,
)

PAIRS = Samples(dtypes=NUMBERS)


@elementwise(
    partials(ONE, ONE),
    dtype=dtypes.numeric,
    laws=(commutative, associative.of("iu", nearly="fc"), unit(0), undone_by("subtract"), keeps_nonnegative),
    onnx="Add",
    samples=PAIRS,
    tolerance=EXACT,
    lowering=lowering.primitive("add"),
)
def add(a: Tensor, b: Tensor, /) -> Tensor:
    """Sum, element by element; booleans are refused, for they have no sum."""


@elementwise(
    partials(ONE, lambda o, y, a, b: -1),
    dtype=dtypes.numeric,
    laws=(unit(0, "right"), cancels(0).of("iu", nearly="fc"), undone_by("add")),
    onnx="Sub",
    samples=PAIRS,
    tolerance=EXACT,
    lowering=lowering.primitive("subtract"),
)
def subtract(a: Tensor, b: Tensor, /) -> Tensor:
    """Difference, element by element."""


PRODUCT = (
    *(commutative, associative.of("iu", nearly="fc"), unit(1).of("iuf", nearly="c"), absorbs(0).of("iu", nearly="fc")),
    *(odd, keeps_nonnegative, undone_by("divide").of("", nearly="fc")),
    *(distributes_over(name).of("iu", nearly="fc") for name in ("add", "subtract")),
)
QUOTIENT = (
    *(unit(1, "right").of("iuf", nearly="c"), absorbs(0, "left").of("", nearly="biufc")),
    *(cancels(1).of("", nearly="biufc").rounded,),  # a complex quotient rounds
    *(odd.of("f", nearly="c"), undone_by("multiply").of("", nearly="fc")),
    *(distributes_over(name, "left").of("", nearly="fc") for name in ("add", "subtract")),
)


@elementwise(
    partials(lambda o, y, a, b: b, lambda o, y, a, b: a),
    dtype=dtypes.numeric,
    laws=PRODUCT,
    onnx="Mul",
    samples=PAIRS,
    tolerance=EXACT,
    lowering=lowering.primitive("multiply"),
)
def multiply(a: Tensor, b: Tensor, /) -> Tensor:
    """Product, element by element."""


@elementwise(
    partials(lambda o, y, a, b: o.reciprocal(b), lambda o, y, a, b: o.negative(o.multiply(y, o.reciprocal(b)))),
    laws=QUOTIENT,
    onnx="Div",
    samples=Samples(domain=((-3.0, 3.0), (0.5, 4.0))),
    tolerance=EXACT,
    lowering=lowering.in_floats("divide"),
)
def divide(a: Tensor, b: Tensor, /) -> Tensor:
    """Quotient, element by element; integers give float64."""


def _power_by_base(o: Any, y: Any, a: Any, b: Any) -> Any:
    """b a^(b-1); 0 to the 0 is one whatever the base does nearby, so its infinite slope times zero is no NaN."""
    corner = o.logical_and(o.equal(a, 0), o.equal(b, 0))
    if isinstance(b, int) and is_bfloat16(o.dtype(y)):
        b = float(b)  # an integer less one is of 64 bits, which has no dtype in common with that
    return o.multiply(b, o.power(o.where(corner, 1, a), o.subtract(b, 1)))


def _power_by_exponent(o: Any, y: Any, a: Any, b: Any) -> Any:
    """y log(a) where the base is positive or complex; elsewhere there is no derivative, and it is taken to be zero."""
    usable = o.greater(a, 0) if o.dtype(y).kind != "c" else o.not_equal(a, 0)
    base = o.cast(o.where(usable, a, 1), dtype=o.dtype(y))  # a negative base of a complex power has a logarithm
    return o.where(usable, o.multiply(y, o.log(base)), 0)


def _integers(avals: Any, **_: Any) -> bool:
    return not any(kind_of(a.dtype) in "fc" for a in avals)


def _power(xp: Any, a: Any, b: Any) -> Any:
    return xp.asarray(xp.power(a, b))


def _power_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays) -> None:
    xp.power(*arrays, outs[0])


@elementwise(
    partials(_power_by_base, _power_by_exponent),
    dtype=dtypes.numeric,
    kernel=(
        # of integers NumPy's refuses negative exponents: that kernel can fail
        Kernel(
            "power of integers", compute=_power, into=_power_into, overwrites=ALL, accepts=_integers, namespaces=NUMPY
        ),
        *corrected("power", "pow", dtypes.numeric, POWER, pointwise("power", "pow", dtypes.numeric, widens=False)),
    ),
    laws=(unit(1, "right").of("iuf", nearly="c"), absorbs(1, "left").of("iuf", nearly="c")),
    onnx="Pow",
    cost=per_element(16),
    samples=Samples(domain=((0.3, 2.5), (-2.0, 3.0))),
    lowering=lowering.primitive("power"),
    takes_all=domains.unless_integers,
)
def power(a: Tensor, b: Tensor, /) -> Tensor:
    """`a` to the power of `b`; the derivative by the exponent is zero where the base is not positive."""


# --- the larger and the smaller: a tie gives each argument half of the derivative --------------------------


def _by_keyword(name: str) -> tuple[Kernel, ...]:
    """Not a `ufunc` kernel: NumPy 2.4 deprecates a third positional argument of these two, taking it for data."""

    def compute(xp: Any, a: Any, b: Any) -> Any:
        return xp.asarray(getattr(xp, name)(a, b))

    def into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays) -> None:
        getattr(xp, name)(*arrays, out=outs[0])

    fast = Kernel(name, compute=compute, into=into, overwrites=ALL, namespaces=NUMPY, infallible=True, strided=True)
    return fast, pointwise(name, name, real, widens=False)[-1]


def _winner(wins: str) -> Custom:
    def share(o: Any, t: Any, a: Any, b: Any) -> Any:
        tied = o.where(o.equal(a, b), o.multiply(t, 0.5), 0)
        return o.where(getattr(o, wins)(a, b), t, tied)

    def jvp(o: Any, ts: Any, y: Any, a: Any, b: Any) -> Any:
        if ts[1] is None:
            return share(o, ts[0], a, b)
        if ts[0] is None:
            return share(o, ts[1], b, a)
        return o.add(share(o, ts[0], a, b), share(o, ts[1], b, a))

    return Custom(
        jvp,
        (
            lambda o, g, y, a, b: o.sum_to(share(o, g, a, b), a.shape),
            lambda o, g, y, a, b: o.sum_to(share(o, g, b, a), b.shape),
        ),
    )


def _extremum(other: str) -> tuple[Law, ...]:
    return (
        *(commutative, associative, idempotent, absorption(other).of("iu", nearly="f")),
        *(dual(other, "negative").of("f"), keeps_nonnegative),
    )


@elementwise(
    _winner("greater"),
    kernel=_by_keyword("maximum"),
    dtype=real,
    laws=_extremum("minimum"),
    onnx=onnx_elementwise.extreme_of_two("Max"),
    tolerance=EXACT,
    samples=Samples(dtypes=NUMBERS, distinct=True),
    lowering=lowering.Expression(lowering.larger, either_zero=True),
)
def maximum(a: Tensor, b: Tensor, /) -> Tensor:
    """The larger of two elements, NaN if either is; where they are equal, each gets half of the derivative."""


@elementwise(
    _winner("less"),
    kernel=_by_keyword("minimum"),
    dtype=real,
    laws=_extremum("maximum"),
    onnx=onnx_elementwise.extreme_of_two("Min"),
    tolerance=EXACT,
    samples=Samples(dtypes=NUMBERS, distinct=True),
    lowering=lowering.Expression(lowering.smaller, either_zero=True),
)
def minimum(a: Tensor, b: Tensor, /) -> Tensor:
    """The smaller of two elements, NaN if either is; where they are equal, each gets half of the derivative."""


# --- division with a whole quotient -----------------------------------------------------------------------

WITHIN_ONE = Samples(domain=((-3.0, 3.0), (3.5, 6.0)), avoid=(0.0,))


@elementwise(
    STEPS,
    dtype=real,
    kernel=corrected(
        "floor_divide",
        "floor_divide",
        real,
        FLOOR_DIVIDE,
        pointwise("floor_divide", "floor_divide", real, widens=False),
    ),
    onnx=onnx_elementwise.floor_divide,
    samples=WITHIN_ONE,
    tolerance=EXACT,
    laws=(unit(1, "right").of("iu"),),
    lowering=lowering.primitive("floor_divide"),
)
def floor_divide(a: Tensor, b: Tensor, /) -> Tensor:
    """The largest integer not above the quotient, in the promoted dtype; integers divided by zero give 0.

    Of infinities it is the quotient, as the array API standard has it, where NumPy and Python give NaN or -1.
    """


@elementwise(
    partials(ONE, lambda o, y, a, b: o.negative(o.floor_divide(a, b))),
    dtype=real,
    onnx=onnx_elementwise.remainder,
    samples=WITHIN_ONE,
    tolerance=EXACT,
    laws=(cancels(0).of("iu", nearly="f"),),
    lowering=lowering.primitive("remainder"),
)
def remainder(a: Tensor, b: Tensor, /) -> Tensor:
    """What the floored division leaves: it has the sign of `b`."""


@elementwise(
    partials(
        lambda o, y, a, b: o.divide(b, o.square(o.hypot(a, b))),  # of truth values there is no square
        lambda o, y, a, b: o.negative(o.divide(a, o.square(o.hypot(a, b)))),
    ),
    kernel="arctan2",
    standard="atan2",
    dtype=real_floating,
    onnx=onnx_elementwise.atan2,
    samples=Samples(avoid=(0.0,)),
    cost=per_element(24),
)
def atan2(a: Tensor, b: Tensor, /) -> Tensor:
    """The angle of the point (b, a), between -pi and pi."""


# --- truth ------------------------------------------------------------------------------------------------

TRUTH: dict[str, Any] = {"common": logical, "dtype": logical, "samples": Samples(dtypes=("bool",)), "tolerance": EXACT}


@predicate(
    "booleans have no derivative",
    laws=boolean_algebra("logical_or", "logical_not", neutral=1, zero=0),
    onnx="And",
    **TRUTH,
    lowering=lowering.primitive("bit_and"),
)
def logical_and(a: Tensor, b: Tensor, /) -> Tensor:
    """Whether both are true, of booleans only."""


@predicate(
    "booleans have no derivative",
    laws=boolean_algebra("logical_and", "logical_not", neutral=0, zero=1),
    onnx="Or",
    **TRUTH,
    lowering=lowering.primitive("bit_or"),
)
def logical_or(a: Tensor, b: Tensor, /) -> Tensor:
    """Whether either is true, of booleans only."""


@predicate(
    "booleans have no derivative",
    laws=(commutative, associative, unit(0), cancels(0), undone_by("logical_xor"), complements(1, "logical_not")),
    onnx="Xor",
    **TRUTH,
    lowering=lowering.primitive("bit_xor"),
)
def logical_xor(a: Tensor, b: Tensor, /) -> Tensor:
    """Whether exactly one is true, of booleans only."""


# --- three arguments --------------------------------------------------------------------------------------


def _chosen(condition: dtypes.DType, a: dtypes.DType, b: dtypes.DType, **_: Any) -> dtypes.DType:
    if condition.kind != "b":
        raise DTypeError(f"where wants a condition of booleans, given {condition.name}; use not_equal(condition, 0)")
    return dtypes.promote(a, b)


def _where(xp: Any, condition: Any, a: Any, b: Any) -> Any:
    common = dtypes.promote(dtype_of(a), dtype_of(b))
    return xp.where(condition, converted(xp, a, common), converted(xp, b, common))


def _where_numpy(xp: Any, condition: Any, a: Any, b: Any) -> Any:
    return xp.asarray(xp.where(condition, a, b))


CHOSEN = 24_576  # bytes of elements that are chosen at a time
LEAST = 1_024  # elements from which on it is faster to choose by bits


def _where_into(xp: Any, arrays: Arrays, outs: Arrays, scratch: Arrays) -> None:
    condition, a, b = arrays
    (out,) = outs
    if xp is np and out.size >= LEAST and out.itemsize <= 8:
        runs = _in_a_row(condition, a, b, out)
        if runs is not None:
            _choose(*runs)
            return
    if out is not b:
        xp.copyto(out, b)
    xp.copyto(out, a, where=condition)


def _in_a_row(condition: Any, a: Any, b: Any, out: Any) -> Arrays | None:
    """The elements as they lie in memory, as integers, if they lie there alike and without gaps; a number stays one."""
    order = sorted(range(out.ndim), key=out.strides.__getitem__, reverse=True)
    found = []
    for x in (condition, a, b, out):
        if x is not condition and x.dtype != out.dtype:
            return None
        bits = x if x is condition else x.view(f"i{x.itemsize}")
        if bits.ndim or x is condition:
            bits = bits.transpose(order) if bits.shape == out.shape else None
            if bits is None or not bits.flags.c_contiguous:
                return None
            bits = bits.reshape(-1)
        found.append(bits)
    return tuple(found)


def _choose(condition: Any, a: Any, b: Any, out: Any) -> None:
    """Choose run by run, by bits: a copy where a mask says so mispredicts, and takes many times as long."""
    length = min(CHOSEN // out.itemsize, out.size)
    masks, others = np.empty((2, length), out.dtype)
    for start in range(0, out.size, length):
        run = slice(start, start + length)
        some, other = out[run], b[run] if b.ndim else b
        mask, both = masks[: some.size], others[: some.size]
        np.copyto(mask, condition[run])
        np.negative(mask, mask)
        np.bitwise_xor(a[run] if a.ndim else a, other, both)
        np.bitwise_and(both, mask, both)
        np.bitwise_xor(other, both, some)


BROADCAST: tuple[tuple[Any, Any, Any], ...] = (
    ((), (), ()), ((2, 3), (2, 3), (2, 3)), ((3,), (2, 1), ()), ((2, 1), (3,), (2, 3)), ((0,), (1,), ()),
)  # fmt: skip
CHOICES = tuple(
    (((condition, "bool"), (a, dtype), (b, dtype)), dict[str, Any]()) for condition, a, b in BROADCAST for dtype in ANY
)


@elementwise(
    Linear(
        lambda o, g, condition, a, b: (
            lambda: o.sum_to(o.where(condition, g, 0), a.shape),
            lambda: o.sum_to(o.where(condition, 0, g), b.shape),
        ),
        arguments=(1, 2),
        chooses=True,
    ),
    dtype=_chosen,
    kernel=(
        Kernel(
            "copies",
            compute=_where_numpy,
            into=_where_into,
            overwrites=(2,),
            namespaces=NUMPY,
            infallible=True,
            strided=True,
        ),
        reference(_where, infallible=True),
    ),
    onnx=onnx_elementwise.where,
    tolerance=EXACT,
    samples=Samples(relation="cases", cases=CHOICES),
    data_movement=True,
    lowering=lowering.Expression(lowering.kept),
)
def where(condition: Tensor, a: Tensor, b: Tensor, /) -> Tensor:
    """`a` where the condition is true and `b` elsewhere; what is not chosen has no say in the derivative."""


def _after(a: dtypes.DType, b: dtypes.DType, c: dtypes.DType, **_: Any) -> dtypes.DType:
    return dtypes.numeric(dtypes.numeric(a, b), c)


def _fma(xp: Any, a: Any, b: Any, c: Any) -> Any:
    inner = dtypes.promote(dtype_of(a), dtype_of(b))
    product = converted(xp, a, inner) * converted(xp, b, inner)
    common = dtypes.promote(inner, dtype_of(c))
    return converted(xp, product, common) + converted(xp, c, common)


def _fma_calls(xp: Any, count: int, dtype: Any) -> Any:
    """The product goes into scratch, so that any argument, the addend too, may be written over."""
    return (xp.multiply, (0, 1, 4)), (xp.add, (4, 2, 3))


def _product(a: dtypes.DType, b: dtypes.DType, c: dtypes.DType) -> dtypes.DType:
    return dtypes.promote(a, b)


@elementwise(
    partials(lambda o, y, a, b, c: b, lambda o, y, a, b, c: a, ONE),
    dtype=_after,
    kernel=(LIBRARY_FMA, *in_blocks(_fma_calls, dtype=_after, inner=_product), reference(_fma, infallible=True)),
    onnx=onnx_elementwise.fma,
    samples=PAIRS,
    cost=per_element(2),
    lowering=lowering.Expression(lowering.multiplied_and_added),
)
def fma(a: Tensor, b: Tensor, c: Tensor, /) -> Tensor:
    """a * b + c without a tensor for the product; a device may round once instead of twice."""
