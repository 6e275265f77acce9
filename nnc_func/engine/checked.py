"""A slow run of a program that looks after each kernel: NaN and infinity named, freed memory poisoned."""

from __future__ import annotations

import sys
from typing import Any

from nnc_func.config import config
from nnc_func.engine.plan import ARENA
from nnc_func.errors import NumericsError
from nnc_func.graph.origin import told

POISON = 0xFF  # all bits set: NaN in every floating dtype, -1 in signed integers


def execute(program: Any, frame: Any, start: int, stop: int, poison: Any) -> None:
    """Run the frame's calls from one position to another, one by one.

    Raises
    ------
    NumericsError
        A check was asked for and a result has a NaN or an infinity: names the operator and the user's line.
    """
    for position in range(start, stop):
        call, args = frame.calls[position]
        instruction = program.plan.instructions[frame.order[position]]
        if poison:
            poison.before(frame.order[position])
        try:
            call(*args)
        except Exception as error:
            raise program.failure(frame, position, error) from error
        if config.debug >= 2:
            print(f"{position:5} {instruction.op.name}", file=sys.stderr)
        if program._check:
            for slot, array in zip(instruction.results, args[len(instruction.operands) :], strict=True):
                check(program._device, array, instruction.op.name, slot, told(instruction.origin))


def check(device: Any, array: Any, name: str, slot: Any, where: str) -> None:
    """Raise NumericsError if a floating array has a NaN or an infinity."""
    host = device.to_numpy(array)
    if host.dtype.kind not in "fc":
        return
    import numpy as np

    bad = ~np.isfinite(host)
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        told_at = f" (built at {where})" if where else ""
        raise NumericsError(
            f"{name}{told_at} gave {host[at]} at {list(at)}, {int(bad.sum())} of {host.size} elements are not finite"
        )


def poisoned(program: Any, frame: Any) -> Any:
    """What poisons the frame's memory for one run; None unless that was asked for."""
    return _Poison(program, frame) if config.spec >= 3 else None


class _Poison:
    """Before each instruction, whatever memory no buffer is alive in is filled; so is a buffer that begins."""

    def __init__(self, program: Any, frame: Any) -> None:
        self.starts: dict[int, list[Any]] = {}
        self.ends: dict[int, list[Any]] = {}
        view = program._device.view
        for b in program.plan.buffers:
            if b.kind == ARENA and b.nbytes:
                array = view(frame.arena, b.offset, (b.nbytes,), "uint8")
                self.starts.setdefault(b.lower, []).append(array)
                self.ends.setdefault(b.upper, []).append(array)
        self.at = 0

    def before(self, t: int) -> None:
        """Poison what ended since the last call and what starts until t."""
        while self.at <= t:
            for arrays in (self.ends.get(self.at, ()), self.starts.get(self.at, ())):
                for array in arrays:
                    array[...] = POISON
            self.at += 1
