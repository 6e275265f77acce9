"""Allocation problems as JSON: an object with a list a field of `Problem`, where that says anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from operator import index
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import astuple

from nnc_func.archives.plain import json_value
from nnc_func.engine.allocators.problems.csv_text import text_of
from nnc_func.engine.allocators.problems.fields import Gap, Uses
from nnc_func.errors import FileFormatError, PlanError

if TYPE_CHECKING:
    from nnc_func.engine.allocators.problems.problem import Problem

REQUIRED = ("sizes", "lower", "upper")
FIELDS = (*REQUIRED, "alignment", "uses", "pins", "gaps", "groups", "spaces", "capacity", "names")


def printed(problem: Problem) -> str:
    """As `Problem.to_json` says."""
    found: dict[str, Any] = {}
    for name in FIELDS:
        value = getattr(problem, name)
        if isinstance(value, np.ndarray):
            found[name] = value.tolist()
        elif isinstance(value, Uses):
            found[name] = {"before": value.before.tolist(), "until": value.until.tolist()}
        elif name == "gaps" and value:
            found[name] = [[*astuple(gap)] for gap in value]
        elif value is not None and value != ():
            found[name] = value
    return json.dumps(found)


def parsed(make: Callable[..., Problem], source: str | PathLike[str]) -> Problem:
    """The problem that `make` makes of the fields, as `Problem.from_json` says."""
    try:
        given = json_value(text_of(source).encode())
    except FileFormatError as error:
        raise PlanError(f"this is no JSON of ours: {error}") from None
    if not isinstance(given, dict):
        raise PlanError(f"wanted an object with {', '.join(REQUIRED)}, given {given!r:.60}")
    for name in given:
        if name not in FIELDS:
            raise PlanError(f"there is no field {name!r}; there are {', '.join(FIELDS)}")
    for name in REQUIRED:
        if name not in given:
            raise PlanError(f"no field says {name}; wanted {', '.join(REQUIRED)}")
    fields = dict(given)
    try:
        if "gaps" in fields:
            fields["gaps"] = [_gap(*row) for row in fields["gaps"]]
        if fields.get("uses") is not None:
            uses = fields["uses"]
            count = len(given["sizes"])
            columns = (np.array(uses[name], np.int64) for name in ("before", "until"))
            fields["uses"] = Uses(*(c.reshape(count, -1) if count else np.zeros((0, 1), np.int64) for c in columns))
        return make(**fields)
    except (TypeError, ValueError, KeyError) as error:
        raise PlanError(f"a field is of another form than to_json gives it: {error}") from None


def _gap(buffer: Any, lower: Any, upper: Any, window: Any = None) -> Gap:
    if window is not None:
        low, high = window
        window = index(low), index(high)
    return Gap(index(buffer), index(lower), index(upper), window)
