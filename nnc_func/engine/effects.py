"""Effects in order: who supplies their tokens, and when they happen.

While a function is traced (jit, a training step) each effect takes the token of the one before and leaves its own;
the last one is a root of the graph. Outside of a trace an effect happens at once, on every engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from nnc_func.body import is_pure
from nnc_func.engine.dynamic.records import Recorded, by_programs
from nnc_func.errors import GraphError
from nnc_func.graph.leaves import CONSTANT, HELD, INPUT, LEAVES, VARIABLE, Variable, places
from nnc_func.graph.node import Value, topological
from nnc_func.graph.ops import effects as operators
from nnc_func.graph.origin import describe
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.op import Op
from nnc_func.override import Override


class Scope:
    """The effects of one function that is being traced.

    Attributes
    ----------
    stack
        Whose tensors it computes with.
    token
        That of the last effect so far; None before the first.
    trace
        Of a body, what traces it: effects that are given a token of that are in its order, and not in this one.
    number
        Of a loop's body, what gives how many times came before this one.
    asks
        Whether pure callbacks are in nobody's order there, but belong to what wants their results.
    """

    __slots__ = ("asks", "number", "outer", "stack", "token", "trace")

    def __init__(self, stack: Any, outer: Scope | None) -> None:
        self.stack = stack
        self.outer = outer
        self.token: Tensor | None = None
        self.trace: Any = None
        self.number: Callable[[], Tensor] | None = None
        self.asks = False

    @property
    def effects(self) -> tuple[Tensor, ...]:
        """What a graph of the function has as its effects: none where all of them are of no row."""
        last = None if self.token is None else _carrier(self.token)
        happen = last is not None and not (isinstance(last, Value) and last.node.op is operators.token)
        return (self.token,) if self.token is not None and happen else ()


_innermost: ContextVar[Scope | None] = ContextVar("innermost", default=None)
innermost = _innermost.get  # what records effects of some stack in this thread; None where nothing does


@contextmanager
def recording(stack: Any, in_places: bool = True) -> Iterator[Scope]:
    """While it is open the stack's effects are recorded, in order, and do not happen.

    Parameters
    ----------
    in_places
        Whether variables stand for places meanwhile.

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
    with Override(_innermost, scope), places() if in_places else nullcontext():
        yield scope


def recorder(stack: Any) -> Scope | None:
    """What records the stack's effects, if anything does."""
    scope = _innermost.get()
    while scope is not None and not (scope.stack is stack or scope.stack == stack):
        scope = scope.outer
    return scope


def numbers_of_times(stack: Any, level: int = -1) -> list[Tensor]:
    """How many times came before this one, of each loop within whose function this is called; the outermost first.

    Parameters
    ----------
    level
        Of a trace: only of loops within that.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> stack.map(lambda x: x * numbers_of_times(stack)[0], [1, 10, 100]).numpy()
    array([  0,  10, 200])
    """
    found, scope = list[Tensor](), _innermost.get()
    while scope is not None:
        is_within = scope.trace is not None and scope.trace.level > level
        if scope.number is not None and is_within and (scope.stack is stack or scope.stack == stack):
            found.append(scope.number())
        scope = scope.outer
    return found[::-1]


def first(stack: Any) -> Tensor:
    """The token before all effects of a graph."""
    return Tensor(stack, stack.operator.bind(operators.token))


def ordered(
    stack: Any, what: str, values: Iterable[Any], apply: Callable[[Tensor], tuple[Any, Tensor]], is_lost: bool = True
) -> Any:
    """What is computed with effects within: after those that are recorded so far, if any are.

    Parameters
    ----------
    values
        The operands.
    apply
        Takes the token before, and gives what is wanted, and the token after.
    is_lost
        Whether effects are lost where nobody wants what is computed; else they belong to that, and need no trace.

    Raises
    ------
    GraphError
        It depends on an input, and no trace says which program it belongs to.
    """
    scope = recorder(stack)
    if scope is None or (scope.asks and not is_lost):
        if is_lost:
            _refuse_unbound(
                what, values, "carry a token: t = stack.token() before it, t = ops.print(…, after=t) within"
            )
        # where operators are computed at once so is this, and what a derivative reads of it
        records = scope is not None or getattr(stack.engine, "recording", None) is not None
        return apply(first(stack) if records else stack.bind(operators.token))[0]
    found, scope.token = apply(first(stack) if scope.token is None else scope.token)
    return found


