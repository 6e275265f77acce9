"""Patterns: the operators interpreted once more, so that what one writes of rule variables is data.

In a pattern one object stands for one thing: the same variable, or the same part, matches the same node.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from nnc_func.declaration import REQUIRED
from nnc_func.errors import OperatorError, RuleError
from nnc_func.graph.tensors.arithmetic import OPS, Arithmetic
from nnc_func.op import Op

NUMBERS = (bool, int, float, complex)
SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "matmul": "@", "power": "**"}


class Pattern(Arithmetic):
    """One side of a rule, or a part of it: write it with Python's operators, or call an operator on it."""

    __slots__ = ()

    def __array_ufunc__(self, function: Any, method: str, *args: Any, **params: Any) -> Any:
        """NumPy's function of that name is the operator's, as in ``np.exp(x)`` and ``np.float64(2) * x``."""
        if method != "__call__" or params or function.__name__ not in OPS:
            raise _foreign(f"numpy.{function.__name__}")
        return apply(OPS[function.__name__], *args)

    def __array_function__(self, function: Any, *args: Any) -> Any:
        raise _foreign(f"numpy.{function.__name__}")

    def __array__(self, *args: Any, **params: Any) -> Any:
        raise _foreign("numpy.asarray")

    @property
    def dtype(self) -> Any:
        """Known of what it matches only."""
        raise _UnknownError(self, "dtype", "of_kinds(x, 'f'), or that(lambda x: x.dtype == 'float32', x)")

    @property
    def shape(self) -> Any:
        """Known of what it matches only."""
        raise _UnknownError(self, "shape", "same_shape(x, y), or that(lambda x: len(x.shape) == 2, x)")

    @property
    def ndim(self) -> Any:
        """Known of what it matches only."""
        raise _UnknownError(self, "ndim", "that(lambda x: len(x.shape) == 2, x)")

    @property
    def size(self) -> Any:
        """Known of what it matches only."""
        raise _UnknownError(self, "size", "that(lambda x: x.aval.size == 1, x)")

    def __bool__(self) -> bool:
        raise RuleError("whether a pattern holds is not known before it is matched: ask it as a condition, in .when(…)")

    def _bind(self, op: Op, *args: Any, **params: Any) -> Apply:
        return apply(op, *args, **params)


class _UnknownError(RuleError, AttributeError):
    """A variable has no such attribute before it is matched."""

    def __init__(self, part: Any, name: str, instead: str) -> None:
        wanted = f"ask it as a condition of nnc_func.graph.rules.conditions: .when({instead})"
        super().__init__(f"the {name} of {part} is not known before it is matched; {wanted}")


def _foreign(what: str) -> RuleError:
    return RuleError(
        f"{what} takes arrays, and was given a pattern; write a rule with Python's operators and with those of the "
        "catalogue: OPS['exp'](x), of `from nnc_func.graph.ops import CATALOGUE as OPS`"
    )


@frozen(eq=False, slots=True)
class Variable(Pattern):
    """Stands for a tensor that a left side meets."""

    name: str

    def __str__(self) -> str:
        return self.name


class Tensor(Variable):
    """Matches any tensor."""

    __slots__ = ()


@frozen(eq=False, slots=True)
class Shaped(Tensor):
    """A tensor of a given shape, in the samples of a rule: graphs that are drawn from them have it so."""

    shape: tuple[int, ...]


class Scalar(Variable):
    """Matches a constant all of whose elements are one real number; as a parameter it is that number."""

    __slots__ = ()


class Constant(Variable):
    """Matches a constant of any shape and dtype, or a fill: a tensor whose elements are known while rewriting."""

    __slots__ = ()


class Nonnegative(Variable):
    """Matches a floating tensor that is not below zero anywhere, as its operators tell; NaN may be in it."""

    __slots__ = ()


@frozen(eq=False, slots=True)
class Full(Pattern):
    """Matches a constant every element of which is this number; built, it is that number beside the other operands.

    Zero matches both zeros where the rule is up to signed zero, else only the one of its own sign.
    """

    value: Any

    def __str__(self) -> str:
        return f"{self.value:g}" if isinstance(self.value, float) else str(self.value)


@frozen(eq=False, slots=True)
class Param:
    """Stands for the value of a parameter."""

    name: str

    def __str__(self) -> str:
        return self.name


VARIABLES = (Variable, Param)  # what stands for something that a left side meets


@frozen(eq=False, slots=True)
class Computed:
    """What a function makes of the match, on the right side: a parameter, or a number as an operand."""

    function: Callable[..., Any]
    of: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.function.__name__.lstrip('_')}({', '.join(map(str, self.of))})"


@frozen(eq=False, slots=True)
class Folded(Pattern):
    """On the right side, a part made of constants only: computed when the rule fires, see `folded`."""

    part: Any

    def __str__(self) -> str:
        return f"folded({self.part})"


@frozen(eq=False, slots=True)
class Apply(Pattern):
    """Matches an application of the operator."""

    op: Op
    args: tuple[Any, ...]
    params: tuple[tuple[str, Any], ...] = field(default=())

    def __str__(self) -> str:
        told = [f"{k}={v}" for k, v in self.params if not _same(v, self.op.params[k])]
        sign = SIGNS.get(self.op.name)
        if sign and not told:
            return "(" + f" {sign} ".join(map(str, self.args)) + ")"
        if self.op.name == "negative":
            return f"-{self.args[0]}"
        return f"{self.op.name}({', '.join([*map(str, self.args), *told])})"


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


