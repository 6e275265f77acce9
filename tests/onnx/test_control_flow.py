"""Loops and branches to ONNX and from it (`facets/onnx/control`, `onnx/rolling`, `onnx/operators/control`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import OnnxError
from nnc_func.graph.onnx_export.schemas import package
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.tree import flatten
from tests.control_flow.cases import CASES
from tests.onnx.exported import RUNTIME, models_agree, run_model
from tests.onnx.models import parsed

LAZY = nnc.lazy()
CLOSE = {"float32": 1e-5, "float64": 1e-9}
BODIES = ("loop", "branch")


def close(found: Any, wanted: Any, dtype: str = "float32") -> None:
    """Equal dtypes and shapes, and values to what is asked of that dtype."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=CLOSE[dtype], atol=CLOSE[dtype])


def exported(outputs: Any, inputs: Sequence[Any], opset: int = 18) -> Any:
    """The model of tensors, without what would bring the graph back as it was."""
    leaves = [leaf for leaf in flatten(outputs)[0] if leaf is not None]
    model = LAZY.graph.close([x.value for x in inputs], [x.value for x in leaves]).to_onnx(opset=opset)
    del model.metadata_props[:]
    return model


def several(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def same(f: Any, *arrays: Any, dtype: str = "float32", shapes: Any = None, options: Any = None) -> Any:
    """A runtime computes what we do, and so does the model that is read again; that model as it was written."""
    shapes = shapes or [x.shape for x in arrays]
    inputs = [LAZY.input(f"x{n}", s, x.dtype) for n, (x, s) in enumerate(zip(arrays, shapes, strict=True))]
    outputs = f(*inputs)
    model = exported(outputs, inputs)
    leaves = [leaf for leaf in flatten(outputs)[0] if leaf is not None]
    wanted = several(LAZY.compile(inputs, leaves)(*arrays))
    found = run_model(model, {f"x{n}": x for n, x in enumerate(arrays)}, options)
    assert found is not None
    again = several(nnc.from_onnx(model, LAZY)(*arrays))
    for one, other, third in zip(found, again, wanted, strict=True):
        close(one, third, dtype)
        close(other, third, dtype)
    return model


def nodes(graph: Any) -> list[str]:
    """The operators of a graph and of those within, from the outside."""
    inner = [n for node in graph.node for a in node.attribute if a.HasField("g") for n in nodes(a.g)]
    return [node.op_type for node in graph.node] + inner


def held(model: Any) -> list[str]:
    """The loops and branches of an imported model's one program."""
    return [node.op.name for node in model.graph.nodes if node.op.name in BODIES]


def rows(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-0.9, 0.9, shape)


# --- what operators' own samples are, and published cases ------------------------------------------------------


@pytest.mark.parametrize("name", [*BODIES, "custom"])
def test_samples_of_the_operators(name: str) -> None:
    op, rng = OPS[name], np.random.default_rng(3)
    for number, (given, params) in enumerate(op.samples.cases):
        arrays = []
        for shape, dtype in ((each[0], np.dtype((*each, "float64")[1])) for each in given):
            drawn = rng.integers(0, 2, shape) if dtype.kind in "biu" else rng.uniform(-1, 1, shape)
            arrays.append(np.asarray(drawn).astype(dtype))
        for count in (-1, 0, 3, 7) if params.get("counted") else (None,):
            if count is not None:
                arrays[-1] = np.array(count)
            assert models_agree(LAZY, op, arrays, params) == RUNTIME, (number, count)


def test_drawn_indices_are_of_bodies() -> None:
    """The bound of what is drawn is drawn too: 2 of two bodies was."""
    for given, params in OPS["branch"].samples.cases:
        assert given[0][2] == (0, len(params["bodies"]) - 1)


INPUTS: dict[int, dict[str, Any]] = {
    1: {"d": rows(5)}, 3: {"d": rows(5), "s": 0.5}, 4: {"d": rows(3, 2), "s": rows(2), "a": rows(2), "b": rows(2)},
    5: {"d": rows(2, 2), "s": rows(2), "a": rows(2), "b": rows(2)},
    7: {"x": rows(3, 2), "y": rows(3, 2), "p": rows(2), "q": rows(2), "f": rows(2)},
    9: {"x": rows(3, 2), "s": rows(2), "f": rows(2)}, 11: {"x": rows(6), "p": 0.0, "q": 1.0},
    13: {"x": rows(3), "s": 1.0, "u": 100.0}, 15: {"x": rows(3, 2), "s": rows(2), "f": rows(2)},
    17: {"d": rows(2, 2, 2), "s": rows(2)},
    18: {"x": rows(3, 1, 3), "h": rows(1, 2), "w": rows(3, 2), "u": rows(2, 2), "b": rows(2)},
    19: {"x": rows(3, 1, 3), "h": rows(1, 2), "w": rows(3, 2), "u": rows(2, 2), "b": rows(2)},
    20: {"x": rows(3, 2, 3), "h": rows(2, 2), "c": rows(2, 2), "w": rows(3, 8), "u": rows(2, 8), "b": rows(8)},
    21: {"x": rows(3, 2, 3), "h": rows(2, 2), "w": rows(3, 2), "u": rows(2, 2), "b": rows(2)},
    22: {"x": rows(0), "s": rows(2), "f": rows(2)}, 23: {"i": 1.0, "s": 0.0}, 25: {"i": 1.0, "s": 4.0, "a": 3.0},
    27: {"s": 1.0, "a": 2.0, "b": 0.5}, 127: {"s": 1.0, "a": 2.0, "b": 0.5}, 29: {"s": 2.0, "a": 0.5},
    30: {"x": rows(3)}, 31: {"d": 2.0}, 35: {"a": 3.0, "b": 2.0}, 37: {"x": 0.5},
    39: {"d": rows(3), "w": 2.0, "v": 0.5, "s": 1.0}, 41: {"x": 0.3, "k": 2.9},
}  # fmt: skip
UNDEFINED = (23, 127)  # one has no loss; the other's gradient wants a bound of the number of times


def test_every_case_has_inputs() -> None:
    assert set(CASES) - {33} == set(INPUTS)  # a carry that grows is computed at once


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("number", INPUTS)
def test_cases(number: int, dtype: str) -> None:
    given = {name: np.asarray(x, dtype) for name, x in INPUTS[number].items()}
    same(lambda *xs: CASES[number](LAZY, *xs)[0], *given.values(), dtype=dtype)


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("number", [n for n in INPUTS if n not in UNDEFINED])
def test_gradients_of_cases(number: int, dtype: str) -> None:
    given = [np.asarray(x, dtype) for x in INPUTS[number].values()]
    gradient = LAZY.grad(lambda *xs: CASES[number](LAZY, *xs)[1], argnums=tuple(range(len(given))))
    same(gradient, *given, dtype=dtype)


# --- bodies in bodies, unknown extents -------------------------------------------------------------------------


def gru(st: Any, x: Any, h: Any, w: Any, u: Any) -> Any:
    def body(x: Any, h: Any) -> Any:
        z, r = st.ops.sigmoid(x @ w[0] + h @ u[0]), st.ops.sigmoid(x @ w[1] + h @ u[1])
        h = (1 - z) * h + z * st.ops.tanh(x @ w[2] + (r * h) @ u[2])
        return h, h

    return st.foreach(body, x, h)


GRU = [x.astype("float32") for x in (rows(5, 2, 3), rows(2, 4), rows(3, 3, 4), rows(3, 4, 4))]


def test_a_recurrent_layer_and_its_gradient() -> None:
    model = same(lambda *xs: gru(LAZY, *xs), *GRU)
    assert [n for n in nodes(model.graph) if n in ("Scan", "Loop")] == ["Scan"]
    said = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.output}
    assert sorted(said.values()) == [[2, 4], [5, 2, 4]]
    plain = package(RUNTIME).SessionOptions()  # its optimiser breaks this one: a Gemm in a Scan misses an input
    plain.graph_optimization_level = package(RUNTIME).GraphOptimizationLevel.ORT_DISABLE_ALL
    gradient = LAZY.grad(lambda *xs: gru(LAZY, *xs)[0].sum(), argnums=(0, 1, 2, 3))
    same(gradient, *GRU, options=plain)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_an_unknown_number_of_steps(n: int, reverse: bool) -> None:
    def f(x: Any, h: Any) -> Any:
        return LAZY.foreach(lambda x, h: (h * x, h + x), x, h, reverse=reverse)

    model = same(f, rows(n, 2).astype("float32"), rows(2).astype("float32"), shapes=[("n", 2), (2,)])
    assert "Loop" in nodes(model.graph)  # a runtime's Scan fails where there is no slice
    assert held(nnc.from_onnx(model, LAZY)) == ["loop"]


