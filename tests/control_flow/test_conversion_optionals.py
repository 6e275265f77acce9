"""Variables that are None, or have nothing, until a tensor says otherwise (`control_flow/conversion/optionals`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import NncError, RunError
from tests.control_flow.optional_programs import program as drawn

STACKS = {"eager": nnc.eager(), "lazy": nnc.lazy()}
each_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
ROWS = ([1.0, 5.0, 3.0], [1.0, 1.0, 1.0], [-2.0, 4.0, -1.0], [9.0, 8.0, 2.5])
Program = Callable[[Any], Any]


# --- programs, of rows, as Python runs them on NumPy and on numbers -----------------------------------------------


def largest(x: Any) -> Any:
    best = None
    for v in x:
        if best is None or v > best:
            best = v
    return best


def last_above(x: Any) -> Any:
    found = None
    for v in x:
        if v > 2:
            found = v * v
    if found is None:
        return x[0] * 0 - 1
    return found


def least_above(x: Any) -> Any:
    best = None
    for v in x:
        if v > 2:
            if best is None:  # noqa: SIM114 - as it is written
                best = v
            elif v < best:
                best = v
    return best * 3 if best is not None else x.sum()


def with_its_place(x: Any) -> Any:
    best, at, n = None, None, 0
    while n < 3:
        if best is None or x[n] < best:
            best, at = x[n], n
        n = n + 1
    return best * 10 + at


def of_a_pair(x: Any) -> Any:
    best = None
    for n, v in enumerate(x):
        if v > 0 and (best is None or v > best[0]):
            best = (v, n)
    return 0.0 * x[0] if best is None else best[0] * 2 + best[1]


def begun_in_the_loop(x: Any) -> Any:
    h = None
    for v in x:
        if h is None:
            h = v * 0 + 0.5
        h = h * v + 1
    return h


def a_branch_alone(x: Any) -> Any:
    extra = None
    if x.sum() > 6:
        extra = x[0] * 2
    y = x[1]
    if extra is not None:
        y = y + extra
    return y


def back_to_none(x: Any) -> Any:
    before = None
    total = x[0] * 0
    for v in x:
        if before is not None:
            total = total + before * v
        before = None if v > 4 else v
    return total


def in_two_loops(x: Any) -> Any:
    best = None
    for v in x:
        for w in x:
            if v * w > 2:  # noqa: SIM102
                if best is None or v - w < best:
                    best = v - w
    return best if best is not None else x[0] * 0 + 77


def added_to(x: Any) -> Any:
    total = None
    for v in x:
        if v > 0:
            if total is None:
                total = v
            else:
                total += v
    if total is None:
        total = x[0] * 0
    total += 1
    return total


def first_assigned_in_it(x: Any) -> Any:
    n = 0
    while n < x[1] - 0.5:
        last = x[0] * n
        n = n + 1
    return last + n


def read_behind_a_branch(x: Any) -> Any:
    for n in range(3):
        if n > 0:
            x = x + previous  # noqa: F821 - from the time before
        previous = x * 0.5  # noqa: F841
    return x.sum()


def by_another_name(x: Any) -> Any:
    best = None
    for v in x:
        if v > 2:
            best = v
    first = other = best
    if other is None:
        return x[0] * 2
    assert first is not None
    return first + other


def handed_on(x: Any) -> Any:
    previous, last = None, None
    total = x[0] * 0
    for v in x:
        previous = last
        last = v if v > 0 else None
        if previous is not None:
            total = total + previous * v
    return total


COMPUTED = [by_another_name, handed_on, largest,
            last_above, least_above, with_its_place, of_a_pair, begun_in_the_loop, a_branch_alone,
            back_to_none, in_two_loops, added_to, first_assigned_in_it, read_behind_a_branch]  # fmt: skip


@each_stack
@pytest.mark.parametrize("x", ROWS, ids=["middle", "alike", "second", "falling"])
@pytest.mark.parametrize("program", COMPUTED, ids=lambda f: f.__name__)
def test_it_is_what_python_computes(stack: Any, program: Program, x: list[float]) -> None:
    x = np.array(x)
    f = stack.jit(program, control_flow=True)
    np.testing.assert_allclose(f(x).numpy(), program(x), rtol=1e-12)
    slope = stack.grad(lambda x: f(x) * 1.0)(stack.asarray(x)).numpy()
    for n, step in enumerate(np.eye(3) * 1e-6):
        slopes = [(program(x + step) - program(x)) / 1e-6, (program(x) - program(x - step)) / 1e-6]
        if abs(slopes[0] - slopes[1]) < 1e-3:  # else another way is taken there
            np.testing.assert_allclose(slope[n], sum(slopes) / 2, rtol=1e-4, atol=1e-4)


def nothing_above(x: Any) -> Any:
    best = None
    for v in x:
        if v > 100:
            best = v
    return best + 1


def no_time(x: Any) -> Any:
    while x.sum() > 100:
        last = x
        x = x / 2
    return last * 2


def inner_loop(x: Any) -> Any:
    total = x[0] * 0
    for _ in range(2):
        while total > 100:
            part = total * 2
            total = total - 200
        total = total + part
    return total


REFUSED = [(nothing_above, "best", 5), (no_time, "last", 4), (inner_loop, "part", 6)]


@each_stack
@pytest.mark.parametrize(("program", "name", "line"), REFUSED)
def test_what_is_not_there_is_a_run_error(stack: Any, program: Program, name: str, line: int) -> None:
    """Zeros were read, without a word, or it was refused for all values; Python raises TypeError or NameError."""
    where = program.__code__.co_firstlineno + line
    f = stack.jit(program, control_flow=True)
    for run in (f, stack.grad(lambda x: f(x).sum())):
        with pytest.raises(RunError, match="a variable is read that has no value") as caught:
            run(stack.asarray(ROWS[0])).numpy()
        assert f"test_conversion_optionals.py:{where} in code that reads the variable {name}" in str(caught.value)
    with pytest.raises((TypeError, NameError)):
        program(np.array(ROWS[0]))
    with pytest.raises(RunError, match="a variable is read that has no value"):
        stack.vmap(f)(stack.asarray(ROWS)).numpy()


@each_stack
def test_rows_of_a_vmap(stack: Any) -> None:
    for program in (largest, last_above, in_two_loops, begun_in_the_loop):
        f = stack.jit(program, control_flow=True)
        found = stack.vmap(lambda x, f=f: f(x))(stack.asarray(ROWS)).numpy()
        np.testing.assert_allclose(found, [program(np.array(x)) for x in ROWS], rtol=1e-12)


@each_stack
def test_what_is_written_into_is_the_variable(stack: Any) -> None:
    def f(x: Any) -> Any:
        found = None
        for v in x:
            if v.sum() > 2:
                found = v * 1.0
        other = found
        other[0] = 7.0
        found[1] = found[0] + 1
        return found, other

    given = np.array([[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]])
    for found in stack.jit(f, control_flow=True)(given):
        assert found.tolist() == [7, 8]


def test_programs_are_saved(tmp_path: Path) -> None:
    lazy = STACKS["lazy"]
    lazy.jit(largest, control_flow=True).program(np.array(ROWS[0])).save(tmp_path / "program.nnc")
    loaded = nnc.load_program(tmp_path / "program.nnc", lazy)
    for row in ROWS:
        np.testing.assert_allclose(loaded(np.array(row)), largest(np.array(row)))


@each_stack
def test_lists_and_attributes_stay_refused(stack: Any) -> None:
    class Holder:
        best: Any = None

    def attribute(x: Any) -> Any:
        holder = Holder()
        holder.best = None
        if x[0] > 0:
            holder.best = x[1]
        return holder.best

    def listed(x: Any) -> Any:
        found = None
        if x[0] > 0:
            found = [x[1]]
        return x if found is None else found[0]

    for program in (attribute, listed):
        with pytest.raises(NncError, match=r"test_conversion_optionals.py:\d+"):
            stack.jit(program, control_flow=True)(np.array(ROWS[0]))


DRAWN = ([1.0, 5.0, 3.0], [1.0, 0.5, -1.0], [-2.0, 4.0, -1.0], [-1.0, -2.0, -3.0])


@each_stack
def test_drawn_programs(stack: Any, tmp_path: Path) -> None:
    """Values are Python's, and where Python raises so does this; but what is None for sure is refused when traced."""
    equal, refused = 0, 0
    for seed in range(40):
        plain = drawn(seed, tmp_path)
        f = stack.jit(plain, control_flow=True)
        for x in map(np.array, DRAWN):
            try:
                wanted = plain(x)
            except TypeError:  # of None
                with pytest.raises(NncError):
                    f(x).numpy()
                continue
            try:
                found = f(x).numpy()
            except RunError:
                raise
            except NncError as error:
                assert "given None" in str(error), seed  # noqa: PT017 - or it is equal
                refused += 1
                continue
            np.testing.assert_allclose(found, wanted, rtol=1e-9, err_msg=str(seed))
            equal += 1
    assert equal > 100
    assert refused < 20


