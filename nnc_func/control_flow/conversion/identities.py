"""Which tensors are one object, where a tensor decides that; and what blocks that are traced write into tensors.

A name that is one tensor on one side of a branch, and another one on the other, is a third one afterwards: a tensor of
its own, and under a condition the same as each of the two. What is written into one of them is written into the others
under these conditions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from types import CodeType
from typing import Any
from weakref import ref

import numpy as np
from attrs import define, field

from nnc_func.control_flow.attempts import attempts, first_failure, noting
from nnc_func.control_flow.conversion.number_kinds import is_known, kind_of, known_number
from nnc_func.control_flow.conversion.objects import MOST_BYTES, content, inherited, is_same
from nnc_func.control_flow.conversion.texts import text_of_number
from nnc_func.control_flow.conversion.users import is_users, users_line
from nnc_func.errors import ControlFlowError, NncError, TracedFunctionError, TracingError
from nnc_func.facets import dims
from nnc_func.graph.tensors.tensor import Tensor, written
from nnc_func.override import Override

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


@define(eq=False)
class Part:
    """A list, a dict, or an array of NumPy that may be another one, as a tensor decides; or a tensor made of arrays.

    Attributes
    ----------
    others
        Numbers of those that it may be, see `id`.
    where
        Where it was decided.
    content
        What it had then; None where it may have been written into since.
    """

    value: Any
    others: list[int]
    where: str
    content: Any = None


def may_be_same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors may be one object: of one dtype, and of extents that are not known to differ.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> x, y, z = (nnc.eager().asarray(each) for each in ([1.0, 2.0], [3.0, 4.0], 5.0))
    >>> may_be_same(x, y), may_be_same(x, z), may_be_same(x, x.astype("float32"))
    (True, False, False)
    """
    return (
        one.dtype == other.dtype
        and len(one.shape) == len(other.shape)
        and not any(dims.known(n) and dims.known(m) and n != m for n, m in zip(one.shape, other.shape, strict=True))
    )


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
        self.standing: dict[int, tuple[Any, int]] = {}  # of a time of a loop: what it is at its beginning, perhaps
        self.appended: dict[int, tuple[Tensor, str]] = {}  # to lists, by loops: there they are others
        self.inherited: dict[tuple[int, str], tuple[Any, Any]] = {}  # attributes that objects had by their class alone
        self.optional: dict[int, tuple[Any, Any]] = {}  # what was read of variables that may be None, and these
        self.parted: dict[int, Part] = {}

    # --- tensors ----------------------------------------------------------------------------------------

    def __call__(self, tensor: Tensor, value: Any, hold: Any) -> None:
        """A tensor was written into, and had this value: others that are the same object get its new one."""
        partners = self.partners(tensor)
        try:
            if id(tensor) in self.parted:
                self.check(tensor, users_line())
            for each in (tensor, *(other for other, _ in partners)):
                self.check_appended(each)
        except ControlFlowError:
            tensor.value, tensor.hold = value, hold
            raise
        self._note(tensor, value, hold)
        for other, same in partners:
            self.give(other, tensor if same is True else tensor.stack.ops.where(same, tensor, other))

    def append(self, tensor: Tensor, said: str) -> None:
        """Say that a loop has appended a tensor to a list, which has another one in its place."""
        self.appended[id(tensor)] = (tensor, said)

    def check_appended(self, tensor: Tensor) -> None:
        """Raise ControlFlowError where a tensor is written into that a list has another one for."""
        if id(tensor) in self.appended:
            with noting():
                raise ControlFlowError(
                    f"{users_line()} writes into a tensor that {self.appended[id(tensor)][1]}, so that the list would "
                    "not see it: append a copy, x + 0"
                )

    def key(self, tensor: Tensor) -> int:
        """The hash of a tensor of one element: that of the number for which it stands.

        Raises
        ------
        TracingError
            The number is not known while it is traced.
        """
        number = known_number(tensor)
        if number is not None:
            return hash(number)
        if not is_known(tensor) and (kind_of(tensor) is not None or tensor.dtype.kind in "iub"):
            with noting():
                raise TracingError(
                    f"{users_line()}: a number that a tensor decides is looked up in a dict or a set, and is not known "
                    "yet: compare it, k == 1, take from a tensor, table[k], or choose by ops.where"
                )
        return object.__hash__(tensor)

    def text(self, tensor: Tensor, plain: str, asks: CodeType) -> str:
        """The text of a tensor of one element: that of the number for which it stands.

        Parameters
        ----------
        plain
            That of the tensor.
        asks
            The code that asks for it, itself or by a function of Python.
        """
        return text_of_number(tensor, plain, is_users(asks))

    def give(self, tensor: Tensor, value: Tensor) -> None:
        """Give a tensor a value, as if it had been written into it."""
        if tensor.value is not value.value:
            self._note(tensor, tensor.value, tensor.hold)
            tensor.value, tensor.hold = value.value, value.hold

    def _note(self, tensor: Tensor, value: Any, hold: Any) -> None:
        if self.logs:
            self.logs[-1].before.setdefault(id(tensor), (tensor, value, hold))

    def relate(self, one: Tensor, other: Tensor, same: Same) -> None:
        """Say that two tensors are one object, if something holds; they are not if they differ in shape or dtype."""
        if not may_be_same(one, other):
            return
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
        log, first, standing, parted = Log(), len(self.made), len(self.standing), len(self.parted)
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
            for key in [*self.parted][parted:]:
                self.parted[key].content = None  # who may be written into gets back what it had

    # --- what fails -------------------------------------------------------------------------------------

    def settle(self) -> None:
        """At the end: raise what a block has raised, and a `try` around it has caught.

        Raises
        ------
        ControlFlowError
            Whether it is raised would be a matter of a tensor.
        """
        with suppress(ControlFlowError):
            self.check_parts()  # which notes it
            self._check_inherited()
        error = first_failure()
        if error is not None:
            if isinstance(error, NncError) and not isinstance(error, TracedFunctionError):
                raise error
            first: Any = error.__cause__ if isinstance(error, TracedFunctionError) else error
            raise ControlFlowError(
                f"a block that a tensor decides raises {type(first).__name__}: {first}; the try around it goes on "
                "as if it were taken: let a Python value decide, or ask before, as by `in` or `hasattr`"
            ) from first

    def _check_inherited(self) -> None:
        """Raise ControlFlowError where a class has another value now of what a tensor decided to be an object's own."""
        for (_, name), (owner, value) in self.inherited.items():
            if name in vars(owner) and inherited(owner, name) is not value:
                with noting():
                    raise ControlFlowError(
                        f"a tensor has decided whether a {type(owner).__name__} has an attribute {name} of its own, "
                        "and its class was given another one since: give the object one before"
                    )

    # --- containers -------------------------------------------------------------------------------------

    def part(self, made: Any, others: list[Any], where: Any) -> None:
        """Say that something is one of others, and a tensor decides which, or whether it is one of them."""
        for one, rest in ((made, others), *((other, [made]) for other in others)):
            if id(one) not in self.parted:
                self.parted[id(one)] = Part(one, [], str(where))
            known = self.parted[id(one)].others
            known += [id(each) for each in rest if id(each) not in known]

    def possible(self, value: Any) -> list[Any]:
        """A list or a dict, and all that it may be."""
        entry = self.parted.get(id(value))
        return [value, *(self.parted[key].value for key in entry.others)] if entry is not None else [value]

    @contextmanager
    def parting(self) -> Iterator[None]:
        """While it is said what may be which: afterwards each of these has what it is compared with later."""
        first = len(self.parted)
        yield
        for part in islice(self.parted.values(), first, None):
            large = isinstance(part.value, np.ndarray) and part.value.nbytes > MOST_BYTES
            part.content = None if large or isinstance(part.value, Tensor) else content(part.value)

    def check_parts(self) -> None:
        """Raise ControlFlowError where code that is not converted has written into what may be something else."""
        for part in [*self.parted.values()]:
            if part.content is not None and not is_same(part.content, content(part.value)):
                self.check(part.value, "code that is not converted")

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
                found.update(self.parted[key].others)
        return found

    def check(self, value: Any, where: str) -> None:
        """Raise ControlFlowError where a list, a dict or an array is written into, and a tensor decides which it is."""
        entry = self.parted.get(id(value))
        if entry is None:
            return
        for key in entry.others:
            if sys.getrefcount(self.parted[key].value) > 2:  # somebody else has it
                kind = type(value).__name__
                what, own = f"a {kind}", f"one of its own, such as a copy, {kind}(x)"
                if isinstance(value, (Tensor, np.ndarray)):
                    kind, what, own = "array", "an array of NumPy", "a tensor, stack.asarray(x)"
                with noting():
                    raise ControlFlowError(
                        f"{where} writes into {what}, and which {kind} that is decides a tensor at {entry.where}: "
                        f"another one that has other names may be it; write into {own}"
                    )
        entry.content = None


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
    with Override(written, found), attempts():
        yield found
        found.settle()
