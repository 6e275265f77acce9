"""The laws that every operator keeps, one function a law; each raises AssertionError in words where it is broken.

`check_operator` runs all of them on drawn arguments, and those of derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.device.shared.kernel_choice import fresh
from nnc_func.device.shared.namespace import writing
from nnc_func.facets.kernels import Kernel, overwritten, takes_layouts
from nnc_func.graph.ops.memory import relayout
from nnc_func.op import Op
from nnc_func.testing.algebra import check_law
from nnc_func.testing.comparing import at_once, equal, results
from nnc_func.testing.samples import Arguments

Law = Callable[[Any, Op, Sequence[Any], Mapping[str, Any]], None]
POISON = 0xFF  # NaN in every floating dtype


# --- kernels ---------------------------------------------------------------------------------------------


def kernels(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> Iterator[Kernel]:
    """The operator's kernels that run on the stack's device and take these arguments, or arguments of these avals."""
    device = stack.device
    avals = tuple(x if isinstance(x, Aval) else device.aval(x) for x in given)
    for kernel in op.kernels:
        if (kernel.namespaces is None or device.name in kernel.namespaces) and (
            kernel.library is None or kernel.library in device.libraries
        ):
            canonical = dict(op.canonical(params))
            if takes_layouts(kernel, op, avals, canonical) and kernel.accepts(avals, **canonical):
                yield kernel


def _reference(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> tuple[Any, ...]:
    kernel = op.kernels[-1]
    return results(op, fresh(stack.device.xp, kernel, op.canonical(params))(*given))


def _avals(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> tuple[Any, ...]:
    return results(op, stack.shape.bind(op, *map(stack.device.aval, given), **params))


def _out(aval: Any) -> Any:
    """An array for a result, which lies as its aval says."""
    layout = aval.layout
    if not isinstance(layout, tuple):
        return _poisoned(aval.shape, aval.dtype)
    laid = _poisoned(tuple([aval.shape[axis] for axis in layout]), aval.dtype)
    return laid.transpose([layout.index(axis) for axis in range(laid.ndim)])


def _poisoned(shape: Any, dtype: Any) -> Any:
    found = np.empty(shape, dtype)
    found.reshape(-1).view(np.uint8)[...] = POISON & (1 if found.dtype.kind == "b" else POISON)
    return found


def _written(stack: Any, op: Op, kernel: Kernel, given: Sequence[Any], params: Mapping[str, Any], outs: Any) -> None:
    """Run a kernel's writing form, with poisoned scratch."""
    items = op.canonical(params)
    avals = tuple(map(stack.device.aval, given))
    wanted = kernel.scratch(avals, **dict(items)) if kernel.scratch is not None else ()
    scratch = tuple(_poisoned(s, d) for s, d in wanted)
    writing(stack.device.xp, kernel, items, len(outs), scratch)(*given, *outs)


# --- shapes, dtypes, kernels -----------------------------------------------------------------------------


