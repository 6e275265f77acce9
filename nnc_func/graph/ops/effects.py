"""Effects: what a program does besides computing. Each takes a token and returns one, which puts them in an order.

A token is a tensor of no elements, so that planner, engines and files treat it as any value. Users write
``ops.print(x)``: the stack supplies the token, see `nnc_func.engine.effects`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.device.kernels import effects as kernels
from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets import domains, dtypes
from nnc_func.facets.derivatives import Constant, OfParameters
from nnc_func.facets.dtypes import as_dtype, kind_of
from nnc_func.facets.kernels import reference
from nnc_func.facets.samples import EXACT, Refused, Samples
from nnc_func.facets.shapes import ShapeT
from nnc_func.facets.views import free
from nnc_func.graph.ops.cut_bodies import SCALARS, aval_of
from nnc_func.graph.ops.families import Function, Nested, Tensor
from nnc_func.graph.ops.host_functions import Rule, refusal, rule_of
from nnc_func.op import operator

SHAPE: ShapeT = (0,)
DTYPE: dtypes.DType = np.dtype("uint8")
TOKEN = Aval(SHAPE, DTYPE)
"""That of a token."""
_NOTHING = Constant("it returns nothing but a token")
_OUTSIDE = Refused("ONNX has no effects: a graph computes values, and nothing else")
_TOKEN = (SHAPE, "uint8")


def is_token(aval: Aval) -> bool:
    """Whether a value is one, by its shape and its dtype."""
    return aval.shape == SHAPE and aval.dtype == DTYPE


# --- rules -------------------------------------------------------------------------------------------------


def _shape(token: ShapeT) -> ShapeT:
    if token != SHAPE:
        raise ShapeError(
            f"the first operand of an effect is a token, of shape (0,), given {token}; stack.ops supplies it"
        )
    return SHAPE


def _token(token: dtypes.DType) -> dtypes.DType:
    if token != DTYPE:
        raise DTypeError(f"the first operand of an effect is a token, of uint8, given {token}; stack.ops supplies it")
    return DTYPE


def _anywhere(places: Any, **_: Any) -> Any:
    """Values may be anywhere: they are brought to the host."""


def _check_count(text: str, count: int) -> None:
    """Refuse a text whose fields are not those of so many values."""
    from string import Formatter  # few print

    try:
        fields = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
    except ValueError as error:
        raise OperatorError(f"text={text!r} is not usable: {error}") from None
    if any(fields) or (fields and len(fields) != count):
        raise OperatorError(f"text={text!r} wants one {{}} for each of {count} values, or none at all")


def _printed(token: ShapeT, *values: ShapeT, text: str) -> ShapeT:
    _check_count(text, len(values))
    return _shape(token)


def _checked(token: ShapeT, condition: ShapeT, *values: ShapeT, text: str) -> ShapeT:
    _check_count(text, len(values))
    return _shape(token)


def _of_any(token: dtypes.DType, *_: dtypes.DType, **__: Any) -> dtypes.DType:
    return _token(token)


def _of_condition(token: dtypes.DType, condition: dtypes.DType, *_: dtypes.DType, **__: Any) -> dtypes.DType:
    if condition.kind != "b":
        raise DTypeError(f"check wants a condition of booleans, given {condition}; compare it with something")
    return _token(token)


def _results(token: ShapeT, *_: ShapeT, function: Any, shapes: Any, **__: Any) -> tuple[ShapeT, ...]:
    if not callable(function):
        raise OperatorError(f"callback wants a function of the host, given {function!r}")
    if not isinstance(shapes, tuple) or not all(isinstance(s, tuple) for s in shapes):
        raise ShapeError(f"callback wants a tuple with the shape of each result, given {shapes!r}")
    return (_shape(token), *shapes)


def _result_dtypes(
    token: dtypes.DType, *_: Any, function: Any, shapes: Any, dtypes: Any, **__: Any
) -> tuple[dtypes.DType, ...]:
    if not isinstance(dtypes, tuple) or len(dtypes) != len(shapes):
        raise OperatorError(f"callback wants as many dtypes as shapes, given {dtypes!r} and {shapes!r}")
    try:
        return (_token(token), *map(as_dtype, dtypes))
    except TypeError as error:
        raise DTypeError(f"callback: dtypes={dtypes!r}: {error}") from None


def _pull(o: Any, gs: Any, y: Any, token: Any, *xs: Any, function: Any, **_: Any) -> list[Any]:
    ys = y[1:]
    given = [o.zeros_like(v) if g is None else g for v, g in zip(ys, gs[1:], strict=True)]
    return _derived(o, rule_of(function, "vjp", 0, len(xs)), [*xs, *ys, *given], xs)


def _push(o: Any, ts: Any, y: Any, token: Any, *xs: Any, function: Any, **_: Any) -> list[Any]:
    ys = y[1:]
    given = [_zero(o, x) if t is None else t for x, t in zip(xs, ts[1:], strict=True)]
    return _derived(o, rule_of(function, "jvp", len(xs), len(ys)), [*xs, *ys, *given], ys)


def _zero(o: Any, x: Any) -> Any:
    return type(x)(0) if type(x) in SCALARS else o.zeros_like(x)


def _derived(o: Any, rule: Rule, arrays: list[Any], like: Any) -> list[Any]:
    """What a rule gives for each of these, after None for the token: by a callback of its own, in nobody's order."""
    avals = [aval_of(o, x) for x in like]
    shapes, its = tuple([a.shape for a in avals]), tuple([a.dtype for a in avals])
    _, *found = o.bind(callback, o.bind(token), *arrays, function=rule, shapes=shapes, dtypes=its, pure=True)
    return [None, *(g if kind_of(a.dtype) in "fc" else None for a, g in zip(avals, found, strict=True))]


