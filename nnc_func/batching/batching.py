"""Batching: a layer that applies functions of one example to many at once, by the operators' batching rules.

It is inserted as a layer of one's own is: ``stack.insert(Batching)``. A row of a batch flows through the layers as
values under differentiation do, so the two nest in any order; what it knows of operators is `facets.batching`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import attrs
import numpy as np
from attrs import field

from nnc_func.autodiff.traced import Trace, Traced, scope
from nnc_func.batching.bodies import BatchedBodies
from nnc_func.batching.branches import branch_of_batches, custom_of_batches
from nnc_func.batching.host_functions import callback_of_batches
from nnc_func.batching.loops import loop_of_batches
from nnc_func.body import bodies_of, is_pure
from nnc_func.errors import BatchingError, check_function
from nnc_func.facets import batching as rules
from nnc_func.facets.batching import BY_SHAPE, Application, Rule, Same, loop
from nnc_func.facets.dims import known, same_extent
from nnc_func.facets.shapes import normalise_axis
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.ops.effects import TOKEN
from nnc_func.graph.ops.host_functions import name_of
from nnc_func.graph.ops.silent_bodies import asked, only_asks
from nnc_func.graph.tensors.namespace import Ops
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.layer import PassThrough, chain, layer
from nnc_func.layer_protocols import BindSignature
from nnc_func.op import Op
from nnc_func.tree import flatten

OF_MATRICES = (  # whatever axes are in front
    "diagonal", "diagonal_matrix", "cholesky", "qr", "svd", "svdvals", "eigh", "eigvalsh", "inv", "pinv", "det",
    "cofactors", "slogdet", "expm",
)  # fmt: skip
BY_NAME: Mapping[str, Rule] = {
    "loop": loop_of_batches,
    "branch": branch_of_batches,
    "custom": custom_of_batches,
    "callback": callback_of_batches,
    "after": rules.after,
    "argmax": rules.positions,
    "argmin": rules.positions,
    "matmul": rules.product_of_matrices,
    "tensordot": rules.contraction,
    "softmax": rules.along_axis,
    "log_softmax": rules.along_axis,
    "softmax_cross_entropy": rules.along_axis,
    "conv2d": rules.folded(leading=1),
    "conv2d_integer": rules.folded(leading=1),
    "matmul_integer": rules.as_rows,
    "conv2d_input_gradient": rules.folded("input_shape", leading=1),
    "max_pool2d": rules.folded(),
    "max_pool2d_gradient": rules.folded(),
    "max_pool2d_tangent": rules.folded(),
    "average_pool2d": rules.folded(),
    "average_pool2d_gradient": rules.folded("input_shape"),
    "ravel_multi_index": rules.elementwise,
    "solve": rules.equations,
    "solve_triangular": rules.equations,
    "linear_recurrence": rules.along_axis,
    "fourier": rules.along_axes,
    "real_fourier": rules.along_axis,
    "inverse_real_fourier": rules.along_axis,
    **dict.fromkeys(OF_MATRICES, rules.as_is),
    **dict.fromkeys(("sylvester", "discrete_lyapunov", "care", "dare"), rules.elementwise),  # their stacks broadcast
}  # of operators whose shape rule says too little


def _functions(self: Any) -> Ops[Any]:
    found = next((each.ops for each in chain(self) if each.role == "type"), CATALOGUE)
    return Ops(self.bind, found).functions


@layer(on=("autodiff", "engine", "device"), needs=BindSignature)
class Batching(PassThrough):
    """Operators on rows of batches are applied to the whole batches; any other is passed on.

    Attributes
    ----------
    below
        The layer below: Autodiff, an engine, or a device.
    rules
        Batching rules of one's own, pairs of an operator's name and a function of an `Application`.
    bodies
        What batches bodies, for operators that apply some.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager().insert(Batching)
    >>> ops = stack.ops
    >>> vmap(lambda row: ops.sum(row * row))(stack.asarray([[1.0, 2.0], [3.0, 4.0]])).numpy()
    array([ 5., 25.])
    """

    below: Any
    rules: tuple[tuple[str, Rule], ...] = ()
    functions: Ops[Any] = field(init=False, eq=False, repr=False, default=attrs.Factory(_functions, takes_self=True))
    bodies: BatchedBodies = field(
        init=False, eq=False, repr=False, default=attrs.Factory(BatchedBodies, takes_self=True)
    )

    def bind(self, op: Op, *args: Any, **params: Hashable) -> Any:
        """The operator, by the innermost transformation that one of its arguments is under."""
        top = None
        for a in args:
            if type(a) is Traced and (top is None or a.trace.level > top.level):
                top = a.trace
        within = scope.get()
        if within is not None and (top is None or top.level < within.level):
            top = within if within.autodiff == self else None
        return self.below.bind(op, *args, **params) if top is None else top.bind(op, args, params)

    def rows(self, size: Any) -> Rows:
        """A vmap of so many rows, which begins."""
        return Rows(self, size)

    def rule(self, op: Op) -> Rule:
        """How an operator is applied to rows: one's own rule, or that of its name or shape rule, or row by row."""
        own = dict(self.rules).get(op.name)
        shape = getattr(op.shape, "func", op.shape)
        return own or BY_NAME.get(op.name) or BY_SHAPE.get(shape, loop)


