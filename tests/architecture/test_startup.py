"""The first value of a process imports what it needs (`garbage_collection`, `loading`, `graph/composites`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATH = """
import sys
import attrs, numpy as np
before = set(sys.modules)
a = np.ones(2, 'float32')
import nnc_func as nnc
found = {code}
assert found.tolist() == [2.0, 2.0], found
print(*sorted(set(sys.modules) - before))
"""
UNNEEDED = {  # for few, and imported when they ask: hashes of large constants, files, texts, tuning, what goes wrong
    "dataclasses",
    "difflib",
    "hashlib",
    "json",
    "pathlib",
    "string",
    "urllib",
    "zipfile",
    "nnc_func.archives",
    "nnc_func.array_api",
    "nnc_func.batching",
    "nnc_func.control_flow.branches",
    "nnc_func.control_flow.breakpoints",
    "nnc_func.control_flow.fixed_points",
    "nnc_func.control_flow.growing",
    "nnc_func.control_flow.prefixes",
    "nnc_func.control_flow.while_loops",
    "nnc_func.engine.drawing",
    "nnc_func.engine.files",
    "nnc_func.engine.growing",
    "nnc_func.engine.incremental",
    "nnc_func.engine.inspecting.profile",
    "nnc_func.engine.inspecting.summary",
    "nnc_func.engine.planning.budgets",
    "nnc_func.engine.rematerialising",
    "nnc_func.engine.tuning.autotune",
    "nnc_func.engine.tuning.machine",
    "nnc_func.engine.verifying",
    "nnc_func.graph.composites",
    "nnc_func.graph.onnx_export",
    "nnc_func.graph.text.files",
    "nnc_func.graph.formulas.formula",
    "nnc_func.graph.fragments",
    "nnc_func.graph.history",
    "nnc_func.graph.text.parsing",
    "nnc_func.graph.pictures.graphs",
    "nnc_func.graph.text.writing",
    "nnc_func.graph.formulas.typesetting",
    "nnc_func.models",
    "nnc_func.nn.training",
    "nnc_func.onnx",
    "nnc_func.testing",
}


@pytest.mark.parametrize("code", ["nnc.lazy().jit(lambda x: x + 1)(a)", "nnc.eager().ops.add(a, 1).numpy()"])
def test_the_first_value_imports_no_more_than_it_needs(code: str) -> None:
    program = PATH.format(code=code)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    imported = done.stdout.split()
    assert "nnc_func.stacks" in imported
    assert [name for name in imported if {name, *_above(name)} & UNNEEDED] == []


def test_a_composite_imports_no_family_but_those_that_it_is_made_of() -> None:
    program = PATH.format(code="nnc.eager().ops.zeros_like(nnc.eager().asarray(a)[:]).numpy() + 2")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    families = {name.split(".")[3] for name in done.stdout.split() if name.startswith("nnc_func.graph.composites.")}
    assert families == {"creation", "entries", "extents", "indexing", "keys", "searching"}


def _above(name: str) -> list[str]:
    """The packages in which a module lies."""
    parts = name.split(".")
    return [".".join(parts[:i]) for i in range(1, len(parts))]


def apart(program: str) -> None:
    """Run it in a process of its own: what it freezes, or sets free, is there for all tests behind it."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_what_is_kept_is_put_with_the_old_at_once() -> None:
    apart("""
import gc
from nnc_func.garbage_collection import long_lived
gc.unfreeze()  # Python 3.12 begins with some that are frozen
with long_lived():
    assert not gc.isenabled()
    made = [[] for _ in range(5000)]
assert gc.isenabled()
assert gc.get_freeze_count() == 0
old = set(map(id, gc.get_objects(generation=2)))
assert all(id(each) in old for each in made)
""")


def test_what_a_user_has_frozen_or_switched_off_stays_so() -> None:
    apart("""
import gc
from nnc_func.garbage_collection import long_lived, uncollected
gc.freeze()
count = gc.get_freeze_count()
with long_lived():
    made = [[] for _ in range(10)]
assert gc.get_freeze_count() == count > len(made)
gc.unfreeze()
gc.disable()
with long_lived():
    pass
with uncollected():
    pass
assert not gc.isenabled()
""")


def test_no_full_collection_while_a_function_is_traced_and_as_before_afterwards() -> None:
    apart("""
import gc, threading
import numpy as np
import nnc_func as nnc
from nnc_func.garbage_collection import NEVER, no_full_collections
usual, met = gc.get_threshold(), []
stack = nnc.lazy()
def squared(x):
    met.append(gc.get_threshold())
    return (x * x).sum()
stack.grad(squared)(np.ones(2))
stack.jit(squared)(np.ones(2))
assert met == [(*usual[:2], NEVER)] * 2 and gc.get_threshold() == usual

def failing(x):
    raise KeyError(x)
try:
    stack.grad(failing)(1.0)
except KeyError:
    pass
assert gc.get_threshold() == usual

first, last = threading.Event(), threading.Event()  # the one that began first ends first
def held():
    with no_full_collections():
        first.set()
        last.wait()
thread = threading.Thread(target=held)
with no_full_collections():
    thread.start()
    first.wait()
assert gc.get_threshold() == (*usual[:2], NEVER)
last.set()
thread.join()
assert gc.get_threshold() == usual

with no_full_collections():
    gc.set_threshold(1, 2, 3)
assert gc.get_threshold() == (1, 2, 3), "what others set meanwhile stays"
""")