@each_stack
def test_what_no_time_reads_is_not_asked(stack: Any) -> None:
    """A variable from before a loop is asked in it, at each time: it was asked once, also where it goes none."""

    def f(x: Any) -> Any:
        a = x[1] if x[0] > 0 else None
        total = x[2]
        for _ in range(2):
            n = 0
            while n < x[2]:
                total, n = total + a, n + 1
        return total

    compiled = stack.jit(f, control_flow=True)
    assert compiled(np.array([1.0, 5.0, 1.0])).item() == 11.0
    assert compiled(np.array([-1.0, 5.0, 0.0])).item() == 0.0
    with pytest.raises(RunError, match="a variable is read that has no value"):
        compiled(np.array([-1.0, 5.0, 1.0])).numpy()


def exchanged_while_none(t: Any, v: Any, w: Any) -> Any:
    k = m = None
    for _ in [0.1, v, w]:
        if t > 0.5:
            k = v * 2
            continue
        k, m = m, k
    return v if m is None else w


def exchanged_where_another_decides(t: Any, v: Any, w: Any) -> Any:
    k = m = None
    for _ in [0.1, v, w]:
        if t > 0.5:
            k = v * 2
        if t < w:
            k, m = m, k
    return v if m is None else w


def passed_on(t: Any, v: Any, w: Any) -> Any:
    def same(x: Any) -> Any:
        return x

    k = None
    if t > 0.5:
        k = v * 2
    kept = [k]
    return v if kept[0] is None else w


@each_stack
@pytest.mark.parametrize("f", [exchanged_while_none, exchanged_where_another_decides, passed_on])
def test_none_that_is_passed_on(stack: Any, f: Any) -> None:
    jitted = stack.jit(f, control_flow=True)
    for t in (0.2, 0.7):
        for w in (0.1, 5.0):
            assert float(np.asarray(jitted(np.float64(t), np.float64(3.0), np.float64(w)))) == f(t, 3.0, w)


def behind_a_break(x: Any) -> Any:
    for k in range(3):
        if x.sum() > k:
            break
        y = x * 2
    return y + 1


@each_stack
def test_what_is_first_assigned_behind_a_break_is_asked(stack: Any) -> None:
    jitted = stack.jit(behind_a_break, control_flow=True)
    assert np.asarray(jitted(np.full(2, -5.0))).tolist() == [-9.0, -9.0]
    with pytest.raises(RunError, match="the variable y"):
        np.asarray(jitted(np.full(2, 0.5)))