class Row:
    """Any row of a batch: the whole, with rows along axis 0, and the shape of one."""

    __slots__ = ("whole",)

    def __init__(self, whole: Any) -> None:
        self.whole = whole

    @property
    def shape(self) -> Any:
        """Extents of a row."""
        return tuple(self.whole.shape[1:])

    @property
    def dtype(self) -> Any:
        """That of the whole."""
        return self.whole.dtype

    @property
    def aval(self) -> Any:
        """Of a row, where the whole has one."""
        return self.whole.aval.having(shape=self.shape, layout=None)

    def __repr__(self) -> str:
        return f"a row of {self.whole!r}"


class Rows(Trace):
    """One vmap while it runs: applies operators to whole batches."""

    __slots__ = ("layer", "size")

    def __init__(self, layer: Batching, size: Any) -> None:
        super().__init__(layer)
        self.layer = layer
        self.size = size

    def row(self, whole: Any) -> Traced:
        """Any row of a batch."""
        return Traced(self, Row(whole), None)

    def owns(self, x: Any) -> bool:
        """Whether it is a row of this batch."""
        return type(x) is Traced and x.trace is self

    def bind(self, op: Op, args: tuple[Any, ...], params: Any) -> Any:
        """The operator, applied to all rows.

        Raises
        ------
        BatchingError
            The operator has an effect, or its rule gives another shape than its rows want.
        """
        self.check()
        params = dict(op.canonical(params))
        has_effects = not is_pure(op, params.items())
        if has_effects:
            _check_effects(op, params)
        is_batched = tuple(map(self.owns, args))
        wholes = tuple(a.primal.whole if b else a for a, b in zip(args, is_batched, strict=True))
        shapes = tuple(tuple(getattr(a, "shape", ())) for a in args)
        call = Application(self.layer.functions, op, params, wholes, is_batched, shapes, self.size, self.layer.bodies)
        found = self.layer.rule(op)(call)
        wanted = op.shape(*shapes, **params)
        results = found if op.multi_result else (found,)
        if has_effects:
            given = zip(args, shapes, is_batched, strict=True)
            before = next((a for a, shape, b in given if not b and self._is_token(a, shape)), None)
            results = tuple([self._orderly(y, before) for y in results])
        for y, shape in zip(results, wanted if op.multi_result else (wanted,), strict=True):
            if type(y) is Same:
                continue
            found_shape, right = tuple(y.shape), (self.size, *shape)
            if len(found_shape) != len(right) or not all(map(same_extent, found_shape, right)):
                raise BatchingError(f"the batching rule of {op.name} gives {found_shape}, its rows want {right}")
        made = tuple([y.value if type(y) is Same else self.row(y) for y in results])
        return made if op.multi_result else made[0]

    def _is_token(self, x: Any, shape: Any) -> bool:
        return tuple(shape) == TOKEN.shape and self.layer.functions.dtype(x) == TOKEN.dtype

    def _orderly(self, y: Any, before: Any) -> Any:
        """A result; a token has no rows, since the order of effects is of none, and none happens where no row is."""
        if type(y) is Same or not self._is_token(y, y.shape[1:]):
            return y
        if before is not None and known(self.size) and self.size == 0:
            return Same(before)
        return Same(self.layer.functions.reshape(y, shape=TOKEN.shape))

    def whole(self, x: Any) -> Any:
        """All rows of a value, which are equal ones where it is no row."""
        if self.owns(x):
            return x.primal.whole
        o = self.layer.functions
        return o.broadcast_to(o.reshape(x, shape=(1, *x.shape)), shape=(self.size, *x.shape))

    # --- functions with a derivative of their own -----------------------------------------------------------

    def call(self, rule: Any, args: Sequence[Any]) -> list[Any]:
        """A function with a rule of its own, on rows: outer transformations see one function of whole batches."""
        self.check()
        around = _beneath_rows(args)
        if around is None:
            return rule.value(args)  # type: ignore[no-any-return]
        if around.makes_bodies:
            return around.call(rule, args)  # type: ignore[no-any-return]
        is_batched = [self.owns(a) for a in args]
        wholes = [a.primal.whole if b else a for a, b in zip(args, is_batched, strict=True)]
        return [self.row(v) for v in _called(Batched(rule, self, is_batched), wholes)]

    def known(self, name: str, values: Sequence[Any]) -> None:
        """Rows that a rule uses from around it are as good as arguments, where nothing is differentiated."""


