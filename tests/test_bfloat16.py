"""bfloat16: operators compute it in float32 and round once; files keep it (`device/shared/narrow_emulation`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from attrs import evolve
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func import models, nn
from nnc_func.cli.run import drawn
from nnc_func.errors import DTypeError, NncError
from nnc_func.facets.dtypes import kind_of, weak
from nnc_func.graph.composites import COMPOSITES
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.text.files import load, save
from nnc_func.graph.text.literals import Line, array_text
from nnc_func.graph.text.writing import parsed, printed
from nnc_func.testing.samples import arguments

EAGER, LAZY, NULL = nnc.eager(), nnc.lazy(), nnc.lazy(nnc.Null())
B = np.dtype(ml_dtypes.bfloat16)
F = np.dtype("float32")
FEW = settings(max_examples=max(1, settings().max_examples // 20))  # operators are many


def takes_float32(op: Any) -> bool:
    """Whether its samples have float32 operands that it may be given as bfloat16."""
    named = {
        d for specs, _ in op.samples.cases for _, d, *_ in (s for s in specs if len(s) > 1 and type(s[0]) is tuple)
    }
    bare = any(type(s) is tuple and not (s and type(s[0]) is tuple) for specs, _ in op.samples.cases for s in specs)
    return "float32" in named or ("float32" in op.samples.dtypes and (bare or op.samples.relation != "cases"))


def narrowed(x: np.ndarray) -> np.ndarray:
    return x.astype(B) if x.dtype.kind == "f" else x


def widened(x: np.ndarray) -> np.ndarray:
    return x.astype(F) if x.dtype == B else x


def same(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Equal in dtype and value; a NaN is a NaN."""
    return found.dtype == wanted.dtype and np.array_equal(
        widened(found), widened(wanted), equal_nan=kind_of(found.dtype) in "fc"
    )


def results(stack: Any, op: Any, given: list[Any], params: dict[str, Any]) -> list[np.ndarray]:
    found = getattr(stack.ops, op.name)(*map(stack.asarray, given), **params)
    return [np.asarray(y.numpy()) for y in (found if isinstance(found, tuple) else (found,))]


def unless_refused(op: Any, given: list[Any], params: dict[str, Any]) -> list[np.ndarray]:
    """The results; drawn again where there is no common dtype, or parameters ask for linear algebra."""
    try:
        return results(EAGER, op, given, params)
    except DTypeError as error:
        if not any(reason in str(error) for reason in ("no common dtype", "linear algebra is done in float32")):
            raise
    assume(False)
    return []


def is_refused(op: Any) -> bool:
    """Whether it is linear algebra, or a transform, which narrow dtypes are cast for."""
    family, named = op.module.rpartition(".")[2], ("matrix_rank", "lstsq", "lyapunov")
    return family in ("decompositions", "solvers", "matrix_equations", "fourier") or op.name in named


OPERATORS = [op for op in CATALOGUE.values() if op.pure and takes_float32(op)]
NARROW = ("blockwise", "bit_cast")  # whose parameters are for float32: dtypes within a body, and as wide as it


@pytest.mark.parametrize("op", [op for op in OPERATORS if not is_refused(op) and op.name not in NARROW], ids=str)
@FEW
@given(data=st.data())
def test_operators_compute_in_float32_and_round_once(op: Any, data: Any) -> None:
    drawn, params = data.draw(arguments(op, dtype="float32"))
    assume(any(x.dtype.kind == "f" for x in drawn))
    given = [*map(narrowed, drawn)]
    params = {k: B if v == F and k == "dtype" else v for k, v in params.items()}
    wide = {k: F if k == "dtype" and v == B else v for k, v in params.items()}
    found = unless_refused(op, given, params)
    wanted = [y.astype(B) if y.dtype == F else y for y in results(EAGER, op, [*map(widened, given)], wide)]
    assert all(map(same, found, wanted)), (found, wanted)
    inputs = [LAZY.input(f"x{i}", x.shape, x.dtype) for i, x in enumerate(given)]
    made = getattr(LAZY.ops, op.name)(*inputs, **params)
    program = LAZY.compile(inputs, [*made] if isinstance(made, tuple) else [made])
    assert all(map(same, program(*given), found))