@pytest.mark.parametrize("n", [0, 3])
def test_nothing_is_carried(n: int) -> None:
    same(lambda x, y: LAZY.map(lambda x: x * y, x), rows(n, 2).astype("float32"), W, shapes=[("n", 2), (2,)])


@pytest.mark.parametrize("n", [0, 3])
def test_rows_of_unknown_extents_that_are_none(n: int) -> None:
    def f(x: Any, h: Any) -> Any:
        return LAZY.while_loop(lambda i, h: h.sum() < 1, lambda i, h: (h + x, (i + 1, h + x)), (0, h), max_iterations=4)

    same(f, rows(n).astype("float32"), np.ones(n, "float32"), shapes=[("n",), ("n",)])


def test_a_loop_in_a_branch_in_a_loop() -> None:
    def step(x: Any, s: Any) -> Any:
        found = LAZY.cond(s.sum() > 0, lambda: LAZY.fori(0, 3, lambda i, t: t * x - s, s), lambda: s - x)
        return found, found

    given = rows(4, 2).astype("float32"), rows(2, seed=1).astype("float32")
    model = same(lambda x, s: LAZY.foreach(step, x, s), *given)
    assert [n for n in nodes(model.graph) if n in ("Scan", "If", "Loop")] == ["Scan", "If", "Loop"]
    same(LAZY.grad(lambda x, s: LAZY.foreach(step, x, s)[0].sum(), argnums=(0, 1)), *given)


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 3])
@pytest.mark.parametrize("has_default", [False, True])
def test_one_of_several_branches(index: int, has_default: bool) -> None:
    def f(i: Any, x: Any) -> Any:
        branches = [lambda: x + 1, lambda: x * 2, lambda: LAZY.cond(x.sum() > 0, lambda: -x, lambda: x)]
        return LAZY.case_of(i, branches, default=(lambda: x / 2) if has_default else None)

    given = np.array(index), rows(2).astype("float32")
    if has_default or 0 <= index < 3:
        same(f, *given)
        return
    inputs = [LAZY.input("x0", (), "int64"), LAZY.input("x1", (2,), "float32")]
    with pytest.raises(Exception, match="out of data bounds"):  # the runtime's own
        run_model(exported(f(*inputs), inputs), dict(zip(("x0", "x1"), given, strict=True)))


