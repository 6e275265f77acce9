"""Functions with derivatives of their own: custom_vjp and custom_jvp. Either rule serves both modes.

A rule is linear in the tangents (cotangents) that it is given, so the other mode is its transpose: forward mode of a
`custom_vjp` is the transposed backward rule, reverse mode of a `custom_jvp` the transposed tangents. Rules are made
of operators, so they are differentiated in turn, by their operators' derivatives.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnc_func.autodiff.formulas import cast_like
from nnc_func.autodiff.traced import Traced
from nnc_func.engine.dynamic.records import Recorded, takes_gradients
from nnc_func.errors import DerivativeError, check_function
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.leaves import Variable
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import flatten, mapped


class Custom:
    """What both kinds share: the function, which of its arguments are no tensors, and the stack that it works on.

    Attributes
    ----------
    f
        The function itself, which computes the value where nothing is differentiated.
    nondiff_argnums
        Numbers of arguments that rules are given as they are, before the others: functions, names, numbers.
    """

    adding = ""

    def __init__(self, f: Callable[..., Any], nondiff_argnums: Sequence[int] = (), stack: Any = None) -> None:
        check_function(f, type(self).__name__)
        functools.update_wrapper(self, f)
        self.f = f
        self.name = getattr(f, "__name__", "the function")
        self.nondiff_argnums = tuple(nondiff_argnums)
        self.stack = stack
        self.rules: tuple[Callable[..., Any], ...] = ()

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if keywords:
            args = self._positional(args, keywords)
        if self.stack is not None:
            args = tuple(a if i in self.nondiff_argnums else self._tensors(a) for i, a in enumerate(args))
        call = Call(self, args)
        is_recorded = False
        if not any(type(c) is Traced for c in call.carriers):
            recording = getattr(getattr(call.stack, "engine", None), "recording", None)
            is_recorded = recording is not None and recording.is_on and any(map(takes_gradients, call.leaves))
            if not is_recorded:
                return self.f(*args)
        if not self.rules:
            raise DerivativeError(f"{self.name} has no rule for its derivative: give it one, with {self.adding}")
        if is_recorded:
            found = call.stack.applied_rule(self.called(call), call.carriers, True)
        else:
            found = call.stack.autodiff.call(self.called(call), call.carriers)
        return call.shape.build([Tensor(call.stack, v) for v in found])

    def called(self, call: Call) -> Any:
        """The function on one list of arguments, as Autodiff asks for it."""
        raise TypeError("use custom_vjp or custom_jvp")

    def _positional(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        bound = inspect.signature(self.f).bind(*args, **keywords)
        bound.apply_defaults()
        if bound.kwargs:
            raise DerivativeError(
                f"{self.name}: a function with a derivative of its own takes its arguments by position, "
                f"given the keyword-only {', '.join(bound.kwargs)}"
            )
        return bound.args

    def _tensors(self, tree: Any) -> Any:
        return mapped(lambda x: self.stack.asarray(x) if hasattr(x, "__array__") else x, tree)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Call:
    """One call: the arguments apart, into what rules are given as it is, tensors, and the trees that those are in."""

    def __init__(self, custom: Custom, args: tuple[Any, ...]) -> None:
        self.custom = custom
        self.name = custom.name
        self.fixed = [args[i] for i in custom.nondiff_argnums]
        self.args = args
        moving = [a for i, a in enumerate(args) if i not in custom.nondiff_argnums]
        leaves, self.structure = flatten(moving)
        self.leaves: list[Any] = [
            x.copy() if isinstance(x, np.ndarray) else x for x in leaves
        ]  # which a rule keeps for later
        self.places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]
        self.carriers = [self.leaves[i].value for i in self.places]
        differentiated = (Traced, Recorded, Variable)
        traced = [self.leaves[i].stack for i in self.places if type(self.leaves[i].value) in differentiated]
        self.stack: Any = custom.stack or next(iter(traced), None)
        self.shape: Any = None  # of the result's tree, once it is known

    @property
    def functions(self) -> Any:
        """The operators, as functions of carriers."""
        return self.stack.autodiff.functions

    def trees(self, carriers: Sequence[Any], rest: Callable[[Any], Any] = lambda leaf: leaf) -> list[Any]:
        """The arguments but the fixed ones, as trees, with these in place of tensors, and `rest` of the others."""
        leaves = [rest(leaf) for leaf in self.leaves]
        for i, c in zip(self.places, carriers, strict=True):
            leaves[i] = Tensor(self.stack, c)
        return self.structure.build(leaves)  # type: ignore[no-any-return]

    def whole(self, carriers: Sequence[Any]) -> list[Any]:
        """All arguments."""
        given = iter(self.trees(carriers))
        return [a if i in self.custom.nondiff_argnums else next(given) for i, a in enumerate(self.args)]

    def result(self, tree: Any) -> list[Any]:
        """A result's carriers; its structure is remembered."""
        leaves, shape = flatten(tree)
        if self.shape is not None and shape != self.shape:
            raise DerivativeError(f"{self.name}: the rule gives a tree {shape}, the function {self.shape}")
        self.shape = shape
        return [self.carrier(leaf) for leaf in leaves]

    def carrier(self, leaf: Any) -> Any:
        """Of anything that a rule gave."""
        return self.stack.carrier(self.stack.asarray(leaf) if not isinstance(leaf, Tensor) else leaf)

    def value(self, carriers: Sequence[Any]) -> list[Any]:
        """The function itself."""
        return self.result(self.custom.f(*self.whole(carriers)))

    def like(self, leaves: Sequence[Any], primals: Sequence[Any], what: str) -> list[Any]:
        """What a rule gave, as carriers like the primals; None for integers, which have no derivative."""
        found = []
        for leaf, x in zip(leaves, primals, strict=True):
            c = self.carrier(leaf)
            if c.shape != x.shape:
                raise DerivativeError(f"{self.name}: {what} has the shape {c.shape}, wanted {x.shape}")
            found.append(cast_like(self.functions, c, x) if kind_of(self.functions.dtype(x)) in "fc" else None)
        return found


