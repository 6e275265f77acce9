"""The laws of derivatives, one function a law: transposes, central differences, second order; on drawn arguments.

They hold in float64 and complex128. With other arguments (indices, conditions) an operator is a function of the
floating ones. Cotangents are paired with tangents by Re Σ g t, without conjugation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nnc_func.facets.derivatives import Constant, Refusal
from nnc_func.graph.composite import Composite
from nnc_func.graph.functions import Functions
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op

STEP = 1e-5  # of central differences: their error is STEP² f‴ / 6 and ulp / STEP, 1e-10 both
DIFFERENCES = 1e-6  # relative: what STEP leaves, f‴ up to 1e3 included
TRANSPOSED = 1e-9  # relative: rounding of sums of a few hundred products
NARROW = 1e-5  # relative: the same where a cast makes it float32, which has no differences worth the name

Function = Callable[..., Any]


def is_smooth(op: Op | Composite) -> bool:
    """Whether the operator declares a derivative that is not zero everywhere."""
    return not isinstance(op.derivative, (Constant, Refusal)) and bool(op.args)


def _values(stack: Any, op: Op | Composite, given: Sequence[Any], params: Mapping[str, Any]) -> tuple[Any, ...]:
    """The device's own."""
    if isinstance(op, Composite):
        found = op.over(Functions(stack.device.bind, CATALOGUE), *given, **params)
    else:
        found = stack.device.bind(op, *given, **params)
    return found if isinstance(found, tuple) else (found,)


def _floating(op: Op | Composite, given: Sequence[Any]) -> list[int]:
    return [i for i, x in enumerate(given) if x.dtype.kind in "fc"]


def _function(stack: Any, op: Op | Composite, given: Sequence[Any], params: Mapping[str, Any]) -> Function:
    """The operator as a function of its floating arguments, to a list of its floating results."""
    positions = _floating(op, given)

    def function(*tensors: Any) -> list[Any]:
        args: list[Any] = [stack.asarray(x) for x in given]
        for i, t in zip(positions, tensors, strict=True):
            args[i] = t
        found = op(*args, **params)
        return [v for v in (found if isinstance(found, tuple) else (found,)) if v.dtype.kind in "fc"]

    return function


def _is_finite(stack: Any, op: Op | Composite, given: Sequence[Any], params: Mapping[str, Any]) -> bool:
    return all(bool(np.isfinite(v).all()) for v in _values(stack, op, given, params))


def _has_no_differences(stack: Any, op: Op | Composite, given: Sequence[Any], params: Mapping[str, Any]) -> bool:
    """Where a result is narrow, or has no finite value (the logarithm of a sum of nothing), there are none."""
    values = _values(stack, op, given, params)
    return any((v.dtype.kind in "fc" and _is_narrow(v)) or not np.isfinite(v).all() for v in values)


def _is_narrow(v: Any) -> bool:
    return float(np.finfo(v.dtype).eps) > 1e-12