@pytest.mark.slow
@pytest.mark.parametrize("op", [c for c in COMPOSITES.values() if takes_float32(c) and not is_refused(c)], ids=str)
@FEW
@given(data=st.data())
def test_composites_stay_in_bfloat16(op: Any, data: Any) -> None:
    """Their dtypes are those of float32 with bfloat16 in its place; the lazy engine gives what the eager one does."""
    drawn, params = data.draw(arguments(op, dtype="float32"))
    assume(any(x.dtype.kind == "f" for x in drawn))
    given, params = [*map(narrowed, drawn)], {k: B if k == "dtype" and v == F else v for k, v in params.items()}
    found = unless_refused(op, given, params)
    wide = {k: F if k == "dtype" and v == B else v for k, v in params.items()}
    wanted = results(EAGER, op, [*map(widened, given)], wide)
    assert [y.dtype for y in found] == [B if y.dtype == F else y.dtype for y in wanted]
    inputs = [LAZY.input(f"x{i}", x.shape, x.dtype) for i, x in enumerate(given)]
    made = getattr(LAZY.ops, op.name)(*inputs, **params)
    lazy = LAZY.compile(inputs, [*made] if isinstance(made, tuple) else [made])(*given)
    for y, z in zip(lazy, found, strict=True):
        assert y.dtype == z.dtype
        np.testing.assert_allclose(widened(y), widened(z), rtol=2**-6, atol=2**-6)


# --- promotion ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "float32", "float64", "complex64", "complex128"])
def test_promotion_is_that_of_numpy(dtype: str) -> None:
    x, y = EAGER.asarray([1.5, 2], "bfloat16"), EAGER.asarray([1, 0], dtype)
    wanted = B if dtype in ("bool", "int8", "uint8") else np.dtype(dtype)
    assert (x + y).dtype == (y * x).dtype == np.result_type(B, y.dtype) == wanted
    assert np.array_equal((x + y).numpy(), np.asarray([2.5, 2]).astype(wanted))


@pytest.mark.parametrize("dtype", ["float16", "int16", "int32", "int64", "uint16", "uint32", "uint64"])
def test_no_common_dtype_is_refused_with_words(dtype: str) -> None:
    for stack in (EAGER, LAZY, NULL):
        with pytest.raises(DTypeError, match=f"bfloat16 and {dtype} have no common dtype; cast one"):
            stack.input("x", (2,), B) + stack.input("y", (2,), dtype)
    with pytest.raises(DTypeError, match="no common dtype"):
        weak(1.5, [B, np.dtype(dtype)])


@pytest.mark.parametrize(("number", "wanted"), [(True, B), (2, B), (0.1, B), (1j, np.dtype("complex64"))])
def test_python_numbers_are_weak(number: Any, wanted: np.dtype[Any]) -> None:
    for stack in (EAGER, LAZY):
        x = stack.asarray([1.5, -2.0], B)
        for y in (x + number, number + x):
            assert y.dtype == wanted
            assert np.array_equal(
                y.numpy(), (np.asarray([1.5, -2], F) + np.asarray(number).astype(wanted)).astype(wanted)
            )


@given(st.floats(width=32), st.sampled_from(["float32", "float64", "float16"]))
def test_casts_round_to_nearest_even_and_back_exactly(number: float, dtype: str) -> None:
    x = np.asarray([number]).astype(dtype)
    bits = x.astype(F).view(np.uint32)
    nearest = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)  # round half to even, by the bits
    found = EAGER.asarray(x).astype("bfloat16").numpy()
    assert np.isnan(number) if np.isnan(widened(found)[0]) else found.view(np.uint16) == nearest
    assert same(EAGER.asarray(found).astype(dtype).numpy(), widened(found).astype(dtype))


