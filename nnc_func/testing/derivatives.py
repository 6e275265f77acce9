"""The laws of derivatives: transposes, central differences, second order by every order of the modes, on each engine.

All that they ask of one operator is one function of tensors, which runs at once on an eager stack, and as one program
on the stack that is checked: what has the same shapes is compiled once. They hold in float64 and complex128. With other
arguments (indices, conditions) an operator is a function of the floating ones. Cotangents are paired with tangents by
Re Σ g t, without conjugation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from attrs import define, field, frozen

from nnc_func.facets.derivatives import Constant, Refusal
from nnc_func.graph.composite import Composite
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.tensors.namespace import Ops
from nnc_func.op import Op
from nnc_func.testing.comparing import at_once

STEP = 1e-5  # of central differences: their error is STEP² f‴ / 6 and ulp / STEP, 1e-10 both
DIFFERENCES = 1e-6  # relative: what STEP leaves, f‴ up to 1e3 included
ROUNDING = 1e-9  # relative: rounding of sums of a few hundred products
NARROW = 8  # ulps of a narrower dtype that a cast goes through: tangents and cotangents are rounded to it, both ways
REMEMBERED = 256  # operators with shapes, whose programs are kept
ROUTES = ("forward over reverse", "reverse over reverse", "reverse over forward")

Function = Callable[..., Any]
Values = Mapping[str, list[Any]]


def is_smooth(op: Op | Composite) -> bool:
    """Whether the operator declares a derivative that is not zero everywhere."""
    return not isinstance(op.derivative, (Constant, Refusal)) and bool(op.args)


# --- what is asked of an operator ------------------------------------------------------------------------


def _values(stack: Any, op: Op | Composite, given: Sequence[Any], params: Mapping[str, Any]) -> tuple[Any, ...]:
    """The device's own."""
    if isinstance(op, Composite):
        found = op.over(Ops(stack.device.bind, CATALOGUE).functions, *given, **params)
    else:
        found = stack.device.bind(op, *given, **params)
    return found if isinstance(found, tuple) else (found,)


def _floating(given: Sequence[Any]) -> list[int]:
    return [i for i, x in enumerate(given) if x.dtype.kind in "fc"]


def _function(op: Op | Composite, given: Sequence[Any], params: Mapping[str, Any]) -> Function:
    """The operator as a function of its floating arguments, to a list of its floating results."""
    positions = _floating(given)

    def function(*tensors: Any) -> list[Any]:
        args = [*given]
        for i, t in zip(positions, tensors, strict=True):
            args[i] = t
        found = op(*args, **params)
        return [v for v in (found if isinstance(found, tuple) else (found,)) if v.dtype.kind in "fc"]

    return function


def _asked(
    stack: Any, op: Op | Composite, params: Mapping[str, Any], given: Sequence[Any], tangents: Any, cotangents: Any
) -> dict[str, list[Any]]:
    """Values, first derivatives, and a Hessian times the tangents by every route: tensors of the stack."""
    function, ops = _function(op, given, params), stack.ops
    primals = tuple(given[i] for i in _floating(given))
    along = tuple(tangents)
    argnums = tuple(range(len(primals)))

    def weighted(*tensors: Any) -> Any:
        """A number of which every second derivative of the operator is a part; squares make linear ones count."""
        results = function(*tensors)
        return _total(stack, [ops.sum(v * g + v * v * 0.5) for v, g in zip(results, cotangents, strict=True)])

    gradient = stack.grad(weighted, argnums)

    def inner(*tensors: Any) -> Any:
        return _total(stack, [ops.sum(g * t) for g, t in zip(gradient(*tensors), along, strict=True)])

    values, slopes = stack.jvp(function, primals, along)
    again, back = stack.vjp(function, *primals)
    slope, curved = stack.grad_and_hvp(weighted, primals, along)
    return {
        "values": values,
        "values of the reverse mode": again,
        "tangents": slopes,
        "cotangents": list(back([*cotangents])),
        "gradient": list(slope),
        "forward over reverse": list(curved),
        "reverse over reverse": list(stack.grad(inner, argnums)(*primals)),
        "reverse over forward": list(stack.grad(lambda *xs: stack.jvp(weighted, xs, along)[1], argnums)(*primals)),
    }


def _total(stack: Any, terms: Sequence[Any]) -> Any:
    """The real part of a sum."""
    total = stack.asarray(np.float64(0))
    for term in terms:
        total = total + (stack.ops.real(term) if term.dtype.kind == "c" else term)
    return total


