"""Planning, on one page: passes, each a function from a draft that it owns to the next.

A user's own stands in the place of any: ``lazy.swap(engine=lazy.engine.with_passes(in_place=mine))``. A plan that such
a pass has made is verified before it runs.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import fields, frozen

from nnc_func.engine.plan_rows import VARIABLE
from nnc_func.engine.planning import (
    bodies,
    in_place_reuse,
    liveness,
    negotiation,
    offsets,
    ordering,
    output_borrowing,
    row_reuse,
    sub_buffers,
)
from nnc_func.engine.planning.draft import Draft
from nnc_func.engine.planning.kernel_table import kernels_of
from nnc_func.engine.planning.streams import scheduled
from nnc_func.errors import PlanError

Pass = Callable[[Draft], Draft]


def choose(draft: Draft) -> Draft:
    """Choose a kernel for each application; of a loop or a branch, the plans of its bodies, which are made before."""
    asked = draft.request
    draft.kernels, draft.recorded, draft.alike = kernels_of(asked.graph, asked.device, asked.table)
    bodies.choose_plans(draft)
    return draft


def alias(draft: Draft) -> Draft:
    """Find what shows the memory of what, lay out the instructions, and find what each may write over.

    It comes before the order, which reads all of it.
    """
    retains = draft.request.retain is not None
    if not retains:  # a value that is kept lies alone
        sequence, contiguous = draft.arrangement.sequence, draft.arrangement.contiguous
        draft.sub_buffers = sub_buffers.sub_buffers(draft.graph, sequence, draft.kernels, draft.apart, contiguous)
    draft.define_all(draft.arrangement.sequence)
    if retains:
        draft.show_outputs()
    else:
        draft.finish_outputs()
    draft.look_up()
    draft.overwritable = in_place_reuse.overwritable(draft)
    return draft


def order(draft: Draft) -> Draft:
    """Put the instructions in the order with the least simulated peak, but where a sequence was asked for."""
    ordering.arrange(draft, () if draft.request.sequence is not None else draft.request.orders)
    return draft


def streams(draft: Draft) -> Draft:
    """Deal the instructions out to streams; values that are kept from run to run have one."""
    if draft.request.retain is None:
        asked = draft.request
        draft.streams = scheduled(draft, asked.scheduler, asked.streams, asked.machine)
    return draft


def lifetimes(draft: Draft) -> Draft:
    """Find the first and the last use of each storage; what is kept lives from run to run."""
    liveness.lifetimes(draft)
    if draft.request.retain is not None:
        from nnc_func.engine.planning.retaining import pin  # few retain

        pin(draft, draft.request.retain)
    return draft


def in_place(draft: Draft) -> Draft:
    """Let results take over the memory of operands that die, where a kernel allows it; and of a loop row by row."""
    in_place_reuse.share(draft)
    row_reuse.reuse_rows(draft)
    return draft


def lend(draft: Draft) -> Draft:
    """Let values live in outputs before these are written, and in inputs that were given up, after they are read."""
    if draft.request.retain is None and draft.request.lends:  # a row of an output is another array each time
        output_borrowing.lend(draft)
        output_borrowing.reuse(draft)
    return draft


def negotiate(draft: Draft) -> Draft:
    """Take kernels that want less scratch where most bytes are alive, for little more time, or within a budget."""
    negotiation.negotiate(draft)
    return draft


def commit(draft: Draft) -> Draft:
    """Let the commit section start at the first write to a variable: interrupts are held from there on.

    Streams have arranged with each other where it starts.
    """
    if not draft.request.commits or draft.streams is not None:
        return draft
    slots, storages, rows = draft.slots, draft.storages, draft.instructions

    def writes(t: int) -> bool:
        row = rows[t]
        return not row.is_view and any(
            storages[draft.root(slots[slot].storage)].kind == VARIABLE for slot in row.results
        )

    draft.commit = next(filter(writes, range(draft.commit, len(rows))), len(rows))
    return draft


def allocate(draft: Draft) -> Draft:
    """Find offsets for what lives in the arena."""
    offsets.allocate(draft, draft.request.allocator)
    return draft


def through(each: Pass, draft: Draft) -> Draft:
    """What a pass makes of a draft.

    Raises
    ------
    PlanError
        It makes no draft of it.
    """
    found = each(draft)
    if not isinstance(found, Draft):
        raise PlanError(f"a pass is a function from a Draft to a Draft; {_named(each)} gives {found!r}")
    if found.graph is not draft.graph:
        raise PlanError(f"the pass {_named(each)} gives the draft of another graph, {found.graph.name!r}")
    return found


def _named(each: Pass) -> str:
    return getattr(each, "__name__", repr(each))


@frozen
class Passes:
    """The passes of a planning, in their order.

    Attributes
    ----------
    choose
        Runs once.
    alias, order, streams, lifetimes, in_place, lend, negotiate
        Run on each alternative; see `alternatives`.
    commit, allocate
        Run on the best of these.

    Examples
    --------
    Nothing is computed in place:

    >>> import nnc_func as nnc
    >>> lazy = nnc.lazy()
    >>> apart = lazy.swap(engine=lazy.engine.with_passes(in_place=lambda draft: draft))
    >>> def doubled(stack):
    ...     x = stack.input("x", (1000,), "float32")
    ...     return stack.compile([x], stack.ops.sort(stack.ops.exp(stack.ops.sort(x)))).plan.arena_bytes
    >>> doubled(lazy), doubled(apart)
    (4032, 8064)
    """

    choose: Pass = choose
    alias: Pass = alias
    order: Pass = order
    streams: Pass = streams
    lifetimes: Pass = lifetimes
    in_place: Pass = in_place
    lend: Pass = lend
    negotiate: Pass = negotiate
    commit: Pass = commit
    allocate: Pass = allocate

    def others(self) -> tuple[str, ...]:
        """The names of the passes that are not this library's own."""
        return tuple(each.name for each in fields(Passes) if getattr(self, each.name) is not each.default)


PASSES = Passes()
