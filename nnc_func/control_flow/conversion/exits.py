"""`break`, `continue` and `return` amid a function turned into flags, so that what is left has one way through it.

What stands behind an `if` that always leaves moves into its other branch; else it is put under ``if not flag``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from nnc_func.control_flow.conversion.names import Names, within
from nnc_func.control_flow.conversion.places import placed

LEAVES = (ast.Return, ast.Break, ast.Continue, ast.Raise)


class UnsupportedError(Exception):
    """Code that is left to Python: the line, and why."""

    def __init__(self, node: ast.AST, why: str) -> None:
        super().__init__(why)
        self.line: int = getattr(node, "lineno", 0)
        self.why = why


def native(node: ast.AST) -> bool:
    """Whether a statement is left to Python as it is."""
    return getattr(node, "native", False)


def until(node: ast.AST) -> tuple[str, ...]:
    """The flags that end a loop."""
    return getattr(node, "until", ())


def assigned(name: str, value: ast.expr, at: ast.AST) -> ast.stmt:
    """``name = value``, at that line."""
    made = ast.Assign([ast.Name(name, ast.Store())], value)
    return placed(made, at)


def none_of(flags: Iterable[str], at: ast.AST) -> ast.expr:
    """``not a and not b``, at that line."""
    each: list[ast.expr] = [ast.UnaryOp(ast.Not(), ast.Name(name, ast.Load())) for name in sorted(flags)]
    made = each[0] if len(each) == 1 else ast.BoolOp(ast.And(), each)
    return placed(made, at)


class Exits:
    """One function without `return` but at its end, and without `break` and `continue`.

    Attributes
    ----------
    result
        The variable that has what is returned; None where nothing is.
    """

    def __init__(self, function: ast.FunctionDef, names: Names) -> None:
        self.function, self.names = function, names
        self.result = names.fresh("result")
        self.returned = names.fresh("returned")
        self.flags = {self.returned}
        self.asked: set[str] = set()
        self.loops: list[tuple[str, str]] = []

    def lowered(self, control: str) -> list[ast.stmt]:
        """The statements of the function."""
        body = self.function.body
        returns = [n for n in within(body) if isinstance(n, ast.Return)]
        last = body[-1]
        if returns in ([], [last]):
            found, _, _ = self.block(body[: len(body) - len(returns)])
            tail = [self._return(last.value, last, control)] if isinstance(last, ast.Return) else []
            return [*self._starts(body[0]), *self._kept(found), *tail]
        if not ends(body):
            body = [*body, ast.copy_location(ast.Return(ast.copy_location(ast.Constant(None), last)), last)]
        found, _, _ = self.block(body)
        tail = [self._return(ast.Name(self.result, ast.Load()), last, control)]
        return [*self._starts(body[0]), *self._kept(found), *tail]

    def _starts(self, at: ast.AST) -> list[ast.stmt]:
        return [assigned(self.returned, ast.Constant(False), at)] if self.returned in self.asked else []

    def _return(self, value: ast.expr | None, at: ast.AST, control: str) -> ast.stmt:
        given = ast.Constant(None) if value is None else value
        call = ast.Call(ast.Attribute(ast.Name(control, ast.Load()), "returned", ast.Load()), [given], [])
        return placed(ast.Return(call), at)

    def _kept(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements without flags that nobody asks for."""

        class Unasked(ast.NodeTransformer):
            def visit_Assign(self, node: ast.Assign, of: Exits = self) -> ast.stmt | None:
                target = node.targets[0]
                unasked = isinstance(target, ast.Name) and target.id in of.flags - of.asked
                return None if unasked else node

        kept = [Unasked().visit(each) for each in body]
        for each in kept:
            for node in ast.walk(each) if each is not None else ():
                if isinstance(node, (ast.If, ast.For, ast.While, ast.With)) and not node.body:
                    node.body = [ast.copy_location(ast.Pass(), node)]
                elif isinstance(node, ast.match_case) and not node.body:
                    node.body = [ast.copy_location(ast.Pass(), node.pattern)]
        return [each for each in kept if each is not None]

    def block(self, statements: Sequence[ast.stmt]) -> tuple[list[ast.stmt], set[str], bool]:
        """The statements, flags that may be set in them, and whether they can be gone through to their end."""
        made: list[ast.stmt] = []
        flags: set[str] = set()
        for n, statement in enumerate(statements):
            rest = [*statements[n + 1 :]]
            if isinstance(statement, ast.If) and rest and leaves(statement):
                if ends(statement.body):
                    statement.orelse, rest = [*statement.orelse, *rest], []
                elif ends(statement.orelse):
                    statement.body, rest = [*statement.body, *rest], []
            found, its, completes = self.statement(statement)
            made += found
            flags |= its
            if not completes or not rest:
                return made, flags, completes
            if its:
                self.asked |= its
                inner, more, _ = self.block(rest)
                guard = ast.If(none_of(its, rest[0]), inner, [])
                made.append(ast.copy_location(guard, rest[0]))
                return made, flags | more, True
        return made, flags, True

    def statement(self, node: ast.stmt) -> tuple[list[ast.stmt], set[str], bool]:
        """As `block`, of one statement."""
        if native(node):
            return [node], set(), True
        if _or_none(node):
            return self.statement(_written_out(node))
        if isinstance(node, ast.Return):
            value = node.value or ast.copy_location(ast.Constant(None), node)
            found = [assigned(self.result, value, node), assigned(self.returned, ast.Constant(True), node)]
            return found, {self.returned}, False
        if isinstance(node, (ast.Break, ast.Continue)):
            flag = self.loops[-1][isinstance(node, ast.Continue)]
            return [assigned(flag, ast.Constant(True), node)], {flag}, False
        if isinstance(node, ast.Raise):
            return [node], set(), False
        if isinstance(node, ast.If):
            node.body, flags, completes = self.block(node.body)
            node.orelse, more, completes_too = self.block(node.orelse)
            return [node], flags | more, completes or completes_too
        if isinstance(node, (ast.For, ast.While)):
            return self._loop(node)
        if isinstance(node, ast.With):
            node.body, flags, completes = self.block(node.body)
            return [node], flags, completes
        if isinstance(node, ast.Match):
            flags = set()
            for case in node.cases:
                case.body, its, _ = self.block(case.body)
                flags |= its
            return [node], flags, True
        if isinstance(node, ast.Try):
            if leaves(node):
                raise UnsupportedError(node, "return, break or continue leaves a try")
            node.body = self.block(node.body)[0]
            node.orelse, node.finalbody = self.block(node.orelse)[0], self.block(node.finalbody)[0]
            for handler in node.handlers:
                handler.body = self.block(handler.body)[0]
        return [node], set(), True

    def _loop(self, node: ast.For | ast.While) -> tuple[list[ast.stmt], set[str], bool]:
        broke, skipped = self.names.fresh("broke"), self.names.fresh("skipped")
        completes = not _endless(node)
        self.flags |= {broke, skipped}
        self.loops.append((broke, skipped))
        body, flags, _ = self.block(node.body)
        self.loops.pop()
        ending = flags & {broke, self.returned}
        self.asked |= ending
        if skipped in self.asked:
            body.insert(0, assigned(skipped, ast.Constant(False), node))
        node.body = body
        if ending and isinstance(node, ast.While):
            guard = none_of(ending, node)
            test = guard if _always(node.test) else ast.BoolOp(ast.And(), [guard, node.test])
            node.test = ast.copy_location(test, node.test)
        node.until = tuple(sorted(ending))  # type: ignore[union-attr]
        before = [assigned(broke, ast.Constant(False), node)] if broke in ending else []
        return [*before, node], flags & {self.returned}, completes


