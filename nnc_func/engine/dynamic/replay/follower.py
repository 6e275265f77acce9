"""Followers: what comes as it has come before is promised; once somebody looks, it is computed."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from nnc_func.body import bodies_of
from nnc_func.engine.dynamic.paths import above
from nnc_func.engine.dynamic.records import Record, Recorded
from nnc_func.engine.dynamic.replay.computed import in_order
from nnc_func.engine.dynamic.replay.places import Gradients, Place
from nnc_func.engine.dynamic.replay.sequence import Sequence
from nnc_func.engine.dynamic.replay.written import Written
from nnc_func.graph.leaves import Variable, are_places, owned
from nnc_func.graph.origin import origin
from nnc_func.graph.pauses import paused_here
from nnc_func.graph.tensors.promise import Promise, again
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.locks import forkable_lock

LONGEST = 5000  # operators of a sequence
REMEMBERED = 30_000  # places
KEPT, FEW = 64, 8  # programs, at most; and if these hold many bytes
MOST = 1 << 26  # bytes of results that all of them hold
NUMBERS = frozenset((int, float))
UNKNOWN = object()
"""What is not to be part of a sequence."""


class Follower:
    """Of one thread; another one may look at what it has promised.

    Attributes
    ----------
    sequence
        The one that is under way.
    root
        Where all begin.
    """

    def __init__(self, replay: Any) -> None:
        self._replay, self._stack, self._recording = replay, replay.stack, replay.stack.engine.recording
        self._lock = forkable_lock()  # a finaliser may come in while it is held
        self._is_busy = False  # with what it computes
        self._is_torn = False  # amid a step, or it was interrupted there, at whatever line
        self._programs: OrderedDict[Any, Written] = OrderedDict()
        self.root, self._size = Place(None, None, None), 0
        self.sequence: Any = Sequence(self, self.root)

    # --- what comes -------------------------------------------------------------------------------------------

    def usual(self, op: Any, args: tuple[Any, ...], items: Any, site: int) -> Any:
        """What an operator gives, if it is what came next the last time; else None.

        This is `step` on the hot path: operands are compared with those that there were, and nothing is made.
        """
        with self._lock:
            if self._is_busy:
                return None
            self._is_busy = True
            try:
                sequence = self.sequence
                found = sequence.place.likely
                if found is None or found.op is not op or found.site != site or self._is_torn:
                    return None
                if found.items is not items and found.key != op.key(items):
                    return None
                operands, paused = found.operands, paused_here()
                if not sequence.is_deferred or len(operands) != len(args) or found.depth >= LONGEST:
                    return None
                if found.records is not (not paused or self._recording not in paused):
                    return None
                for a, n in zip(args, operands, strict=True):
                    if type(a) is not Tensor:
                        if type(n) is int or n[0] is not type(a) or n[1] != a or not a:  # zeros differ by their sign
                            return None
                        continue
                    h = a.hold
                    if type(h) is Promise:
                        if h.sequence is sequence:
                            if h.index != n:
                                return None
                            continue
                        if not hasattr(h, "value"):
                            return None
                        v = h.value
                    else:
                        v = a.value
                        if type(v) is Variable:
                            v = self._recording.of(v)
                    if type(n) is not int or n >= 0 or a.stack is not self._stack or sequence.inputs[-1 - n] is not v:
                        return None
                self._is_torn = True
                sequence.place = found
                if op.multi_result:
                    several = self._promised(sequence, found)
                    self._is_torn = False
                    return several
                its = _blank(Promise)
                its.sequence, its.index, its.aval = sequence, found.first, found.avals[0]
                sequence.promise(its)
                self._is_torn = False
            finally:
                self._is_busy = False
        tensor = _blank(Tensor)
        tensor.stack, tensor.hold = self._stack, its
        return tensor

    def step(self, op: Any, args: tuple[Any, ...], params: Any, items: Any, site: Any, own: Any) -> Any:
        """What an operator gives, or gradients of values; UNKNOWN where it is not to be part of a sequence.

        Parameters
        ----------
        params, items
            Its parameters as they were given, and in canonical form.
        site
            The user's line.
        own
            The class of the device's arrays.
        """
        for a in args:
            if type(a) is Tensor:
                if type(h := a.hold) is Promise and h.sequence.follower is not self:
                    h.kept()  # another thread's, asked for while nothing is locked
            elif type(a) is own:  # its owner may write into it
                stack = self._stack
                args = tuple([Tensor(stack, owned(stack.device, x)) if type(x) is own else x for x in args])
                break
        paused = paused_here()
        is_on = not paused or self._recording not in paused
        with self._lock:
            if self._is_busy:  # a finaliser's
                return UNKNOWN
            self._is_busy = True
            try:
                self._mend()
                self._is_torn = True
                found = self._next(op, args, params, items, site, own, is_on)
                self._is_torn = False
                return found
            finally:
                self._is_busy = False

    def _next(self, op: Any, args: tuple[Any, ...], params: Any, items: Any, site: Any, own: Any, is_on: bool) -> Any:
        sequence = self.sequence
        if (loops := sequence.place.loops) is not None and (op, site) in loops:
            self._end()
            sequence = self.sequence
        place, new = sequence.place, list[Any]()
        operands = self._operands(sequence, args, own, new)
        if operands is None:
            return UNKNOWN
        slopes = type(op) is Gradients
        fits = not slopes or self._fits(op, args, sequence, new)
        parameters = op.key(items) if items else ()
        key = (op, site, is_on, fits, parameters, *operands, *map(_kind, new))
        found = place.nexts.get(key)
        if found is None and items and _calls_host(items):
            return UNKNOWN
        if sequence.is_deferred:
            if found is not None and fits and found.count >= self._replay.after:
                sequence.add(new)
                sequence.place = found
                if not new:
                    place.likely = found
                return self._promised(sequence, found)
            if sequence.promises:
                self._replay.count("divergences")
                self._compute(sequence)
            sequence.settle()
        values = self._values(op, args, params)
        for value in values:
            if type(value) is not Recorded and type(value) is not own:
                return self._shown(op, [Tensor(self._stack, each) for each in values])
        if found is None:
            found = Place(place, op, site)
            found.operands, found.records = operands, is_on
            found.items, found.key, found.params = items, parameters, dict(items)
            found.where = origin()
            found.inputs += len(new)
            found.avals = tuple([self._recording.aval(_array(v)) for v in values])
            found.recorded = tuple([type(v) is Recorded for v in values])
            if slopes and fits and place.loops is None:
                found.loops = frozenset([(p.op, p.site) for p in place.path()])
            place.nexts[key] = found
            self._size += 1
        found.count += 1
        sequence.add(new)
        sequence.place = found
        return self._promised(sequence, found, values)

    def _mend(self) -> None:
        """Be as before a step that failed, or was interrupted at whatever line; if this is, the next step does it."""
        if self._is_torn:
            self.sequence.mend()
            self._is_torn = False

    def _operands(self, sequence: Sequence, args: Any, own: Any, new: list[Any]) -> list[Any] | None:
        """What a `Place` has as operands, and values from outside that are new; None where one is something else."""
        operands: list[Any] = []
        numbers, first = sequence.numbers, -1 - sequence.place.inputs
        for a in args:
            kind = type(a)
            if kind is not Tensor:
                if kind not in NUMBERS or a != a:
                    return None
                operands.append((kind, a) if a or kind is int else (kind, a, repr(a)))  # 0.0 and -0.0 are equal
                continue
            if a.stack is not self._stack:
                return None
            if type(h := a.hold) is Promise:
                if h.sequence is sequence:
                    operands.append(h.index)
                    continue
                v = h.value
            else:
                v = a.value
                if type(v) is Variable:
                    v = self._recording.of(v)
            if type(v) is not Recorded and type(v) is not own:
                return None
            known = numbers.get(id(v))
            if known is not None and known[1]() is v:
                operands.append(known[0])
                continue
            for n, each in enumerate(new):
                if each is v:
                    operands.append(first - n)
                    break
            else:
                operands.append(first - len(new))
                new.append(v)
        return operands

    def _fits(self, op: Any, args: Any, sequence: Sequence, new: list[Any]) -> bool:
        """Whether gradients flow within the sequence alone."""
        inputs = [*new, *(its() for _, its in sequence.numbers.values())]
        made = [v.record for v in inputs if type(v) is Recorded and v.record.application is not None]
        xs = {self._record(a) for a in args[op.ys :] if type(a.hold) is not Promise or hasattr(a.hold, "value")}
        lowest = min([x.serial for x in xs if x is not None], default=0)
        return not any(x in xs for _, made_of in above(made, lowest) for x in made_of[1] if type(x) is Record)

    def _record(self, tensor: Tensor) -> Record | None:
        """The record of what a tensor has, or of what its variable's value is now."""
        value: Any = tensor.hold.value if type(tensor.hold) is Promise else tensor.value
        value = self._recording.of(value) if type(value) is Variable else value
        return value.record if type(value) is Recorded else None

    def _values(self, op: Any, args: Any, params: Any) -> list[Any]:
        """Results, computed now."""
        given = [_with_value(self._stack, a) if type(a) is Tensor else a for a in args]
        made = self._replay.at_once(op, given, params)
        return [each.value for each in made] if op.multi_result else [made.value]

    def _promised(self, sequence: Sequence, place: Place, values: Any = None) -> Any:
        """Tensors of promises; kept ones, if values are given."""
        results: list[Tensor] = []
        index = place.first
        for n, aval in enumerate(place.avals):
            its = _blank(Promise)
            its.sequence, its.index, its.aval = sequence, index + n, aval
            if values is None:
                sequence.promise(its)
            else:
                its.value = values[n]
            tensor = _blank(Tensor)
            tensor.stack, tensor.hold = self._stack, its
            results.append(tensor)
        if place.depth >= LONGEST:
            self._end()
        return self._shown(place.op, results)

    @staticmethod
    def _shown(op: Any, results: list[Tensor]) -> Any:
        return tuple(results) if op.multi_result else results[0]

    # --- what ends --------------------------------------------------------------------------------------------

    def inspect(self, sequence: Sequence, asked: Promise) -> None:
        """Somebody looks at what a sequence has promised."""
        with self._lock:
            if self._is_busy:  # a finaliser asks, at whatever line: the sequence stays what it is
                if not hasattr(asked, "value"):
                    self._keep(sequence)
            elif sequence is self.sequence:
                self.end()

    def end(self) -> None:
        """Have computed what was promised, and begin anew."""
        with self._lock:
            if self._is_busy:
                return
            self._is_busy = True
            try:
                self._mend()
                self._is_torn = True
                self._end()
                self._is_torn = False
            finally:
                self._is_busy = False

    def _end(self) -> None:
        sequence = self.sequence
        if sequence.place is self.root:
            return
        if sequence.promises:
            self._compute(sequence)
        else:
            sequence.place.ends += 1
        sequence.numbers = {}
        if self._size > REMEMBERED:
            self._trim()
        self.sequence = Sequence(self, self.root)

    def _compute(self, sequence: Sequence) -> None:
        """Keep the promises that somebody holds, and let go of what is behind them."""
        self._keep(sequence)
        self._replay.count("operators", sequence.place.depth)
        sequence.settle()

    def _keep(self, sequence: Sequence) -> None:
        context = sequence.context
        sequence.hand_out()  # what an interrupt has left
        sequence.values = self._needed(sequence) if context is None else context.copy().run(self._needed, sequence)
        sequence.hand_out()

    def _needed(self, sequence: Sequence) -> dict[int, Any]:
        """Values of results that are held."""
        place, inputs, after = sequence.place, sequence.inputs, self._replay.after
        made = place.first + len(place.avals)  # a finaliser may ask amid a step, which has noted more, or less
        fit = held, its = sequence.held()[:made].ljust(made, b"\0"), sequence.above()[: place.inputs]
        found = place.fits.get(fit, 0)
        if type(found) is Written:
            self._programs.move_to_end((place, fit))
            try:
                values = found.run(self._recording, inputs)
            except Exception:  # one after another they say which it was, and where
                self._replay.count("eager")
                return in_order(self._replay, place.path(), inputs, held, its)[0]
            self._replay.count("prefixes")
            return values
        is_due = found is not None and (found + 1 >= after or (place.ends >= after and not place.fits))
        write = is_due and not are_places()
        values, program = in_order(self._replay, place.path(), inputs, held, its, write)
        self._replay.count("eager")
        if program is not None:
            self._replay.count("programs")
            self._remember(place, fit, program)
        elif found is not None:
            if len(place.fits) >= KEPT:
                place.fits.clear()
            place.fits[fit] = None if write else found + 1  # None: there is no program
        return values

    def _remember(self, place: Place, fit: Any, made: Written) -> None:
        place.fits[fit] = self._programs[place, fit] = made
        known = self._programs
        while len(known) > KEPT or (len(known) > FEW and sum([each.nbytes for each in known.values()]) > MOST):
            (old, its), gone = known.popitem(last=False)
            old.fits.pop(its, None)
            self._stack.engine.arenas.forget(gone.program)

    def _trim(self) -> None:
        """Forget what has not occurred often enough to be replayed, as with a number that changes; or everything."""
        recurring, waiting = set[Place](), [self.root]
        while waiting:
            place = waiting.pop()
            for key, each in [*place.nexts.items()]:
                if each.count >= self._replay.after:
                    recurring.add(each)
                    waiting.append(each)
                    continue
                if place.likely is each:
                    place.likely = None
                del place.nexts[key]
                each.forget()
        if 2 * len(recurring) > REMEMBERED:
            self._forget()
            return
        for place, fit in [*self._programs]:
            if place not in recurring:
                self._stack.engine.arenas.forget(self._programs.pop((place, fit)).program)
        self._size = len(recurring)

    def _forget(self) -> None:
        """Forget what has occurred."""
        for gone in self._programs.values():
            self._stack.engine.arenas.forget(gone.program)
        self._programs.clear()
        self.root.forget()
        self.root, self._size = Place(None, None, None), 0

    def leave(self) -> None:
        """Keep what was promised, and forget the rest: the thread is gone. Nothing is left that refers to itself."""
        self.end()
        self._forget()
        self.sequence = None


_blank: Any = object.__new__


def _kind(value: Any) -> Any:
    """What tells a value from outside from those of other programs."""
    array = _array(value)
    return array.shape, array.dtype, array is value


def _array(value: Any) -> Any:
    return value.array if type(value) is Recorded else value


def _with_value(stack: Any, tensor: Tensor) -> Tensor:
    """A tensor of its own that has what was promised."""
    hold = tensor.hold
    if type(hold) is not Promise:
        return tensor
    if isinstance(hold.value, Exception):
        raise again(hold.value)
    return Tensor(stack, hold.value)


def _calls_host(items: Any) -> bool:
    """Whether a function of the host is among parameters, or in a body: who knows what that looks at."""
    return any(name == "function" for name, _ in items) or any(map(_calls_host, _inside(items)))


def _inside(items: Any) -> list[Any]:
    return [each for body in bodies_of(items) for each in body.inside]