def _check_effects(op: Op, params: Mapping[str, Any]) -> None:
    """Raise BatchingError, which names the operator, where one has an effect that is of no row, or of all of them."""
    items = tuple(params.items())
    once = next((each for each in asked(op, items) if getattr(each, "decides", False)), None)
    if once is not None:
        raise BatchingError(
            f"{name_of(once)} is called once, and not for each row of a vmap: write it with operators of the stack, "
            "whose results may differ from row to row, or go through the rows with map"
        )
    if all(map(only_asks, bodies_of(items))) if op.holds_body else params.get("pure") and params["shapes"]:
        return
    inner = [each for body in bodies_of(items) for each in body.operators if each.effect]
    named = f"{inner[0].name}, within {op.name}," if inner else op.name
    advice = "; a callback that is declared pure=True is called for each row" if "callback" in named else ""
    raise BatchingError(f"{named} has an effect, which happens once and not for each row of a vmap{advice}")


def _beneath_rows(args: Sequence[Any]) -> Any:
    """The innermost trace, but of batches, of values or of the batches that they are rows of."""
    found = []
    for x in args:
        while type(x) is Traced and type(x.trace) is Rows:
            x = x.primal.whole
        if type(x) is Traced:
            found.append(x.trace)
    within = scope.get()
    if found and within is not None:
        found.append(within)
    return max(found, key=attrgetter("level"), default=None)


def _called(rule: Batched, args: Sequence[Any]) -> list[Any]:
    traces = [a.trace for a in args if type(a) is Traced]
    return max(traces, key=lambda t: t.level).call(rule, args) if traces else rule.value(args)


class Batched:
    """A function with a derivative of its own, as a function of whole batches with a derivative of its own."""

    def __init__(self, rule: Any, around: Rows, is_batched: list[bool]) -> None:
        self.rule = rule
        self.name = rule.name
        self.is_batched = is_batched
        self.around = around

    def _begun(self) -> Rows:
        """A vmap within all that has begun by now."""
        return Rows(self.around.layer, self.around.size)

    def _rows(self, trace: Rows, wholes: Sequence[Any]) -> list[Any]:
        return [trace.row(x) if b and x is not None else x for x, b in zip(wholes, self.is_batched, strict=True)]

    def _wholes(self, trace: Rows, found: Sequence[Any]) -> list[Any]:
        wholes = [None if v is None else trace.whole(v) for v in found]
        if any(map(self.around.owns, wholes)):
            raise BatchingError(
                f"{self.name} has a derivative of its own, which is with respect to its arguments, but it also uses a "
                "row from around it, of the vmap that it is called in; pass that as an argument"
            )
        return wholes

    def value(self, args: Sequence[Any]) -> list[Any]:
        """The function, on all rows."""
        trace = self._begun()
        return self._wholes(trace, self.rule.value(self._rows(trace, args)))

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Its values and their tangents, on all rows."""
        trace = self._begun()
        values, slopes = self.rule.jvp(self._rows(trace, primals), self._rows(trace, tangents))
        return self._wholes(trace, values), self._wholes(trace, slopes)

    def linearize(self, primals: Sequence[Any]) -> tuple[list[Any], Any, Any]:
        """Its values, and the derivative both ways: what is not batched gets the sum over all rows."""
        trace = self._begun()
        values, push, pull = self.rule.linearize(self._rows(trace, primals))
        o = trace.layer.functions

        def pushed(tangents: Sequence[Any]) -> list[Any]:
            return self._wholes(trace, push(self._rows(trace, tangents)))

        def pulled(cotangents: Sequence[Any]) -> list[Any]:
            found = self._wholes(trace, pull([None if g is None else trace.row(g) for g in cotangents]))
            return [
                g if g is None or b else o.sum(g, axis=(0,), keepdims=False)
                for g, b in zip(found, self.is_batched, strict=True)
            ]

        return self._wholes(trace, values), pushed, pulled


# --- vmap -------------------------------------------------------------------------------------------------


def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, stack: Any = None) -> Callable[..., Any]:
    """A function that applies `f` to every row of its arguments at once, as one that is written for batches would.

    Parameters
    ----------
    f
        Of tensors and trees of them, for one example.
    in_axes
        The axis along which the rows of each argument lie; None: the argument is the same for every row. One for all
        arguments, or a tuple with one for each; in place of one, a tree of them like the argument.
    out_axes
        The axis along which rows of results are put; None: a result that is the same for every row. One for all, or
        a tree like the result.
    stack
        Whose tensors arrays among the arguments become; by default that of the first tensor.

    Returns
    -------
    A function of the same arguments, with one axis more. It nests in itself, in derivatives and in jit.

    Raises
    ------
    BatchingError
        No argument has rows, arguments have different numbers of rows, or an operator has an effect.
    ShapeError
        An argument has no such axis.
    OperatorError
        `f` is no function.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> x = stack.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> slope = vmap(stack.grad(lambda w, row: stack.ops.sum(w * row * row)), in_axes=(None, 0))
    >>> slope(stack.asarray(2.0), x).numpy()
    array([ 5., 25.])
    """

    check_function(f, "vmap")

    @functools.wraps(f)
    def batched(*args: Any, **keywords: Any) -> Any:
        at = stack if stack is not None else _stack_of((args, keywords))
        layer = _layer(at)
        axes = in_axes if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(args)
        if len(axes) != len(args):
            raise BatchingError(f"in_axes names {len(axes)} arguments, given {len(args)} by position")
        leaves, structure = flatten(list(args))
        spread = [axis for each, arg in zip(axes, args, strict=True) for axis in _like(each, arg, "in_axes")]
        tensors = [at.asarray(x) if a is not None else x for x, a in zip(leaves, spread, strict=True)]
        trace = Rows(layer, _size(tensors, spread))
        try:
            rows = [
                x if a is None else Tensor(at, trace.row(_to_front(layer, at.carrier(x), a)))
                for x, a in zip(tensors, spread, strict=True)
            ]
            found = f(*structure.build(rows), **keywords)
            results, shape = flatten(found)
            back = _like(out_axes, found, "out_axes")
            return shape.build([_back(trace, at, y, a) for y, a in zip(results, back, strict=True)])
        finally:
            trace.live = False

    return batched


def _stack_of(args: Any) -> Any:
    found = next((x.stack for x in flatten(args)[0] if isinstance(x, Tensor)), None)
    if found is None:
        raise BatchingError("none of the arguments is a tensor of a stack: vmap(f, stack=stack), or stack.asarray(x)")
    return found


def _layer(stack: Any) -> Batching:
    """The stack's own Batching layer; or one on top of it, since Autodiff passes rows on."""
    found = next((each for each in chain(stack.top) if isinstance(each, Batching)), None)
    if found is not None:
        return found
    if not any(each.role == "autodiff" for each in chain(stack.top)):
        raise BatchingError("this stack has no layer that knows of rows: stack.insert(nnc.Batching)")
    autodiff = stack.autodiff
    above = getattr(autodiff, "above", {})  # a layer of a user's own may keep none
    made = above.get(Batching)
    if made is None:
        made = above[Batching] = Batching(autodiff)
    return made


