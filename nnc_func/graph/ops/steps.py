"""Steps: elementwise operators and reductions, one after another, as data; and as calls on registers.

A step is ``(operator's name, position of an operand, ..., (parameter, value), ...)``. Positions count the arguments,
then the steps; parameters that an operator has a default for may be left out, and dtypes are written by name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.declaration import Items, cached_by_bits
from nnc_func.device.namespace import choose, fresh
from nnc_func.errors import DeviceError, OperatorError, ShapeError
from nnc_func.facets import shapes
from nnc_func.facets.kernels import Kernel
from nnc_func.facets.views import Cost
from nnc_func.op import Op

Step = tuple[Any, ...]
Steps = tuple[Step, ...]
Pattern = tuple[bool, ...]  # along which axes of all that is computed a value has elements of its own
REDUCTIONS = frozenset({"sum", "mean", "max", "min", "prod", "any", "all"})
GATHERED = {"sum": "add", "mean": "add", "max": "maximum", "min": "minimum"}  # block after block, by these functions
ELEMENTWISE = (shapes.broadcast, shapes.same)


# --- what a step says ------------------------------------------------------------------------------------


def step_operator(name: str) -> Op:
    """The operator of that name of this library's catalogue.

    Raises
    ------
    OperatorError
        There is none.
    """
    from nnc_func.graph.ops import CATALOGUE  # which is made of modules like this one

    found = CATALOGUE.get(name)
    if found is None:
        raise OperatorError(f"blockwise has a step {name!r}, and there is no such operator")
    return found


@cached_by_bits(4096)
def parsed(step: Step) -> tuple[Op, tuple[int, ...], Items]:
    """The operator of a step, the positions of its operands, its parameters.

    Raises
    ------
    OperatorError
        There is no such operator, it is neither elementwise nor a reduction, or it takes other operands or parameters.
    """
    op = step_operator(step[0])
    at = tuple(each for each in step[1:] if not isinstance(each, tuple))
    if not op.pure or op.several or op.view is not None or (op.shape not in ELEMENTWISE and not is_reduction(op)):
        raise OperatorError(f"{op.name} is no step: steps are elementwise operators and reductions, of one result")
    op.check_arity(len(at))
    return op, at, op.canonical(dict(each for each in step[1:] if isinstance(each, tuple)))


def rests_on_first(steps: Steps, given: int) -> bool:
    """Whether the last step's value is made of the first argument, directly or not, of so many.

    Examples
    --------
    >>> rests_on_first((("add", 0, 1), ("tanh", 2)), 2), rests_on_first((("add", 0, 1), ("tanh", 1)), 2)
    (True, False)
    """
    made = {0}
    for number, step in enumerate(steps, given):
        if not made.isdisjoint(parsed(step)[1]):
            made.add(number)
    return given + len(steps) - 1 in made if steps else True


def told(op: Op, at: tuple[int, ...], items: Items) -> Step:
    """The step that applies an operator to values at these positions."""
    params = tuple((name, value.name if isinstance(value, np.dtype) else value) for name, value in items)
    return (op.name, *at, *params)


def written(steps: Steps, names: tuple[str, ...]) -> str:
    """The last step as an expression of its arguments' names.

    Examples
    --------
    >>> written((("multiply", 1, 1), ("add", 0, 2), ("sqrt", 3)), ("h", "g"))
    'sqrt(add(h, multiply(g, g)))'
    """
    found = list(names)
    for name, *rest in steps:
        said = [found[each] if isinstance(each, int) else f"{each[0]}={each[1]!r}" for each in rest]
        found.append(f"{name}({', '.join(said)})")
    return found[-1]


def is_own(op: Op) -> bool:
    """Whether the operator can be named in a step: it is this library's own."""
    try:
        return step_operator(op.name) is op
    except OperatorError:
        return False


def is_reduction(op: Op) -> bool:
    """Whether it is a reduction that a group may end with."""
    return op.name in REDUCTIONS and is_own(op)


def over_blocks(op: Op, items: Items, rank: int) -> int:
    """Of a reduction over the first axes, how many these are: it is gathered block after block; else 0."""
    axes = shapes.normalise_axes(dict(items)["axis"], rank) if op.name in GATHERED else ()
    return len(axes) if axes == tuple(range(len(axes))) and len(axes) < rank else 0