class custom_vjp(Custom):  # noqa: N801 - a decorator
    """A function with a derivative of its own, told by cotangents.

    Parameters
    ----------
    f
        Of tensors, and trees of them.
    nondiff_argnums
        Numbers of arguments that the backward rule is given as they are, before all else.
    stack
        Whose tensors arrays among the arguments become; by default the function takes tensors only.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> @nnc.custom_vjp
    ... def clipped(x, limit):
    ...     return x
    >>> def forward(x, limit):
    ...     return x, limit
    >>> def backward(limit, g):
    ...     return stack.ops.minimum(g, limit), None
    >>> _ = clipped.defvjp(forward, backward)
    >>> stack.grad(lambda x: (clipped(x, stack.asarray(2.0)) * 5).sum())([1.0, 2.0]).numpy()
    array([2., 2.])
    """

    adding = "f.defvjp(forward, backward)"

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> custom_vjp:
        """Give the rule.

        Parameters
        ----------
        forward
            Of the function's arguments: its result, and what `backward` wants of the computation (a tree).
        backward
            ``backward(*fixed, saved, cotangent)`` gives a tuple, one cotangent for each argument that is no fixed one:
            a tree like that argument, or None for zero.
        """
        self.rules = (forward, backward)
        return self

    def called(self, call: Call) -> Any:
        """The function on one list of arguments, as Autodiff asks for it."""
        return _ByCotangents(call)


