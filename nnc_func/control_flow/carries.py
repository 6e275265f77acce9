"""What a loop carries: trees of tensors that keep their structure, shapes and dtypes, which is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.control_flow.tracing import SCALARS, TracedBody, aval_of, tensor_of
from nnc_func.errors import DTypeError, OperatorError, ShapeError
from nnc_func.facets.dims import same_extent
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.ops.bodies import dtypes_in
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import Structure, flatten

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
    """

    stack: Any
    leaves: tuple[Any, ...]
    structure: Structure
    what: str = "carry"

    @classmethod
    def of(cls, stack: Any, tree: Any, what: str = "carry") -> Carry:
        """That of a tree."""
        leaves, structure = flatten(tree)
        made = []
        for leaf, path in zip(leaves, structure.paths, strict=True):
            each = tensor_of(stack, leaf)
            if type(each) not in SCALARS and not isinstance(each, Tensor):
                raise OperatorError(
                    f"{what}{_at(path)} is a {type(leaf).__name__}; wanted a tensor, an array, a number"
                )
            made.append(each)
        return cls(stack, tuple(made), structure, what)

    def avals(self, dtypes: Sequence[Any]) -> list[Aval]:
        """Avals of the leaves; those of Python numbers with these dtypes."""
        return [
            Aval((), dtype) if type(leaf) in SCALARS else aval_of(self.stack, self.stack.carrier(leaf))
            for leaf, dtype in zip(self.leaves, dtypes, strict=True)
        ]

    def carriers(self, avals: Sequence[Aval]) -> list[Any]:
        """What flows into the loop: of Python numbers tensors of those dtypes."""
        made = []
        for leaf, aval, path in zip(self.leaves, avals, self.structure.paths, strict=True):
            try:
                each = self.stack.asarray(leaf, aval.dtype) if type(leaf) in SCALARS else leaf
            except (OverflowError, TypeError, ValueError) as error:
                raise OperatorError(
                    f"{self.what}{_at(path)} starts as {leaf!r}, and is {aval.dtype} after the body, which does not "
                    f"hold that ({error}); start with a tensor, or cast within the body"
                ) from None
            made.append(self.stack.carrier(each))
        return made

    def settled(
        self, trace: Callable[[Sequence[Any]], tuple[TracedBody, Sequence[Any]]], first: int = 0
    ) -> tuple[TracedBody, list[Aval]]:
        """The body of a function that carries them, and their avals: numbers take the dtype that they have after it.

        Parameters
        ----------
        trace
            Of avals, or Python numbers, one for each leaf: the body, and what each leaf is after it, an aval or None
            where it is a Python number.
        first
            Which result of the body the first leaf is after it.

        Raises
        ------
        OperatorError
            A carry that changes its shape or dtype: names the leaf.
        """
        dtypes = [np.result_type(leaf) if type(leaf) in SCALARS else None for leaf in self.leaves]
        weak = [n for n, leaf in enumerate(self.leaves) if type(leaf) in SCALARS]
        if weak:
            avals = self.avals(dtypes)
            try:
                _, after = trace([leaf if n in weak else avals[n] for n, leaf in enumerate(self.leaves)])
            except Exception:  # a function of tensors: what is wrong with it is said when it is traced as one
                after = [None] * len(dtypes)
            for n in weak:
                dtypes[n] = dtypes[n] if after[n] is None else after[n].dtype
            dtypes = self._holding(dtypes)
        for attempt in range(TRACES - bool(weak)):
            avals = self.avals(dtypes)
            found, after = trace(avals)
            changed = [n for n in weak if after[n] is not None and after[n].dtype != dtypes[n]]
            if not changed or attempt == TRACES - bool(weak) - 1:
                break
            dtypes = following(found, [a.dtype for a in avals], {n: first + n for n in weak if after[n] is not None})
            dtypes = self._holding(dtypes)
        self.check(avals, after)
        return found, avals

    def _holding(self, dtypes: Sequence[Any]) -> list[Any]:
        """The dtypes; where a number would lose its fraction or its imaginary part, its own: a carry that changes."""
        return [
            np.result_type(leaf) if type(leaf) in SCALARS and _rank(dtype) < _rank(np.result_type(leaf)) else dtype
            for leaf, dtype in zip(self.leaves, dtypes, strict=True)
        ]

    def check(self, before: Sequence[Aval], after: Sequence[Any]) -> None:
        """Raise OperatorError where a leaf changes."""
        for was, now, path in zip(before, after, self.structure.paths, strict=True):
            if now is None:
                continue
            if len(was.shape) != len(now.shape) or not all(map(same_extent, was.shape, now.shape)):
                raise OperatorError(
                    f"a carry keeps its shape: {self.what}{_at(path)} is {was.shape}, and {now.shape} after the body; "
                    "start with a tensor of the shape that it has at the end, and write into it"
                )
            if was.dtype != now.dtype:
                raise OperatorError(
                    f"a carry keeps its dtype: {self.what}{_at(path)} is {was.dtype}, and {now.dtype} after the body; "
                    f"cast one: x.astype({was.dtype.name!r})"
                )

    def same_structure(self, found: Structure) -> None:
        """Raise OperatorError where the body returns another tree."""
        if found != self.structure:
            raise OperatorError(
                f"a {self.what} keeps its structure: it is {self.structure}, and {found} after the body"
            )


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


def _at(path: Sequence[str]) -> str:
    return f" at {'.'.join(path)}" if path else ""


def alike(stack: Any) -> Callable[[Any, Any], Any]:
    """A Python number that is carried on, as a tensor of the dtype of the carry."""

    def of(leaf: Any, before: Any) -> Any:
        if type(leaf) not in SCALARS or type(before) in SCALARS:
            return tensor_of(stack, leaf)
        return stack.asarray(leaf, before.dtype)

    return of


def integer(stack: Any, value: Any, name: str) -> Any:
    """A Python integer, or a tensor of one, of int64."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    found = tensor_of(stack, value)
    if not isinstance(found, Tensor) or found.shape != () or found.dtype.kind not in "iu":
        given = f"{found.dtype}{list(found.shape)}" if isinstance(found, Tensor) else repr(value)
        raise DTypeError(f"{name} is an integer, or a tensor of one, given {given}")
    return found if found.dtype == np.int64 else found.astype("int64")


def truth_value(stack: Any, value: Any, what: str) -> Tensor:
    """A tensor of one truth value: whether a number is not zero."""
    found = tensor_of(stack, value)
    if type(found) in SCALARS:
        found = stack.asarray(bool(found))
    if not isinstance(found, Tensor):
        raise OperatorError(f"{what} is one truth value, given a {type(value).__name__}")
    if found.shape != ():
        raise ShapeError(f"{what} is one truth value, given shape {found.shape}; take all() or any() of it")
    is_truth: Tensor = found if found.dtype == np.bool_ else stack.ops.not_equal(found, 0)
    return is_truth
