"""Which tensors are one object, where a tensor decides that; and what blocks that are traced write into tensors.

A name that is one tensor on one side of a branch, and another one on the other, is a third one afterwards: a tensor of
its own, and under a condition the same as each of the two. What is written into one of them is written into the others
under these conditions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import ref

from attrs import define, field

from nnc_func.errors import BatchingError, ControlFlowError, NncError, TracedFunctionError
from nnc_func.graph.tensors.tensor import Tensor, written

Same = Any
"""Whether two tensors are one object: True, False, or a tensor that says it."""


@define(eq=False)
class Log:
    """What a block has written into, while it was traced.

    Attributes
    ----------
    before
        Tensors by identity, each with the value that it had, and what held that.
    after
        The same tensors with the values that they have at the end of the block.
    same
        Of pairs of tensors, by identity, whether they are one object at the end; of those of which it is not False.
    partners
        Of tensors, by identity, those that may be the same object at the end.
    """

    before: dict[int, tuple[Tensor, Any, Any]] = field(factory=dict)
    after: dict[int, tuple[Tensor, Tensor]] = field(factory=dict)
    same: dict[tuple[int, int], Same] = field(factory=dict)
    partners: dict[int, list[Tensor]] = field(factory=dict)

    def is_same(self, one: Any, other: Any) -> Same:
        """Whether two tensors are one object at the end of the block."""
        return True if one is other else self.same.get((id(one), id(other)), False)

    def end(self) -> None:
        """Note the values that there are now."""
        for key, (tensor, _, _) in self.before.items():
            self.after[key] = (tensor, Tensor(tensor.stack, tensor.value))

    def restore(self) -> None:
        """Give all tensors the values back that they had."""
        for tensor, value, hold in self.before.values():
            tensor.value, tensor.hold = value, hold


class Identities:
    """Which tensors are one object, while a converted function runs.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> x, y = nnc.eager().asarray([1.0, 2.0]), nnc.eager().asarray([1.0, 2.0])
    >>> with identities() as known:
    ...     known.relate(x, y, x.stack.asarray(True))
    ...     x[0] = 7.0
    >>> y.tolist()
    [7.0, 2.0]
    """

    def __init__(self) -> None:
        self.logs: list[Log] = []
        self.related: dict[int, tuple[ref[Tensor], dict[int, tuple[ref[Tensor], Same]]]] = {}
        self.made: list[tuple[int, int, Any]] = []  # of a tensor, which other, and what was known of the two before
        self.loops: dict[Any, Any] = {}  # what was found of loops of converted code, by where they stand
        self.names: dict[int, tuple[ref[Tensor], Any]] = {}  # where tensors were made that are one of others
        self.failures: list[Exception] = []  # of blocks that a tensor decides
        self.standing: dict[int, tuple[Any, int]] = {}  # of a time of a loop: what it is at its beginning, perhaps
        self.parted: dict[int, tuple[Any, list[int], str]] = {}

    # --- tensors ----------------------------------------------------------------------------------------

    def __call__(self, tensor: Tensor, value: Any, hold: Any) -> None:
        """A tensor was written into, and had this value: others that are the same object get its new one."""
        self._note(tensor, value, hold)
        for other, same in self.partners(tensor):
            self.give(other, tensor if same is True else tensor.stack.ops.where(same, tensor, other))

    def give(self, tensor: Tensor, value: Tensor) -> None:
        """Give a tensor a value, as if it had been written into it."""
        if tensor.value is not value.value:
            self._note(tensor, tensor.value, tensor.hold)
            tensor.value, tensor.hold = value.value, value.hold

    def _note(self, tensor: Tensor, value: Any, hold: Any) -> None:
        if self.logs:
            self.logs[-1].before.setdefault(id(tensor), (tensor, value, hold))

    def relate(self, one: Tensor, other: Tensor, same: Same) -> None:
        """Say that two tensors are one object, if something holds."""
        for a, b in ((one, other), (other, one)):
            known = self.related.get(id(a))
            if known is None or known[0]() is not a:
                known = self.related[id(a)] = (ref(a), {})
            self.made.append((id(a), id(b), known[1].get(id(b))))
            known[1][id(b)] = (ref(b), same)

    def partners(self, tensor: Any) -> list[tuple[Tensor, Same]]:
        """Tensors that may be the same object, and whether they are."""
        known = self.related.get(id(tensor))
        if known is None or known[0]() is not tensor:
            return []
        return [(other, same) for other, same in ((r(), same) for r, same in known[1].values()) if other is not None]

    def is_same(self, one: Any, other: Any) -> Same:
        """Whether two tensors are one object."""
        if one is other:
            return True
        return next((same for each, same in self.partners(one) if each is other), False)

    def tensors(self) -> dict[int, Tensor]:
        """Those that may be the same object as another, by identity."""
        found = {key: kept() for key, (kept, row) in self.related.items() if row}
        return {key: tensor for key, tensor in found.items() if tensor is not None}

    def name(self, tensor: Tensor, name: Any) -> None:
        """Say where a tensor was made: when the same code is traced again, the one that is made there stands for it."""
        self.names[id(tensor)] = (ref(tensor), name)

    def name_of(self, tensor: Tensor) -> Any:
        """Where it was made; None where nobody has said that."""
        known = self.names.get(id(tensor))
        return known[1] if known is not None and known[0]() is tensor else None

    def conditions(self) -> list[Same]:
        """Whether tensors are one object, of all pairs that may be."""
        return [same for kept, row in self.related.values() if kept() is not None for _, same in row.values()]

    # --- blocks -----------------------------------------------------------------------------------------

    @contextmanager
    def block(self) -> Iterator[Log]:
        """While a block is traced: afterwards tensors have what they had, and what it said of them is forgotten."""
        log, first, standing = Log(), len(self.made), len(self.standing)
        self.logs.append(log)
        try:
            yield log
            log.end()
            for key, known in self.related.items():
                one = known[0]()
                for tensor, same in self.partners(one) if one is not None else ():
                    log.same[key, id(tensor)] = same
                    log.partners.setdefault(key, []).append(tensor)
        finally:
            self.logs.pop()
            log.restore()
            for key, other, before in reversed(self.made[first:]):
                if key not in self.related:
                    continue
                if before is None:
                    self.related[key][1].pop(other, None)
                else:
                    self.related[key][1][other] = before
            del self.made[first:]
            for key in [*self.standing][standing:]:
                del self.standing[key]

    # --- what fails -------------------------------------------------------------------------------------

    @contextmanager
    def noting(self) -> Iterator[None]:
        """While a block that a tensor decides is traced: what it raises is not for a `try` of the user's around it."""
        try:
            yield
        except BatchingError:  # somebody tries without vmap then
            raise
        except Exception as error:
            if not any(error is each for each in self.failures):
                self.failures.append(error)
            raise

    def settle(self) -> None:
        """At the end: raise what a block has raised, and a `try` around it has caught.

        Raises
        ------
        ControlFlowError
            Whether it is raised would be a matter of a tensor.
        """
        if self.failures:
            error = self.failures[0]
            if isinstance(error, NncError) and not isinstance(error, TracedFunctionError):
                raise error
            error = error.__cause__ if isinstance(error, TracedFunctionError) else error
            raise ControlFlowError(
                f"a block that a tensor decides raises {type(error).__name__}: {error}; the try around it goes on "
                "as if it were taken: let a Python value decide, or ask before, as by `in` or `hasattr`"
            ) from error

    # --- containers -------------------------------------------------------------------------------------

    def part(self, made: Any, others: list[Any], where: Any) -> None:
        """Say that a list or a dict is one of others, and a tensor decides which, or whether it is one of them."""
        for one, rest in ((made, others), *((other, [made]) for other in others)):
            _, known, _ = self.parted.setdefault(id(one), (one, [], str(where)))
            known += [id(each) for each in rest if id(each) not in known]

    def possible(self, value: Any) -> list[Any]:
        """A list or a dict, and all that it may be."""
        entry = self.parted.get(id(value))
        return [value, *(self.parted[key][0] for key in entry[1])] if entry is not None else [value]

    def stand_for(self, made: Any, original: Any) -> None:
        """Say that a list, a dict or a tuple is what another one is at one time, and another one at another."""
        self.standing[id(made)] = (made, id(original))

    def may_be_same(self, one: Any, other: Any) -> bool:
        """Whether two lists, dicts or tuples may be one, as a tensor decides."""
        if not isinstance(one, (list, dict, tuple)) or type(one) is not type(other):
            return False
        return not self._numbers(one).isdisjoint(self._numbers(other))

    def _numbers(self, value: Any) -> set[int]:
        """The identities that something may have."""
        found = {id(value)}
        if id(value) in self.standing:
            found.add(self.standing[id(value)][1])
        for key in [*found]:
            if key in self.parted:
                found.update(self.parted[key][1])
        return found

    def check(self, value: Any, where: str) -> None:
        """Raise ControlFlowError where a list or a dict is written into, and a tensor decides which one it is."""
        entry = self.parted.get(id(value))
        if entry is None:
            return
        for key in entry[1]:
            if sys.getrefcount(self.parted[key][0]) > 2:  # somebody else has it
                kind = type(value).__name__
                with self.noting():
                    raise ControlFlowError(
                        f"{where} writes into a {kind}, and which {kind} that is decides a tensor at {entry[2]}: "
                        f"another one that has other names may be it; write into one of its own, such as a copy, "
                        f"{kind}(x)"
                    )


def known_identities() -> Identities | None:
    """Those of the converted function that runs; None: there is none."""
    found = written.get()
    return found if isinstance(found, Identities) else None


@contextmanager
def identities() -> Iterator[Identities]:
    """While a converted function runs; those of the outermost one, if it is called by one."""
    found = known_identities()
    if found is not None:
        yield found
        return
    found = Identities()
    token = written.set(found)
    try:
        yield found
        found.settle()
    finally:
        written.reset(token)


@contextmanager
def trial() -> Iterator[None]:
    """While something is tried that may fail: what blocks raise then is of no account."""
    found = known_identities()
    before = 0 if found is None else len(found.failures)
    try:
        yield
    except Exception:
        if found is not None:
            del found.failures[before:]
        raise
