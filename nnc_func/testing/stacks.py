"""check_stack: all laws on a composition of one's own, whichever layer, engine, allocator or rule was exchanged."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from attrs import define, field, frozen
from hypothesis.errors import HypothesisException

from nnc_func.errors import DeviceError, NncError, OperatorError, RuleError, RunError, ShapeError, UnboundError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.rules.rule import Pass
from nnc_func.op import Op
from nnc_func.testing import layers
from nnc_func.testing.agreement import differential, drawn, variations
from nnc_func.testing.operators import check_operator
from nnc_func.testing.programs import programs
from nnc_func.testing.rules import examined
from nnc_func.testing.samples import Arguments, arguments, converted

STEPS = 3  # of training
AT_A_TIME = 4  # variations of a stack on which each program runs
NODES = ("symbol", "operator", "optimiser")  # layers whose laws need no elements


@frozen
class Profile:
    """How much is checked: argument lists an operator, programs, programs for gradients, graphs a rule."""

    arguments: int
    programs: int
    gradients: int
    graphs: int
    everything: bool  # the library's own rules, each allocator and order, poisoned memory


PROFILES = {
    "quick": Profile(arguments=5, programs=100, gradients=20, graphs=200, everything=False),
    "full": Profile(arguments=25, programs=500, gradients=200, graphs=300, everything=True),
}


@frozen(repr=False)
class Checked:
    """What `check_stack` did.

    Attributes
    ----------
    stack
        That was checked.
    laws
        Each law that holds, as a sentence that begins with its layer and ends with how much was tried.
    left_out
        What was not checked, and why.
    """

    stack: Any
    laws: tuple[str, ...]
    left_out: tuple[str, ...]

    def __str__(self) -> str:
        parts = [repr(self.stack), "holds:", *(f"  {law}" for law in self.laws)]
        if self.left_out:
            parts += ["left out:", *(f"  {what}" for what in self.left_out)]
        return "\n".join(parts)

    __repr__ = __str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def check_stack(stack: Any, *, profile: str = "quick") -> Checked:
    """Check the laws of every layer, of operators, rules and programs, on a stack of one's own.

    Parameters
    ----------
    stack
        Any composition. What a layer that it lacks would be asked is left out, and said to be.
    profile
        ``"quick"``: seconds, for each run of one's tests; ``"full"``: minutes, with more of everything, every rule,
        each allocator and order, and poisoned memory.

    Returns
    -------
    What was checked, and what was left out.

    Raises
    ------
    AssertionError
        A law is broken: names the layer to look at, and shows the smallest call, graph or program found.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> few = type(CATALOGUE)([CATALOGUE[name] for name in ("add", "multiply", "sum", "tanh", "square")])
    >>> lazy = nnc.lazy()
    >>> small = lazy.swap(type=type(lazy.type)(lazy.device, few))
    >>> print(check_stack(small).laws[2])
    type: the dtype rule says the dtype of what the device gives; 5 operators, ... argument lists
    """
    if profile not in PROFILES:
        raise OperatorError(f"profile is {' or '.join(map(repr, PROFILES))}, given {profile!r}")
    checking = _Checking(stack, PROFILES[profile])
    for section in (
        checking.is_a_value,
        checking.operators,
        checking.rules,
        checking.programs,
        checking.operators_on_the_engine,
        checking.gradients,
        checking.training,
        checking.errors,
    ):
        section()
    return Checked(stack, tuple(checking.laws), tuple(checking.left_out))


@define(eq=False)
class _Checking:
    stack: Any
    profile: Profile
    laws: list[str] = field(factory=list)
    left_out: list[str] = field(factory=list)
    refused: dict[str, str] = field(factory=dict)  # operators that the device does not have, and what it says

    # --- what there is to check

    def lacks(self, what: str, *roles: str) -> bool:
        """Whether the stack has not all of these layers; then `what` is left out."""
        missing = [role for role in roles if role not in self.stack._layers]
        if missing:
            self.left_out.append(f"{what}: the stack has no {' and no '.join(missing)} layer")
        return bool(missing)

    def lacks_operators(self, what: str) -> bool:
        """Whether the catalogue has not all of which derivatives and updates are made; then `what` is left out."""
        missing = sorted({*CATALOGUE} - {*self.catalogue})
        if missing:
            self.left_out.append(f"{what}: there is no {', '.join(missing[:4])}{' …' if len(missing) > 4 else ''}")
        return bool(missing)

    def asked(self, layer: str, what: str, check: Callable[[], Any]) -> bool:
        """Whether a check was made; where the device has not what it takes, that is left out."""
        try:
            with _blaming(layer):
                check()
        except AssertionError as error:
            why = next((each for each in _causes(error) if _refuses(each)), None)
            if why is None:
                raise
            self.left_out.append(f"{what}: the device refuses what it takes: {why}")
            return False
        return True

    def computes(self) -> bool:
        """Whether the device has elements: one that infers and counts has none."""
        try:
            self.stack.device.to_numpy(self.stack.device.asarray(np.zeros(1)))
        except DeviceError:
            return False
        return True

    def holds(self, layer: str, law: str, how_much: str) -> None:
        self.laws.append(f"{layer}: {law}; {how_much}")

    # --- sections

    def is_a_value(self) -> None:
        """Equal recipes are equal stacks, and it pickles as its recipe."""
        stack = self.stack
        if stack != type(stack)(stack.top) or hash(stack) != hash(type(stack)(stack.top)):
            raise AssertionError("stack: made again of its own layers, it is another value")
        try:
            again = pickle.loads(pickle.dumps(stack))
        except Exception as error:
            self.left_out.append(f"pickling: {type(error).__name__}: {error}")
        else:
            if again != stack:
                raise AssertionError(f"stack: pickled and read, it is another value: {again!r}")
        self.holds("stack", "equal recipes are equal stacks", "1 stack")

    def operators(self) -> None:
        """The laws of the layers below the engine on each operator; all that `check_operator` asks of one's own."""
        effects = sum(op.effect for op in self.catalogue.values())
        if effects:
            self.left_out.append(f"{effects} operators that are effects")
        if not self.computes():
            self.left_out.append("values: the device computes nothing")
        self._laws([(role, law) for role, law in layers.LAWS if role != "engine"])
        self.left_out += [f"{name}: the device refuses it: {why}" for name, why in self.refused.items()]
        own = [op for op in self.catalogue.values() if CATALOGUE.get(op.name) is not op]
        for op in own:
            check_operator(op, examples=2 * self.profile.arguments)
        if own:
            self.holds("operators", "one's own keep every law of operators", ", ".join(op.name for op in own))

    def operators_on_the_engine(self) -> None:
        """The engine's law on each operator."""
        self._laws([(role, law) for role, law in layers.LAWS if role == "engine"])

    @property
    def catalogue(self) -> Any:
        return self.stack.type.ops if "type" in self.stack._layers else CATALOGUE

    def _laws(self, listed: list[tuple[str, layers.Law]]) -> None:
        able = NODES if not self.computes() else [role for role, _ in listed]
        listed = [(role, law) for role, law in listed if role in self.stack._layers and role in able]
        ops = [op for op in self.catalogue.values() if not op.effect and op.pure and op.name != "token"]
        tried = sum(self._operator(op, listed) for op in ops) if listed else 0
        for layer, law in listed:
            sentence = (law.__doc__ or "").strip().rstrip(".")
            how_much = f"{len(ops) - len(self.refused)} operators, {tried} argument lists"
            self.holds(layer, sentence[0].lower() + sentence[1:], how_much)

    def _operator(self, op: Op, listed: list[tuple[str, layers.Law]]) -> int:
        def check(found: Arguments) -> None:
            given, params = found
            for layer, law in listed:
                try:
                    with np.errstate(all="ignore"):
                        law(self.stack, op, [*given], params)
                except HypothesisException:
                    raise
                except Exception as error:
                    if _refuses(error):
                        self.refused[op.name] = str(error)
                        return
                    said = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
                    sentence = (law.__doc__ or "").strip()
                    call = layers.called(op, given, params)
                    raise AssertionError(f"{layer}: {said}\nthe law: {sentence}\nthe call: {call}") from error

        met: list[Arguments] = []

        def noted(found: Arguments) -> None:
            check(found)
            met.append(found)

        taken = drawn(arguments(op), noted, self.profile.arguments)
        if op.name in self.refused:
            return taken
        for found in converted(op, met):
            check(found)
            taken += self.refused.pop(op.name, None) is None  # of one dtype it may be refused
        return taken

    def rules(self) -> None:
        """All are sound in the full profile; one's own always, and each of their conditions is needed."""
        if self.lacks("rules", "optimiser") or not self.computes():
            return
        every = self.profile.everything
        mine = [r for r in self.stack.optimiser.rules if not r.module.startswith("nnc_func.")]
        drawn_from = [r for r in self.stack.optimiser.rules if not isinstance(r, Pass) or r.samples] if every else []
        listed = [r for r in self.stack.optimiser.rules if r in mine or r in drawn_from]
        for rule in listed:
            with _blaming("optimiser"):
                # of the library's here a condition may say nothing: of places, where there is only one
                report = examined(rule, self.stack, examples=self.profile.graphs, conditions=rule in mine)
                if report.faults:
                    raise RuleError(str(report))
        if len(listed) < len(self.stack.optimiser.rules):
            self.left_out.append(f"{len(self.stack.optimiser.rules) - len(listed)} rules of the library, one by one")
        if listed:
            names = ", ".join(r.name for r in listed)
            self.holds("optimiser", "each rule is sound, and conditions of one's own are needed", names)

    def _compared(self, drawing: Any, examples: int, gradients: bool = False) -> str:
        """Programs on the stack, as it is used; in the full profile on variations in turn, as closely as it can be."""
        closely = None if self.profile.everything else 2
        differential(drawing, {"": self.stack}, examples=examples, gradients=gradients, spec=closely)
        if not self.profile.everything:
            return f"{examples} programs on 1 stack"
        others = variations(self.stack)
        differential(drawing, others, examples=examples, gradients=gradients, spec=3, at_a_time=AT_A_TIME)
        return f"{examples} programs, and each on {min(AT_A_TIME, len(others))} of {len(others)} stacks in turn"

    def programs(self) -> None:
        """Random programs give NumPy's values, whatever is shared, aliased, updated or returned twice."""
        if self.lacks("programs", "engine") or not self.computes():
            return
        drawing = programs(operators=self._available())
        with _blaming("engine"):
            count = self._compared(drawing, self.profile.programs)
        if not self.profile.everything:
            self.left_out.append("other allocators and orders, poisoned memory: the full profile has them")
        self.holds("engine", "random programs give NumPy's values, compiled and at once", count)

    def _available(self) -> Any:
        ops = self.catalogue
        return type(ops)([op for name, op in ops.items() if name not in self.refused])

    def gradients(self) -> None:
        """Of random programs, as on the eager stack."""
        if self.lacks("gradients", "engine", "autodiff") or not self.computes():
            return
        if self.lacks_operators("gradients"):
            return
        drawing = programs(smooth=True, most_steps=8, operators=self._available())
        count: list[str] = []
        if self.asked(
            "autodiff", "gradients", lambda: count.append(self._compared(drawing, self.profile.gradients, True))
        ):
            self.holds("autodiff", "gradients are those of the eager stack", count[0])

    def training(self) -> None:
        """A few steps of a small network give the losses that they give on the eager stack."""
        if self.lacks("training", "engine", "autodiff", "nn") or not self.computes():
            return
        if self.lacks_operators("training"):
            return
        if self.asked("nn", "training", lambda: _trains(self.stack)):
            self.holds("nn", "a training step is the eager stack's", f"{STEPS} steps of a small network")

    def errors(self) -> None:
        """Misuse is refused with the same kinds of errors as on the eager stack."""
        if self.lacks("errors", "engine"):
            return
        for what, misuse, wanted in MISUSES:
            try:
                misuse(self.stack)
            except wanted:
                continue
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
                raise AssertionError(f"engine: {what} raises {said}; wanted {wanted.__name__}") from error
            raise AssertionError(f"engine: {what} is not refused; wanted {wanted.__name__}")
        self.holds("engine", "misuse is refused with the eager stack's errors", f"{len(MISUSES)} misuses")


