"""What the derivative of a loop keeps: everything it reads, that of one segment at a time, or a number of carries.

The operator's parameter `checkpoint` says which, in words; `chosen` makes of it, of the times that there are and of
bytes, one of three ways.
"""

from __future__ import annotations

from math import isqrt
from typing import Any, Literal

from attrs import frozen

from nnc_func.aval import Aval
from nnc_func.errors import OperatorError
from nnc_func.facets.dims import known
from nnc_func.graph.ops.loop_checkpoints import HELD, needed_carries
from nnc_func.graph.ops.loop_form import Form
from nnc_func.graph.ops.loop_policies import CARRIES, POLICIES, policy_of
from nnc_func.graph.ops.silent_bodies import asks

ALL, ROOT, BUDGET = "", "sqrt", "budget:"
ROWS = "rows:"  # and bytes: as ALL, of a loop that belongs to the derivative of one whose memory is bounded; see `room`
MANY = 1024  # carries at most where the times are not known, or bytes say: to search more takes longer than it saves
ROOTS = 2.2  # times the root of all times, that segments and times in one of them may be together
DIGITS = 99  # of a number, at most
POSITION = 8  # bytes, of the time beside each carry that is held


@frozen
class Schedule:
    """One way to keep what a derivative reads.

    Attributes
    ----------
    way
        "tape": of each time, as far as a policy wants it; "segments": of so many times together, the others being
        computed again from the carries at the beginnings of segments; "carries": so many carries at most.
    size
        Times in a segment; carries.
    """

    way: Literal["tape", "segments", "carries"]
    size: int = 0


TAPE = Schedule("tape")


def check(checkpoint: Any) -> None:
    """Raise OperatorError where a parameter `checkpoint` says nothing that `chosen` knows."""
    if not isinstance(checkpoint, str):
        return  # a policy
    word, number = _split(checkpoint)
    is_number = word in ("", BUDGET, ROWS) and number.isascii() and number.isdigit() and len(number) <= DIGITS
    if checkpoint not in (ALL, ROOT, *POLICIES) and not (is_number and (int(number) or word == ROWS)):
        raise OperatorError(
            f'checkpoint of a loop is "", "{ROOT}", a number of carries, "{BUDGET}" and a number of bytes, a policy, '
            f"or the name of one, {', '.join(map(repr, POLICIES))}; given {checkpoint!r}"
        )


def room(checkpoint: Any) -> int | None:
    """The bytes that what a loop stacks may take, with rows that are computed for all its times before it.

    None: any number of bytes. A number of carries, or "carries", says that nothing is kept of each time but these.

    Examples
    --------
    >>> [room(each) for each in ("", "sqrt", "products", "carries", "8", "budget:2000", "rows:2000")]
    [None, None, None, 0, 0, 2000, 2000]
    """
    if not isinstance(checkpoint, str):
        return None
    if checkpoint == CARRIES or checkpoint.isdigit():
        return 0
    word, number = _split(checkpoint)
    return int(number) if word else None


def _split(checkpoint: str) -> tuple[str, str]:
    """The word before a number, with its colon, and the number."""
    word, colon, number = checkpoint.rpartition(":")
    return word + colon, number


def backwards(checkpoint: Any) -> str:
    """The parameter `checkpoint` of the loop that is the derivative of one with this parameter, and reads what it kept.

    Examples
    --------
    >>> [backwards(each) for each in ("", "sqrt", "carries", "budget:2000")]
    ['', '', 'rows:0', 'rows:2000']
    """
    found = room(checkpoint)
    return ALL if found is None else f"{ROWS}{found}"


def chosen(form: Form, derived: Any, checkpoint: Any, tape: Any) -> Schedule:
    """How the derivative of a loop keeps what it reads.

    Parameters
    ----------
    derived
        The derivative of its body.
    tape
        A function that gives the bytes that the tape takes each time: without rows that are results of the loop
        anyway, and with them.

    Raises
    ------
    OperatorError
        A budget is too small for one carry, or bytes depend on extents that are not known.
    """
    most = form.most
    if policy_of(checkpoint) is not None:
        return Schedule("carries", HELD) if most is None else TAPE
    if checkpoint.startswith(BUDGET):
        return _within(form, derived, int(checkpoint.removeprefix(BUDGET)), tape)
    if checkpoint.isdigit():
        return Schedule("carries", _places(int(checkpoint), most))
    if most is None:
        return Schedule("carries", HELD)
    if checkpoint != ROOT:
        return TAPE
    if not known(most):
        return Schedule("carries", HELD)
    if most < 2:
        return TAPE
    return Schedule("carries" if _asks(form) else "segments", _root(most))


def _asks(form: Form) -> bool:
    """Whether segments that are computed again would ask the condition again, and that is not the stack's."""
    return form.conditional and asks(form.body)


def _root(most: int) -> int:
    """About the root of a number of times: a divisor of it, where one is as good, so that none are left over."""
    root = isqrt(most - 1) + 1
    best = max(size for size in range(1, root + 1) if most % size == 0)
    return best if best + most // best <= ROOTS * most**0.5 else root


def _within(form: Form, derived: Any, budget: int, tape: Any) -> Schedule:
    """What fits into so many bytes: the whole tape, else the longest segments, else as many carries as there may be."""
    carry = _bytes([form.avals[len(form.constants) + n] for n in needed_carries(form, derived)])
    if not known(carry):
        raise OperatorError(
            f'checkpoint="{BUDGET}{budget}B" wants extents that are known, and a carry takes {carry} bytes: say a '
            "number of carries"
        )
    most = form.most
    if most is not None and known(most):
        row, again = tape()
        if known(row) and most * row <= budget:
            return TAPE
        if known(again) and not _asks(form) and (size := _longest(most, budget, carry, again)):
            return Schedule("segments", size)
    places = budget // (carry + POSITION)
    if not places:
        raise OperatorError(
            f'checkpoint="{BUDGET}{budget}B" is less than what one carry takes, {carry + POSITION} bytes: the '
            "derivative of this loop wants that at the least"
        )
    return Schedule("carries", _places(min(places, MANY), most))


def _places(wanted: int, most: Any) -> int:
    """As many places for carries as there are times for; where that is not known, as are worth it."""
    return min(wanted, max(1, most) if most is not None and known(most) else MANY)


def _longest(most: int, budget: int, carry: int, tape: int) -> int:
    """How many times the longest segments have that fit, without any left over where that can be; 0: none fit."""
    for divides in (True, False):
        for segments in range(2, 1 + most // 2):
            size = -(-most // segments)
            if segments * carry > budget:
                break
            if most // size * carry + size * tape <= budget and (most % size == 0 or not divides):
                return size
    return 0


def _bytes(avals: list[Aval]) -> Any:
    return sum([a.size * a.dtype.itemsize for a in avals])
