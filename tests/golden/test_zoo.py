"""What the zoo's plans take: nodes, instructions and bytes, the same on each machine (`models`, `engine/planning`).

``python scripts/zoo_record.py --golden`` writes it anew, where a change is right; more bytes seldom are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from nnc_func import models
from tests.models.networks import networks

SCRIPTS = Path(__file__).parents[2] / "scripts"
RECORDED = json.loads((Path(__file__).parent / "zoo.json").read_text(encoding="utf-8"))


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module scripts/zoo_record.py."""
    monkeypatch.syspath_prepend(SCRIPTS)
    import zoo_record

    return zoo_record


def test_all_of_the_zoo_is_recorded() -> None:
    titles = [f"{n}{end}" for n in models.names() for end in ("", ", training")[: 1 + models.get(n).trains]]
    assert list(RECORDED) == titles


@networks()
def test_a_plan_takes_what_is_recorded(script: Any, name: str) -> None:
    found = {title: script.counts(script.planned(*each)) for title, *each in script.graphs([name])}
    assert found == {title: RECORDED[title] for title in found}


def test_a_record_tells_more_bytes_and_other_values(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same is told of as such; more bytes and other values are refused, fewer bytes and another plan are not."""
    path = str(tmp_path / "record.json")
    for name in script.THREADS:
        monkeypatch.setenv(name, "1")  # as the script does, but put back afterwards

    def run(*options: str) -> int:
        monkeypatch.setattr(sys, "argv", ["zoo_record.py", *options, "--networks", "lenet-5"])
        found: int = script.main()
        return found

    assert run(path) == 0
    assert run("--compare", path) == 0
    before = json.loads(Path(path).read_text(encoding="utf-8"))

    def told(**changes: Any) -> list[tuple[str, bool]]:
        after = json.loads(json.dumps(before))
        after["graphs"]["lenet-5"] |= changes
        return list(script.differences(before, after))

    assert told() == []
    assert told(**{"arena bytes": 101_312 + 64}) == [("lenet-5: 101,312 arena bytes, now 101,376", True)]
    assert told(**{"arena bytes": 101_312 - 64}) == [("lenet-5: 101,312 arena bytes, now 101,248", False)]
    assert told(values="others") == [("lenet-5: other values", True)]
    assert told(plan="another") == [("lenet-5: another plan", False)]
    before["machine"] = "another"
    ((said, worse),) = script.differences(before, json.loads(json.dumps(before)) | {"machine": "this"})
    assert "values are not compared" in said
    assert not worse
