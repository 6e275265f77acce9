"""The same program on several stacks: every value is compared with that of the operators' reference kernels.

What differs between the stacks (engine, device, allocator, order, rules) is what is tested.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, currently_in_test_context, given, settings
from hypothesis import seed as draws_from
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException, Unsatisfiable, UnsatisfiedAssumption

from nnc_func.config import config
from nnc_func.engine.allocators import ALLOCATORS
from nnc_func.engine.orders import ORDERS
from nnc_func.layer import chain
from nnc_func.testing.draws import constants_of_no_module
from nnc_func.testing.program import Program
from nnc_func.testing.programs import LARGEST
from nnc_func.testing.reducing import reduced

ULPS = 256  # of the largest number on the way: a dozen steps, each a few ulps, and sums of up to 500 elements
SLOPE = 100  # beyond such values gradients, which are products of them, amplify rounding too much to compare
SEEDS = (0, 1, 0)  # of the inputs of consecutive calls


# --- one program -----------------------------------------------------------------------------------------


def follow(program: Program, stack: Any) -> None:
    """Three calls of the compiled program with two different inputs; what they return is held to the end.

    Results are NumPy's up to rounding on the way, the caller's own, and not written again; inputs are not written;
    variables have their next values; a plan verifies itself.
    """
    built = program.build(stack)
    if getattr(built.program, "plan", None) is not None:
        built.program.plan.verify()
    host = stack.device.to_numpy
    state = [v.value() for v in program.variables]
    kept, wanted = [], []
    for number in SEEDS:
        feeds = program.feeds(number)
        if number:  # columns first, every other element: a caller's array may lie in memory anyhow
            feeds = [np.repeat(f.T.copy().T, 2, axis=-1)[..., ::2] if f.ndim else f for f in feeds]
        before = [f.copy() for f in feeds]
        outputs, state, largest = program.run_numpy(feeds, state)
        comparable(largest, LARGEST)
        with np.errstate(all="ignore"):
            kept.append(built(*feeds))
        wanted.append((outputs, largest))
        apart(kept[-1], [*feeds, *(getattr(v.value, "array", None) for v in built.variables)])
        agree(built.state(), state, program, largest, "variable")
        for i, (f, b) in enumerate(zip(feeds, before, strict=True)):
            assert f.tobytes() == b.tobytes(), f"input {program.inputs[i].name} was written"
    for found, (outputs, largest) in zip(kept, wanted, strict=True):
        agree(list(map(host, found)), outputs, program, largest, "output")


def apply_at_once(program: Program, stack: Any) -> None:
    """Operator by operator, without a compiled program: computed at once, or forced together; NumPy's values."""
    state = [v.value() for v in program.variables]
    outputs, following, largest = program.run_numpy(program.feeds(), state)
    comparable(largest, LARGEST)
    with np.errstate(all="ignore"):
        found, after = program.immediate(stack, program.feeds(), state)
    agree(found, outputs, program, largest, "output")
    agree(after, following, program, largest, "update")


def gradients(
    program: Program, stack: Any, *, how: str = "both", decisions: Sequence[int] | None = None
) -> list[list[Any]]:
    """Of the sum of squares of the outputs' tanh, by each floating leaf: ``"at once"``, ``"compiled"``, or both.

    With `decisions`, loops and branches are written out step by step.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.testing.program import Leaf
    >>> gradients(Program((Leaf("input", "x", (), "float64", "zeros"),), (), (0,), ()), nnc.eager(), how="compiled")
    [[array(0.)]]
    """

    def loss(*tensors: Any) -> Any:
        if decisions is None:
            values = program.applied(stack, tensors)
        else:
            values = program.written_out(stack, tensors, decisions)
        total = stack.asarray(np.float64(0))
        for o in program.outputs:
            if values[o].dtype.kind == "f":
                total = total + stack.ops.sum(stack.ops.square(stack.ops.tanh(values[o])))
        return total

    leaves = [leaf.value() for leaf in program.leaves]
    by = tuple(n for n, leaf in enumerate(leaves) if leaf.dtype.kind == "f")
    if not by:
        return [[], []] if how == "both" else [[]]
    gradient = stack.grad(loss, by)
    with np.errstate(all="ignore"):
        made = [] if how == "compiled" else [gradient(*leaves)]
        if how != "at once":
            made.append(stack.jit(lambda *tensors: gradient(*tensors))(*leaves))
    return [[g.numpy() for g in each] for each in made]


