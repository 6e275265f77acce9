"""Interrupts at moments that a test chooses, of those at which Python calls handlers of signals."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dis import get_instructions
from functools import cache
from types import CodeType
from typing import Any

DYNAMIC = "/nnc_func/engine/dynamic/"


def _is_in_finaliser(frame: Any) -> bool:
    """Whether Python would tell of an exception there, and go on."""
    while frame is not None:
        if frame.f_code.co_name in ("__del__", "_forget", "gone"):
            return True
        frame = frame.f_back
    return False


@cache
def where_signals_come(code: CodeType) -> frozenset[int]:
    """Offsets of instructions before which Python calls handlers of signals: after calls, and where loops go back.

    So not between a lock that a `with` statement has taken and its block, nor between that and letting go of it.
    """
    found, is_next = set(), False
    for each in get_instructions(code):
        if is_next or each.opname.startswith("JUMP_BACKWARD"):
            found.add(each.offset)
        is_next = each.opname.startswith(("CALL", "RESUME"))
    return frozenset(found)


@contextmanager
def interrupted(at: int, within: str = DYNAMIC) -> Iterator[list[int]]:
    """Raise KeyboardInterrupt at a moment where a signal may come, in files of that name; gives how many there are."""
    moments = [0]

    def traced(frame: Any, event: str, _: Any) -> Any:
        if within not in frame.f_code.co_filename or (event == "call" and _is_in_finaliser(frame)):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and frame.f_lasti in where_signals_come(frame.f_code):
            moments[0] += 1
            if moments[0] == at:
                raise KeyboardInterrupt
        return traced

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # before 3.13, what asks for it afterwards first counts the next time
    sys.settrace(traced)
    try:
        yield moments
    finally:
        sys.settrace(before)
