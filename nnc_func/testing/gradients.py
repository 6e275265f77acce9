"""check_gradients: a user's function against differences, in both modes and to any order; the first error in words."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from nnc_func.errors import DerivativeError
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import LEAF, Structure, flatten

STEP = 1e-5  # of central differences
DIFFERENCES = 1e-6  # relative: what STEP leaves
ROUTES = 1e-8  # relative: ways to one second derivative differ by rounding alone
ADJOINT = 1e-9  # relative: so do a map and its transpose
MOST = 64  # elements of an argument that are moved one by one; of a larger one so many are chosen

Function = Callable[..., list[Any]]


def check_gradients(
    f: Callable[..., Any],
    *args: Any,
    order: int = 2,
    modes: Sequence[str] = ("forward", "reverse"),
    stack: Any = None,
    step: float = STEP,
    tolerance: float = DIFFERENCES,
) -> None:
    """Check a function's derivatives: against central differences, and against each other.

    Each mode is compared with differences along every element (along the real and the imaginary axis of complex
    ones), the two modes by ⟨g, J t⟩ = ⟨Jᵀ g, t⟩. Order 2 does the same for ``x ↦ J(x) t`` and ``x ↦ J(x)ᵀ g``: forward
    over forward, reverse over forward, and so on; and the ways to one second derivative agree to 1e-8.

    Parameters
    ----------
    f
        From trees of tensors to a tree of tensors. It must be smooth at `args`, and give the same each time.
    args
        Trees of tensors or arrays. Floating ones are taken in float64 (complex128); others stay as they are.
    order
        How often f is differentiated.
    modes
        ``"forward"``, ``"reverse"`` or both.
    stack
        On which stack; by default that of the first tensor among the arguments, else an eager one.
    step
        By how much an element is moved.
    tolerance
        Relative to the largest derivative beside it, or to 1; what differences leave.

    Raises
    ------
    AssertionError
        Derivatives are wrong: names the mode, the first wrong argument and element, and both numbers.
    DerivativeError
        Modes that there are not, or none, or an order below 1: nothing would be checked.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.eager()
    >>> check_gradients(lambda x: stack.ops.tanh(x) * x, [0.5, -1.0])
    >>> wrong = nnc.custom_jvp(lambda x: x * x)
    >>> _ = wrong.defjvp(lambda primals, tangents: (wrong(*primals), tangents[0]))
    >>> check_gradients(wrong, [0.5, 2.0])
    Traceback (most recent call last):
    AssertionError: forward mode, argument 0, element (1,): the derivative of the result at (1,) is 1, \