def differentiate(program: Program, stack: Any) -> None:
    """Gradients are the eager stack's of loops written out step by step; wherever they are taken, they are equal."""
    wanted, largest = _written_out(program)
    for found in gradients(program, stack):
        agree(found, wanted, program, largest * 10, "gradient")


@lru_cache(maxsize=4)
def _written_out(program: Program) -> tuple[list[Any], float]:
    """Gradients of a program on the eager stack, step by step, and the largest number of these and on the way."""
    from nnc_func.stacks import eager

    _, met = program.on_arrays([leaf.value() for leaf in program.leaves])
    comparable(met.largest, SLOPE)
    found = [*itertools.chain(*gradients(program, eager(), how="at once", decisions=met.decisions))]
    return found, max([met.largest, *(float(np.abs(g).max()) for g in found if g.size and np.isfinite(g).all())])


def comparable(largest: float, most: float) -> None:
    """Leave out a program with larger numbers on the way: rounding is amplified too much to tell it from faults."""
    if not largest < most:
        raise UnsatisfiedAssumption(f"a number on the way is {largest:g}, too large to compare what is made of it")


# --- comparing -------------------------------------------------------------------------------------------


def agree(found: Sequence[Any], wanted: Sequence[Any], program: Program, largest: float, what: str) -> None:
    """Raise AssertionError unless shapes and dtypes are equal, and numbers but for rounding on the way.

    Parameters
    ----------
    largest
        The largest finite number on the way.
    what
        What the values are, for the message.
    """
    allowed = ULPS * program.epsilon() * max(largest, 1.0)
    for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
        one, said = np.asarray(one), f"{what} {i}"
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            raise AssertionError(f"{said} is {one.dtype}{list(one.shape)}, wanted {other.dtype}{list(other.shape)}")
        if not _near(one, other, allowed):
            raise AssertionError(f"{said} is\n{one!r}, wanted\n{other!r} up to {allowed:.2g}")


def _near(one: Any, other: Any, allowed: float) -> bool:
    if one.dtype.kind not in "fc":
        return bool(np.array_equal(one, other))
    with np.errstate(all="ignore"):
        same = (one == other) | (np.isnan(one) & np.isnan(other)) | (np.abs(one - other) <= allowed)
    return bool(same.all())


def apart(results: Sequence[Any], others: Sequence[Any]) -> None:
    """Raise AssertionError if a result shares memory with another, or with an input or a variable."""
    for i, one in enumerate(results):
        for other in (*results[:i], *others):
            if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.shares_memory(one, other):
                raise AssertionError(f"output {i} shares memory with another output, an input or a variable")


# --- many programs, many stacks --------------------------------------------------------------------------


def differential(
    program: Any,
    stacks: Any,
    *,
    examples: int = 100,
    gradients: bool = False,
    spec: int | None = None,
    at_a_time: int | None = None,
) -> int:
    """Run a program, or many that are drawn, on each of the stacks, and compare with the reference kernels.

    Parameters
    ----------
    program
        A `Program`, or a strategy for some: `strategies.programs()`.
    stacks
        Stacks by name, or a sequence of them, or one; see `variations`.
    examples
        How many programs are drawn.
    gradients
        Compare gradients with those of the eager stack too; the programs are ``programs(smooth=True)``.
    spec
        Checked so closely while they run: as ``NNC_SPEC``.
    at_a_time
        On how many of the stacks each program runs: the next so many, in turn; None is all of them.

    Returns
    -------
    How many programs ran.

    Raises
    ------
    AssertionError
        A stack gives something else, or fails: names the stack, says what it gives, and shows the program as code,
        as small as one was found.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> from nnc_func.testing import strategies
    >>> differential(strategies.programs(most_steps=3), {"eager": nnc.eager(), "lazy": nnc.lazy()}, examples=5)
    5
    """
    named = stacks if isinstance(stacks, Mapping) else {"": stacks} if hasattr(stacks, "swap") else None
    named = {repr(stack): stack for stack in stacks} if named is None else named
    is_one = isinstance(program, Program)
    if is_one:
        program, examples = st.just(program), 1
    runs = (follow, apply_at_once, differentiate) if gradients else (follow, apply_at_once)
    turns = itertools.cycle(named)
    failed: list[Program] = []
    faulty: dict[str, Any] = {}  # the stack on which a program failed: smaller ones run on that alone

    def check(one: Program) -> None:
        chosen = [next(turns) for _ in range(min(at_a_time or len(named), len(named)))]
        for name in faulty or chosen:
            try:
                _on_all(one, {name: named[name]}, runs, spec)
            except AssertionError:
                failed.append(one)
                faulty[name] = named[name]
                raise

    try:
        return drawn(program, check, examples)
    except Unsatisfiable:
        if is_one:
            return 0  # a program whose numbers are too large to compare
        raise
    except AssertionError as error:
        raise AssertionError(reduced(failed[-1], lambda one: _fault(one, faulty, runs, spec)) or str(error)) from error


