"""A function as one program of a dynamic graph: what runs forward, and what its derivative is.

It is traced to a body, differentiated as a body, and parted into a forward pass, which gives what the backward pass
reads, and that. The forward pass is compiled and its application recorded as one `custom`; the backward pass is part of
whatever program of gradients it lies in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

from nnc_func.autodiff.traced import KEPT_OUT
from nnc_func.aval import Aval
from nnc_func.body import Application, Body
from nnc_func.body_builder import BodyBuilder
from nnc_func.control_flow.tracing import aval_of, traced
from nnc_func.engine.dynamic.records import Recorded
from nnc_func.engine.running.program import Program
from nnc_func.errors import DerivativeError, NncError
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.leaves import CONSTANT, Variable
from nnc_func.graph.node import Value
from nnc_func.graph.ops.custom import BACKWARD_ONLY, custom
from nnc_func.graph.ops.cut_bodies import zeros
from nnc_func.graph.ops.passes import in_passes
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.op import Op
from nnc_func.tree import ONE_LEAF, Structure, flatten

KEPT = 64  # bodies whose programs an engine remembers


@frozen(eq=False)
class RecordedProgram:
    """A function whose applications a dynamic stack records, each as one.

    Attributes
    ----------
    program
        From the operands to the results, and to what the backward pass reads.
    captured
        Operands after the arguments: variables, whose values of the time of a call are taken, and arrays.
    params
        Those of `custom`.
    structure
        How the results are nested.
    count
        How many there are.
    """

    program: Any
    captured: tuple[Any, ...]
    params: dict[str, Any]
    structure: Structure
    count: int

    def run(self, stack: Any, arguments: Sequence[Any]) -> Any:
        """The results for these carriers, a tree of tensors."""
        return self.structure.build([Tensor(stack, each) for each in self.results(stack, arguments)])

    def results(self, stack: Any, arguments: Sequence[Any]) -> Sequence[Any]:
        """The same as carriers."""
        recording = stack.engine.recording
        given = [*arguments, *(recording.of(x) if type(x) is Variable else x for x in self.captured)]
        arrays = [x.array if type(x) is Recorded else x for x in given]
        operands = tuple([x.record if type(x) is Recorded else x for x in given])
        found = recording.made(custom, operands, self.params, tuple(self.program.run(arrays)), self.count)
        return found[: self.count]  # type: ignore[no-any-return]


def recorded_program(
    stack: Any, f: Callable[[list[Tensor]], Any], avals: Sequence[Aval], moving: Sequence[int], name: str
) -> RecordedProgram | None:
    """A function as a program of a dynamic stack; None where its operators are to be recorded one by one.

    That is where it has an effect, where Python wants a value, where it reads what was made of variables, which may be
    another value the next time, or where an operator has no derivative.

    Parameters
    ----------
    f
        Takes a list of tensors, and gives a tree of them.
    avals
        Of the arguments.
    moving
        Which of them take gradients.
    """
    structures: list[Structure] = []

    def flat(tensors: list[Tensor]) -> list[Any]:
        leaves, structure = flatten(f(tensors))
        structures.append(structure)
        return leaves

    try:
        found = traced(stack, flat, avals, whole=True, effects=True, asks=True)
    except NncError:  # which is raised again, if it is one, where the operators are recorded
        return None
    captured = [
        x.node.data if isinstance(x, Value) and type(x) is not Recorded and x.node.op is CONSTANT else x
        for x in found.captured
    ]  # fmt: skip
    if found.has_effects or any(isinstance(x, Value) or hasattr(x, "primal") for x in captured):
        return None
    flowing = [*moving, *_variables(captured, len(avals))]
    made = _parted(stack, found.body, found.parameters, tuple(flowing), len(found.avals), name)
    if made is None or isinstance(made, str):
        return None
    program, params, more = made
    return RecordedProgram(program, (*captured, *more), params, structures[0], len(found.avals))


def recorded_application(
    stack: Any, op: Op, carriers: Sequence[Any], params: dict[str, Any]
) -> tuple[Any, ...] | str | None:
    """The results of a loop or a branch with effects, as one program of a dynamic stack.

    What its derivative reads is kept, so that no effect happens again. None where no gradient flows; where there is no
    derivative, why.
    """
    recording = stack.engine.recording
    given = [recording.of(x) if type(x) is Variable else x for x in carriers]
    moving = tuple([n for n, x in enumerate(given) if type(x) is Recorded and kind_of(x.dtype) in "fc"])
    if not moving:
        return None
    avals = tuple([aval_of(stack, x) for x in given])
    count = len(stack.shape.infer(op, avals, op.canonical(params)))
    body = Body(
        len(avals), [Application(op, tuple(range(len(avals))), params, count)], range(len(avals), len(avals) + count)
    )
    made = _parted(stack, body, avals, moving, count, op.name)
    if made is None or isinstance(made, str):
        return made
    program, its, more = made
    return tuple(RecordedProgram(program, more, its, ONE_LEAF, count).results(stack, given))


def _parted(
    stack: Any, body: Body, avals: tuple[Aval, ...], moving: tuple[int, ...], count: int, name: str
) -> tuple[Any, dict[str, Any], tuple[Any, ...]] | str | None:
    """The program of the forward pass of a body, the parameters of `custom`, and arrays that are further operands.

    None where nothing flows; where it has no derivative, why. The engine remembers it.
    """
    known, key = stack.engine.commands, (body, avals, moving, count, name)
    found: Any = known.get(key, known)
    if found is known:  # it is not there
        while len(known) >= KEPT:
            known.pop(next(iter([*known])), None)  # the list is made at once: other threads put in what they find
        found = known[key] = _made(stack, *key)
    return found  # type: ignore[no-any-return]


def _made(
    stack: Any, body: Body, avals: tuple[Aval, ...], moving: tuple[int, ...], count: int, name: str
) -> tuple[Any, dict[str, Any], tuple[Any, ...]] | str | None:
    try:
        params, more = _derived(stack, body, avals, moving, count)
    except DerivativeError as error:
        return str(error).removesuffix(KEPT_OUT)
    if not params["moved"]:
        return None
    inputs = [stack.symbol.input(f"operand {n}", a) for n, a in enumerate([*avals, *map(stack.device.aval, more)])]
    return _compiled(stack, params["body"], inputs, name), params, more


def _variables(captured: Sequence[Any], first: int) -> list[int]:
    """Positions of floating variables among what is captured."""
    return [first + n for n, x in enumerate(captured) if type(x) is Variable and kind_of(x.dtype) in "fc"]


def _derived(
    stack: Any, body: Body, avals: Sequence[Aval], moving: Sequence[int], count: int
) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """The parameters of `custom`, and arrays that are further operands."""
    derive, reached = stack.autodiff.bodies, tuple(sorted(moving))
    pull = derive.cotangent(body, avals, frozenset(moving))
    try:
        push = derive.tangent(body, avals, frozenset(moving))
    except DerivativeError:  # something in it has none, which is said where one is asked for
        push = None
    moved = tuple([n for n in range(count) if pull.moved[n]])
    if push is not None and push.moved != pull.moved:
        raise DerivativeError("tangents and cotangents flow through different results")
    more = pull.captured if push is None else (*pull.captured, *push.captured)

    def whole(body: Body, flowing: int, first: int, its: int) -> tuple[BodyBuilder, list[int], list[int]]:
        """A body of all operands, then of what flows; and its values."""
        builder = BodyBuilder()
        operands, captured = builder.parameters(len(avals)), builder.parameters(len(more))
        given = builder.parameters(flowing)
        return builder, builder.include(body, [*operands, *given, *captured[first : first + its]]), operands

    pushed = BACKWARD_ONLY
    if push is not None:
        builder, values, _ = whole(push.body, len(reached), len(pull.captured), len(push.captured))
        pushed = builder.built([values[n] for n in push.body.results])
    builder, values, _ = whole(pull.body, len(moved), 0, len(pull.captured))
    results = [values[n] for n in pull.body.results]
    cotangents = iter(results[count:])
    slopes = {n: next(cotangents) for n, each in enumerate(pull.reached) if each}
    pulled = builder.built([
        *results[:count], *(slopes[n] if n in slopes else zeros(builder, avals[n]) for n in reached)
    ])  # fmt: skip
    passes = in_passes(pulled, len(avals) + len(more), count)
    params = {
        "body": passes.forward, "pushed": pushed, "pulled": pulled, "moved": moved, "reached": reached,
        "back": (passes.backward,),
    }  # fmt: skip
    return params, more


def _compiled(stack: Any, body: Body, inputs: list[Any], name: str) -> Any:
    """The program of a body."""
    bind = stack.autodiff.bodies.recorder.bind
    values = body.values(lambda op, args, items: bind(op, *args, **dict(items)), inputs)
    outputs = [stack.operator.lift(values[n]) for n in body.results]
    structure = Structure(list, (), (ONE_LEAF,) * len(outputs))
    program = stack.engine.compile(stack.graph.close(inputs, outputs, (), name, structure))
    if isinstance(program, Program):
        program.arenas = stack.engine.arenas
    return program