def _like(axes: Any, tree: Any, name: str) -> list[Any]:
    """One axis for each leaf of a tree, from one for all of them or a tree like it."""
    leaves, structure = flatten(tree)
    if axes is None or isinstance(axes, (int, np.integer)):
        return [axes] * len(leaves)
    if isinstance(axes, (tuple, list)) and isinstance(tree, (tuple, list)) and len(axes) == len(tree):
        return [a for each, part in zip(axes, tree, strict=True) for a in _like(each, part, name)]
    if isinstance(axes, dict) and isinstance(tree, dict) and axes.keys() == tree.keys():
        return [a for key in sorted(tree) for a in _like(axes[key], tree[key], name)]
    raise BatchingError(f"{name} has {axes!r} where a tree {structure} is; wanted an axis, None, or a tree of them")


def _size(tensors: list[Any], axes: list[Any]) -> Any:
    """How many rows there are."""
    found = []
    for x, a in zip(tensors, axes, strict=True):
        if a is not None:
            found.append(x.shape[normalise_axis(a, x.ndim)])
    if not found:
        raise BatchingError("vmap wants one argument with rows at least: every in_axes is None")
    for n in found[1:]:
        if not same_extent(found[0], n):
            raise BatchingError(f"arguments of a vmap have one number of rows, given {found[0]} and {n}")
    return next((n for n in found if known(n)), found[0])


def _to_front(layer: Batching, x: Any, axis: int) -> Any:
    at = normalise_axis(axis, len(x.shape))
    if at == 0:
        return x
    return layer.functions.permute_dims(x, axes=(at, *(i for i in range(len(x.shape)) if i != at)))


def _back(trace: Rows, stack: Any, leaf: Any, axis: Any) -> Tensor:
    """A result, with its rows along that axis."""
    x = stack.carrier(leaf if isinstance(leaf, Tensor) else stack.asarray(leaf))
    if axis is None:
        if trace.owns(x):
            raise BatchingError("out_axes is None for a result that differs from row to row; wanted an axis")
        return Tensor(stack, x)
    whole = trace.whole(x)
    at = normalise_axis(axis, len(whole.shape))
    if at == 0:
        return Tensor(stack, whole)
    order = [*range(1, at + 1), 0, *range(at + 1, len(whole.shape))]
    return Tensor(stack, trace.layer.functions.permute_dims(whole, axes=tuple(order)))
