"""The commands that compare plans and allocators (`cli/plans`, `cli/plan`, `cli/bench`)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nnc_func.cli import main
from nnc_func.cli.plans import allocators, budget, with_budget
from nnc_func.engine.allocators import ALLOCATORS, Problem, arena_size
from nnc_func.engine.allocators.problems.generators import uniform
from nnc_func.engine.orders import ORDERS
from nnc_func.errors import PlanError

PROBLEM = Problem([5, 4, 4, 3, 4], [10, 3, 7, 5, 1], [11, 5, 12, 11, 8], alignment=1)


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    """What a command prints, after a success."""

    def asked(*argv: str) -> str:
        code = main(argv)
        found = capsys.readouterr()
        assert code == 0, found.err
        return found.out

    return asked


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Any:
    """What a command complains of."""

    def asked(*argv: str) -> str:
        assert main(argv) == 1
        return capsys.readouterr().err

    return asked


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "five.csv").write_text(PROBLEM.to_csv())
    return str(tmp_path / "five.csv")


def test_a_file_is_planned_by_all_allocators(said: Any, file: str) -> None:
    found = json.loads(said("plan", file, "--json"))
    assert {p["allocator"] for p in found["plans"]} == set(ALLOCATORS)
    sizes = [p["arena_bytes"] for p in found["plans"]]
    assert sizes == sorted(sizes)
    assert found["plans"][0]["arena_bytes"] == PROBLEM.max_load
    assert found["buffers"] == len(PROBLEM)


def test_the_best_plan_of_a_file_is_written(said: Any, file: str, tmp_path: Path) -> None:
    said("plan", file, "--csv", str(tmp_path / "out.csv"), "--html", str(tmp_path / "out.html"))
    solved = Problem.from_csv(tmp_path / "out.csv")
    assert solved.pins is not None
    assert arena_size(solved, solved.pins) == PROBLEM.max_load
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert page.count("data-answer=") == len(ALLOCATORS)
    assert "http" not in page.replace("http://www.w3.org", "")  # it needs nothing else


def test_one_allocator_of_a_file(said: Any, file: str) -> None:
    (only,) = json.loads(said("plan", file, "--allocator", "no_reuse", "--json"))["plans"]
    assert only["arena_bytes"] == int(PROBLEM.sizes.sum())
    pytest.importorskip("omnimalloc")
    (theirs,) = json.loads(said("plan", file, "--allocator", "omnimalloc", "--json"))["plans"]
    assert theirs["arena_bytes"] >= PROBLEM.max_load


def test_a_model_is_planned_in_all_orders(said: Any) -> None:
    found = json.loads(said("plan", "lenet-5", "--order", "all", "--allocator", "best_fit", "--json"))
    one = json.loads(said("plan", "lenet-5", "--order", "depth_first", "--allocator", "best_fit", "--json"))
    orders = {p["order"]: p["arena_bytes"] for p in found["plans"]}
    assert {"depth_first", "as_written"} <= set(orders)
    assert orders["depth_first"] == one["arena_bytes"]


def test_orders_are_compared_with_the_usual_allocator_alone_unless_more_are_asked_for(said: Any) -> None:
    text = said("plan", "lenet-5", "--order", "all")
    assert len(text.strip().splitlines()) == 1 + len(ORDERS)
    assert text.count(" portfolio ") >= len(ORDERS)


def test_buffers_of_a_model_tell_who_made_them(said: Any, tmp_path: Path) -> None:
    said("plan", "lenet-5", "--allocator", "all", "--html", str(tmp_path / "m.html"))
    data = (tmp_path / "m.html").read_text(encoding="utf-8").split('id="data">')[1].split("</script>")[0]
    (problem,) = json.loads(data)["problems"]
    assert all("step " in told for told in problem["description"])
    assert not any("offset" in told for told in problem["description"])  # which is another one in each plan
    assert problem["legend"]


def test_a_bench_tells_a_row_an_allocator(said: Any, file: str) -> None:
    text = said("bench", "allocators", str(Path(file).parent), "--repeat", "2")
    assert text.startswith("1 problems, 5 buffers")
    found = json.loads(
        said("bench", "allocators", file, "--allocator", "best_fit", "--allocator", "no_reuse", "--json")
    )
    assert [row["allocator"] for row in found["summary"]] == ["best_fit", "no_reuse"]
    assert {t["problem"] for t in found["trials"]} == {"five"}


def test_what_is_slow_is_told_of_once(said: Any, tmp_path: Path) -> None:
    (tmp_path / "many.csv").write_text(uniform(1001, 0).to_csv())
    text = said("bench", "allocators", str(tmp_path))
    assert text.splitlines()[-1].startswith("not asked about more than 1,000 buffers unless named")
    assert "boxing on many" not in text


@pytest.mark.slow
def test_the_zoo_is_a_bench(said: Any) -> None:
    found = json.loads(said("bench", "allocators", "zoo", "--reduced", "--allocator", "best_fit", "--json"))
    assert len(found["trials"]) >= 20


def test_what_cannot_be_is_said(refused: Any, file: str, tmp_path: Path) -> None:
    assert "--order is for models" in refused("plan", file, "--order", "all")
    assert "drawn by --html" in refused("plan", file, "--svg", "-")
    (tmp_path / "empty").mkdir()
    assert "no problem in" in refused("bench", "allocators", str(tmp_path / "empty"))
    assert "no allocator named 'none'" in refused("bench", "allocators", file, "--allocator", "none")
    for name, content, why in (
        ("binary.csv", b"\xff\xfe\x00", "no text"),
        ("wide.csv", b"id,lower,upper,size\n0,0,1," + b"9" * 200_000, "no CSV: field larger"),
        ("deep.json", b"[" * 200_000, "no JSON"),
        ("text.csv", b"id,lower,upper,size\n0,0,1,some", "wanted an integer in digits 0 to 9, given 'some'"),
    ):
        (tmp_path / name).write_bytes(content)
        complaint = refused("plan", str(tmp_path / name))
        assert f"PlanError: {tmp_path / name}: " in complaint
        assert why in complaint
    assert "No such file" in refused("plan", str(tmp_path / "missing.csv"))


def test_budgets() -> None:
    assert budget("3s") == {"seconds": 3.0}
    assert budget("1.5min") == {"seconds": 90.0}
    assert budget("300") == {"steps": 300}
    for words in ("", "x", "3 hours", "1.5", "-1"):
        with pytest.raises(Exception, match="is no budget"):
            budget(words)
    plain = ALLOCATORS["best_fit"]
    assert with_budget(plain, budget("3s")) == plain
    with pytest.raises(PlanError, match="there are: "):
        allocators(["fastest"])


OWN = """
from nnc_func.engine.allocators import ALLOCATORS