def _or_none(node: ast.stmt) -> bool:
    """Whether it is ``name = None if test else value``, or the other way round."""
    value = node.value if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    if not isinstance(value, ast.IfExp) or not isinstance(node.targets[0], ast.Name):  # type: ignore[attr-defined]
        return False
    return any(isinstance(each, ast.Constant) and each.value is None for each in (value.body, value.orelse))


def _written_out(node: Any) -> ast.stmt:
    """Such a statement as an `if`."""
    value = node.value
    then, otherwise = (ast.copy_location(ast.Assign(node.targets, each), node) for each in (value.body, value.orelse))
    return ast.copy_location(ast.If(value.test, [then], [otherwise]), node)


def _always(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)


def leaves(node: ast.stmt) -> bool:
    """Whether something in a statement leaves it, for the end of the function or of the loop around it."""
    if isinstance(node, LEAVES):
        return not isinstance(node, ast.Raise)
    inner: list[ast.stmt] = []
    loop = isinstance(node, (ast.For, ast.While))
    for name in ("body", "orelse", "finalbody"):
        inner += getattr(node, name, []) if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []
    for each in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        inner += each.body
    if loop:
        return any(isinstance(n, ast.Return) for n in within(inner))
    return any(map(leaves, inner))


def ends(statements: Sequence[ast.stmt]) -> bool:
    """Whether statements are never gone through to their end."""
    for node in statements:
        if isinstance(node, LEAVES):
            return True
        if isinstance(node, ast.If) and ends(node.body) and ends(node.orelse):
            return True
        if isinstance(node, ast.With) and ends(node.body):
            return True
        if isinstance(node, ast.While) and _endless(node):
            return True
    return False


def _endless(node: ast.For | ast.While) -> bool:
    """Whether a loop ends by a return alone: ``while True`` without a break of its own."""
    return isinstance(node, ast.While) and _always(node.test) and not any(map(_breaks, node.body))


def _breaks(node: ast.stmt) -> bool:
    """Whether something in a statement breaks the loop around it."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    inner = [] if isinstance(node, (ast.For, ast.AsyncFor, ast.While)) else [*getattr(node, "body", ())]
    inner += [*getattr(node, "orelse", ()), *getattr(node, "finalbody", ())]
    for each in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        inner += each.body
    return isinstance(node, ast.Break) or any(map(_breaks, inner))
