"""Values that outlive a run, in a plan that is being made: each gets a place that nothing shares."""

from __future__ import annotations

from nnc_func.engine.incremental.dependencies import Dependencies, Step
from nnc_func.engine.plan_rows import INPUT, VARIABLE
from nnc_func.engine.planning.draft import Draft


def pin(draft: Draft, policy: str) -> None:
    """Let what the policy keeps live from before the first instruction until after the last."""
    steps = [
        Step(operands, results, operands[node.op.view.argument] if view else None)
        for node, _, operands, results, _, view in draft.instructions
    ]
    inputs = draft.leaf_slots[INPUT]
    leaves = Dependencies(steps, [*inputs, *draft.leaf_slots[VARIABLE]])
    updates = [(len(inputs) + at, leaves.mask(slot)) for at, slot in draft.updates]
    roots = [*draft.outputs, *(slot for _, slot in draft.updates)]
    draft.pinned = {draft.slots[slot].storage for slot in leaves.kept(policy, roots, updates)}
    for storage in map(draft.storages.__getitem__, draft.pinned):
        storage.first, storage.last = 0, len(draft.instructions)
