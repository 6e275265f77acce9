"""Generated files say what the catalogue says, and methods are its operators (`graph/tensors`, `graph/ops`)."""

from __future__ import annotations

import ast
import doctest
import inspect
import pickle
import pydoc
import re
import subprocess
import sys
import typing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnc_func.device import NumPy
from nnc_func.errors import OperatorError, PlaceError, UnknownOperatorError
from nnc_func.graph.composite import Composite
from nnc_func.graph.composites import COMPOSITES
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.tensors.namespace import Ops
from nnc_func.graph.tensors.operator_methods import MethodsOnDemand
from nnc_func.op import Op
from tests.throughout import throughout

ROOT = Path(__file__).resolve().parents[2]
STUB = ROOT / "nnc_func" / "graph" / "tensors" / "operator_methods.pyi"
ALL: list[Op | Composite] = [*CATALOGUE.values(), *COMPOSITES.values()]


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


def test_the_stub_has_the_signature_of_every_method() -> None:
    """Names, kinds, defaults and types; but for ``**other``, which is there for the words of a refusal."""
    assert [*_stub()] == [of.name for of in ALL]
    throughout(ALL, is_in_the_stub)


def is_in_the_stub(of: Op | Composite) -> None:
    real = inspect.signature(getattr(Ops, of.name))
    kept = [p for p in real.parameters.values() if p.kind is not p.VAR_KEYWORD]
    scope: dict[str, Any] = {}
    stub = ast.FunctionDef(of.name, _stub()[of.name].args, [ast.Pass()], [], _stub()[of.name].returns, lineno=0)
    module = ast.fix_missing_locations(ast.Module([stub], []))
    exec(compile(module, str(STUB), "exec"), {}, scope)  # annotations are text here: of what `compile` inherits
    assert inspect.signature(scope[of.name]) == real.replace(parameters=kept)


@cache
def _stub() -> dict[str, ast.FunctionDef]:
    *_, owner = (node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.ClassDef))
    return {node.name: node for node in owner.body if isinstance(node, ast.FunctionDef)}


def test_a_method_has_its_operators_words() -> None:
    throughout(ALL, has_its_words)


def has_its_words(of: Op | Composite) -> None:
    method = getattr(Ops, of.name)
    assert inspect.isfunction(method)
    assert inspect.getdoc(method) == of.doc
    assert (method.__module__, method.__qualname__) == (Ops.__module__, f"Ops.{of.name}")
    assert typing.get_type_hints(method)["return"]


def test_help_shows_every_method_with_its_words() -> None:
    shown = pydoc.render_doc(Ops, renderer=pydoc.plaintext)  # type: ignore[attr-defined]
    shown = re.sub(r"\(\n \|  +self", "(self", shown)  # from 3.13 on, a long signature has a line for each parameter
    assert [of.name for of in ALL if f" |  {of.name}(self" not in shown or of.doc.splitlines()[0] not in shown] == []
    assert {of.name for of in ALL} <= {*dir(Ops)} & {*dir(Ops(NumPy().bind))}


def test_examples_in_the_words_of_operators_run() -> None:
    throughout(ALL, has_examples_that_run)


def has_examples_that_run(of: Op | Composite) -> None:
    examples = doctest.DocTestParser().get_doctest(of.doc, {"np": np}, of.name, None, None)
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples).failed == 0


def test_a_method_is_made_when_it_is_asked_for_and_once() -> None:
    class Fresh(metaclass=MethodsOnDemand):
        """With no method yet."""

    made: Any = Fresh
    assert "tanh" not in vars(Fresh)
    first = made.tanh
    assert vars(Fresh)["tanh"] is first is made.tanh
    assert Fresh().tanh.__func__ is first  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="'Fresh' has no attribute 'tanhh'"):
        made.tanhh  # noqa: B018


def test_words_of_other_libraries_are_answered_with_ours() -> None:
    ops: Ops[Any] = Ops(NumPy().bind)
    with pytest.raises(OperatorError, match=r"write axis=0"):
        ops.sum(np.ones(2), dim=0)  # type: ignore[call-arg]
    with pytest.raises(OperatorError, match=r"it is called axis here; write axis=0"):
        ops.cumulative_sum(np.ones(2), dim=0)  # type: ignore[call-arg]
    with pytest.raises(OperatorError, match=r"std has no parameter 'keepdim'.*write keepdims=True"):
        ops.std(np.ones(2), keepdim=True)  # type: ignore[call-arg]


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
    mine, word = _named("mine"), _named("lambda")
    ops: Ops[object] = Ops(lambda op, *args: (op, args), CATALOGUE.with_ops(mine, word))
    assert ops.lambda_(1) == (word, (1,))  # type: ignore[attr-defined]
    assert ops.mine(1) == (mine, (1,))  # type: ignore[attr-defined]
    assert "mine" in dir(ops)


def test_an_operator_that_takes_anothers_name_is_the_one_that_is_called() -> None:
    other = _named("exp")
    catalogue = type(CATALOGUE)(tuple(other if op.name == "exp" else op for op in CATALOGUE.values()))
    ops: Ops[object] = Ops(lambda op, *args: op, catalogue)
    assert ops.exp(1) is other
    assert ops.log(1) is CATALOGUE["log"]


def test_an_operator_of_ones_own_is_called_as_it_was_declared() -> None:
    """Also where its name is that of one of ours, or of a composite; what formulas ask of carriers keeps its names."""
    catalogue = CATALOGUE.with_ops(mine := _named("gelu"), _named("dtype"))
    for ops in (Ops(lambda op, *args: (op, args), catalogue), Ops(lambda op, *args: (op, args), catalogue).functions):
        assert ops.gelu(1) == (mine, (1,))
        assert ops.dtype(np.float32(1)) == "float32"


def test_formulas_are_told_of_an_operator_that_the_stack_has_not() -> None:
    def refuse(op: Op, *args: Any, **params: Any) -> Any:
        raise UnknownOperatorError(f"{op.name} is unknown")

    few = type(CATALOGUE)((CATALOGUE["exp"],))
    formulas: Ops[Any] = Ops(refuse, few).functions
    assert formulas.functions is formulas
    with pytest.raises(UnknownOperatorError, match="tanh is not an operator of this stack, and what is built of it"):
        formulas.tanh(1.0)
    with pytest.raises(UnknownOperatorError, match="exp is unknown"):  # it is another one, of its formula
        formulas.exp(1.0)


def test_only_formulas_move_numbers_to_where_the_tensors_are() -> None:
    class At:
        def __init__(self, place: str | None) -> None:
            self.place, self.shape = place, ()

    def bind(op: Op, *args: At, **params: Any) -> Any:
        if op.name == "transfer":
            return At(params["place"])
        if len({a.place for a in args}) > 1:
            raise PlaceError("in different places")
        return args[0].place

    ops: Ops[Any] = Ops(bind)
    assert ops.functions.add(At(None), At("gpu")) == "gpu"
    for user, pair in ((ops, (None, "gpu")), (ops.functions, ("cpu", "gpu"))):
        with pytest.raises(PlaceError, match="in different places"):
            user.add(*map(At, pair))


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
