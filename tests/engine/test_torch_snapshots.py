"""Memory snapshots of PyTorch (`engine/allocators/problems/torch_snapshot`, `engine/allocators/caching`)."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnc_func.engine.allocators import Problem, answered, arena_size
from nnc_func.engine.allocators.caching import MIB, Caching
from nnc_func.engine.allocators.problems.generators import uniform
from nnc_func.engine.allocators.problems.torch_snapshot import plain
from nnc_func.engine.verifying.offsets import verify_offsets
from nnc_func.errors import PlanError


def event(action: str, addr: int, size: int, stream: int = 0) -> dict[str, Any]:
    """As PyTorch records it, with the frames of whoever asked."""
    frames = [{"name": "forward", "filename": "/model.py", "line": 3}]
    return {"action": action, "addr": addr, "size": size, "stream": stream, "frames": frames, "time_us": 5}


def segment(*blocks: tuple[int, int, str]) -> dict[str, Any]:
    at, made = blocks[0][0], []
    for address, size, state in blocks:
        made.append({"address": address, "size": -(-size // 512) * 512, "requested_size": size, "state": state})
    whole = sum(b["size"] for b in made)
    return {"device": 0, "address": at, "total_size": whole, "stream": 0, "segment_type": "small", "blocks": made}


EVENTS = [
    event("segment_alloc", 0, 2 * MIB),
    event("alloc", 0, 700),
    event("alloc", 1024, 300),
    event("free_requested", 0, 700),
    event("free_completed", 0, 700),
    event("free_requested", 8192, 100),
    event("free_completed", 8192, 100),  # was there before
    event("alloc", 0, 900),
    event("snapshot", 0, 0),
]
SNAPSHOT = {
    "segments": [
        segment((0, 900, "active_allocated"), (1024, 300, "active_allocated"), (1536, 50, "active_allocated"))
    ],
    "device_traces": [[], EVENTS],
    "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": ""},
}
SNAPSHOT["segments"][0]["device"] = 1  # type: ignore[index]


def rows(problem: Problem) -> list[tuple[int, int, int]]:
    return sorted(zip(problem.sizes.tolist(), problem.lower.tolist(), problem.upper.tolist(), strict=True))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_snapshot_is_a_problem(tmp_path: Path, protocol: int) -> None:
    (tmp_path / "snapshot.pickle").write_bytes(pickle.dumps(SNAPSHOT, protocol))
    problem = Problem.from_torch(tmp_path / "snapshot.pickle")
    assert [row[0] for row in rows(problem)] == [50, 100, 300, 700, 900]
    by_size = {size: (lower, upper) for size, lower, upper in rows(problem)}
    assert by_size[700][1] < by_size[900][0]  # what was freed is free for the next
    assert by_size[50] == (0, max(u for _, u in by_size.values()))  # there all the time
    assert by_size[100][0] == 0 < by_size[100][1] < by_size[900][0]
    assert problem.alignment == 512
    verify_offsets(problem, answered(Caching(), problem))
    (tmp_path / "snapshot.json").write_text(json.dumps(SNAPSHOT))
    assert Problem.from_torch(tmp_path / "snapshot.json").to_json() == problem.to_json()
    assert Problem.from_torch(SNAPSHOT, device=1).to_json() == problem.to_json()


def test_streams_are_spaces_and_devices_are_chosen() -> None:
    events = [event("alloc", 0, 8), event("alloc", 512, 8, 7), event("free_completed", 0, 8)]
    problem = Problem.from_torch({"device_traces": [events, events]}, device=1)
    assert problem.spaces is not None
    assert problem.spaces.tolist() == [0, 1]
    for device, words in ((None, "devices 0, 1 have events: say which, device=0"), (2, "device 2 has no events")):
        with pytest.raises(PlanError, match=words):
            Problem.from_torch({"device_traces": [events, events]}, device=device)
    with pytest.raises(
        PlanError, match=r"no device has events: record them by torch.cuda.memory._record_memory_history"
    ):
        Problem.from_torch({"device_traces": [[]]})


def test_a_trace_without_completed_frees_counts_those_that_were_asked_for() -> None:
    events = [event("alloc", 0, 8), event("free_requested", 0, 8), event("alloc", 0, 9)]
    assert rows(Problem.from_torch({"device_traces": [events]})) == [(8, 0, 1), (9, 2, 3)]


class Command:
    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/it-was-called",)


def test_a_pickle_that_asks_for_more_calls_nothing(tmp_path: Path) -> None:
    asked = [Command(), print, np.zeros(3), {1, 2}, Path("a"), bytearray(b"x"), 1j]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for value in asked:
            with pytest.raises(PlanError, match="does more than plain data needs"):
                plain(pickle.dumps({"device_traces": value}, protocol))
    assert not Path("/tmp/it-was-called").exists()
    for data, words in (
        (b"", "no pickle of plain data"),
        (b"not a pickle", "no pickle of plain data|does more than plain data needs"),
        (pickle.dumps(SNAPSHOT)[:-5], "no pickle of plain data"),
        (b"\x80\x02cos\nsystem\n(S'true'\ntR.", "does more than plain data needs: GLOBAL"),
        (b"]r\xff\xff\xff\x7f.", "it puts something at place 2147483647"),  # a table of that length would be made
        (b"(lp99999999999\n.", "it puts something at place 99999999999"),
        (b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.", "no pickle of plain data"),
        (b"h\x05.", "no pickle of plain data"),
        (b"0.", "no pickle of plain data"),
    ):
        with pytest.raises(PlanError, match=words):
            plain(data)
    (tmp_path / "a.pickle").write_bytes(b"\x1f\x8bxyz")
    with pytest.raises(PlanError, match="this is compressed: unpack it first"):
        Problem.from_torch(tmp_path / "a.pickle")


def test_snapshots_that_are_none() -> None:
    for snapshot, words in (
        ({}, "wanted a snapshot: a dictionary with 'segments' and 'device_traces'"),
        ({"device_traces": 3}, "wanted a snapshot"),
        ({"device_traces": ["alloc"]}, "wanted a list of events"),
        ({"device_traces": [[3]]}, "event 0 is none: wanted action, addr, size and stream, given 3"),
        ({"device_traces": [[{"action": "alloc"}]]}, "event 0 is none"),
        ({"device_traces": [[event("alloc", 0, -8)]]}, "event 0 is none"),
        ({"device_traces": [[event("alloc", "x", 8)]]}, "event 0 is none"),  # type: ignore[arg-type]
        ({"device_traces": [[event("alloc", 0, 8)] * 2]}, "event 1 gives address 0, which is not free"),
        ({"device_traces": [[event("alloc", 0, 8)]], "segments": [{"blocks": 3}]}, "segments are of another form"),
        ({"device_traces": [[event("alloc", 0, 8)]], "segments": 3}, "segments are of another form"),
        ({"device_traces": [[event("alloc", 0, 1 << 62)]]}, "wanted less than 2\\*\\*62"),
    ):
        with pytest.raises(PlanError, match=words):
            Problem.from_torch(snapshot)  # type: ignore[arg-type]


# --- the policy -------------------------------------------------------------------------------------------


def test_segments_are_as_large_as_pytorchs() -> None:
    for size, reserved in (
        (1, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 1, 12 * MIB),
    ):
        assert Caching().reserved(Problem([size], [0], [1])) == reserved, size


def test_small_and_large_requests_share_nothing_and_blocks_are_split_and_joined() -> None:
    caching = Caching()
    small_then_large = Problem([MIB, 2 * MIB], [0, 2], [1, 3], 512)
    assert list(caching(small_then_large)) == [0, 2 * MIB]
    small = Problem([512 * 1024] * 4 + [MIB], [0, 0, 0, 0, 2], [1, 1, 1, 1, 3], 512)
    assert list(caching(small)) == [0, 512 * 1024, MIB, 1536 * 1024, 0]
    assert caching.reserved(small) == 2 * MIB
    # a rest of a large block that is no larger than 1 MiB stays with it
    assert caching.reserved(Problem([19 * MIB, MIB + 1], [0, 0], [1, 1], 512)) == 40 * MIB
    assert caching.reserved(Problem([19 * MIB, 5 * MIB, 19 * MIB], [0, 1, 2], [1, 2, 3], 512)) == 20 * MIB


def test_it_never_overlaps_and_is_never_smaller_than_what_it_serves() -> None:
    for seed in range(4):
        for alignment in (1, 64, 512, 1536, 4096):
            problem = Problem(*(getattr(uniform(300, seed), n) for n in ("sizes", "lower", "upper")), alignment)
            offsets = answered(Caching(), problem)
            verify_offsets(problem, offsets)
            assert problem.max_load <= arena_size(problem, offsets) <= Caching().reserved(problem)
