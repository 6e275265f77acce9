"""Recurrent layers by oneDNN, and loops that become such layers (`graph/rewriting/recurrent`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.graph.ops import CATALOGUE
from nnc_func.testing import check_operator

EAGER, LAZY, FAST = nnc.eager(), nnc.lazy(nnc.CPU()), nnc.lazy(nnc.CPU(fast_math=True))
EXACT = LAZY.swap(optimiser=LAZY.optimiser.with_numerics("exact"))
GATES = {"lstm": 4, "gru": 3}
draw = np.random.default_rng(0)


def some(*shape: int) -> Any:
    return draw.normal(size=shape).astype("float32")


def operands(kind: str, times: int, samples: int, inputs: int, hidden: int) -> list[Any]:
    """Of the operator: inputs, weights of inputs and of states, biases, states."""
    gates = GATES[kind] * hidden
    found = [some(times, samples, inputs), some(inputs, gates), some(hidden, gates), some(4 * hidden)]
    return [*found, *[some(samples, hidden) for _ in range(1 + (kind == "lstm"))]]


def names(program: Any) -> list[str]:
    return [node.op.name for node in program.graph.nodes if node.args]


def agree(found: Any, wanted: Any) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other.numpy()), rtol=1e-4, atol=1e-5)


# --- the operators ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", GATES)
@given(
    st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 9), st.integers(1, 19)), st.booleans(),
    st.booleans(), st.sampled_from([LAZY, FAST]),
)  # fmt: skip
def test_layers_are_the_formulas(kind: str, extents: Any, reverse: bool, packs: bool, stack: Any) -> None:
    arrays = operands(kind, *extents)
    there = [stack.input(f"x{n}", a.shape, "float32") for n, a in enumerate(arrays)]
    given = [
        stack.asarray(a) if packs and n in (1, 2) else x for n, (a, x) in enumerate(zip(arrays, there, strict=True))
    ]
    inputs = [x for n, x in enumerate(there) if not (packs and n in (1, 2))]
    program = stack.compile(inputs, list(getattr(stack.ops, f"{kind}_layer")(*given, reverse=reverse)))
    (instruction,) = program.plan.instructions
    assert instruction.kernel == ("onednn, packed" if packs else "onednn")
    wanted = getattr(EAGER.ops, f"{kind}_layer")(*arrays, reverse=reverse)
    agree(program(*[a for n, a in enumerate(arrays) if not (packs and n in (1, 2))]), wanted)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", GATES)
def test_layers_keep_what_is_not_finite(kind: str, special: float) -> None:
    """In each operand, in each of its elements."""
    eager = nnc.eager(nnc.CPU())
    for n, array in enumerate(operands(kind, 2, 2, 2, 3)):
        for at in range(array.size):
            arrays = operands(kind, 2, 2, 2, 3)
            arrays[n].flat[at] = special
            with np.errstate(all="ignore"):
                agree(
                    [each.numpy() for each in getattr(eager.ops, f"{kind}_layer")(*arrays)],
                    getattr(EAGER.ops, f"{kind}_layer")(*arrays),
                )


@pytest.mark.parametrize("kind", GATES)
def test_the_laws_hold_under_fast_math(kind: str) -> None:
    check_operator(CATALOGUE[f"{kind}_layer"], FAST, examples=10)


# --- loops that become layers -----------------------------------------------------------------------------


def layer(stack: Any, kind: str, arrays: list[Any], constant: bool) -> Any:
    """A program of the composite, of inputs alone or of weights that are constants too."""
    there = [stack.input(f"x{n}", a.shape, "float32") for n, a in enumerate(arrays)]
    states = 1 + (kind == "lstm")
    given = [
        x if not constant or n <= states else stack.asarray(a)
        for n, (x, a) in enumerate(zip(there, arrays, strict=True))
    ]
    made = stack.compile(there[: states + 1] if constant else there, list(getattr(stack.ops, kind)(*given)))
    return made, arrays[: states + 1] if constant else arrays


def composite(kind: str, biases: int, times: int = 5) -> list[Any]:
    gates, states = GATES[kind], 1 + (kind == "lstm")
    return [some(3, times, 4), *[some(3, 6) for _ in range(states)], some(4, gates * 6), some(6, gates * 6),
            *[some(gates * 6) for _ in range(biases)]]  # fmt: skip


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(
    ("kind", "biases", "times"), [("lstm", 0, 5), ("lstm", 1, 1), ("gru", 0, 5), ("gru", 1, 5), ("gru", 2, 1)]
)
def test_a_loop_over_cells_is_a_layer(kind: str, biases: int, times: int, constant: bool) -> None:
    arrays = composite(kind, biases, times)
    program, given = layer(LAZY, kind, arrays, constant)
    assert names(program).count(f"{kind}_layer") == 1
    assert "loop" not in names(program)
    if constant:  # what weights and biases are put together of is computed before
        assert set(names(program)) <= {"permute_dims", "reshape", f"{kind}_layer"}
        assert "onednn, packed" in [i.kernel for i in program.plan.instructions]
        assert all(node.data.flags.c_contiguous for node in program.graph.nodes if node.op.name == "constant")
    agree(program(*given), getattr(EAGER.ops, kind)(*arrays))


def test_where_nothing_computes_layers_loops_stay() -> None:
    arrays = composite("lstm", 1)
    for stack in (nnc.lazy(), EXACT):
        program, given = layer(stack, "lstm", arrays, True)
        assert "loop" in names(program)
        assert "lstm_layer" not in names(program)
        agree(program(*given), EAGER.ops.lstm(*arrays))


def _parts(o: Any, x: Any, count: int) -> Any:
    return o.split(x, sections=count, axis=-1)


def _peculiar(o: Any, x: Any, carried: Any, r: Any) -> Any:
    """Gates in another order, each taken apart before it is added up, factors exchanged, and the cell carried first."""
    c, h = carried
    f, g, o_, i = (a + b for a, b in zip(_parts(o, x, 4), _parts(o, h @ r, 4), strict=True))
    c = o.tanh(g) * o.sigmoid(i) + c * o.sigmoid(f)
    h = o.tanh(c) * o.sigmoid(o_)
    return (c, h), h


def _leaky_output(o: Any, x: Any, carried: Any, r: Any) -> Any:
    c, h = carried
    i, f, g, o_ = _parts(o, x + h @ r, 4)
    c = o.sigmoid(f) * c + o.sigmoid(i) * o.tanh(g)
    h = o.sigmoid(o_) * o.relu(c)
    return (c, h), h


def _cells_stacked(o: Any, x: Any, carried: Any, r: Any) -> Any:
    (c, h), _ = _peculiar(o, x, carried, r)
    return (c, h), c


def _of_the_cell(o: Any, x: Any, carried: Any, r: Any) -> Any:
    c, h = carried
    i, f, g, o_ = _parts(o, x + c @ r, 4)
    c = o.sigmoid(f) * c + o.sigmoid(i) * o.tanh(g)
    return (c, o.sigmoid(o_) * o.tanh(c) + 0 * h), c


def _mixed(o: Any, x: Any, carried: Any, r: Any) -> Any:
    """``(1 - z) n + z h``; the last quarter of the gates is not used."""
    (h,) = carried
    (z, s, n, _), (hz, hs, hn, _) = _parts(o, x, 4), _parts(o, h @ r, 4)
    z, s = o.sigmoid(z + hz), o.sigmoid(s + hs)
    n = o.tanh(n + s * hn)
    h = (1 - z) * n + z * h
    return (h,), h


def _reset_before(o: Any, x: Any, carried: Any, r: Any) -> Any:
    (h,) = carried
    (z, s, n, _), (hz, hs, _, _) = _parts(o, x, 4), _parts(o, h @ r, 4)
    z, s = o.sigmoid(z + hz), o.sigmoid(s + hs)
    _, _, hn, _ = _parts(o, (s * h) @ r, 4)
    h = (1 - z) * o.tanh(n + hn) + z * h
    return (h,), h


def _wrong_way_round(o: Any, x: Any, carried: Any, r: Any) -> Any:
    (h,) = carried
    (z, s, n, _), (hz, hs, hn, _) = _parts(o, x, 4), _parts(o, h @ r, 4)
    z, s = o.sigmoid(z + hz), o.sigmoid(s + hs)
    h = (1 - s) * o.tanh(n + s * hn) + z * h
    return (h,), h


STEPS: Any = {
    "lstm_layer": [(_peculiar, 2)],
    "gru_layer": [(_mixed, 1)],
    "loop": [(_leaky_output, 2), (_cells_stacked, 2), (_of_the_cell, 2), (_reset_before, 1), (_wrong_way_round, 1)],
}


@pytest.mark.parametrize(
    ("name", "step", "carries"), [(name, step, n) for name, given in STEPS.items() for step, n in given]
)
def test_what_a_scan_of_a_users_becomes(name: str, step: Any, carries: int) -> None:
    """Of 4 times and 3 samples; the inputs of all times are multiplied at once, whoever wrote them within."""
    arrays = [some(4, 3, 5), *[some(3, 6) for _ in range(carries)]]
    w, r = some(5, 24) / 2, some(6, 24) / 2

    def scanned(stack: Any, xs: Any, *states: Any) -> list[Any]:
        weights, again = stack.asarray(w), stack.asarray(r)
        last, every = stack.scan(lambda carried, x: step(stack.ops, x @ weights, carried, again), states, xs)
        return [*last, every]

    inputs = [LAZY.input(f"x{n}", a.shape, "float32") for n, a in enumerate(arrays)]
    program = LAZY.compile(inputs, scanned(LAZY, *inputs))
    agree(program(*arrays), scanned(EAGER, *map(EAGER.asarray, arrays)))
    assert name in names(program)
    assert ("loop" in names(program)) == (name == "loop")


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("kind", "linear"), [("LSTM", None), ("GRU", 1), ("GRU", 0)])
def test_an_onnx_layer_is_one(kind: str, linear: int | None, direction: str) -> None:
    """But for units that reset before the product, and for sequences that have lengths of their own."""
    helper, proto = pytest.importorskip("onnx.helper"), pytest.importorskip("onnx").TensorProto
    count, hidden, gates = 1 + (direction == "bidirectional"), 5, GATES[kind.lower()]
    arrays = [
        some(4, 2, 3), some(count, gates * hidden, 3), some(count, gates * hidden, hidden),
        some(count, 2 * gates * hidden),
    ]  # fmt: skip
    infos = [helper.make_tensor_value_info(f"x{n}", proto.FLOAT, a.shape) for n, a in enumerate(arrays)]
    more = {} if linear is None else {"linear_before_reset": linear}
    made = helper.make_node(
        kind, [f"x{n}" for n in range(4)], ["y", "h"], hidden_size=hidden, direction=direction, **more
    )
    outputs = [helper.make_tensor_value_info(n, proto.FLOAT, None) for n in ("y", "h")]
    model = helper.make_model(
        helper.make_graph([made], kind, infos, outputs), opset_imports=[helper.make_opsetid("", 18)], ir_version=8
    )
    ours, theirs = nnc.from_onnx(model, LAZY), nnc.from_onnx(model, nnc.lazy())
    assert names(ours.program).count(f"{kind.lower()}_layer") == (0 if linear == 0 else count)
    assert names(theirs.program).count("loop") == count
    for one, other in zip(ours(*arrays), theirs(*arrays), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_programs_gradient_has_loops() -> None:
    """A layer has no derivative: it is made after derivatives have been taken."""
    arrays = composite("gru", 2)

    def loss(*given: Any) -> Any:
        return LAZY.ops.gru(*given)[0].sum()

    found = LAZY.jit(LAZY.grad(loss))(*arrays)
    wanted = EAGER.grad(lambda *given: EAGER.ops.gru(*given)[0].sum())(*map(EAGER.asarray, arrays))
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-3, atol=1e-4)
