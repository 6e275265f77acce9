"""The array API's namespace of a stack: its functions by name, each in the module of the standard's section."""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import MethodType
from typing import Any

import numpy as np

# not from the package: that asks the default namespace for names, which is made of this module
import nnc_func.array_api.creation as creation
import nnc_func.array_api.data_types as data_types
import nnc_func.array_api.elementwise as elementwise
import nnc_func.array_api.fourier as fourier
import nnc_func.array_api.indexing as indexing
import nnc_func.array_api.linear_algebra as linear_algebra
import nnc_func.array_api.manipulation as manipulation
import nnc_func.array_api.numpy_functions.calls as calls
import nnc_func.array_api.searching as searching
import nnc_func.array_api.sets as sets
import nnc_func.array_api.sorting as sorting
import nnc_func.array_api.statistics as statistics
from nnc_func.array_api.inspection import Info
from nnc_func.errors import DeviceError, OperatorError

VERSION = "2024.12"
LATEST = "2025.12"
VERSIONS = ("2021.12", "2022.12", "2023.12", VERSION, LATEST)
unary, binary = elementwise.unary, elementwise.binary


def _names(device: Any) -> tuple[str, ...]:
    """What the standard calls devices, of a device: its places, or the one that it is."""
    if getattr(device, "places", ()):
        return tuple(device.places)
    known = {"numpy": "cpu", "cupy": "cuda"}
    name = getattr(device, "name", None) or type(device).__name__.lower()
    return (known.get(name, name),)