def step_kernel(op: Op, dtypes: tuple[Any, ...], items: Items = ()) -> Kernel | None:
    """The kernel of NumPy's that computes an operator in blocks; None if that cannot be done."""
    if not op.pure or op.several or op.variadic or op.view is not None:
        return None
    reduces = is_reduction(op)
    if op.shape not in ELEMENTWISE and not reduces:
        return None
    avals = tuple(Aval((1,) if reduces else (4,), d) for d in dtypes)
    try:
        found = choose(op, avals, dict(items), "numpy")
    except DeviceError:
        return None
    if not found.infallible or (found.ufunc is None and found.into is None):
        return None
    if found.scratch is not None and any(shape != (4,) for shape, _ in found.scratch(avals, **dict(items))):
        return None
    if reduces and dtypes[0].kind in "fc" and op.dtype(*dtypes, **dict(items)) != dtypes[0]:
        return None
    return found


def are_in_blocks(avals: tuple[Any, ...], *, steps: Steps, **_: Any) -> bool:
    """Whether NumPy's kernels compute each step on arguments of these avals in blocks."""
    return _are_kernels(steps, tuple([a.dtype for a in avals]))


@cached_by_bits(4096)
def _are_kernels(steps: Steps, given: tuple[Any, ...]) -> bool:
    dtypes = step_dtypes(steps, given)
    return all(
        step_kernel(op, tuple([dtypes[i] for i in at]), items) is not None for op, at, items in map(parsed, steps)
    )


# --- of all values ---------------------------------------------------------------------------------------


@cached_by_bits(4096)
def step_dtypes(steps: Steps, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Dtypes of the arguments and of all steps."""
    found = list(given)
    for op, at, items in map(parsed, steps):
        found.append(op.dtype(*_operands(op, at, found), **dict(items)))
    return tuple(found)


def step_shapes(steps: Steps, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Shapes of the arguments and of all steps."""
    found = list(given)
    for op, at, items in map(parsed, steps):
        found.append(op.shape(*_operands(op, at, found), **dict(items)))
    return tuple(found)


def _operands(op: Op, at: tuple[Any, ...], found: list[Any]) -> list[Any]:
    """What a step reads of all that is there before it."""
    check_positions(op, at, len(found))
    return [found[i] for i in at]


def check_positions(op: Op, at: tuple[Any, ...], count: int) -> None:
    """Raise OperatorError where a step reads another value than one of so many before it."""
    if not all(type(i) is int and 0 <= i < count for i in at):
        raise OperatorError(f"a step {op.name!r} reads values {at}, and those before it are 0 to {count - 1}")


def step_flops(steps: Steps, args: tuple[Any, ...]) -> Any:
    """Arithmetic of all steps on arguments of these avals."""
    dtypes = step_dtypes(steps, tuple(a.dtype for a in args))
    shape_of = step_shapes(steps, tuple(a.shape for a in args))
    avals = [*map(Aval, shape_of, dtypes)]
    costs = [
        op.cost(tuple(avals[i] for i in at), (avals[len(args) + n],), **dict(items))
        for n, (op, at, items) in enumerate(map(parsed, steps))
    ]
    return sum(c.flops for c in costs)


def cost_of(args: tuple[Any, ...], results: tuple[Any, ...], *, steps: Steps, **_: Any) -> Cost:
    """Arithmetic of all steps; what goes to memory are arguments and results."""
    return Cost(step_flops(steps, args))


def one_by_one(xp: Any, xs: Any, steps: Steps) -> list[Any]:
    """One step after another, in any namespace: the arguments, and what each step gave."""
    values = list(xs)
    for op, at, items in map(parsed, steps):
        values.append(fresh(xp, op.kernels[-1], items)(*(values[i] for i in at)))
    return values


def check_readable(steps: Steps, count: int) -> None:
    """Refuse a step that reads what a block does not have: a reduction over blocks, or one that has lost its axes.

    Raises
    ------
    ShapeError
        There is one; names it.
    OperatorError
        A step reads what is not there before it.
    """
    for before, (op, at, _) in enumerate(map(parsed, steps), count):
        check_positions(op, at, before)
        for i in at:
            if i >= count:
                read, _, items = parsed(steps[i - count])
                if is_reduction(read) and not dict(items)["keepdims"]:
                    raise ShapeError(f"blockwise: {op.name} reads a {read.name} without keepdims=True")
