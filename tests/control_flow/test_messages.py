"""Bad uses of loops and branches: what messages say (`control_flow/messages`, `control_flow/slices`)."""

from __future__ import annotations

import dataclasses
from functools import partial, wraps
from typing import Any

import attrs
import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.control_flow.messages import check_body, whose
from nnc_func.errors import (
    DeviceError,
    DTypeError,
    GraphError,
    OperatorError,
    RunError,
    ShapeError,
    TracingError,
    UnboundError,
)

LAZY, EAGER = nnc.lazy(), nnc.eager()
every = pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
ONES = np.ones(3)


def step(carry: Any, x: Any) -> Any:
    yield carry, x


STEP = rf"step at test_messages.py:{step.__code__.co_firstlineno}\)"
HERE = r"<lambda> at test_messages.py:\d+\)$"


@attrs.frozen
class Opaque:
    x: Any


@dataclasses.dataclass
class Plain:
    x: Any


OPAQUE = [  # what is given objects whose fields could be tensors, and no tree
    lambda s, v: s.cond(True, lambda c: c.x, lambda c: c.x, v),
    lambda s, v: s.case_of(0, [lambda c: c.x], {"a": v}),
    lambda s, v: s.cond(True, lambda: v, lambda: v),
    lambda s, v: s.foreach(lambda x, c: (None, c), ONES, v),
    lambda s, v: s.foreach(lambda x, c: (v, c), ONES, 0.0),
    lambda s, v: s.foreach(lambda x, c: (None, c), v, 0.0),
    lambda s, v: s.while_loop(lambda c: False, lambda c: (None, c), (v,)),
    lambda s, v: s.fori(0, 2, lambda i, c: v, 0.0),
    lambda s, v: s.map(lambda x: x.x, v),
]