def stacked(problem):
    at, found = 0, []
    for size in problem.rounded.tolist():
        found.append(at)
        at += size
    return found


def overlapping(problem):
    return [0] * len(problem)


def endless(problem):
    while True:
        pass


def by_number(problem):
    return list(range(len(problem)))


def as_it_is(problem, budget):
    return list(range(len(problem)))


def everything(problem, capacity):
    return range(len(problem.gaps))


class Needy:
    def __init__(self, answer):
        self.answer = answer

    def __call__(self, problem):
        return self.answer


class Stacked:
    def __call__(self, problem):
        return stacked(problem)


number = 3
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(OWN)
    return str(tmp_path / "mine.py")


def test_a_night_with_a_failing_an_overlapping_and_an_endless_allocator_ends(
    said: Any, own: str, tmp_path: Path
) -> None:
    names = [f"{own}:{name}" for name in ("overlapping", "endless", "stacked", "Stacked")]
    asked = [word for name in [*names, "best_fit"] for word in ("--allocator", name)]
    out = str(tmp_path / "night.jsonl")
    line = ["bench", "allocators", "uniform:20", "--seeds", "2", *asked, "--limit", "2s", "--out", out]
    text = said(*line)
    assert "(time limit): it was not done after 2 s, and was killed" in text
    assert "(wrong): buffers" in text
    assert "10 rows are in" in text
    assert "10 rows are in" in said(*line)
    assert "10 of them from before" in said(*line)
    found = json.loads(said(*line, "--json", "--against", names[2]))
    kinds = {t["allocator"]: t["kind"] for t in found["trials"]}
    assert [*kinds.values()] == ["wrong", "time limit", "answered", "answered", "answered"]
    assert found["against"]["base"] == names[2]
    assert {row["allocator"]: row["equal"] for row in found["against"]["tests"]}[names[3]] == 2


