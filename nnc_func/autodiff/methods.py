"""The transformations as methods of a stack, whose functions they transform."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from nnc_func.autodiff.matrices import Matrices
from nnc_func.errors import LayerError, NncError, check_function
from nnc_func.graph.origin import name_line
from nnc_func.graph.pauses import Pause, owner_of
from nnc_func.graph.tensors.tensor import listed

if TYPE_CHECKING:
    from nnc_func.engine.dynamic.live import Live
    from nnc_func.engine.dynamic.memoisation import Memoisation
    from nnc_func.engine.dynamic.replay.replay import Replays
    from nnc_func.graph.graph import ComputationGraph
    from nnc_func.graph.tensors.tensor import Tensor


def _method(transformation: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(transformation)
    def transformed(stack: Any, f: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        check_function(f, transformation.__name__)
        return transformation(Matrices(stack), f, *args, **keywords)

    return transformed


class Derivatives:
    """What a stack can do with functions: derivatives by trees of tensors, on any engine, nested at will.

    And what a dynamic one can do with values.
    """

    engine: Any
    _before: Any  # what stands before operators that are deferred

    grad, value_and_grad = _method(Matrices.grad), _method(Matrices.value_and_grad)
    vjp, jvp, linearize = _method(Matrices.vjp), _method(Matrices.jvp), _method(Matrices.linearize)
    derivative, directional_derivative = _method(Matrices.derivative), _method(Matrices.directional_derivative)
    jacobian, hessian, gradhessian = (
        _method(Matrices.jacobian),
        _method(Matrices.hessian),
        _method(Matrices.gradhessian),
    )
    hvp, grad_and_hvp, laplacian = _method(Matrices.hvp), _method(Matrices.grad_and_hvp), _method(Matrices.laplacian)

    def gradients(
        self, ys: Sequence[Tensor], xs: Sequence[Tensor], cotangents: Sequence[Any] | None = None,
        into: Sequence[Any] | None = None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """On a dynamic stack, the gradients of values with respect to values that they were made of.

        They are tensors of the stack and recorded in turn, so that there are gradients of gradients; under `no_grad`
        they are constants. It may be asked as often as one likes.

        Parameters
        ----------
        ys
            Values. What is differentiated is their sum, each times its cotangent.
        xs
            Variables, or values on the way, of floating or complex dtype. The gradient is zero with respect to what no
            y was made of; so are all gradients of a y that is a constant.
        cotangents
            One for each y, of its shape; None, all together or for one: ones, or zero.
        into
            For each x what its gradient is added to, or None.

        Returns
        -------
        tuple of Tensor
            In the order of `xs`, each of its shape and dtype.

        Raises
        ------
        DerivativeError
            An x is a constant, of which nothing was recorded; a y or an x is no floating tensor; shapes differ; an
            operator on the way has no derivative.
        LayerError
            The engine records nothing.

        Warns
        -----
        GradientWarning
            Nothing was recorded of any y, so that all gradients are zero; not where cotangents are given, or `into`.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> stack = nnc.dynamic()
        >>> x = stack.variable("x", 3.0)
        >>> (slope,) = stack.gradients([x**3], [x])
        >>> slope.item(), stack.gradients([slope], [x])[0].item()
        (27.0, 18.0)
        """
        from nnc_func.autodiff.values import gradients

        flow = partial(gradients, self) if self._before is None else self._before.gradients
        try:
            self._recording("gradients of values")
            found: tuple[Tensor, ...] = flow(listed(ys, "ys"), listed(xs, "xs"), cotangents, into)
        except NncError as error:
            name_line(error)
            raise
        return found

    def trace(self, *ys: Tensor) -> ComputationGraph:
        """On a dynamic stack, the graph behind values: it prints, draws, exports, and compiles on any other stack.

        A variable in it stands for the variable. What was detached or computed under `no_grad`, and what was made of
        nothing that is held, is a constant of it.

        Raises
        ------
        LayerError
            The engine records nothing.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> stack = nnc.dynamic()
        >>> x = stack.variable("x", [1.0, 2.0])
        >>> graph = stack.trace(stack.ops.exp(x) * 2)
        >>> [node.op.name for node in graph.nodes]
        ['variable', 'exp', 'constant', 'multiply']
        """
        from nnc_func.autodiff.values import trace

        self._recording("the graph behind a value")
        return trace(self, *ys)

    @property
    def live(self) -> Live:
        """On a dynamic stack, what is alive of what was recorded, in numbers; a notebook shows each value of it.

        Raises
        ------
        LayerError
            The engine records nothing.
        """
        from nnc_func.engine.dynamic.live import live

        recording = self._recording("what is alive")
        if self._before is not None:
            self._before.flush()
        return live(recording, self.engine.memo)

    @property
    def replays(self) -> Replays:
        """On a dynamic stack that replays, what it has replayed, in numbers.

        Raises
        ------
        LayerError
            It does not.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> stack = nnc.dynamic(replay_after=2)
        >>> x = stack.asarray([1.0, 2.0])
        >>> for _ in range(9):
        ...     y = stack.ops.tanh(x * x).numpy()
        >>> stack.replays.prefixes, stack.replays.programs
        (6, 1)
        """
        found: Replays | None = getattr(self._before, "replays", None)
        if found is None:
            raise LayerError("nothing is replayed here: compute on nnc.dynamic(replay_after=3)")
        return found

    @property
    def memoisation(self) -> Memoisation:
        """On a dynamic stack, what its memoisation has found again, and what it keeps: see ``nnc.dynamic(memoise=)``.

        Raises
        ------
        LayerError
            The engine records nothing.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> print(nnc.dynamic().memoisation)
        nothing is memoised
        """
        from nnc_func.engine.dynamic.memoisation import Memoisation

        self._recording("what is memoised")
        memo = self.engine.memo
        return Memoisation() if memo is None else memo.figures

    def no_grad(self) -> Pause:
        """While it is open what is computed in this thread is a constant: no gradient flows through it.

        It is also a decorator, of functions during whose calls it is open.

        A dynamic stack records nothing meanwhile, and `grad`, `jvp` and others that were begun before take what is
        computed as they take `stop_gradient` of it. What begins meanwhile is differentiated as ever.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> stack = nnc.dynamic()
        >>> x = stack.variable("x", 3.0)
        >>> with stack.no_grad():
        ...     y = x * x
        >>> stack.live.nodes
        0
        """
        stack: Any = self
        return Pause(owner_of(stack.autodiff))

    def _recording(self, what: str) -> Any:
        found = getattr(self.engine, "recording", None)
        if found is None:
            raise LayerError(
                f"{what}: {type(self.engine).__name__} records nothing; compute on nnc.dynamic(), or "
                "stack.swap(engine=nnc.Dynamic)"
            )
        return found

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
