"""How files look: short, named after what is in them, and finished (`nnc_func`)."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.throughout import throughout

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 600
FILES = sorted(
    str(path.relative_to(ROOT))
    for folder in ("nnc_func", "tests", "bench", "docs", "examples", "scripts")
    for path in (ROOT / folder).rglob("*.py")
)
LIBRARY = [name for name in FILES if name.startswith("nnc_func/")]
MARKERS = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")  # in pieces: this file is searched, too


def _tree(name: str) -> ast.Module:
    return ast.parse(_text(name))  # anew each time: all trees together are a million objects


@cache
def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_a_file_has_at_most_600_lines() -> None:
    throughout(FILES, is_short)


def is_short(name: str) -> None:
    assert len(_text(name).splitlines()) <= LIMIT


def test_no_merge_is_half_done() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *(ROOT / "docs").rglob("*.md")]
    texts = {**{name: _text(name) for name in FILES}, **{path.name: path.read_text("utf-8") for path in pages}}
    assert [name for name, text in texts.items() if MARKERS.search(text)] == []


def test_no_file_is_named_for_having_no_subject() -> None:
    vague = {"util", "utils", "helper", "helpers", "misc", "common", "tools"}
    assert [name for name in FILES if vague & {*Path(name).with_suffix("").parts}] == []


def test_a_module_says_what_it_is() -> None:
    throughout(FILES, says_what_it_is)


def says_what_it_is(name: str) -> None:
    text = _text(name)
    prose = name.startswith("docs/") and text.startswith("# # ")  # half prose: its title is a comment
    if text.strip() and not prose:  # an empty __init__ makes a folder a package, and is nothing
        doc = ast.get_docstring(ast.parse(text))
        assert doc, "no docstring"
        assert doc.splitlines()[0][-1] in ".:?", "the first line of the docstring is a sentence"


MAPS = sorted(name for name in LIBRARY if name.endswith("/__init__.py") and re.search(r"\n- ``\w+``[,:]", _text(name)))


def test_a_reader_finds_the_rooms_by_maps() -> None:
    folders = {str(Path(name).parent) for name in MAPS}
    read = {"", "device", "device/shared", "engine", "engine/linkers", "engine/planning", "engine/running", "graph"}
    assert {str(Path("nnc_func", each)) for each in read} <= folders


def test_a_map_of_a_folder_names_all_that_is_in_it() -> None:
    throughout(MAPS, is_whole)


def is_whole(name: str) -> None:
    folder = (ROOT / name).parent
    inside = {each.stem for each in folder.iterdir() if each.suffix == ".py" or (each / "__init__.py").exists()}
    named = set(re.findall(r"``(\w+)``", ast.get_docstring(_tree(name)) or ""))
    assert {each for each in inside - named if not each.startswith("__")} == set()


def test_no_comment_promises_later_work() -> None:
    throughout(FILES, promises_nothing)


def promises_nothing(name: str) -> None:
    if not UNFINISHED.search(_text(name)):  # reading its comments alone takes longer
        return
    comments = [
        token for token in tokenize.generate_tokens(io.StringIO(_text(name)).readline) if token.type == tokenize.COMMENT
    ]
    assert [f"{name}:{c.start[0]} {c.string}" for c in comments if UNFINISHED.search(c.string)] == []


def _stubs(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Bodies that do nothing: a bare pass, NotImplementedError, and ``...`` outside of a Protocol."""
    declared = {id(member) for node in ast.walk(tree) if _is_protocol(node) for member in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "NotImplementedError":
            yield node.lineno, "NotImplementedError"
        if isinstance(node, ast.Pass):
            yield node.lineno, "pass"
        overload = isinstance(node, ast.FunctionDef) and any("overload" in ast.unparse(d) for d in node.decorator_list)
        if isinstance(node, ast.FunctionDef) and id(node) not in declared and not overload:
            last = node.body[-1]
            if isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant) and last.value.value is ...:
                yield last.lineno, "..."


def _is_protocol(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases)


def test_nothing_is_a_stub() -> None:
    throughout(LIBRARY, has_no_stub)


def has_no_stub(name: str) -> None:
    assert [f"{name}:{line} {what}" for line, what in _stubs(_tree(name))] == []


def test_everything_public_says_what_it_is() -> None:
    throughout(LIBRARY, is_documented)


def is_documented(name: str) -> None:
    """Classes, functions and methods without a leading underscore; overloads and Protocols' members apart."""
    missing = []
    for node in _tree(name).body:
        shown = isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not _is_protocol(node)
        members = node.body if isinstance(node, ast.ClassDef) and shown else []
        for each in (node, *members):
            if not isinstance(each, (ast.ClassDef, ast.FunctionDef)) or each.name.startswith("_"):
                continue
            decorated = {ast.unparse(d).rsplit(".", 1)[-1] for d in each.decorator_list}
            if not ast.get_docstring(each) and not decorated & {"overload", "setter"}:
                missing.append(f"{name}:{each.lineno} {each.name}")
    assert missing == []