def test_ones_own_orders_and_strategies_are_measured_beside_others(said: Any, own: str) -> None:
    found = json.loads(said("bench", "orders", "lenet-5", "--reduced", "--order", f"{own}:by_number", "--order",
                            "breadth_first", "--json"))  # fmt: skip
    assert {t["order"] for t in found["trials"]} == {f"{own}:by_number", "breadth_first"}
    assert {t["problem"] for t in found["trials"]} == {"lenet-5", "lenet-5 training"}
    found = json.loads(said("bench", "strategies", "chain:10", "layers:8", "--part", "0.9", "--strategy",
                            f"{own}:as_it_is", "--strategy", "greedy", "--json"))  # fmt: skip
    ours = {t["problem"]: t for t in found["trials"] if t["strategy"] != "greedy"}
    assert [*ours] == ["chain:10 within 0.9", "layers:8 within 0.9"]
    assert all(t["kind"] == "refused" and "bytes, of a budget of" in t["error"] for t in ours.values())
    assert all(t["kind"] == "answered" for t in found["trials"] if t["strategy"] == "greedy")


def test_a_plan_of_a_joint_choice_is_shown_beside_the_chains(said: Any) -> None:
    found = json.loads(said("plan", "lenet-5", "--training", "--joint", "--json"))
    assert found["joint"].startswith("chain 379 KiB, in as much time 379 KiB, joint 254 KiB, proven")
    assert found["arena_bytes"] < 260_000


def test_a_plan_names_ones_own_functions(said: Any, own: str, tmp_path: Path) -> None:
    line = ["plan", "lenet-5", "--order", f"{own}:by_number", "--allocator", f"{own}:stacked"]
    said(*line, "--csv", str(tmp_path / "plan.csv"))
    found = json.loads(said(*line, "--json"))
    assert found["order"] == "by_number"
    assert found["arena_bytes"] == found["bytes_without_sharing"]
    assert "mine.py:stacked" in said("plan", "lenet-5", "--order", "all", "--allocator", f"{own}:stacked")
    text = said("plan", "resnet-18", "--training", "--batch", "2", "--memory", "160MB", "--strategy", "square_root")
    assert re.search(r"recomputation  +.* computed again, .*, by square_root", text), text


def test_a_plan_in_two_levels_tells_what_is_moved(said: Any, own: str) -> None:
    line = ["plan", "transformer-encoder", "--training", "--fast-memory", "100MB"]
    for policy in ("cover", "furthest", f"{own}:everything"):
        found = json.loads(said(*line, "--policy", policy, "--json"))
        assert found["arena_bytes"] <= 100_000_000 < found["arena_bytes"] + found["slow_arena_bytes"]
        assert found["moved_bytes"] > found["slow_arena_bytes"]
        assert f"times as long, by {policy.split(':')[-1]}" in found["traffic"]


