"""Jobs: operators that were formed ahead. Each is computed once, by the worker or by whoever wants its values first.

Who claims a job computes it: the worker, which goes through jobs in order, or a thread that looks at a value. Such a
thread waits for the worker as long as that gets on with what the same thread has formed. Where it does not (it is amid
a function of the host that waits in turn, it has another's values to wait for, it was not forked), the thread computes
what it needs itself, and only waits for what another is computing right now.

A thread of the user's has another one do that (`worker.aside`), and waits: an interrupt, or what another thread has
sent, may strike there at any line, twice. So what is interrupted is waiting, and what is computed goes on.

A finaliser may come in while a job is computed, and look at what is made of that: in that thread, or in another that
the first one waits for in turn. Jobs are pure: who finds that he would wait for himself computes the job once more.
Where that asks again, a function of the host wants a value that is made of its own result, and is told so.

Nothing here locks: a job is claimed, and its values are made known, by `dict.setdefault`, in one step. What another
thread has left half done, as in a process that was forked, whoever comes next does again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from sys import is_finalizing
from time import perf_counter
from typing import Any

from nnc_func.engine.dynamic.ahead.costs import Cost
from nnc_func.engine.dynamic.ahead.episodes import Episode
from nnc_func.engine.dynamic.ahead.worker import WORKER, Aside, aside, is_ours
from nnc_func.engine.dynamic.records import PART, Recorded
from nnc_func.errors import RunError
from nnc_func.graph.origin import Origin, attributed, describe
from nnc_func.graph.tensors.promise import Promise, promise, without_frames
from nnc_func.graph.tensors.tensor import Tensor

PATIENCE = 5e-3  # seconds that one waits for another thread before one looks again at what can be done oneself
CLAIM = VALUES = 0  # the one key of each
OVER: Any = object()  # stands for values that were made known and let go
_waits_for: dict[int, Job] = {}  # by thread


class Job:
    """An operator, or gradients, on operands of which some may be promised.

    Parameters
    ----------
    stack
        Whose tensors the operands become.
    call
        ``call(*operands)`` gives a tensor, or a sequence of them.
    operands
        Values, promises and numbers.
    cost
        What is known of it.
    where
        The user's line.
    serial
        What its records have, so that they are ordered as they were applied.
    recorded
        Whether its results are recorded; None where that is known only then.

    Attributes
    ----------
    promises
        Of its results; empty once these are there.
    nbytes
        What it holds and makes.
    former
        The thread that has formed it.
    episode
        That it was formed in, if that is to be judged.
    has_values, is_over
        Whether its results are there; whether it also has let go of its operands.
    """

    __slots__ = (
        "__weakref__", "_again", "_aside", "_call", "_claim", "_context", "_is_one", "_made", "_waiters", "cost",
        "episode", "former", "has_values", "is_over", "nbytes", "operands", "promises", "recorded", "serial", "stack",
        "where",
    )  # fmt: skip

    def __init__(
        self, stack: Any, call: Callable[..., Any], operands: Sequence[Any], cost: Cost, where: Origin, serial: int,
        recorded: bool | None, is_one: bool,
    ) -> None:  # fmt: skip
        self.stack, self._call, self.operands, self.cost = stack, call, operands, cost
        self.where, self.serial, self.recorded, self._is_one = where, serial, recorded, is_one
        self._context: Any = copy_context()
        self._claim: dict[int, tuple[int, object]] = {}  # the thread that computes it, and of which process
        self._again: list[None] = [None]
        self._made: dict[int, Any] = {}  # its values, before they are made known
        self._aside: Aside | None = None  # what computes it for a thread of the user's
        self._waiters: list[Any] = []
        self.former = threading.get_ident()
        self.has_values = self.is_over = False
        self.promises: Sequence[Promise] = [promise(self, n, aval) for n, aval in enumerate(cost.avals)]
        self.nbytes = 0
        self.episode: Episode | None = None

    def inspect(self, promise: Promise) -> None:
        """See to it that a promise is kept."""
        if not self.has_values:
            if self.episode is not None:
                self.episode.waits()
            settle(self)

    def compute(self) -> None:
        """Compute it, and what it is made of, unless another thread does or has."""
        if not self.has_values and self.runner is None:
            with suppress(RunError):  # which who looks at it will be told
                settle(self)

    @property
    def runner(self) -> int | None:
        """The thread that computes it; None where nobody does, or whoever did is not in this process."""
        claim = self._claim.get(CLAIM)
        return claim[0] if claim is not None and PROCESS.has(claim) else None

    def taken(self) -> bool:
        """Whether this thread is to compute it: it has claimed it now."""
        claim = self._claim
        before = claim.get(CLAIM)
        if before is not None:
            if PROCESS.has(before):
                return False
            claim = self._claim = {}
        mine = threading.get_ident(), PROCESS.mark
        return claim.setdefault(CLAIM, mine) == mine

    def run(self) -> None:
        """Compute it; whoever calls this has claimed it, and its operands are there."""
        stack, call, operands, context, promises = self.stack, self._call, self.operands, self._context, self.promises
        if self.has_values:  # who computed it once more was faster
            return
        values = self._made.get(VALUES)
        if values is None:
            values = self._computed(stack, call, operands, context, len(promises))
            values = self._made.setdefault(VALUES, values)
        del stack, call, operands, context
        if values is OVER:
            return
        for each, value in zip(promises, values, strict=True):
            each.value = value
        self.has_values = True
        del values, each, value, promises
        self.let_go()

    def _computed(self, stack: Any, call: Any, operands: Any, context: Any, count: int) -> list[Any]:
        """Its values, or the error in the place of each; what is no fault of the operator's is raised."""
        try:
            return context.copy().run(self._values, stack, call, operands)  # type: ignore[no-any-return]
        except Exception as error:
            if not is_ours() and _is_deep(error):  # of whoever looks
                raise
            return [_noted(error, self.where)] * count
        except BaseException as error:
            if not is_ours():  # of whoever looks: an interrupt, or what another thread has sent to this one
                raise
            said = _said(error)
            failed = RunError(
                f"{type(error).__name__} was raised by what was computed ahead{f': {said}' if said else ''}"
            )
            return [_noted(failed, self.where)] * count

    def is_done(self) -> bool:
        """Whether it is over; what an interrupt has left undone, which comes to the main thread, is done now."""
        if self.has_values and not self.is_over:
            runner = self.runner
            if runner in (None, threading.get_ident(), threading.main_thread().ident):
                self.let_go()
        return self.is_over

    def let_go(self) -> None:
        """Be over, now that its values are there; several threads may say so."""
        self.operands = self.promises = ()
        self._context = self._call = self.stack = None  # type: ignore[assignment]
        self._made[VALUES] = OVER
        self._aside = None
        self.is_over = True
        self._wake()

    def give_back(self) -> None:
        """Let another thread compute it."""
        self._claim.clear()
        self._wake()

    def _wake(self) -> None:
        while self._waiters:
            try:
                waiter = self._waiters.pop()
            except IndexError:  # another thread was faster
                return
            waiter.release()

    def is_computed_aside(self) -> bool:
        """Whether a thread of its own computes it now, or has; not where the interpreter ends, or it could not."""
        call = self._aside
        if self.has_values or (call is not None and call.is_alive):
            return True
        if call is not None and call.has_returned:
            return self.has_values
        call = aside(partial(_quietly, self))
        if call is not None and not self.has_values:
            self._aside = call
        return call is not None

    def run_again(self) -> None:
        """Compute it once more, since who computes it waits for this thread.

        Raises
        ------
        RunError
            That was tried.
        """
        try:
            self._again.pop()
        except IndexError:
            where = describe(self.where)
            raise RunError(
                f"a value is asked for{f' (of {where})' if where else ''} by a function that it is made of: a function "
                "of the host reads what it is given, and values that were there when it was applied"
            ) from None
        try:
            self.run()
        except BaseException:  # an interrupt: it is as if it had not been tried
            if not self.has_values:
                self._again.append(None)
            raise

    def _values(self, stack: Any, call: Any, operands: Any) -> list[Any]:
        args = []
        own = stack.device.array_type
        for each in operands:
            if type(each) is Promise:
                each = each.value
                if isinstance(each, Exception):
                    return [each] * len(self.cost.avals)
                each = Tensor(stack, each)
            elif type(each) is Recorded or type(each) is own:
                each = Tensor(stack, each)
            args.append(each)
        with attributed(self.where):
            start = perf_counter()
            found = call(*args)
            self.cost.saw(perf_counter() - start)
        values = [found.value] if self._is_one else [each.value for each in found]
        self._order(values)
        return values

    def _order(self, values: Sequence[Any]) -> None:
        """Let records come after their operands, and before what was applied after them."""
        made: list[Any] = []
        at = float(self.serial)
        for value in values:
            if type(value) is Recorded and value.record.serial > at and value.record.application is not None:
                made.append(value.record)
        applied: list[Any] = [record.application for record in made]
        wholes = {id(operands[0]): operands[0] for op, operands, _ in applied if op is PART}
        parts = [
            x
            for whole in wholes.values()
            for x in (() if whole.application is None else whole.application[1])
            if hasattr(x, "serial") and x.serial > at
        ]
        for n, record in enumerate((*parts, *wholes.values(), *made)):
            record.serial = at + n * STEP

    def wait(self) -> bool:
        """Wait until it is over, but not for long; whether it is."""
        mine = threading.get_ident()
        waiter = threading.Lock()
        waiter.acquire()
        self._waiters.append(waiter)
        if self.is_over:
            return True
        _waits_for[mine] = self
        try:
            waiter.acquire(timeout=PATIENCE)
        finally:
            _waits_for.pop(mine, None)
            if not self.is_over:
                try:
                    self._waiters.remove(waiter)
                except ValueError:  # it was woken just now
                    return self.is_over
        return self.is_over


