"""Programs as data: leaves, steps, outputs and updates, which print as code and run on any stack, or on none.

`nnc_func.testing.programs` draws them at random.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.body import Body
from nnc_func.device import NumPy, Places
from nnc_func.graph.shape import Shape
from nnc_func.graph.type import Type
from nnc_func.op import Op
from nnc_func.testing.meanings import Meaning, OnArrays, OnStack

INPUT, VARIABLE, CONSTANT = "input", "variable", "constant"
FILLS = {"zeros": 0, "ones": 1, "halves": 0.5, "twos": 2}  # what else a constant may be made of: drawn numbers
KEY = "key"
DEFINITE = "definite"  # elements of matrices that have inverses, roots, and eigenvectors one can compare
PLACES = ("one", "two")  # as programs name places
SHAPES = Shape(Type(Places([(place, NumPy()) for place in PLACES])))


@frozen(eq=False)
class Leaf:
    """An input, a variable or a constant: what it is made of is a number, or drawn from a seed.

    Attributes
    ----------
    fill
        A seed, or a name of `FILLS`.
    elements
        Least and largest of what is drawn, for integers that are indices; or `DEFINITE`: symmetric matrices with
        positive eigenvalues that are apart.
    """

    kind: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    fill: str | int = 0
    place: str | None = None
    elements: Any = None

    @property
    def aval(self) -> Aval:
        """What is known of it."""
        return Aval(self.shape, self.dtype, None, None if self.place == PLACES[0] else self.place)

    def value(self, seed: int = 0) -> Any:
        """Its array: multiples of 1/64, small integers, truth values; or all one number.

        Examples
        --------
        >>> Leaf("constant", "c", (2,), "int32", "ones").value()
        array([1, 1], dtype=int32)
        """
        if self.fill == KEY:
            return np.array([1, 2 + seed], "uint64")
        if isinstance(self.fill, str):
            return np.full(self.shape, FILLS[self.fill]).astype(self.dtype)
        random = np.random.default_rng([seed, self.fill])
        if self.elements == DEFINITE:
            return definite(self.shape, random).astype(self.dtype)
        if self.elements is not None:
            low, high = self.elements
            return np.asarray(random.integers(low, high + 1, self.shape).astype(self.dtype))
        if self.dtype == "bool":
            return np.asarray(random.integers(0, 2, self.shape, "int8").astype("bool"))
        if self.dtype.startswith("float"):
            return np.asarray((random.integers(-128, 129, self.shape) / 64).astype(self.dtype))
        return np.asarray(random.integers(-2, 4, self.shape).astype(self.dtype))


def definite(shape: tuple[int, ...], random: np.random.Generator) -> Any:
    """Symmetric matrices whose eigenvalues are about 1.5, 2.5, 3.5 …

    Examples
    --------
    >>> np.linalg.eigvalsh(definite((2, 2), np.random.default_rng(0))).round(1)
    array([1.6, 2.4])
    """
    drawn = random.integers(-8, 9, shape) / 64
    return (drawn + np.swapaxes(drawn, -1, -2)) / 2 + np.diag(np.arange(shape[-1]) + 1.5)


@frozen(eq=False)
class Step:
    """One application: the operator, its operands by number, its parameters."""

    op: Op
    args: tuple[int, ...]
    params: dict[str, Any]

    def avals(self, known: Sequence[Aval]) -> list[Aval]:
        """Of its results, by those of the values so far."""
        return inferred(self.op, [known[a] for a in self.args], self.params)

    @property
    def operators(self) -> tuple[Op, ...]:
        """What is applied."""
        return (self.op,)

    def moved(self, number: Callable[[int], int]) -> Step:
        """With other numbers."""
        return Step(self.op, tuple(map(number, self.args)), self.params)

    def applied(self, stack: Any, values: Sequence[Any]) -> list[Any]:
        """Its results on a stack."""
        found = stack.bind(self.op, *(values[a] for a in self.args), **self.params)
        return list(found) if self.op.multi_result else [found]

    def meant(self, meaning: Meaning, values: Sequence[Any]) -> list[Any]:
        """Its results by what operators mean."""
        return meaning.apply(self.op, [values[a] for a in self.args], self.params)

    def lines(self, names: Callable[[int], str], known: Sequence[Aval]) -> list[str]:
        """As code."""
        made = [names(len(known) + n) for n in range(len(self.avals(known)))]
        said = [*map(names, self.args), *(f"{k}={_literal(v)}" for k, v in self.params.items())]
        one = "," if self.op.multi_result and len(made) == 1 else ""
        return [f"{', '.join(made)}{one} = ops.{self.op.name}({', '.join(said)})"]


@frozen(eq=False, repr=False)
class Program:
    """A graph as data: values are numbered, leaves first, then the results of each step.

    Attributes
    ----------
    leaves, steps
        What there is, and what is computed: each is a `Step`, or a loop or branch of `nnc_func.testing.control_steps`.
    outputs
        Numbers of the values that are returned.
    updates
        Pairs of numbers: a variable, and the value that it has next.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> x = Leaf("input", "x", (2,), "float64")
    >>> print(Program((x,), (Step(CATALOGUE["add"], (0, 0), {}),), (1, 0), ()))
    import nnc_func as nnc
    stack = nnc.lazy()
    ops = stack.ops
    x = stack.input('x', (2,), 'float64')
    v1 = ops.add(x, x)
    program = stack.compile([x], [v1, x])
    """

    leaves: tuple[Leaf, ...]
    steps: tuple[Any, ...]
    outputs: tuple[int, ...]
    updates: tuple[tuple[int, int], ...]

    @property
    def inputs(self) -> list[Leaf]:
        """Its inputs."""
        return [leaf for leaf in self.leaves if leaf.kind == INPUT]

    @property
    def variables(self) -> list[Leaf]:
        """Its variables."""
        return [leaf for leaf in self.leaves if leaf.kind == VARIABLE]

    @property
    def operators(self) -> set[Op]:
        """All that are applied, in bodies too; what loops and branches apply themselves is not among them."""
        return {op for step in self.steps for op in step.operators}

    def feeds(self, seed: int = 0) -> list[Any]:
        """An array for each input."""
        return [leaf.value(seed) for leaf in self.inputs]

    def epsilon(self) -> float:
        """That of its narrowest floating dtype: what values can be compared to."""
        kinds = {a.dtype for a in self.avals() if a.dtype.kind in "fc"}
        return max((float(np.finfo(d).eps) for d in kinds), default=0.0)

    def avals(self) -> list[Aval]:
        """Of every value."""
        found = [leaf.aval for leaf in self.leaves]
        for step in self.steps:
            found += step.avals(found)
        return found

    def results(self) -> list[range]:
        """The numbers of each step's results."""
        known, found = [leaf.aval for leaf in self.leaves], []
        for step in self.steps:
            made = step.avals(known)
            found.append(range(len(known), len(known) + len(made)))
            known += made
        return found

    def needed(self) -> Program:
        """The program of those leaves and steps alone of which its outputs and updates are made."""
        wanted = {*self.outputs, *(n for pair in self.updates for n in pair)}
        results = self.results()
        for step, own in zip(reversed(self.steps), reversed(results), strict=True):
            if wanted.intersection(own):
                wanted.update(own, step.args)
        numbers = {old: new for new, old in enumerate(sorted(wanted))}
        kept = [
            step.moved(inwards(lambda n: numbers[n], own.start, numbers[own.start]))
            for step, own in zip(self.steps, results, strict=True) if own[0] in wanted
        ]  # fmt: skip
        return Program(
            tuple(leaf for n, leaf in enumerate(self.leaves) if n in wanted),
            tuple(kept),
            tuple(numbers[o] for o in self.outputs),
            tuple((numbers[v], numbers[u]) for v, u in self.updates),
        )

    # --- running it

    def applied(self, stack: Any, leaves: Sequence[Any]) -> list[Any]:
        """Every value, of the leaves' carriers."""
        values = list(leaves)
        for step in self.steps:
            values += step.applied(stack, values)
        return values

    def written_out(self, stack: Any, leaves: Sequence[Any], decisions: Sequence[int]) -> list[Any]:
        """Every value, of the leaves' carriers: loops and branches are Python's, which decide as they did on arrays."""
        meaning, values = OnStack(stack, decisions), list(leaves)
        for step in self.steps:
            values += step.meant(meaning, values)
        return values

    def on_arrays(self, leaves: Sequence[Any]) -> tuple[list[Any], OnArrays]:
        """Every value, of the leaves' arrays, by reference kernels and Python's loops; and what was met on the way."""
        meaning, values = OnArrays(), list(leaves)
        for value in leaves:
            meaning.met(value)
        with np.errstate(all="ignore"):
            for step in self.steps:
                values += step.meant(meaning, values)
        return values, meaning

    def run_numpy(self, feeds: Sequence[Any], variables: Sequence[Any]) -> tuple[list[Any], list[Any], float]:
        """Outputs, the variables' next values, and the largest finite number on the way: by reference kernels alone."""
        given, held = iter(feeds), iter(variables)
        values, met = self.on_arrays([
            next(given) if n.kind == INPUT else next(held) if n.kind == VARIABLE else n.value() for n in self.leaves
        ])  # fmt: skip
        largest = met.largest or 1.0
        following = dict(self.updates)
        places = [i for i, n in enumerate(self.leaves) if n.kind == VARIABLE]
        return [values[o] for o in self.outputs], [values[following.get(i, i)] for i in places], largest

    def immediate(self, stack: Any, feeds: Sequence[Any], variables: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """As `run_numpy`, operator by operator on a stack, without a compiled program: computed, or forced together."""
        given, held = iter(feeds), iter(variables)
        values = self.applied(stack, [
            stack.asarray(
                next(given) if n.kind == INPUT else next(held) if n.kind == VARIABLE else n.value(), place=n.place
            )
            for n in self.leaves
        ])  # fmt: skip
        following = dict(self.updates)
        places = [i for i, n in enumerate(self.leaves) if n.kind == VARIABLE]
        wanted = [values[o] for o in self.outputs] + [values[following.get(i, i)] for i in places]
        found = list(stack.evaluate(*wanted))
        return found[: len(self.outputs)], found[len(self.outputs) :]

    def build(self, stack: Any, retain: str | Sequence[int] = "none") -> Built:
        """It compiled by a stack, with variables of its own; values to retain are given by number."""
        leaves = [
            stack.input(n.name, n.shape, n.dtype, place=n.place) if n.kind == INPUT
            else stack.variable(n.name, n.value(), place=n.place) if n.kind == VARIABLE
            else stack.asarray(n.value(), place=n.place)
            for n in self.leaves
        ]  # fmt: skip
        values = self.applied(stack, leaves)
        program = stack.compile(
            [v for v, n in zip(leaves, self.leaves, strict=True) if n.kind == INPUT],
            [values[o] for o in self.outputs],
            [(values[v], values[u]) for v, u in self.updates],
            retain=retain if isinstance(retain, str) else [values[n] for n in retain],
        )
        return Built(program, [v for v, n in zip(leaves, self.leaves, strict=True) if n.kind == VARIABLE])

    # --- as code

    def _name(self, number: int) -> str:
        return self.leaves[number].name if number < len(self.leaves) else f"v{number}"

    def __str__(self) -> str:
        lines = []
        for leaf in self.leaves:
            there = "" if leaf.place is None else f", place={leaf.place!r}"
            made = f"({leaf.name!r}, {leaf.shape}, {leaf.dtype!r}{there})"
            if leaf.kind == INPUT:
                lines.append(f"{leaf.name} = stack.input{made}")
                continue
            value = f"np.array({leaf.value().tolist()!r}, {leaf.dtype!r})"
            value += f".reshape({leaf.shape})" if 0 in leaf.shape else ""
            call = f"variable({leaf.name!r}, {value}{there})" if leaf.kind == VARIABLE else f"asarray({value}{there})"
            lines.append(f"{leaf.name} = stack.{call}")
        avals = self.avals()
        for step, own in zip(self.steps, self.results(), strict=True):
            lines += step.lines(self._name, avals[: own.start])
        names = ", ".join(n.name for n in self.inputs)
        updates = ", ".join(f"({self._name(v)}, {self._name(u)})" for v, u in self.updates)
        outputs = ", ".join(map(self._name, self.outputs))
        lines.append(f"program = stack.compile([{names}], [{outputs}]{f', [{updates}]' if updates else ''})")
        numpy = ["import numpy as np"] * any(" = stack.variable(" in n or " = stack.asarray(" in n for n in lines)
        numpy += ["from numpy import inf, nan"] * any(NOT_FINITE.search(n) for n in lines)
        placed = {leaf.place for leaf in self.leaves}
        placed |= {step.params.get("place") for step in self.steps if isinstance(step, Step)}
        device = f"nnc.Places({', '.join(f'{place}=nnc.NumPy()' for place in PLACES)})" if placed - {None} else ""
        return "\n".join([*numpy, "import nnc_func as nnc", f"stack = nnc.lazy({device})", "ops = stack.ops", *lines])

    __repr__ = __str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("\n" + str(self) + "\n")


NOT_FINITE = re.compile(r"\b(inf|nan)\b")


@frozen(eq=False)
class Built:
    """A compiled program and its variables."""

    program: Any
    variables: list[Any]

    def __call__(self, *feeds: Any) -> list[Any]:
        """What the program returns, as it returns it."""
        return list(self.program(*feeds))

    def state(self) -> list[Any]:
        """The variables' values."""
        return [v.numpy() for v in self.variables]


def _literal(value: Any) -> str:
    if isinstance(value, Body):
        rows = [
            f"nnc.Application(stack.type.ops[{each.op.name!r}], {each.operands}, "
            f"{{{_said(each.params)}}}, {each.count})"
            for each in value.applications
        ]
        return f"nnc.Body({value.parameters}, [{', '.join(rows)}], {value.results})"
    if isinstance(value, tuple):
        return f"({''.join(f'{_literal(each)}, ' for each in value)})"
    return repr(value.name if isinstance(value, np.dtype) else value)


def _said(params: dict[str, Any]) -> str:
    return ", ".join([f"{name!r}: {_literal(value)}" for name, value in params.items()])


def inferred(op: Op, avals: Sequence[Aval], params: dict[str, Any]) -> list[Aval]:
    """Avals of the results of one application."""
    found = SHAPES.bind(op, *avals, **params)
    return list(found) if op.multi_result else [found]


def inwards(number: Callable[[int], int], base: int, now: int) -> Callable[[int], int]:
    """Numbers of what is around a step, and of what is within: that begins at `base`, and at `now` afterwards.

    Examples
    --------
    >>> [inwards(lambda n: 10 * n, 3, 7)(n) for n in (1, 2, 3, 4)]
    [10, 20, 7, 8]
    """
    return lambda n: number(n) if n < base else n - base + now