def test_names_that_nobody_has_are_told_before_anything_is_planned(refused: Any, file: str, own: str) -> None:
    bench = ["bench", "allocators"]
    for words, why in (
        ([*bench, "zoo", "--allocator", "best_fti"], "no allocator named 'best_fti'; there are: best_fit, "),
        ([*bench, "zoo", "--allocator", "best_fti"], "did you mean best_fit"),
        ([*bench, "zoo", "unifrom:10"], "no generator named 'unifrom'"),
        ([*bench, "zoo", "uniform:1_000"], "wanted a number of buffers from 1 to 10,000,000, given '1_000'"),
        ([*bench, "zoo", "uniform:٣"], "wanted a number of buffers"),
        ([*bench, "zo"], "no instance named 'zo'; there are: zoo, concurrent:COUNT"),
        ([*bench, "zoo", "--against", "best"], "no allocator named 'best'"),
        ([*bench, "zoo", "--allocator", f"{own}:stakced"], "did you mean stacked"),
        ([*bench, "zoo", "--allocator", f"{own}:number"], "is no allocator, but of type int"),
        ([*bench, "zoo", "--allocator", f"{own}:Needy"], "is a class, which is not made without arguments: TypeError"),
        ([*bench, "zoo", "--allocator", "no.such.module:f"], "there is no module 'no'"),
        ([*bench, "zoo", "--out", str(Path(own).parent / "no" / "rows")], "No such file or directory"),
        ([*bench, "zoo", "--order", "exact"], "--order is for `bench orders`, not allocators"),
        (["bench", "orders", "zoo", "--strategy", "greedy"], "--strategy is for `bench strategies`, not orders"),
        (["bench", "orders", "lenet5"], "did you mean lenet-5"),
        (["bench", "orders", "uniform:10"], "orders are measured on models"),
        (["bench", "orders", "zoo", "--order", "exat"], "no order named 'exat'; there are: "),
        (["bench", "strategies", "zoo", "chian:4"], "no generator named 'chian'; there are: chain, layers, random"),
        (["bench", "allocators"], "say on what allocators are measured"),
        (["plan", "lenet-5", "--order", "exat"], "did you mean exact"),
        (["plan", "lenet-5", "--joint", "0.5"], "from 1 on"),
        (["plan", "lenet-5", "--strategy", "greedy"], "give one by --memory"),
        (["plan", "lenet-5", "--memory", "1MB", "--strategy", "gredy"], "did you mean greedy"),
        (["plan", "lenet-5", "--policy", "cover"], "give its bytes by --fast-memory"),
        (["plan", "lenet-5", "--fast-memory", "1MB", "--policy", "furthst"], "did you mean furthest"),
        (["plan", "lenet-5", "--fast-memory", "1MB", "--memory", "1MB"], "a budget or a fast memory"),
    ):
        assert why in refused(*words), words


def test_numbers_of_other_digits_are_refused(capsys: pytest.CaptureFixture[str], file: str) -> None:
    for option, words in (
        ("--repeat", "1_0"), ("--repeat", "٣"), ("--repeat", "²"), ("--budget", "٣s"), ("--limit", "٣min"),
        ("--limit", "0s"), ("--memory", "٣GB"), ("--seeds", "0"), ("--part", "0_5"),
    ):  # fmt: skip
        with pytest.raises(SystemExit):
            main(["bench", "allocators", file, option, words])
        assert words in capsys.readouterr().err


def test_a_table_is_drawn(said: Any, file: str, tmp_path: Path) -> None:
    said("bench", "allocators", file, "--allocator", "best_fit", "--plot", str(tmp_path / "means.svg"))
    assert (tmp_path / "means.svg").read_text(encoding="utf-8").startswith("<svg ")


def test_instances_are_listed(said: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data" / "mine").mkdir(parents=True)
    (tmp_path / "data" / "mine" / "five.csv").write_text(PROBLEM.to_csv())
    monkeypatch.setenv("NNC_DATA", str(tmp_path / "data"))
    names = [row["name"] for row in json.loads(said("bench", "instances", "--json"))]
    assert {"uniform:COUNT", "mine", "zoo"} <= set(names)
    found = json.loads(said("bench", "allocators", "mine", "--allocator", "best_fit", "--json"))
    assert [t["problem"] for t in found["trials"]] == ["five"]
