"""How far an order that is being made has come: what is ready, and what running it would do to the bytes alive."""

from __future__ import annotations

from nnc_func.engine.orders.base import OrderProblem, taken_over


class Progress:
    """A prefix of an order, and what may come next.

    Attributes
    ----------
    order
        The tasks that have run.
    ready
        Those that may run next, as the keys of a dict: in the order in which they became ready.
    alive
        Bytes alive between two tasks.

    Examples
    --------
    >>> progress = Progress(OrderProblem([(), (0,)], [(0,), (0, 1)], [8, 2]))
    >>> changed = progress.run(0)
    >>> progress.alive, list(progress.ready), progress.grows(1), progress.needed(1)
    (8, [1], -8, 2)
    """

    def __init__(self, problem: OrderProblem) -> None:
        self.problem = problem
        self.order: list[int] = []
        self.alive = 0
        self.left = problem.counts.copy()
        self._missing = [len(needed) for needed in problem.needs]
        self.ready = dict.fromkeys(task for task, count in enumerate(self._missing) if not count)

    def defined(self, task: int) -> int:
        """The bytes that it would be the first to use."""
        problem, left = self.problem, self.left
        return sum(problem.sizes[b] for b in problem.uses[task] if left[b] == problem.counts[b])

    def freed(self, task: int) -> int:
        """The bytes that nobody uses after it."""
        return sum(self.problem.sizes[b] for b in self.problem.uses[task] if self.left[b] == 1)

    def grows(self, task: int) -> int:
        """By how many bytes more are alive after it than before."""
        return self.defined(task) - self.freed(task)

    def needed(self, task: int) -> int:
        """How many bytes more are alive while it runs than before: what it overwrites counts once."""
        if task not in self.problem.overwrites:
            return self.defined(task)
        over = {buffer for buffer in self.problem.uses[task] if self.left[buffer] == 1}
        return self.defined(task) - taken_over(self.problem, task, over)

    def run(self, task: int) -> list[int]:
        """Run it: the ready tasks for which that changes something, those that it makes ready among them."""
        problem, left, ready = self.problem, self.left, self.ready
        self.alive += self.grows(task)
        self.order.append(task)
        del ready[task]
        changed: dict[int, None] = {}
        for buffer in problem.uses[task]:
            if left[buffer] == problem.counts[buffer] or left[buffer] == 2:
                changed.update(dict.fromkeys(t for t in problem.users[buffer] if t in ready))
            left[buffer] -= 1
        for follower in problem.followers[task]:
            self._missing[follower] -= 1
            if not self._missing[follower]:
                ready[follower] = changed[follower] = None
        return list(changed)
