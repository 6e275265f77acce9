"""The kit draws the same whatever modules are loaded (`testing/draws`, `testing/agreement`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DRAWN = """
import sys
from hypothesis import strategies as st
sys.path.insert(0, sys.argv[1])
if len(sys.argv) > 2:
    import full_of_numbers
from nnc_func.testing.agreement import drawn
found = []
drawn(st.tuples(st.integers(), st.floats(), st.text()), found.append, 200)
print(hash(repr(found)))
"""


def test_draws_are_the_same_after_another_import(tmp_path: Path) -> None:
    numbers = ", ".join(str(n) for n in range(1_000_003, 1_000_903, 3))
    (tmp_path / "full_of_numbers.py").write_text(f"NUMBERS = [{numbers}, 3.14159]\nTEXT = 'some words of it'\n")
    shown, environment = set(), {**os.environ, "PYTHONHASHSEED": "0"}
    for more in ([], ["loaded"]):
        command = [sys.executable, "-c", DRAWN, str(tmp_path), *more]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
        shown.add(done.stdout)
    assert len(shown) == 1
