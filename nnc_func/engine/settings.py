"""What the settings of an engine may be; each validator says what was given and what was wanted."""

from __future__ import annotations

from typing import Any

from attrs import asdict

from nnc_func.engine.orders import ORDERS
from nnc_func.engine.planning.kernel_table import KernelTable
from nnc_func.engine.planning.passes import Passes
from nnc_func.errors import PlanError


def alignment(engine: Any, attribute: Any, value: Any) -> None:
    """A power of two: memory is aligned to one, and so are arrays in it then."""
    if type(value) is not int or value < 1 or value & (value - 1):
        raise PlanError(f"alignment is a power of two, in bytes (64 is usual), given {value!r}")


def asynchronous(engine: Any, attribute: Any, value: Any) -> None:
    """Whether work is formed ahead; alone."""
    if type(value) is not bool:
        raise PlanError(f"asynchronous is True or False, given {value!r}")
    if value and (engine.memoise, engine.memory_limit, engine.replay_after) != (None, None, None):
        raise PlanError(
            "what is formed ahead is neither memoised, evicted nor replayed: leave out asynchronous, or memoise, "
            "memory_limit and replay_after"
        )


def ahead_from(engine: Any, attribute: Any, value: Any) -> None:
    """Seconds; 0: everything is formed ahead."""
    if type(value) not in (int, float) or not value >= 0:
        raise PlanError(f"ahead_from is seconds, 0 or more, given {value!r}")


def replay_after(engine: Any, attribute: Any, value: Any) -> None:
    """None, or how often a sequence occurs before it is replayed: once at the least."""
    if value is not None and (type(value) is not int or value < 1):
        raise PlanError(f"replay_after is None, or a number from 1 on (3 is usual), given {value!r}")
    if value is not None and (engine.memory_limit is not None or engine.memoise is not None):
        raise PlanError("what is replayed is neither memoised nor evicted: leave out replay_after, or the others")


def streams(engine: Any, attribute: Any, value: Any) -> None:
    """How many there are: an integer, which a bool is not meant as."""
    if type(value) is not int or value < 1:
        raise PlanError(f"a program has 1 stream or more: streams is an integer, given {value!r}")


def orders(engine: Any, attribute: Any, value: Any) -> None:
    """One or more, each a function or the name of a registered one."""
    unknown = [each for each in value if not callable(each) and each not in ORDERS]
    if unknown or not value:
        said = f"no order named {', '.join(map(repr, unknown))}" if unknown else "no order"
        raise PlanError(f"{said}; an order is a function of an OrderProblem, or one of: {', '.join(ORDERS)}")


def kernels(engine: Any, attribute: Any, value: Any) -> None:
    """A table, not the path of one."""
    if not isinstance(value, KernelTable):
        raise PlanError(f"kernels is a KernelTable, given {value!r}; KernelTable.load(path) reads one from a file")


def passes(engine: Any, attribute: Any, value: Any) -> None:
    """`Passes`, each of them a function."""
    if not isinstance(value, Passes):
        raise PlanError(f"passes is a Passes, given {value!r}; with_passes(in_place=f) makes one")
    for name, each in asdict(value, recurse=False).items():
        if not callable(each) or isinstance(each, type) or type(each).__hash__ is None:
            raise PlanError(f"a pass is a function from a Draft to a Draft, given {name}={each!r}")


def callable_(engine: Any, attribute: Any, value: Any) -> None:
    """A function: an allocator or a scheduler."""
    if not callable(value):
        raise PlanError(f"{attribute.name} is a function, as those of nnc_func.engine are, given {value!r}")


def joint(engine: Any, attribute: Any, value: Any) -> None:
    """None, or a `JointChoice`; no passes of a user's own that it would take the places of."""
    if value is None:
        return
    from nnc_func.engine.planning.joint_passes import REPLACED, JointChoice

    if not isinstance(value, JointChoice):
        raise PlanError(f"joint is a JointChoice, given {value!r}; with_joint_choice() makes one")
    if engine.fast_memory is not None:
        raise PlanError("an engine has a joint choice or a fast memory: with_fast_memory(None) gives the latter up")
    mine = [name for name in engine.passes.others() if name in REPLACED]
    if mine:
        raise PlanError(
            f"a joint choice stands in the place of the passes {', '.join(REPLACED)}; of these a user's own are given: "
            f"{', '.join(mine)}"
        )


def budget(engine: Any, attribute: Any, value: Any) -> None:
    """None, or a `Budget`: of bytes or of time, with a strategy that there is."""
    if value is None:
        return
    from nnc_func.engine.planning.budgets import Budget, check_budget

    if not isinstance(value, Budget):
        raise PlanError(f"budget is a Budget, given {value!r}; with_memory_budget('500MB') makes one")
    check_budget(value)


def fast_memory(engine: Any, attribute: Any, value: Any) -> None:
    """None, or a `FastMemory`, and no budget beside it: values are moved or computed again."""
    if value is None:
        return
    from nnc_func.engine.planning.levels import FastMemory, check_fast_memory

    if not isinstance(value, FastMemory):
        raise PlanError(f"fast_memory is a FastMemory, given {value!r}; with_fast_memory('500MB') makes one")
    check_fast_memory(value)
    if engine.budget is not None:
        raise PlanError("an engine has a budget or a fast memory: with_memory_budget(None) gives the budget up")
