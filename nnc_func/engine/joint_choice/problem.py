"""The joint problem as data: tasks, buffers, kernels to choose among, and what may be computed again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from nnc_func.engine.orders.base import NOTHING, OrderProblem
from nnc_func.errors import PlanError
from nnc_func.locks import cached_property

TEXT = "joint problem 1"  # what a saved problem begins with


@frozen
class Alternative:
    """One kernel that may run a task.

    Attributes
    ----------
    scratch
        Bytes of each array that it needs while it runs.
    cost
        Of one run: a whole number, so that sums are exact; picoseconds, or 1.
    """

    scratch: tuple[int, ...] = ()
    cost: int = 0

    @property
    def nbytes(self) -> int:
        """All of its scratch."""
        return sum(self.scratch)


def _numbers(given: Iterable[int]) -> tuple[int, ...]:
    return tuple(given)


def _set(given: Iterable[int]) -> frozenset[int]:
    return frozenset(given)


FREE = (Alternative(),)  # of a task that needs no scratch, and of which nobody asks what it costs


def best_of(offers: Sequence[Alternative]) -> list[tuple[int, int, int]]:
    """Bytes, cost and number of kernels of which none is both smaller and cheaper than another: the cheapest first.

    Examples
    --------
    >>> best_of([Alternative((8,), 1), Alternative((9,), 2), Alternative((), 2)])
    [(8, 1, 0), (0, 2, 2)]
    """
    found: list[tuple[int, int, int]] = []
    for cost, nbytes, number in sorted((each.cost, each.nbytes, i) for i, each in enumerate(offers)):
        if not found or nbytes < found[-1][0]:
            found.append((nbytes, cost, number))
    return found


@frozen(eq=False, slots=False)
class JointProblem:
    """Which order, which kernels, what is written over what, what is computed again, and where all of it lies.

    What is to be as small as it can is the arena: bytes from the lowest offset to the highest end of a buffer. All
    choices together cost no more than `limit`. In it are the buffers of `tasks`, and the scratch of the kernel that
    runs; what a kernel takes beside (`Kernel.private`) is not, nor are inputs, variables and constants.

    Attributes
    ----------
    tasks
        Tasks, what each needs and uses, buffers and their bytes, as orders are asked. Scratch is not among them. Sizes
        are multiples of the alignment of offsets.
    kernels
        For each task the kernels that may run it, the usual one first; empty: each has one, without scratch and cost.
    again
        Tasks that may be run more than once, and the buffers that each makes: the first to use them is that task, and
        the others read them. Run again, it makes them anew, in other memory. No buffer of it lasts.
    barrier
        A task behind which nothing is run again; None: there is none.
    houses
        Lasting buffers that lie outside the arena. Until its first use a house may have others in it.
    housed
        Buffers that may lie in a house, all of each.
    limit
        What all runs may cost in sum; None: anything, where nothing is run again.

    Raises
    ------
    PlanError
        Lists of different lengths, bytes or costs below zero or no whole numbers, a task or a buffer that there is not,
        or that is not what is said above.

    Examples
    --------
    A task with two kernels; the second one takes no scratch and twice the time:

    >>> tasks = OrderProblem([(), (0,)], [(0,), (0, 1)], [8, 8], overwrites={1: [(1, (0,))]})
    >>> problem = JointProblem(tasks, [FREE, [Alternative((8,), 1), Alternative((), 2)]], limit=2)
    >>> len(problem), problem.usual_cost
    (2, 1)
    """

    tasks: OrderProblem
    kernels: Sequence[Sequence[Alternative]] = ()
    again: Mapping[int, Sequence[int]] = NOTHING
    barrier: int | None = None
    houses: tuple[int, ...] = field(default=(), converter=_numbers)
    housed: frozenset[int] = field(default=frozenset(), converter=_set)
    limit: int | None = None

    def __attrs_post_init__(self) -> None:
        tasks, count, buffers = self.tasks, len(self.tasks), len(self.tasks.sizes)
        if self.kernels and len(self.kernels) != count:
            raise PlanError(f"{count} tasks, and kernels of {len(self.kernels)}: wanted as many")
        for task, offers in enumerate(self.kernels):
            if not offers:
                raise PlanError(f"task {task} has no kernel: wanted one or more")
            for each in offers:
                if not all(type(n) is int and n >= 0 for n in (*each.scratch, each.cost)):
                    raise PlanError(f"a kernel of task {task} is {each}: wanted whole numbers from 0 on")
        for task in (*self.again, *(() if self.barrier is None else (self.barrier,))):
            if not 0 <= task < count:
                raise PlanError(f"there is no task {task}: there are {count}")
        for task, made in self.again.items():
            if self.limit is None or any(not each.cost for each in self.offers[task]):
                raise PlanError(
                    f"task {task} may be run again: wanted a limit of costs, and kernels that cost something"
                )
            for buffer in made:
                users = tasks.users[buffer] if 0 <= buffer < buffers else []
                if users[:1] != [task] or buffer in tasks.lasting or not self._all_behind(task, users):
                    raise PlanError(
                        f"task {task} may be run again, and would make buffer {buffer} anew: wanted one that it alone "
                        "makes, that others read behind it, and that does not last"
                    )
        if not set(self.houses) <= set(tasks.lasting):
            raise PlanError(f"houses are {list(self.houses)}: wanted buffers that last, which {[*tasks.lasting]} do")
        written: set[int] = {
            b for pairs in tasks.overwrites.values() for made, others in pairs for b in (made, *others)
        }
        if written & set(self.houses):
            raise PlanError(
                f"buffer {min(written & set(self.houses))} is a house: it is made over none, nor one over it"
            )
        if self.housed and not (min(self.housed) >= 0 and max(self.housed) < buffers):
            raise PlanError(f"buffers {min(self.housed)} to {max(self.housed)} may be housed; there are {buffers}")
        if self.limit is not None and (type(self.limit) is not int or self.limit < 0):
            raise PlanError(f"wanted a limit of costs that is a whole number from 0 on, given {self.limit!r}")

    def _all_behind(self, task: int, users: Sequence[int]) -> bool:
        """Whether all users of a buffer that a task makes come behind it in any order."""
        return all(self.before[user] >> task & 1 for user in users if user != task)

    def __len__(self) -> int:
        return len(self.tasks)

    @cached_property
    def before(self) -> list[int]:
        """For each task those that come before it in any order, as bits."""
        found: list[int] = []
        for needed in self.tasks.needs:
            mask = 0
            for one in needed:
                mask |= found[one] | 1 << one
            found.append(mask)
        return found

    @cached_property
    def offers(self) -> Sequence[Sequence[Alternative]]:
        """For each task its kernels."""
        return self.kernels or [FREE] * len(self)

    @cached_property
    def undominated(self) -> list[list[tuple[int, int, int]]]:
        """For each task what `best_of` says of its kernels."""
        return [best_of(offers) for offers in self.offers]

    @cached_property
    def maker(self) -> dict[int, int]:
        """Of buffers that may be made anew the task that makes them."""
        return {buffer: task for task, made in self.again.items() for buffer in made}

    @cached_property
    def outside(self) -> int:
        """Bytes of all houses."""
        return sum(self.tasks.sizes[house] for house in self.houses)

    @cached_property
    def may_house(self) -> dict[int, frozenset[int]]:
        """For each house the buffers that it has room for, and that may be over when it is used."""
        tasks, found = self.tasks, {}
        for house in self.houses:
            begins = min(tasks.users[house], default=len(self))
            first = all(self.before[user] >> begins & 1 for user in tasks.users[house][1:])

            def over(buffer: int, begins: int = begins, first: bool = first) -> bool:
                return not first or not any(u == begins or self.before[u] >> begins & 1 for u in tasks.users[buffer])

            room = tasks.sizes[house]
            fit = (b for b in self.housed if tasks.sizes[b] <= room and b not in tasks.lasting)
            found[house] = frozenset(b for b in fit if over(b))
        return found

    @cached_property
    def usual_cost(self) -> int:
        """What all tasks cost, run once each by the usual kernel."""
        return sum(offers[0].cost for offers in self.offers)

    @cached_property
    def least_cost(self) -> int:
        """What all tasks cost at the least."""
        return sum(min(each.cost for each in offers) for offers in self.offers)

    def to_json(self) -> str:
        """As text, which `from_json` reads."""
        tasks = self.tasks
        return json.dumps(
            {
                "form": TEXT,
                "needs": [[*each] for each in tasks.needs],
                "uses": [[*each] for each in tasks.uses],
                "sizes": [*tasks.sizes],
                "lasting": sorted(tasks.lasting),
                "overwrites": [[t, [[m, [*o]] for m, o in pairs]] for t, pairs in sorted(tasks.overwrites.items())],
                "kernels": [[[[*each.scratch], each.cost] for each in offers] for offers in self.kernels],
                "again": [[task, [*made]] for task, made in sorted(self.again.items())],
                "barrier": self.barrier,
                "houses": [*self.houses],
                "housed": sorted(self.housed),
                "limit": self.limit,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> JointProblem:
        """The problem that `to_json` has written.

        Raises
        ------
        PlanError
            It is no such text, or of no problem.

        Examples
        --------
        >>> tasks = OrderProblem([(), (0,)], [(0,), (0, 1)], [8, 8], overwrites={1: [(1, (0,))]})
        >>> JointProblem.from_json(JointProblem(tasks, limit=2).to_json()).tasks.overwrites
        {1: [(1, (0,))]}
        """
        try:
            read: dict[str, Any] = json.loads(text)
            if read["form"] != TEXT:
                raise ValueError(f"its form is {read['form']!r}")
            over = {t: [(m, tuple(o)) for m, o in pairs] for t, pairs in read["overwrites"]}
            needs, uses = ([tuple(each) for each in read[name]] for name in ("needs", "uses"))
            tasks = OrderProblem(needs, uses, read["sizes"], tuple(read["lasting"]), over)
            kernels = [[Alternative(tuple(s), cost) for s, cost in offers] for offers in read["kernels"]]
            again = {task: tuple(made) for task, made in read["again"]}
            return cls(tasks, kernels, again, read["barrier"], read["houses"], read["housed"], read["limit"])
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise PlanError(f"wanted the text of a joint problem, as `to_json` writes it: {error}") from None