@define
class Compiled:
    """What is asked of an operator at any point of given shapes: optimised and planned, and as it is.

    Attributes
    ----------
    program, interpreted
        By the stack, and by the eager engine, which rewrites nothing: of the arguments, tangents and cotangents.
    results
        Shapes and dtypes of the floating results.
    held, broken
        Whether the laws held at a point, or did not: at the first one, all is computed at once, too. What formulas
        do depends on shapes and dtypes only, so that at others the nodes that they have made tell the same.
    """

    program: Any
    interpreted: Any
    results: list[Any]
    held: bool = False
    broken: bool = False


@frozen
class Parameters:
    """Of an application, hashable where a slice is not."""

    key: Any
    given: Mapping[str, Any] = field(eq=False)


def _key(value: Any) -> Any:
    if isinstance(value, slice):
        return slice, value.start, value.stop, value.step
    return tuple(map(_key, value)) if isinstance(value, (tuple, list)) else value


@lru_cache(maxsize=REMEMBERED)
def _compiled(stack: Any, op: Op | Composite, params: Parameters, avals: tuple[Any, ...]) -> Compiled:
    made, given = params.given, [i for i, (_, dtype) in enumerate(avals) if dtype.kind in "fc"]
    programs = []
    for each in (stack, at_once(stack)):
        inputs = [each.input(f"x{i}", *aval) for i, aval in enumerate(avals)]
        tangents = [each.input(f"t{i}", *avals[i]) for i in given]
        results = [(y.shape, y.dtype) for y in _function(op, inputs, made)(*[inputs[i] for i in given])]
        cotangents = [each.input(f"g{i}", *aval) for i, aval in enumerate(results)]
        asked = _asked(each, op, made, inputs, tangents, cotangents)
        programs.append(each.compile([*inputs, *tangents, *cotangents], asked))
    program, interpreted = programs
    return Compiled(program, interpreted, results)


def _alike(avals: Sequence[Any], seed: int) -> list[Any]:
    """Random arrays of these shapes and dtypes."""
    random = np.random.default_rng(seed)
    found = []
    for shape, dtype in avals:
        part = random.uniform(-1, 1, shape)
        found.append(np.asarray(part + 1j * random.uniform(-1, 1, shape) if dtype.kind == "c" else part, dtype))
    return found


@frozen
class Probe:
    """An operator at a point: what its derivatives are there on each engine, and what they are compared by.

    Attributes
    ----------
    op
        The operator, or a composite.
    primals, tangents, cotangents
        The floating arguments, a direction, and one cotangent for each floating result.
    found
        What was asked, by engine: values, tangents, cotangents and so on, by name. The stack's own is first.
    at
        ``at(step)``: the same, so far along the tangents.
    ulp
        Of the narrowest dtype among the results.
    """

    op: Op | Composite
    primals: list[Any]
    tangents: list[Any]
    cotangents: list[Any]
    found: Mapping[str, Values]
    at: Callable[[float], Values]
    ulp: float

    @property
    def narrow(self) -> bool:
        """Whether a result has no differences worth the name."""
        return self.ulp > 1e-12

    @property
    def relative(self) -> float:
        """How far rounding may part what is computed in two ways."""
        return max(ROUNDING, NARROW * self.ulp if self.narrow else 0.0)


def _probe(
    stack: Any, compiled: Compiled, op: Op | Composite, given: Sequence[Any], params: Mapping[str, Any]
) -> Probe:
    positions = _floating(given)
    primals = [given[i] for i in positions]
    tangents, cotangents = _alike([(x.shape, x.dtype) for x in primals], 1), _alike(compiled.results, 2)

    def at(step: float) -> Values:
        moved, along = [*given], iter(tangents)
        for i in positions:
            moved[i] = given[i] + step * next(along)
        return compiled.program(*moved, *tangents, *cotangents)  # type: ignore[no-any-return]

    found: dict[str, Values] = {"as a program": compiled.program(*given, *tangents, *cotangents)}
    found["as nodes"] = compiled.interpreted(*given, *tangents, *cotangents)
    if compiled.broken or not compiled.held:
        eager = at_once(stack)
        tensors = [[eager.asarray(x) for x in each] for each in (given, tangents, cotangents)]
        asked = _asked(eager, op, params, *tensors)
        found["at once"] = {name: [x.numpy() for x in each] for name, each in asked.items()}
    ulp = max((float(np.finfo(dtype).eps) for _, dtype in compiled.results), default=0.0)
    return Probe(op, primals, tangents, cotangents, found, at, ulp)


# --- comparing -------------------------------------------------------------------------------------------


def _near(found: Any, wanted: Any, relative: float, scale: float, what: str) -> None:
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape, f"{what}: shape {found.shape}, wanted {wanted.shape}"
    with np.errstate(invalid="ignore"):
        near = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        near |= np.abs(found - wanted) <= relative * max(scale, 1.0)
    assert near.all(), f"{what}: {found!r}, wanted {wanted!r}"


def _scale(*groups: Sequence[Any]) -> float:
    """The largest magnitude."""
    return max((float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for group in groups for x in group), default=1.0)


