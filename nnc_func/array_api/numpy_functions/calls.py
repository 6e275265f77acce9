"""What NumPy asks of a tensor: `numpy_function` for its functions, `numpy_ufunc` for its ufuncs."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nnc_func.array_api.numpy_functions.names import (
    ACCUMULATED,
    CREATED,
    LOGICAL,
    OF_VALUES,
    REDUCED,
    UFUNCS,
    WRITTEN_IN_C,
    rows,
)
from nnc_func.array_api.numpy_functions.refusals import refused
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.tensors.tensor import Tensor

if TYPE_CHECKING:
    from nnc_func.array_api.namespace import ArrayNamespace

SCALARS = (bool, int, float, complex)
_signature = cache(inspect.signature)  # of functions, of which there are few


@cache
def own() -> Mapping[str, Callable[..., Any]]:
    """Functions of NumPy's whose parameters mean something else than those of the standard's, by name.

    Examples
    --------
    >>> sorted(own())[:3]
    ['angle', 'append', 'argpartition']
    """
    from nnc_func.array_api.numpy_functions import (
        calculus,
        elementwise,
        missing,
        positions,
        products,
        sets,
        shapes,
        statistics,
        writing,
    )

    families = (calculus, elementwise, missing, positions, products, sets, shapes, statistics, writing)
    return {name: function for family in families for name, function in family.FUNCTIONS.items()}


def works(name: str) -> bool:
    """Whether NumPy's function of that name, one that is no ufunc, works on tensors.

    Examples
    --------
    >>> works("pad"), works("packbits")
    (True, False)
    """
    return (name in own() or name in rows() or name in OF_VALUES) and hasattr(np, name)


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
        return getattr(xp, ours)(inputs[0], **{"axis": keywords.get("axis", 0)} | given)
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
    composed = COMPOSED.get(name)
    if composed is not None:  # Python's numbers stay weak: a float32 and 2 give a float32
        return composed(xp, *(x if type(x) in SCALARS else xp.asarray(x) for x in inputs))
    if name in LOGICAL and all(x.dtype.kind == "b" for x in map(xp.asarray, inputs)):
        return getattr(xp.ops, LOGICAL[name])(*inputs)
    operator = getattr(xp.ops, UFUNCS.get(name, name), None)
    if operator is None or (name not in UFUNCS and not hasattr(np, name)):
        raise refused(name)
    return operator(*inputs)


def _divmod(xp: ArrayNamespace, x: Any, y: Any) -> Any:
    return xp.floor_divide(x, y), xp.remainder(x, y)


def _float_power(xp: ArrayNamespace, x: Any, y: Any) -> Any:
    return xp.pow(*(xp.astype(a, np.result_type(a.dtype, np.float64)) for a in map(xp.asarray, (x, y))))


def _modf(xp: ArrayNamespace, x: Any) -> Any:
    x = x if kind_of(x.dtype) == "f" else xp.astype(x, np.float64)
    whole = xp.trunc(x)
    rest = xp.where(xp.isinf(x), 0.0, xp.subtract(x, xp.where(xp.isinf(x), 0.0, whole)))
    return xp.copysign(rest, x), whole


def _logaddexp2(xp: ArrayNamespace, x: Any, y: Any) -> Any:
    ln2 = float(np.log(2.0))
    return xp.divide(xp.logaddexp(x * ln2, y * ln2), ln2)


def _matvec(xp: ArrayNamespace, a: Any, x: Any) -> Any:
    return xp.squeeze(xp.matmul(a, xp.expand_dims(x, -1)), -1)


def _vecmat(xp: ArrayNamespace, x: Any, a: Any) -> Any:
    x = xp.conj(x) if x.dtype.kind == "c" else x
    return xp.squeeze(xp.matmul(xp.expand_dims(x, -2), a), -2)


COMPOSED: Mapping[str, Callable[..., Any]] = {  # ufuncs that are no single operator
    "positive": lambda xp, x: xp.positive(x), "matmul": lambda xp, a, b: xp.matmul(a, b), "divmod": _divmod,
    "float_power": _float_power, "modf": _modf, "logaddexp2": _logaddexp2, "matvec": _matvec, "vecmat": _vecmat,
}  # fmt: skip


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
    if name in CREATED:
        return xp.asarray(function(*args, **keywords))
    ours, row = own().get(name), rows().get(name)
    if ours is None and row is None:
        raise refused(name)
    several, params = _given(name, function, args, keywords)
    if ours is None:
        return _called(xp, name, row, [*several], params)
    _accepted(name, ours, params)
    return ours(xp, *several, **params)


def _accepted(name: str, function: Callable[..., Any], params: Mapping[str, Any]) -> None:
    """Refuse parameters of NumPy's that ours has not, by name."""
    accepted = _signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
        return
    unknown = [k for k in params if k not in accepted]
    if unknown:
        raise refused(name, f" with {', '.join(unknown)}")


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
