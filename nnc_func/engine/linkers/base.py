"""A linker makes a plan executable: the contract between a session, which has inputs and variables, and what runs.

A linker is a function; `kernel_calls.link` is this library's own, a loop of kernel calls. One that prints C, that
records a CUDA graph or that sends instructions to another machine keeps to the same contract:
``lazy.swap(engine=lazy.engine.with_linker(mine))``. The plan may be a whole program's, one whose values outlive a run,
or one inside another: nothing here asks which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from nnc_func.device.shared.namespace import explained
from nnc_func.engine.plan import Plan
from nnc_func.engine.running.observers import Application, Observer, lines_of
from nnc_func.engine.running.results import Recycled
from nnc_func.errors import NncError, PlanError
from nnc_func.facets.places import Place
from nnc_func.graph.leaves import Variable
from nnc_func.graph.origin import describe


class Section(Protocol):
    """Some instructions of an executable, which are run one after the other as the plan has them.

    Attributes
    ----------
    instructions
        Those that compute something, by number, in order: views are taken when their base is there.
    started
        How many of them the last run has started; whoever wants to know sets it to 0 before a run.
    """

    started: int

    @property
    def instructions(self) -> Sequence[int]: ...

    def run(self) -> None:
        """Run them.

        Raises
        ------
        NncError
            A kernel failed: names the operator, the shapes and the user's line; `failure` makes it.
        """

    def walk(self, watching: Sequence[Observer], wait: Any = None, first: int = 0) -> Iterator[Application]:
        """Run each before the observers' eyes, when it is asked for; `observed` does one.

        The first one has the number `first`. `wait` is called after each, if it is not None.
        """
        ...


@runtime_checkable
class Executable(Protocol):
    """A plan linked to memory. One run at a time; whoever wants two at a time links the plan twice.

    Slots of the arenas and of constants are there from the beginning. All others are put there: inputs, variables,
    outputs and next values, and what lives in the memory of one of them. Views follow by themselves.
    """

    def put(self, slot: int, array: Any) -> None:
        """Let a slot be that array, until `forget`."""

    def keep(self, slot: int, array: Any) -> None:
        """Let a slot be that array until another is put there: for what seldom changes."""

    def array(self, slot: int) -> Any:
        """Where the value of a slot is: an array of the device, which the next run may write over."""

    def forget(self) -> None:
        """Keep no array that was `put`: callers' arrays and results are theirs."""

    def section(self, instructions: Sequence[int]) -> Section:
        """Those instructions, by number and in order, over the same arrays: a section costs little."""
        ...

    def as_function(
        self,
        inputs: Sequence[tuple[int, Any, Any]],
        results: Sequence[tuple[int, Recycled]],
        variables: Sequence[tuple[int, Variable]],
    ) -> Callable[[Any, bool], list[Any]] | None:
        """All of a run as one function, for programs that write nothing but their results; None where it saves nothing.

        The function is given the inputs, and whether these are known to be arrays as wanted; it returns the results.

        Parameters
        ----------
        inputs
            Slot, shape and dtype of each.
        results
            Slot and buffers of each: the function takes its arrays there.
        variables
            Slot of each: the function reads its array of now, and tells the device of the version of one whose
            elements a kernel puts into an order of its own (`running.lasting`).
        """


Linker: TypeAlias = Callable[[Plan, Any, Sequence[Any], Mapping[Place, Any]], Executable]
"""Maps a plan, its device, the arrays of its constants and, by place, its arenas (runs of bytes) to an executable."""


def executable_of(
    linker: Linker, plan: Plan, device: Any, constants: Sequence[Any], memory: Mapping[Place, Any]
) -> Executable:
    """What a linker makes of a plan and its memory.

    Raises
    ------
    PlanError
        It is no executable.
    """
    found = linker(plan, device, constants, memory)
    if isinstance(found, type) or not isinstance(found, Executable):
        name = getattr(linker, "__qualname__", None) or repr(linker)
        methods = ", ".join(method for method in vars(Executable) if not method.startswith("_"))
        raise PlanError(
            f"the linker {name} made {type(found).__name__} of the plan {plan.name!r}; return an object with the "
            f"methods of nnc_func.engine.linkers.base.Executable: {methods}"
        )
    return found


def failure(plan: Plan, t: int, error: Exception) -> NncError:
    """What went wrong in an instruction, in words that name the user's line."""
    i = plan.instructions[t]
    avals = tuple(plan.slots[s].aval for s in i.operands)
    found = explained(i.op, avals, i.items, error, describe(i.origin, lines_of(i.op)))
    found.instruction = t
    return found
