"""Derivatives of functions of trees of tensors: grad, value_and_grad, vjp, jvp, linearize and what is made of them.

They wrap the Autodiff layer's primitives for a stack's users; each works under the others, in any order.

Complex numbers: of f from C to R, grad gives ∂f/∂x − i ∂f/∂y; cotangents of linear operators are transposed, never
conjugated, so that the gradient of a holomorphic function is its complex derivative.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from nnc_func.autodiff.arguments import (
    Argnums,
    alike,
    differentiable,
    filled,
    flattened,
    matched,
    selected,
    settled,
    tensors,
)
from nnc_func.errors import DerivativeError
from nnc_func.facets.dtypes import kind_of
from nnc_func.garbage_collection import no_full_collections
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import flatten


class Differential:
    """A function's derivative at a point, between trees of tensors.

    Attributes
    ----------
    leaves, structure
        The arguments: tensors, and the list of trees that they are in.
    results, shape
        The result: tensors, and its tree.
    auxiliary
        What else the function returned, as a tuple: one if it has auxiliary values, else none.
    linear
        The linear map between carriers.
    """

    def __init__(self, stack: Any, f: Callable[..., Any], primals: Sequence[Any], has_aux: bool) -> None:
        self.stack = stack
        self.leaves, self.structure = flatten([tensors(stack, p) for p in primals])
        differentiable(self.leaves)
        flat, kept = flattened(stack, f, self.structure, has_aux)
        with no_full_collections():
            values, self.linear = stack.autodiff.linearize(flat, [x.value for x in self.leaves])
        self.shape, aux = kept.pop()
        self.results = [Tensor(stack, v) for v in values]
        self.auxiliary = settled(stack, aux)

    @property
    def value(self) -> Any:
        """The function's result."""
        return self.shape.build(self.results)

    def pull(self, cotangent: Any) -> tuple[Any, ...]:
        """A tuple of trees like the arguments, of a tree like the result."""
        given, its = matched(self.stack, cotangent, self.shape)
        if its != self.shape:
            raise DerivativeError(
                f"the cotangent is a tree {its}, the result is a tree {self.shape}; they must be equal"
            )
        flowing = alike(self.stack, given, self.results, "a cotangent", "result")
        with no_full_collections():
            found = self.linear.pull(flowing)
        return tuple(self.structure.build(filled(self.stack, found, self.leaves)))

    def push(self, *tangents: Any) -> Any:
        """A tree like the result, of trees like the arguments."""
        given, its = matched(self.stack, list(tangents), self.structure)
        if its != self.structure:
            raise DerivativeError(f"tangents are a tree {its}, primals {self.structure}; they must be equal")
        flowing = alike(self.stack, given, self.leaves, "a tangent", "primal")
        with no_full_collections():
            found = self.linear.push(flowing)
        return self.shape.build(filled(self.stack, found, self.results))


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

        Examples
        --------
        >>> import nnc_func as nnc
        >>> y, back = nnc.eager().vjp(lambda x: x * x, [1.0, 2.0])
        >>> back([1.0, 10.0])[0].numpy()
        array([ 2., 40.])
        """
        found = Differential(self.stack, f, primals, has_aux)
        return (found.value, found.pull, *found.auxiliary)

    def linearize(self, f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
        """``f(*primals)``, and the function from tangents of `primals` to that of the result; f is called once.

        With `has_aux` f returns (result, auxiliary), and the auxiliary is the third element.

        Raises
        ------
        DerivativeError
            An argument is neither floating nor complex.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> y, slope = nnc.eager().linearize(lambda x: x**3, 2.0)
        >>> slope(1.0).item(), slope(0.5).item()
        (12.0, 6.0)
        """
        found = Differential(self.stack, f, primals, has_aux)
        return (found.value, found.push, *found.auxiliary)

    def value_and_grad(
        self, f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
    ) -> Any:
        """A function that gives ``f(*args)`` and its gradient with respect to the arguments `argnums`.

        Parameters
        ----------
        f
            Returns one real number (shape ``()``).
        argnums
            Which argument, by number or by name; a tuple of them gives a tuple of gradients, each a tree like its
            argument. An argument that is given by keyword is called by its name.
        has_aux
            f returns (number, auxiliary), and the value is that pair.
        holomorphic
            f is a holomorphic function of complex arguments, with a complex result.

        Raises
        ------
        DerivativeError
            f's result is not one number, an argument is not floating, or `argnums` names what is not there; f's
            result is complex and f not `holomorphic`.
        """

        @functools.wraps(f)
        def value_and_gradient(*args: Any, **keywords: Any) -> Any:
            of, chosen = selected(f, argnums, args, keywords)
            with no_full_collections():
                found = Differential(self.stack, of, chosen, has_aux)
                _one_number(found.value, "grad")
                _holomorphic(found, holomorphic, "grad")
                (result,) = found.results
                gradients = found.pull(self.beside(result, self.stack.ops.full(shape=(), value=1, dtype=result.dtype)))
            value = (result, *found.auxiliary) if has_aux else result
            return value, gradients if isinstance(argnums, tuple) else gradients[0]

        return value_and_gradient

    def grad(
        self, f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
    ) -> Any:
        """A function that gives the gradient of f; with `has_aux`, (gradient, auxiliary). See `value_and_grad`.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> gradient = nnc.eager().grad(lambda x, scale: x * x * scale, argnums=(0, "scale"))
        >>> [each.item() for each in gradient(3.0, scale=2.0)]
        [12.0, 9.0]
        """
        both = self.value_and_grad(f, argnums, has_aux, holomorphic)

        @functools.wraps(f)
        def gradient(*args: Any, **keywords: Any) -> Any:
            value, found = both(*args, **keywords)
            return (found, value[1]) if has_aux else found

        return gradient

    # --- forward mode ---------------------------------------------------------------------------------

    def jvp(
        self, f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
    ) -> tuple[Any, ...]:
        """``f(*primals)``, and its derivative along `tangents`: trees like the primals.

        With `has_aux` f returns (result, auxiliary), and the auxiliary is the third element.

        Raises
        ------
        DerivativeError
            Primals and tangents are trees of different structure, or an argument is not floating.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> value, slope = nnc.eager().jvp(lambda x: x * x, (3.0,), (1.0,))
        >>> value.item(), slope.item()
        (9.0, 6.0)
        """
        _listed(primals, "primals")
        leaves, structure = flatten([tensors(self.stack, p) for p in primals])
        slopes, its = matched(self.stack, list(_listed(tangents, "tangents")), structure)
        if its != structure:
            raise DerivativeError(f"tangents are a tree {its}, primals {structure}; they must be equal")
        differentiable(leaves)
        typed = alike(self.stack, slopes, leaves, "a tangent", "primal")
        flat, kept = flattened(self.stack, f, structure, has_aux)
        values, found = self.autodiff.jvp(flat, [x.value for x in leaves], typed)
        shape, aux = kept.pop()
        results = [Tensor(self.stack, v) for v in values]
        slope = shape.build(filled(self.stack, found, results))
        return (shape.build(results), slope, *settled(self.stack, aux))

    def derivative(self, f: Callable[..., Any]) -> Any:
        """A function that gives the derivative of f, a function of one number; its result may be any tree.

        Raises
        ------
        DerivativeError
            The argument is not one number.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> stack = nnc.eager()
        >>> stack.derivative(stack.derivative(lambda x: x**4))(2.0).item()
        48.0
        """

        @functools.wraps(f)
        def slope(x: Any, *args: Any, **keywords: Any) -> Any:
            x = tensors(self.stack, x)
            _one_number(x, "derivative", "argument")
            one = self.beside(x, self.stack.ops.full(shape=(), value=1, dtype=x.dtype))
            return self.jvp(lambda t: f(t, *args, **keywords), (x,), (one,))[1]

        return slope

    def directional_derivative(
        self, f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], order: int = 1
    ) -> Any:
        """The derivative, of any order, of ``f(primals + ε tangents)`` by ε at 0: a tree like f's result.

        Raises
        ------
        DerivativeError
            As `jvp`; or the order is below 1.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> nnc.eager().directional_derivative(lambda x: x**3, (1.0,), (2.0,), order=2).item()
        24.0
        """
        if order < 1:
            raise DerivativeError(f"a derivative's order is at least 1, given {order}")

        def along(g: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *point: self.jvp(g, point, tangents)[1]

        for _ in range(order):
            f = along(f)
        return f(*primals)

    def beside(self, like: Tensor, made: Tensor) -> Tensor:
        """What was made without operands, in the place of a tensor."""
        place = self.stack.aval(like).place
        return made if place is None else self.stack.ops.transfer(made, place=place)


# --- refusals ---------------------------------------------------------------------------------------------


def _one_number(x: Any, who: str, what: str = "result") -> None:
    if not isinstance(x, Tensor) or x.shape != ():
        given = x.shape if isinstance(x, Tensor) else f"a {type(x).__name__}"
        if what == "result":
            raise DerivativeError(f"{who} wants a function that returns one number, shape (), given {given}; sum it")
        raise DerivativeError(f"{who} wants one number as its argument, shape (), given {given}")
    if kind_of(x.dtype) not in "fc":
        raise DerivativeError(f"{who} wants a function that returns a floating number, given {x.dtype}")


def _holomorphic(found: Differential, holomorphic: bool, who: str) -> None:
    """Refuse what has no gradient by the convention of complex numbers."""
    made = [y.dtype for y in found.results if y.dtype.kind == "c"]
    if holomorphic:
        real = [x.dtype for x in found.leaves if x.dtype.kind != "c"]
        if real:
            raise DerivativeError(f"a holomorphic function is of complex arguments, given {real[0]}")
    elif made:
        raise DerivativeError(
            f"{who} wants a function that returns a real number, given {made[0]}; if it is holomorphic in complex "
            "arguments say holomorphic=True, else take ops.real and ops.imag of it, or use vjp"
        )


def _listed(given: Any, what: str) -> Any:
    if not isinstance(given, (list, tuple)):
        raise DerivativeError(f"{what} are a tuple with one tree for each argument, given {type(given).__name__}")
    return given
