"""The transformations as methods of a stack, whose functions they transform."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from nnc_func.autodiff.matrices import Matrices
from nnc_func.errors import check_function


def _method(transformation: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(transformation)
    def transformed(stack: Any, f: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        check_function(f, transformation.__name__)
        return transformation(Matrices(stack), f, *args, **keywords)

    return transformed


class Derivatives:
    """What a stack can do with functions: derivatives by trees of tensors, on any engine, nested at will."""

    grad, value_and_grad = _method(Matrices.grad), _method(Matrices.value_and_grad)
    vjp, jvp, linearize = _method(Matrices.vjp), _method(Matrices.jvp), _method(Matrices.linearize)
    derivative, directional_derivative = _method(Matrices.derivative), _method(Matrices.directional_derivative)
    jacobian, hessian, gradhessian = (
        _method(Matrices.jacobian),
        _method(Matrices.hessian),
        _method(Matrices.gradhessian),
    )
    hvp, grad_and_hvp, laplacian = _method(Matrices.hvp), _method(Matrices.grad_and_hvp), _method(Matrices.laplacian)

    def custom_vjp(self, f: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> Any:
        """The function with a derivative of its own, told by cotangents; arrays become tensors of this stack.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> stack = nnc.lazy()
        >>> double = stack.custom_vjp(lambda x: 2 * x).defvjp(lambda x: (2 * x, ()), lambda saved, g: (3 * g,))
        >>> stack.grad(double)(1.0).item()
        3.0
        """
        from nnc_func.autodiff.custom import custom_vjp

        return custom_vjp(f, nondiff_argnums, self)

    def custom_jvp(self, f: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> Any:
        """The function with a derivative of its own, told by tangents; arrays become tensors of this stack.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> stack = nnc.lazy()
        >>> root = stack.custom_jvp(lambda x: x**0.5)
        >>> _ = root.defjvp(lambda primals, tangents: (root(*primals), tangents[0] * 0.5 / root(*primals)))
        >>> stack.grad(root)(4.0).item()
        0.25
        """
        from nnc_func.autodiff.custom import custom_jvp

        return custom_jvp(f, nondiff_argnums, self)
