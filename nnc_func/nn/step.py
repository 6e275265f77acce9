"""A training step (forward, backward, update) as one static graph, whose parameters are variables fed back.

Examples, number of the step and learning rate are its inputs: nothing that changes is baked in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from attrs import frozen

from nnc_func.archives.archive import Archive, write_archive
from nnc_func.archives.npy import array_bytes
from nnc_func.engine.effects import recording
from nnc_func.errors import FileFormatError, GraphError, OperatorError, ShapeError
from nnc_func.layer import chain
from nnc_func.nn.graphs import closed, unread
from nnc_func.nn.inputs import in_arrays, inputs_of, kinds_of
from nnc_func.nn.modules import Context, copied, described, key_of, partition
from nnc_func.tree import flatten, mapped

if TYPE_CHECKING:
    from pathlib import Path

ANY = 1 << 62  # bytes: a state itself bounds what is read of a file
Metrics = Mapping[str, Callable[[Any, Any], Any]]


# --- state -----------------------------------------------------------------------------------------------


@frozen(eq=False, slots=False)
class TrainingState:
    """All that training goes on from, as NumPy arrays: it pickles, and is saved as arrays without code.

    Attributes
    ----------
    model, slots
        The model, and what the update remembers.
    key
        What random draws come from: that of a step is folded from it and the step's number.
    step
        Number of steps done.

    Examples
    --------
    >>> from nnc_func import nn
    >>> state = TrainingState.start(nn.Dense(1).init(0, (None, 2)), nn.SGD(momentum=0.9))
    >>> [name for name, _ in described(state)]
    ['model.weight', 'model.bias', 'slots.velocity.0', 'slots.velocity.1', 'key', 'step']
    """

    model: Any
    slots: Any
    key: Any
    step: Any

    is_tree: ClassVar[bool] = True

    @classmethod
    def start(cls, model: Any, update: Any, seed: Any = 0) -> TrainingState:
        """Before the first step.

        Raises
        ------
        OperatorError
            The update is none, or is a class instead of an update of that class.
        """
        if isinstance(update, type) or not hasattr(update, "init"):
            raise OperatorError(f"an update is wanted, such as nn.Adam(), given {update!r}")
        if isinstance(model, type):
            raise OperatorError(f"a model is wanted, not its class {model!r}: make one, and init it")
        model = copied(model)
        return cls(model, update.init(partition(model)[0]), key_of(seed), np.int64(0))

    def save(self, path: str | Path) -> None:
        """Write the arrays to an ``.npz`` file, named by where they stand. It is complete or not there.

        Raises
        ------
        GraphError
            Two arrays would have one name.
        """
        leaves, _ = flatten(self)
        members = [f"{name}.npy" for name, _ in described(self)]
        if len({*members}) != len(members):
            twice = next(name for name in members if members.count(name) > 1)
            raise GraphError(f"two arrays of the state would be {twice}: give a key without a dot")
        write_archive(path, zip(members, map(array_bytes, leaves), strict=True))

    def load(self, path: Any, *, sha256: str | None = None) -> TrainingState:
        """The state in a file, for the same model and update as this one.

        Parameters
        ----------
        path
            Of the file, or a binary file that can be read from any place. It is not trusted: no more is read than this
            state has, and only once all names, shapes and dtypes are those of this state.
        sha256
            Of the whole file, in hexadecimal digits: another file is refused.

        Raises
        ------
        FileFormatError
            It is no such file, is damaged or cut short, or has another digest.
        ShapeError
            The file holds other arrays than this state has.
        """
        leaves, structure = flatten(self)
        wanted = {f"{name}.npy": np.asarray(leaf) for (name, _), leaf in zip(described(self), leaves, strict=True)}
        with Archive.open(path, "training state", max_bytes=ANY, sha256=sha256) as archive:
            wrong = _difference(archive, wanted)
            arrays = [] if wrong else [archive.array(name) for name in wanted]
        if wrong:
            raise ShapeError(f"{archive.path}{wrong}")
        if arrays[-1] < 0:
            raise FileFormatError(f"{archive.path} is damaged: it was saved after {arrays[-1]} steps")
        return structure.build(arrays)  # type: ignore[no-any-return]


def _difference(archive: Archive, wanted: Mapping[str, Any]) -> str:
    """How the arrays in a file differ, by their headers, from those that are wanted; nothing where they do not."""
    odd = sorted(name.removesuffix(".npy") for name in {*archive.names()} ^ {*wanted})
    if odd:
        return f" holds the state of another model or update: it differs in {', '.join(odd)[:400]}"
    for name, array in wanted.items():
        found = archive.header(name)
        if found.shape != array.shape or found.dtype != array.dtype:
            return f": {name.removesuffix('.npy')} is {found}, the model wants {array.dtype}{list(array.shape)}"
    return ""


# --- the computation -------------------------------------------------------------------------------------


def advanced(
    stack: Any, loss: Any, update: Any, metrics: Metrics, state: TrainingState, x: Any, y: Any, rate: Any
) -> tuple[Any, dict[str, Any], TrainingState]:
    """One step of a state of tensors: the loss, the metrics, and the state after it."""
    parameters, rest, merge = partition(state.model)
    key = stack.ops.random_fold_in(state.key, state.step)

    def measured(parameters: Any) -> Any:
        model = merge(parameters, rest)
        context = Context(True, key)
        outputs = model(x, context)
        found = {name: metric(outputs, y) for name, metric in metrics.items()}
        return loss(outputs, y), (found, partition(context.updated(model))[1])

    (value, (found, kept)), gradients = stack.value_and_grad(measured, has_aux=True)(parameters)
    new, slots = update(gradients, state.slots, parameters, state.step, rate)
    return value, found, TrainingState(merge(new, kept), slots, state.key, state.step)


def rate_dtype(model: Any) -> Any:
    """The dtype in which learning rates are given: the widest of the parameters."""
    return np.result_type(np.float32, *[np.asarray(p).real.dtype for p in partition(model)[0]])


# --- compiled --------------------------------------------------------------------------------------------


class Step:
    """A training step, compiled: call it with a batch and a rate; parameters live in variables of the stack.

    Parameters
    ----------
    stack
        Where it runs; any with an engine. On one without, use `ImmediateStep`.
    model
        A module with parameters, or the `TrainingState` to go on from.
    loss
        Function (outputs, targets) → one number.
    update
        An update, such as `Adam()`.
    metrics
        Names to functions (outputs, targets) → one number, computed beside the loss.
    seed
        Of random draws in training; a state brings its own.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func import nn
    >>> step = Step(nnc.lazy(), nn.Dense(1).init(0, (None, 2)), nn.quadratic, nn.SGD())
    >>> x, y = np.ones((4, 2), "float32"), np.zeros((4, 1), "float32")
    >>> losses = [float(step(x, y, rate=0.1)[0]) for _ in range(3)]
    >>> losses[0] > losses[1] > losses[2], int(step.state.step)
    (True, 3)
    """

    def __init__(
        self, stack: Any, model: Any, loss: Any, update: Any, *, metrics: Metrics | None = None, seed: Any = 0
    ) -> None:
        state = model if isinstance(model, TrainingState) else TrainingState.start(model, update, seed)
        self.stack, self.loss, self.update = stack, loss, update
        self.metrics = dict(metrics or {})
        self.iteration = int(state.step)
        self._programs: dict[Any, Any] = {}
        self._dtype = rate_dtype(state.model)
        self._hold(state)

    def _hold(self, state: TrainingState) -> None:
        leaves, self._structure = flatten(state)
        names = [name for name, _ in described(state)]
        self.variables = [self.stack.variable(n, x) for n, x in zip(names[:-1], leaves[:-1], strict=True)]

    def __call__(self, x: Any, y: Any, rate: Any) -> tuple[Any, dict[str, Any]]:
        """Do a step. The loss and the metrics, before it, as device arrays: on a lazy device not computed yet.

        Of a model with several inputs `x` is a tuple or a dict of arrays; so may the targets be.
        """
        x, y = in_arrays((x, y), self._dtype)
        inputs = [*flatten((x, y))[0], np.array(self.iteration, np.int64), np.array(rate, self._dtype)]
        program = self.program(x, y)
        if _is_stack(self.stack.device):
            inputs = [_shown(self.stack.device, i) for i in inputs]
        value, found = program(*inputs)
        self.iteration += 1
        return value, found

    def program(self, x: Any, y: Any) -> Any:
        """The program for batches like this one, of inputs x, y, iteration and rate; see its graph and its plan."""
        (of_x, nested_x), (of_y, nested_y) = kinds_of(x), kinds_of(y)
        key = (of_x, nested_x.signature, of_y, nested_y.signature)
        if key not in self._programs:
            inputs, outputs, pairs, effects = self._traced(x, y)
            self._programs[key] = self.stack.compile(inputs, outputs, pairs, "training step", effects=effects)
        return self._programs[key]

    def graph(self, x: Any, y: Any) -> Any:
        """The closed graph of a step for batches like these, not optimised; avals do, and may have unknown extents."""
        inputs, outputs, pairs, effects = self._traced(x, y)
        return closed(self.stack, inputs, outputs, pairs, "training step", effects)

    def _traced(self, x: Any, y: Any) -> Any:
        stack = self.stack
        of_x, of_y = kinds_of(x), kinds_of(y)
        xs, ys = inputs_of(stack, "x", *of_x), inputs_of(stack, "y", *of_y)
        iteration, rate = stack.input("iteration", (), np.int64), stack.input("rate", (), self._dtype)
        leaves = [unread(stack, v) for v in self.variables]
        with recording(stack) as scope:
            value, found, after = self._advanced([*leaves, iteration], of_x[1].build(xs), of_y[1].build(ys), rate)
        pairs = [
            (v, new) for v, old, new in zip(self.variables, leaves, flatten(after)[0], strict=False) if new is not old
        ]
        return [*xs, *ys, iteration, rate], (value, found), pairs, scope.effects

    def _advanced(self, leaves: Any, x: Any, y: Any, rate: Any) -> Any:
        before = self._structure.build(leaves)
        return advanced(self.stack, self.loss, self.update, self.metrics, before, x, y, rate)

    def ask(self, values: Sequence[Any]) -> list[Any]:
        """The values of what a step returned as NumPy arrays, computed together with the state where it is not yet."""
        arrays = [*values, *[v.value.array for v in self.variables]]
        computed(self.stack.device, arrays)
        return [np.array(self.stack.device.to_numpy(a)) for a in values]

    @property
    def state(self) -> TrainingState:
        """The state after the last step, copied."""
        leaves = self.ask([v.value.array for v in self.variables])
        return self._structure.build([*leaves, np.int64(self.iteration)])  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<step {self.iteration} of {self.update!r}: {len(self.variables)} variables>"


def computed(device: Any, arrays: Sequence[Any]) -> None:
    """Let a device that is a stack compute these together: one program, nothing twice. On others they are computed."""
    while _is_stack(device) and arrays:
        arrays = device.engine.force([device.carrier(a) for a in arrays])
        device = device.device


def _is_stack(device: Any) -> bool:
    """Whether values of the device may be waiting for a computation: it is a stack, and has an engine."""
    return "engine" in {each.role for each in chain(getattr(device, "top", device))}


def _shown(device: Any, value: Any) -> Any:
    """The value on a device that may be a stack, there as something that was computed: not as a number of the graph.

    So a lazy device has one program for all steps, however small what it is given.
    """
    if not _is_stack(device):
        return device.asarray(np.array(value))
    return device.held(_shown(device.device, value))


class ImmediateStep(Step):
    """A training step that applies operators as it goes, with no program: what `Step` is checked against.

    It runs on any stack that differentiates, one without an engine included.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func import nn
    >>> step = ImmediateStep(nnc.eager(), nn.Dense(1).init(0, (None, 2)), nn.quadratic, nn.SGD())
    >>> float(step(np.ones((4, 2), "float32"), np.ones((4, 1), "float32"), rate=0.1)[0]) > 0
    True
    """

    def _hold(self, state: TrainingState) -> None:
        leaves, self._structure = flatten(state)
        self.variables = [self.stack.asarray(x) for x in leaves[:-1]]

    def __call__(self, x: Any, y: Any, rate: Any) -> tuple[Any, dict[str, Any]]:
        """Do a step; the loss and the metrics before it."""
        stack = self.stack
        inputs = (*in_arrays((x, y), self._dtype), np.array(self.iteration, np.int64), np.array(rate, self._dtype))
        bring = partial(_shown, stack) if _is_stack(stack) else stack.asarray
        x, y, iteration, rate = mapped(bring, inputs)
        value, found, after = self._advanced([*self.variables, iteration], x, y, rate)
        self.variables = flatten(after)[0][:-1]
        self.iteration += 1
        return value, found

    def program(self, x: Any, y: Any) -> Any:
        """There is none.

        Raises
        ------
        GraphError
            Always.
        """
        raise GraphError("an immediate step has no program; use nn.Step on a stack with an engine")

    def ask(self, values: Sequence[Any]) -> list[Any]:
        """The values as NumPy arrays, computed together with the state where they are not yet."""
        tensors = [*values, *self.variables]
        computed(self.stack, tensors)
        return [v.numpy() for v in values]

    @property
    def state(self) -> TrainingState:
        """The state after the last step, copied."""
        return self._structure.build([*self.ask(self.variables), np.int64(self.iteration)])  # type: ignore[no-any-return]