differences say 4
    """
    from nnc_func.autodiff.arguments import tensors
    from nnc_func.stacks import eager

    if isinstance(modes, str) or not modes or not set(modes) <= {"forward", "reverse"} or order < 1:
        raise DerivativeError(
            f"modes are a tuple of 'forward', 'reverse' or both, and the order at least 1; given {modes!r} and {order}"
        )
    found = next((x.stack for x in flatten(list(args))[0] if isinstance(x, Tensor)), None)
    chosen = stack if stack is not None else found if found is not None else eager()
    leaves, structure = flatten([tensors(chosen, a) for a in args])
    moving = [i for i, x in enumerate(leaves) if x.dtype.kind in "fc"]
    names = [name for i, name in enumerate(_names(structure)) if i in moving]

    def flat(*some: Any) -> list[Any]:
        whole = list(leaves)
        for i, x in zip(moving, some, strict=True):
            whole[i] = x
        made, _ = flatten(f(*structure.build(whole)))
        return [y for y in map(chosen.asarray, made) if y.dtype.kind in "fc"]

    primals = [
        np.asarray(leaves[i].numpy(), "complex128" if leaves[i].dtype.kind == "c" else "float64") for i in moving
    ]
    _Check(chosen, names, tuple(modes), step, tolerance).function(flat, primals, order, "")


class _Check:
    """How derivatives are checked: the stack, names of arguments, modes and tolerances."""

    def __init__(self, stack: Any, names: list[str], modes: tuple[str, ...], step: float, tolerance: float) -> None:
        self.stack = stack
        self.names = names
        self.modes = modes
        self.step = step
        self.tolerance = tolerance

    def function(self, f: Function, primals: list[Any], order: int, where: str) -> None:
        """All laws of one function, and of its derivatives if there are orders left."""
        values = [y.numpy() for y in f(*map(self.stack.asarray, primals))]
        for y in values:
            if not np.isfinite(y).all():
                raise AssertionError(f"{where}the function is not finite at these arguments: {y!r}")
        tangents, cotangents = _like(primals, 1), _like(values, 2)
        wanted = dict(self._differences(f, primals))
        if "forward" in self.modes:
            self._forward(f, primals, wanted, where)
        if "reverse" in self.modes:
            self._reverse(f, primals, cotangents, wanted, where)
        if set(self.modes) >= {"forward", "reverse"}:
            self._adjoint(f, primals, tangents, cotangents, where)
        if order > 1:
            self._routes(f, primals, tangents, cotangents, where)
            for mode in self.modes:
                derived = self._pushed(f, tangents) if mode == "forward" else self._pulled(f, cotangents)
                self.function(derived, primals, order - 1, f"{where}{mode} mode, and of that ")

    # --- derivatives as functions ---------------------------------------------------------------------

    def _pushed(self, f: Function, tangents: list[Any]) -> Function:
        return lambda *xs: self.stack.jvp(f, xs, tuple(tangents))[1]

    def _pulled(self, f: Function, cotangents: list[Any]) -> Function:
        return lambda *xs: list(self.stack.vjp(f, *xs)[1](list(cotangents)))

    # --- differences ----------------------------------------------------------------------------------

    def _differences(self, f: Function, primals: list[Any]) -> Iterator[tuple[Any, Any]]:
        """For (argument, element, direction) the derivatives of the results along it."""
        for i, x in enumerate(primals):
            for index in _elements(x):
                for direction in (1, 1j) if x.dtype.kind == "c" else (1,):
                    up, down = (self._at(f, primals, i, index, sign * self.step * direction) for sign in (1, -1))
                    slopes = [(a - b) / (2 * self.step) for a, b in zip(up, down, strict=True)]
                    yield (i, index, direction), slopes

    def _at(self, f: Function, primals: list[Any], i: int, index: Any, by: Any) -> list[Any]:
        moved = [x.copy() for x in primals]
        moved[i][index] += by
        return [np.asarray(y.numpy(), "complex128" if y.dtype.kind == "c" else "float64") for y in f(*moved)]

    def _forward(self, f: Function, primals: list[Any], wanted: dict[Any, Any], where: str) -> None:
        _, push = self.stack.linearize(f, *primals)
        for (i, index, direction), slopes in wanted.items():
            unit = [np.zeros_like(x) for x in primals]
            unit[i][index] = direction
            dual = self.stack.jvp(f, tuple(primals), tuple(unit))[1]
            for how, found in (("forward mode", dual), ("linearize", push(*unit))):
                scale = max((float(np.abs(s).max()) for s in slopes if s.size), default=1.0)
                for n, (one, other) in enumerate(zip(found, slopes, strict=True)):
                    at = _wrong(one.numpy(), other, self.tolerance * max(scale, 1.0))
                    which = "the result" if len(slopes) == 1 else f"result {n}"
                    if at is not None:
                        raise AssertionError(
                            f"{where}{how}, {self._place(i, index, direction)}: the derivative of {which} at {at} is "
                            f"{one.numpy()[at]:.9g}, differences say {other[at]:.9g}"
                        )

    def _reverse(
        self, f: Function, primals: list[Any], cotangents: list[Any], wanted: dict[Any, Any], where: str
    ) -> None:
        gradients = [g.numpy() for g in self.stack.vjp(f, *primals)[1](list(cotangents))]
        sums = {key: _inner(cotangents, slopes) for key, slopes in wanted.items()}
        scale = max([1.0, *(abs(s) for s in sums.values())])
        for (i, index, direction), other in sums.items():
            one = float(np.real(gradients[i][index] * direction))
            if not abs(one - other) <= self.tolerance * scale:
                raise AssertionError(
                    f"{where}reverse mode, {self._place(i, index, direction)}: the derivative is {one:.9g}, "
                    f"differences say {other:.9g}"
                )

    def _place(self, i: int, index: Any, direction: Any) -> str:
        axis = ", imaginary axis" if direction != 1 else ""
        return f"{self.names[i]}, element {tuple(map(int, index))}{axis}"

    # --- laws ------------------------------------------------------------------------------------------

    def _adjoint(self, f: Function, primals: list[Any], ts: list[Any], gs: list[Any], where: str) -> None:
        slopes = [s.numpy() for s in self._pushed(f, ts)(*primals)]
        gradients = [g.numpy() for g in self._pulled(f, gs)(*primals)]
        forward, reverse = _inner(gs, slopes), _inner(gradients, ts)
        size = sum(float(np.abs(a * b).sum()) for a, b in zip((*gs, *gradients), (*slopes, *ts), strict=True))
        if not abs(forward - reverse) <= ADJOINT * max(size, 1.0):
            raise AssertionError(
                f"{where}⟨g, J t⟩ is {forward:.9g} by forward mode, ⟨Jᵀ g, t⟩ is {reverse:.9g} by reverse mode"
            )

    def _routes(self, f: Function, primals: list[Any], ts: list[Any], gs: list[Any], where: str) -> None:
        """The second derivative of ⟨g, f⟩ along t, by each way to it."""
        routes: dict[str, list[Any]] = {}
        if "reverse" in self.modes:
            routes["reverse over reverse"] = self._pulled(self._pulled(f, gs), ts)(*primals)
        if {*self.modes} >= {"forward", "reverse"}:
            routes["forward over reverse"] = self._pushed(self._pulled(f, gs), ts)(*primals)
            routes["reverse over forward"] = self._pulled(self._pushed(f, ts), gs)(*primals)
        for (one, first), (other, second) in itertools.pairwise(routes.items()):
            for a, b, name in zip(first, second, self.names, strict=True):
                wanted = b.numpy()
                at = _wrong(a.numpy(), wanted, ROUTES * max(1.0, float(np.abs(wanted).max(initial=0))) * wanted.size)
                if at is not None:
                    raise AssertionError(
                        f"{where}{name}, element {at}: {one} gives {a.numpy()[at]:.9g}, {other} {wanted[at]:.9g}"
                    )


def _wrong(found: Any, wanted: Any, allowed: float) -> tuple[int, ...] | None:
    """Where two arrays differ first by more than is allowed; None if nowhere."""
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(found - wanted) <= allowed)
    return tuple(int(n) for n in np.argwhere(wrong)[0]) if wrong.any() else None


def _inner(left: Sequence[Any], right: Sequence[Any]) -> float:
    """Re Σ a b: the pairing of cotangents with tangents, without conjugation."""
    return float(sum(np.real(np.sum(a * b)) for a, b in zip(left, right, strict=True)))


def _like(arrays: Sequence[Any], seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    found = []
    for x in arrays:
        values = np.asarray(random.uniform(0.5, 1.5, x.shape) * random.choice((-1, 1), x.shape))
        found.append(values * np.exp(1j * random.uniform(0, 6, x.shape)) if x.dtype.kind == "c" else values)
    return found


def _elements(x: Any) -> list[tuple[Any, ...]]:
    every = list(np.ndindex(x.shape))
    if len(every) <= MOST:
        return every
    chosen = np.sort(np.random.default_rng(3).choice(len(every), MOST, replace=False))
    return [every[i] for i in chosen]


def _names(arguments: Structure) -> list[str]:
    """What each leaf of the arguments is called: ``argument 0['weight']``."""
    return [f"argument {i}{path}" for i, each in enumerate(arguments.children) for path in _paths(each)]


def _paths(structure: Structure) -> list[str]:
    if structure.kind == LEAF:
        return [""]
    if structure.kind is dict:
        steps = [f"[{key!r}]" for key in structure.keys]
    elif structure.keys:
        steps = [f".{key}" for key in structure.keys]
    else:
        steps = [f"[{i}]" for i in range(len(structure.children))]
    return [step + path for step, child in zip(steps, structure.children, strict=True) for path in _paths(child)]
