"""Derivatives of functions of trees of tensors: grad, value_and_grad, vjp, jvp, jacobian, hessian, hvp.

They wrap the Autodiff layer's two primitives for a stack's users; each works under the others, in any order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from nnc_func.errors import DerivativeError
from nnc_func.graph.tensor import Tensor
from nnc_func.tree import flatten, mapped


class Transforms:
    """The transformations of one stack.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> nnc.eager().grad(lambda x: (x * x).sum())([1.0, 2.0]).numpy()
    array([2., 4.])
    """

    __slots__ = ("autodiff", "stack")

    def __init__(self, stack: Any) -> None:
        self.stack = stack
        self.autodiff = stack.autodiff

    # --- reverse mode ---------------------------------------------------------------------------------

    def vjp(self, f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
        """``f(*primals)``, and the function from a cotangent of its result to a tuple of those of `primals`.

        With `has_aux` f returns (result, auxiliary), and the auxiliary is the third element.

        Raises
        ------
        DerivativeError
            An argument is neither floating nor complex.
        """
        leaves, structure = flatten([self._tensors(p) for p in primals])
        self._differentiable(leaves)
        kept: list[Any] = []

        def flat(*carriers: Any) -> list[Any]:
            result = f(*structure.build([Tensor(self.stack, c) for c in carriers]))
            if has_aux:
                result, aux = result
                kept.append(aux)
            outputs, shape = flatten(result)
            kept.append(shape)
            return [self._carrier(v) for v in outputs]

        values, back = self.autodiff.vjp(flat, [t.value for t in leaves])
        shape = kept.pop()

        def pullback(cotangent: Any) -> tuple[Any, ...]:
            given, its = flatten(self._tensors(cotangent))
            if its != shape:
                raise DerivativeError(
                    f"the cotangent is a tree {its}, the result is a tree {shape}; they must be equal"
                )
            for g, y in zip(given, results, strict=True):
                if g.shape != y.shape:
                    raise DerivativeError(f"a cotangent has its result's shape {y.shape}, given {g.shape}")
            found = back(*[self._carrier(g) for g in given])
            zeros = self.autodiff.functions.zeros_like
            return tuple(
                structure.build(
                    [Tensor(self.stack, zeros(x.value) if g is None else g) for g, x in zip(found, leaves, strict=True)]
                )
            )

        results = [Tensor(self.stack, v) for v in values]
        result = shape.build(results)
        return (result, pullback, self._settled(kept.pop())) if has_aux else (result, pullback)

    def _settled(self, aux: Any) -> Any:
        """The auxiliary output without the trace that has returned."""
        from nnc_func.autodiff.traced import Traced

        def primal(leaf: Any) -> Any:
            value = leaf.value if isinstance(leaf, Tensor) else leaf
            while type(value) is Traced and not value.trace.live:
                value = value.primal
            return Tensor(self.stack, value) if isinstance(leaf, Tensor) else leaf

        return mapped(primal, aux)

    def value_and_grad(self, f: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Any:
        """A function that gives ``f(*args)`` and its gradient with respect to the arguments `argnums`.

        f returns one floating number (shape ``()``); a tuple of `argnums` gives a tuple of gradients, each a tree
        like its argument. With `has_aux` f returns (number, auxiliary) and the value is that pair.

        Raises
        ------
        DerivativeError
            f's result is not one number, an argument is not floating, or `argnums` are not numbers of arguments.
        """
        chosen = argnums if isinstance(argnums, tuple) else (argnums,)
        if not all(isinstance(i, (int, np.integer)) for i in chosen):
            raise DerivativeError(f"argnums is the number of an argument, or a tuple of some, given {argnums!r}")

        @functools.wraps(f)
        def value_and_gradient(*args: Any, **keywords: Any) -> Any:
            def partially(*some: Any) -> Any:
                whole = list(args)
                for i, x in zip(chosen, some, strict=True):
                    whole[i] = x
                return f(*whole, **keywords)

            _refuse_absent(argnums, [i % len(args) if -len(args) <= i < len(args) else None for i in chosen], len(args))
            result, back, *aux = self.vjp(partially, *[args[i] for i in chosen], has_aux=has_aux)
            if not isinstance(result, Tensor) or result.shape != ():
                given = result.shape if isinstance(result, Tensor) else type(result).__name__
                raise DerivativeError(f"grad wants a function that returns one number, shape (), given {given}; sum it")
            if result.dtype.kind not in "fc":
                raise DerivativeError(f"grad wants a function that returns a floating number, given {result.dtype}")
            found = back(self._beside(result, self.stack.ops.full(shape=(), value=1, dtype=result.dtype)))
            gradients = found if isinstance(argnums, tuple) else found[0]
            return ((result, *aux) if has_aux else result), gradients

        return value_and_gradient

    def grad(self, f: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Any:
        """A function that gives the gradient of f; with `has_aux`, (gradient, auxiliary)."""
        both = self.value_and_grad(f, argnums, has_aux)

        @functools.wraps(f)
        def gradient(*args: Any, **keywords: Any) -> Any:
            value, found = both(*args, **keywords)
            return (found, value[1]) if has_aux else found

        return gradient

    # --- forward mode ---------------------------------------------------------------------------------

    def jvp(self, f: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        """``f(*primals)``, and its derivative along `tangents`: trees like the primals.

        Raises
        ------
        DerivativeError
            Primals and tangents are trees of different structure, or an argument is not floating.
        """
        leaves, structure = flatten([self._tensors(p) for p in primals])
        slopes, its = flatten([self._tensors(t) for t in tangents])
        if its != structure:
            raise DerivativeError(f"tangents are a tree {its}, primals {structure}; they must be equal")
        self._differentiable(leaves)
        for x, t in zip(leaves, slopes, strict=True):
            if x.shape != t.shape:
                raise DerivativeError(f"a tangent has its primal's shape {x.shape}, given {t.shape}")
        kept: list[Any] = []

        def flat(*carriers: Any) -> list[Any]:
            outputs, shape = flatten(f(*structure.build([Tensor(self.stack, c) for c in carriers])))
            kept.append(shape)
            return [self._carrier(v) for v in outputs]

        typed = [
            t.value if t.dtype == x.dtype else t.astype(x.dtype).value for x, t in zip(leaves, slopes, strict=True)
        ]
        values, found = self.autodiff.jvp(flat, [x.value for x in leaves], typed)
        zeros = self.autodiff.functions.zeros_like
        shape = kept.pop()
        return (
            shape.build([Tensor(self.stack, v) for v in values]),
            shape.build([Tensor(self.stack, zeros(v) if t is None else t) for v, t in zip(values, found, strict=True)]),
        )

    # --- matrices -------------------------------------------------------------------------------------

    def jacobian(self, f: Callable[..., Any], argnum: int = 0) -> Any:
        """A function that gives the Jacobian of f, from one tensor to one: shape of the result + of the argument.

        Forward mode where the argument is the smaller of the two, else reverse mode.
        """

        def matrix(*args: Any) -> Any:
            x = self._tensors(args[argnum])
            if not isinstance(x, Tensor):
                raise DerivativeError("jacobian wants one tensor as its argument, given a tree; flatten it first")

            def of(one: Any) -> Any:
                return f(*args[:argnum], one, *args[argnum + 1 :])

            y, back = self.vjp(of, x)
            if not isinstance(y, Tensor):
                raise DerivativeError("jacobian wants a function that returns one tensor, given a tree")
            ops = self.stack.ops
            forward = x.size < y.size
            basis = self._basis(x if forward else y)
            if forward:
                columns = [self.jvp(of, (x,), (e,))[1] for e in basis]
                shape, parts = (*y.shape, *x.shape), [ops.expand_dims(c, axis=-1) for c in columns]
                joined = ops.concat(*parts, axis=len(y.shape)) if parts else None
            else:
                rows = [back(e)[0] for e in basis]
                shape, parts = (*y.shape, *x.shape), [ops.expand_dims(r, axis=0) for r in rows]
                joined = ops.concat(*parts, axis=0) if parts else None
            if joined is None:
                return self._beside(y, ops.full(shape=shape, value=0, dtype=y.dtype))
            return ops.reshape(joined, shape=shape)

        return matrix

    def _basis(self, like: Tensor) -> list[Tensor]:
        ops = self.stack.ops
        size = like.size
        indices = ops.arange(start=0, stop=size)
        identity = ops.one_hot(indices, depth=size, dtype=like.dtype)
        return [self._beside(like, ops.reshape(identity[i], shape=like.shape)) for i in range(size)]

    def _beside(self, like: Tensor, made: Tensor) -> Tensor:
        """What was made without operands, in the place of a tensor."""
        place = self.stack.aval(like).place
        return made if place is None else self.stack.ops.transfer(made, place=place)

    def hessian(self, f: Callable[..., Any], argnum: int = 0) -> Any:
        """A function that gives the second derivatives of f, of one tensor to one number: its shape twice."""
        return self.jacobian(self.grad(f, argnum), argnum)

    def hvp(self, f: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        """The Hessian of f at `primals` times `tangents`, forward over reverse: a tuple of trees like the primals."""
        gradient = self.grad(f, tuple(range(len(primals))))
        return self.jvp(gradient, primals, tangents)[1]

    # --- carriers -------------------------------------------------------------------------------------

    def _tensors(self, tree: Any) -> Any:
        if isinstance(tree, (list, tuple)) and _numbers(tree):
            return self.stack.asarray(tree)
        return mapped(lambda leaf: leaf if isinstance(leaf, Tensor) else self.stack.asarray(leaf), tree)

    def _carrier(self, leaf: Any) -> Any:
        return self.stack.carrier(leaf)

    def _differentiable(self, leaves: list[Tensor]) -> None:
        for x in leaves:
            if x.dtype.kind not in "fc":
                raise DerivativeError(
                    f"derivatives are with respect to floating tensors, given {x.aval!r}; "
                    "cast it, or leave it out of argnums"
                )


def _numbers(tree: Any) -> bool:
    return len(tree) > 0 and all(
        isinstance(v, (int, float, complex)) or (isinstance(v, (list, tuple)) and _numbers(v)) for v in tree
    )


def _refuse_absent(argnums: Any, places: list[int | None], count: int) -> None:
    """Raise DerivativeError where an argument is named that was not given by position, or is named twice."""
    if None in places:
        raise DerivativeError(
            f"argnums={argnums} names an argument that is not there: of those given by position there are {count}, "
            "counted from 0"
        )
    if len(set(places)) < len(places):
        raise DerivativeError(f"argnums={argnums} names an argument twice")
