"""From a graph to a plan: the passes on each alternative, and the best one as data. It computes nothing.

Variables are written in a commit section at the end, made of what cannot fail, so that a program that fails
leaves every variable as it was; an update that cannot be written in place gets a fresh array and is swapped in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attrs import frozen

from nnc_func.engine.plan import Plan
from nnc_func.engine.planning.alternatives import Alternatives, smallest
from nnc_func.engine.planning.bodies import with_bodies
from nnc_func.engine.planning.draft import Draft
from nnc_func.engine.planning.offsets import plan_of
from nnc_func.engine.planning.passes import through
from nnc_func.engine.planning.request import Request
from nnc_func.errors import NncError, PlanError
from nnc_func.graph.node import Node


@frozen(eq=False)
class Planned:
    """A plan, and what binds it.

    Attributes
    ----------
    plan
        All of it as data.
    blocks
        The buffer of each node's first result.
    constants
        The arrays of the plan's constants.
    """

    plan: Plan
    blocks: dict[Node, int]
    constants: list[Any]


def arranged(request: Request) -> Draft:
    """The best draft of what is asked for: everything of a plan but offsets.

    Raises
    ------
    DeviceError
        An operator has no kernel on the device.
    PlanError
        A pass of a user's own fails, or makes what the others cannot go on with.
    """
    return Drafting(request).arranged()


def planned(request: Request) -> Planned:
    """The plan of what is asked for: of the draft with the least simulated peak, in the best of the orders.

    Errors are those of `arranged`, and the allocator's.
    """
    return offset(arranged(request))


def planned_smallest(request: Request) -> Planned:
    """As `planned`, of the first of the orders where that takes less once there are offsets."""
    return placed(smallest_draft(request))


def smallest_draft(request: Request) -> Draft:
    """The draft of `planned_smallest`, with offsets."""
    return Drafting(request).smallest()


class Drafting:
    """Drafts of one request, and of the same with other orders, or another memory: what they share is found once.

    Errors are those of `arranged`, and the allocator's.

    Parameters
    ----------
    request
        What is planned.
    """

    def __init__(self, request: Request) -> None:
        with _explained(request):
            self.alternatives = Alternatives(_with_bodies(request))

    @property
    def request(self) -> Request:
        """What is planned, with the plans of bodies."""
        return self.alternatives.request

    def smallest(self, **changes: Any) -> Draft:
        """The draft that takes least, with offsets; `changes` are orders or memory."""
        with _explained(self.request):
            return smallest(self.alternatives.asking(**changes))

    def as_written(self) -> Draft:
        """The draft in the order of the graph, with lifetimes, and nothing chosen but kernels."""
        with _explained(self.request):
            return self.alternatives.as_written()

    def arranged(self, **changes: Any) -> Draft:
        """The draft that is the best one without offsets."""
        with _explained(self.request):
            return self.alternatives.asking(**changes).best()


def offset(draft: Draft) -> Planned:
    """The plan of a draft that has no offsets yet."""
    with _explained(draft.request):
        draft = through(draft.request.passes.allocate, draft)
    return placed(draft)


def _with_bodies(request: Request) -> Request:
    """The request with plans of the bodies of its loops, and of those within them."""
    return with_bodies(request, lambda each: planned_smallest(each).plan)


def placed(draft: Draft) -> Planned:
    """The plan of a draft that has offsets."""
    with _explained(draft.request):
        return Planned(*plan_of(draft), draft.constant_values)


@contextmanager
def _explained(request: Request) -> Iterator[None]:
    """What fails where passes are a user's own is told with their names."""
    others = request.passes.others()
    try:
        yield
    except Exception as error:
        if not others or isinstance(error, NncError):
            raise
        raise PlanError(
            f"planning {request.graph.name!r} fails, with passes that are not this library's own "
            f"({', '.join(others)}): {type(error).__name__}: {error}"
        ) from error
