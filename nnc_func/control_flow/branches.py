"""Branches: `cond` and `case_of`. Every branch is traced, one is computed; the others have zeros for gradients.

MXNet's and JAX's `cond`, and NNC's ``case..of`` with its bypass, are the models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnc_func.body import Body
from nnc_func.body_builder import BodyBuilder
from nnc_func.control_flow.carries import truth_value
from nnc_func.control_flow.host import Host
from nnc_func.control_flow.messages import at, check_body, leaves_of, shown, traced_always, whose
from nnc_func.control_flow.tracing import SCALARS, TracedBody, aval_of, tensor_of, traced
from nnc_func.engine.effects import ordered
from nnc_func.errors import DTypeError, OperatorError
from nnc_func.facets.dims import is_computing
from nnc_func.facets.dtypes import holds
from nnc_func.graph.ops.branch import branch
from nnc_func.graph.ops.silent_bodies import only_asks
from nnc_func.graph.ops.unary import cast
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import Structure


def bypass(*operands: Any) -> Any:
    """The operands as they are: a default of `case_of`, after NNC's bypass.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> stack.case_of(7, [lambda x: x + 1, lambda x: x * 2], 5.0, default=nnc.bypass).item()
    5.0
    """
    return operands if len(operands) != 1 else operands[0]


def cond(stack: Any, pred: Any, then: Callable[..., Any], else_: Callable[..., Any], *operands: Any) -> Any:
    """What one of two functions gives of the operands.

    Parameters
    ----------
    pred
        One truth value: a tensor without axes, or a Python number; or `nnc.host`, a function of the operands as NumPy
        arrays.
    then, else_
        Take the operands, and return trees of the same structure, shapes and dtypes. A Python number takes the dtype
        that the other has there, if that holds it. What they capture is differentiated too.

    Raises
    ------
    OperatorError
        The two do not give alike, or the condition is no truth value.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> stack.grad(lambda x: stack.cond(x > 0, lambda: 1 / x, lambda: 0 * x))(0.0).item()
    0.0
    """
    pred = pred.asked(stack, operands) if isinstance(pred, Host) else pred
    index = truth_value(stack, pred, "the condition of cond")
    return chosen(stack, "cond", index, {"else": else_, "then": then}, operands)


def case_of(
    stack: Any, index: Any, branches: Sequence[Callable[..., Any]], *operands: Any,
    default: Callable[..., Any] | None = None,
) -> Any:  # fmt: skip
    """What one of several functions gives of the operands: that of number `index`.

    Parameters
    ----------
    index
        An integer, or a tensor of one; or `nnc.host`, a function of the operands as NumPy arrays.
    branches
        Take the operands, and return trees of the same structure, shapes and dtypes.
    default
        Is computed where there is no branch of that number; `nnc.bypass` gives the operands. None: a RunError then.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> stack.case_of(1, [lambda x: x + 1, lambda x: x * 2], 5.0).item()
    10.0
    """
    if not isinstance(branches, (list, tuple)) or not branches:
        raise OperatorError(f"case_of wants a list of functions, given {branches!r}")
    index = index.asked(stack, operands, "integer") if isinstance(index, Host) else index
    found = tensor_of(stack, index)
    found = stack.asarray(found) if type(found) in SCALARS else found
    if not isinstance(found, Tensor) or found.shape != () or found.dtype.kind not in "biu":
        given = f"{found.dtype}{list(found.shape)}" if isinstance(found, Tensor) else repr(index)
        raise DTypeError(f"the index of case_of is an integer, or a tensor of one, given {given}")
    functions = {f"branch {n}": f for n, f in enumerate(branches)}
    if default is not None:
        functions["default"] = default
    return chosen(stack, "case_of", found, functions, operands)


def chosen(
    stack: Any, name: str, index: Tensor, functions: dict[str, Callable[..., Any]], operands: Sequence[Any] = ()
) -> Any:
    """What the function of that number gives of the operands.

    Parameters
    ----------
    name
        What messages call it.
    functions
        By what messages call them; they are traced in this order.
    """
    arguments = [f"operand{n}" for n in range(len(operands))]
    for which, f in functions.items():
        check_body(f, name, arguments, which)
    leaves, structure = leaves_of(tuple(operands), "operand", whose(name, next(iter(functions.values()))))
    tensors = [stack.asarray(x) if type(x) in SCALARS else tensor_of(stack, x) for x in leaves]
    avals = [aval_of(stack, stack.carrier(x)) for x in tensors]
    bodies: dict[str, TracedBody] = {}
    numbers: dict[str, list[Any]] = {}
    made: Structure | None = None

    for which, f in functions.items():
        numbers[which] = []
        found: list[Structure] = []

        def flat(
            given: list[Any], f: Any = f, own: list[Any] = numbers[which], found: list[Structure] = found
        ) -> list[Any]:
            with traced_always(f"all branches of {name} are traced, whether they are taken or not"):
                made_of = f(*structure.build(given))
            results, shape = leaves_of(made_of, "a result", whose(name, f))
            found.append(shape)
            own[:] = [leaf if type(leaf) in SCALARS else None for leaf in results]
            return results

        bodies[which] = traced(stack, flat, avals, whole=True, effects=True, in_stages=True)
        if made is not None and found[0] != made:
            first, one = next(iter(functions.items()))
            raise OperatorError(
                f"branches of {name} give alike: {first} gives {shown(made)}{whose(name, one)}, {which} gives "
                f"{shown(found[0])}{whose(name, f)}; return trees of one structure"
            )
        made = found[0]
    assert made is not None
    captured = {id(x): x for body in bodies.values() for x in body.captured}
    told = {which: whose(name, f) for which, f in functions.items()}
    if any(body.stages for body in bodies.values()) or (is_computing() and _grow_apart(bodies)):
        if any(body.has_effects for body in bodies.values()):
            raise OperatorError(
                f"a branch of {name} has an effect, and one has a loop that grows, dynamic=True, or gives what has "
                "another extent than elsewhere: print, check … what the branches give"
            )
        from nnc_func.control_flow.branch_stages import as_loops  # few have such loops

        dtypes = _dtypes(name, bodies, numbers, made, told)
        return made.build(as_loops(stack, name, index, functions, operands, bodies, dtypes))
    given, default = [Tensor(stack, x) for x in captured.values()], "default" in functions
    if not any(body.has_effects for body in bodies.values()):
        aligned = _aligned(name, bodies, numbers, made, [*captured], told)
        return made.build([*stack.bind(branch, index, *tensors, *given, bodies=aligned, default=default)])
    in_turn = {which: body.carrying(token=True) for which, body in bodies.items()}
    aligned = _aligned(name, in_turn, numbers, made, [*captured], told)

    def after(token: Tensor) -> tuple[list[Tensor], Tensor]:
        *found, last = stack.bind(branch, index, *tensors, token, *given, bodies=aligned, default=default)
        return found, last

    is_lost = not all(only_asks(body.body) for body in bodies.values())
    return made.build(ordered(stack, f"{name} with effects", [index, *tensors, *given], after, is_lost))


def _grow_apart(bodies: dict[str, TracedBody]) -> bool:
    """Whether results have other extents in one branch than in another."""
    shapes = [[aval.shape for aval in body.avals] for body in bodies.values()]
    pairs = [pair for each in shapes[1:] for pair in zip(shapes[0], each, strict=False)]
    return any(len(one) == len(other) and one != other for one, other in pairs)


def _dtypes(
    name: str, bodies: dict[str, TracedBody], numbers: dict[str, list[Any]], made: Structure, told: dict[str, str]
) -> list[Any]:
    """The dtypes of the results: a Python number takes that which others have there, if that holds it.

    Parameters
    ----------
    numbers
        For each function the results that are Python numbers; None for others.
    """
    wanted = []
    for n, path in enumerate(made.paths):
        typed = {which: body.avals[n] for which, body in bodies.items() if numbers[which][n] is None}
        avals = typed or {which: body.avals[n] for which, body in bodies.items()}
        which, aval = next(iter(avals.items()))
        for other, its in typed.items():
            if its.dtype != aval.dtype:
                raise OperatorError(
                    f"branches of {name} give alike: the result{at(path)} is {aval.dtype} in {which}, {its.dtype} in "
                    f"{other}; cast one: x.astype({aval.dtype.name!r}){told[other]}"
                )
        for other, body in bodies.items() if typed else ():
            number, own = numbers[other][n], body.avals[n].dtype
            if number is not None and not holds(aval.dtype, number):
                raise OperatorError(
                    f"branches of {name} give alike: the result{at(path)} is {aval.dtype} in {which}, and {number!r} "
                    f"in {other}, which is {own}; cast the tensor: x.astype({own.name!r}){told[other]}"
                )
        dtypes = [its.dtype for its in avals.values()]
        wanted.append(aval.dtype if typed else np.result_type(*dtypes))
    return wanted


def _aligned(
    name: str, bodies: dict[str, TracedBody], numbers: dict[str, list[Any]], made: Structure, captured: list[int],
    told: dict[str, str],
) -> tuple[Body, ...]:  # fmt: skip
    """The bodies with the same operands and results: a Python number takes the dtype that others have there."""
    for n, path in enumerate(made.paths):
        typed = [which for which in bodies if numbers[which][n] is None] or [*bodies]
        shape = bodies[typed[0]].avals[n].shape
        for other, body in bodies.items():
            if body.avals[n].shape != shape:
                raise OperatorError(
                    f"branches of {name} give alike: the result{at(path)} is {shape} in {typed[0]}, "
                    f"{body.avals[n].shape} in {other}; broadcast one{told[other]}"
                )
    wanted = _dtypes(name, bodies, numbers, made, told)
    found = []
    for body in bodies.values():
        builder = BodyBuilder()
        own = builder.parameters(body.body.parameters - len(body.captured))
        outer = dict(zip(captured, builder.parameters(len(captured)), strict=True))
        values = builder.include(body.body, [*own, *(outer[id(x)] for x in body.captured)])
        results = [values[i] for i in body.body.results]
        for n, dtype in enumerate(wanted):
            if body.avals[n].dtype != dtype:
                results[n] = builder.apply(cast, results[n], dtype=dtype)
        found.append(builder.built(results))
    return tuple(found)