class _ByCotangents:
    """One call of a custom_vjp function."""

    def __init__(self, of: Call) -> None:
        self.of = of
        self.name = of.name
        self.value = of.value

    def linearize(self, primals: list[Any]) -> tuple[list[Any], Any, Any]:
        forward, backward = self.of.custom.rules
        pair = forward(*self.of.whole(primals))
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise DerivativeError(
                f"{self.name}: the forward rule returns (result, what backward wants), given {pair!r}"
            )
        values, saved = self.of.result(pair[0]), pair[1]
        o = self.of.functions
        trees = self.of.trees(primals)

        def pull(gs: Sequence[Any]) -> list[Any]:
            whole = [o.zeros_like(v) if g is None else g for v, g in zip(values, gs, strict=True)]
            cotangent = self.of.shape.build([Tensor(self.of.stack, g) for g in whole])
            return self._of_arguments(backward(*self.of.fixed, saved, cotangent), trees, primals)

        def push(ts: Sequence[Any]) -> list[Any]:
            zeros = [o.zeros_like(v) for v in values]
            kept: list[bool] = []

            def some(*gs: Any) -> list[Any]:
                found = pull(gs)
                kept.extend(c is not None for c in found)
                return [c for c in found if c is not None]

            _, transposed = self.of.stack.autodiff.linearize(some, zeros)
            return transposed.pull([t for t, k in zip(ts, kept, strict=True) if k])  # type: ignore[no-any-return]

        return values, push, pull

    def jvp(self, primals: list[Any], tangents: list[Any]) -> tuple[list[Any], list[Any]]:
        values, push, _ = self.linearize(primals)
        return values, push(tangents)

    def _of_arguments(self, given: Any, trees: list[Any], primals: list[Any]) -> list[Any]:
        """What the backward rule gave, one carrier for each tensor among the arguments."""
        if not isinstance(given, (tuple, list)) or len(given) != len(trees):
            count = len(given) if isinstance(given, (tuple, list)) else type(given).__name__
            raise DerivativeError(
                f"{self.name}: the backward rule gives a tuple of {len(trees)} cotangents, one for each argument, "
                f"given {count}"
            )
        found: list[Any] = []
        at = iter(primals)
        for i, (g, tree) in enumerate(zip(given, trees, strict=True)):
            leaves, structure = flatten(tree)
            mine = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
            own = [next(at) for _ in mine]
            if g is None or not mine:
                found += [None] * len(mine)
                continue
            given_leaves, its = flatten(g)
            if its != structure:
                raise DerivativeError(f"{self.name}: the cotangent of argument {i} is a tree {its}, wanted {structure}")
            those = [c for c, leaf in zip(given_leaves, leaves, strict=True) if isinstance(leaf, Tensor)]
            found += self.of.like(those, own, f"the cotangent of argument {i}")
        return found


class custom_jvp(Custom):  # noqa: N801 - a decorator
    """A function with a derivative of its own, told by tangents.

    Parameters
    ----------
    f
        Of tensors, and trees of them.
    nondiff_argnums
        Numbers of arguments that the rule is given as they are, before all else.
    stack
        Whose tensors arrays among the arguments become; by default the function takes tensors only.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> ops = stack.ops
    >>> @nnc.custom_jvp
    ... def softplus(x):
    ...     return ops.log(1 + ops.exp(x))
    >>> @softplus.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return softplus(x), t * ops.sigmoid(x)
    >>> stack.grad(softplus)(500.0).item()
    1.0
    """

    adding = "f.defjvp(rule)"

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Give the rule: ``rule(*fixed, primals, tangents)`` gives the result and its tangent, trees alike.

        Primals and tangents are tuples with one tree for each argument that is no fixed one. A tangent of what is
        not differentiated is zero.
        """
        self.rules = (rule,)
        return rule

    def called(self, call: Call) -> Any:
        """The function on one list of arguments, as Autodiff asks for it."""
        return _ByTangents(call)


def _still(leaf: Any) -> Any:
    """The tangent of an argument that is no tensor: zero if it is a number or an array."""
    if isinstance(leaf, (np.ndarray, np.generic)):
        return np.zeros_like(leaf)
    return type(leaf)(0) if isinstance(leaf, (int, float, complex)) else leaf


class _ByTangents:
    """One call of a custom_jvp function."""

    def __init__(self, of: Call) -> None:
        self.of = of
        self.name = of.name
        self.value = of.value

    def jvp(self, primals: list[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        (rule,), o = self.of.custom.rules, self.of.functions
        whole = [o.zeros_like(x) if t is None else t for x, t in zip(primals, tangents, strict=True)]
        pair = rule(*self.of.fixed, tuple(self.of.trees(primals)), tuple(self.of.trees(whole, _still)))
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise DerivativeError(f"{self.name}: the rule returns (result, its tangent), given {pair!r}")
        values = self.of.result(pair[0])
        slopes, its = flatten(pair[1])
        if its != self.of.shape:
            raise DerivativeError(f"{self.name}: the tangent is a tree {its}, the result {self.of.shape}")
        return values, self.of.like(slopes, values, "the tangent of the result")

    def linearize(self, primals: list[Any]) -> tuple[list[Any], Any, Any]:
        o = self.of.functions
        kept: list[Any] = []

        def slopes(*tangents: Any) -> list[Any]:
            values, found = self.jvp(primals, tangents)
            kept.append(values)
            return [o.zeros_like(v) if t is None else t for v, t in zip(values, found, strict=True)]

        _, derivative = self.of.stack.autodiff.linearize(slopes, [o.zeros_like(x) for x in primals])
        return kept[0], derivative.push, derivative.pull
