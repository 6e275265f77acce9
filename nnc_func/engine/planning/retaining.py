"""Values that outlive a run, in a plan that is being made: each gets a place that nothing shares."""

from __future__ import annotations

from nnc_func.engine.incremental.dependencies import Dependencies, Step
from nnc_func.engine.plan_rows import INPUT, VARIABLE
from nnc_func.engine.planning.storages import Storages


def pin(work: Storages, policy: str) -> None:
    """Let what the policy keeps live from before the first instruction until after the last."""
    steps = [
        Step(operands, results, operands[node.op.view.argument] if view else None)
        for node, _, operands, results, _, view in work.instructions
    ]
    inputs = work.leaf_slots[INPUT]
    leaves = Dependencies(steps, [*inputs, *work.leaf_slots[VARIABLE]])
    updates = [(len(inputs) + at, leaves.mask(slot)) for at, slot in work.updates]
    roots = [*work.outputs, *(slot for _, slot in work.updates)]
    work.pinned = {work.storage[slot] for slot in leaves.kept(policy, roots, updates)}
    for s in work.pinned:
        work.first[s], work.last[s] = 0, len(work.instructions)
