"""Training: steps over batches until a number of them is done or a condition holds; a line tells how it goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec

import numpy as np

from nnc_func.engine.running.cancelling import check_cancelled
from nnc_func.errors import OperatorError
from nnc_func.layer import chain
from nnc_func.locks import cached_property
from nnc_func.nn.step import ImmediateStep, Metrics, Step, TrainingState
from nnc_func.progress import Silent
from nnc_func.progress import progress as progress_line
from nnc_func.tree import flatten, mapped

P = ParamSpec("P")


class Trained:
    """What training gives.

    Attributes
    ----------
    step
        The step, which may be called further; its `program` has the graph and the plan.
    """

    def __init__(self, step: Any, asked: list[tuple[float, dict[str, float]]], pending: list[Any]) -> None:
        self.step = step
        self._asked = asked
        self._pending = pending

    @cached_property
    def _values(self) -> list[tuple[float, dict[str, float]]]:
        return self._asked + _asked(self.step, self._pending)

    @cached_property
    def state(self) -> TrainingState:
        """All that training goes on from."""
        return self.step.state  # type: ignore[no-any-return]

    @property
    def model(self) -> Any:
        """The trained model, its tensors NumPy arrays."""
        return self.state.model

    @property
    def losses(self) -> Any:
        """The loss before each step, as an array."""
        return np.array([value for value, _ in self._values])

    @property
    def metrics(self) -> dict[str, Any]:
        """Each metric before each step, as arrays."""
        return {name: np.array([found[name] for _, found in self._values]) for name in self.step.metrics}

    def __repr__(self) -> str:
        return f"<trained to step {self.step.iteration} by {self.step.update!r}>"


def _asked(step: Any, pending: list[Any]) -> list[tuple[float, dict[str, float]]]:
    """The values of steps whose losses are arrays, perhaps not computed yet, in one go."""
    flat = [v for value, found in pending for v in (value, *found.values())]
    numbers = iter([float(a) for a in step.ask(flat)]) if flat else iter(())
    return [(next(numbers), {name: next(numbers) for name in found}) for _, found in pending]


def _by_layer(steps: Callable[P, Trained]) -> Callable[P, Trained]:
    """The function as the NN layer of its first argument, a stack, has it: where there is one, that is asked."""

    @wraps(steps)
    def asked(*args: P.args, **settings: P.kwargs) -> Trained:
        stack: Any = args[0] if args else settings.get("stack")
        layer = next((each for each in chain(getattr(stack, "top", None)) if each.role == "nn"), None)
        if layer is None:
            return steps(*args, **settings)
        rest: Any = {name: value for name, value in settings.items() if name != "stack"}
        return layer.train(stack, *args[1:], **rest)  # type: ignore[no-any-return]

    return asked


@_by_layer
def train(
    stack: Any,
    model: Any,
    loss: Callable[[Any, Any], Any],
    update: Any,
    batches: Any,
    *,
    rate: float | Callable[[int], float],
    steps: int | None = None,
    epochs: float | None = None,
    state: TrainingState | None = None,
    metrics: Metrics | None = None,
    seed: Any = 0,
    progress: bool = True,
    ask_every: int | None = 1,
    stop: Callable[[int, float, dict[str, float]], bool] | None = None,
) -> Trained:
    """Train a model on a stack, each step one program.

    Parameters
    ----------
    stack
        Where it runs: eager, lazy, one over another. One without an engine trains step by step, without a program.
    model
        A module with parameters (see `Module.init`).
    loss
        Function (outputs, targets) → one number.
    update
        What changes parameters, such as `Adagrad()`.
    batches
        `Batches`, or an iterable of pairs (x, y).
    rate
        Learning rate: a number, or a function of the number of steps done.
    steps, epochs
        How long; without either, until the batches end. They count from the state on.
    state
        Where to go on from, of the same model and update; its model's values are used instead of `model`'s.
    metrics
        Names to functions (outputs, targets) → one number.
    seed
        Of dropout and the like.
    progress
        Show a line: tqdm's where that is installed, one a second otherwise.
    ask_every
        Losses are asked for every so many steps. A lazy device computes only then; None asks for nothing before the
        result is read, and keeps all that was recorded.
    stop
        Called with (number of steps done, loss, metrics) each time values are asked for; true ends the training.

    Raises
    ------
    OperatorError
        `epochs` without a known number of batches; `stop` where nothing is asked for; a `state` of another model.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func import nn
    >>> x = np.linspace(-1, 1, 32, dtype="float32").reshape(32, 1)
    >>> batches = nn.Batches(x, 2 * x + 1, size=8)
    >>> model = nn.Dense(1).init(0, (None, 1))
    >>> done = train(nnc.lazy(), model, nn.quadratic, nn.SGD(), batches, rate=0.2, epochs=30, progress=False)
    >>> done.model.bias.round(2)
    array([1.], dtype=float32)
    """
    if stop is not None and not ask_every:
        raise OperatorError("stop looks at losses, so ask_every has to be a number, given None")
    if state is not None and model is not None:
        _of_model(state, model)
    kind = Step if "engine" in {each.role for each in chain(stack.top)} else ImmediateStep
    step = kind(stack, state if state is not None else model, loss, update, metrics=metrics, seed=seed)
    count = _count(batches, steps, epochs)
    line = progress_line(count, "step") if progress else Silent()
    asked: list[tuple[float, dict[str, float]]] = []
    pending: list[Any] = []
    try:
        for done, (x, y) in enumerate(_source(batches, step.iteration, count), 1):
            check_cancelled("the next step of training")
            pending.append(step(x, y, rate(step.iteration) if callable(rate) else rate))
            if ask_every and done % ask_every == 0:
                asked += _asked(step, pending)
                pending.clear()
                line.tell(done, _described(*asked[-1]))
                if stop is not None and stop(step.iteration, *asked[-1]):
                    break
    finally:
        line.close()
    return Trained(step, asked, pending)


def _of_model(state: TrainingState, model: Any) -> None:
    """Raise OperatorError where a state's model has other tensors than the model that is to be trained."""
    (have, its), (want, wanted) = flatten(state.model), flatten(model)
    odd = [f"{tuple(a.shape)} for {tuple(b.shape)}" for a, b in zip(have, want, strict=False) if a.shape != b.shape]
    if its != wanted or odd:
        told = f": {', '.join(odd)}" if odd else f", {state.model!r}"
        raise OperatorError(f"the state is of another model than {model!r}{told}; give the model that it was made of")


