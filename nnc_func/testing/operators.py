"""check_operator: every law on an operator of one's own; what is broken is told with the facet that is to blame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as draws_from
from hypothesis.errors import FailedHealthCheck, HypothesisException, Unsatisfiable

from nnc_func.config import config
from nnc_func.facets.derivatives import Constant, Derivative
from nnc_func.facets.samples import Refused
from nnc_func.facets.views import Cost
from nnc_func.op import Op
from nnc_func.testing import laws
from nnc_func.testing.comparing import equal, results
from nnc_func.testing.derivatives import derivatives_hold, difference_is_zero, is_smooth
from nnc_func.testing.draws import constants_of_no_module
from nnc_func.testing.samples import Arguments, arguments

PLACE = "somewhere"


# --- laws of facets that plans rely on -----------------------------------------------------------------------


def facets_are_told(stack: Any, op: Op, given_: Sequence[Any], params: Mapping[str, Any]) -> None:
    """ONNX has a name or a refusal with a reason, and the derivative is one of those there are."""
    assert isinstance(op.onnx, (str, Refused)) or callable(op.onnx), (
        f"onnx is a name or Refused(why), given {op.onnx!r}"
    )
    assert isinstance(op.derivative, Derivative), f"no derivative of a known kind: {op.derivative!r}"


def cost_is_counted(stack: Any, op: Op, given_: Sequence[Any], params: Mapping[str, Any]) -> None:
    """FLOPs and bytes are whole numbers, none negative."""
    avals = tuple(map(stack.device.aval, given_))
    made = results(op, stack.shape.bind(op, *avals, **params))
    found = op.cost(avals, made, **dict(op.canonical(params)))
    assert isinstance(found, Cost), f"the cost is a Cost, given {found!r}"
    for what in ("flops", "extra_bytes"):
        count = getattr(found, what)
        assert isinstance(count, (int, np.integer)) and count >= 0, f"{what} is a count, given {count!r}"  # noqa: PT018


def places_are_kept(stack: Any, op: Op, given_: Sequence[Any], params: Mapping[str, Any]) -> None:
    """What is computed of operands in one place is there, unless a parameter names another."""
    canonical = dict(op.canonical(params))
    if given_:
        found = op.place((PLACE,) * len(given_), **canonical)
        assert found in (PLACE, canonical.get("place", PLACE)), f"of operands in {PLACE!r} the result is in {found!r}"


def parts_lie_where_they_say(stack: Any, op: Op, given_: Sequence[Any], params: Mapping[str, Any]) -> None:
    """The result is the fill, with each argument in its box."""
    if op.parts is None:
        return
    canonical = dict(op.canonical(params))
    (found,) = results(op, stack.device.bind(op, *given_, **params))
    wanted = np.full(found.shape, op.parts.fill(**canonical), found.dtype)
    for x, box in zip(given_, op.parts.boxes(tuple(x.shape for x in given_), found.shape, **canonical), strict=True):
        where = tuple(slice(start, None if stop < 0 else stop, step) for start, stop, step in box.bounds())
        wanted[where] = np.reshape(x, box.extents)
    equal(found, wanted, 0.0, f"{op} is not its parts")


# --- whose fault it is ---------------------------------------------------------------------------------------

FACETS: Mapping[Any, str] = {
    laws.shape_is_the_kernels: "shape, dtype or layout",
    laws.kernels_agree: "kernels (compute) or tolerance",
    laws.into_is_compute: "kernels (into, scratch)",
    laws.parts_can_be_written: "kernels (strided)",
    laws.strides_do_not_matter: "kernels (arguments that are views)",
    laws.layouts_do_not_matter: "layout, or kernels (layouts)",
    laws.in_place_is_safe: "kernels (overwrites)",
    laws.views_are_views: "view",
    laws.declared_laws_hold: "laws",
    laws.nodes_are_inferred_and_interned: "shape, dtype or pure",
    laws.engines_agree: "kernels, as engines use them",
    facets_are_told: "onnx or derivative",
    cost_is_counted: "cost",
    places_are_kept: "place",
    parts_lie_where_they_say: "parts",
    difference_is_zero: "derivative (it is not constant)",
    derivatives_hold: "derivative",
}


def _held(stack: Any, op: Op, listed: Iterable[Any], drawn: Arguments) -> None:
    """The laws on one list of arguments; whatever breaks is told with its law and facet."""
    given_, params = drawn
    for law in listed:
        try:
            with np.errstate(all="ignore"):
                law(stack, op, [*given_], params)
        except HypothesisException:
            raise
        except Exception as error:
            said = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            name = law.__name__.replace("_", " ")
            raise AssertionError(f"{op.name}: the law {name!r} is broken; facet: {FACETS[law]}. {said}") from error


OF_VALUES = (facets_are_told, places_are_kept, *laws.LAWS, cost_is_counted, parts_lie_where_they_say)


def check_operator(op: Op, stack: Any = None, *, examples: int = 25) -> None:
    """Draw arguments from the operator's samples and check every law, derivatives' too.

    Parameters
    ----------
    op
        Of the catalogue, or one's own.
    stack
        A stack on the host whose catalogue has it; a lazy one by default, extended by the operator.
    examples
        How many argument lists are drawn, for values and for derivatives.

    Raises
    ------
    AssertionError
        A law is broken: names it, the operator, the facet to blame, and the values of the smallest example found.

    Examples
    --------
    >>> from attrs import evolve
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> check_operator(CATALOGUE["add"], examples=3)
    >>> check_operator(evolve(CATALOGUE["subtract"], name="minus", laws=CATALOGUE["add"].laws), examples=5)
    Traceback (most recent call last):
    AssertionError: minus: the law 'declared laws hold' is broken; facet: laws. ...
    """
    from nnc_func.stacks import lazy

    chosen = lazy() if stack is None else stack
    if op.name not in chosen.type.ops:
        chosen = chosen.swap(type=chosen.type.with_ops(op))
    _checked(chosen, op, arguments(op), OF_VALUES, examples)
    if is_smooth(op):
        _checked(chosen, op, arguments(op, differentiable=True), (derivatives_hold,), examples)
    elif isinstance(op.derivative, Constant) and op.args and op.pure:
        _checked(chosen, op, arguments(op, differentiable=True), (difference_is_zero,), examples)


def _checked(stack: Any, op: Op, drawing: Any, listed: Iterable[Callable[..., None]], examples: int) -> None:
    @draws_from(config.seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=False,
        report_multiple_bugs=False,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
    )
    @given(drawing)
    def check(drawn: Arguments) -> None:
        _held(stack, op, listed, drawn)

    try:
        with constants_of_no_module():
            check()
    except (Unsatisfiable, FailedHealthCheck):
        raise AssertionError(
            f"{op.name}: of what its samples say no arguments were drawn that its shape and dtype rules take; "
            "facet: samples, shape or dtype"
        ) from None
