"""What an entry of the table is given as `o`: our operators, and what is known of the node that it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnc_func.errors import OnnxError
from nnc_func.facets.dims import known
from nnc_func.onnx.types import dtype_of


class Context:
    """Our operators as functions, and the node.

    Attributes
    ----------
    node
        The NodeProto.
    since
        The version of its operator.
    opset
        The operator set of its domain that the model imports.
    results
        How many results it names.

    Examples
    --------
    >>> import numpy as np, nnc_func as nnc
    >>> from nnc_func.onnx.tracing import Trace
    >>> o = Trace(nnc.eager()).context()
    >>> o.add(np.ones(2), 1).numpy(), o.known(o.exp(0.0))
    (array([2., 2.]), array(1.))
    """

    __slots__ = ("_asked", "_operators", "_trace", "node", "opset", "results", "since")

    def __init__(self, trace: Any, node: Any = None, since: int = 1, opset: int = 1, asked: Any = None) -> None:
        self._trace = trace
        self._asked = asked
        self._operators = trace.operators
        self.node = node
        self.since = since
        self.opset = opset
        self.results = 1 if node is None else len(node.output)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operators, name)

    def step(self) -> None:
        """Count a step of a loop that is written out.

        Raises
        ------
        OnnxError
            There are too many.
        """
        self._trace.step()

    @property
    def steps_left(self) -> int:
        """How many steps of loops may still be counted."""
        return int(self._trace.steps_left)

    def rolls(self, graph: Any, never: bool = False) -> bool:
        """Whether an inner graph may become the body of one operator; with `never` it is not tried again."""
        return bool(self._trace.rolls(graph, never))

    def traced(self, f: Any, avals: Sequence[Any]) -> Any:
        """A function of tensors as a body (`control_flow.tracing.TracedBody`)."""
        return self._trace.traced(f, avals)

    def branched(self, condition: Any, then: Any, otherwise: Any) -> Any:
        """What one of two functions gives, by one operator."""
        return self._trace.branched(condition, then, otherwise)

    def lifted(self, value: Any) -> Any:
        """A tensor of what flows through the stack's layers."""
        return self._trace.lifted(value)

    def key(self, seed: int) -> Any:
        """The key of a random generator."""
        return self._trace.stack.key(seed)

    def tensor(self, value: Any) -> Any:
        """A tensor of a NumPy array, which may have symbolic extents in it, or of anything else that is none yet."""
        return self._trace.tensor(value)

    def known(self, x: Any) -> np.ndarray[Any, Any]:
        """The elements of a tensor as a NumPy array; integers may be symbolic extents (``dtype=object``).

        Raises
        ------
        Unresolved
            They depend on an input.
        """
        found: np.ndarray[Any, Any] = self._trace.known(x)
        return found

    def unresolved(self, message: str) -> OnnxError:
        """The error that says that symbolic extents decide what cannot be symbolic."""
        found: OnnxError = self._trace.unresolved(message)
        return found

    def is_known(self, x: Any) -> bool:
        """Whether `known` has an answer."""
        return bool(self._trace.is_known(x))

    def wants(self, result: int) -> bool:
        """Whether the node names its result of that number."""
        return self.node is None or (result < len(self.node.output) and bool(self.node.output[result]))

    def is_read(self, result: int) -> bool:
        """Whether the node names its result of that number, and somebody reads it."""
        if self.node is None or not self.wants(result):
            return self.node is None
        return self._asked is None or self.node.output[result] in self._asked

    def dtype(self, element: int) -> np.dtype[Any]:
        """The NumPy dtype of ONNX's number for an element type."""
        return dtype_of(element)

    def integers(self, values: Any) -> tuple[Any, ...]:
        """The elements of a known array as Python integers, or symbolic extents.

        Examples
        --------
        >>> import numpy as np, nnc_func as nnc
        >>> from nnc_func.onnx.tracing import Trace
        >>> Trace(nnc.eager()).context().integers(np.array([2, 3]))
        (2, 3)
        """
        return tuple(n if not isinstance(n, np.generic) else int(n) for n in np.asarray(values).ravel().tolist())

    def sized(self, values: Any, itemsize: int = 8) -> tuple[Any, ...]:
        """The elements of a known array as the shape of an array that is to be made.

        Raises
        ------
        OnnxError
            An extent is negative, or it would be larger than reading the model may make.
        """
        found = self.integers(values)
        self._trace.allowance.check(found, itemsize, "an array")
        return found

    def axes(self, values: Any, rank: int) -> tuple[int, ...]:
        """Axes counted from the front, each once.

        Raises
        ------
        OnnxError
            One is none of that rank, or is there twice.
        """
        found = []
        for axis in self.integers(values):
            if not -rank <= axis < rank:
                raise OnnxError(f"axis {axis} of a tensor of rank {rank}")
            found.append(axis % rank)
        if len(set(found)) != len(found):
            raise OnnxError(f"axes {tuple(found)}: one is there twice")
        return tuple(found)

    def axis(self, value: Any, rank: int) -> int:
        """One axis, counted from the front.

        Raises
        ------
        OnnxError
            It is none of that rank.
        """
        return self.axes([value], rank)[0]

    def extents(self, x: Any) -> tuple[int, ...]:
        """The shape of a tensor, whose extents are known.

        Raises
        ------
        Unresolved
            One is symbolic.
        """
        if not all(map(known, x.shape)):
            raise self.unresolved(f"extents of {tuple(map(str, x.shape))} are not known")
        return tuple(x.shape)

    def scalar(self, value: Any, like: Any) -> Any:
        """A number as a tensor of the dtype of another."""
        return self._operators.full(shape=(), value=value, dtype=like.dtype)

    def full_sequence(self, values: Sequence[Any], length: int, default: Any) -> tuple[Any, ...]:
        """An attribute that may be left out: its values, or as many times the default as asked for.

        Raises
        ------
        OnnxError
            There are not as many.
        """
        if not values:
            return (default,) * length
        if len(values) != length:
            raise OnnxError(f"{tuple(values)}: {length} values are wanted")
        return tuple(values)