def apply(op: Op, *args: Any, **params: Any) -> Apply:
    """The application of an operator as a pattern, also of one without tensor arguments.

    A parameter that is not given has its default, and matches nothing else.

    Raises
    ------
    OperatorError
        More or fewer tensors than it takes, a parameter that it lacks, or one that it needs and is not given.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> print(apply(CATALOGUE["add"], Tensor("x"), 1))
    (x + 1)
    """
    if params or op.params:
        unknown = sorted(set(params) - set(op.params))
        missing = [name for name, default in op.params.items() if default is REQUIRED and name not in params]
        if unknown or missing:
            wrong = f"has no parameter {unknown[0]!r}" if unknown else f"needs the parameter {missing[0]!r}"
            raise OperatorError(f"{op.name} {wrong}; call {op.signature()}")
    least = len(op.args) - op.variadic
    if len(args) < least or (len(args) > len(op.args) and not op.variadic):
        wanted = f"{'at least ' * op.variadic}{least} tensor{'s' * (least != 1)}"
        raise OperatorError(f"{op.name} takes {wanted}, given {len(args)}; call {op.signature()}")
    items = tuple((name, _param(op, name, params.get(name, default))) for name, default in op.params.items())
    return Apply(op, tuple(map(_operand, args)), items)


def _param(op: Op, name: str, value: Any) -> Any:
    convert = op.converters.get(name)
    if convert is None or value is None or isinstance(value, (Param, Computed, Scalar)):
        return value
    return convert(value)


def _operand(arg: Any) -> Any:
    if isinstance(arg, (Pattern, Computed)):
        return arg
    if isinstance(arg, NUMBERS):
        return Full(arg)
    raise RuleError(f"a pattern is made of variables, numbers and operators, given {arg!r}")


def computed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a plain function so that, given variables of a rule, it is computed from what they match.

    It is given a graph value for a tensor, a Python number for a `Scalar`, and the value of a `Param`.

    Examples
    --------
    >>> @computed
    ... def double(n):
    ...     return 2 * n
    >>> print(double(Param("n"))), double(4)
    double(n)
    (None, 8)
    """

    def call(*args: Any) -> Any:
        if any(isinstance(a, (Pattern, Param, Computed)) for a in args):
            return Computed(function, args)
        return function(*args)

    call.__doc__, call.__name__ = function.__doc__, function.__name__
    return call


def folded(part: Any) -> Folded:
    """The constant that a part of the right side is: operators of `Constant` and `Scalar` variables and of numbers.

    The device computes it when the rule fires. The rule does not fire where that is not to be done: where it would be
    larger than the constants in it and than 64 KiB, or not finite, or depends on an unknown extent.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> @nnc.rule
    ... def gather_factors(x, a: Constant, b: Constant):
    ...     '''Two constant factors are one.'''
    ...     return nnc.rewrite(x * a * b).to(x * folded(a * b)).up_to("rounding")
    >>> print(gather_factors)
    gather_factors: ((x * a) * b) -> (x * folded((a * b)))
    """
    return Folded(_operand(part))


@computed
def shape_of(x: Any) -> Any:
    """The shape of what x matches."""
    return x.shape


@computed
def dtype_of(x: Any) -> Any:
    """The dtype of what x matches."""
    return x.dtype


def variables(function: Callable[..., Any], skip: int = 0) -> dict[str, Any]:
    """The variables of a rule: the function's parameters, of the kind that their annotation says."""
    kinds: dict[str, Any] = {each.__name__: each for each in (Scalar, Constant, Nonnegative, Param)}
    found = list(inspect.signature(function).parameters.values())[skip:]
    return {p.name: _kind(kinds, p)(p.name) for p in found}


def _kind(kinds: dict[str, Any], parameter: inspect.Parameter) -> Any:
    if parameter.annotation is inspect.Parameter.empty:
        return Tensor
    name = parameter.annotation if isinstance(parameter.annotation, str) else parameter.annotation.__name__
    try:
        return kinds[name.rpartition(".")[2]]
    except KeyError:
        raise RuleError(
            f"the variable {parameter.name} is annotated {name}; "
            "it is a Scalar, a Constant, a Nonnegative, a Param, or bare for any tensor"
        ) from None


MATCHED_PARAMETERS = frozenset((Param, Computed, Scalar))  # kinds of parameters that are no values


def parts(pattern: Any) -> list[Any]:
    """Every part of a pattern, each once, in the order in which it is matched."""
    seen: set[int] = set()
    found: list[Any] = []
    stack = [pattern]
    while stack:
        part = stack.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        found.append(part)
        kind = type(part)
        if kind is Tensor:
            continue
        if kind is Apply:
            if part.params:
                stack += [v for _, v in reversed(part.params) if type(v) in MATCHED_PARAMETERS]
            stack += part.args[::-1]
        elif kind is Folded:
            stack.append(part.part)
        elif kind is Computed:
            stack += [a for a in reversed(part.of) if isinstance(a, (Pattern, Param, Computed))]
    return found


def depth(part: Any) -> int:
    """How many applications within each other a pattern has.

    Examples
    --------
    >>> from nnc_func.graph.rules.signs import subtract_negative
    >>> depth(subtract_negative.lhs)
    2
    """
    return 1 + max(map(depth, part.args), default=0) if isinstance(part, Apply) else 0


def inside(lhs: Apply) -> dict[Op, int]:
    """The operators below the root of a pattern, and how far below it each is at most.

    Examples
    --------
    >>> from nnc_func.graph.rules.signs import subtract_negative
    >>> inside(subtract_negative.lhs)
    {negative: 1}
    """
    found: dict[Op, int] = {}
    level, distance = [lhs], 0
    while level:
        level, distance = [a for part in level for a in part.args if isinstance(a, Apply)], distance + 1
        found |= {part.op: distance for part in level}
    return found