@every
@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        # a carry that changes
        (lambda s: s.fori(0, 3, lambda i, t: t[:1], np.ones(2)), OperatorError,
         r"a carry keeps its shape: state is \(2,\), and \(1,\) after the body; start with .* \(fori of " + HERE),
        (lambda s: s.fori(0, 3, lambda i, t: {"b": t["a"]}, {"a": ONES}), OperatorError,
         r"a state keeps its structure: it is {'a': \*}, and {'b': \*} after the body; return a tree as it is given"),
        (lambda s: s.fori(0, 3, lambda i, t: None, ONES), OperatorError, "it is one tensor, and None after the body"),
        (lambda s: s.fori(0, 3, lambda i, t: {"h": "a"}, {"h": ONES}), OperatorError, "^state at h is a str; wanted a"),
        (lambda s: s.fori(0, 3, lambda i, t: t, object()), OperatorError, "^state is a object; wanted a tensor"),
        (lambda s: s.scan(lambda c, x: ({"h": [c["h"][0] + 1.5]}, x), {"h": [np.arange(2)]}, ONES), OperatorError,
         r"carry at h.0 is int64, and float64 after the body; cast one: x.astype\('int64'\) \(scan of " + HERE),
        (lambda s: s.foreach(lambda x, t: (x, (t, t)), ONES, 0.0), OperatorError, r"and \(\*, \*\) after the body"),
        (lambda s: s.while_loop(lambda d: d["j"] < 3, lambda d: (None, {"i": d["j"]}), {"j": 0}), OperatorError,
         r"a variable keeps its structure: it is {'j': \*}, and {'i': \*}"),
        # extents and lengths
        (lambda s: s.scan(lambda c, x: (c, x["a"]), 0.0, {"a": ONES, "b": np.ones(4)}), ShapeError,
         r"one extent along axis 0, given xs at a: 3, xs at b: 4 \(scan of " + HERE),
        (lambda s: s.foreach(lambda x, c: (x[0], c), [ONES, np.ones(4)], 0.0), ShapeError,
         "data at 0: 3, data at 1: 4"),
        (lambda s: s.scan(lambda c, x: (c, c), 0.0, ONES, length=5), ShapeError, "given length=5, xs: 3"),
        (lambda s: s.scan(lambda c, x: (c, c), 0.0, None, length=-2), ShapeError, r"given length=-2 \(scan of " + HERE),
        (lambda s: s.scan(lambda c, x: (c, c), 0.0), TypeError, "xs"),
        (lambda s: s.scan(lambda c, x: (c, None), 0.0, None), OperatorError, "wants length=, the number of steps"),
        (lambda s: s.scan(lambda c, x: (c, None), 0.0, None, length=2.5), DTypeError, "length is an integer, .* 2.5"),
        (lambda s: s.scan(lambda c, x: (c, x), 0.0, {"a": 1.0}), ShapeError,
         r"axis 0: xs at a has none, .* \(\); what"),
        (lambda s: s.scan(lambda c, x: (c, x), 0.0, {"a": object()}), OperatorError, "xs at a is a object; wanted"),
        (lambda s: s.scan(lambda c, x: (c, x), 0.0, np.ones((2, 3)), axis=5), ShapeError,
         r"axis 5: xs has none, .*2, 3"),
        (lambda s: s.scan(lambda c, x: (c, {"y": x.sum()}), 0.0, np.ones((2, 3)), axis=1), ShapeError,
         r"outputs are stacked along axis=1, .*: output at y of one step has shape \(\), .* with ops.permute_dims"),
        # predicates and indices
        (lambda s: s.cond(ONES > 0, lambda: 1, lambda: 2), ShapeError, r"given shape \(3,\); take all\(\) or any\(\)"),
        (lambda s: s.cond(None, lambda: 1, lambda: 2), OperatorError,
         "the condition of cond is one truth value, .*None"),
        (lambda s: s.while_loop(lambda v: v < 3, lambda v: (None, v), ONES, 3), ShapeError, r"\(while_loop of " + HERE),
        (lambda s: s.while_loop(lambda v: None, lambda v: (None, v), 0, 3), OperatorError, "None: is there a return"),
        (lambda s: s.case_of(0, []), OperatorError, r"a list of functions, given \[\]"),
        (lambda s: s.case_of(0.5, [lambda: 1]), DTypeError, r"an integer, or a tensor of one, given float64\[\]"),
        # branches that differ
        (lambda s: s.cond(True, lambda: {"a": 1.0}, lambda: None), OperatorError,
         r"branches of cond give alike: else gives None \(cond of .*\), then gives {'a': \*} \(cond of .*return trees"),
        (lambda s: s.cond(True, lambda: {"a": s.ops.zeros(shape=(2,))}, lambda: {"a": s.ops.zeros(shape=(3,))}),
         OperatorError, r"the result at a is \(3,\) in else, \(2,\) in then; broadcast one \(cond of " + HERE),
        (lambda s: s.case_of(0, [lambda: s.asarray(1.0), lambda: s.asarray(1)]), OperatorError,
         r"the result is float64 in branch 0, int64 in branch 1; cast one: x.astype\('float64'\) \(case_of of " + HERE),
        # what is no tensor
        (lambda s: s.scan(lambda c, x: (c, {"k": [x, object()]}), 0.0, ONES), OperatorError,
         "an output at k.1 is a obj"),
        (lambda s: s.foreach(lambda x, c: ("a", c), ONES, 0.0), OperatorError, "an output is a str; wanted a tensor"),
        (lambda s: s.map(lambda x: {"p": ["a", x]}, ONES), OperatorError, "an output at p.0 is a str"),
        (lambda s: s.map(lambda x: {"p": ["a", x]}, ONES, batch=2), OperatorError, "an output at p.0 is a str"),
        (lambda s: s.cond(True, lambda: "a", lambda: "b"), OperatorError, r"a result is a str; .* \(cond of " + HERE),
        (lambda s: s.cond(True, lambda c: 1.0, lambda c: 2.0, "abc"), OperatorError,
         r"operand at 0 is a str; wanted a tensor, an array, a number, or a tree \(cond of " + HERE),
        (lambda s: s.case_of(0, [lambda a, b: 1.0], 1.0, [1, object()]), OperatorError,
         r"operand at 1.1 is a object; .* \(case_of of " + HERE),
        # bodies that return no pair, generators, None, and other arguments
        (lambda s: s.scan(lambda c, x: None, 0.0, ONES), OperatorError, "and an output; given None: is there a return"),
        (lambda s: s.scan(lambda c, x: c, 0.0, ONES), OperatorError, "given a Tensor"),
        (lambda s: s.scan(lambda c, x: (c, x, x), 0.0, ONES), OperatorError, "given a tuple of 3"),
        (lambda s: s.scan(step, 0.0, ONES), OperatorError,
         "a generator: write return in place of yield .scan of " + STEP),
        (lambda s: s.map(lambda x: (y for y in [x]), ONES), OperatorError, "an output is a generator: write return"),
        (lambda s: s.while_loop(lambda i: i < 3, lambda i: i, 0, 3), OperatorError, "given a Tensor .while_loop of"),
        (lambda s: s.scan(None, 0.0, ONES), OperatorError, "scan wants a function of tensors, given None"),
        (lambda s: s.fold(None, 0.0, ONES), OperatorError, "fold wants a function"),
        (lambda s: s.scan(lambda c: (c, c), 0.0, ONES), OperatorError,
         r"function of scan is called with \(carry, x\), and takes \(c\); write it with as many .* \(scan of " + HERE),
        (lambda s: s.foreach(lambda x: x, ONES, 0.0), OperatorError, r"called with \(x, states\), and takes \(x\)"),
        (lambda s: s.while_loop(lambda i: i < 3, lambda i, j: (None, (i, j)), (0, 1)), OperatorError,
         r"the condition of while_loop is called with \(v0, v1\), and takes \(i\)"),
        (lambda s: s.while_loop(lambda i, j: i < 3, lambda i: (None, i), (0, 1)), OperatorError,
         "the body of while_loop"),
        (lambda s: s.fori(0, 2, lambda i: i, 0), OperatorError, r"body of fori is called with \(i, state\)"),
        (lambda s: s.map(lambda x, y: x, ONES), OperatorError, r"map is called with \(x0\), and takes \(x, y\)"),
        (lambda s: s.cond(True, lambda: 1, lambda a: a), OperatorError, r"else of cond is called with \(\), and takes"),
        (lambda s: s.case_of(0, [lambda a: a], 1, 2), OperatorError,
         r"branch 0 of case_of is called with \(operand0, op"),
        (lambda s: s.associative_scan(lambda a: a, ONES), OperatorError, r"called with \(a, b\), and takes \(a\)"),
        (lambda s: s.fixed_point(lambda x: x, 1.0, 2.0), OperatorError, r"called with \(x, a0\), and takes \(x\)"),
        (lambda s: s.loop_until([lambda c: c, lambda m: m, lambda m, x: m], 0.0), OperatorError,
         r"segment 0 of loop_until is called with \(carry, x\), and takes \(c\)"),
        (lambda s: s.loop_until([lambda c, x: (c, 1), lambda: 1, lambda m, x: m], 0.0), OperatorError,
         "exit 0 of loop_"),
    ],
)  # fmt: skip
def test_bad_uses(stack: Any, call: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        call(stack)


@every
@pytest.mark.parametrize("kind", [Opaque, Plain])
@pytest.mark.parametrize("call", OPAQUE)
def test_fields_that_are_no_tree(stack: Any, call: Any, kind: Any) -> None:
    named = kind.__name__
    said = rf" is a {named}; .*; where the fields of a {named} are tensors, say so in its class: is_tree = True \("
    with pytest.raises(OperatorError, match=said + r"\w+ of <lambda> at test_messages.py"):
        call(stack, kind(stack.asarray(ONES)))


@pytest.mark.parametrize("unroll", [2, True])
def test_steps_that_are_not_known_are_not_written_out(unroll: Any) -> None:
    xs = LAZY.input("x", ("n",), "float64")
    said = (
        rf"unroll={unroll} the number of steps must be known .* it is n: leave unroll= out, or .* \(foreach of {HERE}"
    )
    with pytest.raises(OperatorError, match=said):
        LAZY.foreach(lambda x, c: (x, c), xs, 0.0, unroll=unroll)


# --- values that are asked for while a body is traced ----------------------------------------------------------


@every
def test_values_that_are_not_known_tell_the_line_and_what_to_write(stack: Any) -> None:
    def decides(c: Any, x: Any) -> Any:
        return (c, x) if x > 0 else (c, -x)

    for f, said in (
        (decides, r"bool\(\), if, while, .* \(at test_messages.py:\d+ in decides\), which are not known: "
         r"choose with stack.cond\(pred, then,"
         r" else_\), go on with stack.while_loop, or let stack.jit\(f, control_flow=True\) write these"),
        (lambda c, x: (c + float(x), x),
         r"float\(\) needs .*, float64\[\] .* not known: compute with the tensor itself"),
        (lambda c, x: ([1, 2][x.astype("int64")], x),
         "an index needs .* with ops.take, choose functions with stack.case_"),
        (lambda c, x: (c, x.numpy() * 2),
         r"the value of float64\[\] is not known .* \(at test_messages.py:\d+ in <lambda>"
         r"\): return it from the function"),
    ):  # fmt: skip
        with pytest.raises(TracingError, match=said):
            stack.scan(f, 0.0, ONES)


@every
def test_a_branch_that_is_none_is_told_without_the_bodies_of_others(stack: Any) -> None:
    index = stack.asarray(5)
    with pytest.raises(RunError, match=r"index 5 chooses none of 2 branches, 0 to 1, .* such as nnc.bypass") as caught:
        stack.case_of(index, [lambda x: stack.ops.sin(x) * 2 + x, lambda x: x * 2 + 1 - x * x], 3.0).numpy()
    assert "multiply" not in str(caught.value)
    assert len(str(caught.value)) < 500


@every
def test_effects_are_refused_where_functions_only_compute(stack: Any) -> None:
    def shown(*given: Any) -> Any:
        stack.ops.print(given[0])
        return given[0]

    with pytest.raises(GraphError, match=r"the function of associative_scan, which is applied to pairs .* no order"):
        stack.associative_scan(shown, ONES)
    with pytest.raises(GraphError, match=r"the function of fixed_point, whose derivative computes it once more"):
        stack.fixed_point(shown, 1.0)


def test_a_loop_that_reads_what_has_no_value_names_it() -> None:
    weights = LAZY.input("weights", (), "float64")
    with pytest.raises(UnboundError, match="depends on the input 'weights'"):
        LAZY.scan(lambda c, x: (c + weights * x, None), 0.0, ONES)[0].numpy()


@pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])
def test_what_is_no_number_is_refused_within_a_body(stack: Any) -> None:
    for f in (lambda c, x: (stack.ops.add(c, "v"), None), lambda c, x: (c, stack.ops.maximum(x, [object()]))):
        with pytest.raises(DeviceError, match="numbers"):
            stack.scan(f, 0.0, np.ones(3))


# --- whose function it is --------------------------------------------------------------------------------------


def test_functions_of_every_kind_are_named() -> None:
    class Called:
        def __call__(self, carry: Any, x: Any) -> Any:
            return carry, x

    assert whose("scan", partial(step, 1)).endswith(f"{STEP[:-2]})")
    assert whose("scan", max) == " (scan of max)"
    assert whose("scan", Called()) == " (scan of Called)"
    for f in (max, Called(), partial(step, 1)):
        check_body(f, "scan", ["x"] if isinstance(f, partial) else ["carry", "x"])

    @wraps(step)
    def given_more(x: Any) -> Any:
        return step(0, x)

    check_body(given_more, "map", ["x"])  # what wraps a function may take other arguments
    with pytest.raises(OperatorError):
        check_body(given_more, "scan", ["carry", "x"])