def test_sums_and_products_accumulate_in_float32() -> None:
    """In bfloat16 256 + 1 is 256, and a sum of ones gets no further."""
    ones = np.ones((1, 1000), B)
    for stack in (EAGER, LAZY):
        x = stack.asarray(ones)
        assert stack.ops.sum(x).numpy() == stack.ops.matmul(x, x.T).numpy() == 1000
        assert stack.ops.cumulative_sum(x, axis=1).numpy()[0, -1] == 1000
        assert (x @ x.T).dtype == B


# --- derivatives ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
def test_derivatives_have_the_dtypes_of_what_they_are_taken_by(stack: Any) -> None:
    def loss(w: Any, x: Any) -> Any:
        return stack.ops.mean(stack.ops.tanh(x @ w))

    w, x = np.array([[0.5], [-0.25]]), np.array([[1.0, 2.0], [0.5, -1.5]])
    wanted = [g.numpy() for g in stack.grad(loss, argnums=(0, 1))(stack.asarray(w), stack.asarray(x))]
    found = stack.grad(loss, argnums=(0, 1))(stack.asarray(w, "bfloat16"), stack.asarray(x, "float32"))
    assert [g.dtype for g in found] == [B, F]
    for g, exact in zip(found, wanted, strict=True):
        np.testing.assert_allclose(widened(g.numpy()), exact, rtol=0.02)
    second = stack.grad(stack.grad(lambda t: t * t * t))(stack.asarray(1.5, "bfloat16"))
    assert (second.dtype, float(second)) == (B, 9.0)


# --- text and files -------------------------------------------------------------------------------------------


@given(st.binary(min_size=2, max_size=2))
def test_every_element_is_written_and_read_bit_by_bit(bits: bytes) -> None:
    array = np.frombuffer(bits, B).reshape(())
    (found,) = Line(array_text(array), 1, {}).elements(B)
    assert np.array(found, B).tobytes() == bits


def network(stack: Any) -> Any:
    x, w = stack.input("x", (2, 40), B), stack.variable("w", (np.arange(40 * 3).reshape(40, 3) / 64).astype(B))
    return stack.compile([x], [stack.ops.softmax(x @ w + stack.asarray(np.arange(3), B) * 0.5)])


def test_graphs_and_programs_are_saved_and_loaded(tmp_path: Path) -> None:
    program = network(LAZY)
    given = (np.arange(80).reshape(2, 40) / 32).astype(B)
    wanted = program(given)[0]
    assert printed(parsed(printed(program.graph), LAZY)) == printed(program.graph)
    save(program.graph, tmp_path / "graph.nnc")
    read = load(tmp_path / "graph.nnc", LAZY)
    assert printed(read) == printed(program.graph)
    assert same(LAZY.compile(read.inputs, read.outputs)(given)[0], wanted)
    program.save(tmp_path / "program.nnc")
    assert same(nnc.load_program(tmp_path / "program.nnc", LAZY)(given)[0], wanted)
    program.plan.verify()
    assert str(network(NULL).plan) == str(program.plan)


# --- what it is not -------------------------------------------------------------------------------------------


def test_the_namespace_names_the_standards_dtypes_only() -> None:
    xp = EAGER.array_api
    assert "bfloat16" not in xp.__array_namespace_info__().dtypes()
    found = xp.finfo(B)
    assert (found.bits, found.eps, found.max) == (16, 2**-7, float(ml_dtypes.finfo(B).max))
    assert xp.result_type(B, F) == F


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, ml_dtypes.int4])
def test_narrower_dtypes_are_refused_with_words(dtype: Any) -> None:
    for stack in (EAGER, LAZY):
        with pytest.raises(DTypeError, match="tensors hold bfloat16, but no narrower numbers"):
            stack.input("x", (2,), dtype)
        with pytest.raises(NncError, match=f"{np.dtype(dtype).name}"):
            stack.asarray(np.zeros(2, dtype))
        with pytest.raises(DTypeError, match="no narrower numbers"):
            stack.asarray([1.0]).astype(dtype)


