"""No module imports, by any way, what imports it: the checker finds every kind of circle (`nnc_func`)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from scripts.import_circles import ROOT, Edge, circles, circles_of, described, edges, modules


@cache
def _edges() -> list[Edge]:
    known = modules(ROOT, "nnc_func")
    return [edge for name, path in known.items() for edge in edges(name, path, known)]


def test_no_modules_import_one_another() -> None:
    found = circles(_edges())
    assert found == [], described(found)


def _package(folder: Path, **files: str) -> list[list[Edge]]:
    """The circles of a package `p` with these modules; ``__init__`` may be among them."""
    home = folder / "p"
    for name, text in {"__init__": "", **files}.items():
        home.mkdir(exist_ok=True)
        (home / f"{name}.py").write_text(text, encoding="utf-8")
    return circles_of(folder, "p")


@pytest.mark.parametrize(
    "back",
    [
        "import p.a",
        "import p.a as x",
        "from p import a",
        "from p.a import x",
        "from . import a",
        "from .a import x",
        "def f():\n    from p.a import x",
        "class C:\n    def f(self):\n        import p.a",
        "try:\n    import p.a\nexcept ImportError:\n    pass",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    pass\nelse:\n    import p.a",
        "import importlib\nx = lambda: importlib.import_module('p.a')",
        "from importlib import import_module\nx = lambda: import_module('.a', 'p')",
        "NAMES = {'x': f'p.{m}' for m in ('a',)}\n__getattr__, __dir__ = deferred(__name__, NAMES)",
        "A: dict = {n: n for n in ('a',)}\nB = Registry('p', A | {'b': 'b'})",
        "B = Registry('p', {'name': 'a.x'})",
        "class C:\n    f = LateMethod('p.a', 'x')",
    ],
)
def test_each_way_back_is_found(tmp_path: Path, back: str) -> None:
    (found,) = _package(tmp_path, a="from p.b import y", b=back)
    assert {(edge.source, edge.target) for edge in found} == {("p.a", "p.b"), ("p.b", "p.a")}


@pytest.mark.parametrize(
    "back",
    [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import x",
        "def f(module):\n    import importlib\n    return importlib.import_module(module)",
        "x = 'p.a'",
        '"""Examples\n>>> import p.a\n"""',
        "from p.c import z",
    ],
)
def test_what_is_no_way_back_is_not_found(tmp_path: Path, back: str) -> None:
    assert _package(tmp_path, a="from p.b import y", b=back, c="") == []


def test_a_package_shows_what_its_modules_define_without_a_circle(tmp_path: Path) -> None:
    assert _package(tmp_path, __init__="from p.a import x", a="from p.b import y", b="") == []


def test_a_name_taken_of_the_package_in_which_a_module_lies_makes_one(tmp_path: Path) -> None:
    (found,) = _package(tmp_path, __init__="from p.a import x", a="def f():\n    from p import y", b="")
    assert {(edge.source, edge.line, edge.target) for edge in found} == {("p", 1, "p.a"), ("p.a", 2, "p")}


def test_a_circle_of_three_is_one_and_told_with_its_lines(tmp_path: Path) -> None:
    found = _package(tmp_path, a="import p.b", b="\nimport p.c", c="\n\nimport p.a", d="import p.a")
    assert described(found).splitlines() == [
        "circles: 1, of 3 modules",
        "",
        "3 modules: p.a, p.b, p.c",
        "    p.a:1 -> p.b",
        "    p.b:2 -> p.c",
        "    p.c:3 -> p.a",
    ]


def test_names_that_cannot_be_worked_out_are_not_passed_over(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be worked out"):
        _package(tmp_path, a="from q import NAMES\n__getattr__, __dir__ = deferred(__name__, NAMES)")