STEP = 2.0**-20  # between serials of records that one job has made


def settle(job: Job) -> None:
    """Return once the values of a job are there.

    Raises
    ------
    RunError
        A function of the host asks for a value that is made of its own result.
    """
    mine = threading.get_ident()
    while not job.has_values and WORKER.is_busy and WORKER.thread != mine:
        done, at = WORKER.done, WORKER.at
        if WORKER.stalled == done or (at is not None and at.former != job.former):
            break  # it is at what takes long, or is another thread's
        if job.wait():
            break
        if WORKER.done == done:
            WORKER.stalled = done
            break
    _settle_now(job, mine, not is_ours())


def _settle_now(job: Job, mine: int, is_users: bool) -> None:
    """As `settle`, without patience for the worker."""
    waiting = [job]
    while waiting:
        at = waiting[-1]
        if at.has_values:
            waiting.pop()
            continue
        if at.runner is not None:
            if _is_circular(at, mine):
                at.run_again()
            else:
                at.wait()
            continue
        missing = [x.sequence for x in at.operands if type(x) is Promise and not x.sequence.has_values]
        if missing:
            waiting += missing
        elif is_users and at.is_computed_aside():
            at.wait()
        elif at.taken():
            try:
                at.run()
            except BaseException:
                if not at.has_values:
                    at.give_back()
                raise


