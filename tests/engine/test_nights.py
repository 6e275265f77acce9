"""What fails is a row, and rows are kept (`engine/comparing/isolation`, `engine/comparing/records`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve, fields, frozen

from nnc_func.engine.allocators import BestFit, NoReuse, Problem
from nnc_func.engine.allocators.problems.generators import uniform
from nnc_func.engine.comparing import Conditions, Record, compare, compare_orders
from nnc_func.engine.comparing.isolation import called_alone
from nnc_func.engine.comparing.trials import KEYS, digest_of
from nnc_func.engine.orders import ORDERS, OrderProblem
from nnc_func.errors import PlanError

ROOT = Path(__file__).resolve().parents[2]
PROBLEMS = {"drawn": uniform(50, 0), "three": Problem([64, 64, 64], [0, 1, 2], [2, 3, 4])}


def overlapping(problem: Problem) -> Sequence[int]:
    return [0] * len(problem)


def raising(problem: Problem) -> Sequence[int]:
    raise ValueError("too bad")


def endless(problem: Problem) -> Sequence[int]:
    while True:
        pass


def sorting(problem: Problem) -> Sequence[int]:
    """Within NumPy, which no exception interrupts."""
    numbers = np.random.default_rng(0).random(1 << 22)
    while True:
        np.sort(numbers)


def deaf(problem: Problem) -> Sequence[int]:
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGXCPU):
        signal.signal(each, signal.SIG_IGN)
    while True:
        time.sleep(1)


def stopped(problem: Problem) -> Sequence[int]:
    os.kill(os.getpid(), signal.SIGSTOP)
    return []


def leaving(problem: Problem) -> Sequence[int]:
    os._exit(0)


def crashing(problem: Problem) -> Sequence[int]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def hungry(problem: Problem) -> Sequence[int]:
    kept = []
    while True:
        kept.append(np.ones(1 << 22))


def closing(problem: Problem) -> Sequence[int]:
    os.closerange(3, 256)
    return NoReuse()(problem)


def chatty(problem: Problem) -> Sequence[int]:
    print("to begin with", len(problem))
    for _ in range(100_000):
        print("and on it goes")
    print("at last")
    raise RuntimeError("enough")


def altering(problem: Problem) -> Sequence[int]:
    object.__setattr__(problem, "sizes", np.zeros_like(problem.sizes))
    return [0] * len(problem)


@pytest.mark.parametrize(
    ("hostile", "kind", "error"),
    [
        (overlapping, "wrong", "overlap"),
        (raising, "raised", "ValueError: too bad"),
        (endless, "time limit", "it was not done after 3 s, and was killed"),
        (sorting, "time limit", "was killed"),
        (deaf, "time limit", "was killed"),
        (stopped, "time limit", "was killed"),
        (leaving, "ended", "ended with exit code 0 before it answered"),
        (crashing, "ended", "ended by signal 9 (SIGKILL), as where memory is short"),
        (closing, "ended", "before it answered"),
        (chatty, "raised", "RuntimeError: enough"),
        (altering, "wrong", "overlap"),
        (lambda _: ["a"], "wrong", "gave no integers"),
        (lambda p: [-64] * len(p), "wrong", "negative offset"),
        (lambda p: [2**70] * len(p), "wrong", "gave the offset 1180591620717411303424"),
        (lambda _: sys.exit("bye"), "raised", "SystemExit: bye"),
    ],
)
def test_whatever_an_allocator_does_is_a_row(hostile: Callable[..., Any], kind: str, error: str) -> None:
    three = {"three": PROBLEMS["three"]}
    found = compare(
        three,
        {"hostile": hostile, "fit": BestFit()},
        conditions=Conditions(limit=3.0 if kind == "time limit" else 60.0),
    )
    bad, good = found.trials
    assert (bad.kind, bad.value) == (kind, None)
    assert error in bad.error
    assert (good.kind, good.value) == ("answered", 128)


def test_one_that_takes_all_memory_is_a_row() -> None:
    conditions = Conditions(limit=60, memory=200 << 20)
    bad, good = compare(
        {"three": PROBLEMS["three"]}, {"hungry": hungry, "fit": BestFit()}, conditions=conditions
    ).trials
    assert (bad.kind, good.kind) == ("memory", "answered")


def test_what_is_printed_is_kept_at_its_end_and_goes_nowhere_else(capfd: pytest.CaptureFixture[str]) -> None:
    (trial,) = compare({"three": PROBLEMS["three"]}, {"chatty": chatty}, conditions=Conditions(limit=60)).trials
    assert trial.printed.endswith("and on it goes\nat last")
    assert len(trial.printed) <= 2000
    assert capfd.readouterr() == ("", "")


def test_a_process_that_one_starts_is_killed_with_it(tmp_path: Path) -> None:
    def starting() -> None:
        child = subprocess.Popen(["sleep", "600"])
        (tmp_path / "number").write_text(str(child.pid))
        time.sleep(600)

    assert called_alone(starting, 1.0).kind == "time limit"
    number = int((tmp_path / "number").read_text())
    for _ in range(100):
        if not Path(f"/proc/{number}").exists() or "Z" in Path(f"/proc/{number}/stat").read_text().split()[2]:
            return
        time.sleep(0.05)
    raise AssertionError("it runs on")


def test_limits_that_are_none() -> None:
    for limit in (0, -1, float("nan"), float("inf"), "3s"):
        with pytest.raises(PlanError, match="wanted a limit in seconds, above 0, given"):
            called_alone(lambda: 1, limit)  # type: ignore[arg-type]


# --- rows in a file ---------------------------------------------------------------------------------------


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]


@frozen
class Counting:
    """Asks an allocator, and counts how often it was asked."""

    path: str

    def __call__(self, problem: Problem) -> Sequence[int]:
        with open(self.path, "a") as file:
            file.write("x")
        return NoReuse()(problem)

    @property
    def times(self) -> int:
        return len(Path(self.path).read_text())


def test_a_rerun_asks_only_what_is_not_in_the_file(tmp_path: Path) -> None:
    path, counting = tmp_path / "rows.jsonl", Counting(str(tmp_path / "times"))
    asked = {"counting": counting, "endless": endless, "raising": raising}

    def night(limit: float = 2.0, retry: bool = False) -> list[tuple[str, str]]:
        with Record(path, KEYS) as record:
            conditions = Conditions(limit, record=record, retry=retry)
            return [(t.by, t.kind) for t in compare({"three": PROBLEMS["three"]}, asked, conditions=conditions).trials]

    first = night()
    assert (counting.times, len(lines(path))) == (1, 3)
    assert night() == first == [("counting", "answered"), ("endless", "time limit"), ("raising", "raised")]
    assert (counting.times, len(lines(path))) == (1, 3)
    night(limit=2.5)  # what hit the limit is asked again with a higher one
    assert [row["by"] for row in lines(path)[3:]] == ["endless"]
    night(limit=2.5, retry=True)
    assert [row["by"] for row in lines(path)[4:]] == ["endless", "raising"]
    assert counting.times == 1
    assert "answer" not in lines(path)[0]


def test_another_problem_of_that_name_and_other_settings_are_asked(tmp_path: Path) -> None:
    path, counting = tmp_path / "rows.jsonl", Counting(str(tmp_path / "times"))
    for problem, by in (
        (PROBLEMS["three"], counting),
        (PROBLEMS["drawn"], counting),
        (PROBLEMS["three"], Counting(str(tmp_path / "other"))),
    ):
        with Record(path, KEYS) as record:
            compare({"one": problem}, {"counting": by}, conditions=Conditions(record=record))
    assert (counting.times, Path(tmp_path / "other").read_text()) == (2, "x")


def test_what_a_task_may_write_over_is_part_of_the_problem(tmp_path: Path) -> None:
    """Two problems that differ in nothing else have peaks of their own, in one file of rows."""
    bare = OrderProblem([(), (0,)], [(0,), (0, 1)], [8, 8])
    path, found = tmp_path / "rows.jsonl", []
    for problem in (bare, evolve(bare, overwrites={1: [(1, (0,))]}), bare):
        with Record(path, KEYS) as record:
            made = compare_orders(
                {"one": problem}, {"first": ORDERS["depth_first"]}, conditions=Conditions(record=record)
            )
            found.append(made.trials[0].value)
    assert found == [16, 8, 16]
    assert len(lines(path)) == 2


def test_every_field_of_a_problem_is_in_its_digest() -> None:
    order = OrderProblem([(), (0,)], [(0,), (0, 1)], [8, 8])
    changes = {
        "needs": [(), ()], "uses": [(0,), (1,)], "sizes": [8, 9], "lasting": (0,),
        "overwrites": {1: [(1, (0,))]}, "written": [1, 0],
    }  # fmt: skip
    assert {f.name for f in fields(OrderProblem)} == {*changes}
    digests = [digest_of(order), *(digest_of(evolve(order, **{name: new})) for name, new in changes.items())]
    assert len({*digests}) == len(digests)
    assert digest_of(evolve(order, lasting={0, 1})) == digest_of(evolve(order, lasting={1, 0}))
    assert digest_of(order, 1) != digest_of(order, 2)


def test_a_line_that_was_cut_off_is_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with Record(path, KEYS) as record:
        compare(PROBLEMS, {"fit": BestFit()}, conditions=Conditions(record=record))
    whole = path.read_bytes()
    for end in (1, 10, len(whole.splitlines(keepends=True)[-1]) - 1):
        path.write_bytes(whole[:-end])
        with Record(path, KEYS) as record:
            assert len(record.rows) == 1
            compare(PROBLEMS, {"fit": BestFit()}, conditions=Conditions(record=record))
        assert [row["problem"] for row in lines(path)] == ["drawn", "three"]
    path.write_bytes(whole[:5])  # of the first line
    with Record(path, KEYS) as record:
        assert not record.rows
    assert path.read_text().count("\n") == 1


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    for content in ("id,lower,upper,size\n0,0,1,8\n", '{"a": 1}\n', "x", "[1]\n", "\n", "null\n"):
        (tmp_path / "other").write_text(content)
        with pytest.raises(PlanError, match="has other content than rows of a comparison: name another file"):
            Record(tmp_path / "other", KEYS)
        assert (tmp_path / "other").read_text() == content
    with Record(tmp_path / "rows", KEYS):
        pass
    with (tmp_path / "rows").open("a") as file:
        file.write("{\n")
    with pytest.raises(PlanError, match=r"rows, line 2: b'{' is no row"):
        Record(tmp_path / "rows", KEYS)
    with pytest.raises(FileNotFoundError):
        Record(tmp_path / "no" / "rows", KEYS)


def test_two_do_not_write_to_one_file(tmp_path: Path) -> None:
    with Record(tmp_path / "rows", KEYS), pytest.raises(PlanError, match="another process writes to"):
        Record(tmp_path / "rows", KEYS)
    Record(tmp_path / "rows", KEYS).close()


NIGHT = """
import sys, time
from nnc_func.cli import main
sys.exit(main(["bench", "allocators", "uniform:50", "--seeds", "3", "--allocator", "best_fit", "--allocator",
               sys.argv[1] + ":sleeping", "--limit", "1h", "--out", sys.argv[2]]))
"""


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9), (signal.SIGTERM, -15)])
def test_a_night_that_ends_leaves_its_rows_and_no_process(tmp_path: Path, how: int, code: int) -> None:
    number, path = tmp_path / "number", tmp_path / "rows.jsonl"
    (tmp_path / "mine.py").write_text(
        f"import os, time\n\ndef sleeping(problem):\n    open({str(number)!r}, 'w').write(str(os.getpid()))\n"
        "    while True: pass\n"
    )
    command = [sys.executable, "-c", NIGHT, str(tmp_path / "mine.py"), str(path)]
    night = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(600):
            if number.exists() and number.read_text():
                break
            time.sleep(0.1)
        second = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
        assert second.returncode == 1
        assert "another process writes to" in second.stderr
        night.send_signal(how)
        assert night.wait(60) == code
    finally:
        night.kill()
        night.communicate()
    assert [row["by"] for row in lines(path)] == ["best_fit"]
    child = Path("/proc") / number.read_text() / "stat"
    for _ in range(100):
        if not child.exists() or child.read_text().split()[2] == "Z":
            break
        time.sleep(0.05)
    else:
        raise AssertionError("what it asked runs on")
    with Record(path, KEYS) as record:  # nobody holds it
        assert len(record.rows) == 1
