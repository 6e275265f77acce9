"""Any table is drawn: dots with intervals, points, lines; what cannot be drawn is said (`engine/drawing/tables`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from nnc_func.engine.allocators import ALLOCATORS
from nnc_func.engine.allocators.problems.instances import problems
from nnc_func.engine.comparing import compare
from nnc_func.engine.drawing.tables import plot
from nnc_func.errors import PlanError

SVG = "{http://www.w3.org/2000/svg}"


def drawn(picture: Any) -> Any:
    return ElementTree.fromstring(picture.svg)


def test_a_summary_is_dots_with_intervals_in_its_order(tmp_path: Path) -> None:
    found = compare(problems("uniform:40", range(6)), {n: ALLOCATORS[n] for n in ("best_fit", "no_reuse")})
    picture = plot(found.summary(), heading="<two>")
    root = drawn(picture)
    labels = [t.text for t in root.iter(f"{SVG}text") if t.text in found.asked]
    assert labels == [row["allocator"] for row in found.summary()]
    circles = [float(c.attrib["cx"]) for c in root.iter(f"{SVG}circle")]
    assert circles == sorted(circles)
    assert len([p for p in root.iter(f"{SVG}path") if p.attrib.get("stroke-width") == "2"]) == 6
    assert "&lt;two&gt;" in picture._repr_svg_()
    picture.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == picture.svg


def test_points_have_a_colour_a_kind_and_lines_join_them() -> None:
    rows = [{"kind": k, "x": float(i), "y": i * i} for k in "ab" for i in range(4)] + [
        {"kind": "a", "x": 1.0, "y": None}
    ]
    root = drawn(plot(rows, "x", "y", by="kind", lines=True))
    assert len({c.attrib["fill"] for c in root.iter(f"{SVG}circle")}) == 2
    assert len([*root.iter(f"{SVG}circle")]) == 8
    assert len([p for p in root.iter(f"{SVG}path") if p.attrib.get("stroke-width") == "1.6"]) == 2
    assert "1 rows without numbers are left out" in plot(rows, "x", "y").svg


@pytest.mark.parametrize("numbers", [[1.0], [0.0, 0.0], [3, 17], [-5, 5], [0.001, 1000.0], [1.0, 1.0001], [1e9, 3e9]])
def test_ticks_are_round(numbers: list[float]) -> None:
    root = drawn(plot([{"name": str(i), "value": v} for i, v in enumerate(numbers)]))
    ticks = [t.text for t in root.iter(f"{SVG}text") if t.attrib.get("text-anchor") == "middle"]
    assert len(ticks) >= 2
    for tick in ticks:
        digits = re.sub(r"e.*|[-.]", "", str(tick)).strip("0")
        assert len(digits) <= 1 or (digits[-1] in "125468" and len(digits) <= 6), ticks
    steps = np.diff([float(str(t)) for t in ticks])
    if max(numbers) <= 30 * min(numbers) or min(numbers) <= 0:
        assert np.allclose(steps, steps[0], rtol=1e-3)
        assert f"{steps[0]:.0e}"[0] in "125"


def test_tables_that_cannot_be_drawn() -> None:
    for table, given, words in (
        ([], {}, "wanted rows, as dictionaries, one or more; given"),
        ([1, 2], {}, "wanted rows"),
        ([{"a": "x"}], {}, "has no column of numbers"),
        ([{"a": 1.0}], {}, "has no column of words"),
        ([{"a": "x", "b": 1.0}], {"x": "c"}, "has no column 'c'; it has: a, b"),
        ([{"a": "x", "b": float("nan")}], {"x": "b"}, "column 'b' has no number that can be drawn"),
        (
            [{"a": "x", "b": 0.0}, {"a": "y", "b": 1.0}],
            {"log": True},
            "logarithmic axis has numbers above 0, given 0",
        ),
    ):
        with pytest.raises(PlanError, match=words):
            plot(table, **given)  # type: ignore[arg-type]


def test_a_data_frame_and_numpys_numbers_are_drawn() -> None:
    class Frame:
        def to_dict(self, orient: str) -> list[dict[str, Any]]:
            assert orient == "records"
            return [{"name": "a", "value": np.float32(2)}, {"name": "b", "value": np.int64(3)}]

    assert len([*drawn(plot(Frame())).iter(f"{SVG}circle")]) == 2
