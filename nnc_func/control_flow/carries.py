"""What a loop carries: trees of tensors that keep their structure, shapes and dtypes, which is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.control_flow.attempts import trial
from nnc_func.control_flow.least_dtypes import least_dtypes
from nnc_func.control_flow.messages import at, given, leaves_of, of_fields, shown
from nnc_func.control_flow.tracing import SCALARS, TracedBody, aval_of, depth, tensor_of
from nnc_func.errors import DeviceError, DTypeError, OperatorError, ShapeError
from nnc_func.facets.dims import Dim, computing, same_extent
from nnc_func.facets.dtypes import holds, kind_of
from nnc_func.facets.dtypes import weak as weak_dtype
from nnc_func.graph.ops.bodies import dtypes_in, shapes_in
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import Structure, flatten

Growing = dict[tuple[int, int], str] | None
"""Axes of leaves that grow, as pairs of a leaf and an axis, and the symbols of their extents."""
TRACES = 3  # of a function at most, until the dtypes of what were Python numbers are settled


@frozen(eq=False)
class Carry:
    """What goes into a loop.

    Attributes
    ----------
    stack
        Whose tensors they are.
    leaves
        Tensors, and Python numbers.
    structure
        Of the tree.
    what
        What messages call it.
    told
        What messages end with: whose body it goes through.
    is_inner
        Whether the tree is a pair, of what the loop carries of its own and of what messages are about.
    """

    stack: Any
    leaves: tuple[Any, ...]
    structure: Structure
    what: str = "carry"
    told: str = ""
    is_inner: bool = False

    @classmethod
    def of(cls, stack: Any, tree: Any, what: str = "carry", told: str = "", is_inner: bool = False) -> Carry:
        """That of a tree."""
        leaves, structure = flatten(tree)
        made = []
        for leaf, path in zip(leaves, structure.paths, strict=True):
            each = tensor_of(stack, leaf)
            if type(each) not in SCALARS and not isinstance(each, Tensor):
                raise OperatorError(
                    f"{what}{at(path[is_inner:])} is a {type(leaf).__name__}; wanted a tensor, an array, a number"
                    f"{of_fields(leaf)}{told}"
                )
            made.append(each)
        return cls(stack, tuple(made), structure, what, told, is_inner)

    def names(self, operator: str) -> list[str]:
        """How messages call the leaves, of a loop that is called like that."""
        return [f"the {self.what}{self.at(path)} of {operator}" for path in self.structure.paths]

    def avals(self, dtypes: Sequence[Any], growing: Growing = None) -> list[Aval]:
        """Avals of the leaves; those of Python numbers with these dtypes, those that grow with symbols."""
        found = [
            Aval((), dtype) if type(leaf) in SCALARS else aval_of(self.stack, self.stack.carrier(leaf))
            for leaf, dtype in zip(self.leaves, dtypes, strict=True)
        ]
        for (n, axis), symbol in (growing or {}).items():
            shape = found[n].shape
            found[n] = found[n].having(shape=(*shape[:axis], Dim.named(symbol), *shape[axis + 1 :]))
        return found

    def carriers(self, avals: Sequence[Aval]) -> list[Any]:
        """What flows into the loop: of Python numbers tensors of those dtypes."""
        made = []
        for leaf, aval, path in zip(self.leaves, avals, self.structure.paths, strict=True):
            try:
                each = self.stack.asarray(leaf, aval.dtype) if type(leaf) in SCALARS else leaf
            except (DeviceError, DTypeError) as error:
                raise OperatorError(
                    f"{self.what}{self.at(path)} starts as {leaf!r}, and is {aval.dtype} after the body, which does "
                    f"not hold that ({error}); start with a tensor, or cast within the body{self.told}"
                ) from None
            made.append(self.stack.carrier(each))
        return made

    def settled(
        self, trace: Callable[[Sequence[Any]], tuple[TracedBody, Sequence[Any]]], first: int = 0,
        growing: Growing = None,
    ) -> tuple[TracedBody, list[Aval]]:  # fmt: skip
        """The body of a function that carries them, and their avals: numbers take the dtype that they have after it.

        Parameters
        ----------
        trace
            Of avals, or Python numbers, one for each leaf: the body, and what each leaf is after it, an aval or None
            where it is a Python number.
        first
            Which result of the body the first leaf is after it.
        growing
            Is filled with the axes that change, and symbols for their extents, which are in the avals. None: none may.

        Raises
        ------
        OperatorError
            A carry that changes its shape or dtype: names the leaf.
        """
        with of_extents(self.stack, growing):
            return self._settled(trace, first, growing)

    def _settled(
        self, trace: Callable[[Sequence[Any]], tuple[TracedBody, Sequence[Any]]], first: int, growing: Growing
    ) -> tuple[TracedBody, list[Aval]]:
        dtypes = [np.result_type(leaf) if type(leaf) in SCALARS else None for leaf in self.leaves]
        weak = [n for n, leaf in enumerate(self.leaves) if type(leaf) in SCALARS]
        if weak:
            avals = self.avals(dtypes)
            try:
                with trial():
                    found, after = trace([leaf if n in weak else avals[n] for n, leaf in enumerate(self.leaves)])
                    if self._grown(avals, after, growing):
                        self._passed_on(found, dtypes, growing, first)
            except Exception:  # a function of tensors: what is wrong with it is said when it is traced as one
                after = [None] * len(dtypes)
            for n in weak:
                dtypes[n] = dtypes[n] if after[n] is None else after[n].dtype
            dtypes = self._holding(dtypes)
            if growing is None:
                return self._of_least_dtypes(trace, first, dtypes, after)
        for attempt in range(TRACES - bool(weak)):
            avals, settled = self.avals(dtypes, growing), dict(growing or {})
            found, after = trace(avals)
            changed = [n for n in weak if after[n] is not None and after[n].dtype != dtypes[n]]
            grown = self._grown(avals, after, growing)
            if not (changed or grown) or attempt == TRACES - bool(weak) - 1:
                break
            if grown:
                self._passed_on(found, dtypes, growing, first)
            dtypes = following(found, [a.dtype for a in avals], {n: first + n for n in weak if after[n] is not None})
            dtypes = self._holding(dtypes)
        self.check(avals, after, growing if growing is None else settled)
        return found, avals

    def _of_least_dtypes(
        self, trace: Callable[[Sequence[Any]], tuple[TracedBody, Sequence[Any]]], first: int, dtypes: Sequence[Any],
        of_numbers: Sequence[Any],
    ) -> tuple[TracedBody, list[Aval]]:  # fmt: skip
        """The body and avals where Python numbers become tensors: the least dtypes that they have after it, too.

        Parameters
        ----------
        dtypes
            As the function gives them, of Python numbers.
        of_numbers
            What each leaf is after the function, of those.
        """
        weak = {n: leaf for n, leaf in enumerate(self.leaves) if type(leaf) in SCALARS}
        typed = [dtypes[n] for n in weak if of_numbers[n] is not None]
        try:
            with trial():
                found, after = trace(self.avals(dtypes))
        except (DTypeError, OperatorError) as error:  # branches that want one dtype; bfloat16 beside a number's own
            typical = [weak_dtype(weak[n], typed) if n in weak else d for n, d in enumerate(dtypes)]
            if typical == dtypes:
                raise
            try:
                with trial():
                    found, after = trace(self.avals(typical))
            except (DTypeError, OperatorError):
                raise error from None
        dtypes = [a.dtype for a in found.parameters[: len(dtypes)]]
        passed = {n: first + n for n in weak if after[n] is not None}
        told = {n: None if of_numbers[n] is None else of_numbers[n].dtype for n in weak}
        is_sound, least = self._kept(dtypes, after), None
        if not is_sound or 0 < len(typed) < len(weak):
            least = least_dtypes(found.body, found.numbers, weak, [a.dtype for a in found.parameters], passed, told)
        if least is None:
            least = dtypes if is_sound else following(found, dtypes, passed)
        least = self._holding(least[: len(dtypes)])
        if least != dtypes:
            another = trace(self.avals(least))
            if not is_sound or self._kept(least, another[1]):
                (found, after), dtypes = another, least
        avals = self.avals(dtypes)
        self.check(avals, after)
        return found, avals

    def _kept(self, dtypes: Sequence[Any], after: Sequence[Any]) -> bool:
        """Whether numbers have after a body the dtypes that they have before it."""
        return all(
            now is None or now.dtype == dtype
            for leaf, dtype, now in zip(self.leaves, dtypes, after, strict=True)
            if type(leaf) in SCALARS
        )

    def _passed_on(self, found: TracedBody, dtypes: Sequence[Any], growing: Growing, first: int) -> None:
        """Note axes that grow because the body passes a carry that grows on to the next one, however many there are.

        Parameters
        ----------
        found
            The body, for smaller carries.
        """
        rest = tuple([a.shape for a in found.parameters[len(dtypes) :]])
        for _ in dtypes:
            avals = self.avals(dtypes, growing)
            try:
                shapes = shapes_in(found.body, (*(a.shape for a in avals), *rest))
            except ShapeError:  # it holds numbers that were right for smaller ones: the next trace tells
                return
            after = [
                a.having(shape=shapes[found.body.results[first + n]]) if first + n < len(found.body.results) else None
                for n, a in enumerate(avals)
            ]
            if not self._grown(avals, after, growing):
                return

    def _grown(self, before: Sequence[Aval], after: Sequence[Any], growing: Growing) -> bool:
        """Whether there are axes with another extent after the body, that were not known; they are now."""
        if growing is None:
            return False
        known = len(growing)
        for n, (was, now) in enumerate(zip(before, after, strict=True)):
            if now is not None and len(was.shape) == len(now.shape):
                for axis, pair in enumerate(zip(was.shape, now.shape, strict=True)):
                    if (n, axis) not in growing and pair[0] != pair[1]:
                        within = f"{inner}_" if (inner := depth()) else ""  # no name means two extents
                        growing[n, axis] = f"n{within}{len(growing)}"
        return len(growing) > known

    def _holding(self, dtypes: Sequence[Any]) -> list[Any]:
        """The dtypes; where a number would lose its fraction or its imaginary part, its own: a carry that changes."""
        return [
            np.result_type(leaf) if type(leaf) in SCALARS and _rank(dtype) < _rank(np.result_type(leaf)) else dtype
            for leaf, dtype in zip(self.leaves, dtypes, strict=True)
        ]

    def check(self, before: Sequence[Aval], after: Sequence[Any], growing: Growing = None) -> None:
        """Raise OperatorError where a leaf changes; of one that grows, another axis than those known to."""
        for n, (was, now, path) in enumerate(zip(before, after, self.structure.paths, strict=True)):
            if now is None:
                continue
            same_rank = len(was.shape) == len(now.shape)
            pairs = [
                pair
                for axis, pair in enumerate(zip(was.shape, now.shape, strict=False))
                if (n, axis) not in (growing or {})
            ]
            if growing is not None and (not same_rank or any(a != b for a, b in pairs)):
                why = f"is found in {TRACES} traces of the body" if same_rank else "may change along axes that it has"
                remedy = "let fewer carries take on each other's shape" if same_rank else "reshape one"
                raise OperatorError(
                    f"how a carry grows {why}: {self.what}{self.at(path)} is {was.shape}, and {now.shape} after the "
                    f"body; {remedy}{self.told}"
                )
            if not same_rank or not all(same_extent(a, b) for a, b in pairs):
                raise OperatorError(
                    f"a carry keeps its shape: {self.what}{self.at(path)} is {was.shape}, and {now.shape} after the "
                    "body; start with a tensor of the shape that it has at the end, and write into it"
                    + ("; or let it grow: while_loop, scan and foreach do with dynamic=True" if same_rank else "")
                    + self.told
                )
            if was.dtype != now.dtype:
                raise OperatorError(
                    f"a carry keeps its dtype: {self.what}{self.at(path)} is {was.dtype}, and {now.dtype} after the "
                    f"body; cast one: x.astype({was.dtype.name!r}){self.told}"
                )

    def same_structure(self, found: Structure) -> None:
        """Raise OperatorError where the body returns another tree."""
        if found != self.structure:
            own, its = (each.children[1] if self.is_inner else each for each in (self.structure, found))
            raise OperatorError(
                f"a {self.what} keeps its structure: it is {shown(own)}, and {shown(its)} after the body; return a "
                f"tree as it is given{self.told}"
            )

    def after(self, tree: Any) -> list[Any]:
        """The leaves after the body, of a tree of the same structure.

        Raises
        ------
        OperatorError
            It has another structure, or leaves that are no tensors and no numbers.
        """
        leaves, structure = leaves_of(tree, self.what, self.told, None, self.is_inner)
        self.same_structure(structure)
        return leaves

    def held(self, leaves: Sequence[Any], before: Sequence[Any]) -> list[Any]:
        """The leaves after the body, where Python numbers are tensors of the dtype of the carry, if that holds them.

        Raises
        ------
        OperatorError
            A carry that starts as a tensor does not hold the number that it would become.
        """
        made = []
        for leaf, was, start, path in zip(leaves, before, self.leaves, self.structure.paths, strict=True):
            each = tensor_of(self.stack, leaf)
            if type(leaf) in SCALARS and type(was) not in SCALARS:
                if is_held(leaf, was):
                    each = self.stack.asarray(leaf, was.dtype)
                elif type(start) not in SCALARS:
                    its = self.stack.asarray(leaf).dtype
                    raise OperatorError(
                        f"a carry keeps its dtype: {self.what}{self.at(path)} is {was.dtype}, and {leaf!r} after the "
                        f"body, which is {its}; start with x.astype({its.name!r}){self.told}"
                    )
            made.append(each)
        return made

    def at(self, path: Sequence[str]) -> str:
        """Where a leaf stands."""
        return at(path[self.is_inner :])


def of_extents(stack: Any, growing: Growing) -> AbstractContextManager[None]:
    """Where carries grow: what Python asks of their extents, and computes of them that is no extent, is a tensor."""

    def computed(name: str, a: Any, b: Any) -> Any:
        one, two = (stack.asarray(x) if isinstance(x, Dim) else x for x in (a, b))
        return getattr(stack.ops, name)(one, two)

    return nullcontext() if growing is None else computing(computed)


def _rank(dtype: Any) -> int:
    """Truth values, integers, real numbers, complex numbers."""
    return "bifc".index(kind_of(dtype).replace("u", "i"))


def following(found: TracedBody, dtypes: list[Any], carried: Mapping[int, int]) -> list[Any]:
    """Dtypes of carries, when some of them change no more: they are what the results are that these become.

    A body may pass numbers on from one carry to the next, so this may take as many times as there are carries.
    """
    rest = [a.dtype for a in found.parameters[len(dtypes) :]]
    for _ in range(1 + len(carried)):
        values = dtypes_in(found.body, (*dtypes, *rest))
        after = [values[found.body.results[carried[n]]] if n in carried else d for n, d in enumerate(dtypes)]
        if after == dtypes:
            break
        dtypes = after
    return dtypes


def is_held(leaf: Any, before: Any) -> bool:
    """Whether it is a Python number that a carry holds: beside a tensor of its dtype it would be of that.

    Parameters
    ----------
    before
        What the carry is before the body: of a dtype, or a Python number.

    Examples
    --------
    >>> is_held(2, Aval((), "float32")), is_held(0.5, Aval((), "int64")), is_held(0.5, 0)
    (True, False, True)
    """
    return type(leaf) in SCALARS and (type(before) in SCALARS or holds(before.dtype, leaf))


def integer(stack: Any, value: Any, name: str) -> Any:
    """A Python integer, or a tensor of one, of int64."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64)):
        return int(value)
    found = tensor_of(stack, value)
    if not isinstance(found, Tensor) or found.shape != () or found.dtype.kind not in "iu":
        given = f"{found.dtype}{list(found.shape)}" if isinstance(found, Tensor) else repr(value)
        raise DTypeError(f"{name} is an integer, or a tensor of one, given {given}")
    return found if found.dtype == np.int64 else found.astype("int64")


def truth_value(stack: Any, value: Any, what: str, told: str = "") -> Tensor:
    """A tensor of one truth value: whether a number is not zero."""
    found = tensor_of(stack, value)
    if type(found) in SCALARS:
        found = stack.asarray(bool(found))
    if not isinstance(found, Tensor):
        raise OperatorError(f"{what} is one truth value, given {given(value)}{told}")
    if found.shape != ():
        raise ShapeError(f"{what} is one truth value, given shape {found.shape}; take all() or any() of it{told}")
    is_truth: Tensor = found if found.dtype == np.bool_ else stack.ops.not_equal(found, 0)
    return is_truth
