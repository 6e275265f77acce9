"""Which variables a block leaves behind for what follows, which go round in a loop, and which have a value for sure.

It is for code in which nothing leaves amid a block (see `exits`), so that no graph of jumps is needed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from nnc_func.control_flow.conversion.exits import native, until
from nnc_func.control_flow.conversion.names import SCOPES, bound, changed, place, read

Live = frozenset[str]


def _places(tree: ast.AST | Iterable[ast.AST]) -> set[str]:
    """What is read, attributes of variables as `x.attr` too."""
    trees = [tree] if isinstance(tree, ast.AST) else [*tree]
    found = read(trees)
    for each in trees:
        for node in ast.walk(each):
            if isinstance(node, ast.Attribute) and (name := place(node)) is not None:
                found.add(name)
    return found


class Liveness:
    """What is live where, in one function.

    Parameters
    ----------
    always
        Names that may be read at any time.

    Attributes
    ----------
    after
        Of `if`, `for` and `while`, by identity, what is live after it.
    inside
        Of these, what is live where their blocks begin: in loops for the next time, too.
    """

    def __init__(self, always: Iterable[str]) -> None:
        self.always = frozenset(always)
        self.after: dict[int, Live] = {}
        self.inside: dict[int, Live] = {}

    def block(self, statements: Sequence[ast.stmt], live: Live, kills: bool = True) -> Live:
        """What is live before statements, of what is live after them."""
        for node in reversed(statements):
            live = self.statement(node, live, kills) | self.always
        return live

    def statement(self, node: ast.stmt, live: Live, kills: bool) -> Live:
        """What is live before a statement."""
        if native(node) or isinstance(node, ast.Match):
            if isinstance(node, ast.Match):
                for case in node.cases:
                    self.block(case.body, live, False)
            return live | _places(node)
        if isinstance(node, ast.If):
            self.after[id(node)] = self.after.get(id(node), frozenset()) | live | self.always
            inner = self.block(node.body, live, kills) | self.block(node.orelse, live, kills)
            self.inside[id(node)] = self.inside.get(id(node), frozenset()) | inner
            return inner | _places(node.test)
        if isinstance(node, (ast.For, ast.While)):
            return self._loop(node, live, kills)
        if isinstance(node, ast.With):
            inner = self.block(node.body, live, kills)
            for item in reversed(node.items):
                if item.optional_vars is not None and kills:
                    inner -= bound(item.optional_vars)
                inner |= _places(item)
            return inner
        if isinstance(node, ast.Try):
            rest = [*node.orelse, *node.finalbody, *(s for h in node.handlers for s in h.body)]
            live |= _places(rest) | _places(h.type for h in node.handlers if h.type is not None)
            for each in (node.orelse, node.finalbody, *(h.body for h in node.handlers)):
                live |= self.block(each, live, False)
            return live | self.block(node.body, live, False)
        if isinstance(node, SCOPES):
            return (live - {node.name} if kills else live) | _places(node)
        gone = bound(node) if kills else set()
        if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            gone = gone if isinstance(node, ast.AnnAssign) and node.value is not None else set()
            name = place(node.target)
            used = _places(node) | ({name} if name is not None and isinstance(node, ast.AugAssign) else set())
            return (live - gone) | used
        return (live - gone) | _places(node)

    def _loop(self, node: ast.For | ast.While, live: Live, kills: bool) -> Live:
        asked = _places(node.test) if isinstance(node, ast.While) else set()
        head = live | self.always | {*until(node)} | asked
        while True:
            found = self.block(node.body, head, kills)
            if isinstance(node, ast.For):
                found -= bound(node.target)
            if found <= head:
                break
            head |= found
        self.after[id(node)] = self.after.get(id(node), frozenset()) | live | self.always
        self.inside[id(node)] = self.inside.get(id(node), frozenset()) | head
        return head | (_places(node.iter) if isinstance(node, ast.For) else frozenset())

    def state(self, node: ast.If | ast.For | ast.While, known: Iterable[str]) -> tuple[list[str], int]:
        """The variables that a statement may leave another value in; and how many of them, the first, are read later.

        Parameters
        ----------
        known
            Variables of the function: others cannot be given back.
        """
        blocks = [*node.body, *node.orelse] if isinstance(node, ast.If) else [*node.body]
        if isinstance(node, ast.For):
            blocks = [*blocks, ast.Expr(node.target)]
        if isinstance(node, ast.While):
            blocks = [*blocks, ast.Expr(node.test)]
        names = bound(blocks)
        mutated = changed(blocks)
        own = {*known}
        candidates = (names | {m for m in mutated if m.split(".")[0] not in names}) & {
            each for each in names | mutated if each.split(".")[0] in own
        }
        lasting = {each for each in candidates if "." in each or each in mutated}  # somebody else may hold them
        later = sorted(each for each in candidates if each in self.after[id(node)] or each in lasting)
        inside = sorted(each for each in candidates if each in self.inside[id(node)] and each not in later)
        return [*later, *inside], len(later)


class Assigned:
    """Notes each reading of a variable that may not have a value yet, of some variables.

    Attributes
    ----------
    unsure
        The names where they are read, by identity.
    """

    def __init__(self, wanted: Iterable[str]) -> None:
        self.wanted = {*wanted}
        self.unsure: set[int] = set()

    def look(self, tree: ast.AST, sure: set[str]) -> None:
        """Note names in an expression, or a simple statement."""
        waiting: list[tuple[ast.AST, frozenset[str]]] = [(tree, frozenset())]
        while waiting:
            node, hidden = waiting.pop()
            if isinstance(node, SCOPES):
                continue
            if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
                targets = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
                hidden |= targets
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in self.wanted - sure - hidden:
                self.unsure.add(id(node))
            waiting.extend((each, hidden) for each in ast.iter_child_nodes(node))

    def block(self, statements: Sequence[ast.stmt], sure: set[str]) -> set[str]:
        """What surely has a value after statements, of what surely has one before them."""
        for node in statements:
            sure = self.statement(node, sure)
        return sure

    def statement(self, node: ast.stmt, sure: set[str]) -> set[str]:
        """What surely has a value after one statement."""
        if native(node):
            return sure
        if isinstance(node, ast.If):
            self.look(node.test, sure)
            tested = sure | bound(node.test)
            both = self.block(node.body, {*tested}) & self.block(node.orelse, {*tested})
            return both - bound([*node.body, *node.orelse])  # the two may not fit together
        if isinstance(node, ast.While):
            each_time = sure - bound(node)  # what two times, or a break, leave behind may not fit together
            self.look(node.test, each_time)
            self.block(node.body, each_time | bound(node.test))
            return each_time
        if isinstance(node, ast.For):
            self.look(node.iter, sure)
            each_time = sure - bound(node)
            self.block(node.body, each_time | bound(node.target))
            return each_time
        if isinstance(node, ast.With):
            for item in node.items:
                self.look(item, sure)
                sure = sure | bound(item)
            return self.block(node.body, sure)
        if isinstance(node, ast.Try):
            after = sure - bound(node)
            whole = self.block(node.body, {*sure})
            for handler in node.handlers:
                self.block(handler.body, after | ({handler.name} if handler.name else set()))
            self.block(node.orelse, whole)
            self.block(node.finalbody, {*after})
            return after
        if isinstance(node, ast.Match):
            self.look(node.subject, sure)
            for case in node.cases:
                self.block(case.body, sure | bound(case.pattern))
            return sure - bound(node.cases)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id not in sure:
            self.unsure.add(id(node))
        self.look(node, sure)
        if isinstance(node, ast.Assign) and id(node.value) in self.unsure:  # the other variable is as unsure
            return sure - bound(node)
        if isinstance(node, ast.Raise):
            return sure | self.wanted
        return sure | bound(node)