TRANSFORMS = {
    **{name: fourier.along_axis(name) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{name: fourier.over_axes(name) for name in ("fftn", "ifftn", "rfftn", "irfftn")},
    **{f.__name__: f for f in (fourier.fftfreq, fourier.rfftfreq, fourier.fftshift, fourier.ifftshift)},
}
MATRICES = (
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
)  # fmt: skip
LINALG = {name: getattr(linear_algebra, name) for name in MATRICES}


def _of_version(owner: Any, version: str) -> ArrayNamespace:
    return owner.array_api.of_version(version)  # type: ignore[no-any-return]


class Extension:
    """Functions of a namespace that stand under a name of their own: `linalg`, `fft`.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().array_api.fft
    <fft of array API on Stack(...)>
    """

    def __init__(self, xp: ArrayNamespace, name: str, functions: dict[str, Any]) -> None:
        self.__name__ = name
        self._xp = xp
        for each, function in functions.items():
            setattr(self, each, MethodType(function, xp))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the array API's {self.__dict__.get('__name__')} has no {name!r}")

    def __repr__(self) -> str:
        return f"<{self.__name__} of {str(self._xp)[1:-1]}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._xp, self.__name__)


class ArrayNamespace:
    """The array API on the tensors of a stack: what ``tensor.__array_namespace__()`` gives.

    Equal stacks have equal namespaces. Where the standard leaves something open, NumPy's behaviour is followed.
    Functions take what `asarray` takes. Shapes that depend on elements need these to be known; a mask or a count that
    depends on an unbound input is refused by name.

    Attributes
    ----------
    owner
        The stack whose tensors its functions take and give.
    ops
        Its operators.
    places
        Its devices' names; the first is where tensors are made unless it is said.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> xp = nnc.lazy().array_api
    >>> xp.mean(xp.asarray([1.0, 2.0, 6.0])).item()
    3.0
    >>> xp == nnc.lazy().array_api, xp == nnc.eager().array_api
    (True, False)
    """

    __name__ = "nnc_func.array_api"

    def __init__(self, owner: Any, version: str = VERSION) -> None:
        self.owner = owner
        self.__array_api_version__ = version
        self._versions: dict[str, ArrayNamespace] = {version: self}
        self.ops: Any = owner.ops
        self.places = _names(owner.device)
        self.fft = Extension(self, "fft", TRANSFORMS)
        self.linalg = Extension(self, "linalg", LINALG)

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, ArrayNamespace):
            return False
        return self.__array_api_version__ == other.__array_api_version__ and self.owner == other.owner

    def __hash__(self) -> Any:
        return hash((ArrayNamespace, self.owner, self.__array_api_version__))

    def __getattr__(self, name: str) -> Any:
        """What NumPy has beyond the standard, ``xp.pad``, ``xp.einsum``: libraries take it to be there."""
        if name.startswith("_") or not calls.works(name):
            raise AttributeError(f"the array API has no {name!r}, and NumPy's does not work on tensors")
        function = getattr(np, name)
        return lambda *args, **keywords: self.numpy_function(function, args, keywords)

    def __repr__(self) -> str:
        return f"<array API on {self.owner!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_version, (self.owner, self.__array_api_version__)

    def __array_namespace_info__(self) -> Info:
        """What it can do."""
        return Info(self)

    def of_version(self, version: str | None) -> ArrayNamespace:
        """The namespace that follows that version of the standard: itself, unless it is the latest.

        There are two: from version 2025.12 on `broadcast_arrays` and `meshgrid` give tuples, up to 2024.12 lists.

        Raises
        ------
        OperatorError
            It follows no such version.
        """
        if version is not None and version not in VERSIONS:
            raise OperatorError(f"versions of the standard are {', '.join(VERSIONS)}, given {version!r}")
        wanted = LATEST if version == LATEST else VERSION
        if version is None or wanted == self.__array_api_version__:
            return self
        if wanted not in self._versions:
            self._versions[wanted] = ArrayNamespace(self.owner, wanted)
        return self._versions[wanted]

    def several(self, found: Iterable[Any]) -> list[Any] | tuple[Any, ...]:
        """Several tensors as the version of the standard has them."""
        return tuple(found) if self.__array_api_version__ == LATEST else [*found]

    numpy_function, numpy_ufunc = calls.numpy_function, calls.numpy_ufunc

    def place(self, device: Any) -> str | None:
        """The place in which arrays are on a device; None for the default one.

        Raises
        ------
        DeviceError
            There is no such device.
        """
        if device is None or device == self.places[0]:
            return None
        if device not in self.places:
            raise DeviceError(f"the devices of {self!r} are {', '.join(self.places)}, given {device!r}")
        return str(device)

    def to_device(self, x: Any, device: Any) -> Any:
        """The tensor on a device; None leaves it where it is."""
        if device is None or device == x.device:
            return x
        place = self.place(device)
        return self.ops.transfer(x, place=place)

    bool, int8, int16, int32, int64 = map(np.dtype, ("bool", "int8", "int16", "int32", "int64"))
    uint8, uint16, uint32, uint64 = map(np.dtype, ("uint8", "uint16", "uint32", "uint64"))
    float16, float32, float64 = map(np.dtype, ("float16", "float32", "float64"))
    complex64, complex128 = map(np.dtype, ("complex64", "complex128"))
    e, inf, nan, pi, newaxis = math.e, math.inf, math.nan, math.pi, None

    # creation
    asarray, from_dlpack = creation.asarray, creation.from_dlpack
    arange, linspace, eye, meshgrid = creation.arange, creation.linspace, creation.eye, creation.meshgrid
    empty, full, ones, zeros = creation.empty, creation.full, creation.ones, creation.zeros
    empty_like, full_like = creation.empty_like, creation.full_like
    ones_like, zeros_like = creation.ones_like, creation.zeros_like
    tril, triu = creation.tril, creation.triu

    # data types
    astype, can_cast, isdtype = data_types.astype, data_types.can_cast, data_types.isdtype
    finfo, iinfo, result_type = data_types.finfo, data_types.iinfo, data_types.result_type

    # elementwise
    abs, acos, acosh, asin, asinh = map(unary, ("abs", "acos", "acosh", "asin", "asinh"))
    atan, atanh, ceil, conj, cos, cosh = map(unary, ("atan", "atanh", "ceil", "conj", "cos", "cosh"))
    exp, expm1, floor, imag, isfinite = map(unary, ("exp", "expm1", "floor", "imag", "isfinite"))
    isinf, isnan, log, log1p, log2, log10 = map(unary, ("isinf", "isnan", "log", "log1p", "log2", "log10"))
    logical_not, negative, real, reciprocal = map(unary, ("logical_not", "negative", "real", "reciprocal"))
    round, sign, signbit, sin, sinh = map(unary, ("round", "sign", "signbit", "sin", "sinh"))
    sqrt, square, tan, tanh, trunc = map(unary, ("sqrt", "square", "tan", "tanh", "trunc"))
    add, atan2, bitwise_and, bitwise_or = map(binary, ("add", "atan2", "bitwise_and", "bitwise_or"))
    bitwise_xor, copysign, divide, equal = map(binary, ("bitwise_xor", "copysign", "divide", "equal"))
    bitwise_left_shift, bitwise_right_shift = map(binary, ("bitwise_left_shift", "bitwise_right_shift"))
    floor_divide, greater, greater_equal = map(binary, ("floor_divide", "greater", "greater_equal"))
    hypot, less, less_equal, logaddexp = map(binary, ("hypot", "less", "less_equal", "logaddexp"))
    logical_and, logical_or, logical_xor = map(binary, ("logical_and", "logical_or", "logical_xor"))
    maximum, minimum, multiply = map(binary, ("maximum", "minimum", "multiply"))
    nextafter, not_equal, remainder, subtract = map(binary, ("nextafter", "not_equal", "remainder", "subtract"))
    bitwise_invert = unary("bitwise_invert")
    clip, positive, pow = elementwise.clip, elementwise.positive, elementwise.pow

    # indexing
    take, take_along_axis = indexing.take, indexing.take_along_axis

    # linear algebra
    matmul, matrix_transpose = linear_algebra.matmul, linear_algebra.matrix_transpose
    tensordot, vecdot = linear_algebra.tensordot, linear_algebra.vecdot

    # manipulation
    broadcast_arrays, broadcast_to = manipulation.broadcast_arrays, manipulation.broadcast_to
    broadcast_shapes, concat, stack = manipulation.broadcast_shapes, manipulation.concat, manipulation.stack
    expand_dims, squeeze, flip, moveaxis = (
        manipulation.expand_dims, manipulation.squeeze, manipulation.flip, manipulation.moveaxis,
    )  # fmt: skip
    permute_dims, repeat, reshape = manipulation.permute_dims, manipulation.repeat, manipulation.reshape
    roll, tile, unstack = manipulation.roll, manipulation.tile, manipulation.unstack

    # searching, sorting, sets
    argmax, argmin, nonzero, where = searching.argmax, searching.argmin, searching.nonzero, searching.where
    count_nonzero, searchsorted = searching.count_nonzero, searching.searchsorted
    argsort, sort = sorting.argsort, sorting.sort
    unique_all, unique_counts = sets.unique_all, sets.unique_counts
    unique_inverse, unique_values, isin = sets.unique_inverse, sets.unique_values, sets.isin

    # statistics, truth
    max, min, mean, any, all = map(statistics.reduction, ("max", "min", "mean", "any", "all"))
    sum, prod = map(statistics.accumulation, ("sum", "prod"))
    std, var = map(statistics.spread, ("std", "var"))
    cumulative_sum, cumulative_prod = map(statistics.running, ("cumulative_sum", "cumulative_prod"))
    diff = statistics.diff
