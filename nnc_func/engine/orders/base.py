"""The ordering problem as data, what an order is, and the peak that one has. Nothing here knows of graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from operator import index
from types import MappingProxyType
from typing import Any, Protocol

from attrs import frozen

from nnc_func.engine.naming import name_of
from nnc_func.engine.needs import check_needs, inverted, spans
from nnc_func.errors import AnswerError, PlanError
from nnc_func.locks import cached_property

NOTHING: Mapping[int, Any] = MappingProxyType({})


@frozen(eq=False, slots=False)
class OrderProblem:
    """Tasks that are to be run one after another, and the buffers that they use.

    Tasks have numbers, and need lower ones only: running them by number is one valid order, which an engine makes the
    depth-first one. A buffer is alive from the
    first task that uses it, whichever that is, to the last one. So scratch memory is a buffer that one task uses; views
    are no buffers, who uses one uses what it shows; and a tensor that is put together in place is used by the tasks
    that compute its parts.

    Attributes
    ----------
    needs
        For each task, those that must have run before it.
    uses
        For each task, the buffers that it writes or reads, each once.
    sizes
        Bytes of each buffer.
    lasting
        Buffers that stay alive to the end, once they are used.
    overwrites
        For tasks that may write over what they read: pairs of a buffer that the task is the first to use, and others of
        that size, the one it takes over being the first of them that no other task uses any more.
    written
        For each task its rank in the program as its author wrote it; the numbers unless given.

    Raises
    ------
    PlanError
        A task needs one that is not before it, uses a buffer that there is not, or would overwrite one of another size;
        a negative size; lists of different lengths.

    Examples
    --------
    One task makes 8 bytes, two read them to make 4 and 2 bytes, the last reads these:

    >>> problem = OrderProblem([(), (0,), (0,), (1, 2)], [(0,), (0, 1), (0, 2), (1, 2, 3)], [8, 4, 2, 1])
    >>> simulated_peak(problem, [0, 1, 2, 3])
    14
    """

    needs: Sequence[Sequence[int]]
    uses: Sequence[Sequence[int]]
    sizes: Sequence[int]
    lasting: Collection[int] = ()
    overwrites: Mapping[int, Sequence[tuple[int, Sequence[int]]]] = NOTHING
    written: Sequence[int] | None = None

    def __attrs_post_init__(self) -> None:
        count, buffers = len(self.needs), len(self.sizes)
        if len(self.uses) != count or (self.written is not None and len(self.written) != count):
            ranks = "" if self.written is None else f", {len(self.written)} ranks"
            raise PlanError(f"{count} tasks' needs, {len(self.uses)} tasks' uses{ranks}: wanted as many")
        check_needs(self.needs)
        named = {*chain.from_iterable(self.uses), *self.lasting}
        if named and not (min(named) >= 0 and max(named) < buffers):
            raise PlanError(f"buffers {min(named)} to {max(named)} are used; there are {buffers}")
        if buffers and min(self.sizes) < 0:
            raise PlanError(f"buffer {self.sizes.index(min(self.sizes))} has {min(self.sizes)} bytes; wanted 0 or more")
        sizes = self.sizes
        for task, pairs in self.overwrites.items():
            here = self.uses[task]
            for made, others in pairs:
                wrong = made not in here or made in others
                for other in others:
                    wrong = wrong or other not in here or sizes[other] != sizes[made]
                if wrong:
                    raise PlanError(
                        f"task {task} would write buffer {made} over one of {list(others)}: it uses {list(here)}, and "
                        "a buffer is overwritten by another one of its own size"
                    )

    def __len__(self) -> int:
        return len(self.needs)

    @cached_property
    def followers(self) -> list[list[int]]:
        """For each task, those that need it, by number."""
        return inverted(self.needs, len(self))

    @cached_property
    def counts(self) -> list[int]:
        """For each buffer, how many tasks use it; one more where it lasts."""
        found = Counter(chain(chain.from_iterable(self.uses), self.lasting))
        return [found[buffer] for buffer in range(len(self.sizes))]

    @cached_property
    def users(self) -> list[list[int]]:
        """For each buffer, the tasks that use it, by number."""
        return inverted(self.uses, len(self.sizes))

    @cached_property
    def sinks(self) -> list[int]:
        """The tasks that no other needs, by number."""
        needed = set(chain.from_iterable(self.needs))
        return [task for task in range(len(self)) if task not in needed]


class Order(Protocol):
    """Maps a problem to the numbers of its tasks in a valid sequence. It knows nothing else, and is deterministic."""

    def __call__(self, problem: OrderProblem) -> Sequence[int]: ...


@frozen(eq=False)
class Answer:
    """What an order said of a problem.

    Attributes
    ----------
    order
        Who was asked.
    sequence
        The numbers of tasks.
    peak
        The most bytes alive at one time in it, with those of results that may house values (`lasting`).
    busiest
        The first task while which so much is alive; -1: there is none.
    lent
        Bytes of these results.

    Examples
    --------
    >>> answer = Answer.of(OrderProblem([(), (0,)], [(0,), (0, 1)], [8, 4]), "depth_first", [0, 1])
    >>> answer.peak, answer.busiest, answer.arena
    (12, 1, 12)
    """

    order: Order | str
    sequence: Sequence[int]
    peak: int
    busiest: int
    lent: int

    @classmethod
    def of(cls, problem: OrderProblem, order: Order | str, sequence: Sequence[int]) -> Answer:
        """The answer with what it comes to."""
        high = [*loads(problem, sequence)]
        peak = max(high, default=0)
        busiest = sequence[high.index(peak)] if high else -1
        return cls(order, sequence, peak, busiest, sum(problem.sizes[buffer] for buffer in problem.lasting))

    @property
    def arena(self) -> int:
        """What an arena needs at the least, where such results house as much as they can."""
        return self.peak - self.lent


def loads(problem: OrderProblem, order: Sequence[int]) -> Iterator[int]:
    """The bytes alive while each task runs, in that order: what it uses included, what it overwrites counted once.

    Examples
    --------
    >>> list(loads(OrderProblem([(), (0,)], [(0,), (0, 1)], [8, 8], overwrites={1: [(1, (0,))]}), [0, 1]))
    [8, 8]
    """
    uses, sizes, overwrites = problem.uses, problem.sizes, problem.overwrites
    first, last = spans([uses[task] for task in order])
    for buffer in problem.lasting:
        last[buffer] = len(order)
    change = [0] * (len(order) + 2)
    for buffer, at in first.items():
        change[at] += sizes[buffer]
        change[last[buffer] + 1] -= sizes[buffer]
    for at, (task, alive) in enumerate(zip(order, accumulate(change), strict=False)):
        if task in overwrites:
            alive -= taken_over(problem, task, {buffer for buffer in uses[task] if last[buffer] == at})
        yield alive


def taken_over(problem: OrderProblem, task: int, over: Collection[int]) -> int:
    """The bytes that a task writes over others, where nobody uses these buffers after it."""
    found, taken = 0, set()
    for made, others in problem.overwrites[task]:
        for buffer in others:
            if buffer in over and buffer not in taken:
                taken.add(buffer)
                found += problem.sizes[made]
                break
    return found


def simulated_peak(problem: OrderProblem, order: Sequence[int]) -> int:
    """The most bytes alive at one time in that order."""
    return max(loads(problem, order), default=0)


def named(order: Order | str) -> str:
    """What an order is called."""
    return order if isinstance(order, str) else name_of(order)


def answered(order: Order, problem: OrderProblem) -> list[int]:
    """The order's sequence.

    Raises
    ------
    PlanError
        It is not all tasks, each once, what they need before them; names the order.

    Examples
    --------
    >>> answered(lambda problem: [1, 0], OrderProblem([(), (0,)], [(0,), (0,)], [8]))
    Traceback (most recent call last):
    nnc_func.errors.AnswerError: the order <lambda> runs task 1 before task 0, which it needs
    """
    return checked(order(problem), problem, named(order))


def checked(given: Any, problem: OrderProblem, name: str) -> list[int]:
    """What an order of that name gave, if it is a valid sequence; raises as `answered`."""
    try:
        found = [index(task) for task in given]
    except TypeError as error:
        raise AnswerError(f"the order {name} gave no numbers of tasks, but {given!r:.80}: {error}") from None
    at = {task: i for i, task in enumerate(found)}
    if len(found) != len(problem) or at.keys() != set(range(len(problem))):
        raise AnswerError(f"the order {name} gave {len(found)} tasks, not each of {len(problem)} once")
    for task, needed in enumerate(problem.needs):
        for one in needed:
            if at[one] > at[task]:
                raise AnswerError(f"the order {name} runs task {task} before task {one}, which it needs")
    return found
