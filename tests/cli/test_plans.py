"""The commands that compare plans and allocators (`cli/plans`, `cli/plan`, `cli/bench`)."""

from __future__ import annotations

import json
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
        ("text.csv", b"id,lower,upper,size\n0,0,1,some", "wanted an integer, given 'some'"),
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