def _quietly(job: Job) -> None:
    """Compute a job that a thread of the user's wants: whoever looks at it is told what failed."""
    with suppress(RunError):
        _settle_now(job, threading.get_ident(), False)


def over(job: Job) -> None:
    """Return once a job is over: nothing that it was made of is held by it."""
    if not job.is_over:
        settle(job)
        while not job.is_done():
            job.wait()


def _is_circular(job: Job, mine: int) -> bool:
    """Whether who computes a job waits for this thread, or is it."""
    at: Job | None = job
    for _ in range(1000):
        runner = None if at is None else at.runner
        if runner is None or runner == mine:
            return runner == mine
        at = _waits_for.get(runner)
    return False


def _noted(error: Exception, where: Origin) -> Exception:
    """An error that says which line it is about, and holds no frames."""
    line = describe(where)
    with suppress(Exception):  # of a user's own, which may not be written to
        if line and line not in _said(error) and line not in " ".join(getattr(error, "__notes__", ())):
            error.add_note(f"applied at {line}")
    return without_frames(error)


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # of a user's own
        return "it does not say why"


def _is_deep(error: BaseException | None) -> bool:
    """Whether the calls of whoever looks were too many already."""
    return error is not None and (isinstance(error, RecursionError) or _is_deep(error.__cause__))


class _Process:
    """Which claims are of this process: after a fork, those of the thread that has called it, and new ones.

    Attributes
    ----------
    mark
        What new claims have beside their thread.
    """

    def __init__(self) -> None:
        self.mark = object()
        self._survivor: int | None = None

    def has(self, claim: tuple[int, object]) -> bool:
        """Whether the thread of a claim is in this process, and goes on."""
        if is_finalizing() and claim[0] != threading.get_ident():
            return False  # all others stand still
        return claim[1] is self.mark or claim[0] == self._survivor

    def forked(self) -> None:
        """This is a process that was forked: what other threads were at may be computed anew."""
        self._survivor, self.mark = threading.get_ident(), object()
        _waits_for.clear()


PROCESS = _Process()
WORKER.forked = PROCESS.forked