def _like(arrays: Sequence[Any], seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    found = [np.asarray(random.uniform(-1, 1, np.shape(x))) for x in arrays]
    return [
        t + 1j * random.uniform(-1, 1, t.shape) if x.dtype.kind == "c" else t
        for t, x in zip(found, arrays, strict=True)
    ]


def _inner(left: Sequence[Any], right: Sequence[Any]) -> float:
    return float(sum(np.real(np.sum(np.asarray(a) * np.asarray(b))) for a, b in zip(left, right, strict=True)))


def _near(found: Any, wanted: Any, relative: float, scale: float, what: str) -> None:
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape, f"{what}: shape {found.shape}, wanted {wanted.shape}"
    with np.errstate(invalid="ignore"):
        near = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        near |= np.abs(found - wanted) <= relative * max(scale, 1.0)
    assert near.all(), f"{what}: {found!r}, wanted {wanted!r}"


def _scale(*groups: Sequence[Any]) -> float:
    return max((float(np.abs(x).max()) for group in groups for x in group if np.isfinite(x).any()), default=1.0)


def transpose_is_the_adjoint(stack: Any, op: Op | Composite, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """``⟨g, J t⟩ = ⟨Jᵀ g, t⟩`` on the stack and on an eager one, which agree with each other."""
    from nnc_func.stacks import eager

    positions = _floating(op, given)
    if not positions or not _is_finite(stack, op, given, params):
        return
    primals = [given[i] for i in positions]
    tangents = _like(primals, 1)
    seen = []
    for each in (stack, eager(stack.device)):
        function = _function(each, op, given, params)
        values, slopes = each.jvp(function, tuple(primals), tuple(tangents))
        again, back = each.vjp(function, *primals)
        cotangents = _like([v.numpy() for v in values], 2)
        slopes = [s.numpy() for s in slopes]
        gradients = [c.numpy() for c in back([each.asarray(g) for g in cotangents])]
        for c, x in zip(gradients, primals, strict=True):
            assert c.shape == x.shape, f"{op}: a cotangent of shape {c.shape} for an argument of shape {x.shape}"
            assert c.dtype == x.dtype, f"{op}: a cotangent of {c.dtype} for an argument of {x.dtype}"
        relative = NARROW if any(_is_narrow(v) for v in values) else TRANSPOSED
        forward, reverse = _inner(cotangents, slopes), _inner(gradients, tangents)
        sizes = sum(s.size for s in slopes) + sum(c.size for c in gradients)
        scale = _scale(slopes, gradients) * max(sizes, 1)
        _near(forward, reverse, relative, scale, f"{op}: ⟨g, J t⟩ is not ⟨Jᵀ g, t⟩")
        seen.append([*slopes, *gradients, *(v.numpy() for v in values), *(v.numpy() for v in again)])
    for one, other in zip(*seen, strict=True):
        _near(one, other, TRANSPOSED, _scale([other]), f"{op}: eager and lazy derivatives differ")


def tangent_is_the_difference(stack: Any, op: Op | Composite, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """``J t`` is the limit of central differences along t."""
    positions = _floating(op, given)
    if not positions or _has_no_differences(stack, op, given, params):
        return
    primals = [given[i] for i in positions]
    tangents = _like(primals, 3)
    function = _function(stack, op, given, params)
    _, slopes = stack.jvp(function, tuple(primals), tuple(tangents))

    def at(step: float) -> list[Any]:
        found = function(*[stack.asarray(x + step * t) for x, t in zip(primals, tangents, strict=True)])
        return [v.numpy() for v in found]

    up, down = at(STEP), at(-STEP)
    for slope, above, below in zip(slopes, up, down, strict=True):
        wanted = (above - below) / (2 * STEP)
        _near(slope.numpy(), wanted, DIFFERENCES, _scale([wanted], [above]), f"{op}: J t against differences")


def difference_is_zero(stack: Any, op: Op | Composite, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """What declares that its derivative is zero is constant nearby; stop_gradient, which is not, says that it is."""
    positions = _floating(op, given)
    if not positions or op.name == "stop_gradient" or _has_no_differences(stack, op, given, params):
        return
    tangents = iter(_like([given[i] for i in positions], 6))
    moved = [x + STEP * next(tangents) if i in positions else x for i, x in enumerate(given)]
    for one, other in zip(_values(stack, op, given, params), _values(stack, op, moved, params), strict=True):
        if one.dtype.kind in "fc":
            _near(other, one, DIFFERENCES * STEP, _scale([one]), f"{op} declares no slope, and is not constant")


def second_order_agrees(stack: Any, op: Op | Composite, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """Reverse over reverse, forward over reverse, and differences of gradients: one Hessian times a vector."""
    positions = _floating(op, given)
    if not positions or _has_no_differences(stack, op, given, params):
        return
    primals = [given[i] for i in positions]
    tangents = _like(primals, 4)
    ways = _second_order(stack, op, given, params, tangents)
    _routes_agree(op, {name: ways[name] for name in ("forward over reverse", "reverse over reverse")}, primals)

    def at(step: float) -> list[Any]:
        moved = [stack.asarray(x + step * t) for x, t in zip(primals, tangents, strict=True)]
        return [v.numpy() for v in ways["gradient"](*moved)]

    for f, above, below in zip(ways["forward over reverse"](*primals), at(STEP), at(-STEP), strict=True):
        wanted = (above - below) / (2 * STEP)
        scale = _scale([wanted], [above])
        _near(f.numpy(), wanted, DIFFERENCES, scale, f"{op}: the Hessian times a vector against differences")


def routes_agree(stack: Any, op: Op | Composite, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """One Hessian times a vector by every order of the modes, on the stack and eagerly."""
    from nnc_func.stacks import eager

    positions = _floating(op, given)
    if not positions or not _is_finite(stack, op, given, params):
        return
    primals = [given[i] for i in positions]
    tangents = _like(primals, 4)
    routes = {}
    for name, each in (("", stack), (", eagerly", eager(stack.device))):
        found = _second_order(each, op, given, params, tangents)
        routes.update({key + name: route for key, route in found.items() if key != "gradient"})
    _routes_agree(op, routes, primals)


def _routes_agree(op: Op | Composite, routes: Mapping[str, Function], primals: Sequence[Any]) -> None:
    (first, *rest) = ((name, [v.numpy() for v in route(*primals)]) for name, route in routes.items())
    for name, found in rest:
        for one, other in zip(found, first[1], strict=True):
            relative = NARROW if any(_is_narrow(x) for x in primals) else TRANSPOSED
            _near(one, other, relative, _scale([other]) * max(other.size, 1), f"{op}: {name} is not {first[0]}")


def _second_order(
    stack: Any, op: Op | Composite, given: Sequence[Any], params: Mapping[str, Any], tangents: list[Any]
) -> dict[str, Function]:
    """The gradient of a number made of the operator's results, and its Hessian times the tangents in three ways."""
    function, ops = _function(stack, op, given, params), stack.ops
    argnums = tuple(range(len(tangents)))

    def weighted(*tensors: Any) -> Any:
        """A number of which every second derivative of the operator is a part; squares make linear ones count."""
        results = function(*tensors)
        weights = _like([np.empty(v.shape, v.dtype) for v in results], 5)
        terms = [ops.sum(v * w + v * v * 0.5) for v, w in zip(results, weights, strict=True)]
        return _total(stack, terms)

    gradient = stack.grad(weighted, argnums)

    def along(*tensors: Any) -> Any:
        return _total(stack, [ops.sum(g * t) for g, t in zip(gradient(*tensors), tangents, strict=True)])

    def slope(*tensors: Any) -> Any:
        return stack.jvp(weighted, tensors, tuple(tangents))[1]

    return {
        "gradient": gradient,
        "forward over reverse": lambda *xs: stack.hvp(weighted, xs, tuple(tangents)),
        "reverse over reverse": stack.grad(along, argnums),
        "reverse over forward": stack.grad(slope, argnums),
    }


def _total(stack: Any, terms: Sequence[Any]) -> Any:
    """The real part of a sum."""
    total = stack.asarray(np.float64(0))
    for term in terms:
        total = total + (stack.ops.real(term) if term.dtype.kind == "c" else term)
    return total


DERIVATIVE_LAWS = (transpose_is_the_adjoint, tangent_is_the_difference, second_order_agrees)