def _inner(left: Sequence[Any], right: Sequence[Any]) -> float:
    return float(sum(np.real(np.sum(a * b)) for a, b in zip(left, right, strict=True)))


# --- laws ------------------------------------------------------------------------------------------------


def cotangents_are_like_arguments(it: Probe) -> None:
    """A cotangent has the shape and dtype of its argument, a tangent those of its result."""
    for found in it.found.values():
        for c, x in zip(found["cotangents"], it.primals, strict=True):
            assert c.shape == x.shape, f"{it.op}: a cotangent of shape {c.shape} for an argument of shape {x.shape}"
            assert c.dtype == x.dtype, f"{it.op}: a cotangent of {c.dtype} for an argument of {x.dtype}"
        for t, y in zip(found["tangents"], found["values"], strict=True):
            assert (t.shape, t.dtype) == (y.shape, y.dtype), f"{it.op}: a tangent {t!r} of a result {y!r}"


def transpose_is_the_adjoint(it: Probe) -> None:
    """``⟨g, J t⟩ = ⟨Jᵀ g, t⟩``."""
    for engine, found in it.found.items():
        slopes, gradients = found["tangents"], found["cotangents"]
        sizes = sum(s.size for s in slopes) + sum(c.size for c in gradients)
        scale = _scale(slopes, gradients) * max(sizes, 1)
        forward, reverse = _inner(it.cotangents, slopes), _inner(gradients, it.tangents)
        _near(forward, reverse, it.relative, scale, f"{it.op}: ⟨g, J t⟩ is not ⟨Jᵀ g, t⟩ {engine}")


def tangent_is_the_difference(it: Probe) -> None:
    """``J t`` is the limit of central differences along t; the Hessian times t, of those of gradients."""
    if it.narrow:
        return
    above, below = it.at(STEP), it.at(-STEP)
    for derivative, of in (("tangents", "values"), ("forward over reverse", "gradient")):
        for slope, up, down in zip(it.found["as a program"][derivative], above[of], below[of], strict=True):
            wanted = (up - down) / (2 * STEP)
            scale = _scale([wanted], [up])
            _near(slope, wanted, DIFFERENCES, scale, f"{it.op}: {derivative} against differences of {of}")


def routes_agree(it: Probe) -> None:
    """One Hessian times a vector by every order of the modes."""
    for engine, found in it.found.items():
        for name in ROUTES[1:]:
            for one, other in zip(found[name], found[ROUTES[0]], strict=True):
                scale = _scale([other]) * max(other.size, 1)
                _near(one, other, it.relative, scale, f"{it.op}: {name} is not {ROUTES[0]} {engine}")


def engines_agree(it: Probe) -> None:
    """A program gives what is computed at once."""
    (_, first), *others = it.found.items()
    for engine, other in others:
        for name in first:
            for x, y in zip(first[name], other[name], strict=True):
                scale = _scale([y]) * (max(y.size, 1) if name in ROUTES else 1)
                _near(x, y, it.relative, scale, f"{it.op}: {name} as a program and {engine} differ")


PROBED = (
    cotangents_are_like_arguments,
    transpose_is_the_adjoint,
    tangent_is_the_difference,
    routes_agree,
    engines_agree,
)


def derivatives_hold(stack: Any, op: Op | Composite, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """All laws of derivatives, to second order, on the stack and eagerly; where a value is not finite there is none."""
    if not _floating(given):
        return
    hashable = Parameters(_key(op.canonical(params)), params)
    compiled = _compiled(stack, op, hashable, tuple((x.shape, x.dtype) for x in given))
    it = _probe(stack, compiled, op, given, params)
    if not all(np.isfinite(v).all() for v in it.found["as nodes"]["values"]):
        return
    try:
        for law in PROBED:
            law(it)
    except AssertionError:
        compiled.broken = True
        raise
    compiled.held = True


def difference_is_zero(stack: Any, op: Op | Composite, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """What declares that its derivative is zero is constant nearby; stop_gradient, which is not, says that it is."""
    positions = _floating(given)
    if not positions or op.name == "stop_gradient":
        return
    values = _values(stack, op, given, params)
    narrow = any(v.dtype.kind in "fc" and float(np.finfo(v.dtype).eps) > 1e-12 for v in values)
    if narrow or not all(np.isfinite(v).all() for v in values):
        return
    tangents = iter(_alike([(given[i].shape, given[i].dtype) for i in positions], 6))
    moved = [x + STEP * next(tangents) if i in positions else x for i, x in enumerate(given)]
    for one, other in zip(values, _values(stack, op, moved, params), strict=True):
        if one.dtype.kind in "fc":
            _near(other, one, DIFFERENCES * STEP, _scale([one]), f"{op} declares no slope, and is not constant")
