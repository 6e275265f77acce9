"""What a loop of operators carries of a block of Python: values that it exchanges, tensors that it writes into."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, field, frozen

from nnc_func.autodiff.traced import Traced
from nnc_func.control_flow.conversion.appended import Appended
from nnc_func.control_flow.conversion.arrays import Arrays, possible_arrays
from nnc_func.control_flow.conversion.containers import check_containers, part_containers, part_copies
from nnc_func.control_flow.conversion.copies import Copies, Results
from nnc_func.control_flow.conversion.identities import Identities, Log
from nnc_func.control_flow.conversion.loop_pairs import (
    FIRST,
    LATER,
    OWN,
    AgainError,
    Key,
    Pair,
    carried_pairs,
    one_with,
)  # fmt: skip
from nnc_func.control_flow.conversion.number_kinds import alike, common_kind, is_number, kind_of, stands_for
from nnc_func.control_flow.conversion.objects import Objects, Opaque, Variables, content, is_same
from nnc_func.control_flow.conversion.optionals import begun, first, promoted
from nnc_func.control_flow.conversion.values import Held, Rows, Undefined, moving, same
from nnc_func.control_flow.messages import of_fields
from nnc_func.errors import ControlFlowError
from nnc_func.graph.tensors.tensor import Tensor


@define(eq=False)
class Slot:
    """A place whose value the body exchanges.

    Attributes
    ----------
    held
        What it has before.
    root
        What it has at the beginning of a time.
    end
        What it has at the end of one.
    """

    key: Key
    held: Held
    root: Any = None
    end: Held = field(init=False)

    @property
    def moving(self) -> list[int]:
        """Which of its leaves are carried."""
        return [i for i, leaf in enumerate(self.held.leaves) if moving(leaf)]


@frozen
class Found:
    """What was found of a loop: where it stands in the body of another one, that is traced several times.

    Attributes
    ----------
    places
        Those that are exchanged.
    tensors
        Numbers of variables that are tensors into which it writes.
    pairs
        Leaves that may be one tensor with another one, or with one from outside, by where that was made; and when, and
        whether they are one before the loop.
    """

    places: tuple[Key, ...]
    tensors: frozenset[int]
    pairs: dict[tuple[Key, Any], tuple[str, Any]]


class LoopState:
    """The variables, objects and tensors of one loop.

    Parameters
    ----------
    before, held
        What the variables have; those that the loop appends to, or that have no value, are no part of it.
    exchanged
        Numbers of variables that are thought to be given other values.
    last
        What was found the last time that this code was traced: what is found again need not be looked for.
    goes
        It surely goes at least once.
    """

    def __init__(
        self, before: Sequence[Any], held: list[Held], gathering: Sequence[bool], exchanged: set[int],
        objects: Objects, arrays: Arrays, where: Any, last: Found | None, goes: bool,
    ) -> None:  # fmt: skip
        self.before, self.held, self.gathering, self.where, self.last = before, held, gathering, where, last
        self.goes = goes
        self.assigned: dict[int, Held] = {}  # what variables begin with that are given another kind
        self.unknown: dict[int, Any] = {}  # those that have none at the end either, and why
        self.parted: set[int] = set()  # containers that are one in several places, but not at later times
        self.kinds: dict[Key, Any] = {}  # of leaves, of which kind of number they are; None: of none
        self.appended: Any = None
        self.dtypes: dict[Key, Any] = {}  # of leaves that are no number after a time
        self.kept: set[Key] = set()  # leaves that are at the end of a time what they are at its beginning
        self.objects, self.arrays = objects, arrays
        self.contents = objects.contents()
        self.places: dict[Key, None] = dict.fromkeys((n,) for n in sorted(exchanged))
        self.tensors: dict[int, Tensor] = {}
        for n, each in enumerate(before):
            if n not in exchanged and isinstance(each, Tensor):
                self.tensors[id(each)] = each
        self.firm: set[Key] = set()  # places that were found to be exchanged
        self.doubtful: list[Tensor] | None = None  # of which it is not known who made them
        self.pairs: dict[tuple[Any, Any], Pair] = {}
        self.slots: list[Slot] = []
        self.phis: dict[Key, Any] = {}
        self.copies = Copies(lambda leaf: leaf)
        self.begun: list[tuple[str, Any, Any]] = []
        self.entered: dict[int, Any] = {}
        self.suspects: list[tuple[Tensor, Any]] = []
        self.starts: dict[Key, dict[int, Any]] = {}  # of each leaf, what it may be one with before the loop
        self.outside: dict[int, Tensor] = {}  # that may be the same object as another
        self.near: dict[int, Tensor] = {}  # from outside, that may be the same object as what is carried

    # --- what is carried --------------------------------------------------------------------------------

    def laid_out(self, known: Identities) -> None:
        """Decide what is carried, as far as is known, also from the last time that this code was traced."""
        self.outside, first, self.slots = known.tensors(), not self.slots, []
        if first and self.last is not None:
            self._begin_as(self.last)
        self._lay_out()
        leaves = {(*slot.key, i): slot.held.leaves[i] for slot in self.slots for i in slot.moving}
        self.starts = {key: one_with(self, leaf, known) for key, leaf in leaves.items()}
        if first and self.last is not None:
            self._pair_as(self.last, known)
        elif first:
            for key, leaf in leaves.items():  # mostly it is exchanged at the first time
                if id(leaf) in self.near and not self.is_alone(leaf):
                    self.pairs[key, id(leaf)] = Pair(FIRST, True)

    def _lay_out(self) -> None:
        for key in self.places:
            if len(key) == 1:
                if not self.gathering[key[0]] and not self.held[key[0]].absent:
                    self.slots.append(Slot(key, self.held[key[0]]))
            else:
                self.slots.append(Slot(key, Held.of(self._name(key), self.contents[key[0]][key[1]])))

    def _name(self, key: Key) -> str:
        if len(key) == 1:
            return self.held[key[0]].name
        value, path = self.objects.found[key[0]]
        named = type(value) in (list, dict, Rows, Variables) or hasattr(value, "__dict__")
        return f"{path}.{key[1]}" if named else path

    def bits(self) -> list[tuple[Any, Any]]:
        """Truth values that are carried: that of the first time, and those of pairs that have their own."""
        shared = [(FIRST, FIRST)] if any(p.when in (FIRST, LATER) for p in self.pairs.values()) else []
        return [*shared, *(key for key, pair in self.pairs.items() if pair.when == OWN)]

    def keys(self) -> list[Key]:
        """Of the first leaves of what is carried, which they are."""
        return [(*slot.key, i) for slot in self.slots for i in slot.moving]

    def leaves(self) -> tuple[list[Any], list[str]]:
        """What the loop begins with, and how messages call it."""
        found = [slot.held.leaves[i] for slot in self.slots for i in slot.moving]
        paths = [slot.held.paths()[i] for slot in self.slots for i in slot.moving]
        for tensor in self.tensors.values():
            found.append(Tensor(tensor.stack, tensor.value))
            paths.append(self.objects.path(tensor))
        for n, key in enumerate(self.bits()):
            value = True if key == (FIRST, FIRST) else self.pairs[key].before
            found.append(np.bool_(value) if type(value) is bool else value)
            paths.append(f"identity {n}")
        names: dict[str, int] = {}
        for n, path in enumerate(paths):
            names[path if path not in names else f"{path} ({n})"] = n
        return found, [*names]

    # --- what was found the last time -------------------------------------------------------------------

    def found(self, known: Identities) -> Found:
        """What was found of the loop."""
        tensors = frozenset(n for n, each in enumerate(self.before) if id(each) in self.tensors)
        pairs: dict[tuple[Key, Any], tuple[str, Any]] = {}
        for (key, other), pair in self.pairs.items():
            name = other if type(other) is tuple else self._origin(self.outer[other], known)
            pairs[key, name] = (pair.when, pair.before if type(pair.before) is bool else None)
        return Found(tuple(self.places), tensors, pairs)

    def _origin(self, tensor: Tensor, known: Identities) -> Any:
        """What stands for a tensor from outside when this code is traced again."""
        return known.name_of(tensor) or self.objects.path(tensor)

    def _begin_as(self, last: Found) -> None:
        """Think of places and tensors what was found the last time."""
        for key in [each for each in self.places if len(each) == 1 and each not in last.places]:
            value = self.before[key[0]]
            if isinstance(value, Tensor) or type(value) in (list, dict, Rows):
                del self.places[key]
        for key in last.places:
            n = key[0]
            if len(key) == 1 or (n < len(self.contents) and key[1] in _keys(self.contents[n])):
                self.places[key] = None
        for n in last.tensors:
            if isinstance(self.before[n], Tensor):
                self.tensors[id(self.before[n])] = self.before[n]

    def _pair_as(self, last: Found, known: Identities) -> None:
        """Think of pairs what was found the last time, unless it is another one before the loop now."""
        leaves = {(*slot.key, i): slot.held.leaves[i] for slot in self.slots for i in slot.moving}
        others: dict[Any, list[tuple[Any, Any]]] = {key: [(key, leaf)] for key, leaf in leaves.items()}
        for number, tensor in self.outside.items():
            others.setdefault(self._origin(tensor, known), []).append((number, tensor))
        for (key, name), (when, before) in last.pairs.items():
            for other, tensor in others.get(name, ()) if key in leaves else ():
                now = self.starts[key].get(id(tensor), False)
                if type(other) is int:
                    self.near[other] = tensor
                    if tensor is leaves[key] and self.is_alone(tensor):
                        now = False
                self.pairs[key, other] = Pair(when if type(now) is bool and now is before else OWN, now)

    # --- one time ---------------------------------------------------------------------------------------

    def enter(self, given: Sequence[Any], known: Identities) -> list[Any]:
        """Give objects and tensors what they have at the beginning of a time; and what the variables have then."""
        variables, rest, self.phis = [*self.before], iter(given), {}
        for n, each in enumerate(self.held):
            if each.absent:
                variables[n] = each.value
        self.copies = Copies(lambda leaf: next(rest) if moving(leaf) else leaf, self.parted)
        contents: dict[int, Any] = {}
        for slot in self.slots:
            slot.root = self.copies.of(slot.held.value)
            for i, leaf in enumerate(Held.of("", slot.root).leaves):
                self.phis[(*slot.key, i)] = leaf
                if isinstance(leaf, Tensor):
                    known.name(leaf, (FIRST, str(self.where), *slot.key, i))
                    if (was := known.appended.get(id(slot.held.leaves[i]))) is not None:
                        known.append(leaf, was[1])
                if (kind := self.kinds.setdefault((*slot.key, i), kind_of(slot.held.leaves[i]))) is not None:
                    stands_for(leaf, kind)
            if len(slot.key) == 1:
                variables[slot.key[0]] = slot.root
            else:
                n, part = slot.key
                contents.setdefault(n, self.contents[n].copy())[part] = slot.root
        for n, found in contents.items():
            self.objects.put(n, found)
        for made, value in self.copies.originals.values():
            known.stand_for(made, value)
        self.begun = [(self.objects.path(value), made, content(made)) for made, value in self.copies.originals.values()]
        self.entered = {}
        for key, tensor in self.tensors.items():
            known.give(tensor, value := next(rest))
            self.entered[key] = value.value
        self.entered |= {id(phi): phi.value for phi in self.phis.values() if isinstance(phi, Tensor)}
        bits = dict(zip(self.bits(), rest, strict=True))
        for (one, other), condition in self._conditions(bits):
            both = [self._tensor(each) for each in (one, other)]
            if all(isinstance(each, Tensor) for each in both):
                known.relate(both[0], both[1], condition)
        return variables

    def _conditions(self, bits: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
        """Each pair that may be one tensor, and whether it is."""
        for key, pair in self.pairs.items():
            condition: Any = True
            if pair.when in (FIRST, LATER):
                condition = bits[FIRST, FIRST]
                condition = condition if pair.when == FIRST else condition.stack.ops.logical_not(condition)
            elif pair.when == OWN:
                condition = bits[key]
            yield key, condition

    def _tensor(self, key: Any) -> Any:
        return self.phis[key] if type(key) is tuple else self.outer[key]

    def leave(self, found: Sequence[Any], known: Identities, log: Log, rows: Mapping[str, Rows]) -> list[Any]:
        """What is carried on, at the end of a time; `rows` are what it has appended to lists.

        Raises
        ------
        AgainError
            More is to be carried.
        ControlFlowError
            It is of another structure than before; or which object something is differs from time to time.
        """
        again = self._exchanged(found)
        changed = self.objects.changed(self.contents)
        touched = self._parts(changed)
        again |= touched is None
        written = self._written(log)
        again |= written is None
        grown = [each for each in self.begun if not is_same(each[2], content(each[1]))]
        if again or written or touched or grown:
            again |= self._kept(found, changed)
        if again:
            raise AgainError
        for slot in self.slots:
            slot.end = Held.of(slot.held.name, promoted(self._end(slot, found, changed), slot.held.value))
            self._check(slot.held, slot.end)
        part_copies(self)
        self._check_arrays(log)
        self.appended = Appended(self, rows, known)
        check_containers(self, touched or set(), bool(grown), known)
        self._number()
        bits = carried_pairs(self, known)
        self.kept = {(*slot.key, i) for slot in self.slots for i in slot.moving if self._is_kept(slot, i)}
        values = [slot.end.leaves[i] for slot in self.slots for i in slot.moving]
        values += self.tensors.values()
        return [*(alike(x) if isinstance(x, Tensor) else x for x in values), *bits]

    def _number(self) -> None:
        """Note which kind of number each leaf is at all times, and which dtype it has where it is none.

        Raises
        ------
        AgainError
            It is another one than was thought.
        """
        kinds = {}
        for slot in self.slots:
            for i in slot.moving:
                key = (*slot.key, i)
                end = slot.end.leaves[i]
                kinds[key] = common_kind([self.kinds.get(key), kind_of(end)])
                if not is_number(end):
                    self.dtypes[key] = end.dtype
        if any(self.kinds.get(key) is not kind for key, kind in kinds.items()):
            self.kinds |= kinds
            raise AgainError

    def _is_kept(self, slot: Slot, i: int) -> bool:
        phi = self.phis[*slot.key, i]
        return slot.end.leaves[i] is phi and (not isinstance(phi, Tensor) or phi.value is self.entered[id(phi)])

    def _end(self, slot: Slot, found: Sequence[Any], changed: dict[int, Any]) -> Any:
        """What a place has at the end."""
        if len(slot.key) == 1:
            return found[slot.key[0]]
        n, part = slot.key
        return changed.get(n, self.contents[n])[part]

    def _exchanged(self, found: Sequence[Any]) -> bool:
        """Whether variables were exchanged of which that was not known."""
        again = False
        for n, (was, value) in enumerate(zip(self.held, found, strict=True)):
            if not was.absent or self.gathering[n]:
                held = None if self.gathering[n] else begun(was, value)
                if held is not None:
                    self.assigned[n], again = held, True
            elif isinstance(value, Undefined):
                self.unknown[n] = value
            elif "." in was.name:
                raise ControlFlowError(
                    f"{self.start()} gives {was.name} its first value: an attribute lasts, also where the loop "
                    "does not go at all; give it one before the loop"
                )
            elif not was.lost or self.goes:  # else Python has a value where it does not go at all
                self.assigned[n] = first(was.name, value, self.goes)
                again = True
        for n, value in enumerate(found):
            if (n,) in self.places or self.gathering[n] or self.held[n].absent or value is self.before[n]:
                continue
            self.places[n,] = None
            self.firm.add((n,))
            again = True
        return again

    def _parts(self, changed: dict[int, Any]) -> set[int] | None:
        """Objects that have other parts than at the beginning; None: of one that was not known."""
        roots, touched, again = {slot.key: slot.root for slot in self.slots}, set[int](), False
        for n, now in changed.items():
            was, path = self.contents[n], self.objects.found[n][1]
            if isinstance(now, (set, np.ndarray, Opaque)):
                kind = "a set" if isinstance(now, set) else f"a {type(self.objects.found[n][0]).__name__}"
                raise ControlFlowError(f"{self.start()} writes into {path}, which is {kind}; only tensors change in it")
            keys = [*was] if isinstance(was, dict) else [*range(len(was))]
            if keys != ([*now] if isinstance(now, dict) else [*range(len(now))]):
                one, two = (Held.of(path, each).structure for each in (was, now))
                if isinstance(now, list) and len(now) > len(was):
                    raise ControlFlowError(
                        f"{self.start()} appends to {path}, which is no variable of the function: append to a variable "
                        "in the loop itself, outs.append(x), and put that list there after the loop"
                    )
                raise ControlFlowError(
                    f"{self.start()} carries {path}: it is {one} before, and {two} after one time; begin with what "
                    "has the structure that it keeps"
                )
            for key in keys:
                if now[key] is not roots.get((n, key), was[key]):
                    touched.add(n)
                    if (n, key) not in self.places:
                        self.places[n, key] = None
                        self.firm.add((n, key))
                        again = True
        return None if again else touched

    def _written(self, log: Log) -> set[int] | None:
        """Tensors from outside, and of the beginning, that were written into; None: one of which it was not known."""
        written, again, self.suspects = set[int](), False, []
        phis = {id(phi) for phi in self.phis.values()}
        for key, (tensor, value, _) in log.before.items():
            if key in self.tensors or key in phis:
                if tensor.value is not self.entered[key]:
                    written.add(key)
            elif tensor in self.objects or key in self.outside:
                self.tensors[key] = tensor
                again = True
            else:
                self.suspects.append((tensor, value))
        return None if again else written

    def settle(self) -> None:
        """After the body has been traced: whether tensors that it wrote into were made by it.

        Raises
        ------
        AgainError
            That is seen when it is traced once more.
        """
        mine = [tensor for tensor, value in self.suspects if not (type(value) is Traced and not value.trace.live)]
        if self.doubtful is None and mine:
            self.doubtful = mine
            raise AgainError
        again = [each for each in mine if any(each is other for other in self.doubtful or ())]
        if again:
            self.tensors |= {id(each): each for each in again}
            raise AgainError

    def _kept(self, found: Sequence[Any], changed: dict[int, Any]) -> bool:
        """Whether places are not exchanged of which that was thought."""
        again = False
        for slot in self.slots:
            value = slot.held.value
            if slot.key in self.firm or not (isinstance(value, Tensor) or type(value) in (list, dict, Rows)):
                continue
            if self._end(slot, found, changed) is slot.root:
                del self.places[slot.key]
                self.pairs.clear()
                if isinstance(value, Tensor):
                    self.tensors[id(value)] = value
                again = True
        return again

    # --- what is refused --------------------------------------------------------------------------------

    def start(self) -> str:
        """How messages begin."""
        return f"the loop at {self.where} is one of operators, and"

    def _check(self, was: Held, now: Held) -> None:
        """Raise ControlFlowError where a variable changes in what is no tensor."""
        start = f"the loop at {self.where} is one of operators, which carries {was.name}"
        if now.absent:
            raise ControlFlowError(f"{start}: {now.value.error()}")
        if was.structure != now.structure:
            raise ControlFlowError(
                f"{start}: it is {was.structure} before, and {now.structure} after one time; begin with what has the "
                "structure that it keeps"
            )
        for one, two, path in zip(was.leaves, now.leaves, was.paths(), strict=True):
            if not moving(one) and not same(one, two):
                raise ControlFlowError(
                    f"{start}: {path} is {one!r}, which is no tensor or number, and {two!r} after one time; only "
                    f"tensors and numbers change in it{of_fields(one)}"
                )
            if moving(one) and not moving(two):
                raise ControlFlowError(f"{start}: {path} is a tensor or a number before, and {two!r} after one time")

    def _check_arrays(self, log: Log) -> None:
        """Raise ControlFlowError where an array of NumPy is written into that has another name."""
        for slot in self.slots:
            for i in slot.moving:
                if isinstance(slot.held.leaves[i], np.ndarray) and id(self.phis[(*slot.key, i)]) in log.before:
                    self.arrays.check(slot.key[0] if len(slot.key) == 1 and slot.held.structure.kind == "leaf" else -1)

    def is_alone(self, value: Any) -> bool:
        """Whether only one variable has something."""
        return any(value is each and alone for each, alone in zip(self.before, self.arrays.alone, strict=True))

    @property
    def outer(self) -> dict[int, Tensor]:
        """Tensors from outside, of which it matters whether they are one with what is carried."""
        found = {**self.tensors}
        for key in self.pairs:
            found |= {each: self.near[each] for each in key if type(each) is int}
        return found

    # --- afterwards -------------------------------------------------------------------------------------

    def finished(self, found: Sequence[Any], known: Identities) -> list[Any]:
        """What the variables have after the loop; objects and tensors have it then, too."""
        rest, after, made = (
            iter(found),
            [
                (each.value if each.lost else self.unknown.get(n, each.value)) if each.absent else value
                for n, (each, value) in enumerate(zip(self.held, self.before, strict=True))
            ],
            {},
        )
        contents: dict[int, Any] = {}
        results = Results()
        for slot in self.slots:
            given = {i: next(rest) for i in slot.moving}
            for i in given:
                key = (*slot.key, i)
                if key in self.kept:
                    given[i] = slot.held.leaves[i]
                made[key] = given[i]
                if (kind := self.kinds.get(key)) is not None and given[i] is not slot.held.leaves[i]:
                    stands_for(given[i], kind)
                self.appended.left(slot, i, given[i], known)
                if others := possible_arrays(self, slot, i):
                    known.part(given[i], others, self.where)
                if isinstance(given[i], Tensor) and given[i] is not slot.held.leaves[i]:
                    known.name(given[i], (LATER, str(self.where), *key))
            leaves = [given.get(i, leaf) for i, leaf in enumerate(slot.held.leaves)]
            whole = all(a is b for a, b in zip(leaves, slot.held.leaves, strict=True)) and slot.end.value is slot.root
            value = slot.held.value if whole else results.of(slot.held.value, slot.end.value, iter(leaves))
            if not whole:
                part_containers(self, slot, value, known)
            if len(slot.key) == 1:
                after[slot.key[0]] = value
            else:
                n, part = slot.key
                contents.setdefault(n, self.contents[n].copy())[part] = value
        for one, two in results.possibly_one(self.goes):
            known.part(one, [two], self.where)
        for n, each in contents.items():
            known.check(self.objects.found[n][0], f"the loop at {self.where}")
            self.objects.put(n, each)
        for tensor in self.tensors.values():
            known.give(tensor, next(rest))
        bits = dict(zip(self.bits(), rest, strict=False))
        for (one, other), condition in self._conditions(bits):
            both = [made[each] if type(each) is tuple else self.outer[each] for each in (one, other)]
            if both[0] is not both[1] and all(isinstance(each, Tensor) for each in both):
                known.relate(both[0], both[1], condition)
        return after


def _keys(content: Any) -> Any:
    """By what the parts of an object's content are found."""
    return content if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
