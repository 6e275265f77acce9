"""What converted code calls: it lets an operator do what a tensor decides, and Python the rest."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from threading import RLock
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from nnc_func.control_flow.attempts import noting, trial
from nnc_func.control_flow.conversion.builtin_functions import (
    COMPARISONS,
    SymbolicRange,
    builtin,
    kind_asked,
    tensor_among,
)  # fmt: skip
from nnc_func.control_flow.conversion.endless import branch_that_ends, loop_that_ends
from nnc_func.control_flow.conversion.exits import UnsupportedError
from nnc_func.control_flow.conversion.identities import identities, known_identities
from nnc_func.control_flow.conversion.names import CHANGING, STACKING
from nnc_func.control_flow.conversion.number_kinds import kind_of, stands_for
from nnc_func.control_flow.conversion.numbers import computed, signed
from nnc_func.control_flow.conversion.objects import goes_without_effect, is_computed, is_inherited
from nnc_func.control_flow.conversion.optionals import OrNone, Perhaps, present
from nnc_func.control_flow.conversion.sources import (
    Source,
    rows_of,
    staged_range,
)  # fmt: skip
from nnc_func.control_flow.conversion.staged_branches import staged_branch, staged_choice
from nnc_func.control_flow.conversion.staged_loops import StagedLoop
from nnc_func.control_flow.conversion.staging import Where, staged, truth
from nnc_func.control_flow.conversion.texts import format_of, formatted, joined
from nnc_func.control_flow.conversion.users import is_users, users_line
from nnc_func.control_flow.conversion.values import Get, Rows, Set, Undefined, Unreached
from nnc_func.errors import ControlFlowError, ControlFlowWarning
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.override import Override
from nnc_func.tree import flatten

ALONE = (lambda over: sys.getrefcount(over))(object())  # so many references has what only its caller's expression has
ASKED = object()
_trying: ContextVar[bool] = ContextVar("trying", default=False)


class _AskedError(Exception):
    """What is computed always reads a variable that may have no value."""


class Control:
    """What converted code has to decide with; one for code that may be left to Python, one for code that may not.

    Parameters
    ----------
    strict
        Whether code that cannot be converted is an error.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> x = nnc.eager().asarray(3.0)
    >>> Control(False).choice(x > 2, lambda: x * 10, lambda: x).item()
    30.0
    >>> Control(False).choice(3.0 > 2, lambda: "more", lambda: "less")
    'more'
    """

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.codes: WeakKeyDictionary[CodeType, Any] = WeakKeyDictionary()
        self.functions: WeakKeyDictionary[FunctionType, Any] = WeakKeyDictionary()
        self.lock = RLock()

    # --- statements -------------------------------------------------------------------------------------

    def branch(
        self, test: Any, then: Callable[[], Any], otherwise: Callable[[], Any], get: Get, put: Set,
        names: Sequence[str], later: int, first: int, second: int, line: int,
    ) -> Any:  # fmt: skip
        """``if``: one block where Python decides; both are traced where a tensor does."""
        if not isinstance(test, Tensor):
            return then() if test else otherwise()
        where = Where(_file(get), line, (first, second))
        with branch_that_ends(where):
            staged_branch(test, then, otherwise, get, put, names, later, where)
        return None

    def loop_while(
        self, test: Callable[[], Any], body: Callable[[], Any], get: Get, put: Set, names: Sequence[str], later: int,
        lists: Mapping[str, str], exchanged: Sequence[str], line: int,
    ) -> None:  # fmt: skip
        """``while``: time after time in Python, as long as Python decides; from then on a loop of operators."""
        while True:
            found = test()
            if isinstance(found, Tensor):
                where = Where(_file(get), line)
                loop = StagedLoop(found.stack, lambda _: body(), get, put, names, lists, exchanged, where, test)
                with loop_that_ends(where):
                    return loop.run(found)
            if not found:
                return None
            body()

    def loop_over(
        self, over: Any, test: Callable[[], Any] | None, body: Callable[[Any], Any], get: Get, put: Set,
        names: Sequence[str], later: int, lists: Mapping[str, str], exchanged: Sequence[str], line: int,
    ) -> None:  # fmt: skip
        """``for``: over rows of a tensor, and over numbers that a tensor bounds, a loop of operators."""
        where = Where(_file(get), line)
        if isinstance(over, SymbolicRange):
            stack = tensor_among([leaf for value in get() if type(value) is not Rows for leaf in flatten(value)[0]])
            if stack is None:
                raise ControlFlowError(
                    f"{where}: range of an extent that is not known, where no variable of the loop is a tensor yet; "
                    "begin one with a tensor"
                )
            over = staged_range(stack, *over.bounds)
        if isinstance(over, Tensor):
            over = rows_of(over)
        if isinstance(over, Source):
            with loop_that_ends(where):
                return StagedLoop(over.stack, body, get, put, names, lists, exchanged, where, test, over).run()
        shared = isinstance(over, Iterator) and sys.getrefcount(over) > ALONE
        items, n = iter(over), 0
        while isinstance(more := True if test is None else test(), Tensor) or more:
            if isinstance(more, Tensor):
                if type(over) is range:
                    left = over[n:]
                    source = staged_range(more.stack, left.start, left.stop, left.step)
                    loop = StagedLoop(more.stack, body, get, put, names, lists, exchanged, where, test, source)
                    with loop_that_ends(where):
                        return loop.run(more)
                if shared or not goes_without_effect(items):
                    raise ControlFlowError(
                        f"the loop at {where} takes from a {type(items).__name__} whose state others see, and a tensor "
                        "decides when it ends: what is left of it then is not known; go over a list, [*x]"
                    )
            try:
                item = next(items)
            except StopIteration:
                break
            n += 1
            if isinstance(more, Tensor):
                at = Where(where.file, line, (line, line))
                staged_branch(more, functools.partial(body, item), _nothing, get, put, names, len(names), at)
            else:
                body(item)
        return None

    def raising(self, line: int) -> None:
        """Before ``raise``: both blocks of a staged ``if`` are traced, so that it would happen always."""
        at = staged.get()
        if at:
            raise ControlFlowError(
                f"raise at line {line} is in a block that the tensor at {at} decides about, and blocks are traced "
                "whether they are taken or not: use ops.where and a check outside, or decide by a Python value"
            )

    def matched(self, subject: Any, line: int, kinds: bool) -> Any:
        """What `match` decides by that has ``case True``, ``case False`` or ``case int()``.

        Raises
        ------
        ControlFlowError
            It has a tensor of a truth value, which is neither of both.
        """
        leaves, known = [leaf for leaf in flatten(subject)[0] if isinstance(leaf, Tensor)], known_identities()
        doubtful = {} if known is None else known.optional
        asked = [x for x in leaves if x.dtype.kind == "b" or kind_of(x) is not None] if kinds else []
        if asked or any(id(x) in doubtful for x in leaves):
            with noting():
                raise ControlFlowError(
                    f"match at line {line} asks whether a tensor is True, False or None itself, or of which kind a "
                    "number is that a tensor decides, which no tensor is: use if and else, or decide by a Python value"
                )
        return subject

    # --- objects ---------------------------------------------------------------------------------------

    def function(self) -> AbstractContextManager[Any]:
        """While a function runs."""
        return identities()

    def written(self, value: Any) -> Any:
        """What is written into: a list or a dict of which a tensor decides which one it is, is refused."""
        found = known_identities()
        if found is not None and id(value) in found.parted:
            found.check(value, users_line())
        return value

    # --- variables --------------------------------------------------------------------------------------

    def undefined(self, name: str) -> Undefined:
        """What a variable has before it is assigned."""
        return Undefined(name)

    def unreached(self) -> Undefined:
        """What a function returns before it has returned."""
        return Unreached("that is returned")

    def defined(self, value: Any, name: str = "") -> Any:
        """The value of a variable that may have none; whether it has one may be asked during the run.

        Raises
        ------
        UndefinedVariableError
            It has none.
        """
        if isinstance(value, Perhaps):
            if _trying.get():
                raise _AskedError
            while isinstance(value, Perhaps):
                with identities() as known:
                    value = present(value, name, os.path.basename(users_line()), known)
        if isinstance(value, Undefined):
            with noting():
                raise value.error()
        return value

    def passed(self, value: Any, name: str) -> Any:
        """What another variable is given: None, too, where a tensor decides that."""
        return value if type(value) is OrNone else self.defined(value, name)

    def is_none(self, value: Any, name: str) -> Any:
        """``value is None``, of a variable: a tensor, where one decides."""
        if type(value) is Perhaps:
            with identities() as known:
                value = present(value, name, os.path.basename(users_line()), known)
        if type(value) is OrNone:
            return self.negated(value.there)
        return self.defined(value, name) is None

    def is_nothing(self, value: Any) -> Any:
        """``value is None``, of any value: a tensor, where it was read of a variable of which one decides that."""
        known = known_identities()
        read = None if known is None else known.optional.get(id(value))
        return value is None if read is None else self.negated(read[1].there)

    def got(self, owner: Any, name: str) -> Any:
        """``owner.name``: a property of a user's is a function of his."""
        found = _property(owner, name)
        if found is None:
            is_kind = name == "__class__" and kind_of(owner) is not None
            return kind_asked(owner) if is_kind else getattr(owner, name)
        return self.callee(found.fget)(_object(owner))

    def put(self, value: Any, owner: Any, name: str) -> None:
        """``owner.name = value``, too."""
        found = _property(owner, name)
        if found is None or found.fset is None:
            setattr(owner, name, value)
        else:
            self.callee(found.fset)(owner, value)

    def attribute(self, owner: Any, name: str) -> Any:
        """``owner.name``, as part of the state; None where its class decides what that is (`objects.is_computed`)."""
        if isinstance(owner, Undefined):
            return Undefined(name)
        if is_computed(owner, name):
            return None
        value = getattr(owner, name, Undefined(name))
        known = known_identities()
        if known is not None and is_inherited(owner, name):
            known.inherited[id(owner), name] = (owner, value)
        return value

    def set_attribute(self, owner: Any, name: str, value: Any) -> None:
        """``owner.name = value``, as part of the state."""
        if is_computed(owner, name):
            return
        if getattr(owner, name, value) is value and not isinstance(value, Undefined) and hasattr(owner, name):
            return
        known = known_identities()
        if known is not None and known.inherited.get((id(owner), name), (known, known))[1] is value:
            if name in vars(owner):
                delattr(owner, name)
        elif not isinstance(value, Undefined):
            setattr(owner, name, value)
        elif not isinstance(owner, Undefined) and name in getattr(owner, "__dict__", ()):
            delattr(owner, name)

    def returned(self, value: Any) -> Any:
        """What a function returns; lists that loops of operators have made become plain ones."""
        if isinstance(value, Undefined):
            if not value.name.startswith("_result"):
                raise value.error()
            raise ControlFlowError(
                f"what is returned differs between the ways through the function: {value.why}; return alike from each"
            )
        return _plain(value)

    # --- expressions ------------------------------------------------------------------------------------

    def both(self, first: Any, second: Callable[[], Any], cheap: bool) -> Any:
        """``and``."""
        if not isinstance(first, Tensor):
            return first and second()
        return self._logical(first, second, cheap, True)

    def either(self, first: Any, second: Callable[[], Any], cheap: bool) -> Any:
        """``or``."""
        if not isinstance(first, Tensor):
            return first or second()
        return self._logical(first, second, cheap, False)

    def _logical(self, first: Tensor, second: Callable[[], Any], cheap: bool, conjunction: bool) -> Any:
        stack, decides = first.stack, truth(first)
        where = Where(second.__code__.co_filename, second.__code__.co_firstlineno)
        other = self._without_asking(second) if cheap and first.dtype.kind == "b" else ASKED
        if other is not ASKED:
            if isinstance(other, Tensor) and other.dtype.kind == "b":
                name = stack.ops.logical_and if conjunction else stack.ops.logical_or
                return name(decides, truth(other))
            second = lambda: other  # noqa: E731

        def rest() -> Any:
            other = second()
            if first.dtype.kind == "b" and isinstance(other, Tensor):
                return truth(other) if other.dtype.kind == "b" else other
            return other

        as_is = decides if first.dtype.kind == "b" else first
        with branch_that_ends(where):
            if conjunction:
                return staged_choice(decides, rest, lambda: as_is, where)
            return staged_choice(decides, lambda: as_is, rest, where)

    def _without_asking(self, second: Callable[[], Any]) -> Any:
        """An operand that may as well be computed always; ASKED where it reads a variable that may have no value."""
        try:
            with Override(_trying, True), trial():
                return second()
        except _AskedError:
            return ASKED

    def truth(self, value: Any) -> Any:
        """What a test makes of an operand."""
        return stands_for(truth(value), bool) if isinstance(value, Tensor) else value

    def negated(self, value: Any) -> Any:
        """``not``."""
        if not isinstance(value, Tensor):
            return not value
        return stands_for(value.stack.ops.logical_not(truth(value)), bool)

    computed, signed, slice = staticmethod(computed), staticmethod(signed), slice
    joined, format_of = staticmethod(joined), staticmethod(format_of)

    def compared(self, names: Sequence[str], left: Any, *rest: Callable[[], Any]) -> Any:
        """``a < b < c``."""
        right = rest[0]()
        found = COMPARISONS[names[0]](left, right)
        if len(names) == 1:
            return found
        return self.both(found, lambda: self.compared(names[1:], right, *rest[1:]), False)

    def choice(self, test: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        """``a if test else b``."""
        if not isinstance(test, Tensor):
            return then() if test else otherwise()
        where = Where(then.__code__.co_filename, then.__code__.co_firstlineno)
        with branch_that_ends(where):
            return staged_choice(test, then, otherwise, where)

    # --- calls ------------------------------------------------------------------------------------------

    def callee(self, f: Any) -> Any:
        """What is called in place of a function: a user's own is converted."""
        kind = type(f)
        if kind is FunctionType:
            return self.converted(f)
        if kind is BuiltinMethodType:
            if f.__name__ in CHANGING:
                self.written(f.__self__)
            if isinstance(f.__self__, str) and f.__name__ in ("format", "format_map", "join"):
                return functools.partial(formatted, f)
            return builtin(f)
        if kind is MethodType:
            if type(f.__func__) is not FunctionType:
                return f
            found = self.converted(f.__func__)
            return f if found is f.__func__ else MethodType(found, f.__self__)
        if kind is type:
            return builtin(f)
        if kind is functools.partial and type(f.func) is FunctionType:
            found = self.converted(f.func)
            return f if found is f.func else functools.partial(found, *f.args, **f.keywords)
        call = getattr(kind, "__call__", None)  # noqa: B004 - of the class, as Python calls it
        if type(call) is FunctionType and is_users(call.__code__):
            found = self.converted(call)
            return f if found is call else MethodType(found, f)
        return f

    def called_with(self, f: Any, argument: Any, starred: bool, **keywords: Any) -> Any:
        """A call with one argument, that may be a list to which a loop of operators has appended."""
        f = self.callee(f)
        if type(argument) is not Rows:
            return f(*argument, **keywords) if starred else f(argument, **keywords)
        code = getattr(getattr(f, "__func__", f), "__code__", None)
        own = code is not None and is_users(code)
        if getattr(f, "__name__", "") in STACKING and not own and not {*keywords} - {"axis"}:
            return argument.stacked(**keywords)
        if starred:
            return f(*argument, **keywords)
        if f is len:
            return len(argument)
        rows = [*argument]
        with identities() as known, known.parting():
            known.part(rows, [argument], users_line())  # it is a copy: if it is written into, that is refused
        return f(rows, **keywords)

    # --- functions --------------------------------------------------------------------------------------

    def converted(self, f: FunctionType, asked: bool = False) -> FunctionType:
        """A function of a user converted; any other one as it is.

        Parameters
        ----------
        asked
            Whether the user asked for this one, and is told if it is left as it is.
        """
        found = self.functions.get(f)
        if found is None:
            found = self._convert(f, asked)
            self.functions[f] = found = f if found is None else found
        return found

    def _convert(self, f: FunctionType, asked: bool) -> FunctionType | None:
        from nnc_func.control_flow.conversion.source import codes_within, converted_code, function_of

        code = f.__code__
        with self.lock:
            known: Any = self.codes.get(code)
            if known is None:
                known = False
                if asked or (is_users(code) and code.co_name != "<lambda>"):
                    known = self._made(code, converted_code)
                if known:
                    for each in codes_within(known.code):
                        self.codes[each] = False  # needs no conversion any more
                self.codes[code] = known
        return function_of(known, f, self) if known else None

    def _made(self, code: CodeType, converted_code: Callable[[CodeType], Any]) -> Any:
        """The code converted; False, with a warning, where it is left to Python."""
        try:
            if code.co_name == "<lambda>":
                raise UnsupportedError(_At(code.co_firstlineno), "lambdas are left alone")  # type: ignore[arg-type]
            found = converted_code(code)
        except UnsupportedError as error:
            line = error.line or code.co_firstlineno
            self._tell(f"{code.co_name} runs as Python: {error.why}", code.co_filename, line)
            return False
        for line, why in found.left:
            self._tell(f"a statement of {code.co_name} runs as Python: {why}", code.co_filename, line)
        return found

    def _tell(self, said: str, file: str, line: int) -> None:
        advice = "a tensor cannot decide there: use stack.cond, stack.while_loop, stack.foreach, or write it otherwise"
        if self.strict:
            raise ControlFlowError(f"{file}:{line}: {said}; {advice}")
        warnings.warn_explicit(f"{file}:{line}: {said}; {advice}", ControlFlowWarning, file, line)


def _file(get: Get) -> str:
    """The file of converted code."""
    return str(get.__code__.co_filename)


class _At:
    """A line."""

    def __init__(self, line: int) -> None:
        self.lineno = line


def _object(owner: Any) -> Any:
    """An object, of `super()` of one too."""
    parent: Any = owner
    return parent.__self__ if type(owner) is super else owner


def _property(owner: Any, name: str) -> property | None:
    """The property of a class that computes an attribute; None: it is another one."""
    if isinstance(owner, (Tensor, ModuleType)):
        return None
    classes = type(owner).__mro__
    if type(owner) is super:
        parent: Any = owner
        classes = parent.__self_class__.__mro__
        classes = classes[classes.index(parent.__thisclass__) + 1 :]
    found = next((each.__dict__[name] for each in classes if name in each.__dict__), None)
    return found if type(found) is property and found.fget is not None else None


def _nothing() -> None:
    """The block of an ``if`` that has none."""
    return


def _plain(value: Any) -> Any:
    """Lists that loops of operators have made as plain lists, in a tree."""
    if type(value) is Rows:
        return [*value]
    if not isinstance(value, (list, tuple, dict)):
        return value
    leaves, structure = flatten(value)
    if not any(type(leaf) is Rows for leaf in leaves):
        return value
    return structure.build([[*leaf] if type(leaf) is Rows else leaf for leaf in leaves])


CONTROLS = {False: Control(False), True: Control(True)}


def convert(f: Callable[..., Any], strict: bool = False) -> Callable[..., Any]:
    """A function whose `if`, `while`, `for`, `and`, `or`, `not` become operators where a tensor decides.

    Functions of a user's own that it calls are converted, too; those of libraries and lambdas are not.

    Parameters
    ----------
    f
        A function, or a method of an object.
    strict
        Whether code that cannot be converted is an error. Else it runs as Python, with a warning.

    Returns
    -------
    The function; its attribute `source` is the converted code as text. Where nothing can be converted: `f`.

    Raises
    ------
    ControlFlowError
        Something cannot be converted, and `strict` is set.

    Examples
    --------
    >>> import os
    >>> convert(os.path.join) is os.path.join  # it is no user's function
    True
    """
    control = CONTROLS[strict]
    if isinstance(f, MethodType):
        return control.callee(f)  # type: ignore[no-any-return]
    if not isinstance(f, FunctionType):
        return f
    return control.converted(f, asked=is_users(f.__code__))
