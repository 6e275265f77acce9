"""Effects in order: who supplies their tokens, and when they happen.

While a function is traced (jit, a training step) each effect takes the token of the one before and leaves its own;
the last one is a root of the graph. Outside of a trace an effect happens at once, on every engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from nnc_func.errors import GraphError
from nnc_func.graph.leaves import CONSTANT, HELD, INPUT, places
from nnc_func.graph.node import Value, topological
from nnc_func.graph.ops import effects as operators
from nnc_func.graph.origin import describe
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.op import Op


class Scope:
    """The effects of one function that is being traced.

    Attributes
    ----------
    stack
        Whose tensors it computes with.
    token
        That of the last effect so far; None before the first.
    """

    __slots__ = ("outer", "stack", "token")

    def __init__(self, stack: Any, outer: Scope | None) -> None:
        self.stack = stack
        self.outer = outer
        self.token: Tensor | None = None

    @property
    def effects(self) -> tuple[Tensor, ...]:
        """What a graph of the function has as its effects."""
        return () if self.token is None else (self.token,)


_innermost: ContextVar[Scope | None] = ContextVar("innermost", default=None)
innermost = _innermost.get  # what records effects of some stack in this thread; None where nothing does


@contextmanager
def recording(stack: Any) -> Iterator[Scope]:
    """While it is open the stack's effects are recorded, in order, and do not happen.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> x = lazy.input("x", (), "float32")
    >>> with recording(lazy) as scope:
    ...     _ = lazy.ops.print(x, text="x is")
    >>> program = lazy.compile([x], x + 1, effects=scope.effects)
    >>> float(program(2.0))
    x is 2.0
    3.0
    """
    scope = Scope(stack, _innermost.get())
    mark = _innermost.set(scope)
    try:
        with places():
            yield scope
    finally:
        _innermost.reset(mark)


def recorder(stack: Any) -> Scope | None:
    """What records the stack's effects, if anything does."""
    scope = _innermost.get()
    while scope is not None and not (scope.stack is stack or scope.stack == stack):
        scope = scope.outer
    return scope


def first(stack: Any) -> Tensor:
    """The token before all effects of a graph."""
    return Tensor(stack, stack.operator.bind(operators.token))


def performed(stack: Any, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """An effect, recorded or done. With ``after=`` the arguments are values alone, else the first one is a token.

    Raises
    ------
    GraphError
        It depends on an input, and neither a trace nor a token says which program it belongs to.
    """
    named = "after" in params
    after = params.pop("after") if named else args[0]
    values = args if named else args[1:]
    scope = recorder(stack)
    if scope is not None:
        scope.token = first(stack) if scope.token is None else scope.token
        found = _applied(stack, op, scope.token, values, params)
        scope.token = found[0]
    elif _is_recorded(after, named) or (not named and _inputs(values)):
        found = _applied(stack, op, after, values, params)
    else:
        _refuse_unbound(op, values)
        found = _settled(stack, _applied(stack, op, stack.bind(operators.token), values, params))
    if not op.multi_result:
        return found[0]
    return found[1:] if named and not isinstance(after, Tensor) else found


def _applied(stack: Any, op: Op, token: Any, values: Any, params: Any) -> tuple[Any, ...]:
    found = stack.applied(op, (token, *values), params)
    return found if op.multi_result else (found,)


def _settled(stack: Any, results: tuple[Any, ...]) -> tuple[Any, ...]:
    """The results computed now, once and for all: an effect does not happen again when they are used."""
    if not any(isinstance(r.value, Value) for r in results):
        return results
    return tuple(stack.held(array) for array in stack.engine.force([r.value for r in results]))


def _carrier(tensor: Any) -> Any:
    value = tensor.value if isinstance(tensor, Tensor) else tensor
    while hasattr(value, "primal"):  # under differentiation
        value = value.primal
    return value


def _is_recorded(after: Any, named: bool) -> bool:
    """Whether the token is of a graph. A layer above asks for what is to be done now, with a token of no effect."""
    value = _carrier(after)
    if not isinstance(value, Value) or value.node.op in (CONSTANT, HELD):
        return False
    return named or value.node.op.effect


def _inputs(values: Any) -> list[Any]:
    found = [v for v in map(_carrier, values) if isinstance(v, Value)]
    return [n for n in topological(found) if n.op is INPUT] if found else []


def _refuse_unbound(op: Op, values: Any) -> None:
    inputs = _inputs(values)
    if inputs:
        named = ", ".join(f"{n.data!r}" + (f" (made at {w})" if (w := describe(n.origin)) else "") for n in inputs)
        raise GraphError(
            f"{op.name} depends on the input {named}, and would be lost: write it in a function that is given to "
            f"stack.jit, or say where it belongs: t = stack.token(), t = ops.{op.name}(…, after=t), and then "
            "stack.compile(inputs, outputs, effects=[t])"
        )
