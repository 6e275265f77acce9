"""Updates: what changes parameters. Values with `init(parameters)`, and called once a step with gradients.

Each is written with operators only; step number and rate are tensors, so a compiled step bakes in neither.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from attrs import frozen

from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets.dims import same_extent
from nnc_func.facets.dtypes import FLOAT32, is_bfloat16, kind_of
from nnc_func.graph.origin import with_line
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.nn.inputs import in_tensor
from nnc_func.tree import flatten

Slots = dict[str, Any]


class Update:
    """What updates share: trees. Subclasses say what happens to one parameter.

    A subclass is a frozen attrs class with `slots`, the names of what it remembers of each parameter (all start at
    zero), and `one`.
    """

    slots: ClassVar[tuple[str, ...]] = ()

    def init(self, parameters: Any) -> Slots:
        """The slots before the first step: for each name a tree of zeros like the parameters."""
        leaves, structure = flatten(parameters)
        return {name: structure.build([np.zeros(p.shape, _computed_in(p)) for p in leaves]) for name in self._names()}

    def __call__(self, gradients: Any, slots: Slots, parameters: Any, step: Any, rate: Any) -> tuple[Any, Slots]:
        """New parameters and new slots, of gradients like the parameters, or a list or a tuple of one for each leaf.

        Parameters
        ----------
        step
            Number of steps done before this one, an integer tensor or number.
        rate
            Learning rate, a tensor or number.

        Raises
        ------
        OperatorError
            Trees of different structure, slots of another update, a rate that is no number, or no tensor among them.
        ShapeError, DTypeError
            A gradient of another shape than its parameter's, slots that change it, or a complex one of a real one.
        """
        leaves, structure = flatten(parameters)
        found, its = flatten(gradients)
        names = self._names()
        is_flat = isinstance(gradients, (tuple, list)) and len(gradients) == len(found) == len(leaves)
        has_slots = isinstance(slots, dict) and set(slots) == {*names}
        columns = [flatten(slots[name])[0] for name in names] if has_slots else []
        fits = has_slots and all(len(column) == len(leaves) for column in columns)
        if (its != structure and not is_flat) or not fits:
            raise OperatorError(
                f"{self!r} wants gradients like the parameters, or one for each, and the slots {names}, made by "
                f"init(parameters); given {len(found)} gradients for {len(leaves)} parameters, nested as {its!r} and "
                f"{structure!r}, and the slots {slots if not isinstance(slots, dict) else tuple(slots)}"
            )
        for what, number in (("rate", rate), ("step", step)):
            if not _is_real(number):
                given = f"{number!r}{', which is not real' if np.ndim(number) == 0 else ''}"
                raise OperatorError(with_line(f"{self!r} takes a {what} that is one number, given {given}"))
        if not isinstance(step, Tensor) and step < 0:
            raise OperatorError(with_line(f"{self!r} counts steps from 0 on, given step {step!r}"))
        if not all(isinstance(each, Tensor) for each in (*found, *leaves)):
            found, leaves = ([in_tensor(self, x, found, leaves) for x in each] for each in (found, leaves))
        rows = [
            self._row(g, p, tuple([column[i] for column in columns]), step, rate)
            for i, (g, p) in enumerate(zip(found, leaves, strict=True))
        ]
        parts = [structure.build([row[at] for row in rows]) for at in range(1 + len(names))]
        return parts[0], dict(zip(names, parts[1:], strict=True))

    def _row(self, g: Any, p: Any, slots: tuple[Any, ...], step: Any, rate: Any) -> tuple[Any, ...]:
        """The new parameter, of its shape and dtype, and its slots."""
        own, wanted, shape = p.dtype, _computed_in(p), p.shape
        if kind_of(g.dtype) == "c" and kind_of(own) != "c":
            raise DTypeError(with_line(f"{self!r} wants the gradient of a real parameter real, given {g.aval!r}"))
        if not _may_be(g.shape, shape):
            raise ShapeError(with_line(f"{self!r} wants a gradient of the parameter's shape {shape}, given {g.shape}"))
        if own != wanted:  # bfloat16
            g, p = g.astype(wanted), p.astype(wanted)
        new, kept = self.one(g, slots, p, _like(step, p), _like(rate, p))
        if not _may_be(new.shape, shape):
            given = ", ".join(str(getattr(each, "shape", ())) for each in slots)
            raise ShapeError(with_line(f"{self!r} wants slots of the parameter's shape {shape}, given {given}"))
        return (new if new.dtype == own or kind_of(own) not in "fc" else new.astype(own), *kept)

    def _names(self) -> tuple[str, ...]:
        return type(self).slots

    def one(self, g: Any, slots: tuple[Any, ...], p: Any, step: Any, rate: Any) -> tuple[Any, tuple[Any, ...]]:
        """The new parameter and its new slots."""
        raise OperatorError(f"{type(self).__name__} does not say how a parameter is updated: define one(...)")


def _computed_in(p: Any) -> Any:
    """The dtype of what is remembered of a parameter: its own, or float32 of bfloat16, in which 0.999 is 1."""
    own = np.dtype(str(p.dtype))
    return FLOAT32 if is_bfloat16(own) else own


def _may_be(given: Any, wanted: Any) -> bool:
    """Whether a shape may be another: extents that are not known are looked at when a program runs."""
    return len(given) == len(wanted) and all(map(same_extent, given, wanted))


def _is_real(number: Any) -> bool:
    """Whether it is one number that is real, in a tensor or not."""
    if isinstance(number, (int, float)):
        return True
    dtype = getattr(number, "dtype", None)
    return dtype is not None and getattr(number, "shape", None) == () and kind_of(dtype) in "biuf"


def _like(number: Any, p: Any) -> Any:
    """The number in the parameter's dtype, so that a wider one does not widen the parameter."""
    dtype = getattr(number, "dtype", None)
    if dtype is None or dtype == p.dtype:
        return number
    return number.astype(p.dtype)


