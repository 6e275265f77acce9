"""The documents run: every docstring's example, the README's code, the tour and the short examples (`nnc_func`)."""

from __future__ import annotations

import doctest
import gc
import importlib
import linecache
import pkgutil
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import nnc_func

ROOT = Path(__file__).parent.parent
OPTIONAL = {"nnc_func.device.gpu"}  # its examples need a GPU
MODULES = sorted(m.name for m in pkgutil.walk_packages(nnc_func.__path__, "nnc_func.") if m.name not in OPTIONAL)


@pytest.mark.parametrize("name", ["nnc_func", *MODULES])
def test_examples_in_docstrings_give_what_they_show(name: str) -> None:
    if ".dynamic" in name:
        gc.collect()  # what other tests left in cycles is alive until then
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert found.failed == 0, f"{found.failed} of {found.attempted} examples in {name} failed: see above"


BLOCK = re.compile(r"```(python|sh)\n(?!# \S+\.py)(.*?)```", re.S)  # not those of files
SLOW = ("--allocator all", "bench allocators zoo")  # minutes each


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/dynamic.md",
        "docs/joint_choice.md",
        "docs/orders.md",
        "docs/nights.md",
        "docs/two_levels.md",
        pytest.param("docs/testing.md", marks=pytest.mark.slow),
    ],
)
def test_the_pages_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Block by block, in one empty folder: what a command reads an earlier block has written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    gc.collect()  # what other tests left in cycles is alive until then
    scope = {"__name__": "page"}
    blocks = BLOCK.findall((ROOT / name).read_text())
    assert blocks
    for language, block in blocks:
        if language == "python":
            linecache.cache[name] = (len(block), None, block.splitlines(keepends=True), name)  # as a file has its lines
            exec(compile(block, name, "exec"), scope)
        else:
            for line in commands(block):
                if not any(part in line for part in SLOW):
                    runs(line)


@pytest.mark.slow
@pytest.mark.parametrize("part", SLOW)
def test_what_takes_minutes_runs_too(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    blocks = BLOCK.findall((ROOT / "README.md").read_text())
    (line,) = (c for language, block in blocks if language == "sh" for c in commands(block) if part in c)
    runs(line)


def commands(block: str) -> list[str]:
    """Those of this library; the two that install something are continuous integration's."""
    return [line for line in block.splitlines() if line.startswith("python -m nnc_func")]


def runs(line: str) -> None:
    done = subprocess.run([sys.executable, *shlex.split(line)[1:]], capture_output=True, text=True)
    assert done.returncode == 0, (line, done.stderr)


def test_continuous_integration_runs_the_commands_of_the_readme() -> None:
    """In the environment of its reader: nothing is said of threads, nor to pytest."""
    script = (ROOT / ".ci" / "run").read_text()
    blocks = [block for language, block in BLOCK.findall((ROOT / "README.md").read_text()) if "pip install" in block]
    assert len(blocks) == 2
    for block in blocks:
        installed, run = block.strip().split(" && ")
        assert installed.removeprefix("pip install") in script
        assert f"step {run}\n" in script
    assert "_THREADS" not in script
    assert "PYTEST_ADDOPTS" not in script


def test_the_program_whose_history_the_readme_prints_has_one(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [block for language, block in BLOCK.findall((ROOT / "README.md").read_text()) if language == "python"]
    printed = next(n for n, block in enumerate(blocks) if ".history)" in block)
    scope: dict[str, object] = {"__name__": "page"}
    for block in blocks[: printed + 1]:
        exec(compile(block, "README.md", "exec"), scope)
    assert "sine_over_cosine: sin(angle)/cos(angle) -> tan(angle)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tour.py", "arena"),
        ("execution.py", "[1.       3.718282]"),
        ("derivatives.py", "differences say 2"),
        ("rules_tutorial.py", "cancel_integers: no counterexample in"),
        ("planning_tutorial.py", "of HTML, the smallest arena by"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_the_tours_run(name: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "docs" / name))
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_the_examples_run(path: Path, tmp_path: Path) -> None:
    options = ["--help"] if path.name == "mnist.py" else []
    done = subprocess.run([sys.executable, str(path), *options], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_results_that_pages_name_are_there() -> None:
    pages = [ROOT / "README.md", ROOT / "bench" / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"results/(\w+\.json)", page.read_text())}
    assert named
    assert not [name for name in sorted(named) if not (ROOT / "bench" / "results" / name).exists()]


def test_every_benchmark_is_told_of_and_wrote_what_there_is() -> None:
    told = (ROOT / "bench" / "README.md").read_text()
    scripts = {path.name: path.read_text() for path in (ROOT / "bench").glob("*.py")}
    assert not [name for name in sorted(scripts) if f"`{name}`" not in told]
    written = set(re.findall(r'"(\w+)(?:\.json)?"', "".join(scripts.values())))  # each name in quotes is enough
    assert {path.stem for path in (ROOT / "bench" / "results").glob("*.json")} <= written


def test_the_tests_that_a_page_names_are_there() -> None:
    """`docs/array_api_suite.md`: a row's second cell names tests, by file, or as of the file named before."""
    files = {path.stem: path.read_text() for path in (ROOT / "tests" / "array_api").glob("test_*.py")}
    rows = re.findall(r"^\| `.*? \| (.*) \|$", (ROOT / "docs" / "array_api_suite.md").read_text(), re.M)
    assert len(rows) > 50
    for row in rows:
        where = ""
        for file, name in re.findall(r"`(?:(test_\w+)\.)?(test_\w+)`", row):
            where = file or (name if name in files else where)
            assert where in files, row
            assert name == where or f"def {name}(" in files[where], (where, name)
