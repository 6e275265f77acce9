"""Sub-programs as values (`body`, `graph/bodies`, `graph/rewriting/bodies`, `graph/ops/bodies`)."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption

import nnc_func as nnc
from nnc_func.body import Application, Body
from nnc_func.errors import FileFormatError, OperatorError, UnknownOperatorError
from nnc_func.facets import dtypes, shapes
from nnc_func.facets.derivatives import NOT_DIFFERENTIABLE
from nnc_func.facets.dims import Dim, substitute, symbols_of
from nnc_func.facets.kernels import ALL, Kernel, reference
from nnc_func.graph.bodies import abstract, enclosed
from nnc_func.graph.leaves import LEAVES, VARIABLE
from nnc_func.graph.node import Node, topological
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.ops.bodies import dtypes_in, one_by_one, shapes_in
from nnc_func.graph.rewriting.bodies import optimised
from nnc_func.graph.rules.fuse import fuse_elementwise
from nnc_func.graph.text.literals import Line, Names
from nnc_func.graph.text.writing import parsed
from nnc_func.op import operator
from nnc_func.testing.agreement import LARGEST, agree, comparable
from nnc_func.testing.programs import Program, programs

Nested = Any  # as the operators' own annotations call it
NO_SLOPE = NOT_DIFFERENTIABLE("a test")


def _twofold(xp: Any, arrays: Any, outs: Any, scratch: Any) -> None:
    xp.add(arrays[0], arrays[0], out=outs[0])


@operator(
    shape=shapes.broadcast,
    dtype=dtypes.first,
    derivative=NO_SLOPE,
    kernels=(
        Kernel("doubled", into=_twofold, compute=lambda xp, x: x + x, overwrites=ALL, infallible=True),
        reference(lambda xp, x: x + x, infallible=True),
    ),
)
def twofold(x: Any, /) -> Any:
    """Twice the value, by a kernel of its own."""


def _shapes(*given: Any, body: Body) -> Any:
    found = shapes_in(body, given)
    return tuple(found[i] for i in body.results)


def _dtypes(*given: Any, body: Body) -> Any:
    found = dtypes_in(body, given)
    return tuple(found[i] for i in body.results)


def _interpreted(xp: Any, *xs: Any, body: Body) -> Any:
    values = one_by_one(xp, xs, body)
    return tuple(values[i] for i in body.results)


@operator(shape=_shapes, dtype=_dtypes, multi_result=True, derivative=NO_SLOPE, kernels=reference(_interpreted))
def computed_by(*xs: Any, body: Body) -> Any:
    """What a body computes, one operator after another."""


def mine(stack: Any) -> Any:
    """A stack whose catalogue has both, and which fuses whatever it can."""
    optimiser = stack.optimiser.without_rules("fuse_elementwise")
    stack = stack.swap(optimiser=optimiser.with_rules(fuse_elementwise.from_size(0), phase="fuse"))
    return stack.swap(type=stack.type.with_ops(twofold, computed_by))


LAZY = mine(nnc.lazy())
UNCHANGED = nnc.lazy().swap(optimiser=LAZY.optimiser.without_rules(*(rule.name for rule in LAZY.optimiser.rules)))
EAGER = nnc.eager().swap(type=nnc.eager().type.with_ops(twofold, computed_by))


# --- a user's own operators -----------------------------------------------------------------------------


def doubled(stack: Any, x: Any) -> Any:
    return stack.ops.sqrt(twofold(x) + 1) * twofold(x)


def test_an_operator_of_a_users_own_is_fused() -> None:
    x = LAZY.input("x", (5,), "float64")
    program = LAZY.compile([x], doubled(LAZY, x))
    (node,) = (n for n in program.graph.nodes if n.args)
    assert node.op is OPS["blockwise"]
    assert twofold in node.params["body"].operators
    array = np.arange(5.0)
    np.testing.assert_array_equal(program(array), doubled(EAGER, EAGER.asarray(array)).numpy())
    assert program.plan.kernels == 1


def test_a_file_whose_body_has_another_operator_is_only_loaded_where_that_is_allowed(tmp_path: Path) -> None:
    x = LAZY.input("x", (5,), "float64")
    program, path = LAZY.compile([x], doubled(LAZY, x)), tmp_path / "doubled.nnc"
    program.save(path)
    with pytest.raises(FileFormatError, match=r"applies 'twofold', which is no operator of this library.*allow="):
        nnc.load_program(path, LAZY)
    loaded = nnc.load_program(path, LAZY, allow="twofold")
    np.testing.assert_array_equal(loaded(np.arange(5.0)), program(np.arange(5.0)))


@pytest.mark.parametrize("make", [nnc.eager, nnc.lazy])
def test_a_body_leaves_no_catalogue(make: Any) -> None:
    stack = make()
    few = stack.swap(type=nnc.Type(stack.device, nnc.Catalogue([OPS["blockwise"], OPS["add"]])))
    x = few.asarray(np.ones(3))
    assert few.ops.blockwise(x, x, body=Body.of(2, (OPS["add"], 0, 1))).numpy().tolist() == [2, 2, 2]
    with pytest.raises(UnknownOperatorError, match="tanh is not an operator of this stack"):
        few.ops.blockwise(x, x, body=Body.of(2, (OPS["add"], 0, 1), (OPS["tanh"], 2)))


@operator(
    shape=shapes.same,
    dtype=dtypes.first,
    derivative=NO_SLOPE,
    kernels=Kernel(
        "into",
        compute=lambda xp, x: x[..., ::-1],
        into=lambda xp, arrays, outs, scratch: outs[0].__setitem__(..., arrays[0][..., ::-1]),
        infallible=True,
    ),
)
def backwards(x: Any, /) -> Any:
    """The elements of the last axis the other way round: of the shape of its operand, and not elementwise."""


def test_what_is_not_elementwise_is_not_fused() -> None:
    """It was computed in blocks, each the other way round."""
    stack = nnc.lazy()
    stack = stack.swap(type=stack.type.with_ops(backwards))
    x = stack.input("x", (1024, 1024), "float32")
    given = np.arange(1 << 20, dtype="float32").reshape(1024, 1024)
    np.testing.assert_array_equal(stack.compile([x], backwards(x * 2) + 1)(given), (given * 2)[:, ::-1] + 1)


def _signed(xp: Any, arrays: Any, outs: Any, scratch: Any, c: Any) -> None:
    np.copysign(arrays[0], c[0], out=outs[0])


@operator(
    shape=shapes.broadcast,
    dtype=lambda x, **_: x,
    derivative=NO_SLOPE,
    kernels=Kernel(
        "signed", compute=lambda xp, x, c: np.copysign(x, x.dtype.type(c[0])), into=_signed, infallible=True
    ),
)
def signed(x: Any, /, *, c: Nested) -> Any:
    """With the sign of a number in a nest."""


@operator(
    shape=shapes.broadcast,
    dtype=lambda x, **_: x,
    derivative=NO_SLOPE,
    kernels=reference(lambda xp, x, c: np.copysign(x, x.dtype.type(c)), infallible=True),
)
def unannotated(x: Any, /, *, c: Any) -> Any:
    """With the sign of whatever is given."""


def test_parameters_of_any_kind_are_compared_by_bits() -> None:
    """Of a nest, and of what is not annotated, 0.0 was taken for -0.0."""
    for op, values in ((signed, ((-0.0,), (0.0,))), (unannotated, (-0.0, 0.0))):
        for stack in (mine(nnc.lazy()), nnc.eager()):
            stack = stack.swap(type=stack.type.with_ops(op))
            for value in values:
                sign = -1 if "-" in str(value) else 1
                found = stack.jit(lambda x, v=value, o=op: o(x * 2, c=v) + 1)(np.ones(4, "float32"))
                assert np.asarray(found).tolist() == [1 + 2 * sign] * 4
    one, other = (Body.of(1, (signed, 0, {"c": value})) for value in ((1, 0), (True, 0)))
    assert one != other


def test_a_kernel_that_needs_more_than_its_result_computes_what_is_broadcast() -> None:
    """The result is as large as another operand, of which it is not made: scratch was too small."""
    body = Body.of(2, (OPS["negative"], 1), (OPS["softplus"], 0))
    for shape, whole in (((4,), (2, 3, 4)), ((3, 1), (3, 5)), ((1, 1), (5,))):
        for dtype in ("float32", "float64"):
            x, y = np.ones(shape, dtype), np.ones(whole, dtype)
            wanted = np.broadcast_to(np.log1p(np.exp(x)), np.broadcast_shapes(shape, whole))
            for stack in (EAGER, LAZY):
                found = stack.jit(lambda x, y, s=stack: s.ops.blockwise(x, y, body=body))(x, y)
                np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)


def test_a_body_takes_all_results_of_an_application() -> None:
    """Else the numbers of values behind it are those of others."""
    body = Body(1, [Application(OPS["split"], (0,), {"sections": 2}), Application(OPS["negative"], (1,))], (2,))
    with pytest.raises(OperatorError, match=r"a body takes 1 results of split.*, which has 2"):
        optimised(body, [nnc.Aval((4,), "float32")], LAZY.optimiser)


def test_bodies_within_bodies_are_refused_in_groups_and_shown_in_short() -> None:
    body = Body.of(1, (OPS["tanh"], 0))
    for _ in range(40):
        body = Body(1, [Application(computed_by, (0,), {"body": body})] * 2, (2,))
    assert repr(body).count("…") == 2
    assert body.operators == (computed_by, OPS["tanh"])
    nested = Body.of(1, (OPS["blockwise"], 0, {"body": Body.of(1, (OPS["tanh"], 0))}))
    with pytest.raises(OperatorError, match="blockwise cannot stand in the body of blockwise"):
        EAGER.ops.blockwise(EAGER.asarray([1.0]), body=nested)


def test_long_bodies_are_read_in_time_that_grows_with_them() -> None:
    """Reading an application copied the numbers of all before it."""

    def steps(count: int) -> int:
        text = "(%0) { " + "".join(f"%{i + 1} = tanh(%{i}); " for i in range(count)) + f"return %{count} }}"
        lines, line = 0, Line(text, 1, {})

        def trace(frame: Any, event: str, _: Any) -> Any:
            nonlocal lines
            lines += event == "line"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            line.body(lambda line: OPS[line.name()])
        finally:
            sys.settrace(before)
        return lines

    assert steps(400) < 2.2 * steps(200)


def test_formulas_of_operators_with_bodies_are_calls() -> None:
    """Only groups are written as what they compute: of a loop that would be one step."""
    x = LAZY.input("x", (2,), "float32")
    found = computed_by(x, x, body=Body.of(2, (OPS["add"], 0, 1)))[0]
    assert "computed_by(x, x" in str(found.to_formula())
    assert "computed_by" in LAZY.compile([x], found).graph.to_dot()


# --- structure ------------------------------------------------------------------------------------------


def test_bodies_compare_by_structure_and_bits() -> None:
    def clipped(least: Any) -> Body:
        return Body.of(1, (OPS["clip"], 0, {"min": least}))

    assert clipped(0.0) == clipped(0.0)
    assert hash(clipped(0.0)) == hash(clipped(0.0))
    assert len({clipped(0.0), clipped(-0.0), clipped(0), clipped(False)}) == 4
    assert Body.of(2, (OPS["add"], 0, 1)) != Body.of(2, (OPS["add"], 1, 0))
    assert Body.of(2, (OPS["add"], 0, 1)) != Body.of(3, (OPS["add"], 0, 1))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: Body.of(1, (OPS["add"], 0, 1)),
            r"add reads values \(0, 1\), and those before it are 0 to 0",
        ),
        (lambda: Body.of(1, (OPS["add"], 0, -1)), r"add reads values \(0, -1\)"),
        (lambda: Body.of(1, (OPS["add"], 0, True)), "numbers from 0 on"),
        (lambda: Body.of(1, (OPS["add"], 0, 1.0)), "numbers from 0 on"),
        (lambda: Body.of(1, (OPS["add"], 0)), "add takes 2 tensors, given 1"),
        (lambda: Body.of(1, (OPS["exp"], 0, {"axis": 0})), "exp has no parameter 'axis'"),
        (lambda: Body.of(1, (OPS["exp"], 0), results=(2,)), r"return reads values \(2,\)"),
        (lambda: Body(-1, (), ()), "a number of parameters, given -1"),
        (lambda: Body(1, [("exp", 0)], ()), "applications of operators, in a sequence, given"),  # type: ignore[list-item]
        (lambda: Application(OPS["exp"], (0,), count=2), "exp does not have 2 results"),
        (lambda: Application(OPS["split"], (0,), {"sections": 2}, 10**8), "1048576 is the most"),
        (lambda: Application("exp", (0,)), "an application is of an operator, such as .*, given 'exp'"),
        (lambda: Application(OPS["add"], None), "in a sequence, given None"),
        (lambda: Application(OPS["clip"], (0,), [("min", 1), ("min", 2)]), "a parameter is given twice"),
        (lambda: Application(OPS["add"], (0, 0), 5), "a mapping, or pairs of a name and a value, given 5"),
        (lambda: Body.of(1, 3), "a row is an operator, then numbers of its operands, given 3"),
        (lambda: Body.of(1, ()), "a row is an operator"),
        (lambda: Body(1, None, ()), "in a sequence, given None"),
        (lambda: Body(1, [], 0), "in a sequence, given 0"),
        (
            lambda: EAGER.ops.blockwise(EAGER.asarray([1.0]), body=Body(10**7, [], (0,))),
            "body of 10000000 parameters: <a body of 10000000 parameters, 0 applications, 1 results>",
        ),
        (lambda: Body.of(2, (OPS["add"], 0, 1)).values(lambda *_: 0, [1]), "2 parameters is given 1 values"),
        (lambda: EAGER.ops.blockwise(EAGER.asarray([1.0]), body="exp"), "wanted a Body"),
    ],
)
def test_what_is_no_body_is_refused(make: Any, words: str) -> None:
    with pytest.raises(OperatorError, match=words):
        make()


def test_symbols_inside_are_found_and_replaced() -> None:
    body = Body.of(0, (OPS["full"], {"shape": (Dim.named("n"), 2), "value": 1, "dtype": "float32"}))
    assert symbols_of(body) == {"n"}
    known = substitute((("body", body),), {"n": 3})[0][1]
    assert known.applications[0].params["shape"] == (3, 2)
    assert substitute(known, {"n": 4}) is known


# --- random ones ----------------------------------------------------------------------------------------


def body_of(program: Program) -> Body:
    """All steps of a program; its leaves are the parameters."""
    results = program.results()
    made = [
        Application(step.op, step.args, step.params, len(places))
        for step, places in zip(program.steps, results, strict=True)
    ]
    return Body(len(program.leaves), made, program.outputs)


def read_again(body: Body) -> Body:
    line = Line(Names().literal(body), 1, {})
    found = line.body(lambda line: OPS[line.name()])
    line.end()
    return found


@given(programs())
def test_a_body_is_itself_in_text_and_in_pickles(program: Program) -> None:
    body = body_of(program)
    for again in (pickle.loads(pickle.dumps(body)), read_again(body)):
        assert again == body
        assert hash(again) == hash(body)
        assert repr(again) == repr(body)


@given(programs())
def test_what_is_enclosed_computes_what_its_nodes_do(program: Program) -> None:
    """Of a graph that is not rewritten: a body of all its nodes, interpreted, gives the bits of the program."""
    built = program.build(UNCHANGED)
    graph = built.program.source
    leaves = [n for n in graph.nodes if n.op in LEAVES]
    body = enclosed(leaves, (n for n in graph.nodes if n.op not in LEAVES), graph.outputs)
    arrays = [_array(n, dict(zip(graph.inputs, program.feeds(), strict=True))) for n in leaves]
    device = nnc.NumPy()
    with np.errstate(all="ignore"):
        values = body.values(lambda op, args, items: device.bind(op, *args, **dict(items)), arrays)
        found, wanted = [values[i] for i in body.results], built(*program.feeds())
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def _array(leaf: Node, inputs: dict[Node, Any]) -> Any:
    return inputs.get(leaf, np.array(leaf.data.array) if leaf.op is VARIABLE else leaf.data)  # a run may write it


@given(programs())
def test_an_operator_may_hold_any_body(program: Program) -> None:
    """Eager and lazy give the same, and the graph is printed and read again."""
    body = body_of(program)
    if not body.results or not body.parameters:
        return
    arrays = [leaf.value() for leaf in program.leaves]
    inputs = [LAZY.input(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]
    compiled = LAZY.compile(inputs, list(computed_by(*inputs, body=body)))
    text = str(compiled.source)
    assert str(parsed(text, LAZY)) == text
    with np.errstate(all="ignore"):
        wanted = computed_by(*map(EAGER.asarray, arrays), body=body)
        for found, other in zip(compiled(*arrays), wanted, strict=True):
            np.testing.assert_array_equal(found, other.numpy())


# --- of functions ---------------------------------------------------------------------------------------


def evaluated(values: Any, inputs: dict[Node, Any]) -> list[Any]:
    """What values are, one node after another on NumPy."""
    found: dict[Node, Any] = {}
    for node in topological(values):
        args = [found[a.node][a.index] for a in node.args]
        made = nnc.NumPy().bind(node.op, *args, **node.params) if node.op not in LEAVES else _array(node, inputs)
        found[node] = made if node.op.multi_result else (made,)
    return [found[value.node][value.index] for value in values]


@given(programs(), st.randoms(use_true_random=False))
def test_what_is_captured_completes_a_body(program: Program, random: Any) -> None:
    """Some inputs are parameters: the body of those and of what it captures gives the bits of the program."""
    built = program.build(UNCHANGED)
    graph = built.program.source
    parameters = [n for n in graph.inputs if random.random() < 0.7]
    body, captured = abstract(parameters, graph.outputs)
    assert body.parameters == len(parameters) + len(captured)
    depends = set(range(len(parameters)))
    number = body.parameters
    for each in body.applications:  # nothing stands inside that belongs outside, but numbers
        if not depends.isdisjoint(each.operands):
            depends.update(range(number, number + each.count))
        else:
            assert each.op.name == "full"
        number += each.count
    given = dict(zip(graph.inputs, program.feeds(), strict=True))
    device, arrays = nnc.NumPy(), [given[n] for n in parameters]
    with np.errstate(all="ignore"):
        arrays += evaluated(captured, given)  # before the run, which may write variables
        found = body.values(lambda op, args, items: device.bind(op, *args, **dict(items)), arrays)
        wanted = built(*program.feeds())
    for i, other in zip(body.results, wanted, strict=True):
        np.testing.assert_array_equal(found[i], other)


@given(programs())
def test_a_body_that_is_rewritten_computes_the_same(program: Program) -> None:
    body = body_of(program)
    if not body.results:
        return
    arrays = [leaf.value() for leaf in program.leaves]
    optimiser = nnc.lazy().optimiser
    found, captured = optimised(body, [nnc.Aval(a.shape, a.dtype) for a in arrays], optimiser)
    assert len(found.operators) <= len(body.operators) or found != body
    device = nnc.NumPy()

    def run(body: Body, given: Any) -> list[Any]:
        with np.errstate(all="ignore"):
            values = body.values(lambda op, args, items: device.bind(op, *args, **dict(items)), given)
        return [values[i] for i in body.results]

    kept = [*arrays, *evaluated(captured, {})]
    _, _, largest = program.run_numpy(program.feeds(), [v.value() for v in program.variables])
    try:
        comparable(largest, LARGEST)
    except UnsatisfiedAssumption:
        return
    agree(run(found, kept), run(body, arrays), program, largest, "result")


def test_a_body_of_a_function_has_its_numbers_inside() -> None:
    row = nnc.Aval((3,), "float64")
    for stack in (nnc.eager(), nnc.lazy()):
        w, outside = stack.variable("w", np.ones(3)), stack.asarray(np.arange(3.0))
        body, captured = stack.body(lambda x, s=stack, w=w, o=outside: (s.ops.tanh(x * w) + 2, o), row)
        assert body.parameters == 1 + len(captured) == 3
        assert [each.op.name for each in body.applications] == ["multiply", "tanh", "full", "add"]
        assert body.results[1] == 2, "a tensor that does not depend on the argument is captured"


def test_what_has_no_number_is_captured() -> None:
    """Of a NaN a number does not keep the bits."""
    lazy = nnc.lazy()
    for value, inside in ((-0.0, True), (np.float32(np.nan), False), (np.inf, True), (1 - 2j, True)):
        body, captured = lazy.body(lambda x, v=value: x * lazy.asarray(v), nnc.Aval((2,), "complex128"))
        assert (len(body.applications), len(captured)) == ((2, 0) if inside else (1, 1))


def test_parameters_are_different_leaves() -> None:
    x = LAZY.input("x", (2,), "float64")
    for parameters in ([x.value, x.value], [(x + 1).value]):
        with pytest.raises(OperatorError, match="the parameters of a body are different leaves"):
            abstract(parameters, [x.value])


def test_a_number_in_a_body_has_the_dtype_by_its_name_however_its_array_said_it() -> None:
    stack = nnc.lazy(nnc.NumPy())
    said = np.asarray(1.5, np.dtype("float32").newbyteorder("<"))
    assert repr(said.dtype) != repr(np.dtype("float32"))
    body, _ = stack.body(lambda x: x * stack.asarray(said), nnc.Aval((2,), "float32"))
    assert repr(body.applications[0].params["dtype"]) == repr(np.dtype("float32"))
