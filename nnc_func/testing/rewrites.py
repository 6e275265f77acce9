"""One rewrite, by itself: a rule applied to the root of a small graph, and both sides computed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from attrs import evolve, frozen

from nnc_func.errors import NncError, OperatorError
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.leaves import CONSTANT, INPUT
from nnc_func.graph.node import Node, Value, topological
from nnc_func.graph.rewriting.compiled import Builder, Compiled, compiled
from nnc_func.graph.rewriting.evaluating import computed, elsewhere, evaluated, on_host, short
from nnc_func.graph.rules.pattern import Computed, Folded, parts
from nnc_func.graph.rules.placing import raised_in
from nnc_func.graph.rules.rule import EXACT, SIGNED_ZERO, AnyRule, Numerics, Pass, Rule
from nnc_func.graph.rules.substituting import substituted
from nnc_func.testing.canonical import Canonical
from nnc_func.testing.counterexamples import Instance, code
from nnc_func.testing.exactly import DIFFERS, telling, without_rounding
from nnc_func.testing.truth import allowed, spread, true_value, ulps
from nnc_func.testing.undetermined import left_to_kernels

FAILS = "after it the program fails"
Users = Callable[[Value], int]


@frozen(eq=False)
class Outcome:
    """What a rule makes of one graph.

    Attributes
    ----------
    new
        The replacement; None where it does not fire, or cannot be built.
    why
        What is wrong with it; empty if nothing is.
    level
        The strictest numerics that it keeps to there, as far as was looked: one below the rule's own, or that.
    changes_nonfinite
        NaN or infinity is elsewhere.
    old
        What it replaces, where that is not the root.
    """

    new: Value | None = None
    why: str = ""
    level: Numerics = EXACT
    changes_nonfinite: bool = False
    old: Value | None = None

    @property
    def fires(self) -> bool:
        """Whether the rule does something."""
        return self.new is not None or bool(self.why)


class Trial:
    """Rules tried on a stack, each compiled once.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.aval import Aval
    >>> from nnc_func.graph.rules.signs import subtract_negative
    >>> operator = nnc.eager().operator
    >>> x = operator.symbol.input("x", Aval((1,), "float32"))
    >>> root = operator.bind(operator.type.ops["subtract"], x, operator.bind(operator.type.ops["negative"], x))
    >>> Trial(operator).outcome(subtract_negative, Instance(root, {x: np.float32([1])})).new.op
    add
    """

    def __init__(self, operator: Any) -> None:
        self.operator = operator
        self.device = operator.device
        self.builder = Builder(operator)
        self._compiled: dict[Any, Compiled] = {}

    def attempt(self, rule: AnyRule, root: Node, users: Users = lambda value: 1) -> Value | None:
        """What the rule makes of the root; None where it does not fire."""
        if isinstance(rule, Pass):
            roots = applied(rule, self.builder, (root,))
            return None if roots is None else roots[0]
        found = self._compiled.get(rule)
        if found is None:
            found = self._compiled[rule] = compiled(rule, self.builder)
        if not found.facts.wants(root.op, tuple([a.node.op for a in root.args])):
            return None
        self.builder.numbers.clear()
        new = found.attempt(root, users)
        return None if new is root else new

    def held(self, rule: AnyRule, root: Node) -> int:
        """How many conditions hold of a graph on which a rule does not fire, before one does not; -1 of others."""
        found = self._compiled.get(rule)
        if not isinstance(rule, Rule) or found is None:
            return -1
        try:
            _, failed = found.explained(root, lambda value: 1)
        except Exception:
            return -1
        return -1 if failed is None else next(i for i, c in enumerate(rule.conditions) if c is failed)

    def fires(self, rule: AnyRule, root: Node) -> bool:
        """Whether the rule makes something of the root; it does not where that cannot be built."""
        try:
            return self.attempt(rule, root) is not None
        except Exception:
            return False

    def outcome(self, rule: AnyRule, instance: Instance) -> Outcome:
        """The rule applied to the graph's root, and what is wrong with that."""
        if isinstance(rule, Pass):
            return self._passed(rule, instance)
        root = instance.root
        held = {} if isinstance(rule, Rule) else _constants(root)
        try:
            new = self.attempt(rule, root)
        except Exception as error:
            if isinstance(error, OperatorError) and isinstance(rule, Rule) and any(map(_is_folded, parts(rule.rhs))):
                return Outcome()  # the constant is left to the run
            return Outcome(why=blamed(rule, error))
        if any(not np.array_equal(node.data, before, equal_nan=True) for node, before in held.items()):
            return Outcome(new, "it writes to the memory of a constant")
        return Outcome() if new is None else self.compared(rule, root, new, instance.feeds)

    def _passed(self, rule: Pass, instance: Instance) -> Outcome:
        """A pass on the root, and where what is computed on the way is asked for too."""
        alone = applied(rule, self.builder, (instance.root,))
        if alone is None:
            return Outcome()
        found = self.compared(rule, instance.root, alone[0], instance.feeds)
        if not found.why and applied(rule, self.builder, alone) is not None:
            return evolve(found, why="it finds something the second time")
        every = tuple(n for n in topological([instance.root]) if n.args and not n.op.multi_result)
        made = None if found.why else applied(rule, self.builder, every)
        for old, new in zip(every, made or every, strict=True):
            shared = self.compared(rule, old, new, instance.feeds)
            if shared.why:
                return evolve(shared, old=old, why=f"where others use what is computed on the way:\n{shared.why}")
        return found

    def compared(self, rule: Any, old: Value, new: Value, feeds: Any) -> Outcome:
        """Both avals and values, computed and compared as the rule's numerics ask."""
        if new.aval != old.aval:
            return Outcome(new, f"{old.aval} became {new.aval}; {_mending(old, new)}")
        both = values(old, new, feeds, self.device)
        if both is None:
            return Outcome()  # not a legal graph after all
        numerics, fast = rule.numerics, rule.fast_math
        why = both.difference(numerics, fast)
        if why:
            return Outcome(new, why)
        moves = fast and bool(both.why(numerics))
        stricter = SIGNED_ZERO if numerics > SIGNED_ZERO else EXACT  # how far it rounds tells not why
        level = numerics if numerics and both.why(stricter, fast) else stricter
        return Outcome(new, "", level, moves)

    def exactly(self, rule: Any, instance: Instance, outcome: Outcome) -> Outcome:
        """What came of it, computed without rounding where the rule says that it rounds."""
        old, new = outcome.old or instance.root, outcome.new
        if new is None or outcome.why or rule.numerics <= SIGNED_ZERO or new.aval != old.aval:
            return outcome
        return evolve(outcome, why=without_rounding(old, new, instance.feeds))

    def seen(self, rule: Any, instance: Instance, outcome: Outcome) -> tuple[Instance, Outcome]:
        """What differs at a point that is none of the floating numbers, at such that differ, if they are found."""
        old, new = outcome.old or instance.root, outcome.new
        if new is None or not outcome.why.startswith(DIFFERS):
            return instance, outcome
        feeds = telling(instance.root, instance.feeds)
        both = values(old, new, feeds, self.device)
        why = both.difference(rule.numerics, rule.fast_math) if both is not None else ""
        return (Instance(instance.root, feeds), evolve(outcome, why=why)) if why else (instance, outcome)


