"""Fixed points of functions: `fixed_point`, whose derivative is that of the implicit function.

The cotangent solves a fixed point of its own, as does the tangent (B. Christianson, "Reverse accumulation and
attractive fixed points", Optimization Methods and Software 3, 1994). So nothing of the iterations is kept, and
derivatives of derivatives are fixed points in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.autodiff.custom import Call, Custom
from nnc_func.autodiff.traced import Traced
from nnc_func.body import Body
from nnc_func.control_flow.carries import Carry, integer, is_held
from nnc_func.control_flow.messages import at, check_body, whose
from nnc_func.control_flow.tracing import TracedBody, aval_of, tensor_of, traced
from nnc_func.control_flow.while_loops import while_loop
from nnc_func.errors import DTypeError, OperatorError, RunError, UnboundError
from nnc_func.facets.dtypes import kind_of, limits_of
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import mapped

LIMITS = ("nan", "stop", "raise")
AGAIN = "the function of fixed_point, whose derivative computes it once more than the iterations do"


def fixed_point(
    stack: Any, f: Callable[..., Any], x0: Any, *args: Any, tolerance: float | None = None,
    max_iterations: int | None = 1000, on_limit: str = "nan",
) -> Any:  # fmt: skip
    """The x that a function does not change, found by ``x = f(x, *args)`` from `x0` until x changes no more.

    The derivative is that of x as a function of what `f` reads: of `args`, and of whatever it captures; by `x0` it is
    zero. It is solved as x is, by a fixed point of a linear map, which converges as fast: in reverse of
    ``w = g + (∂f/∂x)ᵀ w``, forward of ``t = r + (∂f/∂x) t``. It asks no more memory however many iterations there are.

    Parameters
    ----------
    f
        ``f(x, *args)`` returns the next x: a tree like `x0`, of real or complex numbers.
    x0
        Where it starts: a tensor, a Python number, or a tree of them. A number takes the dtype that it has after `f`.
    tolerance
        It ends when no element changes by more than ``tolerance * (1 + |x|)``. None: the three quarters' power of the
        distance between 1 and the next number, of the coarsest dtype: 1.8e-12 of float64, 6.4e-6 of float32.
    max_iterations
        How often `f` is computed at most. None: nothing bounds it.
    on_limit
        What there is where x still changes then. "nan": NaN. "stop": the last x. "raise": a RunError that says by how
        much it changes; x is then computed at once. Of rows of a vmap, "nan" and "stop" are for each row.

    Raises
    ------
    OperatorError
        What `f` returns is not like `x0`.
    DTypeError
        A leaf is of integers or truth values.
    GraphError
        `f` has an effect.
    RunError
        It did not converge, with ``on_limit="raise"``.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> def root(a):
    ...     return stack.fixed_point(lambda x: (x + a / x) / 2, 1.0)
    >>> round(root(stack.asarray(2.0)).item(), 12), round(stack.grad(root)(2.0).item(), 12)
    (1.414213562373, 0.353553390593)
    """
    check_body(f, "fixed_point", ["x", *(f"a{n}" for n in range(len(args)))], "the function")
    if on_limit not in LIMITS:
        raise OperatorError(f'on_limit= is "nan", "stop" or "raise", given {on_limit!r}')
    most = None if max_iterations is None else integer(stack, max_iterations, "max_iterations")
    if most is not None and (not isinstance(most, int) or most < 0):
        raise OperatorError(f"max_iterations is a number, not negative, or None; given {max_iterations!r}")
    if tolerance is not None and not tolerance >= 0:
        raise OperatorError(f"tolerance= is a number, not negative, or None; given {tolerance!r}")
    told = whose("fixed_point", f)
    start = Carry.of(stack, x0, "x0", told)
    given = mapped(lambda leaf: tensor_of(stack, leaf), args)

    def trace(before: Sequence[Any]) -> tuple[TracedBody, list[Any]]:
        numbers: list[bool] = []

        def flat(leaves: list[Any]) -> list[Any]:
            found = start.after(f(start.structure.build(leaves), *given))
            numbers[:] = [*map(is_held, found, before)]
            return start.held(found, before)

        body = traced(stack, flat, before, without=AGAIN)
        return body, [None if n else a for n, a in zip(numbers, body.avals, strict=True)]

    body, avals = start.settled(trace)
    for aval, path in zip(avals, start.structure.paths, strict=True):
        if kind_of(aval.dtype) not in "fc":
            raise DTypeError(
                f"fixed_point wants real or complex numbers: x0{at(path)} is {aval.dtype}; start with floats{told}"
            )
    if not avals:
        return x0
    if tolerance is None:
        tolerance = max(float(limits_of(a.dtype).eps) for a in avals) ** 0.75
    how = Iteration(stack, body.body, float(tolerance), most, on_limit)
    starts = [Tensor(stack, each) for each in start.carriers(avals)]
    return start.structure.build(_implicit(how, starts, [Tensor(stack, each) for each in body.captured]))


@frozen(eq=False)
class Iteration:
    """What is computed until it changes no more.

    Attributes
    ----------
    stack
        Whose tensors they are.
    body
        Of x, and of what the function captures.
    tolerance, most, on_limit
        As of `fixed_point`.
    """

    stack: Any
    body: Body
    tolerance: float
    most: int | None
    on_limit: str

    def after(self, xs: Sequence[Tensor], captured: Sequence[Tensor]) -> list[Tensor]:
        """The function of x."""
        stack = self.stack
        values = self.body.values(lambda op, given, items: stack.bind(op, *given, **dict(items)), [*xs, *captured])
        return [values[n] for n in self.body.results]

    def still_changes(self, before: Sequence[Tensor], after: Sequence[Tensor]) -> Tensor:
        """Whether an element does, by more than the tolerance."""
        ops = self.stack.ops
        found: Tensor | None = None
        for x, y in zip(before, after, strict=True):
            limit = (ops.abs(y) + 1) * self.tolerance
            each = ops.any(ops.greater(ops.abs(y - x), limit))
            found = each if found is None else ops.logical_or(found, each)
        assert found is not None
        return found

    def solved(self, starts: Sequence[Tensor], captured: Sequence[Tensor]) -> list[Tensor]:
        """The fixed point, or what there is of it at the limit."""
        stack, ops = self.stack, self.stack.ops

        def step(moves: Tensor, *xs: Tensor) -> Any:
            after = self.after(xs, captured)
            return None, (self.still_changes(xs, after), *after)

        _, found, _ = while_loop(stack, lambda moves, *_: moves, step, (stack.asarray(True), *starts), self.most)
        moves: Tensor = found[0]
        xs: list[Tensor] = [*found[1:]]
        if self.on_limit == "raise":
            self.check(moves, xs, captured)
        if self.on_limit == "nan" and self.most is not None:
            xs = [ops.where(moves, ops.full(shape=(), value=np.nan, dtype=x.dtype), x) for x in xs]
        return xs

    def check(self, moves: Tensor, xs: Sequence[Tensor], captured: Sequence[Tensor]) -> None:
        """Raise RunError where x still changes, or is no number."""
        stack = self.stack
        values = [_inmost(stack.carrier(each)) for each in (moves, *xs, *self.after(xs, captured))]
        try:
            going, *arrays = [stack.device.to_numpy(each) for each in stack.engine.force(values)]
        except (UnboundError, TypeError, AttributeError):
            raise UnboundError(
                'fixed_point with on_limit="raise" wants to know now whether it converged, and what it reads has no '
                'value yet; on_limit="nan" says it by the result'
            ) from None
        pairs = [*zip(arrays[: len(xs)], arrays[len(xs) :], strict=True)]
        bad = not all(np.isfinite(x).all() for x, _ in pairs)
        if not (np.any(going) or bad):
            return
        change = max(float(np.max(np.abs(y - x) / (1 + np.abs(y)), initial=0.0)) for x, y in pairs)
        how = "x is no finite number" if bad else f"x still changes by {change:.3g}"
        often = "" if bad or self.most is None else f" after max_iterations={self.most}"
        raise RunError(
            f"fixed_point did not converge{often}: {how}, and tolerance is {self.tolerance:.3g} (of 1 + |x|); start "
            "nearer, take a part of the step only (x + (f(x) - x) / 2), or allow more of either"
        )

    def of_linear(self, f: Callable[[list[Tensor]], list[Any]], starts: Sequence[Tensor]) -> list[Tensor]:
        """The fixed point of a linear map, which is differentiated in turn."""
        stack = self.stack
        body = traced(stack, f, [aval_of(stack, stack.carrier(x)) for x in starts])
        how = Iteration(stack, body.body, self.tolerance, self.most, self.on_limit)
        return _implicit(how, starts, [Tensor(stack, each) for each in body.captured])  # type: ignore[no-any-return]


def _inmost(carrier: Any) -> Any:
    while type(carrier) is Traced:
        carrier = getattr(carrier.primal, "whole", carrier.primal)
    return carrier


class Implicit(Custom):
    """The function of an iteration, a start, and what is captured, with its derivative."""

    def called(self, call: Call) -> Any:
        """The function on one list of arguments, as Autodiff asks for it."""
        return _Rule(call)


class _Rule:
    """One call: the derivative is that of ``x = f(x, captured)``."""

    def __init__(self, of: Call) -> None:
        self.of, self.name, self.value = of, of.name, of.value
        self.how: Iteration = of.fixed[0]
        self.count = len(self.how.body.results)

    def _tensors(self, carriers: Sequence[Any]) -> list[Tensor]:
        return [Tensor(self.how.stack, each) for each in carriers]

    def linearize(self, primals: Sequence[Any]) -> tuple[list[Any], Any, Any]:
        how, count, stack = self.how, self.count, self.how.stack
        xs = self.of.result(_implicit(how, self._tensors(primals[:count]), self._tensors(primals[count:])))
        _, linear = stack.autodiff.linearize(self._body, [*xs, *primals[count:]])

        def flowing(tangents: Sequence[Any], slopes: Sequence[Any]) -> list[Any]:
            """What linear maps give, and zero where that is nothing, beside these."""
            pairs = zip(tangents, slopes, strict=True)
            return [t if s is None else t + Tensor(stack, s) for t, s in pairs]

        def push(ts: Sequence[Any]) -> list[Any]:
            moved = linear.push([*[None] * count, *ts[count:]])
            if all(t is None for t in moved):
                return [*moved]
            r = self._tensors(self._whole(moved, xs))
            nothing = [None] * (len(primals) - count)
            slopes = how.of_linear(lambda t: flowing(r, linear.push([*map(stack.carrier, t), *nothing])), r)
            return [stack.carrier(t) for t in slopes]

        def pull(gs: Sequence[Any]) -> list[Any]:
            g = self._tensors(self._whole(gs, xs))
            w = how.of_linear(lambda w: flowing(g, linear.pull([*map(stack.carrier, w)])[:count]), g)
            return [*[None] * count, *linear.pull([stack.carrier(each) for each in w])[count:]]

        return xs, push, pull

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        values, push, _ = self.linearize(primals)
        return values, push(tangents)

    def _body(self, *carriers: Any) -> list[Any]:
        tensors = self._tensors(carriers)
        return [self.how.stack.carrier(y) for y in self.how.after(tensors[: self.count], tensors[self.count :])]

    def _whole(self, flowing: Sequence[Any], xs: Sequence[Any]) -> list[Any]:
        o = self.of.functions
        return [o.zeros_like(x) if each is None else each for each, x in zip(flowing, xs, strict=True)]


def _solved(how: Iteration, starts: list[Tensor], captured: list[Tensor]) -> list[Tensor]:
    """The fixed point itself."""
    return how.solved(starts, captured)


_implicit = Implicit(_solved, (0,))
_implicit.name, _implicit.rules = "fixed_point", (_Rule,)
