"""Forming ahead: operators that take long, and what is made of their results, are promised; a thread computes them.

What takes how long is known once it has been computed. From then on an operator is

- formed ahead, if it takes long enough that handing it over is nothing beside that;
- formed ahead, if it takes less, but an operand is promised, and the operators that are under way pay for it: a part of
  what these take may be spent on handing over smaller ones;
- computed at once otherwise, after its operands; and where nothing goes on beside it, see `episodes`.

So what is small costs what it does on a stack that forms nothing ahead. Shapes and dtypes are found when an operator is
applied, and what does not fit is refused there.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.engine.dynamic.ahead.costs import MOST, Cost, Costs
from nnc_func.engine.dynamic.ahead.episodes import Episode, Lines
from nnc_func.engine.dynamic.ahead.jobs import Job, over
from nnc_func.engine.dynamic.ahead.storage import FROM, STORAGE
from nnc_func.engine.dynamic.ahead.worker import WORKER
from nnc_func.engine.dynamic.quick import mentions
from nnc_func.engine.dynamic.records import Recorded, next_serial
from nnc_func.engine.effects import recorder
from nnc_func.errors import NncError
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.leaves import Variable, are_places, owned
from nnc_func.graph.ops import CATALOGUE
from nnc_func.graph.origin import origin
from nnc_func.graph.tensors.promise import Promise
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.op import Op

LARGE = 32768  # elements of an operand from which on one asks what an operator takes
HANDING = 12e-6  # seconds that handing over costs both threads
SHARE = 0.02  # of what is under way that may be spent on handing over operators that are small
SAVED = 1e-3  # seconds of that which are kept for later, at most
SHORT = 2e-4  # seconds that are as good as over
OPERATORS, BYTES = 1000, 1 << 28  # that a thread is ahead, at most; a single operator may have more bytes
NUMBERS, REAL = frozenset((int, float, bool)), frozenset((int, float))
_blank: Any = object.__new__


class Mine(threading.local):
    """What a thread has formed ahead."""

    def __init__(self) -> None:
        self.jobs: deque[Job] = deque()
        self.seconds = self.credit = 0.0
        self.nbytes = 0
        self.episode: Episode | None = None

    def look(self) -> None:
        """Forget what is over."""
        jobs = self.jobs
        while jobs and jobs[0].is_done():
            job = jobs.popleft()
            self.seconds -= job.cost.seconds or 0.0
            self.nbytes -= job.nbytes
        if not jobs:
            self.seconds, self.nbytes = 0.0, 0
            if self.episode is not None:
                self.episode.ends()
                self.episode = None

    def look_behind(self) -> bool:
        """Forget what is over behind something that is not: one function may be waiting. Whether anything was."""
        left = deque([job for job in self.jobs if not job.is_done()])
        is_less = len(left) < len(self.jobs)
        self.jobs = left
        self.seconds = sum([job.cost.seconds or 0.0 for job in left])
        self.nbytes = sum([job.nbytes for job in left])
        return is_less


class Ahead:
    """How a stack forms work ahead: it stands before the stack's own way from operators to results.

    Parameters
    ----------
    stack, below
        The stack, and its own `bind`.
    gradients
        ``gradients(stack, ys, xs, cotangents, into)`` at once.
    is_traced
        ``is_traced()``: whether a function is traced as a whole, so that operators on arrays are part of it too.

    Attributes
    ----------
    bind
        As `Stack.bind`.
    """

    def __init__(
        self, stack: Any, below: Callable[..., Any], gradients: Callable[..., Any], is_traced: Callable[[], bool]
    ) -> None:
        self.stack, self.below, self._at_once, self._is_traced = stack, below, gradients, is_traced
        engine = stack.engine
        self._from: float = engine.ahead_from
        self._recording = engine.recording
        self._checks = engine.check_numerics
        self._costs, self._lines = Costs(), Lines()
        self._cheap: set[Any] = set()  # keys of what is not worth asking about: see `_note_cheap`
        self._mine = Mine()
        self.bind = self._quick() if stack._dispatch is not None and self._from > 0 else self.general

    def _quick(self) -> Callable[..., Any]:
        """The way of small operators on what is there, which takes no longer than the stack's own."""
        stack, below = self.stack, self.below
        way, calls, numbers, place = stack._way, stack._calls, stack._numbers, stack._dispatch.place
        otherwise = self._others(stack)

        def bind(op: Op, *args: Any, **params: Any) -> Any:
            count = 0 if params else len(args)
            if 0 < count < 3 and type(x := args[0]) is Tensor and x.hold is None and x.stack is stack:
                a = x.value
                if type(a) is Recorded:
                    if a.array.size < LARGE:
                        if count == 2 and type(y := args[1]) is Tensor:
                            b = None if y.hold is not None else y.value  # what is promised is not asked for
                            b = b.array if type(b) is Recorded else b
                            is_small = type(b) is np.ndarray and b.size < LARGE
                        else:
                            is_small = count == 1 or type(y) in REAL
                        if is_small and (found := way(stack, op, args, params)) is not None:
                            return found
                elif type(a) is np.ndarray and a.size < LARGE:
                    call, b = None, None
                    if count == 1:
                        call = calls.get((op, a.dtype))
                    elif type(y := args[1]) is Tensor:
                        b = None if y.hold is not None else y.value
                        if type(b) is np.ndarray and b.size < LARGE and y.stack is stack:
                            call = calls.get((op, a.dtype, b.dtype))
                    elif type(y) in REAL and (known := numbers.get((op, a.dtype, type(y), y))) is not None:
                        call, b = known
                    if call is not None and type(call) is not dict:
                        try:
                            found = call(a) if b is None else call(a, b)
                        except Exception:  # which `below` meets again, and explains
                            return below(op, *args)
                        if type(found) is np.ndarray:
                            shown = _blank(Tensor)
                            shown.stack, shown.value, shown.hold = stack, found, None
                            return shown
                        found = place(op, found)
                        return tuple([Tensor(stack, v) for v in found]) if op.multi_result else Tensor(stack, found)
            return otherwise(op, args, params)

        return bind

    def _others(self, stack: Any) -> Callable[..., Any]:
        """The way of what is not that quick: whether there is something to ask about."""
        below, general, way = self.below, self.general, stack._way
        cheap, dispatch = self._cheap, stack._dispatch

        def otherwise(op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
            own, count = stack._array_type, len(args)
            if own is not np.ndarray or not 0 < count < 3 or (params and (op.is_sized or op.effect or op.holds_body)):
                return below(op, *args, **params) if own is None else general(op, *args, **params)
            x = args[0]
            if type(x) is not Tensor or x.hold is not None or x.stack is not stack:
                y = args[-1]
                if type(x) in REAL and type(y) is Tensor and y.hold is None and y.stack is stack:
                    b = y.value.array if type(y.value) is Recorded else y.value
                    if type(b) is own and (b.size < LARGE or (op, b.dtype, b.shape) in cheap):
                        return below(op, *args, **params)
                return general(op, *args, **params)
            a, y, b, is_recorded = x.value, None, None, False
            if type(a) is Recorded:
                a, is_recorded = a.array, True
            if type(a) is not own:
                return general(op, *args, **params)
            is_large = a.size >= LARGE
            if count == 2:
                y = args[1]
                if type(y) is Tensor and y.hold is None and y.stack is stack:
                    b = y.value
                    if type(b) is Recorded:
                        b, is_recorded = b.array, True
                    if type(b) is not own:
                        return general(op, *args, **params)
                    is_large = is_large or b.size >= LARGE
                elif type(y) not in REAL:
                    return general(op, *args, **params)
            if is_large:
                key = (op, a.dtype, a.shape) if b is None else (op, a.dtype, a.shape, b.dtype, b.shape)
                if key not in cheap:
                    return general(op, *args, **params)
            if is_recorded and (found := way(stack, op, args, params)) is not None:
                return found
            if is_recorded or not params:
                return below(op, *args, **params)
            try:
                found = dispatch(op, (a,) if count == 1 else (a, y if b is None else b), params)
            except NncError:  # of an extent that is not known, perhaps
                return below(op, *args, **params)
            return tuple([Tensor(stack, v) for v in found]) if op.multi_result else Tensor(stack, found)

        return otherwise

    # --- operators --------------------------------------------------------------------------------------------

    def general(self, op: Op, *args: Any, **params: Any) -> Any:
        """The operator formed ahead, or at once."""
        job = self._job(op, args, params)
        if job is None:
            return self.below(op, *args, **params)
        if type(job) is Cost:
            given = [a.value for a in args if type(a) is Tensor]  # what was promised is there now
            start = perf_counter()
            found = self.below(op, *args, **params)
            job.saw(perf_counter() - start)
            del given
            return found
        results = self._given(job)
        return results if op.multi_result else results[0]

    def _job(self, op: Op, args: tuple[Any, ...], params: Any) -> Any:
        """The operator as a job; its cost where it is computed at once, to see what it takes; None: it is as well."""
        stack, known = self.stack, params
        own = stack._array_type
        if own is None:
            if stack._dispatch is not None or self._is_traced():
                return None
            own = stack.device.array_type
        pure = op.effect and params.get("pure") is True and params.get("after", 0) is None  # of the host
        if not args or are_places() or op.holds_body or (op.effect and (not pure or recorder(stack) is not None)):
            return None
        operands: list[Any] = []
        kinds: list[Any] = []
        is_pending = is_recorded = is_failed = False
        size, nbytes, aval_of = 0, 0, self._recording.aval
        for a in args:
            if type(a) is Tensor:
                if a.stack is not stack:
                    return None
                h = a.hold
                if type(h) is Promise:
                    is_there = hasattr(h, "value")
                    if not is_there or isinstance(h.value, Exception):
                        is_pending, is_failed = True, is_failed or is_there
                        is_recorded = is_recorded or h.sequence.recorded is not False
                        operands.append(h)
                        kinds.append(h.aval)
                        size = max(size, h.aval.size)
                        continue
                    v = a.value
                else:
                    v = a.value
                    if type(v) is Variable:
                        v = self._recording.of(v)
                array = v.array if type(v) is Recorded else v
                is_recorded = is_recorded or array is not v
                if type(array) is not own:
                    return None
            elif type(a) is own:
                v = array = a
            elif type(a) in NUMBERS and (type(a) is not int or -128 <= a < 128):
                operands.append(a)
                kinds.append(type(a))
                continue
            else:
                return None
            aval = aval_of(array)
            size = max(size, aval.size)
            nbytes += aval.nbytes
            operands.append(v)
            kinds.append(aval)
        if not kinds or (not is_pending and self._from > 0 and size < LARGE and not pure and not op.is_sized):
            return None
        try:
            if not params:
                key: Any = (op, *kinds)
            elif op.is_sized and mentions(params):
                return None
            else:
                params = op.lasting(params)
                known = {k: v for k, v in params.items() if k != "after"} if pure else params
                key = (op, op.key(op.canonical(known)), *kinds)
            cost = self._costs.of(key, lambda: self._avals(op, args, kinds, known, pure), pure)
        except (NncError, TypeError):  # what is refused is refused by the stack, in its words
            return None
        if not cost.avals:
            return None
        where = origin()
        if not is_failed and not self._is_worth(cost, is_pending, where):
            if cost.seconds is None:
                return cost
            if not is_pending and 0 < len(args) < 3:
                arrays = [x.array if type(x) is Recorded else x for x in operands if type(x) not in NUMBERS]
                self._note_cheap((op, *[fact for x in arrays for fact in (x.dtype, x.shape)]))
            return None
        if any(type(a) is own for a in args):  # whose owner may write into it
            operands = [owned(stack.device, v) if type(a) is own else v for a, v in zip(args, operands, strict=True)]
        below = self.below
        recorded = is_recorded and self._recording.is_on

        def call(*given: Any) -> Any:
            return below(op, *given, **params)

        written = None if params else self._written(op, operands, kinds, cost.avals[0])
        job = Job(stack, written or call, operands, cost, where, next_serial(), recorded, not op.multi_result)
        job.nbytes = nbytes + sum([aval.nbytes for aval in cost.avals])
        return job

    def _written(self, op: Op, operands: Sequence[Any], kinds: Sequence[Any], aval: Aval) -> Any:
        """What computes a large result of a function of NumPy's into `STORAGE`; None where there is none."""
        dispatch, stack, recording = self.stack._dispatch, self.stack, self._recording
        if dispatch is None or aval.nbytes < FROM or op.multi_result:
            return None
        facts = [(kind, x) if type(kind) is type else (kind.dtype,) for kind, x in zip(kinds, operands, strict=True)]
        key = (op, *[fact for each in facts for fact in each])
        kernel, number = dispatch.numbers.get(key) or (dispatch.calls.get(key), None)
        if type(kernel) is not np.ufunc:
            return None
        shape, dtype, below = aval.shape, np.dtype(aval.dtype), self.below

        def call(*given: Any) -> Any:
            values = [x.value if type(x) is Tensor else x for x in given]
            arrays: list[Any] = [
                x.array if type(x) is Recorded else x if type(x) is np.ndarray else number for x in values
            ]
            if not all(x.flags.c_contiguous for x in arrays):  # the result would lie as they do
                return below(op, *given)
            try:
                found = kernel(*arrays, out=STORAGE.empty(shape, dtype))
            except Exception as error:
                raise dispatch.failure(op, tuple(arrays), {}, error)  # noqa: B904 - of which it knows the cause
            if any(type(x) is Recorded for x in values):
                found = recording.made(op, tuple([x.record if type(x) is Recorded else x for x in values]), {}, found)
            return Tensor(stack, found)

        return call

    def _note_cheap(self, key: Any) -> None:
        """Note that an operator on arrays of these dtypes and shapes is computed at once, or gradients at a line."""
        if len(self._cheap) >= MOST:
            self._cheap.clear()
        self._cheap.add(key)

    def _avals(self, op: Op, args: Any, kinds: Any, params: Any, pure: bool) -> tuple[Any, ...]:
        """Avals of the results; none where they are not known before they are computed."""
        given = [a if type(a) in NUMBERS else kind for a, kind in zip(args, kinds, strict=True)]
        shape = self.stack.shape
        if pure:
            return tuple(shape.bind(op, shape.bind(CATALOGUE["token"]), *given, **params)[1:])
        found = shape.bind(op, *given, **params)
        found = found if op.multi_result else (found,)
        if any(aval.symbols for aval in found):
            return ()
        return tuple([aval if aval.layout is None else aval.having(layout=None) for aval in found])  # an array has none

    def _is_worth(self, cost: Cost, is_pending: bool, where: Any) -> bool:
        """Whether an operator is to be formed ahead; what that takes of the credit is spent."""
        seconds = cost.seconds
        if self._from == 0:
            return True
        if seconds is None:
            return False
        if seconds < self._from and not is_pending:
            return False
        mine = self._mine
        mine.look()
        if seconds >= self._from:
            return bool(mine.jobs) or not self._lines.is_left_out(where)
        left = mine.credit + SHARE * seconds - HANDING
        if mine.seconds < SHORT or left < 0:
            return False
        mine.credit = min(SAVED, left)
        return True

    def _given(self, job: Job) -> tuple[Any, ...]:
        """Tensors that have promises of its results, now that it is in the queue."""
        mine, stack = self._mine, self.stack
        mine.look()
        while mine.jobs and (len(mine.jobs) >= OPERATORS or mine.nbytes + job.nbytes > BYTES):
            if not mine.look_behind():
                over(mine.jobs[0])
                mine.look()
        results = []
        for each in job.promises:
            tensor = _blank(Tensor)
            tensor.stack, tensor.hold = stack, each
            results.append(tensor)
        seconds = job.cost.seconds or 0.0
        mine.seconds += seconds
        mine.nbytes += job.nbytes
        if seconds >= self._from:
            mine.credit = min(SAVED, mine.credit + SHARE * seconds)
        if self._from > 0:
            if mine.episode is None:
                mine.episode = Episode(self._lines, job.where)
            mine.episode.add(seconds)
            job.episode = mine.episode
        WORKER.give(job)  # first: an interrupt may come, and nobody else would compute it
        mine.jobs.append(job)
        return tuple(results)

    # --- gradients --------------------------------------------------------------------------------------------

    def gradients(self, ys: Any, xs: Any, cotangents: Any, into: Any) -> Any:
        """As `Stack.gradients`."""
        stack, is_list = self.stack, isinstance(ys, (list, tuple)) and isinstance(xs, (list, tuple))
        if not is_list or cotangents is not None or into is not None or are_places():
            return self._at_once(stack, ys, xs, cotangents, into)
        ys, xs = list(ys), list(xs)
        where, count, size = origin(), len(ys), 0
        for each in (*ys, *xs):
            if type(each) is not Tensor or each.hold is not None or type(each.value) is not Recorded:
                size = 0
                break
            size += each.value.array.size
        if size and ((where, size) in self._cheap or (not self._mine.jobs and self._lines.is_left_out(where))):
            return self._at_once(stack, ys, xs, None, None)
        found = [self._flowing(each) for each in (*ys, *xs)]
        if not xs or any(each is None for each in found):
            return self._at_once(stack, ys, xs, None, None)
        kinds: list[Any] = []  # avals are made only where nothing is known of these
        for each in found:
            given = each.array if type(each) is Recorded else each.aval
            kinds += (given.dtype, given.shape)
        is_on = self._recording.is_on
        key = ("gradients", where, count, is_on, *kinds)
        cost = self._costs.of(key, lambda: tuple([each.aval for each in found[count:]]))
        if not self._is_worth(cost, any(type(each) is Promise for each in found), where):
            if cost.seconds is not None:
                if size and cost.seconds < self._from:
                    self._note_cheap((where, size))
                return self._at_once(stack, ys, xs, None, None)
            kept = [each.value for each in (*ys, *xs)]
            start = perf_counter()
            made = self._at_once(stack, ys, xs, None, None)
            cost.saw(perf_counter() - start)
            del kept
            return made
        at_once = self._at_once

        def call(*given: Any) -> Any:
            return at_once(stack, given[:count], given[count:], None, None)

        job = Job(stack, call, found, cost, where, next_serial(), None if is_on else False, False)
        job.nbytes = 2 * sum([aval.nbytes for aval in cost.avals])
        return self._given(job)

    def _flowing(self, tensor: Any) -> Any:
        """A value that takes gradients as it is, or as it is promised; None where somebody is to look at it."""
        if type(tensor) is not Tensor or tensor.stack is not self.stack:
            return None
        hold = tensor.hold
        if type(hold) is Promise and not hasattr(hold, "value") and hold.sequence.recorded:
            return hold if kind_of(hold.aval.dtype) == "f" else None
        value = tensor.value
        if type(value) is Variable:
            value = self._recording.of(value)
        return value if type(value) is Recorded and kind_of(value.array.dtype) == "f" else None

    # --- what waits -------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Return once all that this thread has formed ahead is computed."""
        jobs: Sequence[Job] = [*self._mine.jobs]
        for job in jobs:
            over(job)
        self._mine.look()
