"""Derivatives as matrices and what is made of second ones: jacobian, hessian, hvp, laplacian, gradhessian."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from nnc_func.autodiff.arguments import Argnums, selected
from nnc_func.autodiff.transforms import Derivative, Transforms
from nnc_func.errors import DerivativeError
from nnc_func.facets.dims import known
from nnc_func.graph.tensor import Tensor


class Matrices(Transforms):
    """The transformations that give matrices: every one is a column or a row at a time through one linearisation."""

    __slots__ = ()

    def jacobian(
        self,
        f: Callable[..., Any],
        argnums: Argnums = 0,
        has_aux: bool = False,
        holomorphic: bool = False,
        mode: str | None = None,
    ) -> Any:
        """A function that gives the Jacobian of f: for each tensor of the result a tree like the argument.

        Parameters
        ----------
        f
            From trees of tensors to a tree of tensors. Of one tensor to one, the Jacobian is one tensor.
        argnums
            As of `grad`; a tuple gives a tuple of trees for each tensor of the result.
        has_aux
            f returns (result, auxiliary), and so does the Jacobian's function.
        holomorphic
            Both argument and result are complex, and f is holomorphic.
        mode
            ``"forward"``, a pass for each element of the arguments; ``"reverse"``, one for each of the result; by
            default the one with fewer passes. f is called once in any case.

        Returns
        -------
        A function of f's arguments; blocks have the shape of a result's tensor and then of an argument's.

        Raises
        ------
        DerivativeError
            An extent is unknown; complex to complex without `holomorphic`.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> nnc.eager().jacobian(lambda x: x[1:] * x[0])([2.0, 3.0, 4.0]).numpy()
        array([[3., 2., 0.],
               [4., 0., 2.]])
        """
        if mode not in (None, "forward", "reverse"):
            raise DerivativeError(f"mode is forward, reverse or None, given {mode!r}")

        @functools.wraps(f)
        def matrix(*args: Any, **keywords: Any) -> Any:
            of, chosen = selected(f, argnums, args, keywords)
            found = Derivative(self.stack, of, chosen, has_aux)
            blocks = self._blocks(found, self._mode(found, mode, holomorphic))
            trees = [found.structure.build(row) for row in blocks]
            whole = found.shape.build([tuple(t) if isinstance(argnums, tuple) else t[0] for t in trees])
            return (whole, *found.auxiliary) if has_aux else whole

        return matrix

    def _mode(self, found: Derivative, mode: str | None, holomorphic: bool) -> str:
        """Forward or reverse: as asked for, as complex numbers want, or by size."""
        for x in (*found.leaves, *found.results):
            if not all(known(n) for n in x.shape):
                raise DerivativeError(f"a Jacobian wants known extents, given {x.aval!r}")
        given = {x.dtype.kind for x in found.leaves}
        made = {y.dtype.kind for y in found.results}
        if holomorphic and (given != {"c"} or made != {"c"}):
            raise DerivativeError("a holomorphic function is from complex arguments to complex results")
        wanted = None
        if not holomorphic and "c" in given:
            wanted = "reverse"
        if not holomorphic and "c" in made:
            if wanted:
                raise DerivativeError(
                    "a Jacobian from complex to complex tensors is one number an entry only if the function is "
                    "holomorphic: say holomorphic=True, or take real and imaginary parts"
                )
            wanted = "forward"
        if wanted and mode not in (None, wanted):
            raise DerivativeError(f"between real and complex tensors a Jacobian goes {wanted}, asked for {mode}")
        forward = _count(found.leaves) <= _count(found.results)
        return wanted or mode or ("forward" if forward else "reverse")

    def _blocks(self, found: Derivative, mode: str) -> list[list[Tensor]]:
        """One row for each tensor of the result, one block in it for each of the arguments."""
        forward = mode == "forward"
        near, far = (found.leaves, found.results) if forward else (found.results, found.leaves)
        apply = found.linear.push if forward else found.linear.pull
        columns = []
        for i, x in enumerate(near):
            passes = [apply([e.value if j == i else None for j in range(len(near))]) for e in self._basis(x)]
            columns.append([self._joined([p[j] for p in passes], x, y, forward) for j, y in enumerate(far)])
        return [[columns[i][j] for i in range(len(near))] for j in range(len(far))] if forward else columns

    def _joined(self, parts: list[Any], near: Tensor, far: Tensor, forward: bool) -> Tensor:
        """The block of two tensors, of its columns (rows); None is zero."""
        ops = self.stack.ops
        shape = (*far.shape, *near.shape) if forward else (*near.shape, *far.shape)
        if all(p is None for p in parts):
            dtype = (far if forward else near).dtype if far.dtype.kind != near.dtype.kind else far.dtype
            return self.beside(far, ops.full(shape=shape, value=0, dtype=dtype))
        zeros = self.autodiff.functions.zeros_like
        whole = [Tensor(self.stack, zeros(far.value) if p is None else p) for p in parts]
        return ops.reshape(ops.stack(*whole, axis=-1 if forward else 0), shape=shape)  # type: ignore[no-any-return]

    def _basis(self, like: Tensor) -> list[Tensor]:
        """The unit vectors of a tensor's shape: rows of one identity."""
        ops, size = self.stack.ops, like.size
        identity = ops.one_hot(ops.arange(start=0, stop=size), depth=size, dtype=like.dtype)
        rows = self.beside(like, ops.reshape(identity, shape=(size, *like.shape)))
        return [rows[i] for i in range(size)]

    # --- second order ---------------------------------------------------------------------------------

    def hessian(
        self, f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
    ) -> Any:
        """A function that gives the second derivatives of f, of trees of tensors to one number.

        Of one tensor it is one tensor, of the argument's shape twice; of trees, a tree of trees of such blocks.

        Raises
        ------
        DerivativeError
            As `grad` and `jacobian`.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> nnc.eager().hessian(lambda x: (x**3).sum())([1.0, 2.0]).numpy()
        array([[ 6.,  0.],
               [ 0., 12.]])
        """
        return self.jacobian(self.grad(f, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)

    def gradhessian(
        self, f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
    ) -> Any:
        """A function that gives (gradient, Hessian) of f, and the auxiliary value if it has one; f is called once.

        Raises
        ------
        DerivativeError
            As `grad` and `jacobian`.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> gradient, hessian = nnc.eager().gradhessian(lambda x: x**3)(2.0)
        >>> gradient.item(), hessian.item()
        (12.0, 12.0)
        """
        gradient = self.grad(f, argnums, has_aux, holomorphic)

        def twice(*args: Any, **keywords: Any) -> Any:
            found = gradient(*args, **keywords)
            return (found[0], found) if has_aux else (found, (found,))

        matrix = self.jacobian(twice, argnums, True, holomorphic)

        @functools.wraps(f)
        def both(*args: Any, **keywords: Any) -> Any:
            hessian, (first, *aux) = matrix(*args, **keywords)
            return (first, hessian, *aux)

        return both

    def hvp(self, f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """The Hessian of f at `primals` times `tangents`, forward over reverse: a tuple of trees like the primals.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> nnc.eager().hvp(lambda x: (x**3).sum(), ([1.0, 2.0],), ([1.0, 1.0],))[0].numpy()
        array([ 6., 12.])
        """
        return self.grad_and_hvp(f, primals, tangents)[1]

    def grad_and_hvp(self, f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
        """The gradient of f at `primals`, and its Hessian times `tangents`: tuples of trees like the primals.

        Raises
        ------
        DerivativeError
            As `grad` and `jvp`.
        """
        return self.jvp(self.grad(f, tuple(range(len(primals)))), primals, tangents)

    def laplacian(self, f: Callable[..., Any], argnums: Argnums = 0) -> Any:
        """A function that gives the trace of f's Hessian, for f of trees of tensors to one number.

        The gradient is linearised once and asked for one diagonal element at a time; no matrix is made.

        Raises
        ------
        DerivativeError
            As `grad`; an extent is unknown; an argument is complex.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> nnc.eager().laplacian(lambda x: (x**3).sum())([1.0, 2.0]).item()
        18.0
        """

        @functools.wraps(f)
        def trace(*args: Any, **keywords: Any) -> Any:
            of, chosen = selected(f, argnums, args, keywords)
            found = Derivative(self.stack, self.grad(of, tuple(range(len(chosen)))), chosen, False)
            self._mode(found, "forward", False)
            ops, diagonal = self.stack.ops, []
            for i, x in enumerate(found.leaves):
                for e in self._basis(x):
                    slope = found.linear.push([e.value if j == i else None for j in range(len(found.leaves))])[i]
                    if slope is not None:
                        diagonal.append(ops.sum(Tensor(self.stack, slope) * e))
            if not diagonal:
                like = found.leaves[0]
                return self.beside(like, ops.full(shape=(), value=0, dtype=like.dtype))
            return ops.sum(ops.stack(*diagonal, axis=0))

        return trace


def _count(tensors: Sequence[Tensor]) -> int:
    return sum(math.prod(t.shape) for t in tensors)
