"""The allocators of the package omnimalloc (2026), to compare with. It needs ``pip install nnc_func[exact]``."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

from attrs import frozen

from nnc_func.engine.allocators.problems.fields import FREE
from nnc_func.engine.allocators.problems.problem import Problem
from nnc_func.errors import PlanError


def package() -> Any:
    """The package omnimalloc.

    Raises
    ------
    PlanError
        It is not installed.
    """
    try:
        return importlib.import_module("omnimalloc")
    except ImportError as error:
        raise PlanError(f"this allocator needs omnimalloc: pip install 'nnc_func[exact]' ({error})") from error


@frozen
class OmniMalloc:
    """One of omnimalloc's allocators.

    Attributes
    ----------
    method
        Its name there, as `omnimalloc.available_allocators` gives it. Those with a limit of time are not deterministic.
    """

    method: str = "omni"
    handles: ClassVar[frozenset[str]] = frozenset({"pins"})

    def __call__(self, problem: Problem) -> list[int]:
        """The offsets, in bytes."""
        omnimalloc = package()
        if self.method not in omnimalloc.available_allocators():
            raise PlanError(
                f"omnimalloc has no allocator {self.method!r}; there are {omnimalloc.available_allocators()}"
            )
        columns = (problem.rounded.tolist(), problem.lower.tolist(), problem.upper.tolist())
        pins = [FREE] * len(problem) if problem.pins is None else problem.pins.tolist()
        given = [
            omnimalloc.Allocation(i, size, lower, upper, None if pin == FREE else pin)
            for i, (size, lower, upper, pin) in enumerate(zip(*columns, pins, strict=True))
            if size
        ]
        offsets = [max(pin, 0) for pin in pins]
        for allocation in omnimalloc.allocate(given, self.method) if given else ():
            offsets[allocation.id] = allocation.offset
        return offsets