def _count(batches: Any, steps: int | None, epochs: float | None) -> int | None:
    if steps is not None or epochs is None:
        return steps
    each = getattr(batches, "per_epoch", None)
    if each is None:
        given = type(batches).__name__
        raise OperatorError(f"epochs wants nn.Batches, which knows how many there are, given {given}; give steps")
    count: int = round(epochs * each)
    return count


def _source(batches: Any, first: int, count: int | None) -> Iterable[tuple[Any, Any]]:
    if hasattr(batches, "at"):
        each = batches.per_epoch if count is None else count
        return (batches.at(i) for i in range(first, first + each))
    return (pair for pair, _ in zip(batches, _numbers(count), strict=False))


def _numbers(count: int | None) -> Iterable[int]:
    return iter(int, 1) if count is None else range(count)


def _described(loss: float, metrics: dict[str, float]) -> str:
    return "  ".join([f"loss {loss:.4f}", *[f"{name} {value:.4f}" for name, value in metrics.items()]])


# --- judging ---------------------------------------------------------------------------------------------


class Evaluator:
    """Metrics of a model as in inference, averaged over examples, compiled once for each size of batch.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func import nn
    >>> judge = Evaluator(nnc.lazy(), {"accuracy": nn.accuracy}, size=2)
    >>> model = nn.Dense(3).init(0, (None, 2))
    >>> sorted(judge(model, np.ones((5, 2), "float32"), np.zeros(5, "int64")))
    ['accuracy']
    """

    def __init__(self, stack: Any, metrics: Metrics, size: int = 500) -> None:
        self.stack, self.metrics, self.size = stack, dict(metrics), size

        def measured(model: Any, x: Any, y: Any) -> dict[str, Any]:
            outputs = model(x)
            return {name: metric(outputs, y) for name, metric in self.metrics.items()}

        self._measured = stack.jit(measured)

    def __call__(self, model: Any, x: Any, y: Any) -> dict[str, float]:
        """Each metric, over all examples."""
        sums, count = dict.fromkeys(self.metrics, 0.0), len(flatten(y)[0][0])
        for i in range(0, count, self.size):
            rows = slice(i, min(i + self.size, count))
            part = self._measured(model, *mapped(lambda each, rows=rows: each[rows], (x, y)))
            for name, value in part.items():
                sums[name] += float(value) * (rows.stop - rows.start)
        return {name: total / count for name, total in sums.items()}
