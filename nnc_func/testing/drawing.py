"""How random programs are drawn, step by step: which operators there are, and what each is applied to."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
from attrs import define, field, frozen
from hypothesis import strategies as st

from nnc_func.aval import Aval
from nnc_func.declaration import REQUIRED
from nnc_func.errors import NncError
from nnc_func.facets.derivatives import Refusal
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Catalogue, Op
from nnc_func.testing.program import (
    CONSTANT,
    DEFINITE,
    FILLS,
    INPUT,
    KEY,
    VARIABLE,
    Leaf,
    Step,
    inferred,
)

WIDE = ("float32", "float64")  # half precision amplifies rounding too soon: laws draw that
DTYPES = (
    "float64", "float64", "float32", "int64", "int32", "bool", "complex128", "uint8", "int8", "complex64",
)  # fmt: skip
LARGEST = 1e4  # beyond it rounding is amplified too much to compare: leave such programs out

# Discontinuous, or steeper than any bound somewhere: they are applied only to what every engine gives bit by bit.
EDGED = frozenset((
    "sign", "log", "log1p", "sqrt", "reciprocal", "floor", "ceil", "round", "isnan", "isinf", "isfinite",
    "divide", "power", "floor_divide", "remainder", "atan2", "equal", "not_equal", "less", "less_equal",
    "greater", "greater_equal", "argmax", "argmin", "any", "all", "cast", "one_hot", "take", "take_along_axis",
    "scatter_add", "put_along_axis_add", "max_pool2d", "max_pool2d_gradient", "max_pool2d_tangent",
    "random_fold_in", "angle",
    "log2", "log10", "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh", "cbrt", "erfinv", "lgamma", "polygamma",
    "copysign", "signbit", "trunc", "nextafter",
))  # fmt: skip
# Elements are moved, or their sign is changed: bits in, bits out.
EXACT = frozenset((
    "negative", "reshape", "permute_dims", "broadcast_to", "expand_dims", "squeeze", "flip", "tile",
    "concat", "stack", "split", "pad", "assemble", "slice", "set_slice", "take", "take_along_axis", "where",
    "stop_gradient", "real", "imag", "conj", "full", "arange", "one_hot", "relu", "clip", "maximum", "minimum",
    "max", "min",
))  # fmt: skip
KEYED = ("random_uniform", "random_normal", "random_bernoulli", "random_bits", "random_split", "random_fold_in")
INDEXED = ("take", "scatter", "put", "ravel_multi_index")  # indices are in range: they have leaves of their own
LIKELY_NAMES = (
    "add",
    "multiply",
    "subtract",
    "tanh",
    "reshape",
    "permute_dims",
    "slice",
    "broadcast_to",
    "sum",
    "split",
    "matmul",
    "exp",
    "negative",
    "relu",
    "concat",
    "stack",
    "pad",
    "assemble",
    "set_slice",
    "max",
    "expand_dims",
    "flip",
    "sigmoid",
    "square",
    "maximum",
    "where",
    "mean",
)


@frozen
class Vocabulary:
    """The operators of a catalogue by how programs draw them; effects are left out, since they need an order.

    Attributes
    ----------
    operators, likely
        Applied to any values that fit; the likely ones more often.
    fitted
        Their arguments must fit each other: they are first steps, on leaves of their own.
    keyed
        Random ones, by name.
    foreign
        Names of those that the default catalogue lacks: they may be discontinuous.
    """

    operators: tuple[Op, ...]
    likely: tuple[Op, ...]
    fitted: tuple[Op, ...]
    keyed: dict[str, Op]
    foreign: frozenset[str]


@lru_cache(maxsize=16)
def vocabulary(catalogue: Catalogue) -> Vocabulary:
    """Of a catalogue.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> sorted(vocabulary(CATALOGUE).keyed)[0]
    'random_bernoulli'
    """
    ops = [op for op in catalogue.values() if not op.effect and op.name != "token"]
    free = [op for op in ops if op.name not in KEYED and op.samples.prepare is None]
    return Vocabulary(
        tuple(op for op in free if not op.name.startswith(INDEXED)),
        tuple(catalogue[name] for name in LIKELY_NAMES if name in catalogue),
        tuple(op for op in ops if op.samples.cases and op.args),
        {op.name: op for op in ops if op.name in KEYED},
        frozenset(op.name for op in ops if CATALOGUE.get(op.name) is not op),
    )


@cache
def cases(op: Op, smooth: bool) -> list[tuple[list[tuple[Any, str, Any]], dict[str, Any]]]:
    """The operator's cases: shape, dtype (or none, where any will do) and elements of each argument."""
    found: list[tuple[list[tuple[Any, str, Any]], dict[str, Any]]] = []
    if smooth and isinstance(op.derivative, Refusal):
        return found
    for specs, params in op.samples.cases:
        listed = [_leaf(op, spec, smooth) for spec in specs]
        if all(dtype in (("float64",) if smooth else (*DTYPES, "")) for _, dtype, _ in listed):
            found.append((listed, params))
    return found


