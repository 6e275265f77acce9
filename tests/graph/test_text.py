"""Graphs as text: stable, exact, the same graph again when read; what is none is refused by its line (`graph/text`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import nnc_func as nnc
from nnc_func.aval import Aval
from nnc_func.errors import GraphError
from nnc_func.facets.dims import Dim
from nnc_func.graph.graph import ComputationGraph
from nnc_func.graph.leaves import HELD
from nnc_func.graph.node import Node
from nnc_func.graph.text.literals import Line, Names, array_text
from nnc_func.graph.text.writing import digest, large_constants, parsed, printed
from nnc_func.tree import flatten

LAZY = nnc.lazy()


def closed(inputs: Any, outputs: Any, updates: Any = (), name: str = "net") -> ComputationGraph:
    leaves, structure = flatten(outputs)
    lift = LAZY.operator.lift
    pairs = [(v.value, lift(u.value)) for v, u in updates]
    found = LAZY.graph.close([i.value for i in inputs], [lift(o.value) for o in leaves], pairs, name, structure)
    assert isinstance(found, ComputationGraph)
    return found


def again(graph: ComputationGraph, **given_: Any) -> ComputationGraph:
    """Read back what is printed, and see that it prints the same."""
    text = printed(graph)
    read = parsed(text, LAZY, **given_)
    assert printed(read) == text
    assert isinstance(read, ComputationGraph)
    return read


def network() -> ComputationGraph:
    x = LAZY.input("x", ("n", 4), "float32")
    w = LAZY.variable("w", np.ones((4, 6), "float32"))
    y = LAZY.ops.tanh(x @ w + LAZY.asarray(np.array([0.1, -0.0, 1, 2, 3, 4], "float32")))
    left, right = LAZY.ops.split(y, sections=2, axis=1)
    return closed([x], (left + right, right), [(w, w * 0.5)])


NETWORK = """graph "net"(%0 "x" : float32[n, 4])
%1 = variable "w" : float32[4, 6]
%2 = matmul(%0, %1, transpose_a=False, transpose_b=False) : float32[n, 6]
%3 = constant [0.1, -0.0, 1.0, 2.0, 3.0, 4.0] : float32[6]
%4 = add(%2, %3) : float32[n, 6]
%5 = tanh(%4) : float32[n, 6]
%6, %7 = split(%5, sections=2, axis=1) : float32[n, 3], float32[n, 3]
%8 = add(%6, %7) : float32[n, 3]
%9 = constant 0.5 : float32[]
%10 = multiply(%1, %9) : float32[4, 6]
update "w" <- %10
return %8, %7"""


def test_the_text_is_this() -> None:
    assert printed(network()) == str(network()) == NETWORK


def test_read_back_it_is_the_same_graph() -> None:
    w = LAZY.variable("w", np.ones((4, 6), "float32")).value
    read = again(network(), variables={"w": w})
    assert read.variables[0].data is w
    assert [n.op for n in read.nodes] == [n.op for n in network().nodes]
    assert read.symbols == {"n"}


def test_read_back_it_computes_the_same() -> None:
    x = LAZY.input("x", (3, 4), "float64")
    graph = closed([x], [LAZY.ops.exp(x) * 0.1 + x])
    value = np.random.default_rng(0).normal(size=(3, 4))
    first, second = (LAZY.engine.compile(g)(value)[0] for g in (graph, again(graph)))
    assert np.array_equal(first, second)


def test_lines_of_the_user_are_told_when_asked_for() -> None:
    graph = network()
    told = printed(graph, origins=True)
    assert "  # test_text.py:" in told
    assert "in network" in told
    assert printed(parsed(told, LAZY)) == printed(graph)


@pytest.mark.parametrize(
    "outputs",
    [
        lambda a, b: a,
        lambda a, b: (a, b),
        lambda a, b: (a,),
        lambda a, b: (),
        lambda a, b: [a, b],
        lambda a, b: [a],
        lambda a, b: [],
        lambda a, b: {"b": a, "a": [b, (a, None)]},
        lambda a, b: {1: a, (2, "x"): b},
        lambda a, b: None,
        lambda a, b: ((a, b),),
    ],
)
def test_outputs_nest_as_they_did(outputs: Any) -> None:
    x = LAZY.input("x", (2,), "float32")
    graph = closed([x], outputs(x + 1, x * 2))
    assert again(graph).structure == graph.structure


class Pair(NamedTuple):
    left: Any
    right: Any


@frozen
class Tree:
    is_tree = True
    weight: Any
    rate: float = field(metadata={"static": True})


def test_classes_are_made_only_where_they_are_given() -> None:
    x = LAZY.input("x", (2,), "float32")
    graph = closed([x], {"pair": Pair(x + 1, Tree(x * 2, 0.5))})
    assert again(graph, classes=[Pair, Tree]).structure == graph.structure
    with pytest.raises(GraphError, match=r"line 6: the outputs are nested in a .*Pair; give the class: classes=\[Pair"):
        parsed(printed(graph), LAZY)


def test_how_outputs_nest_may_be_unsaid() -> None:
    x = LAZY.input("x", (2,), "float32").value
    graph = LAZY.graph.close([x], [x, x])
    assert printed(graph).endswith("return flat %0, %0")
    again(graph)


# --- extents ------------------------------------------------------------------------------------------------

n, m, unknown = Dim.named("n"), Dim.named("m"), Dim.fresh()


@pytest.mark.parametrize(
    ("extent", "text"),
    [
        (n, "n"),
        (2 * n + 1, "2*n+1"),
        (n - 3, "n-3"),
        (-n, "-n"),
        (n // 2, "(n // 2)"),
        (n * n * m - n, "m*n*n-n"),
        ((2 * n + 1) // 3, "((2*n+1) // 3)"),
        (n // (m + 1), "(n // (m+1))"),
        (7 // n, "(7 // n)"),
        ((n // 2 + 1) // 3, "(((n // 2)+1) // 3)"),
        (3 * (n // 2), "3*(n // 2)"),
        (unknown, "?0"),
        (unknown * 2 + n, "2*?0+n"),
        (Dim.named("batch size"), "`batch size`"),
        (Dim.named("nan"), "`nan`"),
        (Dim.named("a`b\n"), "`a\\u0060b\\n`"),
        (Dim.named("é"), "`\\u00e9`"),
        (12, "12"),
    ],
)
def test_extents(extent: Any, text: str) -> None:
    assert Names().extent(extent) == text
    assert Line(text, 1, {"?0": unknown}).literal() == extent


def test_unknown_extents_are_counted_as_they_appear() -> None:
    x, y = (LAZY.input(name, (None, 3), "float32") for name in "xy")
    z = LAZY.input("z", x.shape, "float32")
    graph = closed([x, y, z], (x + z, y * 2))
    text = printed(graph)
    assert text.startswith('graph "net"(%0 "x" : float32[?0, 3], %1 "y" : float32[?1, 3], %2 "z" : float32[?0, 3])')
    read = again(graph)
    extents = [i.aval.shape[0] for i in read.inputs]
    assert extents[0] == extents[2] != extents[1]
    assert extents[0] not in (x.shape[0], y.shape[0])  # unknown there is unknown here: it equals nothing that was


def test_extents_in_parameters() -> None:
    x = LAZY.input("x", ("n", 4), "float32")
    graph = closed([x], [LAZY.ops.reshape(x, shape=(2 * x.shape[0], 2))])
    assert "reshape(%0, shape=(2*n, 2)) : float32[2*n, 2]" in printed(graph)
    again(graph)


# --- constants and parameters -------------------------------------------------------------------------------

DTYPES = ("bool", "int8", "uint8", "int64", "uint64", "float16", "float32", "float64", "complex64", "complex128")


@given(st.data())
def test_constants_keep_their_bits(data: st.DataObject) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    shape = data.draw(arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    count = int(np.prod(shape)) * dtype.itemsize
    bits = data.draw(st.binary(min_size=count, max_size=count))
    raw = np.frombuffer(bits, "uint8") % 2 == 1 if dtype.kind == "b" else np.frombuffer(bits, dtype)
    array = raw.reshape(shape)
    found = np.empty(array.size, dtype)
    found[:] = Line(array_text(array), 1, {}).elements(dtype)
    assert found.tobytes() == array.tobytes()


def test_every_half_float_is_read_back() -> None:
    every = np.arange(65536, dtype="uint16").view("float16")
    found = np.array(Line(array_text(every), 1, {}).elements(every.dtype), "float16")
    assert found.tobytes() == every.tobytes()


def test_special_numbers_are_told_apart() -> None:
    x = LAZY.input("x", (4,), "float64")
    odd = np.array([-0.0, np.nan, -np.inf, np.frombuffer(b"\1\0\0\0\0\0\xf8\xff")[0]])
    graph = closed([x], [x + LAZY.asarray(odd)])
    assert "constant [-0.0, nan, -inf, 0xfff8000000000001] : float64[4]" in printed(graph)
    read = again(graph)
    assert read.constants[0].data.tobytes() == odd.tobytes()


def test_large_constants_are_named_by_their_bytes() -> None:
    x = LAZY.input("x", (100,), "float32")
    value = np.arange(100, dtype="float32")
    graph = closed([x], [x + LAZY.asarray(value)])
    name = digest(value)
    assert f"%1 = constant {name} : float32[100]" in printed(graph)
    assert list(large_constants(graph)) == [name]
    assert np.array_equal(again(graph, constants={name: value}).constants[0].data, value)
    text = printed(graph)
    with pytest.raises(GraphError, match=r"line 2: the constant sha256:.{8}… is not in the text; give it"):
        parsed(text, LAZY)
    with pytest.raises(GraphError, match=r"line 2: the constant given as .* has other elements"):
        parsed(text, LAZY, {name: value + 1})
    with pytest.raises(GraphError, match=r"line 2: the constant .* is float32\[100\], given float64\[100\]"):
        parsed(text, LAZY, {name: value.astype("float64")})


def test_several_values_that_were_held() -> None:
    data = (np.array([1, 2], "float32"), np.arange(100.0))
    held = Node(LAZY.symbol.table, HELD, (), (), tuple(map(LAZY.device.aval, data)), (), data)
    graph = LAZY.graph.close([], held.results)
    assert f"%0, %1 = held [1.0, 2.0], {digest(data[1])} : float32[2], float64[100]" in printed(graph)
    again(graph, constants={digest(data[1]): data[1]})


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -7,
        1.5,
        -0.0,
        float("inf"),
        float("-inf"),
        1e-300,
        1e22,
        2 + 3j,
        complex(-0.0, float("inf")),
        "VALID",
        'q"\\\n#é',
        (),
        (1,),
        ((1, 2), (None, "x")),
        (n, 2 * n),
    ],
)
def test_parameters(value: Any) -> None:
    text = Names().literal(value)
    line = Line(text, 1, {})
    found = line.literal()
    line.end()
    assert repr(found) == repr(value)


def test_a_dtype_as_a_parameter() -> None:
    x = LAZY.input("x", (2,), "float32")
    graph = closed([x], [LAZY.ops.cast(x, dtype="int64")])
    assert "cast(%0, dtype=int64) : int64[2]" in printed(graph)
    again(graph)


def test_a_variable_starts_as_zeros_unless_it_is_given() -> None:
    read = parsed(NETWORK, LAZY)
    assert not read.variables[0].data.array.any()
    read = parsed(NETWORK, LAZY, variables={"w": np.full((4, 6), 2, "float32")})
    assert (read.variables[0].data.array == 2).all()
    with pytest.raises(GraphError, match=r"line 2: variable 'w' is float32\[4, 6\]"):
        parsed(NETWORK, LAZY, variables={"w": np.zeros((4, 5), "float32")})


def test_a_graph_layer_will_do() -> None:
    assert printed(parsed(NETWORK, LAZY.graph)) == NETWORK


def test_names_may_be_anything() -> None:
    x = LAZY.input('a "b" %1 # c\n', (2,), "float32")
    graph = closed([x], [x + 1], name='"\\')
    assert again(graph).inputs[0].data == 'a "b" %1 # c\n'


# --- what is refused ----------------------------------------------------------------------------------------

ADD = 'graph "g"(%0 "x" : float32[3])\n%1 = add(%0, %0) : float32[3]\nreturn %1'
SPLIT = 'graph "g"(%0 "x" : float32[4])\n%1, %2 = split(%0, sections=2, axis=0) : float32[2], float32[2]\nreturn %1, %2'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"line 1: an empty text"),
        ("# nothing\n", r"line 1: an empty text"),
        (ADD.replace("graph", "import"), r"line 1: wanted 'graph', found 'import'"),
        (ADD.replace('"g"', "g"), r"line 1: wanted a string, found 'g'"),
        (ADD.replace("\nreturn %1", ""), r"line 2: the last line is `return …`: the text is not complete"),
        (ADD.replace("add", "frobnicate"), r"line 2: no operator 'frobnicate' in this stack"),
        (ADD.replace("add(", "__import__("), r"line 2: no operator '__import__'"),
        (ADD.replace("(%0, %0)", "(%0, %7)"), r"line 2: %7 is not defined above"),
        (ADD.replace("%1 =", "%0 ="), r"line 2: %0 is defined twice"),
        (ADD.replace("(%0, %0)", "(%0)"), r"line 2: add takes 2 tensors, given 1"),
        (ADD.replace("(%0, %0)", "(%0, %0, depth=2)"), r"line 2: add has no parameter 'depth'"),
        (ADD.replace("float32[3]\nreturn", "float32[4]\nreturn"), r"line 2: add gives float32\[3\], but float32\[4\]"),
        (ADD.replace("float32[3])", "float33[3])"), r"line 1: 'float33' is no dtype"),
        (ADD.replace("float32[3])", "object[3])"), r"line 1: 'object' is no dtype of numbers"),
        (ADD.replace("float32[3])", "float32[-3])"), r"line 1: -3 is no extent"),
        (ADD.replace("float32[3])", "float32[1.5])"), r"line 1: 1.5 is no extent"),
        (ADD.replace("float32[3])", "float32[n//0])"), r"line 1: n // 0"),
        (ADD + " %0", r"line 3: '%0' is too much"),
        (ADD.replace("%1 = add", "%1 = @add"), r"line 2: '@add\(%0, %0\) : floa' has no meaning here"),
        (ADD.replace("return %1", 'update "w" <- %1\nreturn %1'), r"line 3: no variable 'w' was defined above"),
        (ADD.replace("return", "%2 = constant [1, 2] : int8[3]\nreturn"), r"line 3: 2 elements are no int8\[3\]"),
        (ADD.replace("return", "%2 = constant 300 : int8[]\nreturn"), r"line 3: no int8"),
        (ADD.replace("return", "%2 = constant 2 : bool[]\nreturn"), r"line 3: 2 is no boolean"),
        (ADD.replace("return", "%2 = constant x : int8[]\nreturn"), r"line 3: invalid literal"),
        (ADD.replace("return", "%2 = constant unknown : int8[]\nreturn"), r"line 3: a constant without elements"),
        (ADD.replace("float32[3])", 'float32[3], %9 "x" : float32[3])'), r"line 3: .*two inputs named 'x'"),
        (ADD.replace('"x"', '""'), r"line 1: an input has a name"),
        (ADD.replace('%0 "x"', '%0 "x'), r"line 1: '\"x : float32"),
        (SPLIT.replace("%1, %2 =", "%1 =").replace(", %2", ""), r"line 2: split has 2 results, written are 1"),
        (SPLIT.replace("sections=2, axis=0", "sections=2, sections=2"), r"line 2: sections is given twice"),
        (SPLIT.replace("sections=2, axis=0", "sections=[2]"), r"line 2: wanted .*, found '\['"),
        (ADD.replace("return %1", "return " + "(" * 100 + "%1"), r"line 3: more than 64 brackets"),
        (ADD.replace("[3])", "[" + "(" * 5000 + "3" + ")" * 5000 + "])"), r"brackets|too deeply"),
        (ADD.replace("[3])", "[" + "-" * 5000 + "3])"), r"a sign follows a sign"),
        (ADD.replace("[3])", "[" + "9" * 5000 + "])"), r"line 1: wanted a whole number below"),
    ],
)
def test_refused_with_the_line(text: str, words: str) -> None:
    with pytest.raises(GraphError, match=words):
        parsed(text, LAZY)


@given(st.integers(0, len(NETWORK)), st.text(max_size=3))
def test_any_damage_is_refused_or_read(at: int, instead: str) -> None:
    damaged = NETWORK[:at] + instead + NETWORK[at + 1 :]
    try:
        read = parsed(damaged, LAZY)
    except GraphError:
        return
    assert printed(parsed(printed(read), LAZY)) == printed(read)


def test_what_has_no_written_form_is_refused_when_printed() -> None:
    x = LAZY.input("x", (2,), "float32")
    node = LAZY.operator.lift((x + 1).value).node
    odd = Node(node.table, node.op, node.args, (("rate", object()),), node.avals, node.origin)
    with pytest.raises(GraphError, match=r"add \(test_text\.py:\d+ in .*\): rate: a object cannot be written as text"):
        printed(LAZY.graph.close([x.value], [odd]))


def test_avals_are_written_as_they_print() -> None:
    aval = Aval(("n", 3), "float32")
    assert Names().aval(aval) == repr(aval)


@pytest.mark.parametrize("name", ["a\u2028b", "a\x85b", "a\u2029", "a\nb", "a\rb", "a\x0cb"])
def test_names_with_ends_of_lines_in_them(name: str) -> None:
    """Python takes them for ends of lines; the text does not."""
    v = LAZY.variable(name, np.ones(2))
    x = LAZY.input(name, (2,), "float64")
    again(closed([x], {name: x + v}, name=name))


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (
            "*".join(["(" + "+".join(f"n{i}" for i in range(12)) + ")"] * 12),
            "a product of extents would have more than 1024 terms or 64 factors",
        ),
        ("//".join(["n"] * 1000), "an extent of more than 512 operators"),
        ("*".join(["n"] * 100), "a product of extents would have more than 1024 terms or 64 factors"),
        ("9" * 5000, "wanted a whole number below 2"),
        ("*".join(["9" * 19] * 5), "is no extent"),
        ("4611686018427387904", "4611686018427387904 is no extent"),
        ("-" * 5000 + "1", "a sign follows a sign"),
        ("True", "True is no extent"),
    ],
)
def test_extents_are_bounded(shape: str, words: str) -> None:
    """Products of sums have as many terms as their factors together to the power of the factors: these took hours."""
    with pytest.raises(GraphError, match=f"line 1: .*{words}"):
        parsed(f'graph "big"(%0 "x" : float32[{shape}])\nreturn %0', LAZY)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("(%0) { %1 = add(%0, -1); return %1 }", "wanted a name or quoted, found '-'"),
        ("(%0) { %1 = add(%0, %7); return %1 }", "%7 is not defined above, in its body"),
        ("(%0) { %1 = add(%0, %1); return %1 }", "%1 is not defined above, in its body"),
        ("(%0) { %1 = exp(%0); return %2 }", "%2 is not defined above, in its body"),
        ("(%0) { %1 = add(%0); return %1 }", "add takes 2 tensors, given 1"),
        ("(%0) { %1 = reshape(%0, shape=(2, 2)); return %1 }", "reshape cannot stand in the body of blockwise"),
        ("(%0) { %1 = sum(%0); return %1 }", "blockwise computes element by element; sum stands in"),
        ("(%0) { %1 = exp(%0, axis=0); return %1 }", "exp has no parameter 'axis'"),
        ("(%0) { %1 = exponential(%0); return %1 }", "no operator 'exponential' in this stack"),
        ("(%0) { %2 = exp(%0); return %2 }", "numbered as they come: wanted %1, found %2"),
        ("(%0) { %1, %2 = exp(%0); return %1 }", "exp does not have 2 results"),
        ("(%0) { %1 = exp(%0); return %0 }", "blockwise has one result, that of the last operator"),
        ("(%0) { return %0 }", "blockwise needs an operator at least"),
        ("(%0, %1) { %2 = exp(%0); return %2 }", "blockwise has 1 operands for a body of 2 parameters"),
        ("(%0) { %1 = exp(%0) return %1 }", "wanted ';'"),
        ("(%0) { %1 = exp(%0); return %1", "wanted '}', found '\\)'"),
        ("(%0) { %1 = blockwise(%0, body=" * 70, "more than 64 brackets inside each other"),
        ('"exp"', r"wanted '\('"),
    ],
)
def test_bodies_are_checked(body: str, words: str) -> None:
    with pytest.raises(GraphError, match=f"line 2: .*{words}"):
        parsed(f'graph "fused"(%0 "x" : float32[4])\n%1 = blockwise(%0, body={body}) : float32[4]\nreturn %1', LAZY)


@pytest.mark.parametrize("number", ["9" * 5000, "18446744073709551616"])
def test_numbers_of_values_are_bounded(number: str) -> None:
    with pytest.raises(GraphError, match="wanted a whole number below 2"):
        parsed(f'graph "net"(%{number} "x" : float32[4])\nreturn %{number}', LAZY)
