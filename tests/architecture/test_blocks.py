"""What a `with` has opened is closed wherever a signal comes within it (`locks`, `override`)."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnc_func.control_flow.conversion.source import codes_within

ROOT = Path(__file__).parents[2]

LEAKS = """
def first(lock, values):
    with lock:
        for each in values:
            if each:
                return each
"""


def uncovered(text: str, file: str = "") -> Iterator[str]:
    """Where a loop goes back within a block, by a jump at which an exception does not leave the block.

    From Python 3.12 on the compiler makes such jumps of a condition at the end of a loop, and 3.13 calls handlers of
    signals there.
    """
    for code in codes_within(compile(text, file, "exec")):
        entries = dis._parse_exception_table(code)  # type: ignore[attr-defined]
        if not entries:
            continue
        instructions = [*dis.get_instructions(code)]
        number = {each.offset: n for n, each in enumerate(instructions)}
        handlers = {
            entry.target
            for entry in entries
            if any(i.opname == "WITH_EXCEPT_START" for i in instructions[number[entry.target] :][:2])
        }

        def around(offset: int) -> set[int]:
            return {entry.target for entry in entries if entry.start <= offset < entry.end}  # noqa: B023

        for n, each in enumerate(instructions):
            if each.opname.startswith("JUMP_BACKWARD") and not around(each.offset):
                before = instructions[max(n - 2, 0)].offset
                if around(each.argval) & around(before) & handlers:
                    where = each.positions.lineno if each.positions else code.co_firstlineno
                    yield f"{file}:{where} in {code.co_qualname}"


@pytest.mark.parametrize(("minor", "wanted"), [(11, 0), (12, 1), (13, 1)])
def test_the_check_finds_what_the_compiler_leaves_out(minor: int, wanted: int) -> None:
    if sys.version_info[1] == minor:
        assert len([*uncovered(LEAKS)]) == wanted


@pytest.mark.parametrize("part", sorted(p.name for p in (ROOT / "nnc_func").iterdir() if p.name != "__pycache__"))
def test_no_loop_goes_back_where_its_block_is_not_closed(part: str) -> None:
    at = ROOT / "nnc_func" / part
    files = [at] if at.is_file() else [*at.rglob("*.py")]
    found = [x for f in files if f.suffix == ".py" for x in uncovered(f.read_text(encoding="utf-8"), str(f))]
    assert not found, "put the loop's condition, or the loop, into a function: " + ", ".join(found)
