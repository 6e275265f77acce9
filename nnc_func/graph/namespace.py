"""The operators as typed methods. Generated from the catalogue by scripts/generate.py: change operators, not this.

What is told here of an operator is its own signature and docstring; `docs/operators.md` has all of them in tables.
"""

# mypy: disable-error-code="no-any-return"
# `_bind` and `_compose` return what the layer returns: T, or a tuple of T where the operator has several results.

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Never, TypeVar

import numpy as np
from attrs import field, frozen

from nnc_func.declaration import checks_names
from nnc_func.graph.functions import Functions
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Catalogue, Op

if TYPE_CHECKING:
    import numpy.typing as npt

    from nnc_func.body import Body

T = TypeVar("T")
SCALARS = (bool, int, float, complex)
Scalar = bool | int | float | complex | np.generic  # stands for any tensor argument: it takes the others' dtype
Axes = int | Sequence[int]
Sizes = int | Sequence[Any]  # an extent may be symbolic

_NEGATIVE = CATALOGUE["negative"]
_ABS = CATALOGUE["abs"]
_SIGN = CATALOGUE["sign"]
_SQRT = CATALOGUE["sqrt"]
_SQUARE = CATALOGUE["square"]
_RECIPROCAL = CATALOGUE["reciprocal"]
_CLIP = CATALOGUE["clip"]
_FLOOR = CATALOGUE["floor"]
_CEIL = CATALOGUE["ceil"]
_ROUND = CATALOGUE["round"]
_TRUNC = CATALOGUE["trunc"]
_ISNAN = CATALOGUE["isnan"]
_ISINF = CATALOGUE["isinf"]
_ISFINITE = CATALOGUE["isfinite"]
_LOGICAL_NOT = CATALOGUE["logical_not"]
_CAST = CATALOGUE["cast"]
_STOP_GRADIENT = CATALOGUE["stop_gradient"]
_EXP = CATALOGUE["exp"]
_EXP2 = CATALOGUE["exp2"]
_EXPM1 = CATALOGUE["expm1"]
_LOG = CATALOGUE["log"]
_LOG2 = CATALOGUE["log2"]
_LOG10 = CATALOGUE["log10"]
_LOG1P = CATALOGUE["log1p"]
_LOGADDEXP = CATALOGUE["logaddexp"]
_SIN = CATALOGUE["sin"]
_COS = CATALOGUE["cos"]
_TAN = CATALOGUE["tan"]
_ASIN = CATALOGUE["asin"]
_ACOS = CATALOGUE["acos"]
_ATAN = CATALOGUE["atan"]
_SINH = CATALOGUE["sinh"]
_COSH = CATALOGUE["cosh"]
_TANH = CATALOGUE["tanh"]
_ASINH = CATALOGUE["asinh"]
_ACOSH = CATALOGUE["acosh"]
_ATANH = CATALOGUE["atanh"]
_CBRT = CATALOGUE["cbrt"]
_HYPOT = CATALOGUE["hypot"]
_ERF = CATALOGUE["erf"]
_ERFC = CATALOGUE["erfc"]
_ERFINV = CATALOGUE["erfinv"]
_DAWSN = CATALOGUE["dawsn"]
_LGAMMA = CATALOGUE["lgamma"]
_POLYGAMMA = CATALOGUE["polygamma"]
_SIGMOID = CATALOGUE["sigmoid"]
_RELU = CATALOGUE["relu"]
_SOFTPLUS = CATALOGUE["softplus"]
_ADD = CATALOGUE["add"]
_SUBTRACT = CATALOGUE["subtract"]
_MULTIPLY = CATALOGUE["multiply"]
_DIVIDE = CATALOGUE["divide"]
_POWER = CATALOGUE["power"]
_MAXIMUM = CATALOGUE["maximum"]
_MINIMUM = CATALOGUE["minimum"]
_FLOOR_DIVIDE = CATALOGUE["floor_divide"]
_REMAINDER = CATALOGUE["remainder"]
_ATAN2 = CATALOGUE["atan2"]
_LOGICAL_AND = CATALOGUE["logical_and"]
_LOGICAL_OR = CATALOGUE["logical_or"]
_LOGICAL_XOR = CATALOGUE["logical_xor"]
_WHERE = CATALOGUE["where"]
_FMA = CATALOGUE["fma"]
_BITWISE_AND = CATALOGUE["bitwise_and"]
_BITWISE_OR = CATALOGUE["bitwise_or"]
_BITWISE_XOR = CATALOGUE["bitwise_xor"]
_BITWISE_INVERT = CATALOGUE["bitwise_invert"]
_BITWISE_LEFT_SHIFT = CATALOGUE["bitwise_left_shift"]
_BITWISE_RIGHT_SHIFT = CATALOGUE["bitwise_right_shift"]
_SIGNBIT = CATALOGUE["signbit"]
_COPYSIGN = CATALOGUE["copysign"]
_NEXTAFTER = CATALOGUE["nextafter"]
_BIT_CAST = CATALOGUE["bit_cast"]
_REAL = CATALOGUE["real"]
_IMAG = CATALOGUE["imag"]
_COMPLEX = CATALOGUE["complex"]
_CONJ = CATALOGUE["conj"]
_ANGLE = CATALOGUE["angle"]
_EQUAL = CATALOGUE["equal"]
_NOT_EQUAL = CATALOGUE["not_equal"]
_LESS = CATALOGUE["less"]
_LESS_EQUAL = CATALOGUE["less_equal"]
_GREATER = CATALOGUE["greater"]
_GREATER_EQUAL = CATALOGUE["greater_equal"]
_SUM = CATALOGUE["sum"]
_MEAN = CATALOGUE["mean"]
_MAX = CATALOGUE["max"]
_MIN = CATALOGUE["min"]
_ARGMAX = CATALOGUE["argmax"]
_ARGMIN = CATALOGUE["argmin"]
_PROD = CATALOGUE["prod"]
_ANY = CATALOGUE["any"]
_ALL = CATALOGUE["all"]
_LOGSUMEXP = CATALOGUE["logsumexp"]
_CUMULATIVE_SUM = CATALOGUE["cumulative_sum"]
_RESHAPE = CATALOGUE["reshape"]
_PERMUTE_DIMS = CATALOGUE["permute_dims"]
_BROADCAST_TO = CATALOGUE["broadcast_to"]
_EXPAND_DIMS = CATALOGUE["expand_dims"]
_SQUEEZE = CATALOGUE["squeeze"]
_FLIP = CATALOGUE["flip"]
_TILE = CATALOGUE["tile"]
_CONCAT = CATALOGUE["concat"]
_STACK = CATALOGUE["stack"]
_SPLIT = CATALOGUE["split"]
_PAD = CATALOGUE["pad"]
_ASSEMBLE = CATALOGUE["assemble"]
_SLICE = CATALOGUE["slice"]
_SET_SLICE = CATALOGUE["set_slice"]
_TAKE = CATALOGUE["take"]
_TAKE_ALONG_AXIS = CATALOGUE["take_along_axis"]
_SCATTER_ADD = CATALOGUE["scatter_add"]
_PUT_ALONG_AXIS_ADD = CATALOGUE["put_along_axis_add"]
_ONE_HOT = CATALOGUE["one_hot"]
_RELAYOUT = CATALOGUE["relayout"]
_TRANSFER = CATALOGUE["transfer"]
_AFTER = CATALOGUE["after"]
_FULL = CATALOGUE["full"]
_ARANGE = CATALOGUE["arange"]
_MATMUL = CATALOGUE["matmul"]
_TENSORDOT = CATALOGUE["tensordot"]
_DIAGONAL = CATALOGUE["diagonal"]
_DIAGONAL_MATRIX = CATALOGUE["diagonal_matrix"]
_CHOLESKY = CATALOGUE["cholesky"]
_QR = CATALOGUE["qr"]
_SVD = CATALOGUE["svd"]
_SVDVALS = CATALOGUE["svdvals"]
_EIGH = CATALOGUE["eigh"]
_EIGVALSH = CATALOGUE["eigvalsh"]
_SOLVE = CATALOGUE["solve"]
_SOLVE_TRIANGULAR = CATALOGUE["solve_triangular"]
_INV = CATALOGUE["inv"]
_PINV = CATALOGUE["pinv"]
_DET = CATALOGUE["det"]
_COFACTORS = CATALOGUE["cofactors"]
_SLOGDET = CATALOGUE["slogdet"]
_SYLVESTER = CATALOGUE["sylvester"]
_DISCRETE_LYAPUNOV = CATALOGUE["discrete_lyapunov"]
_CARE = CATALOGUE["care"]
_DARE = CATALOGUE["dare"]
_EXPM = CATALOGUE["expm"]
_FOURIER = CATALOGUE["fourier"]
_REAL_FOURIER = CATALOGUE["real_fourier"]
_INVERSE_REAL_FOURIER = CATALOGUE["inverse_real_fourier"]
_CONV2D = CATALOGUE["conv2d"]
_CONV2D_INPUT_GRADIENT = CATALOGUE["conv2d_input_gradient"]
_CONV2D_KERNEL_GRADIENT = CATALOGUE["conv2d_kernel_gradient"]
_MAX_POOL2D = CATALOGUE["max_pool2d"]
_MAX_POOL2D_GRADIENT = CATALOGUE["max_pool2d_gradient"]
_MAX_POOL2D_TANGENT = CATALOGUE["max_pool2d_tangent"]
_AVERAGE_POOL2D = CATALOGUE["average_pool2d"]
_AVERAGE_POOL2D_GRADIENT = CATALOGUE["average_pool2d_gradient"]
_NON_MAXIMUM_SUPPRESSION = CATALOGUE["non_maximum_suppression"]
_SOFTMAX = CATALOGUE["softmax"]
_LOG_SOFTMAX = CATALOGUE["log_softmax"]
_SOFTMAX_CROSS_ENTROPY = CATALOGUE["softmax_cross_entropy"]
_SOFTMAX_CROSS_ENTROPY_GRADIENT = CATALOGUE["softmax_cross_entropy_gradient"]
_RANDOM_SPLIT = CATALOGUE["random_split"]
_RANDOM_FOLD_IN = CATALOGUE["random_fold_in"]
_RANDOM_BITS = CATALOGUE["random_bits"]
_RANDOM_UNIFORM = CATALOGUE["random_uniform"]
_RANDOM_NORMAL = CATALOGUE["random_normal"]
_RANDOM_BERNOULLI = CATALOGUE["random_bernoulli"]
_MASKED = CATALOGUE["masked"]
_BLOCKWISE = CATALOGUE["blockwise"]
_BLOCKWISE_SEVERAL = CATALOGUE["blockwise_several"]
_CONV2D_BLOCKWISE = CATALOGUE["conv2d_blockwise"]
_MATMUL_BLOCKWISE = CATALOGUE["matmul_blockwise"]
_ATTENTION_BLOCKWISE = CATALOGUE["attention_blockwise"]
_SIGMOID_GRADIENT = CATALOGUE["sigmoid_gradient"]
_TANH_GRADIENT = CATALOGUE["tanh_gradient"]
_RELU_GRADIENT = CATALOGUE["relu_gradient"]
_ADAPTIVE_UPDATE = CATALOGUE["adaptive_update"]
_TOKEN = CATALOGUE["token"]
_PRINT = CATALOGUE["print"]
_CHECK = CATALOGUE["check"]
_CALLBACK = CATALOGUE["callback"]
_SCATTER_SET = CATALOGUE["scatter_set"]
_SCATTER_MULTIPLY = CATALOGUE["scatter_multiply"]
_SCATTER_MIN = CATALOGUE["scatter_min"]
_SCATTER_MAX = CATALOGUE["scatter_max"]
_RAVEL_MULTI_INDEX = CATALOGUE["ravel_multi_index"]
_SORT = CATALOGUE["sort"]
_ARGSORT = CATALOGUE["argsort"]
_ARGTOP_K = CATALOGUE["argtop_k"]
_KTH_VALUE = CATALOGUE["kth_value"]
_SEARCHSORTED = CATALOGUE["searchsorted"]
_FLATNONZERO = CATALOGUE["flatnonzero"]
_LINEAR_RECURRENCE = CATALOGUE["linear_recurrence"]
_CUMULATIVE_PROD = CATALOGUE["cumulative_prod"]
_CUMULATIVE_MAX = CATALOGUE["cumulative_max"]
_CUMULATIVE_MIN = CATALOGUE["cumulative_min"]
_LOGCUMSUMEXP = CATALOGUE["logcumsumexp"]
_MULTIPLY_NO_NAN = CATALOGUE["multiply_no_nan"]


def _replacing(catalogue: Catalogue, bind: Callable[..., Any], op: Op, *args: Any, **params: Any) -> Any:
    return bind(catalogue.get(op.name, op), *args, **params)


def _as_given(value: Any) -> Any:
    return value


def _through(ops: Ops[Any]) -> Callable[..., Any]:
    """The given `bind`; by way of the catalogue where that has other operators under known names."""
    mine = ops.catalogue
    if mine is CATALOGUE or all(mine.get(name, op) is op for name, op in CATALOGUE.items()):
        return ops.bind
    return partial(_replacing, mine, ops.bind)


