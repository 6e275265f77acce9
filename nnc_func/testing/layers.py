"""The laws of layers, each on one operator with drawn arguments: what is said of it on every layer is one thing.

Devices are asked through their signature alone (`bind`, `asarray`, `aval`, `to_numpy`), so that any device can be
checked; `nnc_func.testing.laws` asks more of devices on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nnc_func.device.shared.kernel_choice import fresh
from nnc_func.op import Op
from nnc_func.testing.comparing import equal, results

Law = Callable[[Any, Op, Sequence[Any], Mapping[str, Any]], None]


def reference(op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> tuple[Any, ...]:
    """What the operator's reference kernel gives on NumPy.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> reference(CATALOGUE["add"], [np.ones(2), np.ones(2)], {})
    (array([2., 2.]),)
    """
    return tuple(map(np.asarray, results(op, fresh(np, op.kernels[-1], op.canonical(params))(*given))))


def called(op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> str:
    """The call as code.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> called(CATALOGUE["sum"], [np.ones(2)], {"axis": 0})
    "ops.sum(np.array([1.0, 1.0], 'float64'), axis=0)"
    """
    said = []
    for x in given:
        text = f"np.array({x.tolist()!r}, {x.dtype.name!r})" if x.size <= 64 else f"a {x.dtype}{list(x.shape)}"
        said.append(text + (f".reshape({x.shape})" if 0 in x.shape else ""))
    return f"ops.{op.name}({', '.join([*said, *(f'{k}={v!r}' for k, v in params.items())])})"


def _brought(stack: Any, given: Sequence[Any]) -> list[Any]:
    return [stack.device.asarray(x) for x in given]


def _same(stack: Any, op: Op, given: Any, params: Any, found: Sequence[Any], what: str) -> None:
    for one, wanted in zip(found, reference(op, given, params), strict=True):
        equal(np.asarray(one), wanted, op.tolerance.ulps, what)


# --- the laws, from the lowest layer up ------------------------------------------------------------------


def device_computes_it(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """It gives what the reference kernel gives on NumPy, within the operator's tolerance."""
    found = results(op, stack.device.bind(op, *_brought(stack, given), **params))
    _same(stack, op, given, params, list(map(stack.device.to_numpy, found)), "the device gives")


def type_infers_it(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """The dtype rule says the dtype of what the device gives."""
    found = results(op, stack.device.bind(op, *_brought(stack, given), **params))
    said = results(op, stack.type.bind(op, *(x.dtype for x in given), **dict(op.canonical(params))))
    made = tuple(np.dtype(stack.device.aval(x).dtype) for x in found)
    assert said == made, f"the Type layer says {said}, the device gives {made}"


def shape_infers_it(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """The aval that Shape infers is that of what the device gives."""
    arrays = _brought(stack, given)
    found = results(op, stack.device.bind(op, *arrays, **params))
    said = results(op, stack.shape.bind(op, *map(stack.device.aval, arrays), **params))
    made = tuple(stack.device.aval(x).having(layout=None) for x in found)
    assert tuple(a.having(layout=None) for a in said) == made, f"the Shape layer says {said}, the device gives {made}"


def symbol_interns_it(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """Equal arguments give the same node, of a pure operator."""
    inputs = _inputs(stack, given)
    one, two = (results(op, stack.symbol.bind(op, *inputs, **params)) for _ in range(2))
    assert not op.pure or all(a is b for a, b in zip(one, two, strict=True)), "equal arguments gave two nodes"


def operator_builds_it(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """A node has the aval that Shape infers."""
    inputs = _inputs(stack, given)
    made = tuple(v.aval for v in results(op, stack.operator.bind(op, *inputs, **params)))
    said = results(op, stack.shape.bind(op, *(i.aval for i in inputs), **params))
    assert made == said, f"the node says {made}, the Shape layer {said}"


def optimiser_keeps_it(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """Rewriting keeps avals, and finds nothing to do the second time."""
    roots = results(op, stack.operator.bind(op, *_inputs(stack, given), **params))
    once = stack.optimiser.optimise(roots).roots
    said, made = (tuple(v.aval.having(layout=None) for v in values) for values in (roots, once))
    assert made == said, f"optimising made {made} of {said}"
    again = stack.optimiser.optimise(once).roots
    assert all(a is b for a, b in zip(once, again, strict=True)), f"optimised twice, {once} became {again}"


def engine_runs_it(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """Forced or computed at once, and compiled, the values are NumPy's."""
    forced = stack.evaluate(*results(op, stack.bind(op, *map(stack.asarray, given), **params)))
    _same(stack, op, given, params, forced, "applied at once it is")
    inputs = [stack.input(f"x{i}", x.shape, x.dtype) for i, x in enumerate(given)]
    program = stack.compile(inputs, list(results(op, stack.bind(op, *inputs, **params))))
    for what in ("compiled it is", "called again it is"):
        _same(stack, op, given, params, list(map(stack.device.to_numpy, program(*given))), what)


def _inputs(stack: Any, given: Sequence[Any]) -> list[Any]:
    avals = (stack.device.aval(x) for x in _brought(stack, given))
    return [stack.symbol.input(f"x{i}", aval) for i, aval in enumerate(avals)]


LAWS: tuple[tuple[str, Law], ...] = (
    ("device", device_computes_it),
    ("type", type_infers_it),
    ("shape", shape_infers_it),
    ("symbol", symbol_interns_it),
    ("operator", operator_builds_it),
    ("optimiser", optimiser_keeps_it),
    ("engine", engine_runs_it),
)
