"""What the prover takes for a counterexample, tried with kernels: they alone refute a rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import z3

from nnc_func.errors import NncError
from nnc_func.graph.rules.rule import Rule
from nnc_func.testing.proofs.equality import Failure, Prover
from nnc_func.testing.proofs.parameters import Unknowns
from nnc_func.testing.proofs.paths import Paths, term_of
from nnc_func.testing.proofs.scalars import HALF
from nnc_func.testing.proofs.scenarios import Drawn, NoFiring, scenario
from nnc_func.testing.proofs.tensors import Fill, Leaf, Symbol

LARGEST = (4, 16, 64)  # unknown numbers of a counterexample, tried in this order


class Chosen(Unknowns):
    """The choices of a scenario once more, and numbers of a model for what was unknown in it."""

    def __init__(self, drawn: Drawn, model: Any) -> None:
        self.ranks, self.model = drawn.ranks, model
        self.coupled: list[str] = []
        self._choices, self._numbers = iter(drawn.choices), iter(drawn.numbers)
        self._dtypes, self._symbols = iter(drawn.taken), iter(drawn.symbols)

    def choose(self, options: Sequence[Any]) -> Any:
        """One of some options."""
        return next(self._choices)

    def dtype(self) -> Any:
        """An unknown dtype."""
        return np.dtype(next(self._dtypes))

    def fresh(self, name: str, least: int | None = 0) -> Any:
        """An unknown whole number."""
        return self.model.eval(term_of(next(self._numbers)), model_completion=True).as_long()

    def symbol(self, name: str, dtype: Any) -> Any:
        """An unknown number of that dtype."""
        found: Symbol = next(self._symbols)
        declared = {d.name(): self.model[d] for d in self.model.decls()}
        return _number(declared.get(found.name), found.dtype).item()


def replayed(rule: Rule, drawn: Drawn, failure: Failure, prover: Prover, device: Any) -> str:
    """What kernels give on both sides, where they differ; else nothing.

    Parameters
    ----------
    drawn
        The choices of the scenario in which the proof failed.
    """
    model = _small_model(drawn, failure, prover)
    if model is None:
        return ""
    return next(Paths().each(lambda: _replayed(rule, Chosen(drawn, model), failure, device)))


def _small_model(drawn: Drawn, failure: Failure, prover: Prover) -> Any:
    for largest in LARGEST:
        bounds = [z3.And(term_of(n) <= largest, term_of(n) >= -largest) for n in drawn.numbers]
        _, model = prover.ask(*failure.against, *bounds)
        if model is not None:
            return model
    return None


def _replayed(rule: Rule, unknowns: Chosen, failure: Failure, device: Any) -> str:
    try:
        found = scenario(rule, unknowns)
    except NoFiring:
        return ""
    if found.right is None:
        return ""
    leaves = [x for x in found.leaves if isinstance(x, Leaf)]
    arrays = {x.name: _array(x, 7 * i + 1, failure, unknowns.model) for i, x in enumerate(leaves)}
    try:
        left, right = (_computed(side, arrays, device) for side in (found.left, found.right))
    except (NncError, ArithmeticError, ValueError, IndexError):
        return ""
    if left.dtype == right.dtype and left.shape == right.shape and _same(left, right):
        return ""
    given = ", ".join(f"{name}={value!r}" for name, value in arrays.items())
    return f"kernels give {left!r} on the left and {right!r} on the right, of {given}"


def _same(left: Any, right: Any) -> bool:
    return bool(np.array_equal(left, right, equal_nan=left.dtype.kind in "fc"))


def _array(leaf: Leaf, first: int, failure: Failure, model: Any) -> Any:
    """Elements that differ, but for those of which the model says what they are."""
    size = int(np.prod(leaf.shape, dtype=np.int64))
    array = (np.arange(size) + first).astype(leaf.dtype).reshape(leaf.shape)
    declared = {d.name(): model[d] for d in model.decls()}
    for i, read in enumerate(failure.reads):
        value = declared.get(f"element {i}")
        if value is None or getattr(read.of, "name", None) != leaf.name:
            continue
        if read.index is None:
            array.reshape(-1)[_at(model, read.position)] = _number(value, leaf.dtype)
        else:
            array[tuple(_at(model, i) for i in read.index)] = _number(value, leaf.dtype)
    return array


def _at(model: Any, index: Any) -> int:
    return int(model.eval(term_of(index), model_completion=True).as_long())


def _number(value: Any, dtype: Any) -> Any:
    """A model's element as a NumPy scalar."""
    if value is None or not (z3.is_bv_value(value) or z3.is_fp_value(value)):
        return np.zeros((), dtype)[()]
    if dtype == HALF and value.isNaN():
        return dtype.type(np.nan)
    if dtype == HALF:
        bits = z3.simplify(z3.fpToIEEEBV(value)).as_long()
        return np.array(bits, np.uint16).view(dtype)[()]
    if dtype.kind == "b":
        return np.bool_(value.as_long())
    return np.array(value.as_long(), f"u{dtype.itemsize}").view(dtype)[()]


def _computed(tensor: Any, arrays: dict[str, Any], device: Any) -> Any:
    if isinstance(tensor, Leaf):
        return arrays[tensor.name]
    if isinstance(tensor, Fill):
        return np.full(tensor.shape, tensor.value, tensor.dtype)
    args = [_computed(a, arrays, device) for a in tensor.args]
    return np.asarray(device.to_numpy(device.bind(tensor.op, *map(device.asarray, args), **tensor.params)))
