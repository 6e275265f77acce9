"""NumPy's own functions on tensors: ``numpy.mean(t)``, ``numpy.add(a, t)`` build what the stack's functions build.

NumPy asks the first of its arguments that has ``__array_function__`` or ``__array_ufunc__``. What NumPy's parameters
are called here is told in one table; what is not in it is refused by name, and `numpy.asarray` gives the value.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.array_api.numpy_parameters import OWN
from nnc_func.errors import OperatorError
from nnc_func.graph.tensor import Tensor

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace

UFUNCS = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "conjugate": "conj", "fabs": "abs", "float_power": "power",
    "invert": "bitwise_invert", "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift",
    "true_divide": "divide",
}  # fmt: skip
REDUCED = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip
LOGICAL = {  # what they are of booleans
    "bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor", "invert": "logical_not",
}  # fmt: skip
ACCUMULATED = {"add": "cumulative_sum", "multiply": "cumulative_prod"}

# NumPy's function: ours; its tensors in order; its other parameters, with our names where they differ
TABLE = """
sum sum a axis dtype keepdims
prod prod a axis dtype keepdims
mean mean a axis dtype keepdims
std std a axis dtype keepdims ddof=correction correction
var var a axis dtype keepdims ddof=correction correction
max max a axis keepdims
amax max a axis keepdims
min min a axis keepdims
amin min a axis keepdims
any any a axis keepdims
all all a axis keepdims
argmax argmax a axis keepdims
argmin argmin a axis keepdims
count_nonzero count_nonzero a axis keepdims
cumulative_sum cumulative_sum x axis dtype include_initial
cumulative_prod cumulative_prod x axis dtype include_initial
diff diff a n axis prepend append
concatenate concat arrays axis dtype
stack stack arrays axis dtype
unstack unstack x axis
expand_dims expand_dims a axis
broadcast_to broadcast_to array shape
broadcast_arrays broadcast_arrays *args
moveaxis moveaxis a,source,destination
flip flip m axis
roll roll a,shift axis
repeat repeat a,repeats axis
tile tile A,reps
matrix_transpose matrix_transpose x
take_along_axis take_along_axis arr,indices axis
nonzero nonzero a
searchsorted searchsorted a,v side sorter
isin isin element,test_elements invert
unique_all unique_all x
unique_counts unique_counts x
unique_inverse unique_inverse x
unique_values unique_values x
astype astype x,dtype copy device
copy asarray a
zeros_like zeros_like a dtype device
ones_like ones_like a dtype device
empty_like empty_like prototype dtype device
full_like full_like a,fill_value dtype device
tril tril m k
triu triu m k
meshgrid meshgrid *xi indexing
tensordot tensordot a,b axes
real real val
imag imag val
linalg.cholesky linalg.cholesky a upper
linalg.cross linalg.cross x1,x2 axis
linalg.det linalg.det a
linalg.diagonal linalg.diagonal x offset
linalg.eigh linalg.eigh a
linalg.eigvalsh linalg.eigvalsh a
linalg.inv linalg.inv a
linalg.matmul matmul x1,x2
linalg.matrix_norm linalg.matrix_norm x keepdims ord
linalg.matrix_power linalg.matrix_power a,n
linalg.matrix_rank linalg.matrix_rank A rtol
linalg.matrix_transpose matrix_transpose x
linalg.outer linalg.outer x1,x2
linalg.pinv linalg.pinv a rtol rcond=rtol
linalg.qr linalg.qr a mode
linalg.slogdet linalg.slogdet a
linalg.solve linalg.solve a,b
linalg.svd linalg.svd a full_matrices
linalg.svdvals linalg.svdvals x
linalg.tensordot tensordot x1,x2 axes
linalg.trace linalg.trace x offset dtype
linalg.vecdot vecdot x1,x2 axis
linalg.vector_norm linalg.vector_norm x axis keepdims ord
fft.fft fft.fft a n axis norm
fft.ifft fft.ifft a n axis norm
fft.rfft fft.rfft a n axis norm
fft.irfft fft.irfft a n axis norm
fft.hfft fft.hfft a n axis norm
fft.ihfft fft.ihfft a n axis norm
fft.fftn fft.fftn a s axes norm
fft.ifftn fft.ifftn a s axes norm
fft.rfftn fft.rfftn a s axes norm
fft.irfftn fft.irfftn a s axes norm
fft.fftshift fft.fftshift x axes
fft.ifftshift fft.ifftshift x axes
"""
WRITTEN_IN_C = {  # what NumPy does not tell of its own functions
    "concatenate": ("arrays", "axis"), "where": ("condition", "x", "y"), "dot": ("a", "b"), "vdot": ("a", "b"),
    "inner": ("a", "b"), "empty_like": ("prototype", "dtype"),
}  # fmt: skip
OF_VALUES = (  # they give no array, but words or a yes or no
    "allclose", "array_equal", "array_equiv", "array_repr", "array_str", "array2string", "save", "savetxt",
    "shares_memory", "may_share_memory", "iscomplexobj", "isrealobj",
)  # fmt: skip


_signature = cache(inspect.signature)  # of NumPy's functions, of which there are few


@cache
def _rows() -> Mapping[str, tuple[str, tuple[str, ...], Mapping[str, str]]]:
    found = {}
    for line in TABLE.split("\n"):
        if line:
            name, ours, tensors, *rest = line.split(" ")
            others = {each.partition("=")[0]: each.rpartition("=")[2] for each in rest}
            found[name] = (ours, tuple(tensors.split(",")), others)
    return found


def refused(name: str, why: str = "") -> OperatorError:
    """What says that a function of NumPy's is none of ours."""
    return OperatorError(
        f"numpy.{name} does not work on tensors{why}; use stack.ops or stack.array_api, or numpy.asarray(x) for a value"
    )


