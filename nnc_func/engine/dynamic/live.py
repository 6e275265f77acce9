"""What is alive of what was recorded, in numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from attrs import field, frozen

from nnc_func.engine.dynamic.records import PART, Record, Recording
from nnc_func.engine.dynamic.vacancies import Vacancy, vacancy
from nnc_func.graph.pictures.svg import sized


@frozen
class Live:
    """What is alive of what a dynamic stack has recorded; a notebook shows each value and why it is kept.

    Attributes
    ----------
    symbols
        Values of variables, and values that were made of some: those that tensors hold, and those between them.
    nodes
        Applications of operators between them.
    saved
        Of all these values those that no tensor holds, and constants among the operands: kept for gradients.
    bytes
        What these take. A view counts by its own elements, whether or not what it is a view of is kept, too.
    evicted
        Of the values that no tensor holds those that a limit has evicted: they take no bytes, and are not among the
        saved ones.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> stack = nnc.dynamic(memory_limit="3 GiB")
    >>> x = stack.variable("x", [1.0, 2.0])
    >>> y = x * x
    >>> y = (y + y).sum()
    >>> stack.live
    Live(symbols=4, nodes=3, saved=2, bytes=32, evicted=0)
    >>> del y
    >>> stack.live
    Live(symbols=1, nodes=0, saved=0, bytes=0, evicted=0)
    """

    symbols: int
    nodes: int
    saved: int
    bytes: int
    evicted: int = 0
    _recording: Any = field(default=None, eq=False, repr=False)  # a weak reference
    _memo: Any = field(default=None, eq=False, repr=False)  # likewise

    def __str__(self) -> str:
        return (
            f"{self.symbols:,} values, {self.nodes:,} applications between them; "
            f"{self.saved:,} kept for gradients alone, {sized(self.bytes)}"
            f"{f', {self.evicted:,} evicted' if self.evicted else ''}"
        )

    def to_html(self) -> str:
        """A self-contained page: what is alive now, what it costs, and which held values keep it.

        Examples
        --------
        >>> import nnc_func as nnc
        >>> stack = nnc.dynamic()
        >>> x = stack.variable("x", [1.0, 2.0])
        >>> y = x * 2
        >>> "multiply" in stack.live.to_html()
        True
        """
        from nnc_func.engine.dynamic.live_page import whole_page  # few ask for it

        return whole_page(*self._facts())

    def _repr_html_(self) -> str:
        from nnc_func.engine.dynamic.live_page import fragment

        return fragment(*self._facts())

    def _facts(self) -> tuple[str, Recording | None, list[str]]:
        recording = None if self._recording is None else self._recording()
        memo = None if self._memo is None else self._memo()
        notes = [] if memo is None else [f"Memoised besides: {memo.figures}"]
        now = self if recording is None else live(recording)
        if now != self:
            notes.insert(0, f"This was so when it was asked. Now there are {now}; these are shown.")
        return str(self), recording, notes


def live(recording: Recording, memo: Any = None) -> Live:
    """What is alive now; and what else is kept, for a page to say."""
    records = recording.members()
    symbols = [record for record in records if type(record.array) is not tuple]
    unheld = [record.array for record in symbols if not record.held]
    saved, nodes = {id(array): array for array in unheld if type(array) is not Vacancy}, 0
    for record in records:
        application = record.application
        if application is not None and application[0] is not PART:
            nodes += 1
            saved.update({id(x): x for x in application[1] if type(x) is not Record and hasattr(x, "dtype")})
            if application[0].multi_result and vacancy(record.array) is None:
                saved.update({id(x): x for x in record.array})
    for record in symbols:
        if record.held:
            saved.pop(id(record.array), None)
    evicted = sum([type(array) is Vacancy for array in unheld])
    nbytes = sum(map(_bytes(recording), saved.values()))
    return Live(len(symbols), nodes, len(saved), nbytes, evicted, ref(recording), None if memo is None else ref(memo))


def _bytes(recording: Recording) -> Callable[[Any], int]:
    def taken(array: Any) -> int:
        aval = recording.aval(array)
        return int(aval.size) * int(aval.dtype.itemsize)

    return taken
