"""The table of kernels: what it names runs; it is a value, and is kept in a file (`engine/planning/kernel_table`)."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import nnc_func as nnc
from nnc_func.engine.planning.kernel_table import NO_TABLE, Entry, KernelTable, chosen
from nnc_func.engine.planning.layout_pass import elsewhere, relaid
from nnc_func.engine.tuning.environment import Environment
from nnc_func.errors import KernelTableWarning, PlanError
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.text.literals import quoted
from nnc_func.op import Op
from nnc_func.testing.laws import equal, results
from nnc_func.testing.samples import arguments

LAZY = nnc.lazy()
HERE = Environment.here("NumPy()")
FEW = settings(max_examples=max(3, settings().max_examples // 8))  # kernels are many
texts = st.text("abc", min_size=1, max_size=2)
entries = st.builds(Entry, texts, texts, st.lists(texts, max_size=2).map(tuple), texts)
unique = st.lists(entries, unique_by=lambda e: (e.operator, e.parameters, e.operands), max_size=5)
tables = st.builds(KernelTable, unique, st.sampled_from([None, HERE]))


def entry(op: Op, given_: Any, params: Any, kernel: str) -> Entry:
    return Entry.of(op, op.canonical(params), tuple(map(LAZY.device.aval, given_)), kernel)


def compiled(table: KernelTable, op: Op, given_: Any, params: Any, stack: Any = LAZY) -> Any:
    tuned = stack.swap(engine=stack.engine.with_kernels(table))
    inputs = [tuned.input(f"x{i}", x.shape, x.dtype) for i, x in enumerate(given_)]
    return tuned.compile(inputs, list(results(op, tuned.bind(op, *inputs, **params))))


@pytest.mark.parametrize(
    ("op", "kernel"),
    [(op, k) for op in CATALOGUE.values() for k in op.kernels if len(op.kernels) > 1 and op.view is None],
    ids=lambda each: getattr(each, "name", None),
)
@FEW
@given(data=st.data())
def test_each_kernel_runs_in_a_plan_that_names_it(op: Op, kernel: Any, data: Any) -> None:
    given_, params = data.draw(arguments(op))
    avals = tuple(map(LAZY.device.aval, given_))
    if kernel not in LAZY.device.candidates(op, avals, op.canonical(params)):
        return
    program = compiled(KernelTable([entry(op, given_, params, kernel.name)]), op, given_, params)
    program.plan.verify()
    named = [(i.kernel, i.choice) for i in program.plan.instructions if i.op is op]
    assert named in ([(kernel.name, "table")], [])  # nothing is left of what was rewritten or folded
    assert not named or f"[{quoted(kernel.name)}, table]" in str(program.plan)
    with np.errstate(all="ignore"):
        wanted = results(op, LAZY.device.bind(op, *given_, **params))
        for one, other in zip(program(*given_), wanted, strict=True):
            equal(one, other, op.tolerance.ulps, f"{op}, kernel {kernel.name!r} in a plan")


def product() -> tuple[Op, list[Any]]:
    rng = np.random.default_rng(0)
    return CATALOGUE["matmul"], [rng.random((3, 4)), rng.random((4, 5))]


def test_without_a_table_the_device_chooses() -> None:
    op, given_ = product()
    program = compiled(NO_TABLE, op, given_, {})
    assert [(i.kernel, i.choice) for i in program.plan.instructions] == [("blas", "default")]
    assert ", table]" not in str(program.plan)


def test_an_entry_is_for_its_own_operands_and_parameters_only() -> None:
    op, given_ = product()
    table = KernelTable([entry(op, given_, {}, "reference")])
    square = [given_[0] @ given_[0].T, given_[0] @ given_[0].T]
    for others, params in ((square, {}), ([x.astype("float32") for x in given_], {}), (square, {"transpose_a": True})):
        assert [i.choice for i in compiled(table, op, others, params).plan.instructions] == ["default"]


def test_a_kernel_that_is_not_there_is_passed_over_with_a_warning() -> None:
    op, given_ = product()
    table = KernelTable([entry(op, given_, {}, "of another version")])
    with pytest.warns(KernelTableWarning, match="matmul: 'of another version'"):
        program = compiled(table, op, given_, {})
    assert [(i.kernel, i.choice) for i in program.plan.instructions] == [("blas", "default")]
    np.testing.assert_array_equal(program(*given_)[0], given_[0] @ given_[1])


def test_a_kernel_of_another_namespace_is_passed_over() -> None:
    op = CATALOGUE["conv2d"]
    given_ = [np.ones((1, 4, 4, 2)), np.ones((2, 2, 2, 3))]
    avals = tuple(map(LAZY.device.aval, given_))
    table = KernelTable([entry(op, given_, {}, "columns on cupy")])
    assert chosen(LAZY.device, op, op.canonical({}), avals, table).name == "columns on numpy"
    assert chosen(nnc.Null(like="cupy"), op, op.canonical({}), avals, table).name == "columns on cupy"


def test_null_plans_with_a_table() -> None:
    op, given_ = product()
    table = KernelTable([entry(op, given_, {}, "reference")])
    plan = compiled(table, op, given_, {}, LAZY.swap(device=nnc.Null())).plan
    assert [(i.kernel, i.choice) for i in plan.instructions] == [("reference", "table")]


# --- as a value --------------------------------------------------------------------------------------


@given(tables)
def test_a_table_is_a_value_that_goes_through_pickles_and_files(table: KernelTable) -> None:
    again = KernelTable(reversed(table.entries), table.environment)
    assert again == table
    assert hash(again) == hash(table)
    assert pickle.loads(pickle.dumps(table)) == table
    one, other = (LAZY.swap(engine=LAZY.engine.with_kernels(t)) for t in (table, again))
    assert one == other
    assert pickle.loads(pickle.dumps(one)) == one


def test_a_table_goes_through_a_file(tmp_path: Path) -> None:
    op, given_ = product()
    table = KernelTable([entry(op, given_, {}, "reference"), Entry("f", "", ("x",), "k", ((1, 0),))], HERE)
    table.save(tmp_path / "kernels.json")
    assert KernelTable.load(tmp_path / "kernels.json") == table
    assert "float64[3, 4]" in str(table)
    assert str(HERE) in str(table)


def test_a_table_of_another_environment_is_taken_with_a_warning(tmp_path: Path) -> None:
    table = KernelTable([Entry("f", "", (), "k")], evolve(HERE, processor="another"))
    table.save(tmp_path / "kernels.json")
    with pytest.warns(KernelTableWarning, match="another"):
        assert KernelTable.load(tmp_path / "kernels.json") == table


def test_a_file_of_the_first_format_says_machine(tmp_path: Path) -> None:
    table = KernelTable([Entry("f", "", ("x",), "k", ((1, 0),))], HERE)
    table.save(tmp_path / "kernels.json")
    said = json.loads((tmp_path / "kernels.json").read_text())
    said |= {"format": 1, "machine": said.pop("environment")}
    (tmp_path / "kernels.json").write_text(json.dumps(said))
    assert KernelTable.load(tmp_path / "kernels.json") == table


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no table"),
        ("[]", "holds no table"),
        ('{"format": 1}', "holds no table"),
        ('{"format": 2}', "holds no table"),
        ('{"format": 3}', "format 3"),
        ('{"format": 2, "environment": {"who": 1}, "kernels": []}', "holds no table"),
        ('{"format": 1, "machine": {"who": 1}, "kernels": []}', "holds no table"),
        ('{"format": 1, "machine": null, "kernels": [{"operator": "f"}]}', "holds no table"),
        (json.dumps({"format": 1, "machine": None, "kernels": [
            {"operator": "f", "parameters": "", "operands": [], "kernel": k} for k in "ab"
        ]}), "two kernels"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "kernels.json").write_text(text)
    with pytest.raises(PlanError, match=said):
        KernelTable.load(tmp_path / "kernels.json")


@given(tables, tables)
def test_merging_keeps_both_and_the_others_choices_win(one: KernelTable, other: KernelTable) -> None:
    both = one.merged(other)
    assert set(other.entries) <= set(both.entries)
    keys = {(e.operator, e.parameters, e.operands) for e in other.entries}
    kept = {e for e in one.entries if (e.operator, e.parameters, e.operands) not in keys}
    assert set(both.entries) == kept | set(other.entries)
    assert both.merged(both) == both


def test_tables_of_two_environments_do_not_merge() -> None:
    with pytest.raises(PlanError, match="different environments"):
        KernelTable((), HERE).merged(KernelTable((), evolve(HERE, cores=HERE.cores + 1)))


# --- relayouts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [op for op in CATALOGUE.values() if any(k.layouts for k in op.kernels)], ids=str)
@settings(FEW, max_examples=3 * FEW.max_examples)
@given(data=st.data())
def test_relayouts_that_a_table_asks_for_are_seen_and_change_no_value(op: Op, data: Any) -> None:
    given_, params = data.draw(arguments(op))
    graph = compiled(NO_TABLE, op, given_, params).graph
    for node in [n for n in graph.nodes if n.op is op]:
        avals = tuple(a.aval for a in node.args)
        for kernel, orders in elsewhere(LAZY.device, node):
            moved = [a.having(layout=axes) for a, axes in zip(avals, orders, strict=True)]
            table = KernelTable([
                Entry.of(op, node.items, avals, kernel.name, orders), Entry.of(op, node.items, moved, kernel.name),
            ])  # fmt: skip
            program = compiled(table, op, given_, params)
            program.plan.verify()
            ran = [(i.op.name, i.kernel, i.choice) for i in program.plan.instructions]
            assert (op.name, kernel.name, "table") in ran
            assert "relayout" in [name for name, *_ in ran]
            assert [v.aval for v in program.graph.outputs] == [v.aval for v in graph.outputs]
            with np.errstate(all="ignore"):
                wanted = results(op, LAZY.device.bind(op, *given_, **params))
                for one, other in zip(program(*given_), wanted, strict=True):
                    equal(one, other, op.tolerance.ulps, f"{op}, {kernel.name!r} in the orders {orders}")


def test_a_graph_without_relayouts_in_its_table_is_the_same_graph() -> None:
    op, given_ = product()
    graph = compiled(NO_TABLE, op, given_, {}).graph
    assert relaid(graph, KernelTable([entry(op, given_, {}, "reference")])) is graph


def chain(stack: Any, **facts: Any) -> Any:
    """Two convolutions, one after the other."""
    x = stack.input("x", (2, 4, 6, 6), "float64")
    w = stack.asarray(np.random.default_rng(0).standard_normal((3, 3, 4, 4)))
    once = stack.ops.conv2d(x, w, padding="SAME", data_format="NCHW")
    return stack.compile([x], [stack.ops.conv2d(once, w, padding="SAME", data_format="NCHW")], **facts)


@pytest.mark.parametrize("retain", ["none", "all"])
def test_what_is_converted_back_and_forth_is_not_converted(retain: str) -> None:
    plain = chain(LAZY)
    (node, _) = [n for n in plain.graph.nodes if n.op.name == "conv2d"]
    avals, axes = tuple(a.aval for a in node.args), ((0, 2, 3, 1), (0, 1, 2, 3))
    moved = (avals[0].having(layout=axes[0]), avals[1])
    name = "columns on numpy, reordered"
    table = KernelTable([Entry.of(node.op, node.items, avals, name, axes), Entry.of(node.op, node.items, moved, name)])
    tuned = chain(LAZY.swap(engine=LAZY.engine.with_kernels(table)), **({} if retain == "none" else {"retain": retain}))
    tuned.plan.verify()
    ran = [i.op.name for i in tuned.plan.instructions if not i.view]
    assert [n for n in ran if n != "copy"] == ["relayout", "conv2d", "conv2d", "relayout"]
    x = np.random.default_rng(1).standard_normal((2, 4, 6, 6))
    np.testing.assert_allclose(tuned(x)[0], plain(x)[0], rtol=1e-12, atol=1e-12)