def shape_is_the_kernels(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """The shape and dtype rules say what every kernel gives; layouts are known of graph values, not of arrays."""
    wanted = tuple(a.having(layout=None) for a in _avals(stack, op, given, params))
    found = tuple(map(stack.device.aval, results(op, stack.device.bind(op, *given, **params))))
    assert found == wanted, f"{op}: the device gives {found}, the rules say {wanted}"
    for kernel in kernels(stack, op, given, params):
        made = results(op, fresh(stack.device.xp, kernel, op.canonical(params))(*given))
        found = tuple(stack.device.aval(np.asarray(m)) for m in made)
        assert found == wanted, f"{op}: kernel {kernel.name!r} gives {found}, the rules say {wanted}"


def kernels_agree(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """Every kernel equals the reference kernel within the operator's tolerance, and leaves its arguments alone."""
    before = [x.copy() for x in given]
    wanted = _reference(stack, op, given, params)
    for kernel in kernels(stack, op, given, params):
        found = results(op, fresh(stack.device.xp, kernel, op.canonical(params))(*given))
        for one, other in zip(found, wanted, strict=True):
            equal(one, other, op.tolerance.ulps, f"{op}, kernel {kernel.name!r}")
    for x, b in zip(given, before, strict=True):
        equal(x, b, 0.0, f"{op} has written to its argument")


def into_is_compute(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """A kernel that writes into given memory, whatever was in it and in its scratch, writes what it computes."""
    avals = _avals(stack, op, given, params)
    for kernel in kernels(stack, op, given, params):
        wanted = results(op, fresh(stack.device.xp, kernel, op.canonical(params))(*given))
        outs = tuple(map(_out, avals))
        _written(stack, op, kernel, given, params, outs)
        for one, other in zip(outs, wanted, strict=True):
            equal(one, other, 0.0, f"{op}, `into` of kernel {kernel.name!r}")


def parts_can_be_written(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """A kernel that says so writes into arrays that are parts of others, and into nothing else of those."""
    avals = _avals(stack, op, given, params)
    for kernel in kernels(stack, op, given, params):
        wanted = results(op, fresh(stack.device.xp, kernel, op.canonical(params))(*given))
        for wider in (_beside, _spread) if kernel.writes_strided else ():
            outs = tuple(wider(_poisoned(a.shape, a.dtype)) for a in avals)
            around = [o if o.base is None else o.base.copy() for o in outs]
            _written(stack, op, kernel, given, params, outs)
            for out, other, before in zip(outs, wanted, around, strict=True):
                equal(out, other, op.tolerance.ulps, f"{op}, kernel {kernel.name!r} into a part")
                if out.base is not None:
                    out[...] = _poisoned(out.shape, out.dtype)
                    assert out.base.tobytes() == before.tobytes(), f"{op}: {kernel.name!r} wrote beside its part"


def strides_do_not_matter(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """Arguments that are views with other strides give the same: a plan hands views to kernels."""
    avals = _avals(stack, op, given, params)
    for kernel in kernels(stack, op, given, params):
        wanted = results(op, fresh(stack.device.xp, kernel, op.canonical(params))(*given))
        for view in (_backwards, _columns, _spread):
            outs = tuple(map(_out, avals))
            _written(stack, op, kernel, [view(x) for x in given], params, outs)
            for one, other in zip(outs, wanted, strict=True):
                equal(one, other, op.tolerance.ulps, f"{op}, kernel {kernel.name!r} on arguments {view.__name__[1:]}")


def _beside(x: Any) -> Any:
    wide = _poisoned((*x.shape[:1], *(n + 2 for n in x.shape[1:])), x.dtype)
    return wide[(slice(None), *(slice(2, None) for _ in x.shape[1:]))] if x.ndim else wide[...]


def _backwards(x: Any) -> Any:
    return np.flip(np.ascontiguousarray(np.flip(x))).reshape(x.shape)


def _columns(x: Any) -> Any:
    return x.T.copy().T


def _spread(x: Any) -> Any:
    wide = _poisoned((*x.shape[:-1], x.shape[-1] * 2), x.dtype) if x.ndim else x
    if x.ndim:
        wide[..., ::2] = x
        wide = wide[..., ::2]
    return wide


def layouts_do_not_matter(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """Where a layout spreads to a result, every kernel that accepts it writes the same elements in that order."""
    wanted = _reference(stack, op, given, params)
    most = max((x.ndim for x in given), default=0)
    for turned in range(1, most):
        axes = tuple((a + turned) % most for a in range(most))
        args = [stack.device.bind(relayout, x, layout=axes) if x.ndim == most else x for x in given]
        avals = [stack.device.aval(x).having(layout=axes if x.ndim == most else None) for x in args]
        laid = results(op, stack.shape.bind(op, *avals, **params))
        if all(a.layout is None for a in laid):
            continue
        for kernel in kernels(stack, op, avals, params):
            outs = tuple(stack.device.empty(a.shape, a.dtype, strides=a.strides) for a in laid)
            _written(stack, op, kernel, args, params, outs)
            for one, other in zip(outs, wanted, strict=True):
                equal(one, other, op.tolerance.ulps, f"{op}, kernel {kernel.name!r} in the layout {axes}")


def in_place_is_safe(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """A kernel that may overwrite an argument gives the same when it does, also where the argument occurs twice."""
    avals, items = _avals(stack, op, given, params), op.canonical(params)
    for kernel in kernels(stack, op, given, params):
        for result, allowed in enumerate(overwritten(kernel, len(given), items, len(avals))):
            for position in allowed:
                if position >= len(given) or stack.device.aval(given[position]) != avals[result]:
                    continue
                mine = given[position]
                alike = [i for i in allowed if given[i].shape == mine.shape and given[i].dtype == mine.dtype]
                for together in dict.fromkeys([(position,), tuple(alike)]):
                    args = [mine if i in together else x for i, x in enumerate(given)]
                    wanted = results(op, fresh(stack.device.xp, kernel, items)(*args))
                    shared = mine.copy()
                    args = [shared if i in together else x for i, x in enumerate(args)]
                    outs = [shared if i == result else _poisoned(a.shape, a.dtype) for i, a in enumerate(avals)]
                    _written(stack, op, kernel, args, params, tuple(outs))
                    for one, other in zip(outs, wanted, strict=True):
                        equal(one, other, 0.0, f"{op}, kernel {kernel.name!r} over argument {together}")


def views_are_views(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """A result shows memory of an argument where the `view` facet says so, and nowhere else."""
    found = results(op, stack.device.bind(op, *given, **params))
    for one in found:
        for position, x in enumerate(given):
            shares = bool(one.size) and bool(np.shares_memory(one, x))
            if op.view is not None and position == op.view.argument:
                assert shares or not one.size or not x.size, f"{op} is no view of argument {position}"
                assert not op.view.contiguous or one.flags.c_contiguous, f"{op} is not contiguous"
            else:
                assert not shares, f"{op} gives memory of its argument {position}, and has no `view` facet for that"


# --- laws that operators declare -------------------------------------------------------------------------


def declared_laws_hold(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """Commutative bit by bit, associative up to rounding; units, absorbers, inverses and the rest as declared."""
    for law in op.laws:
        check_law(stack, op, law, given, params)


# --- nodes and engines -----------------------------------------------------------------------------------


def nodes_are_inferred_and_interned(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """A node has the aval that Shape infers; equal arguments give the same node, if the operator is pure."""
    inputs = [stack.symbol.input(f"x{i}", stack.device.aval(x)) for i, x in enumerate(given)]
    found, again = (results(op, stack.operator.bind(op, *inputs, **params)) for _ in range(2))
    wanted = results(op, stack.shape.bind(op, *(i.aval for i in inputs), **params))
    assert tuple(v.aval for v in found) == wanted, f"{op}: nodes say {[v.aval for v in found]}, Shape {wanted}"
    assert not op.pure or all(a is b for a, b in zip(found, again, strict=True)), f"{op}: equal arguments, two nodes"


def engines_agree(stack: Any, op: Op, given: Sequence[Any], params: Mapping[str, Any]) -> None:
    """At once, forced, compiled, and compiled by the eager engine: the same values as the device's own."""
    wanted = results(op, stack.device.bind(op, *given, **params))
    ulps = op.tolerance.ulps
    for each in (stack, at_once(stack)):
        tensors = [each.asarray(x) for x in given]
        forced = each.evaluate(*results(op, each.bind(op, *tensors, **params)))
        inputs = [each.input(f"x{i}", x.shape, x.dtype) for i, x in enumerate(given)]
        program = each.compile(inputs, list(results(op, each.bind(op, *inputs, **params))))
        for what, found in (("forced", forced), ("compiled", program(*given)), ("called again", program(*given))):
            for one, other in zip(found, wanted, strict=True):
                equal(each.device.to_numpy(one), other, ulps, f"{op}, {what} on {each.engine!r}")


LAWS: tuple[Law, ...] = (
    shape_is_the_kernels,
    kernels_agree,
    into_is_compute,
    parts_can_be_written,
    strides_do_not_matter,
    layouts_do_not_matter,
    in_place_is_safe,
    views_are_views,
    declared_laws_hold,
    nodes_are_inferred_and_interned,
    engines_agree,
)


# --- running them ----------------------------------------------------------------------------------------


def hold(stack: Any, op: Op, laws: Iterable[Law], drawn: Arguments) -> None:
    """Each of the laws on one drawn list of arguments."""
    given_, params = drawn
    with np.errstate(all="ignore"):
        for law in laws:
            law(stack, op, [*given_], params)