# --- ufuncs ---------------------------------------------------------------------------------------------------


def numpy_ufunc(xp: ArrayNamespace, ufunc: Any, method: str, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """A ufunc of NumPy's on tensors: the operator of its name; ``reduce`` and ``accumulate`` where they have a name.

    Raises
    ------
    OperatorError
        There is no such operator, or NumPy's ``out``, ``where`` and the like are given.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> np.add(np.ones(2), nnc.eager().asarray([1.0, 2.0])).numpy()
    array([2., 3.])
    """
    name = ufunc.__name__
    given = {k: v for k, v in keywords.items() if v is not None and not (k == "where" and v is True)}
    if method == "outer" and len(inputs) == 2 and not given:
        a, b = map(xp.asarray, inputs)
        return _applied(xp, name, xp.ops.reshape(a, shape=(*a.shape, *(1,) * b.ndim)), b)
    if method in ("reduce", "accumulate"):
        ours = (REDUCED if method == "reduce" else ACCUMULATED).get(name)
        if ours is None or not {*given} <= {"axis", "dtype", "keepdims"}:
            raise refused(f"{name}.{method}", f" with {', '.join(given)}" if ours else "")
        return getattr(xp, ours)(inputs[0], **({"axis": 0} | keywords if "axis" not in given else given))
    if method != "__call__" or not {*given} <= {"dtype", "axis"}:
        raise refused(
            name if method == "__call__" else f"{name}.{method}", f" with {', '.join(given)}" if given else ""
        )
    if "dtype" in given:
        inputs = tuple(xp.astype(x, given["dtype"]) for x in inputs)
    if name in ("vecdot",):
        return xp.vecdot(*inputs, axis=given.get("axis", -1))
    if "axis" in given:
        raise refused(name, " with axis")
    return _applied(xp, name, *inputs)


def _applied(xp: ArrayNamespace, name: str, *inputs: Any) -> Any:
    if name in ("positive", "matmul"):
        return getattr(xp, name)(*inputs)
    if name in LOGICAL and all(x.dtype.kind == "b" for x in map(xp.asarray, inputs)):
        return getattr(xp.ops, LOGICAL[name])(*inputs)
    operator = getattr(xp.ops, UFUNCS.get(name, name), None)
    if operator is None or (name not in UFUNCS and not hasattr(np, name)):
        raise refused(name)
    return operator(*inputs)


# --- functions ------------------------------------------------------------------------------------------------


def numpy_function(xp: ArrayNamespace, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """A function of NumPy's on tensors.

    Raises
    ------
    OperatorError
        It is none of ours, or a parameter of NumPy's is given that ours has not.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> x = nnc.eager().asarray([1.0, 2.0])
    >>> np.concatenate([x, np.mean(x, keepdims=True)]).numpy()
    array([1. , 2. , 1.5])
    """
    name = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
    if name in OF_VALUES:
        return function(*map(_value, args), **{k: _value(v) for k, v in keywords.items()})
    own = OWN.get(name)
    row = _rows().get(name)
    if own is None and row is None:
        raise refused(name)
    tensors, params = _given(name, function, args, keywords)
    if own is not None:
        try:
            return own(xp, *tensors, **params)
        except TypeError as error:
            if isinstance(error, OperatorError) or "argument" not in str(error):
                raise
            raise refused(name, f" as it is called: {error}") from None
    assert row is not None
    return _called(xp, name, row, [*tensors], params)


def _called(xp: ArrayNamespace, name: str, row: Any, tensors: list[Any], params: dict[str, Any]) -> Any:
    ours, positional, others = row
    target: Any = xp
    for part in ours.split("."):
        target = getattr(target, part)
    if not positional[0].startswith("*"):
        tensors = [params.pop(each) for each in positional if each in params]
    unknown = [k for k in params if k not in others]
    if unknown:
        raise refused(name, f" with {', '.join(unknown)}")
    renamed = {others[k]: v for k, v in params.items()}
    if "dtype" in renamed and "dtype" not in inspect.signature(target).parameters:
        dtype = renamed.pop("dtype")
        tensors[0] = (
            [xp.astype(t, dtype) for t in tensors[0]] if ours in ("concat", "stack") else xp.astype(tensors[0], dtype)
        )
    return target(*tensors, **renamed)


def _given(
    name: str, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What stands in the place of ``*args``, and the other arguments by name, without NumPy's defaults."""
    names = WRITTEN_IN_C.get(name)
    if names is not None:
        return (), dict(zip(names, args, strict=False)) | {
            k: v for k, v in keywords.items() if v is not None or k == "axis"
        }
    signature = _signature(function)
    bound = signature.bind(*args, **keywords).arguments
    several: tuple[Any, ...] = ()
    found: dict[str, Any] = {}
    for key, value in bound.items():
        parameter = signature.parameters[key]
        if parameter.kind is parameter.VAR_POSITIONAL:
            several = value
        elif parameter.kind is parameter.VAR_KEYWORD:
            found |= value
        elif value is None and parameter.default in (None, np._NoValue, parameter.empty):
            continue
        elif value is not parameter.default and value is not np._NoValue:
            found[key] = value
    return several, found


def _value(arg: Any) -> Any:
    return np.asarray(arg) if isinstance(arg, Tensor) else arg
