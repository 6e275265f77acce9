"""ONNX's tests, lazy or eager: only those of results.txt fail (`onnx/operators`, `onnx/table`, `testing/onnx_backend`).

That file is of one version of onnx. Where another one is installed, few of the tests that it has besides may fail.
``python scripts/onnx_results.py`` writes that file, and `scripts/generate.py` shows it in docs/onnx.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

import nnc_func as nnc
from nnc_func.onnx.table import entries
from nnc_func.testing.onnx_backend import Case, backend, model_cases, node_cases
from tests.onnx.results import kind_of_node, parsed

PARTS = 16
RESULTS = parsed((Path(__file__).parent / "results.txt").read_text(encoding="utf-8"))
KINDS = ("pytorch-converted", "pytorch-operator", "simple")

SAME = onnx.__version__ == RESULTS.version
FEW = 0.05
"""The share of the tests that may fail though results.txt does not say so, and of those of operator sets up to 22."""


def plain() -> list[Case]:
    return [c for c in node_cases() if c.plain]


def check(cases: list[Case], stack: Any) -> None:
    found = {c.name: why for c in cases if (why := c.failure(stack))}
    listed = {c.name for c in cases if c.name in RESULTS.failing}
    others = {n: why for n, why in found.items() if n not in listed}
    if SAME:
        assert others == {}
        assert listed - set(found) == set(), "these pass: run scripts/onnx_results.py"
    else:
        assert len(others) <= FEW * len(cases), others


@pytest.mark.parametrize("number", range(PARTS))
def test_nodes(stack: Any, number: int) -> None:
    check(plain()[number::PARTS], stack)


@pytest.mark.parametrize("kind", KINDS)
def test_models_in_files(stack: Any, kind: str) -> None:
    check(list(model_cases(kind)), stack)


if SAME:  # else there is nothing to compare with

    def test_they_are_counted() -> None:
        counts: dict[str, list[int]] = {}
        for kind, cases in [*((kind_of_node(c.opset), [c]) for c in plain()), *((k, model_cases(k)) for k in KINDS)]:
            found = counts.setdefault(kind, [0, 0])
            found[0] += len(cases)
            found[1] += sum(c.name not in RESULTS.failing for c in cases)
        assert {kind: tuple(each) for kind, each in counts.items()} == RESULTS.counts
        assert set(RESULTS.failing) <= {c.name for c in (*plain(), *(c for k in KINDS for c in model_cases(k)))}


def test_of_plain_nodes_nearly_all_pass() -> None:
    lazy = nnc.lazy()
    failing = set(RESULTS.failing) if SAME else {c.name for c in plain() if c.failure(lazy)}
    passed = [c for c in plain() if c.name not in failing]
    assert len(passed) >= min(1350, (1 - FEW) * len(plain()))  # old versions of onnx have fewer tests
    old = [c for c in plain() if (c.opset or 99) <= 22]
    assert sum(c.name not in failing for c in old) >= (1 - FEW) * len(old)


def test_the_adapter_is_one_that_the_suite_takes(stack: Any) -> None:
    """Names of a few tests through ``onnx.backend.test``'s own runner."""
    made = backend(stack)
    case = next(c for c in node_cases() if c.name == "test_softmax_axis_1")
    assert made.is_compatible(case.model)
    assert not made.supports_device("CUDA")
    prepared = made.prepare(case.model)
    for inputs, wanted in case.data:
        case.similar(wanted, prepared.run(inputs), case.rtol, case.atol)


# --- the table -----------------------------------------------------------------------------------------------


def schemas() -> list[Any]:
    """Of the versions that the table has."""
    have = entries()
    return [s for s in onnx.defs.get_all_schemas_with_history() if s.since_version in have.get((s.domain, s.name), {})]


def test_versions_of_the_table_are_versions_of_onnx() -> None:
    known = {(s.domain, s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history()}
    mine = {(*key, since) for key, versions in entries().items() for since in versions}
    if not SAME:  # an older one has not heard of later versions
        last = {domain: max(s for d, _, s in known if d == domain) for domain, _, _ in known}
        heard = {each[:2] for each in known}
        mine = {each for each in mine if each[:2] in heard and each[2] <= last[each[0]]}
    assert {each for each in mine if each[0] != "example.org"} <= known  # that one is of a docstring


def test_entries_take_what_their_schemas_say() -> None:
    for schema in schemas():
        entry = entries()[schema.domain, schema.name][schema.since_version]
        where = f"{schema.name} of version {schema.since_version}"
        assert entry.variadic or len(entry.inputs) >= len(schema.inputs), where
        assert set(schema.attributes) <= set(entry.attributes), where


def test_defaults_of_attributes_are_those_of_the_schemas() -> None:
    for schema in schemas():
        entry = entries()[schema.domain, schema.name][schema.since_version]
        for name, attribute in schema.attributes.items():
            if attribute.default_value.name:
                value = onnx.helper.get_attribute_value(attribute.default_value)
                wanted = value.decode() if isinstance(value, bytes) else value
                wanted = {"bilinear": "linear"}.get(wanted, wanted) if isinstance(wanted, str) else wanted  # one thing
                found = entry.attributes[name]
                if found is None and (isinstance(wanted, list) or wanted > 3e38 or wanted < -3e38):
                    continue  # the function says itself what stands for it; no bound at all
                same = tuple(found) == tuple(wanted) if isinstance(wanted, list) else found == pytest.approx(wanted)
                assert same, f"{schema.name} of version {schema.since_version}: {name}={found}, not {wanted}"
