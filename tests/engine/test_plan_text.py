"""A plan is text and back; what a person writes is verified and runs (`engine/plan`, `engine/files/text`)."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from attrs import evolve
from hypothesis import given

import nnc_func as nnc
from nnc_func.aval import Aval
from nnc_func.device import NumPy
from nnc_func.engine.plan import Plan
from nnc_func.engine.plan_rows import Buffer, Slot
from nnc_func.errors import DeviceError, DTypeError, GraphError, PlanError, ShapeError
from nnc_func.facets.kernels import reference
from nnc_func.graph.origin import lines
from nnc_func.op import operator
from nnc_func.testing.programs import Program, programs

EAGER, LAZY = nnc.eager(), nnc.lazy()


@given(programs())
def test_a_plan_is_read_back_as_it_was_and_runs_the_same_without_its_graph(drawn: Program) -> None:
    built = drawn.build(LAZY)
    plan: Plan = built.program.plan
    text = plan.text()
    read = Plan.parse(text, LAZY)
    assert read == plan
    assert read.text() == text
    again = EAGER.program(read, built.program._constants, [v.numpy() for v in variables(built)])
    for seed in (0, 1, 0):
        feeds = drawn.feeds(seed)
        with np.errstate(all="ignore"):
            wanted, found = built.program.run(feeds), again.run(feeds)
        assert [a.tobytes() for a in found] == [a.tobytes() for a in wanted]
    state = [v.array for v in again.variables.values()]
    assert [a.tobytes() for a in state] == [v.numpy().tobytes() for v in variables(built)]


def variables(built: Any) -> list[Any]:
    """Those that the program knows, in its order: others are not used in it."""
    known = {v.value.name: v for v in built.variables}
    return [known[name] for name in built.program.variables]


def test_what_the_planner_may_write_down_comes_back() -> None:
    x = LAZY.input("x", (4, 2), "float32")
    plan = LAZY.compile([x], [LAZY.ops.exp(x) @ x.T]).plan
    last = len(plan.instructions) - 1
    rows = (*plan.instructions[:last], evolve(plan.instructions[last], stream=2, waits=(0,), choice="table"))
    windowed = (evolve(plan.slots[0], offset=8, strides=(16, 4)), *plan.slots[1:], Slot(0, Aval((), "bool"), True))
    odd = evolve(
        plan,
        instructions=rows,
        slots=windowed,
        buffers=(*plan.buffers, Buffer("lent", 8, 0, 1, 0, 0), Buffer("donated", 8, 0, 1, 0, 0)),
    )
    assert Plan.parse(odd.text()) == odd
    assert f"{last}: " in odd.text()
    assert odd.text().count("stream 2 after 0") == odd.text().count(", table] : ") == 1


@attrs.frozen
class Pair:
    is_tree = True
    first: Any
    second: Any
    label: str = attrs.field(default="both", metadata={"static": True})


def test_how_the_outputs_are_nested_comes_back() -> None:
    x = LAZY.input("x", (2,), "float64")
    program = LAZY.compile([x], {"a": Pair(x + 1, [x * 2]), "b": (x, None)})
    read = Plan.parse(program.plan.text(), classes=[Pair])
    assert read == program.plan
    found = LAZY.program(read, program._constants)([1.0, 2.0])
    assert found["a"].label == "both"
    np.testing.assert_array_equal(found["a"].second[0], [2.0, 4.0])
    with pytest.raises(GraphError, match=r"line \d+, column \d+: the outputs are nested in a .*Pair; give the class"):
        Plan.parse(program.plan.text())


def test_lines_of_users_are_told_and_plans_are_equal_whatever_they_say() -> None:
    x = LAZY.input("x", (2, 2), "float64")
    program = LAZY.compile([x], LAZY.ops.tanh(x) @ x)
    read = Plan.parse(program.plan.text())
    told = [i.origin for i in read.instructions]
    assert all(line.startswith("test_plan_text.py:") and name.startswith("test_lines") for line, name in told)
    assert Plan.parse("\n".join(row.partition("#")[0] for row in program.plan.text().splitlines())) == read


# --- by hand: NNC's concrete graph -------------------------------------------------------------------------

CARRIED = """
plan "carried"                     # z = x * y, then x <- z, as often as it is called
%0 = variable "x" : float64[]
%1 = variable "y" : float64[]
@2 = output 0
%2 = multiply(%0, %1) : in @2
commit
%3 = multiply(%0, %1) : in @0
update "x" <- %3
return %2
"""


def test_a_value_is_carried_from_run_to_run() -> None:
    program = EAGER.program(Plan.parse(CARRIED), variables={"x": 0.34, "y": 1.11})
    found = [float(program()) for _ in range(5)]
    np.testing.assert_allclose(found, [0.34 * 1.11**n for n in range(1, 6)], rtol=1e-14)
    assert float(program.variables["x"].array) == found[-1]


def test_a_gradient_written_by_hand() -> None:
    """d(x·y⁵)/dx = y⁵: the backward pass is instructions like any other."""
    rows = ['plan "backward"', "@0 = output 0", "@1 = arena at 0", "@2 = arena at 64"]
    rows += ['%0 = input "y" : float64[]', "%1 = constant : float64[]"]
    homes = (1, 2, 1, 2, 0)
    rows += [f"%{n + 2} = multiply(%{n + 1}, %0) : in @{homes[n]}" for n in range(5)]
    plan = Plan.parse("\n".join([*rows, "return %6"]))
    assert plan.arena_bytes == 128
    np.testing.assert_allclose(EAGER.program(plan, [1.0])(1.11), 1.11**5, rtol=1e-15)


def test_memory_is_where_it_is_written_to_be() -> None:
    """e = (a·b)·d with a: 1×2, b: 2×1: b is bound, so the arena holds c = a·b alone; in place is a choice, too."""
    text = """plan "bound"
    @0 = arena at 0
    @1 = output 0
    %0 = input "a" : float32[1, 2]
    %1 = constant : float32[2, 1]
    %2 = input "d" : float32[1, 1]
    %3 = matmul(%0, %1) : in @0
    %4 = {last} : in @{home}
    {more}return {out}"""
    plain = text.format(last="multiply(%3, %2)", home=1, more="", out="%4")
    plan = Plan.parse(plain)
    assert (plan.arena_bytes, plan.buffers[0].nbytes, plan.buffers[0].upper) == (64, 4, 2)
    a, b = np.float32([[1.1, 11003]]), np.float32([[-1], [-0.12]])
    found = EAGER.program(plan, [b])(a, np.float32([[0.5]]))
    np.testing.assert_allclose(found, [[-(11003 * 0.12 + 1.1) * 0.5]], atol=1e-2)
    in_place = text.format(last="multiply(%3, %2)", home=0, more="%5 = copy(%4) : in @1\n", out="%5")
    np.testing.assert_array_equal(EAGER.program(Plan.parse(in_place), [b])(a, np.float32([[0.5]])), found)


def test_a_logarithm_read_through_an_alias() -> None:
    plan = Plan.parse("""plan "alias"
    @0 = arena at 0
    @1 = output 0
    %0 = input "a" : float64[1]
    %1 = log(%0) : in @0
    %2 = reshape(%1, shape=(1, 1)) [view] : in @0
    %3 = expand_dims(%2, axis=(0,)) [view] : in @0
    %4 = copy(%3) : in @1
    return {"log": %4}""")
    found = LAZY.program(plan)(np.array([2.34]))["log"]
    assert found.shape == (1, 1, 1)
    np.testing.assert_allclose(found, np.log(2.34), rtol=1e-15)


def test_commands_and_operands_are_exchanged_as_data() -> None:
    plan = Plan.parse(CARRIED)
    add = Plan.parse(CARRIED.replace("multiply", "add")).instructions[0]
    changed = evolve(plan, instructions=(add, plan.instructions[1]))
    assert float(EAGER.program(changed, variables=[2.0, 3.0])()) == 5.0


def test_an_update_that_is_fresh_is_swapped_in() -> None:
    plan = Plan.parse("""plan "swapped"
    %0 = variable "w" : float64[2]
    %1 = input "x" : float64[2]
    @2 = next 0
    %2 = add(%0, %1) : in @2
    update 0 <- %2
    return flat""")
    w = LAZY.variable("w", [1.0, 2.0])
    program = LAZY.program(plan, variables=[w])
    assert program([1.0, 1.0]) == []
    assert w.numpy().tolist() == [2.0, 3.0]


@pytest.mark.parametrize("stack", [nnc.eager(), nnc.lazy(), nnc.lazy().swap(device=nnc.Null())])
def test_a_plan_runs_on_any_stack_with_memory(stack: Any) -> None:
    program = stack.program(Plan.parse(CARRIED, stack), variables={"x": 1.0, "y": 2.0})
    assert program.plan.name == "carried"
    assert stack.device.aval(program()) == Aval((), "float64")


def test_users_operators_are_known_by_their_stack() -> None:
    stack = LAZY.swap(type=LAZY.type.with_ops(twofold))
    text = 'plan "own"\n@0 = output 0\n%0 = input "x" : float64[2]\n%1 = twofold(%0) : in @0\nreturn %1'
    assert EAGER.program(Plan.parse(text, stack))([1.0, 2.0]).tolist() == [2.0, 4.0]
    with pytest.raises(GraphError, match=r"line 4, column 6: no operator 'twofold' in this stack"):
        Plan.parse(text)


@operator(
    shape=LAZY.type.ops["exp"].shape,
    dtype=LAZY.type.ops["exp"].dtype,
    derivative=LAZY.type.ops["exp"].derivative,
    kernels=reference(lambda xp, x: x * 2),
)
def twofold(x: Any, /) -> Any:
    """Twice the value."""


# --- refused -----------------------------------------------------------------------------------------------

GOOD = """plan "good" arena 64 align 64
@0 = input 0 : 8 bytes
@1 = arena at 0 : 8 bytes alive [0, 2)
@2 = output 0 : 8 bytes
%0 = input "x" : float32[2] in @0
0: %1 = exp(%0) [exp] : float32[2] in @1
1: %2 = add(%1, %0) [add] : float32[2] in @2
return %2"""


def test_the_text_that_is_damaged_below_is_right() -> None:
    assert Plan.parse(GOOD).verify().text().splitlines()[0] == GOOD.splitlines()[0]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (GOOD, "", r"line 1: an empty text is no plan"),
        ("plan", "graph", r"line 1, column 1: wanted 'plan', found 'graph'"),
        ("align 64", "align 0", r"line 1, column \d+: an alignment is at least 1 byte"),
        ("@1 =", "@3 =", r"line 3, column 1: the next buffer is @1"),
        ("arena at 0", "arena 0", r"line 3, column 12: wanted 'at', found '0'"),
        ("8 bytes alive", "8.5 bytes alive", r"line 3, column 19: wanted an integer, found '8.5'"),
        ("[0, 2)", "[0, 2]", r"line 3, column 38: wanted '\)', found '\]'"),
        ("%1 = exp(%0)", "%0 = exp(%0)", r"line 6, column 4: %0 is defined twice"),
        ("%1 = exp(%0)", "%1 = exp(%7)", r"line 6, column 13: %7 is not defined above"),
        ("exp(%0)", "exp(%0, base=2)", r"line 6, column 12: exp has no parameter 'base'"),
        ("exp(%0)", "expo(%0)", r"line 6, column 9: no operator 'expo' in this stack"),
        ("exp(%0)", "__import__(%0)", r"line 6, column 9: no operator '__import__'"),
        ("add(%1, %0)", "add(%1, %0, %0)", r"instruction 1 \(add at <text>:7 in good\) is refused: .* given 3"),
        ("add(%1, %0) [add] : float32[2]", "add(%1) :", r"line 7, column 9: add\(float32\[2\]\): add takes 2 tensors"),
        ("in @1", "in @9", r"line 6, column 39: @9 is not defined above"),
        ("1: %2", "3: %2", r"line 7, column 1: this is instruction 1"),
        ("%2 = add", "%3 = add", r"line 8, column 8: %2 is not defined above"),
        ("return %2", 'update "w" <- %2\nreturn %2', r"line 8, column 8: no variable 'w' was defined above"),
        ("\nreturn %2", "", r"line 7, column 1: the last line is `return …`: the text is not complete"),
        ("return %2", "return %2 %2", r"line 8, column 11: '%2' is too much"),
        ("in @2\n", "in @2 strides 8\n", r"line 7, column \d+: strides are a tuple of integers, in bytes"),
        ("output 0", "heap 0", r"line 4, column 1: @2 is of kind 'heap'; kinds are arena, input"),
        ("output 0", "output 1", r"line 4, column 1: @2 is output 1, of which there are 1, from 0 on"),
        ("arena at 0", "arena at 3", r"line 3, column 1: @1 is at 3, which is no multiple of the alignment, 64"),
        ("alive [0, 2)", "alive [2, 2)", r"line 3, column 1: @1 is alive in \[2, 2\), which is never"),
        ('input "x"', 'input "x" "y"', r"line 5, column 16: wanted ':', found '\"y\"'"),
    ],
)
def test_a_wrong_text_is_refused_where_it_is_wrong(old: str, new: str, words: str) -> None:
    assert old in GOOD
    with pytest.raises((GraphError, PlanError), match=words):
        Plan.parse(GOOD.replace(old, new, 1)).verify()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("add(%1, %0) [add]", "add(%1, %0) [blas]", r"instruction 1 \(add at <text>:7 in good\) has no kernel 'blas'"),
        ("float32[2] in @1", "float32[3] in @1", r"instruction 0 \(exp at <text>:6 in good\).*12 bytes, but buffer 1"),
        ("[add] : float32", "[add] : int32", r"gives float32\[2\], but int32\[2\] is written"),
        ("alive [0, 2)", "alive [0, 1)", r"instruction 1 .* reads slot 1 in buffer 1, which is alive in \[0, 1\) only"),
        ("arena 64", "arena 0", r"buffer 1 takes bytes \[0, 8\) of an arena of 0"),
        ("in @2", "in @0", r"instruction 1 .* writes to buffer 0 \(input 0\)"),
        ("return %2", "return %1", r"output 0 is slot 1, which lives in buffer 1; it must be copied"),
    ],
)
def test_a_plan_written_by_hand_is_verified_before_it_runs(old: str, new: str, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        EAGER.program(Plan.parse(GOOD.replace(old, new, 1)))


def test_what_is_given_beside_a_plan_must_fit_it() -> None:
    plan = Plan.parse(CARRIED)
    for given_, words in (
        ({"x": 1.0}, r"the plan 'carried' has the variables \['x', 'y'\], given \['x'\]"),
        ([1.0], r"has 2 variables \['x', 'y'\], given 1"),
    ):
        with pytest.raises(PlanError, match=words):
            EAGER.program(plan, variables=given_)
    with pytest.raises(ShapeError, match=r"variable 'x' of the plan 'carried' is float64\[\], given .*\[2\]"):
        EAGER.program(plan, variables=[[1.0, 2.0], 1.0])
    with pytest.raises(DTypeError, match=r"variable 'y' .* is float64\[\], given float32\[\]; cast it first"):
        EAGER.program(plan, variables=[1.0, np.float32(1)])
    with pytest.raises(PlanError, match=r"the plan 'carried' has 0 constants, given 1"):
        EAGER.program(plan, [1.0], [1.0, 1.0])
    checked = LAZY.swap(engine=LAZY.engine.checking_numerics())
    with pytest.raises(PlanError, match=r"writes variables in place from instruction 1 on, where a check"):
        checked.program(plan, variables=[1.0, 1.0])


def test_a_device_without_memory_or_without_the_kernel_refuses() -> None:
    plan = Plan.parse(GOOD)
    with pytest.raises(DeviceError, match=r"has no memory to plan in"):
        EAGER.swap(device=nnc.Strict()).program(plan)
    exp = evolve(LAZY.type.ops["exp"], kernels=(reference(lambda xp, x: xp.exp(x), namespaces=frozenset({"cupy"})),))
    rows = (evolve(plan.instructions[0], op=exp, kernel="reference"), *plan.instructions[1:])
    with pytest.raises(DeviceError, match=r"instruction 0 \(exp at .*\) wants the kernel 'reference', which NumPy"):
        EAGER.program(evolve(plan, instructions=rows))


def test_an_arena_that_cannot_be_had_is_a_refusal() -> None:
    with pytest.raises(PlanError, match=r"the plan 'good' cannot be bound to NumPy\(\): .*Error"):
        EAGER.program(Plan.parse(GOOD.replace("arena 64", f"arena {1 << 58}")))
    assert isinstance(EAGER.device, NumPy)


def test_a_plan_with_a_nan_is_read_back_as_it_was() -> None:
    x = LAZY.input("x", (2, 2), "int64")
    zero = LAZY.ops.bitwise_xor(x, x)
    plan = LAZY.compile([x], LAZY.ops.log(zero) * zero).plan
    assert "nan" in plan.text()
    assert Plan.parse(plan.text(), LAZY) == plan


def test_a_line_of_a_file_whose_name_has_spaces_is_read_back() -> None:
    names: dict[str, Any] = {"x": LAZY.input("x", (3,)), "LAZY": LAZY}
    exec(compile("def loss(x):\n    return LAZY.ops.exp(x)", "/of mine/my model.py", "exec"), names)
    plan = LAZY.compile([names["x"]], names["loss"](names["x"])).plan
    assert "# my model.py:2 in loss" in plan.text()
    assert Plan.parse(plan.text(), LAZY).text() == plan.text()


def test_a_number_that_a_rule_makes_names_no_line_of_the_rule() -> None:
    """`x + x` is made 2·x: found by a fresh seed, whose next program had that 2."""
    x = LAZY.input("x", (3,), "int32")
    nodes = LAZY.compile([x], x + x).graph.nodes
    assert any(n.op.name == "constant" or n.op.name == "full" for n in nodes)
    assert not [file for n in nodes for file, _, _ in lines(n.origin) if "rule" in file]