def _fault(program: Program, stacks: Mapping[str, Any], runs: Any, spec: int | None) -> str:
    """What is wrong with the program on these stacks, in words; empty if nothing is."""
    try:
        _on_all(program, stacks, runs, spec)
    except AssertionError as error:
        return str(error)
    except HypothesisException:  # numbers are too large to compare
        return ""
    return ""


def drawn(strategy: Any, check: Callable[[Any], None], examples: int) -> int:
    """Call a function with so many drawn values, always the same ones; how many it took.

    What it raises for the smallest value found is raised.

    Examples
    --------
    >>> drawn(st.integers(0, 9), lambda n: None, 5)
    5
    """
    try:
        if not currently_in_test_context():
            return _drawn(strategy, check, examples)
        with ThreadPoolExecutor(1) as thread:  # a thread has one test at a time: this is in another one's
            return thread.submit(_drawn, strategy, check, examples).result()
    except AssertionError as error:
        raise AssertionError(str(error)) from error.__cause__


def _drawn(strategy: Any, check: Callable[[Any], None], examples: int) -> int:
    taken = 0

    @draws_from(config.seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=False,
        report_multiple_bugs=False,
        print_blob=False,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def each(value: Any) -> None:
        nonlocal taken
        check(value)
        taken += 1

    with constants_of_no_module():
        each()
    return taken


def _on_all(program: Program, stacks: Mapping[str, Any], runs: Any, spec: int | None) -> None:
    for name, stack in stacks.items():
        for run in runs:
            with telling(program, run, name), checked(spec), np.errstate(all="ignore"):
                run(program, stack)


@contextmanager
def telling(program: Program, run: Any, name: str) -> Iterator[None]:
    """Whatever breaks is told in words, with the program as code."""
    try:
        yield
    except HypothesisException:
        raise
    except Exception as error:
        said = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        where = f"{name}: " if name else ""
        how = {follow: "compiled", apply_at_once: "applied at once", differentiate: "differentiated"}[run]
        raise AssertionError(f"{where}{how}, {said}\nthe program:\n{program}") from error


@contextmanager
def checked(level: int | None) -> Iterator[None]:
    """The library checks itself as closely as ``NNC_SPEC`` of that level asks; None leaves that alone."""
    before = config.spec
    config.spec = before if level is None else level
    try:
        yield
    finally:
        config.spec = before


def variations(stack: Any) -> dict[str, Any]:
    """The stack with each registered allocator and order, and without rules, by name: as far as its layers take them.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> sorted(variations(nnc.eager()))
    ['as it is', 'no rules']
    """
    found = {"as it is": stack}
    engine: Any = next((each for each in chain(stack.top) if each.role == "engine"), None)
    for name, allocator in ALLOCATORS.items() if hasattr(engine, "with_allocator") else ():
        found[f"allocator {name}"] = stack.swap(engine=engine.with_allocator(allocator))
    for name in ORDERS if hasattr(engine, "with_orders") else ():
        found[f"order {name}"] = stack.swap(engine=engine.with_orders(name))
    optimiser: Any = next((each for each in chain(stack.top) if each.role == "optimiser"), None)
    if hasattr(optimiser, "without_rules"):
        found["no rules"] = stack.swap(optimiser=optimiser.without_rules(*(r.name for r in optimiser.rules)))
    return found
