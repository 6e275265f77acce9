"""Sessions: what all programs do alike (`engine/running/session`, `engine/running/interpretation`)."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.config import config
from nnc_func.engine.incremental.program import IncrementalProgram
from nnc_func.engine.incremental.symbolic import IncrementalSymbolicProgram
from nnc_func.engine.interpreted import Interpreted, InterpretedBindings
from nnc_func.engine.running.program import Program
from nnc_func.engine.running.session import Session
from nnc_func.engine.symbolic import Bindings, SymbolicProgram
from nnc_func.errors import NncError, NumericsError, ShapeError

EAGER, LAZY = nnc.eager(), nnc.lazy()
X = np.linspace(0.1, 1, 4)


def of_each_kind() -> dict[type, Any]:
    """The same function as a program of each kind, of two inputs, a tree out and a variable that is doubled."""
    found = {}
    for stack, rows, retain in (
        (LAZY, 4, "none"), (EAGER, 4, "none"), (LAZY, "n", "none"), (EAGER, "n", "none"), (LAZY, 4, "all"),
        (LAZY, "n", "all"),
    ):  # fmt: skip
        x, y = stack.input("x", (rows,), "float64"), stack.input("y", (4,), "float64")
        w = stack.variable("w", X)
        tree = {"sum": stack.ops.log(x) + stack.ops.sum(y * w), "both": (x, x[1:])}
        program = stack.compile([x, y], tree, updates=[(w, w * 2)], retain=retain)
        found[type(program)] = program
    return found


def test_programs_of_all_kinds_are_called_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = of_each_kind()
    assert {*kinds} == {
        Program, Interpreted, SymbolicProgram, InterpretedBindings, IncrementalProgram, IncrementalSymbolicProgram
    }  # fmt: skip
    for level in (0, 3):
        monkeypatch.setattr(config, "spec", level)
        for kind, program in of_each_kind().items():
            assert issubclass(kind, Session)
            for factor in (1, 2, 4):
                found = program(X, X)
                np.testing.assert_allclose(found["sum"], np.log(X) + (X * X).sum() * factor, err_msg=kind.__name__)
                assert type(found["both"]) is tuple
                np.testing.assert_array_equal(found["both"][1], X[1:])
            flat = program.run((X, X))
            assert [a.shape for a in flat] == [(4,), (4,), (3,)]
            assert not any(np.shares_memory(a, X) for a in flat)
            out = [np.empty(a.shape) for a in flat]
            assert program(X, X, out=out)["both"][0] is out[1]
            with pytest.raises(ShapeError):
                program(X, X[:2])


def test_a_check_of_numerics_is_asked_of_each_kind() -> None:
    for base in (LAZY, EAGER):
        stack = base.swap(engine=base.engine.checking_numerics())
        for rows in (4, "n"):
            for retain in ("none", "all"):
                x = stack.input("x", (rows,), "float64")
                program = stack.compile([x], stack.ops.log(x), retain=retain)
                np.testing.assert_array_equal(program(X), np.log(X))
                with pytest.raises(NumericsError, match="log"), np.errstate(all="ignore"):
                    program(X - X)


# --- interpretations ----------------------------------------------------------------------------------------


def test_interpretations_at_once_and_within_each_other_have_values_of_their_own() -> None:
    depth: list[int] = []

    def again(x: Any) -> Any:
        depth.append(len(depth))
        return program(x) if len(depth) < 4 else np.zeros(4)

    x, o = EAGER.input("x", (4,), "float64"), EAGER.ops
    y = o.callback(x * 2, function=again, shapes=((4,),), dtypes=("float64",), after=EAGER.token())[1]
    program = EAGER.compile([x], x + y)
    for _ in range(2):
        depth.clear()
        np.testing.assert_allclose(program(X), X * 15)
    one = EAGER.compile([x], o.cumulative_sum(x * 2, axis=0) + x)
    wrong: list[int] = []

    def act(number: int) -> None:
        for _ in range(100):
            if not np.allclose(one(X + number), np.cumsum((X + number) * 2) + X + number):
                wrong.append(number)

    threads = [threading.Thread(target=act, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_interpretation_keeps_nothing_of_a_run() -> None:
    """Neither inputs nor results nor, after a failure, what was computed until then."""
    fails: list[bool] = []
    seen: list[Any] = []

    def kernel(x: Any) -> Any:
        if fails:
            raise ValueError("no")
        return x

    x, o = EAGER.input("x", (4,), "float64"), EAGER.ops
    y = o.callback(x + 1, function=kernel, shapes=((4,),), dtypes=("float64",), after=EAGER.token())[1]
    program = EAGER.compile([x], [y * 2, y[1:]])
    gc.disable()
    try:
        for failing in (False, True, False):
            fails[:] = [True] * failing
            given = X.copy()
            gone = [weakref.ref(given)]
            if failing:
                with pytest.raises(NncError, match="no"):
                    program(given)
            else:
                found = program(given)
                np.testing.assert_array_equal(found[0], (X + 1) * 2)
                gone += map(weakref.ref, found)
                del found
            del given
            gc.collect() if failing else None  # the traceback of the error refers to the run
            seen += [each() for each in gone if each() is not None]
    finally:
        gc.enable()
    assert not seen


def test_bindings_of_an_interpreted_program_are_remembered() -> None:
    x, y = EAGER.input("x", ("n",), "float64"), EAGER.input("y", ("n",), "float64")
    program = EAGER.compile([x, y], x + y)
    assert isinstance(program, Bindings)
    for n in (2, 3, 2):
        np.testing.assert_array_equal(program(np.ones(n), np.ones(n)), np.full(n, 2.0))
    assert [*program.programs] == [(("n", 3),), (("n", 2),)]
    with pytest.raises(ShapeError):
        program(np.ones(2), np.ones(3))