def _leaf(op: Op, spec: Any, smooth: bool) -> tuple[Any, str, Any]:
    told = len(spec) > 1 and isinstance(spec[0], tuple)
    shape, dtype = (spec[0], spec[1]) if told else (spec, "float64" if smooth else "")
    if not told and not {*WIDE} & {*op.samples.dtypes}:
        dtype = op.samples.dtypes[-1]
    elements = spec[2] if told and len(spec) > 2 and np.dtype(dtype).kind in "iu" else None
    if op.samples.prepare is not None and len(shape) > 1 and shape[-1] == shape[-2]:
        elements = DEFINITE
    return shape, dtype, elements


# --- drawing ---------------------------------------------------------------------------------------------


@define
class Drawing:
    """A program in the making."""

    draw: Any
    dtypes: tuple[str, ...]
    smooth: bool
    vocabulary: Vocabulary
    leaves: list[Leaf] = field(factory=list)
    avals: list[Aval] = field(factory=list)  # of the leaves
    steps: list[Any] = field(factory=list)
    made: list[Aval] = field(factory=list)  # of the steps' results
    exact: list[bool] = field(factory=list)

    def pick(self, options: Any) -> Any:
        """One of these; the first is the simplest."""
        listed = list(options)
        return listed[self.draw(st.integers(0, len(listed) - 1))]

    def chance(self, one_in: int) -> bool:
        """Once in so many times."""
        return bool(self.draw(st.integers(0, one_in - 1)) == one_in - 1)

    def repeat(self, most: int, make: Callable[[], None]) -> None:
        """Make up to so many: what each is drawn from is one part of the choices, which shrinking deletes."""
        for _ in range(self.draw(st.integers(0, most))):
            self.draw(st.builds(make))

    def leaf(self, kind: str, shape: Any, dtype: str, fill: Any = None, elements: Any = None) -> None:
        """Leaves are all made before the first step, so that values keep their numbers."""
        count = len(self.leaves)
        name = {INPUT: "x", VARIABLE: "w", CONSTANT: "c"}[kind] + str(count)
        fill = count if fill is None else fill
        self.leaves.append(Leaf(kind, name, tuple(shape), dtype, fill, elements=elements))
        self.avals.append(Aval(shape, dtype))

    def start(self) -> None:
        """Inputs, variables, constants; shapes broadcast to one."""
        rank = self.draw(st.integers(0, 3))
        base = tuple(self.pick((2, 3, 1, 0) if self.chance(8) else (2, 3, 1)) for _ in range(rank))
        self.leaf(INPUT, base, self.pick(self.dtypes))
        self.repeat(4, lambda: self.another(base))
        if not self.smooth and self.vocabulary.keyed and self.chance(4):
            self.leaf(CONSTANT, (2,), "uint64", KEY)
        case = self.case() if self.vocabulary.fitted and self.chance(3) else None
        self.exact = [True] * len(self.leaves)
        if case is not None:
            self.append(*case)

    def make(self, most: int) -> None:
        """Up to so many steps."""
        self.repeat(most, self.step)

    def wanted(self) -> tuple[int, ...]:
        """Values that are returned besides those that are drawn."""
        return ()

    def another(self, base: tuple[int, ...]) -> None:
        """A leaf whose shape broadcasts to that."""
        kind = self.pick((INPUT, CONSTANT, VARIABLE, VARIABLE))
        kept = base[self.draw(st.integers(0, len(base))) :] if self.chance(3) else base
        shape = tuple(1 if self.chance(6) else n for n in kept)
        fill = self.pick(FILLS) if kind == CONSTANT and self.chance(2) else None
        self.leaf(kind, shape, self.pick(self.dtypes), fill)

    def case(self) -> tuple[Op, tuple[int, ...], dict[str, Any]] | None:
        """A first step on leaves of its own, for operators whose arguments must fit each other: convolutions …"""
        op = self.pick(self.vocabulary.fitted)
        found = cases(op, self.smooth)
        if not found:
            return None
        specs, params = self.pick(found)
        first = len(self.leaves)
        for shape, dtype, elements in specs:
            updated = not elements and op.kernels[-1].infallible  # an update may be anything: NaN, too
            kinds = (INPUT, CONSTANT, VARIABLE) if updated else (INPUT, CONSTANT)
            self.leaf(self.pick(kinds), shape, dtype or self.pick(WIDE), elements=elements)
        return op, tuple(range(first, len(self.leaves))), dict(params)

    @property
    def known(self) -> list[Aval]:
        """Of every value so far."""
        return self.avals + self.made

    def step(self) -> None:
        """An application that fits what there is, if one is met in a few tries."""
        keys = [i for i, n in enumerate(self.leaves) if n.fill == KEY]
        words = self.vocabulary
        random = keys and self.chance(4)
        op = words.keyed[self.pick(words.keyed)] if random else self.pick(words.likely * 2 + words.operators)
        if not self.takes(op):
            return
        count = len(op.args) + (self.draw(st.integers(0, 2)) if op.variadic else 0)
        known = self.known
        edged = op.name in EDGED or op.name in words.foreign
        usable = [
            i for i, a in enumerate(known)
            if a.dtype != np.uint64 and (self.exact[i] or not edged or a.dtype.kind not in "fc")
        ]  # fmt: skip
        if not {"float32", "complex128"} & {*op.samples.dtypes}:  # truth values, or integers
            usable = [i for i in usable if known[i].dtype.name in op.samples.dtypes] or usable
        for _ in range(4):
            args = tuple(self.operand(usable) for _ in range(count))
            if op.name in KEYED and count:
                args = (self.pick(keys), *args[1:])
            params = self.parameters(op, [known[a].shape for a in args])
            if params is not None and op.name == "branch" and args and known[args[0]].dtype.kind != "b":
                params = {**params, "default": True}  # any integer chooses one
            if params is not None and self.append(op, args, params):
                return

    def takes(self, op: Op) -> bool:
        """Whether programs of this kind apply an operator."""
        return not (self.smooth and isinstance(op.derivative, Refusal))

    def operand(self, usable: list[int]) -> int:
        """One of these values."""
        return int(self.pick(reversed(usable)))

    def append(self, op: Op, args: tuple[int, ...], params: dict[str, Any]) -> bool:
        """One more application, if it fits, and is small; whether it was."""
        try:
            found = inferred(op, [self.known[a] for a in args], params)
        except (NncError, TypeError, ValueError, IndexError):
            return False
        if any(a.size > 512 for a in found) or (op.name == "power" and found[0].dtype.kind not in "fc"):
            return False
        self.steps.append(Step(op, args, params))
        exact = all(self.exact[a] for a in args) and op.name in EXACT
        self.exact += [exact or a.dtype.kind not in "fc" for a in found]
        self.made += found
        return True

    def parameters(self, op: Op, given: list[Any]) -> dict[str, Any] | None:
        """Some that an operator takes for arguments of these shapes; None if none are known."""
        every = {n: d for n, d in op.params.items() if d is not REQUIRED}
        samples = op.samples
        if op.name == "assemble":
            return self.places(given)
        if op.name == "cast":
            return {"dtype": np.dtype(self.pick(self.dtypes if self.smooth else DTYPES))}
        try:
            if op.name == "set_slice":
                samples = CATALOGUE["slice"].samples
            if samples.params is not None:
                return every | samples.params(tuple(given[:1] if op.name == "set_slice" else given), self.pick)
            if (samples.relation == "cases" and samples.cases and len(every) < len(op.params)) or self.chance(2):
                return every | (self.pick(samples.cases)[1] if samples.cases else {})
        except (IndexError, ValueError, TypeError):
            return None
        return every

    def places(self, given: list[Any]) -> dict[str, Any] | None:
        """Parts one behind the other along one axis, in steps, with gaps; some interleaved."""
        rank = len(given[0])
        if not rank or any(len(s) != rank for s in given):
            return None
        axis, step = self.pick(range(rank)), self.pick((1, 1, 2, -1))
        offsets, at = [], 0
        for shape in given:
            n = shape[axis]
            begin = at if step > 0 else at + max(n - 1, 0)
            offsets.append(tuple(begin if i == axis else 0 for i in range(rank)))
            at += max(0, (n - 1) * abs(step) + 1) + self.pick((0, 0, 1))
        shape = tuple(at if i == axis else max(s[i] for s in given) for i in range(rank))
        if step == 2 and len(given) > 1 and given[0][axis] == given[1][axis] > 0 and self.chance(2):
            offsets[1] = tuple(1 if i == axis else 0 for i in range(rank))  # the odd ones, between the even ones
            shape = tuple(max(n, 2 * given[0][axis]) if i == axis else n for i, n in enumerate(shape))
        strides = (tuple(step if i == axis else 1 for i in range(rank)),) * len(given)
        return {"shape": shape, "offsets": tuple(offsets), "strides": strides, "fill": self.pick((0, 1))}