@pytest.mark.parametrize("op", [op for op in OPERATORS if is_refused(op)], ids=str)
def test_linear_algebra_and_transforms_refuse_it_as_they_do_float16(op: Any) -> None:
    for dtype in ("float16", "bfloat16"):
        with pytest.raises(DTypeError, match="float32"):
            op.dtype(*[nnc.aval.Aval((), dtype).dtype] * len(op.args), **dict.fromkeys(op.params, 0))


def test_ml_dtypes_is_imported_where_it_is_asked_for_only() -> None:
    code = (
        "import sys, nnc_func as nnc; s = nnc.lazy(); s.asarray([1.0]) + 1; assert 'ml_dtypes' not in sys.modules;"
        "s.input('x', (2,), 'bfloat16'); assert 'ml_dtypes' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(DTypeError, match=r"pip install 'nnc_func\[bfloat16\]'"):
        LAZY.input("x", (2,), "bfloat16")


@pytest.mark.parametrize(("update", "rate"), [(nn.SGD(), 0.5), (nn.Adam(), 0.05), (nn.SGD(momentum=0.9), 0.1)])
def test_models_train_in_bfloat16(update: Any, rate: float) -> None:
    x = np.random.default_rng(0).normal(size=(64, 8)).astype(B)
    y = (widened(x).sum(1) > 0).astype("int64")
    losses = []
    for stack in (EAGER, LAZY):
        model = nn.Sequential(nn.Dense(16), nn.relu, nn.Dense(2)).init(0, (None, 8), "bfloat16")
        assert model[0].weight.dtype == B
        done = nn.train(
            stack, model, nn.softmax_cross_entropy, update, nn.Batches(x, y, 16), rate=rate, steps=40, progress=False
        )
        assert {p.dtype for p in (done.model[0].weight, done.model[2].bias)} == {B}
        losses.append(done.losses)
    assert np.mean(losses[0][-4:]) < losses[0][0] / 2
    np.testing.assert_allclose(*np.asarray(losses, np.float64), rtol=0.2, atol=0.1)


# --- functions of NumPy and models ----------------------------------------------------------------------------

MISSING = np.array([[1, 2, np.nan], [-4, np.inf, 6]])
WHOLE = np.array([[1, 2, 3.5], [-4, 5, 6]])
OF_MISSING = (
    "nansum", "nanprod", "nanmax", "nanmin", "nancumsum", "nancumprod", "nanmedian", "isposinf", "isneginf", "unique",
)  # fmt: skip
OF_WHOLE = ("nanmean", "nanvar", "nanstd", "average", "angle", "gradient", "modf")


@pytest.mark.parametrize(("name", "given"), [(n, MISSING) for n in OF_MISSING] + [(n, WHOLE) for n in OF_WHOLE])
def test_functions_of_numpy_take_it_for_a_floating_dtype(name: str, given: Any) -> None:
    function = getattr(np, name)
    wide, narrow = (function(EAGER.asarray(given.astype(dtype))) for dtype in (F, B))
    for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (wide, narrow)), strict=True):
        assert other.dtype == (B if one.dtype == F else one.dtype)
        np.testing.assert_allclose(other.numpy().astype("float64"), one.numpy(), rtol=2**-7)


def test_positions_of_extremes_pass_over_what_is_missing() -> None:
    x = EAGER.asarray(MISSING.astype(B))
    assert np.nanargmax(x, axis=1).numpy().tolist() == [1, 1]
    assert np.nanargmin(x, axis=1).numpy().tolist() == [0, 0]