@frozen
class SGD(Update):
    """``p - rate * v`` with ``v = momentum * v + g``; with `nesterov`, ``p - rate * (g + momentum * v)``.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> w = nnc.eager().asarray([1.0])
    >>> update = SGD()
    >>> update([w * 2], update.init([w]), [w], 0, 0.25)[0][0].numpy()
    array([0.5])
    """

    momentum: float = 0.0
    nesterov: bool = False

    def _names(self) -> tuple[str, ...]:
        return ("velocity",) if self.momentum else ()

    def one(self, g: Any, slots: tuple[Any, ...], p: Any, step: Any, rate: Any) -> tuple[Any, tuple[Any, ...]]:
        """One step against the gradient, or the velocity."""
        if not self.momentum:
            return p - g * rate, ()
        v = slots[0] * self.momentum + g
        along = g + v * self.momentum if self.nesterov else v
        return p - along * rate, (v,)


@frozen
class Adagrad(Update):
    """``p - rate * g / (sqrt(h) + epsilon)`` with h the sum of all ``g * g``; Duchi, Hazan and Singer, JMLR 2011.

    With `epsilon_in_root` it is ``rate * g / sqrt(h + epsilon)``, as in Owl with epsilon 1e-32: there a parameter whose
    gradients have been below 1e-16 moves by the whole rate, so rounding is amplified; prefer the default.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> w = nnc.eager().asarray([1.0])
    >>> update = Adagrad()
    >>> update([w * 3], update.init([w]), [w], 0, 0.25)[0][0].numpy().round(6)
    array([0.75])
    """

    epsilon: float = 1e-7
    epsilon_in_root: bool = False

    slots: ClassVar[tuple[str, ...]] = ("squares",)

    def one(self, g: Any, slots: tuple[Any, ...], p: Any, step: Any, rate: Any) -> tuple[Any, tuple[Any, ...]]:
        """One step, shorter along what has moved much."""
        h = slots[0] + g * g
        return p - g * rate / _rooted(h, self.epsilon, self.epsilon_in_root), (h,)


@frozen
class RMSprop(Update):
    """``p - rate * g / (sqrt(h) + epsilon)`` with h a running mean of ``g * g``; Tieleman and Hinton, 2012.

    Examples
    --------
    >>> RMSprop()
    RMSprop(decay=0.9, epsilon=1e-07, epsilon_in_root=False)
    """

    decay: float = 0.9
    epsilon: float = 1e-7
    epsilon_in_root: bool = False

    slots: ClassVar[tuple[str, ...]] = ("squares",)

    def one(self, g: Any, slots: tuple[Any, ...], p: Any, step: Any, rate: Any) -> tuple[Any, tuple[Any, ...]]:
        """One step, scaled by the recent size of gradients."""
        h = slots[0] * self.decay + g * g * (1 - self.decay)
        return p - g * rate / _rooted(h, self.epsilon, self.epsilon_in_root), (h,)


@frozen
class Adam(Update):
    """``p - rate * m / (sqrt(v) + epsilon)``, m and v running means of g and ``g * g``, corrected for starting at zero.

    Kingma and Ba, ICLR 2015. Where g is exactly 0 the parameter still moves by its mean m. `epsilon` is outside of the
    root, beside the corrected v.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> w = nnc.eager().asarray([1.0])
    >>> update = Adam()
    >>> update([w * 3], update.init([w]), [w], 0, 0.25)[0][0].numpy().round(6)
    array([0.75])
    """

    decay: float = 0.9
    square_decay: float = 0.999
    epsilon: float = 1e-8

    slots: ClassVar[tuple[str, ...]] = ("mean", "squares")

    def one(self, g: Any, slots: tuple[Any, ...], p: Any, step: Any, rate: Any) -> tuple[Any, tuple[Any, ...]]:
        """One step along the mean gradient, scaled by the recent size of gradients."""
        m = slots[0] * self.decay + g * (1 - self.decay)
        v = slots[1] * self.square_decay + g * g * (1 - self.square_decay)
        done = step + 1
        first = 1 - self.decay**done
        second = 1 - self.square_decay**done
        return p - m * (rate / first) / (p.stack.ops.sqrt(v / second) + self.epsilon), (m, v)


def _rooted(h: Any, epsilon: float, inside: bool) -> Any:
    sqrt = h.stack.ops.sqrt
    return sqrt(h + epsilon) if inside else sqrt(h) + epsilon