def blamed(rule: Any, error: Exception) -> str:
    """Which part of a rule an error comes from: a condition, a function on the right side, or what is built there."""
    said = f"{type(error).__name__}: {error}"
    for c in getattr(rule, "conditions", ()):
        line = raised_in(getattr(c.holds, "test", c.holds), error.__traceback__)
        if line:
            return (
                f"the condition '{c}' raises {said} ({line}); it is given what its patterns match: a value with "
                "shape, dtype, aval and node, the number of a Scalar, the value of a Param"
            )
    for part in parts(rule.rhs) if isinstance(rule, Rule) else ():
        line = raised_in(part.function, error.__traceback__) if isinstance(part, Computed) else ""
        if line:
            return f"{part} on the right side raises {said} ({line})"
    return f"the right side cannot be built: {said}"


def _mending(old: Value, new: Value) -> str:
    """What to write where a right side has another shape or dtype."""
    if new.shape != old.shape:
        return "ask for one shape, .when(same_shape(x, all)), or broadcast_to, or reshape, it: shape=shape_of(all)"
    return "ask for one dtype, .when(same_dtype(x, all)), or cast it: dtype=dtype_of(all)"


def _constants(root: Node) -> dict[Node, Any]:
    """Constants of a graph, and copies of their elements."""
    return {n: n.data.copy() for n in topological([root]) if n.op is CONSTANT}


def _is_folded(part: Any) -> bool:
    return isinstance(part, Folded)


def applied(rule: Pass, builder: Any, roots: tuple[Value, ...]) -> tuple[Value, ...] | None:
    """What a pass makes of these roots; None where it finds nothing."""
    builder.numbers.clear()
    found, times = rule.function(roots, topological(roots), builder)
    if isinstance(found, dict):
        found = substituted(roots, found, builder)
    return tuple(found) if times else None


# --- both values ---------------------------------------------------------------------------------------


