"""Gradients of values: backward through what a dynamic engine has recorded, as often as one likes.

What lies between some values and others is written out as a symbolic graph whose inputs are the values that were
computed, differentiated there as any function is, optimised, planned and run by the engine. The plan is remembered by
the structure of what lies between, so that the next step of the same kind compiles nothing. Results are recorded in
turn, as one application of the graph's body, unless nothing is to be.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import frozen

from nnc_func.autodiff.arguments import alike
from nnc_func.autodiff.formulas import Called, Joint
from nnc_func.autodiff.linearised import Linearised
from nnc_func.autodiff.traced import Entry, Reverse, Traced, check_derivative, scope
from nnc_func.aval import Aval
from nnc_func.body import Body, holds_functions
from nnc_func.engine.dynamic.paths import Path, is_part, path_between
from nnc_func.engine.dynamic.records import Record, Recorded
from nnc_func.engine.dynamic.vacancies import Vacancy
from nnc_func.engine.running.program import Program
from nnc_func.errors import DerivativeError, GradientWarning
from nnc_func.facets.derivatives import OfBodies
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.bodies import abstract
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.leaves import CONSTANT, INPUT, Variable
from nnc_func.graph.node import Node, Result, Value, topological
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.origin import Origin, describe, lines, origin
from nnc_func.graph.tensors.tensor import Tensor, listed
from nnc_func.layer import evolved
from nnc_func.tree import ONE_LEAF, Structure

KEPT, FEW = 64, 8  # structures whose programs are remembered, at most; and if these hold many bytes
MOST = 1 << 26  # bytes of results that all of them hold
UNRECORDED = (
    "gradients are asked of what nothing was recorded of, and are zero: it is made of constants only, or was computed "
    "under no_grad, which may still be open (a generator that waits within it), or was pickled or detached"
)
FIRST = np.zeros((), np.int64)
"""Chooses the body of a branch that has one."""


@frozen(eq=False)
class Pull:
    """How gradients flow through what has one structure.

    Attributes
    ----------
    program
        From values, given cotangents, and what is added to, to gradients; None where all of these are zero.
    feeds
        Which of all these it reads, by number.
    flows
        For each gradient whether the program gives it; else it is zero.
    body, captured
        The same computation as a body, and arrays that are further operands of it.
    recomputed
        How many evicted values it computes again.
    """

    program: Any
    feeds: tuple[int, ...]
    flows: tuple[bool, ...]
    body: Body | None
    captured: tuple[Any, ...]
    recomputed: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of results that the program holds, to give them again once nobody refers to them."""
        plan = self.program.plan if isinstance(self.program, Program) else None
        return 0 if plan is None else sum([plan.slots[s].aval.nbytes for s in plan.outputs])


def gradients(
    stack: Any,
    ys: Sequence[Tensor],
    xs: Sequence[Tensor],
    cotangents: Sequence[Any] | None = None,
    into: Sequence[Any] | None = None,
) -> tuple[Tensor, ...]:
    """The gradients of values with respect to values that they were made of; see `Derivatives.gradients`."""
    found = [_recorded(stack, y, "y") for y in ys]
    bottoms = [_recorded(stack, x, "x") for x in xs]
    flowing = _given(stack, cotangents, ys, "a cotangent", "value")
    if flowing is not None:
        flowing = [c for y, c in zip(found, flowing, strict=True) if y is not None]
    tops = [y for y in found if y is not None]
    if found and bottoms and not tops and cotangents is None and into is None:
        _say_unrecorded()
    totals = _given(stack, into, xs, "what is added to", "value")
    if flowing is None and any(kind_of(y.dtype) == "c" for y in tops):
        raise DerivativeError(
            "gradients of complex values want cotangents: say cotangents=[...], or take ops.real or ops.imag of them"
        )
    pull, sources, arrays = _pull(stack, tops, bottoms, flowing, totals)
    beside = [c for c in (*(flowing or ()), *(totals or ())) if c is not None]
    results = iter(_run(stack.engine, pull, [*sources, *beside], [*arrays, *map(_array, beside)]))
    zeros, is_on = stack.autodiff.functions.zeros_like, stack.engine.recording.is_on

    def unreached(n: int, x: Any) -> Any:
        total = None if totals is None else totals[n]
        return zeros(x.array) if total is None else total if is_on else _array(total)

    return tuple([
        Tensor(stack, next(results) if flows else unreached(n, x))
        for n, (x, flows) in enumerate(zip(bottoms, pull.flows, strict=True))
    ])  # fmt: skip


