"""The short way: an operator on tensors, some of which are recorded, past the layers that pass such on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnc_func.device.shared.dispatch import Dispatch
from nnc_func.engine.dynamic.records import Recorded, Recording
from nnc_func.facets.dims import Compound, Dim, mentions_unknown
from nnc_func.graph.leaves import Variable, are_places
from nnc_func.graph.pauses import paused_here
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.op import Op

NUMBERS = frozenset((int, float))


def short_way(dispatch: Dispatch, recording: Recording) -> Callable[..., Any]:
    """``way(stack, op, args, params)``: what `Stack.bind` gives; None where that is to find it.

    It takes tensors of the stack, and Python numbers, of which one at least is recorded, and operators that compute.
    """
    calls, numbers, made, of = dispatch.calls, dispatch.numbers, recording.made, recording.of
    one = recording.record

    def way(stack: Any, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        own = stack._array_type
        if own is None:
            return None
        if params or not 0 < len(args) < 3:
            return _general(stack, own, op, args, params)
        x = args[0]
        call: Any
        given: tuple[Any, ...]
        operands: tuple[Any, ...]
        if type(x) is Tensor:
            v = x.value
            if type(v) is Recorded:
                a, p = v.array, v.record
            elif type(v) is own:
                a = p = v
            else:
                return _general(stack, own, op, args, params)
            if x.stack is not stack:
                return None
            if len(args) == 1:
                if p is a:
                    return None
                call, given, operands = calls.get((op, a.dtype)), (a,), (p,)
            elif type(y := args[1]) is Tensor:
                w = y.value
                if type(w) is Recorded:
                    b, q = w.array, w.record
                elif type(w) is own:
                    b = q = w
                else:
                    return _general(stack, own, op, args, params)
                if y.stack is not stack or (p is a and q is b):
                    return None
                call, given, operands = calls.get((op, a.dtype, b.dtype)), (a, b), (p, q)
            else:
                if p is a:
                    return None
                known = numbers.get((op, a.dtype, type(y), y)) if type(y) in NUMBERS else None
                if known is None:
                    return _general(stack, own, op, args, params)
                call, given, operands = known[0], (a, known[1]), (p, y)
        else:
            y = args[-1]
            if type(x) not in NUMBERS or type(y) is not Tensor or type(w := y.value) is not Recorded:
                return _general(stack, own, op, args, params)
            known = numbers.get((op, type(x), x, w.array.dtype))
            if known is None or y.stack is not stack:
                return _general(stack, own, op, args, params)
            call, given, operands = known[0], (known[1], w.array), (x, w.record)
        if type(call) is dict:
            call = call.get(tuple([each.shape for each in given]))
        if call is None:
            return _general(stack, own, op, args, params)
        try:
            found = call(*given)
        except Exception as error:
            raise dispatch.failure(op, given, params, error)  # noqa: B904 - of which it knows the cause
        if type(found) is not own:
            found = dispatch.place(op, found)
        paused = paused_here()
        if not paused or recording not in paused:
            if op.multi_result:
                return tuple([Tensor(stack, each) for each in made(op, operands, params, found)])
            found = one((op, operands, params), found, operands, None, 3)
        elif op.multi_result:
            return tuple([Tensor(stack, each) for each in found])
        return Tensor(stack, found)

    def _general(stack: Any, own: Any, op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if op.effect or op.holds_body:  # whose kernels are not among `calls` without parameters
            return None
        arrays: list[Any] = []
        operands: list[Any] = []
        kept: list[Recorded] = []  # alive until the result knows their records
        for x in args:
            kind = type(x)
            if kind is Tensor:
                if x.stack is not stack:
                    return None
                x = x.value
                kind = type(x)
                if kind is Variable:
                    if are_places():
                        return None
                    x = of(x)
                    kind = type(x)
                if kind is Recorded:
                    kept.append(x)
                    arrays.append(x.array)
                    operands.append(x.record)
                    continue
                if kind is not own:
                    return None
            elif kind not in NUMBERS:
                return None
            arrays.append(x)
            operands.append(x)
        if not kept or (params and op.is_sized and mentions(params)):
            return None
        found = made(op, tuple(operands), params, dispatch(op, tuple(arrays), params))
        return tuple([Tensor(stack, each) for each in found]) if op.multi_result else Tensor(stack, found)

    return way


def mentions(params: dict[str, Any]) -> bool:
    """Whether an extent that is not known is among parameters.

    Examples
    --------
    >>> mentions({"shape": (2, 3)}), mentions({"shape": (2, Dim.fresh())})
    (False, True)
    """
    return any(
        type(v) is Dim or (isinstance(v, (tuple, list, Compound)) and mentions_unknown(v)) for v in params.values()
    )
