"""Published cases of control flow, with their gradients (`control_flow/scanning`, `control_flow/branches`).

They are MXNet's, NNC's, and what their systems get wrong: `cases.py` has them as functions, and a file that is not part
of this repository the numbers. What is not in the file is checked against differences.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from tests.control_flow.cases import CASES, MORE

FILE = Path(__file__).parents[3] / "shared" / "cases" / "control_flow.json"
if not FILE.exists():
    pytest.skip("the published numbers are not here", allow_module_level=True)

EAGER, LAZY = nnc.eager(), nnc.lazy()
PUBLISHED = {each["id"]: each for each in json.loads(FILE.read_text(encoding="utf-8"))}
PUBLISHED[127] = PUBLISHED[27]
AT_ONCE = {33}  # a carry that grows
HOWS: list[dict[str, Any]] = [
    *({"checkpoint": each} for each in (None, "full", "carries", "sqrt", 1, 2, 50, "budget:300B", "budget:1MB")),
    {"unroll": 2}, {"unroll": True},
]  # fmt: skip
TAKES = [n for n, f in CASES.items() if "how" in inspect.signature(f).parameters]
WHOLE = {23, 31}  # cases whose numbers are integers
UNROLLS = {n for n in TAKES if n in range(19) or n in (20, 21)}  # the others have loops without `unroll`

numbers = pytest.mark.parametrize("number", sorted(CASES))


def test_every_published_case_is_here() -> None:
    assert {*CASES} == {*PUBLISHED}


def inputs(number: int, dtype: str = "float64") -> dict[str, Any]:
    given = PUBLISHED[number]["inputs"] | dict(MORE.get(str(number), {}))
    return {name: np.asarray(x, "int64" if number in WHOLE else dtype) for name, x in given.items()}


def smooth(number: int) -> list[str]:
    """Inputs that it is differentiated by."""
    return [] if number in WHOLE or PUBLISHED[number].get("loss") is None else [*inputs(number)]


def results(stack: Any, number: int, given: dict[str, Any], **how: Any) -> dict[str, Any]:
    """Outputs by name, the loss, and gradients by name: tensors."""
    names = smooth(number)

    def loss(*args: Any) -> Any:
        outputs, loss = CASES[number](stack, **dict(zip(names, args, strict=True)), **how)
        return loss, outputs

    if not names:
        outputs, _ = CASES[number](stack, **given, **how)
        return dict(outputs)
    (found, outputs), gradients = stack.value_and_grad(loss, argnums=tuple(range(len(names))), has_aux=True)(
        *(given[n] for n in names)
    )
    return {**outputs, "loss": found, **{f"d{n}": g for n, g in zip(names, gradients, strict=True)}}


def as_arrays(found: dict[str, Any]) -> dict[str, Any]:
    return {name: each.numpy() if hasattr(each, "numpy") else np.asarray(each) for name, each in found.items()}


def compare(found: dict[str, Any], wanted: dict[str, Any], rtol: float) -> None:
    assert {*found} == {*wanted}
    for name, each in wanted.items():
        assert found[name].shape == each.shape, name
        assert found[name].dtype == each.dtype, name
        np.testing.assert_allclose(found[name], each, rtol=rtol, atol=rtol, err_msg=name)


def on(stack: Any, number: int, dtype: str = "float64", **how: Any) -> dict[str, Any]:
    given = {name: stack.asarray(x) for name, x in inputs(number, dtype).items()}
    return as_arrays(results(stack, number, given, **how))


@numbers
def test_what_is_published(number: int) -> None:
    case, found = PUBLISHED[number], on(EAGER, number)
    wanted = {**case["outputs"], **{f"d{n}": g for n, g in (case.get("grads") or {}).items()}}
    if not smooth(number):
        wanted = case["outputs"]
    else:
        wanted["loss"] = case["loss"]
    for name, each in wanted.items():
        np.testing.assert_allclose(found[name], each, rtol=2e-5, atol=2e-6, err_msg=name)  # it has six digits


@numbers
def test_lazily_as_eagerly_and_under_jit(number: int) -> None:
    wanted = on(EAGER, number)
    compare(on(LAZY, number), wanted, 1e-9)
    for stack in (EAGER, LAZY):
        given = inputs(number)
        names = [*given]
        if number in AT_ONCE:
            continue  # see test_while, test_growing
        f = stack.jit(lambda *xs, s=stack, n=names: results(s, number, dict(zip(n, xs, strict=True))))
        for _ in range(2):
            compare(as_arrays(f(*given.values())), wanted, 1e-9)


@numbers
def test_as_a_program_and_from_a_file(number: int, tmp_path: Path) -> None:
    given = inputs(number)
    wanted = on(EAGER, number)
    symbols = {name: LAZY.input(name, x.shape, x.dtype) for name, x in given.items()}
    if number in AT_ONCE:
        symbols = {name: LAZY.asarray(x) for name, x in given.items()}
        given = {}
    found = results(LAZY, number, symbols)
    program = LAZY.compile([symbols[n] for n in given], [LAZY.asarray(each) for each in found.values()])
    program.plan.verify()
    assert type(program.plan).parse(program.plan.text()) == program.plan
    program.save(tmp_path / "case.nnc")
    loaded = nnc.load_program(tmp_path / "case.nnc", LAZY)
    for each in (program, loaded):
        for _ in range(2):
            compare(dict(zip(found, map(np.asarray, each(*given.values())), strict=True)), wanted, 1e-9)
    loaded.save(tmp_path / "again.nnc")
    assert (tmp_path / "again.nnc").read_bytes() == (tmp_path / "case.nnc").read_bytes()


@pytest.mark.parametrize("how", HOWS, ids=str)
@pytest.mark.parametrize("number", TAKES)
def test_however_it_is_kept_and_written_out(number: int, how: dict[str, Any]) -> None:
    if ("unroll" in how and number not in UNROLLS) or (number == 127 and how == {"checkpoint": "full"}):
        return
    wanted = on(EAGER, number)
    for stack in (EAGER, LAZY):
        compare(on(stack, number, **how), wanted, 1e-9)
        compare(on(stack, number, "float32", **how), on(EAGER, number, "float32"), 1e-4 if number == 41 else 1e-5)


@numbers
def test_gradients_are_differences(number: int) -> None:
    given, step = inputs(number), 1e-6
    found = on(EAGER, number)
    for name in smooth(number):
        gradient = np.zeros(given[name].shape)
        for at in np.ndindex(gradient.shape):
            sides = []
            for sign in (1, -1):
                moved = given[name].copy()
                moved[at] += sign * step
                _, loss = CASES[number](EAGER, **{n: EAGER.asarray(x) for n, x in (given | {name: moved}).items()})
                sides.append(loss.numpy())
            gradient[at] = (sides[0] - sides[1]) / (2 * step)
        np.testing.assert_allclose(found[f"d{name}"], gradient, rtol=1e-6, atol=1e-6, err_msg=name)


@numbers
@pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
def test_forward_mode_is_reverse_mode(stack: Any, number: int) -> None:
    names, given, draw = smooth(number), inputs(number), np.random.default_rng(number)
    if not names:
        return
    found = on(EAGER, number)
    directions = [draw.uniform(-1, 1, given[n].shape) for n in names]
    _, slope = stack.jvp(
        lambda *xs: CASES[number](stack, **dict(zip(names, xs, strict=True)))[1],
        [stack.asarray(given[n]) for n in names], [stack.asarray(d) for d in directions],
    )  # fmt: skip
    wanted = sum(np.vdot(found[f"d{n}"], d) for n, d in zip(names, directions, strict=True))
    np.testing.assert_allclose(slope.numpy(), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("number", [18, 20, 30, 39, 41])
def test_second_derivatives_are_differences_of_the_first(number: int) -> None:
    names, given, draw = smooth(number), inputs(number), np.random.default_rng(number)
    directions = {n: draw.uniform(-1, 1, given[n].shape) for n in names}

    def along(**moved: Any) -> Any:
        found = on(EAGER, number) if not moved else as_arrays(
            results(EAGER, number, {n: EAGER.asarray(x) for n, x in moved.items()})
        )  # fmt: skip
        return {n: found[f"d{n}"] for n in names}

    step = 1e-6
    sides = [along(**{n: given[n] + sign * step * directions[n] for n in names}) for sign in (1, -1)]
    wanted = [(sides[0][n] - sides[1][n]) / (2 * step) for n in names]
    for stack in (EAGER, LAZY):
        found = stack.hvp(
            lambda *xs, s=stack: CASES[number](s, **dict(zip(names, xs, strict=True)))[1],
            [stack.asarray(given[n]) for n in names], [stack.asarray(directions[n]) for n in names],
        )  # fmt: skip
        for each, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(each.numpy(), want, rtol=1e-5, atol=1e-6)