def pulled(stack: Any, ys: Sequence[Tensor], xs: Sequence[Tensor]) -> tuple[Pull, list[Any]]:
    """How gradients flow from values to others that they were made of, and the values that it is about, by number."""
    tops = [y for y in (_recorded(stack, y, "y") for y in ys) if y is not None]
    return _pull(stack, tops, [_recorded(stack, x, "x") for x in xs], None, None)[:2]


def _pull(
    stack: Any, tops: Sequence[Recorded], bottoms: Sequence[Recorded], flowing: Any, totals: Any
) -> tuple[Pull, list[Any], list[Any]]:
    recording, aval = stack.engine.recording, stack.engine.recording.aval
    path, sources, arrays = path_between([y.record for y in tops], [x.record for x in bottoms])
    key = (path.key, _kinds(recording, flowing), _kinds(recording, totals))
    known = stack.engine.pulls
    pull = known.get(key)
    if pull is None:
        avals = [array.aval if type(array) is Vacancy else aval(array) for array in arrays]
        pull = known[key] = _Writing(stack, path, avals).pull(flowing, totals)
        calls = any(holds_functions(step.op, step.items) for step in path.steps if not is_part(step))
        left = [stack.engine.few_pulls.note(key)] if calls else []
        while len(known) > KEPT or (len(known) > FEW and sum([each.nbytes for each in [*known.values()]]) > MOST):
            left.append(known.pop(next(iter([*known])), None))  # a list at once: other threads put in what they find
        for gone in left:
            if gone is not None and isinstance(gone.program, Program):
                stack.engine.arenas.forget(gone.program)
    else:
        known[key] = known.pop(key, pull)  # the last one to be forgotten
    return pull, sources, arrays


def _recorded(stack: Any, tensor: Any, what: str) -> Any:
    """What is recorded of a value, or of what a variable's value is now; None of a y that is a constant.

    Raises
    ------
    DerivativeError
        It is no floating tensor whose value is known, or an x that is a constant.
    """
    if not isinstance(tensor, Tensor):
        raise DerivativeError(f"gradients are of tensors, with respect to tensors, given the {what} {tensor!r}")
    value = stack.carrier(tensor)
    if type(value) is Variable:
        value = stack.engine.recording.of(value)
    elif type(value) is Node or type(value) is Result:
        value = stack.engine.recording.known(value)
    if type(value) is Recorded and kind_of(value.dtype) in "fc":
        return value
    if type(value) is not Recorded and tensor.stack is not stack and tensor.stack != stack:
        raise DerivativeError(
            f"the {what} {tensor.aval!r} is a tensor of another stack, whose records are its own: compute it on this "
            "one, of variables of this one"
        )
    if isinstance(value, Value) and type(value) is not Recorded and not isinstance(value, Traced):
        raise DerivativeError(
            f"the {what} {tensor.aval!r} is a value of a graph, made of an input, or by an effect with a token of its "
            "own (after=), of which nothing is recorded: use stack.grad, stack.vjp or stack.jvp there"
        )
    if isinstance(value, Traced) or hasattr(value, "primal"):
        raise DerivativeError(
            f"the {what} {tensor.aval!r} is part of a function that is being traced, whose values are not known: "
            "use stack.grad, stack.vjp or stack.jvp there"
        )
    if kind_of(tensor.dtype) not in "fc":
        raise DerivativeError(f"the {what} is of {tensor.dtype}, {tensor.aval!r}: gradients are of floating values")
    if what == "y":
        return None
    raise DerivativeError(
        f"the x {tensor.aval!r} is a constant, so that what was made of it was not recorded: make it a variable, "
        "stack.variable(name, value), before it is used"
    )


def _say_unrecorded() -> None:
    """Warn, once for a line unless filters say otherwise."""
    file, line, _ = next(lines(origin()), ("<unknown>", 1, ""))
    warnings.warn_explicit(UNRECORDED, GradientWarning, file, line, registry=_said.setdefault(file, {}))


_said: dict[str, Any] = {}  # by file, as `warnings` wants it