def applied_with_effects(stack: Any, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> tuple[Tensor, ...]:
    """The results of an operator whose bodies have effects: a part of what is traced, or computed now, all of it.

    Its derivative then reads what was computed, so that no effect happens again.
    """
    recording = getattr(stack.engine, "recording", None)
    if recording is not None and recording.is_on and recorder(stack) is None and _are_recorded(args):
        with by_programs(recording, stack.recorded_application):
            return stack.applied(op, tuple([_before(stack, a) for a in args]), params)  # type: ignore[no-any-return]
    found: tuple[Tensor, ...] = stack.applied(op, args, params)
    if recorder(stack) is None and not _inputs(args):
        values = [each for each in map(_carrier, found) if isinstance(each, Value)]
        last = {each.node for each in values}
        for node in topological(values):  # of a loop in segments these come before what puts their rows together
            if node in last or (node.op.holds_body and not is_pure(node.op, node.items)):
                _settle(stack, node)
    return found


def _are_recorded(args: Sequence[Any]) -> bool:
    """Whether a dynamic stack has recorded one of them, and knows all of the others."""
    carriers = [*map(_carrier, args)]
    nodes = [each for each in carriers if isinstance(each, Value) and type(each) is not Recorded]
    return any(type(each) in (Recorded, Variable) for each in carriers) and all(map(_is_known, nodes))


def _is_known(value: Value) -> bool:
    return value.node.op in (CONSTANT, HELD, VARIABLE, operators.token)


def _before(stack: Any, arg: Any) -> Any:
    """What stands for it; an array for the token before all effects, which needs no graph."""
    value = arg.value if isinstance(arg, Tensor) else arg
    is_first = isinstance(value, Value) and type(value) is not Recorded and value.node.op is operators.token
    return stack.bind(operators.token) if is_first else arg


def _settle(stack: Any, node: Any) -> None:
    """Compute a node now, once and for all."""
    arrays = tuple(stack.engine.force(node.results))
    if node.op not in LEAVES:  # it depends on a variable
        several = node.op.multi_result
        node.table.settle(node, HELD if several else CONSTANT, arrays if several else arrays[0])


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
    if scope is not None and scope.asks and params.get("pure") and params.get("shapes"):
        found = _applied(stack, op, first(stack), values, params)
    elif scope is not None and named and scope.trace is not None and _trace(after) is scope.trace:
        found = _applied(stack, op, after, values, params)
    elif scope is not None:
        scope.token = first(stack) if scope.token is None else scope.token
        found = _applied(stack, op, scope.token, values, params)
        scope.token = found[0]
    elif _is_recorded(after, named) or (not named and _inputs(values)):
        found = _applied(stack, op, after, values, params)
    elif params.get("pure") and _inputs(values):  # it belongs to what wants its results
        found = _applied(stack, op, stack.bind(operators.token), values, params)
    else:
        _refuse_unbound(op.name, values, f"say where it belongs: t = stack.token(), t = ops.{op.name}(…, after=t)")
        found = _settled(stack, _applied(stack, op, stack.bind(operators.token), values, params))
    if not op.multi_result:
        return found[0]
    return found[1:] if named and not isinstance(after, Tensor) else found


def _applied(stack: Any, op: Op, token: Any, values: Any, params: Any) -> tuple[Any, ...]:
    found = stack.applied(op, (token, *values), params)
    return found if op.multi_result else (found,)


def _settled(stack: Any, results: tuple[Any, ...]) -> tuple[Any, ...]:
    """The results computed now, once and for all: an effect does not happen again when they are used."""
    for node in {v.node: None for r in results if isinstance(v := _carrier(r), Value) and v is not r.value}:
        if node.op not in LEAVES and not hasattr(node, "array"):  # a derivative reads what was computed
            _settle(stack, node)
    waiting = [isinstance(r.value, Value) and not hasattr(r.value, "array") for r in results]  # not computed yet
    found = iter(stack.engine.force([r.value for r, waits in zip(results, waiting, strict=True) if waits]))
    return tuple([stack.held(next(found)) if waits else r for r, waits in zip(results, waiting, strict=True)])


def _trace(tensor: Any) -> Any:
    return getattr(tensor.value, "trace", None) if isinstance(tensor, Tensor) else None


def _carrier(tensor: Any) -> Any:
    value = tensor.value if isinstance(tensor, Tensor) else tensor
    while hasattr(value, "primal"):  # under differentiation, or a row of a batch
        value = getattr(value.primal, "whole", value.primal)
    return value


def _is_recorded(after: Any, named: bool) -> bool:
    """Whether the token is of a graph. A layer above asks for what is to be done now, with a token of no effect."""
    value = _carrier(after)
    if not isinstance(value, Value) or value.node.op in (CONSTANT, HELD):
        return False
    return named or value.node.op.effect


def _inputs(values: Any) -> list[Any]:
    found = [v for v in map(_carrier, values) if isinstance(v, Value) and type(v) is not Recorded]
    return [n for n in topological(found) if n.op is INPUT] if found else []


def _refuse_unbound(what: str, values: Any, how: str) -> None:
    inputs = _inputs(values)
    if inputs:
        named = ", ".join(f"{n.data!r}" + (f" (made at {w})" if (w := describe(n.origin)) else "") for n in inputs)
        raise GraphError(
            f"{what} depends on the input {named}, and would be lost: write it in a function that is given to "
            f"stack.jit, or {how}, and then "
            "stack.compile(inputs, outputs, effects=[t])"
        )
