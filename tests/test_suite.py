"""How the suite runs: where it begins to draw, on how many cores, and whose warnings are errors (`nnc_func`)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import settings

from nnc_func.config import config
from nnc_func.testing.agreement import drawn
from nnc_func.testing.strategies import programs

ROOT = Path(__file__).parent.parent
DRAWING = """
from hypothesis import given, strategies as st
import pytest
from nnc_func.testing.agreement import drawn

@given(st.integers(0, 10**9))
def test_of_hypothesis(n):
    print("first", n)

@pytest.mark.draws
def test_of_the_kit():
    drawn(st.integers(0, 10**9), lambda n: print("second", n), 20)
"""


# --- where it begins to draw -----------------------------------------------------------------------------


def numbers(folder: Path, seed: str) -> tuple[str, list[str]]:
    """What the header says, and what two tests draw, in a run of its own."""
    (folder / "test_drawing.py").write_text(DRAWING)
    command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", "-p", "tests.conftest", "-c"]
    command += [str(ROOT / "pyproject.toml"), "--rootdir", str(folder), str(folder / "test_drawing.py")]
    environment = {k: v for k, v in os.environ.items() if k not in ("NNC_SEED", "NNC_HYPOTHESIS_PROFILE")}
    environment |= {"NNC_SEED": seed} if seed else {}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    (header,) = re.findall(r"nnc_func: profile ci, seed (\d+);", done.stdout)
    return header, re.findall(r"(?:first|second) \d+", done.stdout)


def test_a_tree_always_draws_the_same_and_a_seed_what_it_drew_before(tmp_path: Path) -> None:
    seed, first = numbers(tmp_path, "")
    assert numbers(tmp_path, "") == (seed, first)
    assert numbers(tmp_path, seed) == (seed, first)
    other, second = numbers(tmp_path, str(int(seed) + 1))
    assert other != seed
    assert {what.split()[0] for what in first} == {"first", "second"}
    for which in ("first", "second"):
        assert [n for n in first if n.startswith(which)] != [n for n in second if n.startswith(which)]


def test_fresh_seeds_are_other_ones(tmp_path: Path) -> None:
    assert numbers(tmp_path, "fresh")[0] != numbers(tmp_path, "fresh")[0]


def test_nothing_is_remembered_between_runs() -> None:
    assert settings().database is None
    assert not settings().derandomize


def test_the_kit_draws_the_same_from_one_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[int, list[str]] = {}
    for seed in (1, 1, 2):
        monkeypatch.setattr(config, "seed", seed)
        listed: list[str] = []
        drawn(programs(), lambda program, listed=listed: listed.append(str(program)), 5)
        assert found.setdefault(seed, listed) == listed
    assert found[1] != found[2]


# --- on how many cores -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "cores"), [([], 7), (["-n", "3"], 3), (["tests/test_suite.py"], None), (["--pdb"], None)], ids=str
)
def test_the_whole_suite_takes_the_cores_unless_it_is_told_otherwise(options: list[str], cores: object) -> None:
    script = (
        "import sys\nimport pytest\n"
        "class Stop:\n"
        "    def pytest_cmdline_main(self, config):\n"
        "        print('cores', config.option.numprocesses)\n"
        "        print('shared out by', config.option.dist); return 0\n"
        "sys.exit(pytest.main(sys.argv[1:], plugins=[Stop()]))\n"
    )
    environment = {**os.environ, "PYTEST_XDIST_AUTO_NUM_WORKERS": "7"}
    command = [sys.executable, "-c", script, *options]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert f"cores {cores}\n" in done.stdout, done.stdout + done.stderr
    assert ("shared out by worksteal\n" in done.stdout) == (not options)


# --- whose warnings are errors ---------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["nnc_func.device.cpu", "tests.graph.test_rules", "page"])
@pytest.mark.parametrize("kind", [DeprecationWarning, RuntimeWarning, ResourceWarning])
def test_a_warning_of_our_own_is_an_error(module: str, kind: type[Warning]) -> None:
    with pytest.raises(kind, match="something"):
        warnings.warn_explicit("something", kind, "file.py", 1, module=module)


@pytest.mark.parametrize("module", ["onnx.backend.test.case.node", "numpy._core", "xdist.workermanage"])
def test_a_warning_of_another_package_is_none(module: str) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.warn_explicit("something", DeprecationWarning, "file.py", 1, module=module)
    assert len(found) <= 1
