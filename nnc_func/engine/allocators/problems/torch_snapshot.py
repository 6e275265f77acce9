"""Memory snapshots of PyTorch as allocation problems: what ``torch.cuda.memory._dump_snapshot`` writes, without it.

A snapshot is a pickle of dictionaries, lists, strings and numbers; the same as JSON is read too. A pickle may say
anything, so its operations are looked at first, and those that would call something are refused. What is in it:
pytorch/pytorch, `torch/cuda/memory.py` and `torch/cuda/_memory_viz.py`.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import define

from nnc_func.errors import PlanError

if TYPE_CHECKING:
    from nnc_func.engine.allocators.problems.problem import Problem

ROUNDED = 512  # bytes: PyTorch rounds sizes up to multiples of it, and so offsets are
PLAIN = """
PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT
UNICODE SHORT_BINUNICODE BINUNICODE BINUNICODE8 STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES
BINBYTES8 EMPTY_DICT DICT SETITEM SETITEMS EMPTY_LIST LIST APPEND APPENDS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2
TUPLE3 PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET POP POP_MARK DUP
"""  # operations of a pickle that make plain data
ALLOCATED = "alloc"
REQUESTED, COMPLETED = "free_requested", "free_completed"


class _Plain(pickle.Unpickler):
    """Reads plain data."""

    def find_class(self, module: str, name: str) -> Any:
        """Nothing is found: data has no classes."""
        raise PlanError(f"this pickle asks for {module}.{name}, which a memory snapshot does not")


def plain(data: bytes) -> Any:
    """What a pickle of plain data says; nothing in it is called, whatever it asks for.

    Raises
    ------
    PlanError
        It is no pickle, or asks for more than dictionaries, lists, tuples, strings and numbers.

    Examples
    --------
    >>> plain(pickle.dumps({"segments": [1, 2.5, None]}))
    {'segments': [1, 2.5, None]}
    >>> plain(pickle.dumps(print))
    Traceback (most recent call last):
    nnc_func.errors.PlanError: this pickle does more than plain data needs: STACK_GLOBAL at byte ...0
    """
    plain_operations = frozenset(PLAIN.split())
    try:
        for operation, argument, position in pickletools.genops(data):
            if operation.name not in plain_operations:
                raise PlanError(f"this pickle does more than plain data needs: {operation.name} at byte {position}")
            if operation.name in ("PUT", "LONG_BINPUT") and not 0 <= int(argument or 0) <= len(data):
                raise PlanError(f"this pickle is damaged: it puts something at place {argument}, at byte {position}")
        return _Plain(io.BytesIO(data)).load()
    except PlanError:
        raise
    except Exception as error:  # whatever is wrong with a pickle raises anything
        raise PlanError(f"this is no pickle of plain data: {type(error).__name__}: {error}"[:200]) from None


def parsed(
    make: Callable[..., Problem], source: str | PathLike[str] | Mapping[str, Any], device: int | None, alignment: int
) -> Problem:
    """The problem that `make` makes of the fields, as `Problem.from_torch` says."""
    snapshot = source if isinstance(source, Mapping) else _read(Path(source))
    if not isinstance(snapshot, Mapping) or not isinstance(snapshot.get("device_traces"), Sequence):
        raise PlanError("wanted a snapshot: a dictionary with 'segments' and 'device_traces'")
    traces = snapshot["device_traces"]
    used = [n for n, events in enumerate(traces) if events]
    if device is None:
        if len(used) != 1:
            many = f"devices {', '.join(map(str, used))} have events: say which, device={used[0]}" if used else ""
            raise PlanError(many or "no device has events: record them by torch.cuda.memory._record_memory_history()")
        device = used[0]
    if device not in used:
        raise PlanError(f"device {device} has no events; those that have are: {', '.join(map(str, used)) or 'none'}")
    lives = _lives(traces[device], _active(snapshot.get("segments", ()), device))
    streams = sorted({life.stream for life in lives})
    return make(
        [life.size for life in lives],
        [life.lower for life in lives],
        [life.upper for life in lives],
        alignment,
        spaces=[streams.index(life.stream) for life in lives] if len(streams) > 1 else None,
    )


def _read(path: Path) -> Any:
    data = path.read_bytes()
    if data[:1] in (b"{", b"["):
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise PlanError(f"this is no JSON: {error}") from None
    if data[:2] == b"\x1f\x8b":
        raise PlanError("this is compressed: unpack it first, with gunzip")
    return plain(data)


@define
class _Life:
    size: int
    stream: int
    lower: int
    upper: int = -1


def _lives(events: Any, active: Sequence[tuple[int, int, int]]) -> list[_Life]:
    """A life a block: from the step at which it is asked for to that at which its memory is free."""
    found: list[_Life] = []
    alive: dict[int, _Life] = {}
    step = 0
    for number, action, address, size, stream in _told(events):
        if action == ALLOCATED:
            if address in alive:
                raise PlanError(f"event {number} gives address {address}, which is not free: the trace is damaged")
            alive[address] = life = _Life(size, stream, step)
            found.append(life)
        else:
            before = alive.pop(address, None)
            if before is None:  # it was there before the trace began
                before = _Life(size, stream, -1)
                found.append(before)
            before.upper = step
        step += 1
    for address, size, stream in active:
        if address not in alive:  # there all the time
            found.append(_Life(size, stream, -1))
    first = -1 if any(life.lower < 0 for life in found) else 0
    for life in found:
        life.lower -= first
        life.upper = (step if life.upper < 0 else life.upper) - first
    return sorted(found, key=lambda life: life.lower)


def _told(events: Any) -> Iterator[tuple[int, str, int, int, int]]:
    """Number, action, address, bytes and stream of events that give memory, or take it back.

    Memory that another stream uses is free some time after that was asked for: where the trace tells when, that counts.
    """
    if not isinstance(events, Sequence) or isinstance(events, str):
        raise PlanError(f"wanted a list of events, given {events!r:.60}")
    told = {str(e.get("action")) for e in events if isinstance(e, Mapping)}
    freed = COMPLETED if COMPLETED in told else REQUESTED
    for number, event in enumerate(events):
        try:
            action = event["action"]
            if action in (ALLOCATED, freed):
                row = (number, str(action), *(event[name] for name in ("addr", "size")), event.get("stream", 0))
                if any(type(value) is not int for value in row[2:]) or row[3] < 0:
                    raise TypeError
                yield row
        except (TypeError, KeyError, AttributeError, IndexError):
            said = f"{event!r:.80}"
            raise PlanError(f"event {number} is none: wanted action, addr, size and stream, given {said}") from None


def _active(segments: Any, device: int) -> list[tuple[int, int, int]]:
    """Address, bytes and stream of each block that is in use when the snapshot is taken."""
    found = []
    try:
        for segment in segments:
            if segment.get("device", 0) != device:
                continue
            address = segment["address"]
            for block in segment["blocks"]:
                start = block.get("address", address)
                if block["state"] == "active_allocated":
                    size = block.get("requested_size", block["size"])
                    found.append((int(start), int(size), int(segment.get("stream", 0))))
                address = start + block["size"]
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise PlanError(f"the segments are of another form than PyTorch writes: {error!r:.80}") from None
    return found
