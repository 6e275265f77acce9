"""Functions of the host with derivatives of the host: what `callback` calls, and how it is differentiated then.

A derivative is a function of arrays as well, and is called by a callback of its own. So it may have a derivative in
turn, to whichever order somebody gives one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import field, frozen

from nnc_func.errors import DerivativeError, OperatorError, ShapeError, check_hash
from nnc_func.facets.derivatives import Refusal


def name_of(function: Any) -> str:
    """What messages call a function."""
    return getattr(function, "__name__", None) or repr(function)


def _checked(instance: Any, attribute: Any, value: Any) -> None:
    if value is None and attribute.name != "function":
        return
    if not callable(value):
        raise OperatorError(f"HostFunction wants a function of NumPy arrays as its {attribute.name}, given {value!r}")
    check_hash(value, "HostFunction")


@frozen(repr=False)
class HostFunction:
    """A function of NumPy arrays with a derivative of the host: what `ops.callback` takes as its `function`.

    It is differentiated with respect to all floating values that the callback is given. The functions that give
    derivatives are to be made of their arguments alone: they are called as often as derivatives want them, with arrays
    that are not to be written to. Each may be a `HostFunction` in turn, whose derivative the next order takes.

    Parameters
    ----------
    function
        Takes arrays, and returns one, a tuple of them, or None; see `ops.callback`.
    vjp
        ``vjp(*values, *results, *cotangents)``, one cotangent for each result and of its shape and dtype, returns the
        cotangent of each value, of its shape, or None where that is zero: a tuple, or an array if there is one value.
        What it needs of the computation besides, such as a factorisation, the function gives as further results.
        Without it there are no gradients (`grad`, `vjp`, `gradients` of values).
    jvp
        ``jvp(*values, *results, *tangents)``, one tangent for each value, returns that of each result. Without it there
        is no forward mode (`jvp`, `hvp`).

    Raises
    ------
    OperatorError
        What is given is no function, or has no hash.

    See Also
    --------
    custom_vjp : a function of tensors with a derivative of its own, which may call functions of the host.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> stack = nnc.lazy()
    >>> sine = nnc.HostFunction(np.sin, vjp=lambda x, y, g: g * np.cos(x))
    >>> def f(x):
    ...     (y,) = stack.ops.callback(x, function=sine, shapes=(x.shape,), dtypes=("float64",), pure=True)
    ...     return (y * x).sum()
    >>> x = np.array([0.0, 1.0])
    >>> stack.grad(f)(x).numpy() - (np.sin(x) + x * np.cos(x))
    array([0., 0.])
    """

    function: Callable[..., Any] = field(validator=_checked)
    vjp: Callable[..., Any] | None = field(default=None, validator=_checked)
    jvp: Callable[..., Any] | None = field(default=None, validator=_checked)

    @property
    def __name__(self) -> str:
        return name_of(self.function)

    def __repr__(self) -> str:
        return f"HostFunction({self.__name__})"

    def __call__(self, *arrays: Any) -> Any:
        """What the function gives."""
        return self.function(*arrays)


@frozen(repr=False)
class Rule:
    """A function that gives a derivative, as what a callback calls: it gives an array for each that is wanted.

    Attributes
    ----------
    rule
        That of the user.
    of
        The name of the function whose derivative it gives.
    kind
        "vjp", or "jvp".
    first, count
        Its results belong to the arguments from that one on, so many.
    """

    rule: Callable[..., Any]
    of: str
    kind: str
    first: int
    count: int

    @property
    def __name__(self) -> str:
        return f"{name_of(self.rule)} ({self.kind} of {self.of})"

    @property
    def vjp(self) -> Any:
        """That of the user's rule."""
        return getattr(self.rule, "vjp", None)

    @property
    def jvp(self) -> Any:
        """That of the user's rule."""
        return getattr(self.rule, "jvp", None)

    def __repr__(self) -> str:
        return f"<{self.__name__}>"

    def __call__(self, *arrays: Any) -> list[Any]:
        """One array for each value (vjp) or result (jvp), in its dtype; zeros for None.

        Raises
        ------
        ShapeError
            There are more or fewer, or one has another shape.
        """
        given = self.rule(*arrays)
        found = list(given) if isinstance(given, (tuple, list)) else [given]
        what, of = ("cotangent", "value") if self.kind == "vjp" else ("tangent", "result")
        if len(found) != self.count:
            raise ShapeError(
                f"{self.__name__} returned {len(found)} arrays, wanted is one {what} for each {of}, {self.count}, or "
                "None where that is zero"
            )
        like = arrays[self.first : self.first + self.count]
        for n, (one, its) in enumerate(zip(found, like, strict=True)):
            if one is None or its.dtype.kind in "biu":
                found[n] = np.zeros_like(its)
            elif np.shape(one) != its.shape:
                raise ShapeError(
                    f"{self.__name__} returned an array of shape {np.shape(one)} as the {what} of {of} {n}, wanted "
                    f"{its.shape}"
                )
        return found


def refusal(*, function: Any, pure: bool = False, **_: Any) -> Refusal | None:
    """Why a function of the host has no derivative; None where it has one."""
    if getattr(function, "repeats", False) and not pure:
        return Refusal(f"{name_of(function)} is computed again for its derivative: say pure=True, if it has no effect")
    if getattr(function, "vjp", None) is not None or getattr(function, "jvp", None) is not None:
        return None
    return Refusal(
        f"what a function of the host computes is not known; give {name_of(function)} a derivative of the host, "
        "function=nnc.HostFunction(f, vjp=...)"
    )


def rule_of(function: Any, kind: str, first: int, count: int) -> Rule:
    """The function that gives a derivative of one, of that kind; see `Rule`.

    Raises
    ------
    DerivativeError
        It was given none of that kind.
    """
    found, name = getattr(function, kind, None), name_of(function)
    if found is None:
        wanted, other = ("reverse mode (grad, vjp)", "jvp") if kind == "vjp" else ("forward mode (jvp, hvp)", "vjp")
        raise DerivativeError(
            f"callback has no derivative in {wanted}: {name} was given a {other}= and no {kind}=, and a function of "
            f"the host cannot be transposed; say nnc.HostFunction({name}, {kind}=...)"
        )
    return Rule(found, name, kind, first, count)