def test_what_a_body_cannot_have_is_named() -> None:
    x = LAZY.input("x", (3,), "float64")
    _, found = LAZY.foreach(lambda y, s: (s, LAZY.ops.nextafter(s, y)), x, x[0])
    with pytest.raises(OnnxError, match=r"nextafter in loop .* cannot be written as ONNX"):
        exported(found, [x])


# --- models from elsewhere -------------------------------------------------------------------------------------


def agrees(proto: Any, *arrays: Any, stack: Any = LAZY) -> Any:
    """The imported model, which gives what a runtime does."""
    model = nnc.from_onnx(proto, stack)
    wanted = run_model(proto, dict(zip((i.name for i in proto.graph.input), arrays, strict=True)))
    assert wanted is not None
    for found, other in zip(several(model(*arrays)), wanted, strict=True):
        close(np.asarray(found), np.asarray(other))
    return model


def looping(outputs: str, flag: str, condition: str = "") -> Any:
    """x times w plus the step's number again and again, and its rows; `flag` says whether there is another time."""
    shapes = {"y": "float[2] y", "rows": "float[k, 2] rows"}
    listed = ", ".join(shapes[name] for name in outputs.split())
    return parsed(f"""f (int64 trips, float[2] x, float[2] w) => ({listed}) <float limit = {{50.0}}> {{
        yes = Constant<value = bool {{1}}>()
        y, rows = Loop (trips, {condition}, x) <
            body = b (int64 i, bool c, float[2] v) => (bool d, float[2] u, float[2] r) {{
            n = Cast<to = 1>(i) p = Mul(v, w) u = Add(p, n) s = ReduceSum<keepdims = 0>(u) {flag} r = Neg(v)
        }}>
    }}""")


X, W = np.float32([1, 2]), np.float32([2, 3])


@pytest.mark.parametrize("flag", ["d = Identity(c)", "d = Less(s, limit)"])
@pytest.mark.parametrize("trips", [-1, 0, 1, 9])
def test_trips_that_are_computed(stack: Any, trips: int, flag: str) -> None:
    model = agrees(looping("y", flag, "yes"), np.array(trips), X, W, stack=stack)
    (node,) = [n for n in model.graph.nodes if n.op.name == "loop"]
    assert node.params["counted"]
    assert node.params["conditional"] == ("Less" in flag)


@pytest.mark.parametrize("flag", ["d = Identity(c)", "d = Less(s, limit)"])
def test_rows_are_exact(stack: Any, flag: str) -> None:
    """Where elements decide how many there are, they are counted at each call."""
    proto = looping("y rows", flag, "yes")
    model = nnc.from_onnx(proto, stack)
    for trips in (0, 1, 9):
        agrees(proto, np.array(trips), X, W, stack=stack)
    assert not model.has_program
    with pytest.raises(OnnxError, match=r"no one program.*how often the loop runs.*with arrays"):
        model.graph  # noqa: B018 - looking it up is what raises


