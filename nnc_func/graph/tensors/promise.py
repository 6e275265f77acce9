"""Promises: what a tensor has in place of a value that is computed when somebody asks for it."""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from traceback import format_tb
from typing import Any

from nnc_func.errors import NncError

_blank = object.__new__
_MISSING: Any = object()
FRAMES = 3  # of an error's traceback that are told, the last ones


class Promise:
    """What a tensor's `hold` is until its value is asked for: then it gives that.

    Attributes
    ----------
    aval
        Shape and dtype, which are known.
    sequence
        The operators that it is one of; its method ``inspect(promise)`` sees to it that the value is there.
    index
        The number of the result in that sequence.
    value
        Once it is there; an exception where it could not be computed.
    """

    __slots__ = ("aval", "index", "sequence", "value")
    aval: Any
    sequence: Any
    index: int
    value: Any

    def kept(self) -> Any:
        """The value; whoever asks for it has looked at what was computed.

        Raises
        ------
        NncError
            What the operator raised, now that it was computed.
        """
        self.sequence.inspect(self)
        if isinstance(self.value, Exception):
            raise again(self.value)
        return self.value


def again(error: Exception) -> Exception:
    """The same error for one more who asks: what is raised holds the frames of whoever does, and these the promise."""
    try:
        found = copy(error)
    except Exception:  # it is made of other arguments than it keeps
        return error
    found.__cause__, found.__suppress_context__ = error.__cause__, True
    if hasattr(error, "__notes__"):
        found.__notes__ = [*error.__notes__]  # what is added to the one is not said of the other
    return found


def promise(sequence: Any, index: int, aval: Any, value: Any = _MISSING) -> Promise:
    """A promise of that result, kept already if its value is given.

    Examples
    --------
    >>> promise(None, 2, "float32[3]", value=7).value
    7
    """
    made = _blank(Promise)
    made.sequence, made.index, made.aval = sequence, index, aval
    if value is not _MISSING:
        made.value = value
    return made


def without_frames(error: Exception) -> Exception:
    """An error that may be kept: frames are let go, of its causes too, and are a note from then on.

    They hold operands, and the frames of whoever computed it, which may have asked for the very promise that is to
    hold the error.
    """
    causes: list[BaseException] = [error]
    known = {id(error)}  # they may be their own causes, and equal to others or to none
    for at in causes:
        if not isinstance(at, NncError) and at.__traceback__ is not None:
            note = "".join([f"{type(at).__name__} was raised in:\n", *format_tb(at.__traceback__)[-FRAMES:]])
            with suppress(Exception):  # of a user's own, which may not be written to
                error.add_note(note)
        BaseException.with_traceback(at, None)
        inside = at.exceptions if isinstance(at, BaseExceptionGroup) else ()
        for each in (at.__cause__, at.__context__, *inside):
            if each is not None and id(each) not in known:
                known.add(id(each))
                causes.append(each)
    return error