def _given(stack: Any, given: Any, like: Sequence[Tensor], what: str, of: str) -> list[Any] | None:
    """Carriers of what is given for each of some tensors, None where that is None."""
    if given is None:
        return None
    found = [*listed(given, "into" if what.startswith("what") else "cotangents")]
    if len(found) != len(like):
        raise DerivativeError(f"{what} is given for each {of}, {len(like)}, or None for it; given {len(found)}")
    made = []
    for one, its in zip(found, like, strict=True):
        if one is not None:  # of a variable, its value of now
            one = +(stack.tensor(one) if isinstance(one, Tensor) else stack.asarray(one))
        made.append(None if one is None else alike(stack, [one], [its], what, of)[0])
    if any(isinstance(c, (Traced, Value)) and type(c) is not Recorded for c in made):
        raise DerivativeError(f"{what} is part of a function that is being traced; use stack.vjp there")
    return made


def _kinds(recording: Any, given: list[Any] | None) -> Any:
    return None if given is None else tuple([None if c is None else recording.aval(_array(c)) for c in given])


def _array(source: Any) -> Any:
    return source.array if type(source) is Recorded else source


def _run(engine: Any, pull: Pull, sources: list[Any], arrays: list[Any]) -> Sequence[Any]:
    """What the program gives, recorded if that is on and it was made of what takes gradients."""
    if pull.program is None:
        return ()
    given, recording = [sources[n] for n in pull.feeds], engine.recording
    run = pull.program.run if engine.memo is None else partial(engine.memo.run, pull.program)
    found = run([arrays[n] for n in pull.feeds])
    if recording.saved is not None:
        recording.saved.note_pass([x for x in given if type(x) is Record], pull.recomputed)
    if not recording.is_on:
        return found  # type: ignore[no-any-return]
    operands = (FIRST, *(x.record if type(x) is Recorded else x for x in given), *pull.captured)
    return recording.made_of(CATALOGUE["branch"], operands, {"bodies": (pull.body,), "default": False}, tuple(found))  # type: ignore[no-any-return]