@frozen(eq=False, repr=False)
class Ops(Generic[T]):
    """The operators of a stack, as functions; array-API names where the standard has one.

    Operators that the stack's own catalogue has beyond those below are attributes too; a type checker does not
    know them, so that it finds misspelt names.

    Parameters
    ----------
    bind
        ``bind(op, *args, **params)`` of a layer.
    catalogue
        The stack's operators.
    lift
        Makes a carrier of whatever a composite is given in place of one.

    Examples
    --------
    >>> import numpy as np
    >>> from nnc_func.device import NumPy
    >>> Ops(NumPy().bind).add(np.float32([1, 2]), 1)
    array([2., 3.], dtype=float32)
    """

    bind: Callable[..., Any]
    catalogue: Catalogue = CATALOGUE
    lift: Callable[[Any], Any] = _as_given
    _bind: Callable[..., Any] = field(init=False)
    _functions: list[Functions] = field(init=False, factory=list)  # made when they are asked for

    @_bind.default
    def _chosen(self) -> Callable[..., Any]:
        return _through(self)

    def __repr__(self) -> str:
        return f"<{len(self.catalogue)} operators>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Ops, (self.bind, self.catalogue, self.lift)

    @property
    def functions(self) -> Functions:
        """The operators as formulas are written against them."""
        if not self._functions:
            self._functions.append(Functions(self.bind, self.catalogue))
        return self._functions[0]

    def _compose(self, name: str, *args: Any, **params: Any) -> Any:
        from nnc_func.graph.composites import COMPOSITES

        given = [a if a is None or type(a) in SCALARS else self.lift(a) for a in args]
        while given and given[-1] is None:
            given.pop()
        return COMPOSITES[name].over(self.functions, *given, **params)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self.catalogue})

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or name in ("bind", "catalogue"):
                raise AttributeError(name)
            found = self.catalogue.get(name) or self.catalogue.get(name.removesuffix("_"))
            if found is None:
                import difflib

                close = difflib.get_close_matches(name, self.catalogue)
                hint = f"; did you mean {' or '.join(close)}?" if close else "; see docs/operators.md"
                raise AttributeError(f"no operator {name!r} in this stack's catalogue{hint}")
            return partial(self.bind, found)

    def negative(self, x: T | Scalar, /) -> T:
        """The number with its sign changed; unsigned integers wrap around."""
        return self._bind(_NEGATIVE, x)

    def abs(self, x: T | Scalar, /) -> T:
        """Magnitude, of complex numbers too; its derivative at zero is taken to be zero."""
        return self._bind(_ABS, x)

    def sign(self, x: T | Scalar, /) -> T:
        """-1, 0 or 1, of a complex number x / |x|; NaN stays NaN, and the derivative at zero is taken to be zero."""
        return self._bind(_SIGN, x)

    def sqrt(self, x: T | Scalar, /) -> T:
        """Square root; negative numbers give NaN."""
        return self._bind(_SQRT, x)

    def square(self, x: T | Scalar, /) -> T:
        """The number times itself."""
        return self._bind(_SQUARE, x)

    def reciprocal(self, x: T | Scalar, /) -> T:
        """One over the number; unlike NumPy's, that of an integer is a float64."""
        return self._bind(_RECIPROCAL, x)

    def clip(self, x: T | Scalar, /, *, min: Scalar | None = None, max: Scalar | None = None) -> T:
        """The number, not below `min` and not above `max`; the derivative on a bound is 1, and `max` wins if they cross.

        A bound that is NaN makes everything NaN, as a tensor of bounds would.
        """
        return self._bind(_CLIP, x, min=min, max=max)

    def floor(self, x: T | Scalar, /) -> T:
        """The largest integer that is not above, in the dtype of the number."""
        return self._bind(_FLOOR, x)

    def ceil(self, x: T | Scalar, /) -> T:
        """The smallest integer that is not below, in the dtype of the number."""
        return self._bind(_CEIL, x)

    def round(self, x: T | Scalar, /) -> T:
        """The nearest integer, in the dtype of the number; halves go to the even one. Both parts of complex numbers."""
        return self._bind(_ROUND, x)

    def trunc(self, x: T | Scalar, /) -> T:
        """The nearest integer that is not farther from zero, in the dtype of the number."""
        return self._bind(_TRUNC, x)

    def isnan(self, x: T | Scalar, /) -> T:
        """Whether it is NaN; nothing but a float ever is."""
        return self._bind(_ISNAN, x)

    def isinf(self, x: T | Scalar, /) -> T:
        """Whether it is infinite, of either sign."""
        return self._bind(_ISINF, x)

    def isfinite(self, x: T | Scalar, /) -> T:
        """Whether it is neither infinite nor NaN."""
        return self._bind(_ISFINITE, x)

    def logical_not(self, x: T | Scalar, /) -> T:
        """The opposite truth value, of booleans only."""
        return self._bind(_LOGICAL_NOT, x)

    def cast(self, x: T | Scalar, /, *, dtype: npt.DTypeLike) -> T:
        """The same numbers in another dtype: floats are cut towards zero to become integers, complex ones stay complex."""
        return self._bind(_CAST, x, dtype=dtype)

    def stop_gradient(self, x: T | Scalar, /) -> T:
        """The same numbers, which differentiation takes for constants."""
        return self._bind(_STOP_GRADIENT, x)

    def exp(self, x: T | Scalar, /) -> T:
        """e to the power of each element."""
        return self._bind(_EXP, x)

    def exp2(self, x: T | Scalar, /) -> T:
        """Two to the power of each element."""
        return self._bind(_EXP2, x)

    def expm1(self, x: T | Scalar, /) -> T:
        """exp(x) - 1, exact also where x is small."""
        return self._bind(_EXPM1, x)

    def log(self, x: T | Scalar, /) -> T:
        """Natural logarithm; negative real numbers give NaN, zero gives -inf."""
        return self._bind(_LOG, x)

    def log2(self, x: T | Scalar, /) -> T:
        """Logarithm to base two; its derivative is 1 / (x ln 2)."""
        return self._bind(_LOG2, x)

    def log10(self, x: T | Scalar, /) -> T:
        """Logarithm to base ten; its derivative is 1 / (x ln 10)."""
        return self._bind(_LOG10, x)

    def log1p(self, x: T | Scalar, /) -> T:
        """log(1 + x), exact also where x is small."""
        return self._bind(_LOG1P, x)

    def logaddexp(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """log(exp(a) + exp(b)), without overflow however large the arguments."""
        return self._bind(_LOGADDEXP, a, b)

    def sin(self, x: T | Scalar, /) -> T:
        """Sine of an angle in radians."""
        return self._bind(_SIN, x)

    def cos(self, x: T | Scalar, /) -> T:
        """Cosine of an angle in radians."""
        return self._bind(_COS, x)

    def tan(self, x: T | Scalar, /) -> T:
        """Tangent of an angle in radians."""
        return self._bind(_TAN, x)

    def asin(self, x: T | Scalar, /) -> T:
        """The angle with that sine, between -pi/2 and pi/2; real numbers outside of [-1, 1] give NaN."""
        return self._bind(_ASIN, x)

    def acos(self, x: T | Scalar, /) -> T:
        """The angle with that cosine, between 0 and pi; real numbers outside of [-1, 1] give NaN."""
        return self._bind(_ACOS, x)

    def atan(self, x: T | Scalar, /) -> T:
        """The angle with that tangent, between -pi/2 and pi/2."""
        return self._bind(_ATAN, x)

    def sinh(self, x: T | Scalar, /) -> T:
        """Hyperbolic sine."""
        return self._bind(_SINH, x)

    def cosh(self, x: T | Scalar, /) -> T:
        """Hyperbolic cosine."""
        return self._bind(_COSH, x)

    def tanh(self, x: T | Scalar, /) -> T:
        """Hyperbolic tangent, of real numbers between -1 and 1."""
        return self._bind(_TANH, x)

    def asinh(self, x: T | Scalar, /) -> T:
        """The number with that hyperbolic sine."""
        return self._bind(_ASINH, x)

    def acosh(self, x: T | Scalar, /) -> T:
        """The number, not below zero, with that hyperbolic cosine; real numbers below 1 give NaN."""
        return self._bind(_ACOSH, x)

    def atanh(self, x: T | Scalar, /) -> T:
        """The number with that hyperbolic tangent; real numbers outside of [-1, 1] give NaN."""
        return self._bind(_ATANH, x)

    def cbrt(self, x: T | Scalar, /) -> T:
        """The real cube root, of negative numbers too."""
        return self._bind(_CBRT, x)

    def hypot(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """sqrt(a² + b²) without overflow; its derivative at the origin is taken to be zero."""
        return self._bind(_HYPOT, a, b)

    def erf(self, x: T | Scalar, /) -> T:
        """The error function: the integral of exp(-t²) from 0 to x, times two over the square root of pi."""
        return self._bind(_ERF, x)

    def erfc(self, x: T | Scalar, /) -> T:
        """1 - erf(x), with its digits where that is tiny: to 6 ulps."""
        return self._bind(_ERFC, x)

    def erfinv(self, x: T | Scalar, /) -> T:
        """The number of which erf is `x`; 1 and -1 give the infinities, what lies outside NaN."""
        return self._bind(_ERFINV, x)

    def dawsn(self, x: T | Scalar, /) -> T:
        """Dawson's integral: exp(-x²) times the integral of exp(t²) from 0 to x."""
        return self._bind(_DAWSN, x)

    def lgamma(self, x: T | Scalar, /) -> T:
        """The logarithm of the magnitude of the gamma function; infinite at zero and at the negative integers."""
        return self._bind(_LGAMMA, x)

    def polygamma(self, x: T | Scalar, /, *, order: int = 0) -> T:
        """The derivative of an order of digamma, which is that of lgamma.

        At its poles, zero and the negative integers, it is infinite for odd orders and NaN for even ones below zero.
        """
        return self._bind(_POLYGAMMA, x, order=order)

    def sigmoid(self, x: T | Scalar, /) -> T:
        """1 / (1 + exp(-x)): between 0 and 1, without overflow however large the argument, down to the least numbers."""
        return self._bind(_SIGMOID, x)

    def relu(self, x: T | Scalar, /) -> T:
        """The number, or 0 if it is negative; its derivative at 0 is taken to be 0, and NaN stays NaN."""
        return self._bind(_RELU, x)

    def softplus(self, x: T | Scalar, /) -> T:
        """log(1 + exp(x)), the smooth relu, without overflow however large the argument."""
        return self._bind(_SOFTPLUS, x)

    def add(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Sum, element by element; booleans are refused, for they have no sum."""
        return self._bind(_ADD, a, b)

    def subtract(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Difference, element by element."""
        return self._bind(_SUBTRACT, a, b)

    def multiply(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Product, element by element."""
        return self._bind(_MULTIPLY, a, b)

    def divide(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Quotient, element by element; integers give float64."""
        return self._bind(_DIVIDE, a, b)

    def power(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """`a` to the power of `b`; the derivative by the exponent is zero where the base is not positive."""
        return self._bind(_POWER, a, b)

    def maximum(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """The larger of two elements, NaN if either is; where they are equal, each gets half of the derivative."""
        return self._bind(_MAXIMUM, a, b)

    def minimum(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """The smaller of two elements, NaN if either is; where they are equal, each gets half of the derivative."""
        return self._bind(_MINIMUM, a, b)

    def floor_divide(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """The largest integer not above the quotient, in the promoted dtype; integers divided by zero give 0.

        Of infinities it is the quotient, as the array API standard has it, where NumPy and Python give NaN or -1.
        """
        return self._bind(_FLOOR_DIVIDE, a, b)

    def remainder(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """What the floored division leaves: it has the sign of `b`."""
        return self._bind(_REMAINDER, a, b)

    def atan2(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """The angle of the point (b, a), between -pi and pi."""
        return self._bind(_ATAN2, a, b)

    def logical_and(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Whether both are true, of booleans only."""
        return self._bind(_LOGICAL_AND, a, b)

    def logical_or(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Whether either is true, of booleans only."""
        return self._bind(_LOGICAL_OR, a, b)

    def logical_xor(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Whether exactly one is true, of booleans only."""
        return self._bind(_LOGICAL_XOR, a, b)

    def where(self, condition: T | Scalar, a: T | Scalar, b: T | Scalar, /) -> T:
        """`a` where the condition is true and `b` elsewhere; what is not chosen has no say in the derivative."""
        return self._bind(_WHERE, condition, a, b)

    def fma(self, a: T | Scalar, b: T | Scalar, c: T | Scalar, /) -> T:
        """a * b + c without a tensor for the product; a device may round once instead of twice."""
        return self._bind(_FMA, a, b, c)

    def bitwise_and(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """The bits that both have; of booleans, whether both are true."""
        return self._bind(_BITWISE_AND, a, b)

    def bitwise_or(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """The bits that either has; of booleans, whether either is true."""
        return self._bind(_BITWISE_OR, a, b)

    def bitwise_xor(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """The bits that exactly one has; of booleans, whether they differ."""
        return self._bind(_BITWISE_XOR, a, b)

    def bitwise_invert(self, x: T | Scalar, /) -> T:
        """Every bit the other way: -1 - x of signed integers; of booleans the opposite."""
        return self._bind(_BITWISE_INVERT, x)

    def bitwise_left_shift(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Bits of `a` moved `b` places up, zeros from below; as many places as there are bits, or more, leave zero.

        So does a negative number of places.
        """
        return self._bind(_BITWISE_LEFT_SHIFT, a, b)

    def bitwise_right_shift(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Bits of `a` moved `b` places down, copies of its sign from above, which alone are left of many places.

        A negative number of places counts as many.
        """
        return self._bind(_BITWISE_RIGHT_SHIFT, a, b)

    def signbit(self, x: T | Scalar, /) -> T:
        """Whether the sign is minus, of -0.0 and of NaN too."""
        return self._bind(_SIGNBIT, x)

    def copysign(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """The magnitude of `a` with the sign of `b`, of -0.0 and of NaN too."""
        return self._bind(_COPYSIGN, a, b)

    def nextafter(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """The floating number next to `a` on the way to `b`."""
        return self._bind(_NEXTAFTER, a, b)

    def bit_cast(self, x: T | Scalar, /, *, dtype: npt.DTypeLike) -> T:
        """The same bits as elements of another dtype of as many bytes; numbers change, unlike those of `cast`."""
        return self._bind(_BIT_CAST, x, dtype=dtype)

    def real(self, x: T | Scalar, /) -> T:
        """The real part, in the real dtype of the same precision; a real number is its own."""
        return self._bind(_REAL, x)

    def imag(self, x: T | Scalar, /) -> T:
        """The imaginary part, in the real dtype of the same precision; of a real number it is zero."""
        return self._bind(_IMAG, x)

    def complex(self, real: T | Scalar, imag: T | Scalar, /) -> T:
        """The number with these two real parts, bit by bit, of zeros and infinities too."""
        return self._bind(_COMPLEX, real, imag)

    def conj(self, x: T | Scalar, /) -> T:
        """The number with its imaginary part negated; a real number is its own conjugate."""
        return self._bind(_CONJ, x)

    def angle(self, x: T | Scalar, /) -> T:
        """The angle of a number in the complex plane, between -pi and pi; its derivative at zero is taken to be zero."""
        return self._bind(_ANGLE, x)

    def equal(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Whether two elements are equal; NaN equals nothing, and 0.0 equals -0.0."""
        return self._bind(_EQUAL, a, b)

    def not_equal(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Whether two elements differ; NaN differs from everything."""
        return self._bind(_NOT_EQUAL, a, b)

    def less(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Whether the first element is smaller; false if either is NaN."""
        return self._bind(_LESS, a, b)

    def less_equal(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Whether the first element is smaller or equal; false if either is NaN."""
        return self._bind(_LESS_EQUAL, a, b)

    def greater(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Whether the first element is larger; false if either is NaN."""
        return self._bind(_GREATER, a, b)

    def greater_equal(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Whether the first element is larger or equal; false if either is NaN."""
        return self._bind(_GREATER_EQUAL, a, b)

    def sum(self, x: T | Scalar, /, *, axis: Axes | None = None, keepdims: bool = False, **other: Never) -> T:
        """Sum; booleans and small integers are summed in 64 bits, floats in their own dtype."""
        if other:
            return self._bind(_SUM, x, **other)
        return self._bind(_SUM, x, axis=axis, keepdims=keepdims)

    def mean(self, x: T | Scalar, /, *, axis: Axes | None = None, keepdims: bool = False, **other: Never) -> T:
        """Arithmetic mean; integers give float64, and no elements give NaN."""
        if other:
            return self._bind(_MEAN, x, **other)
        return self._bind(_MEAN, x, axis=axis, keepdims=keepdims)

    def max(self, x: T | Scalar, /, *, axis: Axes | None = None, keepdims: bool = False, **other: Never) -> T:
        """Largest element, NaN if there is one; several largest share the derivative equally."""
        if other:
            return self._bind(_MAX, x, **other)
        return self._bind(_MAX, x, axis=axis, keepdims=keepdims)

    def min(self, x: T | Scalar, /, *, axis: Axes | None = None, keepdims: bool = False, **other: Never) -> T:
        """Smallest element, NaN if there is one; several smallest share the derivative equally."""
        if other:
            return self._bind(_MIN, x, **other)
        return self._bind(_MIN, x, axis=axis, keepdims=keepdims)

    def argmax(self, x: T | Scalar, /, *, axis: int | None = None, keepdims: bool = False, **other: Never) -> T:
        """Position of the first largest element along an axis, or in the flattened tensor; NaN counts as the largest."""
        if other:
            return self._bind(_ARGMAX, x, **other)
        return self._bind(_ARGMAX, x, axis=axis, keepdims=keepdims)

    def argmin(self, x: T | Scalar, /, *, axis: int | None = None, keepdims: bool = False, **other: Never) -> T:
        """Position of the first smallest element along an axis, or in the flattened tensor; NaN counts as the smallest."""
        if other:
            return self._bind(_ARGMIN, x, **other)
        return self._bind(_ARGMIN, x, axis=axis, keepdims=keepdims)

    def prod(self, x: T | Scalar, /, *, axis: Axes | None = None, keepdims: bool = False, **other: Never) -> T:
        """Product; its derivative is right where elements are zero, too."""
        if other:
            return self._bind(_PROD, x, **other)
        return self._bind(_PROD, x, axis=axis, keepdims=keepdims)

    def any(self, x: T | Scalar, /, *, axis: Axes | None = None, keepdims: bool = False, **other: Never) -> T:
        """Whether any element is true or not zero; of none, false."""
        if other:
            return self._bind(_ANY, x, **other)
        return self._bind(_ANY, x, axis=axis, keepdims=keepdims)

    def all(self, x: T | Scalar, /, *, axis: Axes | None = None, keepdims: bool = False, **other: Never) -> T:
        """Whether every element is true or not zero; of none, true."""
        if other:
            return self._bind(_ALL, x, **other)
        return self._bind(_ALL, x, axis=axis, keepdims=keepdims)

    def logsumexp(self, x: T | Scalar, /, *, axis: Axes | None = None, keepdims: bool = False, **other: Never) -> T:
        """Logarithm of the sum of exponentials, without overflow; of no elements, -inf."""
        if other:
            return self._bind(_LOGSUMEXP, x, **other)
        return self._bind(_LOGSUMEXP, x, axis=axis, keepdims=keepdims)

    @checks_names
    def cumulative_sum(self, x: T | Scalar, /, *, axis: int) -> T:
        """Sum of each element and all before it along an axis, in the dtype of a sum."""
        return self._bind(_CUMULATIVE_SUM, x, axis=axis)

    def reshape(self, x: T | Scalar, /, *, shape: Sizes) -> T:
        """The same elements, in C order, in another shape; one extent may be -1 and is then computed."""
        return self._bind(_RESHAPE, x, shape=shape)

    def permute_dims(self, x: T | Scalar, /, *, axes: Sizes | None = None, **other: Never) -> T:
        """Axes in another order: axis i of the result is axis ``axes[i]``; None reverses them."""
        if other:
            return self._bind(_PERMUTE_DIMS, x, **other)
        return self._bind(_PERMUTE_DIMS, x, axes=axes)

    def broadcast_to(self, x: T | Scalar, /, *, shape: Sizes) -> T:
        """Repeated along new axes in front and along those of extent 1, without copying."""
        return self._bind(_BROADCAST_TO, x, shape=shape)

    @checks_names
    def expand_dims(self, x: T | Scalar, /, *, axis: Axes) -> T:
        """With new axes of extent 1; `axis` counts in the result."""
        return self._bind(_EXPAND_DIMS, x, axis=axis)

    @checks_names
    def squeeze(self, x: T | Scalar, /, *, axis: Axes) -> T:
        """Without those axes, each of which must have extent 1; none is dropped unasked."""
        return self._bind(_SQUEEZE, x, axis=axis)

    def flip(self, x: T | Scalar, /, *, axis: Axes | None = None, **other: Never) -> T:
        """Elements in reverse order along those axes, or all; a view."""
        if other:
            return self._bind(_FLIP, x, **other)
        return self._bind(_FLIP, x, axis=axis)

    def tile(self, x: T | Scalar, /, *, repetitions: Sizes) -> T:
        """Copies side by side, `repetitions` for each axis; the shorter of shape and repetitions gets ones in front."""
        return self._bind(_TILE, x, repetitions=repetitions)

    def concat(self, *xs: T | Scalar, axis: int = 0, **other: Never) -> T:
        """Tensors one after another along an existing axis, in their promoted dtype."""
        if other:
            return self._bind(_CONCAT, *xs, **other)
        return self._bind(_CONCAT, *xs, axis=axis)

    def stack(self, *xs: T | Scalar, axis: int = 0, **other: Never) -> T:
        """Tensors of one shape beside each other along a new axis, in their promoted dtype."""
        if other:
            return self._bind(_STACK, *xs, **other)
        return self._bind(_STACK, *xs, axis=axis)

    def split(self, x: T | Scalar, /, *, sections: Any, axis: int = 0, **other: Never) -> tuple[T, ...]:
        """Parts of an axis, as views: `sections` equal ones, or parts of the extents listed in a tuple (not positions)."""
        if other:
            return self._bind(_SPLIT, x, **other)
        return self._bind(_SPLIT, x, sections=sections, axis=axis)

    def pad(self, x: T | Scalar, /, *, widths: Any, value: Scalar = 0) -> T:
        """With `value` put around: a pair of widths (before, after) for each axis, none negative."""
        return self._bind(_PAD, x, widths=widths, value=value)

    def assemble(self, *parts: T | Scalar, shape: Sizes, offsets: Any, strides: Any = None, fill: Scalar = 0) -> T:
        """A tensor of that shape with each part written at its offset, in steps of its strides, and `fill` elsewhere.

        Parts have the rank of the whole; a stride counts elements, and may be negative. That two parts write one element
        is refused, and decided exactly. Where the parts cover everything the fill is never written: parts are disjoint,
        so they do if their sizes add up to that of the whole. An engine computes parts in place where it can.
        """
        return self._bind(_ASSEMBLE, *parts, shape=shape, offsets=offsets, strides=strides, fill=fill)

    def slice(self, x: T | Scalar, /, *, starts: Sizes, stops: Sizes, steps: Sizes) -> T:
        """A strided part, as a view: one start, stop and step for each axis, counted from the front, never clipped.

        A negative step goes from `start` down to, but without, `stop`; a stop (or start) of -1 then stands before
        the first element. These are the numbers that Python's ``slice(...).indices(extent)`` gives.
        """
        return self._bind(_SLICE, x, starts=starts, stops=stops, steps=steps)

    def set_slice(self, x: T | Scalar, value: T | Scalar, /, *, starts: Sizes, stops: Sizes, steps: Sizes) -> T:
        """A new tensor: `x` with `value`, broadcast, in the part that `slice` would show; `x` is left as it is."""
        return self._bind(_SET_SLICE, x, value, starts=starts, stops=stops, steps=steps)

    def take(self, x: T | Scalar, indices: T | Scalar, /, *, axis: int = 0, **other: Never) -> T:
        """Elements of one axis by integer indices of any shape, negative ones from the end; others raise IndexError."""
        if other:
            return self._bind(_TAKE, x, indices, **other)
        return self._bind(_TAKE, x, indices, axis=axis)

    @checks_names
    def take_along_axis(self, x: T | Scalar, indices: T | Scalar, /, *, axis: int) -> T:
        """For each index the element at its own place, but for `axis`, where the index counts: as sorting gives it."""
        return self._bind(_TAKE_ALONG_AXIS, x, indices, axis=axis)

    def scatter_add(
        self, x: T | Scalar, indices: T | Scalar, updates: T | Scalar, /, *, axis: int = 0, **other: Never
    ) -> T:
        """A new tensor: `x` with each update added at its index along an axis; where indices repeat, all are added."""
        if other:
            return self._bind(_SCATTER_ADD, x, indices, updates, **other)
        return self._bind(_SCATTER_ADD, x, indices, updates, axis=axis)

    @checks_names
    def put_along_axis_add(self, x: T | Scalar, indices: T | Scalar, updates: T | Scalar, /, *, axis: int) -> T:
        """A new tensor: `x` with each update added where `take_along_axis` would read; repeated indices accumulate."""
        return self._bind(_PUT_ALONG_AXIS_ADD, x, indices, updates, axis=axis)

    def one_hot(
        self, indices: T | Scalar, /, *, depth: Any, dtype: npt.DTypeLike = "float32", checked: bool = False
    ) -> T:
        """One at the index along a new last axis and zero elsewhere.

        An index out of range, negative too, gives zeros; or, where it is `checked`, raises IndexError.
        """
        return self._bind(_ONE_HOT, indices, depth=depth, dtype=dtype, checked=checked)

    def relayout(self, x: T | Scalar, /, *, layout: Any, data_format: str = "NHWC") -> T:
        """The same tensor, its axes in another order in memory; its shape and the meaning of its axes stay as they are.

        `layout` is ``"row-major"``, or the axes in the order in which they lie in memory, outermost first: by number,
        ``(0, 3, 1, 2)``, or, of images, by letter, ``"NCHW"``, `data_format` being what the axes are, in their order.
        """
        return self._bind(_RELAYOUT, x, layout=layout, data_format=data_format)

    def transfer(self, x: T | Scalar, /, *, place: str | None) -> T:
        """The same tensor in another place of the device: copied there. None is the first place, the device's own."""
        return self._bind(_TRANSFER, x, place=place)

    def after(self, x: T | Scalar, event: T | Scalar, /) -> T:
        """The same tensor, which is there once `event`, any tensor of that place, is: what is made of it comes later.

        No rule looks through it, so that ``f(after(x, event))`` is another application than ``f(x)``: so values are
        computed again. XLA calls it an optimization barrier. A plan has no trace of it but the order of instructions.
        """
        return self._bind(_AFTER, x, event)

    def full(self, *, shape: Sizes, value: Scalar, dtype: npt.DTypeLike) -> T:
        """A tensor that holds one number everywhere; the number must exist in the dtype."""
        return self._bind(_FULL, shape=shape, value=value, dtype=dtype)

    def arange(self, *, start: Scalar, stop: Scalar, step: Scalar = 1, dtype: npt.DTypeLike = "int64") -> T:
        """Numbers from `start` by `step`, `stop` not included; int64 unless said otherwise."""
        return self._bind(_ARANGE, start=start, stop=stop, step=step, dtype=dtype)

    def matmul(self, a: T | Scalar, b: T | Scalar, /, *, transpose_a: bool = False, transpose_b: bool = False) -> T:
        """Matrix product of the last two axes; axes before them are batches and broadcast.

        Shapes: ``(…, m, k)`` and ``(…, k, n)`` give ``(…, m, n)``. With `transpose_a` the first argument is given as
        ``(…, k, m)``, with `transpose_b` the second as ``(…, n, k)``; nothing is copied for that. Both arguments have
        rank 2 at least: vectors are not promoted.
        """
        return self._bind(_MATMUL, a, b, transpose_a=transpose_a, transpose_b=transpose_b)

    @checks_names
    def tensordot(self, a: T | Scalar, b: T | Scalar, /, *, axes: Any) -> T:
        """Sum of products over pairs of axes, one of each argument.

        `axes` is a number n, for the last n axes of `a` with the first n of `b`, or a pair ``(axes of a, axes of b)``
        of equally long tuples. The result has the other axes of `a`, then the other axes of `b`, in their order.
        """
        return self._bind(_TENSORDOT, a, b, axes=axes)

    def diagonal(self, x: T | Scalar, /, *, offset: int = 0) -> T:
        """The diagonal of the last two axes: of ``(…, m, n)`` the elements whose column is their row plus `offset`."""
        return self._bind(_DIAGONAL, x, offset=offset)

    def diagonal_matrix(self, x: T | Scalar, /, *, shape: Sizes, offset: int = 0) -> T:
        """Matrices of that shape that have vectors ``(…, n)`` on a diagonal, and zeros elsewhere.

        It undoes `diagonal`: the elements stand where the column is the row plus `offset`.
        """
        return self._bind(_DIAGONAL_MATRIX, x, shape=shape, offset=offset)

    def cholesky(self, x: T | Scalar, /, *, upper: bool = False) -> T:
        """The lower triangular L with ``x = L Lᴴ``, or with `upper` the U with ``x = Uᴴ U``.

        Shapes: ``(…, n, n)``. Of `x` the Hermitian part ``(x + xᴴ) / 2`` is taken, so that derivatives are Hermitian.
        One that is not positive definite is an error when it runs.
        """
        return self._bind(_CHOLESKY, x, upper=upper)

    def qr(self, x: T | Scalar, /, *, mode: str = "reduced") -> tuple[T, ...]:
        """Q with orthonormal columns and the upper triangular R, with ``x = Q R``.

        Shapes, of ``(…, m, n)`` with k the smaller one of both: ``(…, m, k)`` and ``(…, k, n)``, or in the mode
        ``"complete"`` ``(…, m, m)`` and ``(…, m, n)``. Signs are the device's. The derivative wants the first k columns
        to be independent; there is none of the columns that complete a tall matrix.
        """
        return self._bind(_QR, x, mode=mode)

    def svd(self, x: T | Scalar, /, *, full_matrices: bool = True) -> tuple[T, ...]:
        """U, the singular values from large to small, and Vᴴ, with ``x = U diag(s) Vᴴ``; a tuple of three.

        Shapes, of ``(…, m, n)`` with k the smaller one of both: ``(…, m, k)``, ``(…, k)``, ``(…, k, n)``; with
        `full_matrices` the first is ``(…, m, m)`` and the last ``(…, n, n)``. Signs and phases of the vectors are the
        device's. Where singular values coincide their vectors have no derivative: what flows through them is not finite.
        There is none of the vectors that complete a basis.
        """
        return self._bind(_SVD, x, full_matrices=full_matrices)

    def svdvals(self, x: T | Scalar, /) -> T:
        """Singular values, from large to small: of ``(…, m, n)`` the smaller one of both numbers of them.

        Of those that coincide each has the derivative along its own vectors, as `svd` gives them.
        """
        return self._bind(_SVDVALS, x)

    def eigh(self, x: T | Scalar, /) -> tuple[T, ...]:
        """Eigenvalues of a Hermitian matrix, from small to large, and the eigenvectors, as columns: a tuple of both.

        Shapes: of ``(…, n, n)`` they are ``(…, n)`` and ``(…, n, n)``. Of `x` the Hermitian part ``(x + xᴴ) / 2`` is
        taken. Signs and phases of the vectors are the device's. Where eigenvalues coincide their vectors have no
        derivative: what flows through them is not finite; nothing flows where nothing is asked of them.
        """
        return self._bind(_EIGH, x)

    def eigvalsh(self, x: T | Scalar, /) -> T:
        """Eigenvalues of a Hermitian matrix, from small to large; of `x` the Hermitian part is taken.

        Of those that coincide each has the derivative along its own vector, as `eigh` gives it.
        """
        return self._bind(_EIGVALSH, x)

    def solve(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """The x with ``a x = b``, by LU decomposition with partial pivoting.

        Shapes: ``(…, n, n)`` and ``(…, n, k)``, whose batches broadcast, or a vector ``(n,)``, which stands for one column
        beside every matrix. A singular matrix is an error when it runs.
        """
        return self._bind(_SOLVE, a, b)

    def solve_triangular(
        self,
        a: T | Scalar,
        b: T | Scalar,
        /,
        *,
        lower: bool = False,
        transpose: bool = False,
        unit_diagonal: bool = False,
    ) -> T:
        """The x with ``a x = b``, or with `transpose` ``aᵀ x = b``, of a triangular matrix a.

        Shapes are those of `solve`. Only the upper triangle of `a` is read, or with `lower` the lower one; with
        `unit_diagonal` the diagonal is not read, but taken to be one. A zero on the diagonal is an error when it runs.
        """
        return self._bind(_SOLVE_TRIANGULAR, a, b, lower=lower, transpose=transpose, unit_diagonal=unit_diagonal)

    def inv(self, x: T | Scalar, /) -> T:
        """The inverse of square matrices ``(…, n, n)``; `solve` is faster and more accurate where it will do.

        A singular matrix is an error when it runs.
        """
        return self._bind(_INV, x)

    def pinv(self, x: T | Scalar, /, *, rtol: float | None = None) -> T:
        """The Moore-Penrose inverse of matrices ``(…, m, n)``, by singular values.

        Those of at most `rtol` times the largest are taken for zero; None: the larger one of m and n times the dtype's
        rounding. The derivative is that at constant rank: where the rank changes there is none.
        """
        return self._bind(_PINV, x, rtol=rtol)

    def det(self, x: T | Scalar, /) -> T:
        """The determinant of each square matrix.

        Its derivative is the matrix of cofactors, at singular matrices too; further derivatives want an inverse.
        """
        return self._bind(_DET, x)

    def cofactors(self, x: T | Scalar, /) -> T:
        """The matrix of cofactors, which is ``det(x) inv(x)ᵀ`` where there is an inverse; by singular values.

        It exists for every square matrix, and is zero where the rank is below n - 1. Its derivative wants an inverse.
        """
        return self._bind(_COFACTORS, x)

    def slogdet(self, x: T | Scalar, /) -> tuple[T, ...]:
        """Sign and logarithm of the magnitude of each determinant, a tuple of both, without overflow.

        A singular matrix has the sign 0 and the logarithm -inf; its derivative wants an inverse. The sign of a complex
        determinant is a number of magnitude one.
        """
        return self._bind(_SLOGDET, x)

    def sylvester(self, a: T | Scalar, b: T | Scalar, c: T | Scalar, /) -> T:
        """The x with ``a x + x b = c``.

        Shapes: ``(…, m, m)``, ``(…, n, n)`` and ``(…, m, n)``; batches broadcast. There is one if no eigenvalue of a is
        the negative of one of b; else it is an error when it runs. With SciPy it is found by Schur forms, without it by
        m·n linear equations.
        """
        return self._bind(_SYLVESTER, a, b, c)

    def discrete_lyapunov(self, a: T | Scalar, q: T | Scalar, /) -> T:
        """The x with ``a x aᴴ - x + q = 0``.

        Shapes: ``(…, n, n)`` both; batches broadcast. There is one if no product of an eigenvalue of a with the conjugate
        of another is 1; else it is an error when it runs. From ten rows on SciPy solves it where it is installed.
        """
        return self._bind(_DISCRETE_LYAPUNOV, a, q)

    def care(self, a: T | Scalar, b: T | Scalar, q: T | Scalar, r: T | Scalar, /) -> T:
        """The stabilising x of Riccati's continuous equation ``aᴴ x + x a - x b r⁻¹ bᴴ x + q = 0``.

        Shapes: ``(…, n, n)``, ``(…, n, k)``, ``(…, n, n)``, ``(…, k, k)``; batches broadcast. It is SciPy's, on the host
        whatever the device; without SciPy, or without a stabilising solution, it is an error when it runs.
        """
        return self._bind(_CARE, a, b, q, r)

    def dare(self, a: T | Scalar, b: T | Scalar, q: T | Scalar, r: T | Scalar, /) -> T:
        """The stabilising x of Riccati's discrete equation ``aᴴ x a - x - aᴴ x b (r + bᴴ x b)⁻¹ bᴴ x a + q = 0``.

        Shapes and failures are those of `care`.
        """
        return self._bind(_DARE, a, b, q, r)

    def expm(self, x: T | Scalar, /) -> T:
        """The exponential of square matrices ``(…, n, n)``, by Padé approximants.

        It is SciPy's, on the host whatever the device; without SciPy it is an error when it runs.
        """
        return self._bind(_EXPM, x)

    @checks_names
    def fourier(self, x: T | Scalar, /, *, axis: Axes, inverse: bool = False, norm: str = "backward") -> T:
        """The discrete Fourier transform of complex numbers along one axis or several, or the inverse one.

        It is scaled by nothing, by one over the number of elements, or by the root of that: `norm` says which direction is
        scaled, as the array API has it. `fft`, `fftn` and their inverses are made of it.
        """
        return self._bind(_FOURIER, x, axis=axis, inverse=inverse, norm=norm)

    def real_fourier(self, x: T | Scalar, /, *, axis: int = -1, norm: str = "backward", **other: Never) -> T:
        """The discrete Fourier transform of real numbers along an axis: of n numbers the first ``n // 2 + 1`` frequencies.

        The others are the conjugates of these. `rfft` and `rfftn` are made of it.
        """
        if other:
            return self._bind(_REAL_FOURIER, x, **other)
        return self._bind(_REAL_FOURIER, x, axis=axis, norm=norm)

    def inverse_real_fourier(
        self, x: T | Scalar, /, *, n: Any, axis: int = -1, norm: str = "backward", **other: Never
    ) -> T:
        """The `n` real numbers along an axis that have these ``n // 2 + 1`` frequencies, the inverse of `real_fourier`.

        Imaginary parts of the first frequency, and of the middle one of an even n, are not read. `irfft` and `irfftn`
        are made of it.
        """
        if other:
            return self._bind(_INVERSE_REAL_FOURIER, x, **other)
        return self._bind(_INVERSE_REAL_FOURIER, x, n=n, axis=axis, norm=norm)

    def conv2d(
        self,
        x: T | Scalar,
        w: T | Scalar,
        /,
        *,
        stride: Any = (1, 1),
        padding: Any = "VALID",
        dilation: Any = (1, 1),
        groups: int = 1,
        data_format: str = "NHWC",
    ) -> T:
        """Sum of products of a kernel with every window of images.

        Shapes: `x` is ``(images, height, width, in)`` in the data format ``"NHWC"``, ``(images, in, height, width)`` in
        ``"NCHW"``; the result likewise, with the kernel's ``out`` channels. The kernel is ``(height, width, in // groups,
        out)``, HWIO, in both data formats.

        `stride` is the step between windows and `dilation` the step between elements of one, each a number or a pair.
        `padding` surrounds the images with zeros: ``"VALID"`` by none, ``"SAME"`` so that there are ceil(extent / stride)
        windows (an odd zero goes to the end, as in TensorFlow and ONNX's SAME_UPPER), or ``((top, bottom), (left,
        right))``. With `groups`, input and output channels are cut into that many runs, and run i of the output sees run
        i of the input only.
        """
        return self._bind(
            _CONV2D, x, w, stride=stride, padding=padding, dilation=dilation, groups=groups,
            data_format=data_format
        )

    def conv2d_input_gradient(
        self,
        g: T | Scalar,
        w: T | Scalar,
        /,
        *,
        input_shape: Sizes,
        stride: Any = (1, 1),
        padding: Any = "VALID",
        dilation: Any = (1, 1),
        groups: int = 1,
        data_format: str = "NHWC",
    ) -> T:
        """Adjoint of `conv2d` with respect to its images: the transposed convolution.

        `g` has the shape of ``conv2d(x, w)`` for an `x` of shape `input_shape`, which is the result's shape. The other
        parameters are those of that convolution.
        """
        return self._bind(
            _CONV2D_INPUT_GRADIENT, g, w, input_shape=input_shape, stride=stride, padding=padding,
            dilation=dilation, groups=groups, data_format=data_format
        )

    def conv2d_kernel_gradient(
        self,
        x: T | Scalar,
        g: T | Scalar,
        /,
        *,
        kernel_shape: Sizes,
        stride: Any = (1, 1),
        padding: Any = "VALID",
        dilation: Any = (1, 1),
        groups: int = 1,
        data_format: str = "NHWC",
    ) -> T:
        """Adjoint of `conv2d` with respect to its kernel.

        `g` has the shape of ``conv2d(x, w)`` for a `w` of shape `kernel_shape`, which is the result's shape. The other
        parameters are those of that convolution.
        """
        return self._bind(
            _CONV2D_KERNEL_GRADIENT, x, g, kernel_shape=kernel_shape, stride=stride, padding=padding,
            dilation=dilation, groups=groups, data_format=data_format
        )

    def max_pool2d(
        self,
        x: T | Scalar,
        /,
        *,
        window: Any,
        stride: Any = None,
        padding: Any = "VALID",
        dilation: Any = (1, 1),
        data_format: str = "NHWC",
    ) -> T:
        """Largest element of every window of images, channel by channel.

        Shapes: `x` is ``(images, height, width, channels)`` in the data format ``"NHWC"``, ``(images, channels, height,
        width)`` in ``"NCHW"``, and the result likewise. `window`, `stride` and `dilation` are numbers or pairs; the stride
        is the window unless given. `padding` is that of `conv2d`, counts as minus infinity, and must be narrower than the
        windows; for one more window at the end, as "ceil mode" elsewhere, pad there. A window with a NaN gives NaN.

        Its derivative follows one element of each window: the largest, and among equals the first in row-major order; in
        a window with a NaN the first of these.
        """
        return self._bind(
            _MAX_POOL2D, x, window=window, stride=stride, padding=padding, dilation=dilation,
            data_format=data_format
        )

    def max_pool2d_gradient(
        self,
        x: T | Scalar,
        g: T | Scalar,
        /,
        *,
        window: Any,
        stride: Any = None,
        padding: Any = "VALID",
        dilation: Any = (1, 1),
        data_format: str = "NHWC",
    ) -> T:
        """Adjoint of `max_pool2d` at `x`: each cotangent goes to the first largest element of its window.

        `g` has the shape of ``max_pool2d(x)``, the result that of `x` and the dtype of `g`; what several windows send to
        one element is added. A window with a NaN sends to its first NaN. It is linear in `g` and, wherever it has a
        derivative, constant in `x`.
        """
        return self._bind(
            _MAX_POOL2D_GRADIENT, x, g, window=window, stride=stride, padding=padding, dilation=dilation,
            data_format=data_format
        )

    def max_pool2d_tangent(
        self,
        x: T | Scalar,
        t: T | Scalar,
        /,
        *,
        window: Any,
        stride: Any = None,
        padding: Any = "VALID",
        dilation: Any = (1, 1),
        data_format: str = "NHWC",
    ) -> T:
        """Elements of `t` where `x` has the first largest element of each window: how `max_pool2d` moves with `x`.

        `t` has the shape of `x`, the result that of ``max_pool2d(x)`` and the dtype of `t`. A window with a NaN gives
        what stands at its first NaN. It is linear in `t` and, wherever it has a derivative, constant in `x`.
        """
        return self._bind(
            _MAX_POOL2D_TANGENT, x, t, window=window, stride=stride, padding=padding, dilation=dilation,
            data_format=data_format
        )

    def average_pool2d(
        self,
        x: T | Scalar,
        /,
        *,
        window: Any,
        stride: Any = None,
        padding: Any = "VALID",
        dilation: Any = (1, 1),
        count_padding: bool = False,
        data_format: str = "NHWC",
    ) -> T:
        """Mean of every window of images, channel by channel.

        Shapes and parameters are those of `max_pool2d`. A window cut by the border is the mean of its elements inside;
        with `count_padding` its sum is divided by the number of all elements of a window, as if padding were zeros.
        """
        return self._bind(
            _AVERAGE_POOL2D, x, window=window, stride=stride, padding=padding, dilation=dilation,
            count_padding=count_padding, data_format=data_format
        )

    def average_pool2d_gradient(
        self,
        g: T | Scalar,
        /,
        *,
        input_shape: Sizes,
        window: Any,
        stride: Any = None,
        padding: Any = "VALID",
        dilation: Any = (1, 1),
        count_padding: bool = False,
        data_format: str = "NHWC",
    ) -> T:
        """Adjoint of `average_pool2d`: each cotangent is spread evenly over its window.

        `g` has the shape of ``average_pool2d(x)`` for an `x` of shape `input_shape`, which is the result's shape.
        """
        return self._bind(
            _AVERAGE_POOL2D_GRADIENT, g, input_shape=input_shape, window=window, stride=stride, padding=padding,
            dilation=dilation, count_padding=count_padding, data_format=data_format
        )

    def non_maximum_suppression(
        self,
        boxes: T | Scalar,
        scores: T | Scalar,
        /,
        *,
        count: int,
        overlap: float = 0.5,
        lowest: float = float("-inf"),
    ) -> tuple[T, ...]:
        """Positions of boxes from the best score down, without those that overlap a better one; and how many there are.

        Shapes: boxes ``(n, 4)``, each ``(left, top, right, bottom)``, and scores ``(n,)``, of one class of one image. The
        positions are ``int64[count]``, filled up with -1, and their number ``int64[]``.

        A box is left out if its intersection over union with one that is kept is larger than `overlap`, or its score is
        less than `lowest` or NaN. Of equal scores the first comes first. Boxes without extent overlap nothing.
        """
        return self._bind(_NON_MAXIMUM_SUPPRESSION, boxes, scores, count=count, overlap=overlap, lowest=lowest)

    def softmax(self, x: T | Scalar, /, *, axis: int = -1, **other: Never) -> T:
        """Exponentials along an axis, divided by their sum: probabilities from scores.

        The result has the shape of `x`. Scores of minus infinity get probability zero.
        """
        if other:
            return self._bind(_SOFTMAX, x, **other)
        return self._bind(_SOFTMAX, x, axis=axis)

    def log_softmax(self, x: T | Scalar, /, *, axis: int = -1, **other: Never) -> T:
        """Logarithm of softmax, without the overflow and the cancellation of computing it in two steps.

        The result has the shape of `x`.
        """
        if other:
            return self._bind(_LOG_SOFTMAX, x, **other)
        return self._bind(_LOG_SOFTMAX, x, axis=axis)

    def softmax_cross_entropy(self, logits: T | Scalar, labels: T | Scalar, /, *, axis: int = -1, **other: Never) -> T:
        """Cross-entropy between labels, given as probabilities, and the softmax of logits: one loss an example.

        ``-sum(labels * log_softmax(logits))`` along `axis`, which the result lacks. Labels have the shape of the logits
        (`one_hot` makes them of class numbers) and are not checked to sum to one. A label of zero contributes nothing,
        even where the logit is minus infinity.
        """
        if other:
            return self._bind(_SOFTMAX_CROSS_ENTROPY, logits, labels, **other)
        return self._bind(_SOFTMAX_CROSS_ENTROPY, logits, labels, axis=axis)

    def softmax_cross_entropy_gradient(
        self, logits: T | Scalar, labels: T | Scalar, /, *, axis: int = -1, **other: Never
    ) -> T:
        """The derivative of `softmax_cross_entropy` to its logits: ``softmax(logits) * sum(labels) - labels``.

        Labels have the shape of the logits, as the result has; they need not sum to one along `axis`.
        """
        if other:
            return self._bind(_SOFTMAX_CROSS_ENTROPY_GRADIENT, logits, labels, **other)
        return self._bind(_SOFTMAX_CROSS_ENTROPY_GRADIENT, logits, labels, axis=axis)

    def random_split(self, key: T | Scalar, /, *, count: int = 2) -> T:
        """New keys from one, of shape ``(count, 2)``: take key i as ``keys[i]``.

        Key i is the first two words of the Philox block with counter ``(i + 1, 0, 0, 1)``. Draws use counters that end
        in 0, so that no draw from `key` shows a word of these blocks. Do not draw from a key that was split.
        """
        return self._bind(_RANDOM_SPLIT, key, count=count)

    def random_fold_in(self, key: T | Scalar, data: T | Scalar, /) -> T:
        """A new key from a key and an integer, such as the number of a step.

        `data` is an integer tensor of shape ``()``; equal numbers of different dtypes give the same key. The new key is
        the first two words of the Philox block with counter ``(data, 0, 0, 2)``, where data is taken modulo 2**64: no
        draw from `key` and no key split from it has that counter.
        """
        return self._bind(_RANDOM_FOLD_IN, key, data)

    def random_bits(self, key: T | Scalar, /, *, shape: Sizes) -> T:
        """Uniformly distributed 64-bit words.

        Element j in row-major order is word ``j % 4`` of the Philox block with counter ``(j // 4 + 1, 0, 0, 0)``: the
        stream of ``numpy.random.Philox(key=key).random_raw()``. All other draws are made of these words.
        """
        return self._bind(_RANDOM_BITS, key, shape=shape)

    def random_uniform(
        self, key: T | Scalar, /, *, shape: Sizes, dtype: npt.DTypeLike = "float32", low: float = 0.0, high: float = 1.0
    ) -> T:
        """Uniformly distributed numbers: ``low + (high - low) * u`` with u in ``[0, 1)``.

        Element j has u from the top 24 bits (float32) or the top 53 bits (float64) of word j of `random_bits`. The
        product and the sum are rounded one after the other, so that every device gives the same bits; rounding may
        reach `high`.
        """
        return self._bind(_RANDOM_UNIFORM, key, shape=shape, dtype=dtype, low=low, high=high)

    def random_normal(self, key: T | Scalar, /, *, shape: Sizes, dtype: npt.DTypeLike = "float32") -> T:
        """Normally distributed numbers of mean 0 and variance 1.

        Box and Muller's transform of pairs of words of `random_bits`, computed in float64 and rounded to `dtype` at the
        end: elements 2j and 2j + 1 are ``r cos(2πv)`` and ``r sin(2πv)`` with ``r = sqrt(-2 log(1 - u))``, where u and v
        are float64 uniforms of words 2j and 2j + 1. As u < 1 the logarithm is finite.
        """
        return self._bind(_RANDOM_NORMAL, key, shape=shape, dtype=dtype)

    def random_bernoulli(self, key: T | Scalar, /, *, shape: Sizes, probability: float) -> T:
        """Booleans that are true with the given probability.

        Element j is ``u < probability`` for the float64 uniform u of word j of `random_bits`: 1 is always true, 0 never.
        """
        return self._bind(_RANDOM_BERNOULLI, key, shape=shape, probability=probability)

    def masked(self, x: T | Scalar, condition: T | Scalar, /) -> T:
        """`x` where the condition is true, and zero elsewhere, whatever stands in `x` there."""
        return self._bind(_MASKED, x, condition)

    def blockwise(self, *xs: T | Scalar, body: Body) -> T:
        """A body of elementwise operators, computed block by block so that no intermediate goes to memory.

        The body has a parameter for each tensor; its result is that of its last operator, and has the shape to which all
        tensors broadcast. It has the bits that the operators have one by one; of bfloat16 it is rounded once, at the end.
        """
        return self._bind(_BLOCKWISE, *xs, body=body)

    def blockwise_several(self, *xs: T | Scalar, body: Body) -> tuple[T, ...]:
        """As `blockwise`, with as many results as the body has, and with reductions in it.

        A reduction is of a value that has the shape of the whole. One over axes that do not include the first is of rows:
        others may read it, with ``keepdims=True``. One over the first axes, but not over all, gathers blocks: a sum, a
        mean, a maximum or a minimum, which nothing in the body reads. All have the bits that the operators have one by one.
        """
        return self._bind(_BLOCKWISE_SEVERAL, *xs, body=body)

    def conv2d_blockwise(
        self,
        x: T | Scalar,
        w: T | Scalar,
        /,
        *others: T | Scalar,
        body: Body,
        stride: Any = (1, 1),
        padding: Any = "VALID",
        dilation: Any = (1, 1),
        groups: int = 1,
        data_format: str = "NHWC",
    ) -> T:
        """`conv2d` and the elementwise operators that follow it, finished block by block before a block leaves the caches.

        The parameters of the body are the convolution's result and the other arguments, which broadcast to it; its result
        is that of its last operator. The other parameters are those of `conv2d`.
        """
        return self._bind(
            _CONV2D_BLOCKWISE, x, w, *others, body=body, stride=stride, padding=padding, dilation=dilation,
            groups=groups, data_format=data_format
        )

    def matmul_blockwise(
        self,
        a: T | Scalar,
        b: T | Scalar,
        /,
        *others: T | Scalar,
        body: Body,
        transpose_a: bool = False,
        transpose_b: bool = False,
    ) -> T:
        """`matmul` and the elementwise operators that follow it, finished where the product is, block by block.

        The parameters of the body are the product and the other arguments, which broadcast to the product; its result is
        that of its last operator. The other parameters are those of `matmul`. Gemm's ``alpha a b + beta c`` is a body of
        two multiplications and an addition.
        """
        return self._bind(_MATMUL_BLOCKWISE, a, b, *others, body=body, transpose_a=transpose_a, transpose_b=transpose_b)

    def attention_blockwise(
        self,
        q: T | Scalar,
        k: T | Scalar,
        v: T | Scalar,
        /,
        *others: T | Scalar,
        body: Body | None = None,
        transpose_k: bool = False,
    ) -> T:
        """``softmax(q @ k) @ v`` along the last axis of the scores, which are computed some rows at a time.

        Shapes: ``(…, n, d)``, ``(…, d, m)`` (with `transpose_k` ``(…, m, d)``) and ``(…, m, e)`` give ``(…, n, e)``.
        Between the first product and the softmax comes a body, as that of `matmul_blockwise`: a scale, a mask that is added
        or chooses. Source: Rabe and Staats, "Self-attention does not need O(n²) memory", 2021; here a row is done at once.
        """
        return self._bind(_ATTENTION_BLOCKWISE, q, k, v, *others, body=body, transpose_k=transpose_k)

    def sigmoid_gradient(self, y: T | Scalar, cotangent: T | Scalar, /, *others: T | Scalar) -> T:
        """A cotangent times the derivative of `sigmoid`, y (1 - y), where its value is y.

        Others are what the cotangent is multiplied by before.
        """
        return self._bind(_SIGMOID_GRADIENT, y, cotangent, *others)

    def tanh_gradient(self, y: T | Scalar, cotangent: T | Scalar, /, *others: T | Scalar) -> T:
        """A cotangent times the derivative of `tanh`, 1 - y², where its value is y.

        Others are what the cotangent is multiplied by before.
        """
        return self._bind(_TANH_GRADIENT, y, cotangent, *others)

    def relu_gradient(self, y: T | Scalar, cotangent: T | Scalar, /) -> T:
        """The cotangent where y, a value of `relu` or its argument, is positive, and zero elsewhere."""
        return self._bind(_RELU_GRADIENT, y, cotangent)

    def adaptive_update(
        self, x: T | Scalar, direction: T | Scalar, squares: T | Scalar, rate: T | Scalar, epsilon: T | Scalar, /
    ) -> T:
        """``x - rate * direction / (sqrt(squares) + epsilon)``: what Adagrad, RMSprop and Adam do to a parameter."""
        return self._bind(_ADAPTIVE_UPDATE, x, direction, squares, rate, epsilon)

    def token(self) -> T:
        """The token that comes before every effect of a program."""
        return self._bind(_TOKEN)

    def print(self, *values: T | Scalar, text: str = "", after: T | None = None) -> T:
        """Print values on the host, in the order of the program; returns a token.

        Each ``{}`` of the text stands for a value, which may have a format: ``"loss {:.3f}"``. Without any, the values
        follow the text. It goes to ``sys.stdout``, a line a call.
        """
        return self._bind(_PRINT, *values, text=text, after=after)

    def check(self, condition: T | Scalar, /, *values: T | Scalar, text: str = "", after: T | None = None) -> T:
        """Raise CheckError where an element of the condition is false, before any variable is written; returns a token.

        The message is the text, each ``{}`` of which stands for a value, then the operator and the user's line.
        """
        return self._bind(_CHECK, condition, *values, text=text, after=after)

    def callback(
        self,
        *values: T | Scalar,
        function: Callable[..., Any],
        shapes: Any = (),
        dtypes: Any = (),
        after: T | None = None,
    ) -> tuple[T, ...]:
        """Call a function of the host with NumPy arrays of the values; its results are tensors of the told shapes.

        The function is given copies, which are its own, and returns one array, a tuple of them, or None where no
        `shapes` are told. What it raises is raised by the program. A graph with a callback is not written to files.
        """
        return self._bind(_CALLBACK, *values, function=function, shapes=shapes, dtypes=dtypes, after=after)

    def scatter_set(
        self, x: T | Scalar, indices: T | Scalar, updates: T | Scalar, /, *, axis: int = 0, **other: Never
    ) -> T:
        """A new tensor: `x` with each update written at its index along an axis; where indices repeat, the last one is.

        `updates` has the shape that ``take(x, indices, axis)`` gives. An index outside of the axis raises IndexError.
        """
        if other:
            return self._bind(_SCATTER_SET, x, indices, updates, **other)
        return self._bind(_SCATTER_SET, x, indices, updates, axis=axis)

    def scatter_multiply(
        self, x: T | Scalar, indices: T | Scalar, updates: T | Scalar, /, *, axis: int = 0, **other: Never
    ) -> T:
        """A new tensor: `x` multiplied by each update at its index along an axis; where indices repeat, by all of them.

        Its derivative is right where factors are zero; it takes time and memory in the square of the number of indices.
        """
        if other:
            return self._bind(_SCATTER_MULTIPLY, x, indices, updates, **other)
        return self._bind(_SCATTER_MULTIPLY, x, indices, updates, axis=axis)

    def scatter_min(
        self, x: T | Scalar, indices: T | Scalar, updates: T | Scalar, /, *, axis: int = 0, **other: Never
    ) -> T:
        """A new tensor: the least of `x` and of all updates at an index along an axis; equals share the derivative."""
        if other:
            return self._bind(_SCATTER_MIN, x, indices, updates, **other)
        return self._bind(_SCATTER_MIN, x, indices, updates, axis=axis)

    def scatter_max(
        self, x: T | Scalar, indices: T | Scalar, updates: T | Scalar, /, *, axis: int = 0, **other: Never
    ) -> T:
        """A new tensor: the largest of `x` and of all updates at an index along an axis; equals share the derivative."""
        if other:
            return self._bind(_SCATTER_MAX, x, indices, updates, **other)
        return self._bind(_SCATTER_MAX, x, indices, updates, axis=axis)

    def ravel_multi_index(self, *indices: T | Scalar, shape: Sizes) -> T:
        """Positions, in C order, of elements of a tensor of that shape, by one index for each axis.

        Indices broadcast, and count from the end where they are negative; others raise IndexError.
        """
        return self._bind(_RAVEL_MULTI_INDEX, *indices, shape=shape)

    def sort(self, x: T | Scalar, /, *, axis: int = -1, descending: bool = False, **other: Never) -> T:
        """Elements in order along an axis, equal ones in the order in which they stood.

        NaN is last; in descending order first. Complex numbers are ordered by their real parts, then by the imaginary ones,
        those with a NaN behind the others. The derivative moves with the elements, as `argsort` says.
        """
        if other:
            return self._bind(_SORT, x, **other)
        return self._bind(_SORT, x, axis=axis, descending=descending)

    def argsort(self, x: T | Scalar, /, *, axis: int = -1, descending: bool = False, **other: Never) -> T:
        """Positions that put an axis in order: ``take_along_axis(x, argsort(x))`` is sorted; equal elements keep theirs."""
        if other:
            return self._bind(_ARGSORT, x, **other)
        return self._bind(_ARGSORT, x, axis=axis, descending=descending)

    def argtop_k(self, x: T | Scalar, /, *, k: int, axis: int = -1, largest: bool = True, **other: Never) -> T:
        """Where the `k` largest elements along an axis stand, in descending order; or the smallest, ascending.

        It is the beginning of `argsort`, and takes time in proportion to the axis where `k` is small: the k-th element is
        found by selection, and only what comes before it is sorted.
        """
        if other:
            return self._bind(_ARGTOP_K, x, **other)
        return self._bind(_ARGTOP_K, x, k=k, axis=axis, largest=largest)

    def kth_value(self, x: T | Scalar, /, *, k: int, axis: int = -1, keepdims: bool = False, **other: Never) -> T:
        """The element at position `k` of an axis in ascending order; a negative `k` counts from the end.

        The order is that of `sort`; the first of equal elements has the derivative.
        """
        if other:
            return self._bind(_KTH_VALUE, x, **other)
        return self._bind(_KTH_VALUE, x, k=k, axis=axis, keepdims=keepdims)

    def searchsorted(self, x: T | Scalar, values: T | Scalar, /, *, side: str = "left") -> T:
        """Where each value would stand in a sorted vector: before equal elements, or behind them with ``side="right"``.

        `x` has rank 1 and is in ascending order, which is not checked; the result has the shape of `values`.
        """
        return self._bind(_SEARCHSORTED, x, values, side=side)

    def flatnonzero(self, x: T | Scalar, /, *, size: Any, fill: int = 0) -> T:
        """The first `size` positions, in C order, of elements that are not zero; `fill` where there are not as many.

        A graph has shapes before it has values, so the extent is said. `nonzero` asks for the number of elements itself.
        """
        return self._bind(_FLATNONZERO, x, size=size, fill=fill)

    @checks_names
    def linear_recurrence(self, a: T | Scalar, b: T | Scalar, /, *, axis: int) -> T:
        """Along an axis ``y[i] = a[i] y[i - 1] + b[i]``, where ``y[-1]`` is zero: a filter with factors of its own.

        Factors and terms have one shape, and are real or complex numbers of any dtype.
        """
        return self._bind(_LINEAR_RECURRENCE, a, b, axis=axis)

    @checks_names
    def cumulative_prod(self, x: T | Scalar, /, *, axis: int) -> T:
        """Product of each element and all before it along an axis, in the dtype of a product.

        Its derivative is right where elements are zero, too: nothing is divided.
        """
        return self._bind(_CUMULATIVE_PROD, x, axis=axis)

    @checks_names
    def cumulative_max(self, x: T | Scalar, /, *, axis: int) -> T:
        """Largest of each element and all before it along an axis, NaN from the first one on.

        Of several that are largest the last one up to there has the derivative.
        """
        return self._bind(_CUMULATIVE_MAX, x, axis=axis)

    @checks_names
    def cumulative_min(self, x: T | Scalar, /, *, axis: int) -> T:
        """Smallest of each element and all before it along an axis, NaN from the first one on.

        Of several that are smallest the last one up to there has the derivative.
        """
        return self._bind(_CUMULATIVE_MIN, x, axis=axis)

    @checks_names
    def logcumsumexp(self, x: T | Scalar, /, *, axis: int) -> T:
        """Logarithm of the sum of exponentials of each element and all before it along an axis, without overflow."""
        return self._bind(_LOGCUMSUMEXP, x, axis=axis)

    def multiply_no_nan(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Product, element by element, and 0 where `b` is 0, even if `a` is infinite or NaN there.

        Derivatives of operators with infinite slopes (sqrt at 0) are multiplied by it, so that what ``where`` leaves out
        has the gradient zero.
        """
        return self._bind(_MULTIPLY_NO_NAN, a, b)

    def positive(self, x: T | Scalar, /) -> T:
        """The number itself; booleans are refused."""
        return self._compose("positive", x)

    def rsqrt(self, x: T | Scalar, /) -> T:
        """One over the square root."""
        return self._compose("rsqrt", x)

    def deg2rad(self, x: T | Scalar, /) -> T:
        """An angle in degrees, in radians."""
        return self._compose("deg2rad", x)

    def rad2deg(self, x: T | Scalar, /) -> T:
        """An angle in radians, in degrees."""
        return self._compose("rad2deg", x)

    def fmod(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """What a leaves when divided by b, the quotient cut to a whole number: of the sign of a; `remainder` has b's."""
        return self._compose("fmod", a, b)

    def sinc(self, x: T | Scalar, /) -> T:
        """``sin(pi x) / (pi x)``, 1 at zero; near it by a power series, so that all derivatives are right there."""
        return self._compose("sinc", x)

    def xlogy(self, x: T | Scalar, y: T | Scalar, /) -> T:
        """``x log(y)``, zero where x is zero, whatever y is but NaN; its derivatives are finite there."""
        return self._compose("xlogy", x, y)

    def nan_to_num(
        self, x: T | Scalar, /, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
    ) -> T:
        """`nan` for NaN, `posinf` and `neginf` for infinities: the largest and the smallest number of the dtype by default.

        Both parts of complex numbers are treated so; nothing flows back to what has been replaced.
        """
        return self._compose("nan_to_num", x, nan=nan, posinf=posinf, neginf=neginf)

    def fmax(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """The larger of two numbers, of which NaN is none: it is NaN where both are."""
        return self._compose("fmax", a, b)

    def fmin(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """The smaller of two numbers, of which NaN is none: it is NaN where both are."""
        return self._compose("fmin", a, b)

    def heaviside(self, x: T | Scalar, middle: T | Scalar, /) -> T:
        """0 below zero, 1 above, `middle` at zero; NaN stays NaN. It is floating, of integers float64."""
        return self._compose("heaviside", x, middle)

    def isclose(
        self, a: T | Scalar, b: T | Scalar, /, *, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
    ) -> T:
        """Whether ``|a - b| <= atol + rtol |b|``; equal infinities are close, NaN is close to NaN only with `equal_nan`."""
        return self._compose("isclose", a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)

    def gelu(self, x: T | Scalar, /, *, approximate: bool = False) -> T:
        """x times the probability that a normal number lies below x: ``x (1 + erf(x / √2)) / 2``.

        With `approximate` by tanh, which is off by 5e-4 at most and cheaper. Source: Hendrycks and Gimpel, "Gaussian error
        linear units", 2016.
        """
        return self._compose("gelu", x, approximate=approximate)

    def silu(self, x: T | Scalar, /) -> T:
        """``x sigmoid(x)``, also called swish."""
        return self._compose("silu", x)

    def mish(self, x: T | Scalar, /) -> T:
        """``x tanh(softplus(x))``. Source: Misra, "Mish: a self regularized non-monotonic activation function", 2019."""
        return self._compose("mish", x)

    def log_sigmoid(self, x: T | Scalar, /) -> T:
        """The logarithm of sigmoid: ``-log(1 + exp(-x))``."""
        return self._compose("log_sigmoid", x)

    def softsign(self, x: T | Scalar, /) -> T:
        """``x / (1 + |x|)``, between -1 and 1; infinite arguments give NaN."""
        return self._compose("softsign", x)

    def elu(self, x: T | Scalar, /, *, alpha: float = 1.0) -> T:
        """x, or ``alpha (exp(x) - 1)`` below zero; the derivative at zero is `alpha`.

        Source: Clevert and others, "Fast and accurate deep network learning by exponential linear units", 2015.
        """
        return self._compose("elu", x, alpha=alpha)

    def selu(self, x: T | Scalar, /) -> T:
        """`elu` scaled such that means and variances settle at 0 and 1: ``1.0507… elu(x, alpha=1.6733…)``.

        Source: Klambauer and others, "Self-normalizing neural networks", 2017.
        """
        return self._compose("selu", x)

    def celu(self, x: T | Scalar, /, *, alpha: float = 1.0) -> T:
        """x, or ``alpha (exp(x / alpha) - 1)`` below zero: `elu` with a continuous derivative; `alpha` is not zero."""
        return self._compose("celu", x, alpha=alpha)

    def leaky_relu(self, x: T | Scalar, /, *, slope: float = 0.01) -> T:
        """x, or `slope` times x below zero; the derivative at zero is `slope`."""
        return self._compose("leaky_relu", x, slope=slope)

    def prelu(self, x: T | Scalar, slope: T | Scalar, /) -> T:
        """x, or `slope` times x below zero, where the slope is a tensor, that may be learnt, and broadcasts.

        Source: He and others, "Delving deep into rectifiers", 2015.
        """
        return self._compose("prelu", x, slope)

    def relu6(self, x: T | Scalar, /) -> T:
        """The number, not below 0 and not above 6."""
        return self._compose("relu6", x)

    def hard_sigmoid(self, x: T | Scalar, /) -> T:
        """``x / 6 + 1 / 2``, not below 0 and not above 1: sigmoid in three straight pieces."""
        return self._compose("hard_sigmoid", x)

    def hard_swish(self, x: T | Scalar, /) -> T:
        """``x hard_sigmoid(x)``. Source: Howard and others, "Searching for MobileNetV3", 2019."""
        return self._compose("hard_swish", x)

    def hard_tanh(self, x: T | Scalar, /) -> T:
        """The number, not below -1 and not above 1."""
        return self._compose("hard_tanh", x)

    def square_relu(self, x: T | Scalar, /) -> T:
        """The square of `relu`. Source: So and others, "Primer: searching for efficient transformers", 2021."""
        return self._compose("square_relu", x)

    def l1_loss(self, outputs: T | Scalar, targets: T | Scalar, /, *, reduction: str = "mean") -> T:
        """The absolute differences."""
        return self._compose("l1_loss", outputs, targets, reduction=reduction)

    def quadratic_loss(self, outputs: T | Scalar, targets: T | Scalar, /, *, reduction: str = "mean") -> T:
        """The squared differences; their mean is the mean squared error."""
        return self._compose("quadratic_loss", outputs, targets, reduction=reduction)

    def l2_loss(
        self, outputs: T | Scalar, targets: T | Scalar, /, *, axis: int = -1, reduction: str = "mean", **other: Never
    ) -> T:
        """The Euclidean length of the differences along an axis; where it is zero, so is the derivative."""
        if other:
            return self._compose("l2_loss", outputs, targets, **other)
        return self._compose("l2_loss", outputs, targets, axis=axis, reduction=reduction)

    def smooth_l1_loss(
        self, outputs: T | Scalar, targets: T | Scalar, /, *, beta: float = 1.0, reduction: str = "mean"
    ) -> T:
        """Half the squared difference over `beta` where that is less than `beta`, elsewhere the absolute one less beta / 2.

        It is smooth. `beta` times it is Huber's loss. Source: Girshick, "Fast R-CNN", 2015.
        """
        return self._compose("smooth_l1_loss", outputs, targets, beta=beta, reduction=reduction)

    def hinge_loss(self, outputs: T | Scalar, targets: T | Scalar, /, *, reduction: str = "mean") -> T:
        """``max(0, 1 - outputs targets)`` for targets of -1 and 1; the derivative at the hinge is zero."""
        return self._compose("hinge_loss", outputs, targets, reduction=reduction)

    def squared_hinge_loss(self, outputs: T | Scalar, targets: T | Scalar, /, *, reduction: str = "mean") -> T:
        """The square of `hinge_loss`, element by element."""
        return self._compose("squared_hinge_loss", outputs, targets, reduction=reduction)

    def binary_cross_entropy(
        self,
        probabilities: T | Scalar,
        targets: T | Scalar,
        /,
        *,
        positive_weight: float = 1.0,
        reduction: str = "mean",
    ) -> T:
        """``-(w t log p + (1 - t) log(1 - p))`` of probabilities p and targets t between 0 and 1.

        A probability of 0 or 1 that the target agrees with costs nothing, one that it does not is infinitely wrong;
        `sigmoid_binary_cross_entropy` takes logits and has neither trouble. Targets count `positive_weight` times.
        """
        return self._compose(
            "binary_cross_entropy", probabilities, targets, positive_weight=positive_weight, reduction=reduction
        )

    def sigmoid_binary_cross_entropy(
        self, logits: T | Scalar, targets: T | Scalar, /, *, positive_weight: float = 1.0, reduction: str = "mean"
    ) -> T:
        """`binary_cross_entropy` of the sigmoid of logits, finite however large they are."""
        return self._compose(
            "sigmoid_binary_cross_entropy", logits, targets, positive_weight=positive_weight,
            reduction=reduction
        )

    def categorical_cross_entropy(
        self,
        probabilities: T | Scalar,
        labels: T | Scalar,
        /,
        *,
        axis: int = -1,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
        **other: Never,
    ) -> T:
        """``-sum(labels * log(probabilities))`` along an axis: one loss an example, before the reduction.

        Labels are class numbers (integers, whose shape lacks the axis) or probabilities. With `label_smoothing` s they are
        ``(1 - s) labels + s / classes``. A probability of zero whose label is zero costs nothing. A number of no class,
        negative or too large, raises IndexError when it is met.
        """
        if other:
            return self._compose("categorical_cross_entropy", probabilities, labels, **other)
        return self._compose(
            "categorical_cross_entropy", probabilities, labels, axis=axis, label_smoothing=label_smoothing,
            reduction=reduction
        )

    def softmax_cross_entropy_loss(
        self,
        logits: T | Scalar,
        labels: T | Scalar,
        /,
        *,
        axis: int = -1,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
        **other: Never,
    ) -> T:
        """`categorical_cross_entropy` of the softmax of logits, in one go, so that nothing overflows."""
        if other:
            return self._compose("softmax_cross_entropy_loss", logits, labels, **other)
        return self._compose(
            "softmax_cross_entropy_loss", logits, labels, axis=axis, label_smoothing=label_smoothing,
            reduction=reduction
        )

    def kl_divergence(
        self, outputs: T | Scalar, targets: T | Scalar, /, *, axis: int = -1, reduction: str = "mean", **other: Never
    ) -> T:
        """``sum(targets * log(targets / outputs))`` along an axis, of probabilities: how much targets tell beyond outputs.

        A target of zero costs nothing. Source: Kullback and Leibler, "On information and sufficiency", 1951.
        """
        if other:
            return self._compose("kl_divergence", outputs, targets, **other)
        return self._compose("kl_divergence", outputs, targets, axis=axis, reduction=reduction)

    def square_distance(self, x: T | Scalar, y: T | Scalar, /, *, axis: int = -1, **other: Never) -> T:
        """The square of the Euclidean distance between points: the sum of squared differences along an axis.

        `x` and `y` broadcast against each other; the result lacks the axis. Small integers are widened to 64 bits first.
        """
        if other:
            return self._compose("square_distance", x, y, **other)
        return self._compose("square_distance", x, y, axis=axis)

    def conv1d(
        self,
        x: T | Scalar,
        w: T | Scalar,
        /,
        *,
        stride: Any = 1,
        padding: Any = "VALID",
        dilation: Any = 1,
        groups: int = 1,
        data_format: str = "NWC",
    ) -> T:
        """Sum of products of a kernel with every window of signals.

        Shapes: `x` is ``(signals, width, in)`` in the data format ``"NWC"``, ``(signals, in, width)`` in ``"NCW"``, and the
        result likewise with the kernel's ``out`` channels; the kernel is ``(width, in // groups, out)`` in both. The other
        parameters are those of `conv2d`, for one axis: padding is ``"VALID"``, ``"SAME"`` or ``((left, right),)``.

        Refused: channels that groups do not divide, a window that does not fit.
        """
        return self._compose(
            "conv1d", x, w, stride=stride, padding=padding, dilation=dilation, groups=groups,
            data_format=data_format
        )

    def conv3d(
        self,
        x: T | Scalar,
        w: T | Scalar,
        /,
        *,
        stride: Any = 1,
        padding: Any = "VALID",
        dilation: Any = 1,
        groups: int = 1,
        data_format: str = "NDHWC",
    ) -> T:
        """Sum of products of a kernel with every window of volumes.

        Shapes: `x` is ``(volumes, depth, height, width, in)`` in the data format ``"NDHWC"``, ``(volumes, in, depth,
        height, width)`` in ``"NCDHW"``, and the result likewise with the kernel's ``out`` channels; the kernel is ``(depth,
        height, width, in // groups, out)`` in both. The other parameters are those of `conv2d`, a number or a triple each.

        Refused: channels that groups do not divide, a window that does not fit, ``"SAME"`` of an unknown depth.
        """
        return self._compose(
            "conv3d", x, w, stride=stride, padding=padding, dilation=dilation, groups=groups,
            data_format=data_format
        )

    def conv_transpose1d(
        self,
        x: T | Scalar,
        w: T | Scalar,
        /,
        *,
        stride: Any = 1,
        padding: Any = "VALID",
        dilation: Any = 1,
        groups: int = 1,
        output_padding: Any = 0,
        data_format: str = "NWC",
    ) -> T:
        """The adjoint of `conv1d` with respect to its signals, as a layer of its own: `stride` enlarges.

        Shapes: `x` is ``(signals, width, in)``, or of the data format ``"NCW"``; the kernel is that of the convolution,
        ``(width, out // groups, in)``. The other parameters are those of `conv_transpose2d`, for one axis.
        """
        return self._compose(
            "conv_transpose1d", x, w, stride=stride, padding=padding, dilation=dilation, groups=groups,
            output_padding=output_padding, data_format=data_format
        )

    def conv_transpose2d(
        self,
        x: T | Scalar,
        w: T | Scalar,
        /,
        *,
        stride: Any = 1,
        padding: Any = "VALID",
        dilation: Any = 1,
        groups: int = 1,
        output_padding: Any = 0,
        data_format: str = "NHWC",
    ) -> T:
        """The adjoint of `conv2d` with respect to its images, as a layer of its own: `stride` enlarges.

        Shapes: `x` is ``(images, height, width, in)``, or of the data format ``"NCHW"``; the kernel is that of the
        convolution, ``(height, width, out // groups, in)``.

        `stride`, `padding`, `dilation` and `groups` are those of the convolution. An extent n becomes ``(n - 1) * stride +
        dilation * (window - 1) + 1 - padding + output_padding``; with ``"SAME"`` it becomes ``n * stride``. As many windows
        fit in several extents: `output_padding`, less than the stride, says which one is wanted.

        Refused: channels that groups or the kernel do not fit, results without elements.
        """
        return self._compose(
            "conv_transpose2d", x, w, stride=stride, padding=padding, dilation=dilation, groups=groups,
            output_padding=output_padding, data_format=data_format
        )

    def conv_transpose3d(
        self,
        x: T | Scalar,
        w: T | Scalar,
        /,
        *,
        stride: Any = 1,
        padding: Any = "VALID",
        dilation: Any = 1,
        groups: int = 1,
        output_padding: Any = 0,
        data_format: str = "NDHWC",
    ) -> T:
        """The adjoint of `conv3d` with respect to its volumes, as a layer of its own: `stride` enlarges.

        Shapes: `x` is ``(volumes, depth, height, width, in)``, or of the data format ``"NCDHW"``; the kernel is that of the
        convolution, ``(depth, height, width, out // groups, in)``. The other parameters are those of `conv_transpose2d`, a
        number or a triple each.
        """
        return self._compose(
            "conv_transpose3d", x, w, stride=stride, padding=padding, dilation=dilation, groups=groups,
            output_padding=output_padding, data_format=data_format
        )

    def max_pool1d(
        self,
        x: T | Scalar,
        /,
        *,
        window: Any,
        stride: Any = None,
        padding: Any = "VALID",
        dilation: Any = 1,
        data_format: str = "NWC",
    ) -> T:
        """Largest element of every window of signals, channel by channel.

        Shapes: `x` is ``(signals, width, channels)`` in the data format ``"NWC"``, ``(signals, channels, width)`` in
        ``"NCW"``. Parameters, NaN and ties are those of `max_pool2d`; padding is that of `conv1d`.
        """
        return self._compose(
            "max_pool1d", x, window=window, stride=stride, padding=padding, dilation=dilation,
            data_format=data_format
        )

    def average_pool1d(
        self,
        x: T | Scalar,
        /,
        *,
        window: Any,
        stride: Any = None,
        padding: Any = "VALID",
        dilation: Any = 1,
        count_padding: bool = False,
        data_format: str = "NWC",
    ) -> T:
        """Mean of every window of signals, channel by channel.

        Shapes are those of `max_pool1d`, parameters those of `average_pool2d`; padding is that of `conv1d`.
        """
        return self._compose(
            "average_pool1d", x, window=window, stride=stride, padding=padding, dilation=dilation,
            count_padding=count_padding, data_format=data_format
        )

    def max_pool3d(
        self,
        x: T | Scalar,
        /,
        *,
        window: Any,
        stride: Any = None,
        padding: Any = "VALID",
        dilation: Any = 1,
        data_format: str = "NDHWC",
    ) -> T:
        """Largest element of every window of volumes, channel by channel.

        Shapes: `x` is ``(volumes, depth, height, width, channels)`` in the data format ``"NDHWC"``, ``(volumes, channels,
        depth, height, width)`` in ``"NCDHW"``. Parameters, NaN and ties are those of `max_pool2d`, a number or a triple
        each; padding is that of `conv3d`.
        """
        return self._compose(
            "max_pool3d", x, window=window, stride=stride, padding=padding, dilation=dilation,
            data_format=data_format
        )

    def average_pool3d(
        self,
        x: T | Scalar,
        /,
        *,
        window: Any,
        stride: Any = None,
        padding: Any = "VALID",
        dilation: Any = 1,
        count_padding: bool = False,
        data_format: str = "NDHWC",
    ) -> T:
        """Mean of every window of volumes, channel by channel.

        Shapes are those of `max_pool3d`, parameters those of `average_pool2d`; padding is that of `conv3d`.
        """
        return self._compose(
            "average_pool3d", x, window=window, stride=stride, padding=padding, dilation=dilation,
            count_padding=count_padding, data_format=data_format
        )

    def global_max_pool(self, x: T | Scalar, /, *, axis: int = -1, keepdims: bool = False, **other: Never) -> T:
        """Largest element of each channel of each signal, image or volume.

        `axis` is that of the channels; all others but the first are pooled. NaN gives NaN; several largest elements share
        the derivative, as in `max`. Refused: nothing to pool.
        """
        if other:
            return self._compose("global_max_pool", x, **other)
        return self._compose("global_max_pool", x, axis=axis, keepdims=keepdims)

    def global_average_pool(self, x: T | Scalar, /, *, axis: int = -1, keepdims: bool = False, **other: Never) -> T:
        """Mean of each channel of each signal, image or volume.

        `axis` is that of the channels; all others but the first are pooled. Refused: nothing to pool.
        """
        if other:
            return self._compose("global_average_pool", x, **other)
        return self._compose("global_average_pool", x, axis=axis, keepdims=keepdims)

    def index(self, x: T | Scalar, /, *indices: T | Scalar, key: Any) -> T:
        """NumPy's ``x[key]``: whole numbers, slices of any step, None, ``...``, and integer tensors in any mixture.

        In `key` the word ``"array"`` stands for each of `indices`, which broadcast against each other. Their axes stand
        where the first of them stood, or in front if slices, None or ``...`` keep them apart; a number beside arrays
        counts as one of them. Slices are clipped, as Python's are; an index out of range raises. Arrays, of booleans too,
        may stand in `key` themselves, where no indices are given beside it.
        """
        return self._compose("index", x, *indices, key=key)

    def index_update(
        self, x: T | Scalar, values: T | Scalar, /, *indices: T | Scalar, key: Any, mode: str = "set"
    ) -> T:
        """A new tensor: `x` with `values`, broadcast, where `index` would read, written, added, multiplied, or compared.

        `mode` is ``"set"``, ``"add"``, ``"multiply"``, ``"min"`` or ``"max"``. Where indices repeat, the last of the
        values is set, and all of them are added, multiplied or compared. Values must fit into the dtype of `x`; a number
        takes it. `x` is left as it is.
        """
        return self._compose("index_update", x, values, *indices, key=key, mode=mode)

    def gather_nd(self, x: T | Scalar, indices: T | Scalar, /) -> T:
        """Elements or slices by whole indices: the last axis of `indices` has a number for each of the first axes of `x`.

        Of `x` with shape (n₁ … nᵣ) and `indices` with shape (…, k) the result has shape (…, nₖ₊₁ … nᵣ), as in ONNX.
        """
        return self._compose("gather_nd", x, indices)

    def scatter_nd(self, x: T | Scalar, indices: T | Scalar, updates: T | Scalar, /, *, mode: str = "set") -> T:
        """A new tensor: `x` with `updates` where `gather_nd` would read; for `mode` see `index_update`."""
        return self._compose("scatter_nd", x, indices, updates, mode=mode)

    @checks_names
    def put_along_axis(
        self, x: T | Scalar, indices: T | Scalar, values: T | Scalar, /, *, axis: int, mode: str = "set"
    ) -> T:
        """A new tensor: `x` with `values`, broadcast, where `take_along_axis` would read; for `mode` see `index_update`."""
        return self._compose("put_along_axis", x, indices, values, axis=axis, mode=mode)

    def count_nonzero(self, x: T | Scalar, /, *, axis: Axes | None = None, keepdims: bool = False, **other: Never) -> T:
        """How many elements are not zero, or true, along axes: int64. NaN is not zero."""
        if other:
            return self._compose("count_nonzero", x, **other)
        return self._compose("count_nonzero", x, axis=axis, keepdims=keepdims)

    def nonzero(self, x: T | Scalar, /, *, size: Any = None) -> tuple[T, ...]:
        """Where elements are not zero, in C order: a vector of indices for each axis.

        Without `size` they are counted at once: `x` has a value then, or an ExtentError says that it has none. With it
        the first so many are given, and the first element's index where there are not as many. Rank 0 is refused.
        """
        return self._compose("nonzero", x, size=size)

    def argwhere(self, x: T | Scalar, /, *, size: Any = None) -> T:
        """Where elements are not zero, in C order: a row of indices for each; see `nonzero`."""
        return self._compose("argwhere", x, size=size)

    def extract(self, x: T | Scalar, mask: T | Scalar, /, *, size: Any = None) -> T:
        """The elements where a mask of the same shape is true, in C order: a vector.

        Without `size` they are counted at once: see `nonzero`. With it there are so many, zeros behind those that exist.
        """
        return self._compose("extract", x, mask, size=size)

    def top_k(self, x: T | Scalar, /, *, k: int, axis: int = -1, largest: bool = True, **other: Never) -> tuple[T, ...]:
        """The `k` largest elements along an axis, in descending order, and where they stand; or the smallest, ascending.

        Of equal elements the one that stands first comes first. NaN counts as the largest.
        """
        if other:
            return self._compose("top_k", x, **other)
        return self._compose("top_k", x, k=k, axis=axis, largest=largest)

    def isin(self, x: T | Scalar, values: T | Scalar, /, *, invert: bool = False) -> T:
        """Whether each element of `x` is one of the `values`, or none of them; NaN is none.

        By sorting and searching; complex numbers are compared each with each.
        """
        return self._compose("isin", x, values, invert=invert)

    def unique_values(self, x: T | Scalar, /, *, size: Any = None) -> T:
        """The different elements, in ascending order: a vector. NaN differ from each other.

        Complex numbers are ordered by their real, then by their imaginary parts.

        Without `size` they are counted at once: `x` has a value then, or an ExtentError says that it has none. With it
        there are so many: what is missing repeats the largest, what is too much is left out.
        """
        return self._compose("unique_values", x, size=size)

    def unique_counts(self, x: T | Scalar, /, *, size: Any = None) -> tuple[T, ...]:
        """The different elements as `unique_values` gives them, and how often each of them occurs."""
        return self._compose("unique_counts", x, size=size)

    def unique_inverse(self, x: T | Scalar, /, *, size: Any = None) -> tuple[T, ...]:
        """The different elements as `unique_values` gives them, and for each element of `x` which of them it is."""
        return self._compose("unique_inverse", x, size=size)

    def unique_all(self, x: T | Scalar, /, *, size: Any = None) -> tuple[T, ...]:
        """The different elements, where each first stands, for each element which of them it is, and how often each occurs.

        As `unique_values` gives them; where is a position in C order.
        """
        return self._compose("unique_all", x, size=size)

    def matrix_transpose(self, x: T | Scalar, /) -> T:
        """The last two axes swapped; a view."""
        return self._compose("matrix_transpose", x)

    def trace(self, x: T | Scalar, /, *, offset: int = 0, dtype: npt.DTypeLike | None = None) -> T:
        """The sum of a diagonal of each matrix, in the dtype of a sum, or in that which is given."""
        return self._compose("trace", x, offset=offset, dtype=dtype)

    def matrix_power(self, x: T | Scalar, /, *, n: int) -> T:
        """Square matrices multiplied n times, by repeated squaring; a negative n means the inverse's power.

        For n = 0 it is the identity; a singular matrix under a negative n is an error when it runs.
        """
        return self._compose("matrix_power", x, n=n)

    def matrix_rank(self, x: T | Scalar, /, *, rtol: float | None = None) -> T:
        """How many singular values exceed `rtol` times the largest: an int64 for each matrix.

        None: the larger number of rows and columns times the dtype's rounding.
        """
        return self._compose("matrix_rank", x, rtol=rtol)

    def lstsq(self, a: T | Scalar, b: T | Scalar, /, *, rtol: float | None = None) -> T:
        """The x of least norm among those that make ``a x - b`` shortest: the pseudoinverse times b.

        Shapes: ``(…, m, n)`` and ``(…, m, k)``, whose batches broadcast, or a vector ``(m,)``. `rtol` is that of `pinv`.
        """
        return self._compose("lstsq", a, b, rtol=rtol)

    def vector_norm(
        self, x: T | Scalar, /, *, axis: Axes | None = None, keepdims: bool = False, ord: Any = 2, **other: Never
    ) -> T:
        """The norm of vectors along axes, or of all elements: ``sum(abs(x) ** ord) ** (1 / ord)``; integers as float64.

        `ord` is a number: ``inf`` means the largest magnitude, ``-inf`` the smallest, 0 counts what is not zero. The
        derivative at the zero vector is zero, and so is that of the magnitude of an element that is zero. The norm of no
        elements is zero, as by NumPy, where the order is positive.
        """
        if other:
            return self._compose("vector_norm", x, **other)
        return self._compose("vector_norm", x, axis=axis, keepdims=keepdims, ord=ord)

    def matrix_norm(self, x: T | Scalar, /, *, keepdims: bool = False, ord: Any = "fro", **other: Never) -> T:
        """The norm of each matrix: Frobenius, ``"nuc"`` (sum of singular values), 2 and -2 (their largest and smallest).

        1 and -1 are the largest and smallest sum of magnitudes of a column, ``inf`` and ``-inf`` of a row. The derivative
        at the zero matrix is zero for the Frobenius norm; at equal extremes it is shared.
        """
        if other:
            return self._compose("matrix_norm", x, **other)
        return self._compose("matrix_norm", x, keepdims=keepdims, ord=ord)

    def vecdot(self, a: T | Scalar, b: T | Scalar, /, *, axis: int = -1, **other: Never) -> T:
        """The sum along an axis of the conjugate of a times b; other axes broadcast."""
        if other:
            return self._compose("vecdot", a, b, **other)
        return self._compose("vecdot", a, b, axis=axis)

    def outer(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Every product of an element of one vector with one of another: ``(n,)`` and ``(m,)`` give ``(n, m)``."""
        return self._compose("outer", a, b)

    def cross(self, a: T | Scalar, b: T | Scalar, /, *, axis: int = -1, **other: Never) -> T:
        """The cross product of vectors of three elements along an axis; other axes broadcast."""
        if other:
            return self._compose("cross", a, b, **other)
        return self._compose("cross", a, b, axis=axis)

    def kron(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """The Kronecker product: b times each element of a, side by side; the shorter shape gets ones in front."""
        return self._compose("kron", a, b)

    def lyapunov(self, a: T | Scalar, q: T | Scalar, /) -> T:
        """The x with ``a x + x aᴴ = q``, batched over front axes; it is `sylvester` of a and its adjoint.

        There is one if no eigenvalue of a is the negative of the conjugate of another; else it is an error when it runs.
        """
        return self._compose("lyapunov", a, q)

    def fft(self, x: T | Scalar, /, *, n: Any = None, axis: int = -1, norm: str = "backward", **other: Never) -> T:
        """The discrete Fourier transform along an axis: complex numbers come out, as many as are transformed."""
        if other:
            return self._compose("fft", x, **other)
        return self._compose("fft", x, n=n, axis=axis, norm=norm)

    def ifft(self, x: T | Scalar, /, *, n: Any = None, axis: int = -1, norm: str = "backward", **other: Never) -> T:
        """The inverse of `fft`."""
        if other:
            return self._compose("ifft", x, **other)
        return self._compose("ifft", x, n=n, axis=axis, norm=norm)

    def fftn(
        self,
        x: T | Scalar,
        /,
        *,
        s: Sizes | None = None,
        axes: Sizes | None = None,
        norm: str = "backward",
        **other: Never,
    ) -> T:
        """The discrete Fourier transform along several axes: all, or the last ones where only `s` is given."""
        if other:
            return self._compose("fftn", x, **other)
        return self._compose("fftn", x, s=s, axes=axes, norm=norm)

    def ifftn(
        self,
        x: T | Scalar,
        /,
        *,
        s: Sizes | None = None,
        axes: Sizes | None = None,
        norm: str = "backward",
        **other: Never,
    ) -> T:
        """The inverse of `fftn`."""
        if other:
            return self._compose("ifftn", x, **other)
        return self._compose("ifftn", x, s=s, axes=axes, norm=norm)

    def rfft(self, x: T | Scalar, /, *, n: Any = None, axis: int = -1, norm: str = "backward", **other: Never) -> T:
        """The discrete Fourier transform of real numbers along an axis: of n numbers the first ``n // 2 + 1`` frequencies.

        The others are the conjugates of these, in reverse order.
        """
        if other:
            return self._compose("rfft", x, **other)
        return self._compose("rfft", x, n=n, axis=axis, norm=norm)

    def irfft(self, x: T | Scalar, /, *, n: Any = None, axis: int = -1, norm: str = "backward", **other: Never) -> T:
        """The `n` real numbers whose first frequencies these are, the inverse of `rfft`.

        None: an even number, ``2 (m - 1)`` of m frequencies. Imaginary parts of the first frequency, and of the middle
        one of an even n, are not read.
        """
        if other:
            return self._compose("irfft", x, **other)
        return self._compose("irfft", x, n=n, axis=axis, norm=norm)

    def rfftn(
        self,
        x: T | Scalar,
        /,
        *,
        s: Sizes | None = None,
        axes: Sizes | None = None,
        norm: str = "backward",
        **other: Never,
    ) -> T:
        """The discrete Fourier transform of real numbers along several axes; along the last one half of the frequencies."""
        if other:
            return self._compose("rfftn", x, **other)
        return self._compose("rfftn", x, s=s, axes=axes, norm=norm)

    def irfftn(
        self,
        x: T | Scalar,
        /,
        *,
        s: Sizes | None = None,
        axes: Sizes | None = None,
        norm: str = "backward",
        **other: Never,
    ) -> T:
        """The real numbers with these frequencies along several axes, the inverse of `rfftn`.

        Where `s` is None there is an even number of them along the last axis, ``2 (m - 1)`` of m frequencies.
        """
        if other:
            return self._compose("irfftn", x, **other)
        return self._compose("irfftn", x, s=s, axes=axes, norm=norm)

    def hfft(self, x: T | Scalar, /, *, n: Any = None, axis: int = -1, norm: str = "backward", **other: Never) -> T:
        """The `n` real frequencies of a signal that is the conjugate of its mirror image, given by its first half."""
        if other:
            return self._compose("hfft", x, **other)
        return self._compose("hfft", x, n=n, axis=axis, norm=norm)

    def ihfft(self, x: T | Scalar, /, *, n: Any = None, axis: int = -1, norm: str = "backward", **other: Never) -> T:
        """The first half of the signal with these real frequencies, the inverse of `hfft`."""
        if other:
            return self._compose("ihfft", x, **other)
        return self._compose("ihfft", x, n=n, axis=axis, norm=norm)

    def fftfreq(self, *, n: Any, d: float = 1.0, dtype: npt.DTypeLike | None = None) -> T:
        """The frequencies of `fft` of n elements that are `d` apart, in the order in which it gives them; float64."""
        return self._compose("fftfreq", n=n, d=d, dtype=dtype)

    def rfftfreq(self, *, n: Any, d: float = 1.0, dtype: npt.DTypeLike | None = None) -> T:
        """The frequencies of `rfft` of n elements that are `d` apart; float64."""
        return self._compose("rfftfreq", n=n, d=d, dtype=dtype)

    def fftshift(self, x: T | Scalar, /, *, axes: Axes | None = None, **other: Never) -> T:
        """The frequency zero in the middle of each axis, or of those named: rolled by half of the extent."""
        if other:
            return self._compose("fftshift", x, **other)
        return self._compose("fftshift", x, axes=axes)

    def ifftshift(self, x: T | Scalar, /, *, axes: Axes | None = None, **other: Never) -> T:
        """The inverse of `fftshift`."""
        if other:
            return self._compose("ifftshift", x, **other)
        return self._compose("ifftshift", x, axes=axes)

    def resize(
        self,
        x: T | Scalar,
        /,
        *,
        size: Any = None,
        scale: Any = None,
        method: str = "nearest",
        align_corners: bool = False,
        axis: int = -1,
        **other: Never,
    ) -> T:
        """Signals, images or volumes of another size: up-sampling, or down-sampling without a filter.

        `axis` is that of the channels; all others but the first are resized. `size` gives their extents, or `scale` what
        they are multiplied by (rounded down), each a number or one for each axis.

        Elements are the middles of pixels (half-pixel centres): of m in the place of n, element i lies at ``(i + 0.5) * n /
        m - 0.5``; with `align_corners` the first and the last ones coincide, and it lies at ``i * (n - 1) / (m - 1)``.
        The method ``"nearest"`` takes the element nearest to that, the later one of two; ``"linear"`` weighs its two
        neighbours along each axis, which is bilinear on images, and takes the outermost elements beyond them.

        Refused: integers to be weighed, an axis without elements that is to have some.
        """
        if other:
            return self._compose("resize", x, **other)
        return self._compose("resize", x, size=size, scale=scale, method=method, align_corners=align_corners, axis=axis)

    @checks_names
    def resample(
        self,
        x: T | Scalar,
        /,
        *,
        axes: Axes,
        size: Any = None,
        scale: Any = None,
        method: str = "linear",
        coordinates: str = "half_pixel",
        rounding: str = "round_prefer_floor",
        coefficient: float = -0.75,
        antialias: bool = False,
        exclude_outside: bool = False,
        aspect: str = "stretch",
        region: Any = None,
        fill: float = 0.0,
    ) -> T:
        """Resampled along some axes by any rule of ONNX's Resize: nearest, linear, cubic; with or without antialiasing.

        `size` gives the extents of the `axes`, or `scale` what they are multiplied by (rounded down), a number or one for
        each axis. With `size`, ``aspect="not_larger"`` or ``"not_smaller"`` scales all axes by one number, so that none
        becomes larger, or smaller, than was asked for.

        Where element i of the result lies among the n of an axis, its scale being s, `coordinates` says:

        - ``"half_pixel"``: at ``(i + 0.5) / s - 0.5``; ``"pytorch_half_pixel"`` at 0 if it is the only one;
          ``"half_pixel_symmetric"`` keeps the middle where it is if the scaled extent is no whole number;
        - ``"align_corners"``: at ``i (n - 1) / (s n - 1)``; ``"asymmetric"``: at ``i / s``;
        - ``"tf_crop_and_resize"``: in the `region`, pairs (start, end) in which 0 and 1 are the first and the last element;
          what lies outside is `fill`.

        ``"nearest"`` takes the element to which `rounding` rounds that: ``"round_prefer_floor"``, ``"round_prefer_ceil"``,
        ``"floor"`` or ``"ceil"``. ``"linear"`` weighs two neighbours, ``"cubic"`` four, by Keys' kernel with `coefficient`;
        with `antialias` as many more as an axis shrinks. Beyond the ends the outermost elements are repeated, or, with
        `exclude_outside`, not counted.

        Refused: integers to be weighed, and unknown extents along the axes, unless each element is copied a whole number
        of times.
        """
        return self._compose(
            "resample", x, axes=axes, size=size, scale=scale, method=method, coordinates=coordinates,
            rounding=rounding, coefficient=coefficient, antialias=antialias, exclude_outside=exclude_outside,
            aspect=aspect, region=region, fill=fill
        )

    def moments(
        self, x: T | Scalar, /, *, axis: Axes | None = None, keepdims: bool = False, **other: Never
    ) -> tuple[T, ...]:
        """Mean and biased variance along some axes, or all: the variance is the mean square of what the mean leaves.

        No elements give NaN, as `mean` does.
        """
        if other:
            return self._compose("moments", x, **other)
        return self._compose("moments", x, axis=axis, keepdims=keepdims)

    def batch_norm(
        self,
        x: T | Scalar,
        mean: T | Scalar,
        variance: T | Scalar,
        scale: T | Scalar | None = None,
        offset: T | Scalar | None = None,
        /,
        *,
        axis: int = -1,
        epsilon: float = 1e-05,
        **other: Never,
    ) -> T:
        """``(x - mean) / sqrt(variance + epsilon) * scale + offset``, channel by channel; Ioffe and Szegedy, ICML 2015.

        `axis` is that of the channels; the other tensors have an element for each. For inference they are running
        averages; for training they are the `moments` of the batch along all other axes, through which gradients flow.
        """
        if other:
            return self._compose("batch_norm", x, mean, variance, scale, offset, **other)
        return self._compose("batch_norm", x, mean, variance, scale, offset, axis=axis, epsilon=epsilon)

    def layer_norm(
        self,
        x: T | Scalar,
        scale: T | Scalar | None = None,
        offset: T | Scalar | None = None,
        /,
        *,
        axis: Axes = -1,
        epsilon: float = 1e-05,
        **other: Never,
    ) -> T:
        """Each sample less its mean, over its deviation, along some axes; Ba, Kiros and Hinton, 2016.

        `scale` and `offset` have the extents of these axes, in increasing order.
        """
        if other:
            return self._compose("layer_norm", x, scale, offset, **other)
        return self._compose("layer_norm", x, scale, offset, axis=axis, epsilon=epsilon)

    def instance_norm(
        self,
        x: T | Scalar,
        scale: T | Scalar | None = None,
        offset: T | Scalar | None = None,
        /,
        *,
        axis: int = -1,
        epsilon: float = 1e-05,
        **other: Never,
    ) -> T:
        """Each channel of each signal, image or volume less its mean, over its deviation; Ulyanov et al., 2016.

        `axis` is that of the channels, of which `scale` and `offset` have an element each; the first axis is of samples.
        """
        if other:
            return self._compose("instance_norm", x, scale, offset, **other)
        return self._compose("instance_norm", x, scale, offset, axis=axis, epsilon=epsilon)

    def group_norm(
        self,
        x: T | Scalar,
        scale: T | Scalar | None = None,
        offset: T | Scalar | None = None,
        /,
        *,
        groups: int,
        axis: int = -1,
        epsilon: float = 1e-05,
        **other: Never,
    ) -> T:
        """Each group of channels of each sample less its mean, over its deviation; Wu and He, ECCV 2018.

        `axis` is that of the channels, which are cut into `groups` runs of equal length, and of which `scale` and `offset`
        have an element each; the first axis is of samples.
        """
        if other:
            return self._compose("group_norm", x, scale, offset, **other)
        return self._compose("group_norm", x, scale, offset, groups=groups, axis=axis, epsilon=epsilon)

    def rms_norm(
        self,
        x: T | Scalar,
        scale: T | Scalar | None = None,
        /,
        *,
        axis: Axes = -1,
        epsilon: float = 1e-06,
        **other: Never,
    ) -> T:
        """Each sample over its root mean square along some axes; Zhang and Sennrich, NeurIPS 2019.

        `scale` has the extents of these axes, in increasing order. No mean is taken off.
        """
        if other:
            return self._compose("rms_norm", x, scale, **other)
        return self._compose("rms_norm", x, scale, axis=axis, epsilon=epsilon)

    def local_response_norm(
        self,
        x: T | Scalar,
        /,
        *,
        size: int = 5,
        alpha: float = 0.0001,
        beta: float = 0.75,
        bias: float = 1.0,
        axis: int = -1,
        **other: Never,
    ) -> T:
        """Each element over ``(bias + alpha * m) ** beta``, m the mean square of neighbours; Krizhevsky et al., 2012.

        Neighbours are the `size` elements around it along an axis, that of the channels: ``(size - 1) // 2`` before it and
        the rest behind, zeros beyond the ends, as ONNX has it.
        """
        if other:
            return self._compose("local_response_norm", x, **other)
        return self._compose("local_response_norm", x, size=size, alpha=alpha, beta=beta, bias=bias, axis=axis)

    def dropout(self, x: T | Scalar, key: T | Scalar, /, *, probability: float) -> T:
        """Zero with that probability, and the rest divided by the probability to stay; Srivastava et al., JMLR 2014.

        `key` is that of random operators, ``uint64[2]``: equal keys drop the same elements on every stack. Refused: a
        probability outside of [0, 1).
        """
        return self._compose("dropout", x, key, probability=probability)

    def embedding(self, indices: T | Scalar, weight: T | Scalar, /) -> T:
        """Rows of a table by integers: ``weight[indices]``, whose gradient adds up what comes for equal indices.

        `weight` is ``(entries, features)``; the result has the shape of `indices` and then the features. An index out of
        range raises IndexError when it is met; a negative one counts from the end, as in `take`.
        """
        return self._compose("embedding", indices, weight)

    def scaled_dot_product_attention(
        self,
        queries: T | Scalar,
        keys: T | Scalar,
        values: T | Scalar,
        mask: T | Scalar | None = None,
        dropout_key: T | Scalar | None = None,
        /,
        *,
        causal: bool = False,
        scale: float | None = None,
        dropout: float = 0.0,
    ) -> T:
        """Means of values, weighed by the softmax of products of queries and keys; Vaswani et al., NeurIPS 2017.

        Shapes: queries ``(…, heads, queries, features)``, keys ``(…, key heads, keys, features)``, values ``(…, key heads,
        keys, value features)``; the result is ``(…, heads, queries, value features)``. There may be fewer key heads, of
        which the heads are a multiple: consecutive heads share one (Ainslie et al., 2023), and nothing is repeated for it.

        Products are multiplied by `scale`, one over the root of the features unless given. `mask` broadcasts to
        ``(…, heads, queries, keys)``: booleans say what is attended to, numbers are added to the scaled products. With
        `causal`, query i attends to keys 0 … i only. A query that attends to nothing (all false, or minus infinity, or no
        keys) has the result zero, and no gradient. With `dropout`, weights are dropped by the key after the softmax.
        """
        return self._compose(
            "scaled_dot_product_attention", queries, keys, values, mask, dropout_key, causal=causal,
            scale=scale, dropout=dropout
        )

    def rnn_cell(
        self,
        x: T | Scalar,
        h: T | Scalar,
        w: T | Scalar,
        u: T | Scalar,
        bias: T | Scalar | None = None,
        /,
        *,
        activation: str = "tanh",
    ) -> T:
        """The next state of a simple recurrent cell: ``tanh(x @ w + h @ u + bias)``; Elman, 1990.

        Shapes: `x` ``(samples, inputs)``, `h` ``(samples, hidden)``, `w` ``(inputs, hidden)``, `u` ``(hidden, hidden)``,
        `bias` ``(hidden,)``. The activation is ``"tanh"`` or ``"relu"``.
        """
        return self._compose("rnn_cell", x, h, w, u, bias, activation=activation)

    def rnn(
        self,
        x: T | Scalar,
        h: T | Scalar,
        w: T | Scalar,
        u: T | Scalar,
        bias: T | Scalar | None = None,
        /,
        *,
        activation: str = "tanh",
    ) -> tuple[T, ...]:
        """All states of a simple recurrent cell over sequences, and the last one.

        `x` is ``(samples, steps, inputs)`` and the first result ``(samples, steps, hidden)``; the others are those of
        `rnn_cell`. Refused: a number of steps that is not known.
        """
        return self._compose("rnn", x, h, w, u, bias, activation=activation)

    def lstm_cell(
        self,
        x: T | Scalar,
        h: T | Scalar,
        c: T | Scalar,
        w: T | Scalar,
        u: T | Scalar,
        bias: T | Scalar | None = None,
        /,
    ) -> tuple[T, ...]:
        """The next output and cell state of a long short-term memory; Hochreiter and Schmidhuber, 1997; Gers et al., 2000.

        Shapes: `x` ``(samples, inputs)``, `h` and `c` ``(samples, hidden)``, `w` ``(inputs, 4 * hidden)``, `u` ``(hidden, 4
        * hidden)``, `bias` ``(4 * hidden,)``. The columns of the weights are those of the gates in the order input, forget,
        candidate, output (i, f, g, o): ``c' = sigmoid(f) * c + sigmoid(i) * tanh(g)`` and ``h' = sigmoid(o) * tanh(c')``.
        """
        return self._compose("lstm_cell", x, h, c, w, u, bias)

    def lstm(
        self,
        x: T | Scalar,
        h: T | Scalar,
        c: T | Scalar,
        w: T | Scalar,
        u: T | Scalar,
        bias: T | Scalar | None = None,
        /,
    ) -> tuple[T, ...]:
        """All outputs of a long short-term memory over sequences, the last one, and the last cell state.

        `x` is ``(samples, steps, inputs)`` and the first result ``(samples, steps, hidden)``; the others are those of
        `lstm_cell`. Refused: a number of steps that is not known.
        """
        return self._compose("lstm", x, h, c, w, u, bias)

    def gru_cell(
        self,
        x: T | Scalar,
        h: T | Scalar,
        w: T | Scalar,
        u: T | Scalar,
        bias: T | Scalar | None = None,
        hidden_bias: T | Scalar | None = None,
        /,
    ) -> T:
        """The next state of a gated recurrent unit; Cho et al., EMNLP 2014.

        Shapes: `x` ``(samples, inputs)``, `h` ``(samples, hidden)``, `w` ``(inputs, 3 * hidden)``, `u` ``(hidden, 3 *
        hidden)``, both biases ``(3 * hidden,)``. The columns of the weights are those of the gates in the order reset,
        update, candidate (r, z, n): ``n = tanh(x @ w_n + b_n + sigmoid(r) * (h @ u_n + hb_n))`` and ``h' = (1 -
        sigmoid(z)) * n + sigmoid(z) * h``; so a reset gate acts after the product, where a bias of its own counts.
        """
        return self._compose("gru_cell", x, h, w, u, bias, hidden_bias)

    def gru(
        self,
        x: T | Scalar,
        h: T | Scalar,
        w: T | Scalar,
        u: T | Scalar,
        bias: T | Scalar | None = None,
        hidden_bias: T | Scalar | None = None,
        /,
    ) -> tuple[T, ...]:
        """All states of a gated recurrent unit over sequences, and the last one.

        `x` is ``(samples, steps, inputs)`` and the first result ``(samples, steps, hidden)``; the others are those of
        `gru_cell`. Refused: a number of steps that is not known.
        """
        return self._compose("gru", x, h, w, u, bias, hidden_bias)

    def box_iou(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Intersection over union of each box with each other: ``(n, m)`` of ``(n, 4)`` and ``(m, 4)``.

        A box is ``(left, top, right, bottom)``; one whose right is not beyond its left, or whose bottom is not beyond its
        top, is empty. Two empty boxes have zero.
        """
        return self._compose("box_iou", a, b)

    def roi_align(
        self,
        features: T | Scalar,
        boxes: T | Scalar,
        images: T | Scalar,
        /,
        *,
        size: Any,
        scale: float = 1.0,
        sampling: int = 2,
        aligned: bool = True,
        data_format: str = "NHWC",
    ) -> T:
        """Features within boxes, each brought to one size by means of bilinear samples; He et al., ICCV 2017.

        Shapes: features ``(images, height, width, channels)``, or of the data format ``"NCHW"``; boxes ``(n, 4)``, each
        ``(left, top, right, bottom)``, which times `scale` are in pixels of the features; `images` ``(n,)``, of integers,
        says of which image each box is. The result is ``(n, *size, channels)``, or ``(n, channels, *size)``.

        A box is cut into ``size`` bins, and each is the mean of ``sampling * sampling`` points, spread evenly. A point more
        than a pixel outside of the image counts as zero, as does one that is NaN. With `aligned` the middle of a pixel lies
        at its index and a half; else at its index, and boxes are at least a pixel long. The number of points does not
        depend on the box: `sampling` is at least 1. It has derivatives with respect to features, and to floating boxes
        wherever no point lies on a pixel's middle line.
        """
        return self._compose(
            "roi_align", features, boxes, images, size=size, scale=scale, sampling=sampling, aligned=aligned,
            data_format=data_format
        )

    def zeros(self, *, shape: Sizes, dtype: npt.DTypeLike = "float64") -> T:
        """A tensor of that shape that is zero everywhere."""
        return self._compose("zeros", shape=shape, dtype=dtype)

    def ones(self, *, shape: Sizes, dtype: npt.DTypeLike = "float64") -> T:
        """A tensor of that shape that is one everywhere."""
        return self._compose("ones", shape=shape, dtype=dtype)

    def empty(self, *, shape: Sizes, dtype: npt.DTypeLike = "float64") -> T:
        """A tensor of that shape whose elements nobody has chosen: zeros, so that a graph has one value."""
        return self._compose("empty", shape=shape, dtype=dtype)

    def zeros_like(self, x: T | Scalar, /, *, dtype: npt.DTypeLike | None = None) -> T:
        """Zeros of the shape of another tensor, and of its dtype unless one is said."""
        return self._compose("zeros_like", x, dtype=dtype)

    def ones_like(self, x: T | Scalar, /, *, dtype: npt.DTypeLike | None = None) -> T:
        """Ones of the shape of another tensor, and of its dtype unless one is said."""
        return self._compose("ones_like", x, dtype=dtype)

    def empty_like(self, x: T | Scalar, /, *, dtype: npt.DTypeLike | None = None) -> T:
        """As `zeros_like`: see `empty`."""
        return self._compose("empty_like", x, dtype=dtype)

    def full_like(self, x: T | Scalar, /, *, value: Scalar, dtype: npt.DTypeLike | None = None) -> T:
        """One number in the shape and place of another tensor, and in its dtype unless one is said."""
        return self._compose("full_like", x, value=value, dtype=dtype)

    def linspace(
        self, *, start: Scalar, stop: Scalar, num: int, endpoint: bool = True, dtype: npt.DTypeLike = "float64"
    ) -> T:
        """`num` numbers at equal distances from `start` to `stop`, which is the last one if `endpoint` is true."""
        return self._compose("linspace", start=start, stop=stop, num=num, endpoint=endpoint, dtype=dtype)

    def eye(self, *, n_rows: Any, n_cols: Any = None, k: int = 0, dtype: npt.DTypeLike = "float64") -> T:
        """A matrix of ones on its `k`-th diagonal (above the main one if positive) and zeros elsewhere."""
        return self._compose("eye", n_rows=n_rows, n_cols=n_cols, k=k, dtype=dtype)

    def meshgrid(self, *xs: T | Scalar, indexing: str = "xy") -> tuple[T, ...]:
        """Coordinates on a grid: of vectors of extents n₁ … nᵣ a tensor each, of shape (n₁ … nᵣ), ``"ij"``.

        With ``"xy"`` the first two axes are in each other's place, as in a picture.
        """
        return self._compose("meshgrid", *xs, indexing=indexing)

    def tril(self, x: T | Scalar, /, *, k: int = 0) -> T:
        """The matrices of the last two axes, zero above their `k`-th diagonal."""
        return self._compose("tril", x, k=k)

    def triu(self, x: T | Scalar, /, *, k: int = 0) -> T:
        """The matrices of the last two axes, zero below their `k`-th diagonal."""
        return self._compose("triu", x, k=k)

    def diag(self, x: T | Scalar, /, *, k: int = 0) -> T:
        """Of a vector the square matrix that has it as its `k`-th diagonal, of a matrix that diagonal: NumPy's."""
        return self._compose("diag", x, k=k)

    def moveaxis(self, x: T | Scalar, /, *, source: Axes, destination: Axes) -> T:
        """Axes moved to other places; the rest stay in their order. A view."""
        return self._compose("moveaxis", x, source=source, destination=destination)

    def swapaxes(self, x: T | Scalar, /, *, axis1: int, axis2: int) -> T:
        """Two axes in each other's place. A view."""
        return self._compose("swapaxes", x, axis1=axis1, axis2=axis2)

    def flatten(self, x: T | Scalar, /) -> T:
        """All elements in C order, as a vector."""
        return self._compose("flatten", x)

    def broadcast_arrays(self, *xs: T | Scalar) -> tuple[T, ...]:
        """Each tensor broadcast to the shape that all of them have in common; dtypes are kept."""
        return self._compose("broadcast_arrays", *xs)

    def unstack(self, x: T | Scalar, /, *, axis: int = 0, **other: Never) -> tuple[T, ...]:
        """The parts of an axis without it, in a tuple: the opposite of `stack`. The axis has a known extent."""
        if other:
            return self._compose("unstack", x, **other)
        return self._compose("unstack", x, axis=axis)

    def rot90(self, x: T | Scalar, /, *, k: int = 1, axes: Axes = (0, 1), **other: Never) -> T:
        """Turned by `k` quarters in the plane of two axes, from the first towards the second."""
        if other:
            return self._compose("rot90", x, **other)
        return self._compose("rot90", x, k=k, axes=axes)

    def roll(self, x: T | Scalar, /, *, shift: Axes, axis: Axes | None = None, **other: Never) -> T:
        """Elements moved along axes by `shift` places; those that leave at one end come in at the other.

        Without an axis they move in the flattened tensor. One shift may be for several axes, one after the other.
        """
        if other:
            return self._compose("roll", x, **other)
        return self._compose("roll", x, shift=shift, axis=axis)

    def repeat(
        self,
        x: T | Scalar,
        counts: T | Scalar | None = None,
        /,
        *,
        repeats: Any = None,
        axis: int | None = None,
        size: Any = None,
        **other: Never,
    ) -> T:
        """Each element `repeats` times in a row, along an axis or of the flattened tensor.

        How often is a number, a tuple of one for each element of the axis, or the integer tensor `counts` of that extent.
        With `counts` the new extent is `size`: left out it is computed at once, and an ExtentError says if that cannot be.
        Where the counts add up to less than `size` the last element fills it, where to more the rest is left out.
        """
        if other:
            return self._compose("repeat", x, counts, **other)
        return self._compose("repeat", x, counts, repeats=repeats, axis=axis, size=size)

    def diff(
        self,
        x: T | Scalar,
        prepend: T | Scalar | None = None,
        append: T | Scalar | None = None,
        /,
        *,
        n: int = 1,
        axis: int = -1,
        **other: Never,
    ) -> T:
        """The `n`-th difference along an axis: each element less the one before it, `n` times.

        Booleans give whether they differ. `prepend` and `append` are joined to it first; of rank 0 they are one element.
        """
        if other:
            return self._compose("diff", x, prepend, append, **other)
        return self._compose("diff", x, prepend, append, n=n, axis=axis)

    def pad_mode(self, x: T | Scalar, /, *, widths: Any, mode: str) -> T:
        """With its own elements put around: a pair of widths (before, after) for each axis, none negative; see `pad`.

        `mode` is NumPy's: ``"edge"`` repeats the last element, ``"reflect"`` mirrors without it, ``"symmetric"`` with it,
        ``"wrap"`` begins again at the other end. The padded axes have known extents.
        """
        return self._compose("pad_mode", x, widths=widths, mode=mode)

    def var(
        self,
        x: T | Scalar,
        /,
        *,
        axis: Axes | None = None,
        correction: float = 0.0,
        keepdims: bool = False,
        **other: Never,
    ) -> T:
        """Variance: the sum of squared distances from the mean, divided by their number less `correction`.

        In two passes, the mean first. It is NaN where there are no more elements than `correction`; integers give float64.
        Of complex numbers it is the real sum of squared magnitudes. Of float16 it is computed in float32.
        """
        if other:
            return self._compose("var", x, **other)
        return self._compose("var", x, axis=axis, correction=correction, keepdims=keepdims)

    def std(
        self,
        x: T | Scalar,
        /,
        *,
        axis: Axes | None = None,
        correction: float = 0.0,
        keepdims: bool = False,
        **other: Never,
    ) -> T:
        """Standard deviation: the root of `var`. Where that is zero, its derivative is taken to be zero, too."""
        if other:
            return self._compose("std", x, **other)
        return self._compose("std", x, axis=axis, correction=correction, keepdims=keepdims)

    def quantile(
        self,
        x: T | Scalar,
        /,
        *,
        q: Any,
        axis: Axes | None = None,
        keepdims: bool = False,
        method: str = "linear",
        **other: Never,
    ) -> T:
        """The value below which a part `q` of the elements lies: one, or a tuple of them along a new first axis.

        Between two elements it is interpolated: ``"linear"``, ``"lower"``, ``"higher"``, ``"nearest"`` (the even one at
        a tie) or ``"midpoint"``. NaN among the elements gives NaN, and so do none. The extents of the axes are known.
        """
        if other:
            return self._compose("quantile", x, **other)
        return self._compose("quantile", x, q=q, axis=axis, keepdims=keepdims, method=method)

    def median(self, x: T | Scalar, /, *, axis: Axes | None = None, keepdims: bool = False, **other: Never) -> T:
        """The middle element, or the mean of the two: the quantile 0.5. NaN among them gives NaN, and so do none."""
        if other:
            return self._compose("median", x, **other)
        return self._compose("median", x, axis=axis, keepdims=keepdims)

    def bincount(self, x: T | Scalar, weights: T | Scalar | None = None, /, *, length: Any = None) -> T:
        """How often each number from 0 occurs among integers: a vector; or the sum of the weights of each.

        Without `length` it is as long as the largest needs, which is computed at once: an ExtentError says if that cannot
        be. A negative number, or one that is not below `length`, raises.
        """
        return self._compose("bincount", x, weights, length=length)

    def histogram(
        self, x: T | Scalar, weights: T | Scalar | None = None, /, *, bins: int = 10, range: Any = None
    ) -> tuple[T, ...]:
        """How many elements lie in each of `bins` equal parts of a range, and the ``bins + 1`` edges of the parts.

        A part has its lower edge, and the last one its upper edge as well; what lies outside, NaN too, is not counted.
        Without `range` it is from the least to the largest element, computed at once; an ExtentError says if that cannot
        be. With `weights` they are summed. Edges have the dtype of `x`, or float64 if that is of integers.
        """
        return self._compose("histogram", x, weights, bins=bins, range=range)

    def window(self, *, size: int, kind: str = "hann", periodic: bool = True, dtype: npt.DTypeLike = "float64") -> T:
        """A window of that many elements: ``"hann"``, ``"hamming"``, ``"blackman"`` or ``"boxcar"``, sums of cosines.

        A `periodic` one is for transforms: it goes on with its first element. Else it ends as it begins, as NumPy's do.
        Source: Harris, "On the use of windows for harmonic analysis", 1978.
        """
        return self._compose("window", size=size, kind=kind, periodic=periodic, dtype=dtype)

    def quantize_linear(
        self,
        x: T | Scalar,
        scale: T | Scalar,
        zero: T | Scalar | None = None,
        /,
        *,
        dtype: npt.DTypeLike = "uint8",
        axis: int = -1,
        **other: Never,
    ) -> T:
        """``round(x / scale) + zero`` as integers of a dtype, the nearest that it has; halves are rounded to even.

        Scale and zero point (0 unless given) are numbers, vectors of one for each place of an axis, or tensors of rank 2
        or more that broadcast against `x`. A NaN is zero.
        Source: Jacob et al., CVPR 2018; the rule is that of ONNX.
        """
        if other:
            return self._compose("quantize_linear", x, scale, zero, **other)
        return self._compose("quantize_linear", x, scale, zero, dtype=dtype, axis=axis)

    def dequantize_linear(
        self, x: T | Scalar, scale: T | Scalar, zero: T | Scalar | None = None, /, *, axis: int = -1, **other: Never
    ) -> T:
        """``(x - zero) * scale``, in the scale's dtype: what quantised numbers stand for; see `quantize_linear`."""
        if other:
            return self._compose("dequantize_linear", x, scale, zero, **other)
        return self._compose("dequantize_linear", x, scale, zero, axis=axis)

    def einsum(self, *operands: T | Scalar, subscripts: str) -> T:
        """Einstein's summation: ``einsum(a, b, subscripts="ij,jk->ik")`` is the matrix product.

        A letter names an axis; axes of one name go together, within a tensor too, and are summed unless the result has
        them. ``...`` stands for axes that are kept and broadcast, and an axis of extent 1 broadcasts as well. Without
        ``->`` the result has the letters that occur once, sorted. It is lowered to transpositions, sums and matrix
        products, in the order that NumPy's search finds to take the fewest multiplications; of two tensors it is one.
        """
        return self._compose("einsum", *operands, subscripts=subscripts)

    def inner(self, a: T | Scalar, b: T | Scalar, /) -> T:
        """Sum of products over the last axes of both; with a tensor of rank 0 the product of each element."""
        return self._compose("inner", a, b)
