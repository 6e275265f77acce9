"""The first NaN or infinity of a run: which application gave it, of what, and whether it was given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import field, frozen

from nnc_func.engine.inspecting.summary import Summary, summarised
from nnc_func.engine.running.observers import Application, Observer, called
from nnc_func.errors import NumericsError
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.ops.conv import conv2d
from nnc_func.graph.ops.conv_fused import conv2d_blockwise
from nnc_func.graph.ops.fused import blockwise, blockwise_several


@frozen(repr=False)
class NonFinite:
    """The first application of a run that gave a NaN or an infinity.

    Attributes
    ----------
    name, instruction
        The operator, with those of its body where it is a fused group; its number.
    step
        Of a fused group, the operator in its body that gave it; else "".
    results, operands
        What they hold.
    where, lines
        The user's line; (file, line number, function) of all that are known.
    given
        Leaves that hold one already: name to what it holds.
    times
        Within loops, how many times of each came before, the outermost first.
    """

    name: str
    instruction: int
    step: str
    results: tuple[Summary, ...]
    operands: tuple[Summary, ...]
    where: str
    lines: tuple[tuple[str, int, str], ...] = field(repr=False)
    given: dict[str, Summary]
    times: tuple[int, ...] = ()

    def __repr__(self) -> str:
        at = f", built at {self.where}," if self.where else ""
        within = "".join(f" in time {n} of the loop" for n in reversed(self.times))
        rows = [f"{self.name}{within}{at} is the first that gave a NaN or an infinity"]
        if self.step:
            rows[0] += f", in its step {self.step}"
        rows += [f"  operand {i}: {s!r}" for i, s in enumerate(self.operands)]
        rows += [f"  result {i}: {s!r}" for i, s in enumerate(self.results)]
        rows += [f"  {name} holds one already: {s!r}" for name, s in self.given.items()]
        return "\n".join(rows)


class _Looking(Observer):
    """Stops at the first application whose results are not finite."""

    def __init__(self) -> None:
        self.found: Application | None = None
        self.results: tuple[Summary, ...] = ()
        self.place = 0  # how many had begun before the one that is found
        self._begun: dict[int, int] = {}  # of those that are not done

    def before(self, application: Application) -> None:
        """Count it."""
        self._begun[id(application)] = self.place
        self.place += 1

    def after(self, application: Application) -> None:
        """Look at its results."""
        place = self._begun.pop(id(application))
        if self.found is None and not all(map(_finite, application.results)):
            self.found, self.results = application, tuple(map(summarised, application.results))
            self.place = place


class _Copying(Observer):
    """Copies the operands of one application, before it may write over them."""

    def __init__(self, place: int) -> None:
        self._left = place
        self.done = False
        self.operands: list[Any] = []

    def before(self, application: Application) -> None:
        """Copy its operands if it is the one."""
        if self._left == 0:
            self.operands, self.done = [np.array(a) for a in application.operands], True
        self._left -= 1


def _finite(array: Any) -> bool:
    return array is None or kind_of(array.dtype) not in "fc" or bool(np.isfinite(array).all())


def _until(walk: Any, is_there: Callable[[], bool]) -> None:
    """Go on until it is there."""
    try:
        for _ in walk:
            if is_there():
                return
    except NumericsError:  # an engine that checks numerics sees it at the same place
        if not is_there():
            raise
    finally:
        walk.close()


def first_nonfinite(walk: Callable[[Sequence[Observer]], Any], leaves: dict[str, Any], device: Any) -> NonFinite | None:
    """The first application that gives a NaN or an infinity; None if none does.

    The run is made twice: the second time its operands are copied before it may write over them.
    """
    looking = _Looking()
    _until(walk([looking]), lambda: looking.found is not None)
    found = looking.found
    if found is None:
        return None
    copying = _Copying(looking.place)
    _until(walk([copying]), lambda: copying.done)
    given = {name: array for name, array in leaves.items() if not _finite(array)}
    return NonFinite(
        called(found.op, found.items),
        found.instruction,
        _step(found, copying.operands, device),
        looking.results,
        tuple(map(summarised, copying.operands)),
        found.where,
        tuple(found.lines),
        {name: summarised(array) for name, array in given.items()},
        found.times,
    )


def _step(found: Application, operands: list[Any], device: Any) -> str:
    """Of a fused group, the first operator in its body whose value is not finite."""
    values, params, host = [device.asarray(a) for a in operands], dict(found.items), device.to_numpy
    if found.op is conv2d_blockwise:
        body = params.pop("body")
        values = [device.bind(conv2d, *values[:2], **params), *values[2:]]
        if not _finite(host(values[0])):
            return conv2d.name
    elif found.op in (blockwise, blockwise_several):
        body = params["body"]
    else:
        return ""
    made = body.values(lambda op, given, items: device.bind(op, *given, **dict(items)), values)[body.parameters :]
    wrong = (each.op.name for each, value in zip(body.applications, made, strict=True) if not _finite(host(value)))
    return next(wrong, "")