class _Writing:
    """A path written out as a graph, on the recorder of a stack's Autodiff."""

    def __init__(self, stack: Any, path: Path, avals: Sequence[Aval]) -> None:
        self.stack, self.path = stack, path
        self.bodies = stack.autodiff.bodies
        self.autodiff = self.bodies.recorder
        self.symbol = stack.symbol
        self.inputs = [self.symbol.input(f"value {n}", each) for n, each in enumerate(avals)]
        for step in path.again:
            self._compute_again(step)
        self.trace = Reverse(self.autodiff)
        self.parents: dict[int, Any] = {}
        self.taken: dict[int, Any] = {}
        self.wanted = {*path.xs}

    def _compute_again(self, step: Any) -> None:
        """What computes evicted values again, in place of inputs."""
        given = [self.inputs[x] if is_number else x for is_number, x in step.operands]
        if is_part(step):
            made = given
        else:
            made = self.stack.graph.bind(step.op, *given, **dict(step.items))
            made = made if step.op.multi_result else [made]
        for n, result in zip(step.results, made, strict=True):
            self.inputs[n] = result

    def pull(self, flowing: list[Any] | None, totals: list[Any] | None) -> Pull:
        """How gradients flow, given avals of cotangents and of what is added to."""
        try:
            return self._compiled(self._written(flowing, totals))
        finally:
            self.trace.tape.clear()  # whose entries refer to this
            self.parents.clear()

    def _written(self, flowing: list[Any] | None, totals: list[Any] | None) -> list[Any]:
        for n in self.wanted.difference([n for step in self.path.steps for n in step.results]):
            self._take(n)
        for step, where in zip(self.path.steps, self.path.origins, strict=True):
            self._write(step, where)
        given = self._more("cotangent", flowing)
        added = self._more("total", totals)
        o = self.autodiff.functions
        ys = [Traced(self.trace, self.inputs[n], *self.parents.get(n, (None, 0))) for n in self.path.ys]
        cotangents = [
            None if n not in self.parents
            else o.broadcast_like(o.full(shape=(), value=1, dtype=self.inputs[n].dtype), self.inputs[n])
            if given is None else given[i]
            for i, n in enumerate(self.path.ys)
        ]  # fmt: skip
        Linearised(self.trace, [], ys).pull(cotangents)
        found = [self.taken.get(n) for n in self.path.xs]
        if added is not None:
            found = [g if g is None or t is None else o.add(t, g) for g, t in zip(found, added, strict=True)]
        return found

    def _take(self, number: int, *parents: Any) -> None:
        """Note the gradient of a value once it is complete, and let it flow on."""
        value = self.inputs[number]

        def pull(gs: Sequence[Any]) -> list[Any]:
            self.taken[number] = gs[0]
            return [*gs] if parents else []

        entry = Entry(Called("value", Joint(list, pull)), (value,) * len(parents), parents, {}, (value,))
        self.trace.tape.append(entry)
        self.parents[number] = (entry, 0)

    def _write(self, step: Any, where: Origin) -> None:
        op, derivative = step.op, step.op.derivative
        primals = [self.inputs[x] if is_number else x for is_number, x in step.operands]
        parents = [self.parents.get(x) if is_number else None for is_number, x in step.operands]
        params = dict(step.items)
        results = [self.inputs[n] for n in step.results]
        if isinstance(derivative, OfBodies):
            moving = frozenset([n for n, each in enumerate(parents) if each is not None])
            o, values = self.autodiff.functions, results
            if derivative.known is not None:
                push, pull = derivative.known(op, self.bodies, o, moving, values, primals, params)
            else:
                values, push, pull = derivative.linearize(op, self.bodies, o, moving, primals, params)
            entry = Entry(Called(op.name, Joint(push, pull)), primals, parents, {}, tuple(values))
        else:
            check_derivative(op, params, describe(where))
            entry = Entry(op, primals, parents, params, tuple(results) if op.multi_result else results[0])
        self.trace.tape.append(entry)
        for index, n in enumerate(step.results):
            self.parents[n] = (entry, index)
            if n in self.wanted:
                self._take(n, (entry, index))

    def _more(self, name: str, given: list[Any] | None) -> list[Any] | None:
        if given is None:
            return None
        aval = self.stack.engine.recording.aval
        made = [None if c is None else self.symbol.input(f"{name} {n}", aval(_array(c))) for n, c in enumerate(given)]
        self.inputs += [each for each in made if each is not None]
        return made

    def _compiled(self, found: list[Any]) -> Pull:
        flows = tuple([g is not None for g in found])
        outputs = [self.stack.operator.lift(g) for g in found if g is not None]
        if not outputs:
            return Pull(None, (), flows, None, ())
        nodes = {*topological(outputs)}
        read = {n for n in nodes if n.op is INPUT}
        feeds = tuple([n for n, each in enumerate(self.inputs) if each in read])
        again = [n for step in self.path.again if not is_part(step) for n in step.results]
        recomputed = sum([self.inputs[n].node in nodes for n in again])
        inputs = [self.inputs[n] for n in feeds]
        structure = Structure(list, (), (ONE_LEAF,) * len(outputs))
        graph = self.stack.graph.close(inputs, outputs, (), "gradients", structure)
        body, captured = abstract(inputs, outputs, whole=True)
        arrays = tuple([v.node.data for v in captured if v.node.op is CONSTANT])
        assert len(arrays) == len(captured), "what gradients are made of is a value, or a constant"
        engine = self.stack.engine
        if recomputed and engine.orders:
            engine = evolved(engine, orders=("just_in_time", *engine.orders))
        program = engine.compile(graph)
        if isinstance(program, Program):
            program.arenas = self.stack.engine.arenas
        return Pull(program, feeds, flows, body, arrays, recomputed)


def deferring(stack: Any) -> Any:
    """What stands before the operators of a stack that replays them, or forms them ahead; None where it cannot."""
    engine = stack.engine
    if engine.replay_after is not None:
        from nnc_func.engine.dynamic.replay.replay import Replay  # few ask for it

        return None if stack._way is None else Replay(stack, stack.bind, engine.replay_after, gradients, pulled)
    from nnc_func.engine.dynamic.ahead.former import Ahead  # likewise

    can = stack._dispatch is not None or engine.check_numerics
    return Ahead(stack, stack.bind, gradients, lambda: scope.get() is not None) if can else None


def trace(stack: Any, *ys: Tensor) -> ComputationGraph:
    """The computation graph behind values; see `Derivatives.trace`."""
    values = [stack.operator.lift(stack.carrier(y)) for y in ys]
    structure = Structure(list, (), (ONE_LEAF,) * len(values)) if len(values) > 1 else ONE_LEAF
    found: ComputationGraph = stack.graph.close([], values, (), "trace", structure)
    return found
