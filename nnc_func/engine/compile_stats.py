"""What a compilation did, and whether the programs that it makes are planned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import field, frozen

if TYPE_CHECKING:
    from nnc_func.engine.planning.answers import Recomputation
    from nnc_func.engine.planning.joint_plan import JointReport
    from nnc_func.engine.planning.levels import Traffic


@frozen
class Stats:
    """What a compilation did.

    Attributes
    ----------
    before, after
        Nodes, edges and applications of the graph before and after optimisation.
    optimiser
        The optimiser's report.
    optimise_seconds, plan_seconds
        How long it took, in seconds.
    recomputation
        What is computed again, of an engine with a budget; None: it has none.
    joint
        What a joint choice gave beside the chain of separate choices; None: the engine makes none.
    bind_calls
        Instructions that call `bind` of a device's layer, whose results are copied to where they are planned; a layer
        with a `writing` of its own saves the copies.
    traffic
        What is moved between two levels of memory, of an engine with a fast memory; None: it has none.
    """

    before: Any
    after: Any
    optimiser: Any = field(repr=False)
    optimise_seconds: float
    plan_seconds: float
    recomputation: Recomputation | None = None
    bind_calls: int = 0
    traffic: Traffic | None = None
    joint: JointReport | None = None


def plannable(device: Any) -> bool:
    """Whether programs run a device's kernels over memory planned for it: it says so (`PlannedDeviceSignature`)."""
    return bool(getattr(device, "has_memory", False))


def plans(engine: Any) -> bool:
    """Whether an engine plans; another one computes at once, or one by one."""
    return hasattr(engine, "passes") and plannable(engine.device)