def test_numbers_of_a_wider_dtype_are_written_into_it() -> None:
    x = EAGER.asarray(WHOLE.astype(B))
    found = EAGER.ops.index_update(x, EAGER.asarray(np.float32(7)), key=(0, 1))
    assert found.dtype == B
    assert found.numpy()[0, 1] == 7


def test_onnx_models_hold_parameters_of_it_and_pool_it() -> None:
    helper, kind = onnx.helper, onnx.TensorProto.BFLOAT16
    weights = helper.make_tensor("w", kind, (2,), [1.5, -2.0])
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"]), helper.make_node("MaxPool", ["y"], ["z"], kernel_shape=[2])]
    ends = [helper.make_tensor_value_info(n, kind, s) for n, s in (("x", (1, 1, 2)), ("z", (1, 1, 1)))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weights])
    model = nnc.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)]), LAZY, variables=True)
    assert [v.dtype for v in model.variables.values()] == [B]
    found = np.asarray(model(np.array([[[2, 3]]], B)))
    assert found.dtype == B
    assert found.tolist() == [[[3]]]


def test_examples_of_a_model_of_it_are_normal_numbers() -> None:
    x, _ = evolve(models.get("lenet-5"), dtype="bfloat16").examples(batch=2)
    assert x.dtype == B
    assert 0.8 < x.astype("float32").std() < 1.2
    assert set(np.unique(drawn(nnc.Aval((50,), B), np.random.default_rng(0)))) - {0, 1}


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy, nnc.dynamic])
@pytest.mark.parametrize("number", [2, 3, 2.0, True, 0])
def test_gradients_beside_numbers_of_python(make: Any, number: Any) -> None:
    """They are weak in the derivative as well: what was an integer of 64 bits there had no dtype in common with it."""
    stack = make()
    x = np.array([0.5, 1.5, 2.0], B)
    ops = stack.ops
    for f in (
        lambda t: t**number,
        lambda t: ops.logaddexp(t, number),
        lambda t: ops.logaddexp(number, t),
        lambda t: number**t,
    ):
        for narrow in (x, x.astype("float16"), x.astype(F)):
            found = stack.grad(lambda t, f=f: f(t).sum(dtype="float32"))(stack.asarray(narrow))
            wanted = stack.grad(lambda t, f=f: f(t).sum())(stack.asarray(narrow.astype(float)))
            assert found.dtype == narrow.dtype
            rounding = {"bfloat16": 2.0**-7, "float16": 2.0**-9, "float32": 1e-6}[str(narrow.dtype)]  # of one, or a few
            np.testing.assert_allclose(widened(found.numpy()), wanted.numpy(), rtol=rounding)


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy, nnc.dynamic])
@pytest.mark.parametrize(
    ("exponent", "order", "dtype", "at", "wanted"),
    [
        (0, 1, "float16", 1e-5, 0.0), (0, 1, "float32", 1e-39, 0.0), (1, 2, "float16", 1e-5, 0.0),
        (0, 2, "float16", 1e-3, 0.0), (1 / 3, 2, "float16", 1e-3, -22208.0), (1e6, 1, "float16", 0.5, 0.0),
        (1e300, 1, "float32", 0.5, 0.0), (0, 1, B, 1e-39, 0.0),
    ],
)  # fmt: skip
def test_derivatives_of_powers_do_not_leave_what_holds_them(
    make: Any, exponent: float, order: int, dtype: Any, at: float, wanted: float
) -> None:
    """A power less one may be infinite where the whole derivative is zero: it is computed in float64."""
    stack = make()

    def power(x: Any) -> Any:
        return (x**exponent).sum()

    slope = stack.grad(power)
    found = slope if order == 1 else stack.grad(lambda x: slope(x).sum())
    assert float(found(stack.asarray(np.array([at]).astype(dtype))).astype("float64").numpy()[0]) == wanted
