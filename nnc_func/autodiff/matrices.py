"""Derivatives as matrices and what is made of second ones: jacobian, hessian, hvp, laplacian, gradhessian."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from nnc_func.autodiff.arguments import Argnums, selected
from nnc_func.autodiff.transforms import Differential, Transforms
from nnc_func.errors import BatchingError, DerivativeError, TracingError
from nnc_func.facets.dims import known
from nnc_func.graph.tensors.tensor import Tensor

AT_ONCE = 256  # unit vectors


class Matrices(Transforms):
    """The transformations that give matrices: every one is the unit vectors, as a batch, through one linearisation."""

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
            default the one with fewer passes. They are rows of a batch, and f is called once in any case.

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
            found = Differential(self.stack, of, chosen, has_aux)
            blocks = self._blocks(found, self._mode(found, mode, holomorphic))
            trees = [found.structure.build(row) for row in blocks]
            whole = found.shape.build([tuple(t) if isinstance(argnums, tuple) else t[0] for t in trees])
            return (whole, *found.auxiliary) if has_aux else whole

        return matrix

    def _mode(self, found: Differential, mode: str | None, holomorphic: bool) -> str:
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

    def _blocks(self, found: Differential, mode: str) -> list[list[Tensor]]:
        """One row for each tensor of the result, one block in it for each of the arguments."""
        forward = mode == "forward"
        near, far = (found.leaves, found.results) if forward else (found.results, found.leaves)
        apply = found.linear.push if forward else found.linear.pull
        columns = []
        for i, x in enumerate(near):
            given = self._unit_vectors(x)

            def one(e: Any, i: int = i) -> list[Any]:
                return list(apply([e if j == i else None for j in range(len(near))]))

            passed = self._passed(one, given)
            columns.append([self._block(v, x, y, forward) for v, y in zip(passed, far, strict=True)])
        return [[columns[i][j] for i in range(len(near))] for j in range(len(far))] if forward else columns

    def _block(self, passes: Any, near: Tensor, far: Tensor, forward: bool) -> Tensor:
        """The block of two tensors, of its columns (rows), which lie along the first axis; None is zero."""
        ops = self.stack.ops
        shape = (*far.shape, *near.shape) if forward else (*near.shape, *far.shape)
        if passes is None:
            dtype = (far if forward else near).dtype if far.dtype.kind != near.dtype.kind else far.dtype
            return self.beside(far, ops.full(shape=shape, value=0, dtype=dtype))
        whole = Tensor(self.stack, passes)
        last = ops.permute_dims(whole, axes=(*range(1, whole.ndim), 0)) if forward else whole
        return ops.reshape(last, shape=shape)  # type: ignore[no-any-return]

    def _unit_vectors(self, like: Tensor) -> Tensor:
        """The unit vectors of a tensor's shape, along a first axis: rows of one identity."""
        ops, size = self.stack.ops, like.size
        identity = ops.one_hot(ops.arange(start=0, stop=size), depth=size, dtype=like.dtype)
        return self.beside(like, ops.reshape(identity, shape=(size, *like.shape)))

    def _passed(self, apply: Callable[[Any], list[Any]], given: Tensor) -> list[Any]:
        """What a linear function of carriers gives for every one of the vectors, stacked; None is zero.

        So many are applied at once, as rows of a batch, that intermediate values stay a bounded multiple of their
        size. One by one they are where that cannot be: where a rule of one's own takes the elements of a cotangent.
        """
        count = given.shape[0]
        parts = [given[n : n + AT_ONCE] for n in range(0, count, AT_ONCE)] if count > AT_ONCE else [given]
        found = [self._pass(apply, part) for part in parts]
        return [
            self._stacked([values[j] for values in found], [p.shape[0] for p in parts]) for j in range(len(found[0]))
        ]

    def _pass(self, apply: Callable[[Any], list[Any]], given: Tensor) -> list[Any]:
        there: list[bool] = []

        def of_row(row: Tensor) -> list[Tensor]:
            values = apply(row.value)
            there[:] = [v is not None for v in values]
            return [Tensor(self.stack, v) for v in values if v is not None]

        try:
            found = iter(self.stack.vmap(of_row)(given))
        except (BatchingError, TracingError):
            rows = zip(*(apply(given[n].value) for n in range(given.shape[0])), strict=True)
            return [self._stacked([self._row(v) for v in values], [1] * len(values)) for values in rows]
        return [next(found).value if is_there else None for is_there in there]

    def _row(self, value: Any) -> Any:
        return None if value is None else self.autodiff.functions.expand_dims(value, axis=0)

    def _stacked(self, parts: list[Any], counts: list[int]) -> Any:
        """Parts of a batch, one behind the other; None is zero, but not if it is all of them."""
        o = self.autodiff.functions
        like = next((p for p in parts if p is not None), None)
        if like is None or len(parts) == 1:
            return like
        row = tuple(like.shape[1:])
        whole = [
            o.full(shape=(n, *row), value=0, dtype=o.dtype(like)) if p is None else p
            for p, n in zip(parts, counts, strict=True)
        ]
        return o.concat(*whole, axis=0)

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

        The gradient is linearised once and its columns are asked for their diagonal elements.

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
            found = Differential(self.stack, self.grad(of, tuple(range(len(chosen)))), chosen, False)
            self._mode(found, "forward", False)
            ops, diagonal = self.stack.ops, []
            for i, x in enumerate(found.leaves):
                given, count = self._unit_vectors(x), len(found.leaves)

                def column(e: Any, i: int = i, count: int = count) -> list[Any]:
                    return [found.linear.push([e if j == i else None for j in range(count)])[i]]

                (slopes,) = self._passed(column, given)
                if slopes is not None:
                    diagonal.append(ops.sum(Tensor(self.stack, slopes) * given))
            if not diagonal:
                like = found.leaves[0]
                return self.beside(like, ops.full(shape=(), value=0, dtype=like.dtype))
            return ops.sum(ops.stack(*diagonal, axis=0))

        return trace


def _count(tensors: Sequence[Tensor]) -> int:
    return sum(math.prod(t.shape) for t in tensors)