_EFFECT: dict[str, Any] = {
    "pure": False, "effect": True, "place": _anywhere, "cost": free, "onnx": _OUTSIDE, "tolerance": EXACT,
}  # fmt: skip


# --- operators ---------------------------------------------------------------------------------------------


def _twice(x: Any) -> Any:
    return x * 2


def _any(x: Any) -> Any:
    return x.any()


def _nothing(*values: Any) -> None:
    """A host function that returns nothing."""


@operator(
    shape=lambda: SHAPE,
    dtype=lambda: DTYPE,
    derivative=Constant("it depends on no tensor"),
    kernels=reference(kernels.token, kernels.no_token, infallible=True),
    cost=free,
    onnx=_OUTSIDE,
    tolerance=EXACT,
    samples=Samples(relation="cases", cases=(((), {}),)),
)
def token() -> Tensor:
    """The token that comes before every effect of a program."""


@operator(
    shape=_printed,
    dtype=_of_any,
    derivative=_NOTHING,
    kernels=reference(kernels.printed, kernels.printed_into),
    **_EFFECT,
    samples=Samples(
        relation="cases",
        cases=(
            ((_TOKEN,), {"text": "a line"}),
            ((_TOKEN, (2, 3), ()), {"text": "{} and {}"}),
            ((_TOKEN, (0,)), {}),
        ),
    ),
    data_movement=True,
)
def print_(token: Tensor, /, *values: Tensor, text: str = "") -> Tensor:
    """Print values on the host, in the order of the program; returns a token.

    Each ``{}`` of the text stands for a value, which may have a format: ``"loss {:.3f}"``. Without any, the values
    follow the text. It goes to ``sys.stdout``, a line a call.
    """


@operator(
    shape=_checked,
    dtype=_of_condition,
    derivative=_NOTHING,
    kernels=reference(kernels.checked, kernels.checked_into),
    **_EFFECT,
    samples=Samples(
        relation="cases",
        cases=(
            ((_TOKEN, ((0,), "bool")), {"text": "nothing to hold"}),
            ((_TOKEN, ((0, 2), "bool"), (2,)), {"text": "values {}"}),
        ),
    ),
    data_movement=True,
    takes_all=domains.something,
)
def check(token: Tensor, condition: Tensor, /, *values: Tensor, text: str = "") -> Tensor:
    """Raise CheckError where an element of the condition is false, before any variable is written; returns a token.

    The message is the text, each ``{}`` of which stands for a value, then the operator and the user's line.
    """


@operator(
    shape=_results,
    dtype=_result_dtypes,
    derivative=OfParameters(refusal, _push, _pull),
    kernels=reference(kernels.called, kernels.called_into),
    multi_result=True,
    **_EFFECT,
    samples=Samples(
        relation="cases",
        cases=(
            ((_TOKEN, ((2, 3), "float32")), {"function": _twice, "shapes": ((2, 3),), "dtypes": ("float32",)}),
            ((_TOKEN, ((2,), "int64"), ()), {"function": _nothing}),
            ((_TOKEN, (2, 3)), {"function": _any, "shapes": ((),), "dtypes": ("bool",), "pure": True}),
        ),
    ),
    data_movement=True,
    takes_all=domains.something,
)
def callback(
    token: Tensor, /, *values: Tensor, function: Function, shapes: Nested = (), dtypes: Nested = (), pure: bool = False
) -> Tensor:
    """Call a function of the host with NumPy arrays of the values; its results are tensors of the told shapes.

    The function is given copies, which are its own, and returns one array, a tuple of them, or None where no
    `shapes` are told. What it raises is raised by the program. A program with a callback is not read from files.

    `pure` says that the results are made of the values alone. It is called in order as any other, once each time; but
    where nobody wants the results it need not be called, and a derivative that computes them again may call it again.
    It is given arrays that are not to be written to, and are valid until it returns. Under `vmap` it is called for each
    row. A `HostFunction` has a derivative, whether or not it is pure.
    """