def test_a_derivative_through_an_imported_loop(stack: Any) -> None:
    model = nnc.from_onnx(looping("y", "d = Identity(c)", "yes"), stack)

    def by_hand(x: Any) -> Any:
        for i in range(3):
            x = x * W + i
        return (x * x).sum()

    found = stack.grad(lambda x: (model(stack.asarray(np.array(3)), x, W) ** 2).sum())(stack.asarray(X))
    close(np.asarray(found.numpy()), np.asarray(stack.grad(by_hand)(stack.asarray(X)).numpy()))


def test_unknown_extents_are_trips(stack: Any) -> None:
    proto = parsed("""f (float[n, 2] x) => (float[2] y, float[n, 2] rows) {
        shape = Shape(x) zero = Constant<value_int = 0>() n = Gather(shape, zero)
        axis = Constant<value_ints = [0]>() first = ReduceMax<keepdims = 0>(x, axis)
        y, rows = Loop (n, , first) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] u, float[2] r) {
            d = Identity(c) row = Gather(x, i) u = Add(v, row) r = Identity(u)
        }>
    }""")
    for n in (1, 4):
        model = agrees(proto, rows(n, 2).astype("float32"), stack=stack)
    assert held(model) == ["loop"]


@pytest.mark.parametrize("backwards", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("turned", [0, 1])
def test_axes_and_directions_of_scans(stack: Any, backwards: tuple[int, int], turned: int) -> None:
    first, second = backwards
    proto = parsed(f"""f (float[2] s, float[2, n] x, float[n, 2] z) => (float[2] t, float[2, n] a, float[n, 2] b) {{
        t, a, b = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [{first}, {second}],
            scan_output_axes = [1, 0], scan_output_directions = [{turned}, 0],
            body = g (float[2] v, float[2] p, float[2] q) => (float[2] u, float[2] k, float[2] l)
                {{ m = Mul(p, q) w = Mul(m, s) u = Add(v, w) k = Identity(u) l = Neg(p) }}> (s, x, z)
    }}""")
    given = rows(2), rows(2, 4), rows(4, 2, seed=1)
    model = agrees(proto, *(x.astype("float32") for x in given), stack=stack)
    assert held(model) == ["loop"]


def test_bodies_of_inner_graphs_hold_others(stack: Any) -> None:
    proto = parsed("""f (float[n, 2] x, float[2] s, bool a) => (float[2] y, float[n, 2] r) {
        zero = Constant<value = float {0.0}>()
        y, r = Scan <num_scan_inputs = 1, body = g (float[2] v, float[2] row) => (float[2] u, float[2] k) {
            t = ReduceSum<keepdims = 0>(row) positive = Greater(t, zero)
            u = If (positive) <
                then_branch = b () => (float[2] p) {
                    p = If (a) <then_branch = c () => (float[2] m) { m = Mul(v, row) },
                                else_branch = d () => (float[2] n) { n = Add(v, s) }>
                },
                else_branch = e () => (float[2] w) { w = Sub(v, row) }>
            k = Identity(u)
        }> (s, x)
    }""")
    for sign in (1, -1):
        for choice in (True, False):
            model = agrees(proto, sign * rows(4, 2).astype("float32"), X, np.array(choice), stack=stack)
    assert held(model) == ["loop"]


BRANCHING = """f (float[n] x, bool b) => (float[n] y) {
    y = If (b) <then_branch = yes () => (float[n] u) { z = Add(x, x) u = Exp(z) },
                else_branch = no () => (float[n] v) { v = Neg(x) }>
}"""


def test_branches_of_what_is_computed_are_one_program(stack: Any) -> None:
    for choice in (True, False):
        model = agrees(parsed(BRANCHING), X, np.array(choice), stack=stack)
    assert held(model) == ["branch"]


def test_branches_of_other_shapes_are_a_program_each(stack: Any) -> None:
    proto = parsed("""f (float[2] x, bool b) => (float[k] y) {
        y = If (b) <then_branch = yes () => (float[4] u) { u = Concat<axis = 0>(x, x) },
                    else_branch = no () => (float[2] v) { v = Neg(x) }>
    }""")
    for choice in (True, False):
        model = agrees(proto, X, np.array(choice), stack=stack)
    assert not model.has_program


def test_what_grows_is_written_out(stack: Any) -> None:
    proto = parsed("""f (float[2] x) => (float[k] y) {
        n = Constant<value_int = 3>() yes = Constant<value = bool {1}>()
        y = Loop (n, yes, x) <body = b (int64 i, bool c, float[m] v) => (bool d, float[j] u)
            { d = Identity(c) u = Concat<axis = 0>(v, x) }>
    }""")
    assert [n.op.name for n in agrees(proto, X, stack=stack).graph.nodes if n.args] == ["concat"] * 3


def test_a_shape_that_a_loop_counts_is_known(stack: Any) -> None:
    """What the loop carries besides depends on inputs; all is written out then."""
    proto = parsed("""f (float[2] x) => (float[k] y) {
        n = Constant<value_int = 3>() yes = Constant<value = bool {1}>() one = Constant<value_ints = [1]>()
        s, t = Loop (n, yes, one, x) <
            body = b (int64 i, bool c, int64[1] v, float[2] w) => (bool d, int64[1] u, float[2] z) {
            d = Identity(c) u = Add(v, one) z = Add(w, x)
        }>
        y = Tile(t, s)
    }""")
    assert held(agrees(proto, X, stack=stack)) == []


def test_loops_in_loops(stack: Any) -> None:
    proto = parsed("""f (int64 trips, float[2] x) => (float[2] y) {
        y = Loop (trips, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] u) {
            d = Identity(c)
            u = Loop (i, , v) <body = g (int64 j, bool e, float[2] p) => (bool h, float[2] q) {
                h = Identity(e) k = Cast<to = 1>(i) m = Mul(p, x) q = Add(m, k)
            }>
        }>
    }""")
    model = agrees(proto, np.array(4), X / 4, stack=stack)
    assert held(model) == ["loop"]


@pytest.mark.parametrize("flag", ["d = Identity(c)", "z = Mul(s, none) d = Less(z, limit)"])
def test_what_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    from nnc_func.onnx import tracing

    monkeypatch.setattr(tracing, "LONGEST", 100)
    text = looping("y", flag, "yes")
    text.graph.node[-1].input[0] = ""
    none = text.graph.initializer.add()
    none.CopyFrom(text.graph.initializer[0])
    none.name, none.float_data[:] = "none", [0.0]
    with pytest.raises(OnnxError, match=r"loops of more than 100 steps"):
        nnc.from_onnx(text, nnc.eager()).apply(np.array(0), X / 2, W / 4)  # at once: a program goes on for ever


# --- functions of the frontend ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6, 2, 2), ("n", 2, 2)])
@pytest.mark.parametrize("reverse", [False, True])
def test_prefixes(shape: Any, reverse: bool) -> None:
    given = rows(6, 2, 2).astype("float32")
    same(lambda x: LAZY.associative_scan(lambda a, b: b @ a, x, reverse=reverse), given, shapes=[shape])


@pytest.mark.parametrize("shape", [(7, 2), ("n", 2)])
def test_a_map_of_blocks(shape: Any) -> None:
    model = same(
        lambda x: LAZY.map(lambda x: LAZY.ops.softmax(x, axis=0), x, batch=3),
        rows(7, 2).astype("float32"),
        shapes=[shape],
    )
    assert {"Scan", "Loop"} & {*nodes(model.graph)}


def test_a_fixed_point_and_its_gradient() -> None:
    def f(a: Any, b: Any) -> Any:
        return LAZY.fixed_point(lambda x: LAZY.ops.tanh(x @ a + b), LAZY.ops.zeros_like(b))

    given = (rows(3, 3) / 3).astype("float32"), rows(2, 3, seed=1).astype("float32")
    assert "Loop" in nodes(same(f, *given).graph)
    same(LAZY.grad(lambda a, b: f(a, b).sum(), argnums=(0, 1)), *given)


@pytest.mark.parametrize("extent", [6, "n"])
def test_a_loop_with_two_exits(extent: Any) -> None:
    def f(c: Any, xs: Any) -> Any:
        return LAZY.loop_until(
            [
                lambda c, x: (c * x, c), lambda mid: mid > 9, lambda mid, x: (mid + x, mid), lambda mid: mid < -9,
                lambda mid, x: (mid / 2, mid * x),
            ],
            c, xs,
        )  # fmt: skip

    for start in (1.0, 3.0, -4.0):
        given = np.array(start, "float32"), np.array([1, 1.5, 2, 2.5, 1, 3], "float32")
        model = same(f, *given, shapes=[(), (extent,)])
        assert {"Loop", "If"} <= {*nodes(model.graph)}
        same(LAZY.grad(lambda c, xs: f(c, xs).outputs[2].sum() + f(c, xs).mids[0]), *given, shapes=[(), (extent,)])