@frozen(eq=False)
class Values:
    """The value of a graph and of what it became, computed.

    Attributes
    ----------
    was, now
        The arrays; `now` is None where computing it failed, as `failure` says.
    truth
        Gives the value in a wider format, or None.
    spread
        Gives how far sums in another order may be from the value, elementwise.
    excused
        Of numerics: whether kernels alone are why infinities are elsewhere.
    canonical
        Gives both, of kernels that do not depend on where an element lies; None where these fail.
    """

    was: Any
    now: Any
    truth: Callable[[], Any]
    spread: Callable[[Numerics], Any]
    excused: Callable[[Numerics], bool]
    canonical: Callable[[], tuple[Any, Any] | None]
    failure: str = ""

    def difference(self, numerics: Numerics, fast_math: bool = False) -> str:
        """How they differ by more than that, and both; empty where they do not."""
        why = self.why(numerics, fast_math)
        return why and (why if self.failure else f"{why}\nwas: {short(self.was)}\nis:  {short(self.now)}")

    def why(self, numerics: Numerics, fast_math: bool = False) -> str:
        """How they differ by more than that, without elements."""
        if self.failure:
            return f"{FAILS}: {self.failure}"
        if self.was.shape == self.now.shape and self.was.tobytes() == self.now.tobytes():
            return ""
        why = elsewhere(self.was, self.now, numerics, fast_math)
        if why and kind_of(self.was.dtype) in "fc":
            same = self.canonical()
            why = why if same is None else elsewhere(*same, numerics, fast_math)
        if why and numerics > SIGNED_ZERO and _moved(self.was, self.now) and self.excused(numerics):
            why = elsewhere(self.was, self.now, numerics, True)
        if not why and numerics > SIGNED_ZERO and kind_of(self.was.dtype) in "fc":
            why = self._beyond(numerics)
        return why

    def _beyond(self, numerics: Numerics) -> str:
        """The element that is farther from the truth than the numerics allow; empty if there is none."""
        both = np.isfinite(self.was) & np.isfinite(self.now)
        true = self.truth()
        if true is None:
            true = self.was.astype(np.result_type(self.was.dtype, np.float64))
        both &= np.isfinite(true)
        limit = allowed(self.was, true, self.spread(numerics))
        off = np.where(both, np.abs(self.now.astype(true.dtype) - true), 0.0)
        worst = np.unravel_index(np.argmax(off - limit), off.shape) if off.size else ()
        if not off.size or not off[worst] > limit[worst]:
            return ""
        unit = ulps(np.abs(true[worst]).astype(np.float64), self.was.dtype)
        where = f"the element at {tuple(map(int, worst))}" if worst else "it"
        return f"{where} is {off[worst] / unit:.3g} ulps from the truth, where {limit[worst] / unit:.3g} are rounding"


def _moved(was: Any, now: Any) -> bool:
    """Whether NaN or infinity is elsewhere."""
    there = ~(np.isfinite(was) & np.isfinite(now))
    return not np.array_equal(was[there], now[there], equal_nan=True)


def values(old: Value, new: Value, feeds: Any, device: Any, dims: Any = None) -> Values | None:
    """Of a graph and of what it became, unknown axes being as `dims` says; None where the first cannot be computed."""

    def truth() -> Any:
        return true_value(old, feeds, device, dims)

    def bound(numerics: Numerics) -> Any:
        return spread(old, way, device, numerics, dims)

    def excused(numerics: Numerics) -> bool:
        return left_to_kernels(old, new, feeds, device, dims, numerics)

    def canonical() -> tuple[Any, Any] | None:
        try:
            both, _ = evaluated([old, new], feeds, Canonical(device), None, dims)
        except NncError:
            return None
        return both[0], both[1]

    try:
        way = computed([old], feeds, device, None, dims)
        was = on_host(old, way, device)  # a device that is lazy computes only now
    except NncError:
        return None
    try:
        after = computed([new], {**feeds, **way}, device, None, dims)
        now = on_host(new, after, device)
    except NncError as error:
        return Values(was, None, truth, bound, excused, canonical, str(error))
    met = {**way, **after}  # what is there before is not computed again, nor are its operands
    if not all(_is_solvable(node, met, device) for node in met):
        return None
    return Values(was, now, truth, bound, excused, canonical)


def _is_solvable(node: Node, way: Any, device: Any) -> bool:
    """False of a decomposition with NaN or infinity: what LAPACK makes of these depends on the layout."""
    if node.op.samples.prepare is None:
        return True
    met = [v for v in (*node.args, *(node.results if node.op.multi_result else (node,))) if kind_of(v.dtype) in "fc"]
    return all(np.isfinite(on_host(v, way, device)).all() for v in met)


@contextmanager
def quiet() -> Iterator[None]:
    """Warnings of arithmetic at the edges of floating point are no faults."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def size_of(instance: Instance) -> tuple[int, int]:
    """Applications of a graph, and elements of its inputs: the smallest counterexample is shown."""
    return nodes_of([instance.root]), sum(a.size for a in instance.feeds.values())


def nodes_of(roots: list[Value]) -> int:
    """How many applications of operators there are."""
    return sum(n.op not in (INPUT, CONSTANT) for n in topological(roots))


def told_of(rule: Any, instance: Instance, outcome: Outcome) -> str:
    """The rule, what is wrong, and code that shows it."""
    values = {"before": outcome.old or instance.root} | ({} if outcome.new is None else {"after": outcome.new})
    where = getattr(rule, "where", "")
    return f"{rule}{f'   ({where})' if where else ''}\n{outcome.why}\n{code(values, instance.feeds)}"