def _refuses(error: BaseException) -> bool:
    """Whether a device says that it has not what it is asked for, or its namespace has not."""
    return isinstance(error, DeviceError) or (
        isinstance(error, RunError) and isinstance(error.__cause__, AttributeError)
    )


@contextmanager
def _blaming(layer: str) -> Iterator[None]:
    """What breaks meanwhile is that layer's."""
    try:
        yield
    except (AssertionError, NncError) as error:
        raise AssertionError(f"{layer}: {error}") from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _trains(stack: Any) -> None:
    from nnc_func.stacks import eager

    found, wanted = _losses(stack), _losses(eager())
    assert np.allclose(found, wanted, rtol=1e-4), f"losses are {found}, on the eager stack {wanted}"


def _losses(stack: Any) -> list[float]:
    from nnc_func import nn

    x = np.linspace(-1, 1, 24, dtype="float32").reshape(8, 3)
    y = np.arange(8) % 2
    model = nn.Sequential(nn.Dense(4), nn.relu, nn.Dense(2))
    step = nn.Step(stack, model.init(0, x.shape), nn.softmax_cross_entropy, nn.Adam())
    return [float(stack.device.to_numpy(step(x, y, rate=0.1)[0])) for _ in range(STEPS)]


def _unfit(stack: Any) -> Any:
    return stack.bind(stack.type.ops["add"], stack.asarray([1.0, 2.0]), stack.asarray([1.0, 2.0, 3.0])).numpy()


def _unnamed(stack: Any) -> Any:
    return stack.bind(stack.type.ops["add"], stack.asarray(1.0), stack.asarray(1.0), no_such_parameter=1)


def _unbound(stack: Any) -> Any:
    return stack.bind(stack.type.ops["add"], stack.input("x", (2,)), 1.0).numpy()


MISUSES: tuple[tuple[str, Callable[[Any], Any], type[Exception]], ...] = (
    ("adding two elements to three", _unfit, ShapeError),
    ("a parameter that the operator has not", _unnamed, OperatorError),
    ("asking for a value that depends on an input", _unbound, UnboundError),
)
