"""Generated files say what the catalogue says, and `Ops` behaves as its operators do."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nnc_func.device import NumPy
from nnc_func.errors import OperatorError
from nnc_func.graph.namespace import Ops
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Op
from tests.throughout import throughout

ROOT = Path(__file__).resolve().parents[2]


def test_generated_files_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/generate.py", "--check"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}run: python scripts/generate.py"


def test_a_method_has_its_operators_signature() -> None:
    throughout(CATALOGUE.values(), has_its_signature)


def has_its_signature(op: Op) -> None:
    found = inspect.signature(getattr(Ops, op.name)).parameters
    kinds = {n: p.kind for n, p in found.items() if n != "self" and p.kind is not p.VAR_KEYWORD}  # words for dim=
    tensors = [
        n
        for n, kind in kinds.items()
        if kind in (inspect._ParameterKind.POSITIONAL_ONLY, inspect._ParameterKind.VAR_POSITIONAL)
    ]
    assert tuple(tensors) == op.args[op.effect :]  # an effect's token is supplied, or given as `after`
    after = {"after": None} if op.effect else {}
    assert {n: found[n].default for n in kinds if n not in tensors} == dict(op.params) | after


def test_a_method_binds_its_operator_with_its_arguments() -> None:
    throughout(CATALOGUE.values(), binds_its_arguments)


def binds_its_arguments(op: Op) -> None:
    seen = []
    ops: Ops[object] = Ops(lambda op, *args, **params: seen.append((op, args, params)))
    tensors = tuple(object() for _ in op.args[op.effect :])
    params = {name: object() for name in (*op.params, *(["after"] if op.effect else []))}
    getattr(ops, op.name)(*tensors, **params)
    assert seen == [(op, tensors, params)]


def test_operators_of_ones_own_catalogue_are_attributes() -> None:
    mine = _named("mine")
    ops: Ops[object] = Ops(lambda op, *args: (op, args), CATALOGUE.with_ops(mine))
    assert ops.mine(1) == (mine, (1,))  # type: ignore[attr-defined]
    assert "mine" in dir(ops)


def test_an_operator_that_takes_anothers_name_is_the_one_that_is_called() -> None:
    other = _named("exp")
    catalogue = type(CATALOGUE)(tuple(other if op.name == "exp" else op for op in CATALOGUE.values()))
    ops: Ops[object] = Ops(lambda op, *args: op, catalogue)
    assert ops.exp(1) is other
    assert ops.log(1) is CATALOGUE["log"]


def test_a_name_that_is_no_operator_is_answered_with_close_ones() -> None:
    ops: Ops[object] = Ops(NumPy().bind)
    with pytest.raises(AttributeError, match=r"no operator 'tanhh'.*did you mean tanh"):
        ops.tanhh  # type: ignore[attr-defined]  # noqa: B018 - looking it up is what raises
    with pytest.raises(AttributeError, match=r"see docs/operators\.md"):
        ops.zzzzzzzz  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(ops, "__array__")


def test_it_pickles() -> None:
    ops: Ops[object] = pickle.loads(pickle.dumps(Ops(NumPy().bind)))
    np.testing.assert_array_equal(ops.add(np.float32([1, 2]), 1), np.float32([2, 3]))  # type: ignore[arg-type]


def test_an_unknown_parameter_is_refused_by_python_as_by_the_operator() -> None:
    ops: Ops[object] = Ops(NumPy().bind)
    with pytest.raises(TypeError, match="unexpected keyword"):
        ops.exp(1.0, wrong=2)  # type: ignore[call-arg]
    with pytest.raises(OperatorError, match="no parameter 'wrong'"):
        NumPy().bind(CATALOGUE["exp"], 1.0, wrong=2)


def _named(name: str) -> Op:
    from attrs import evolve

    return evolve(CATALOGUE["exp"], name=name)
