"""Which variables a piece of code reads and writes, by its syntax tree; names for variables that conversion adds."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SCOPES = (*FUNCTIONS, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
STACKING = {"stack", "asarray", "array"}
KINDS = {"isinstance", "issubclass", "hasattr", "callable", "type", "id", "bool"}
CHANGING = {"append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "reverse", "sort"}


class Names:
    """Names that nothing in a function has."""

    def __init__(self, tree: ast.AST) -> None:
        self.taken = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        self.taken |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
        self.taken |= {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}

    def fresh(self, base: str) -> str:
        """One more name that begins like this."""
        found, count = f"_{base}", 1
        while found in self.taken:
            count += 1
            found = f"_{base}_{count}"
        self.taken.add(found)
        return found


def within(tree: ast.AST | Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes of a scope but contexts: not what stands in functions and classes that are defined in it."""
    waiting = [tree] if isinstance(tree, ast.AST) else [*tree]
    while waiting:
        node = waiting.pop()
        yield node
        kind = type(node)
        if kind is ast.Name or kind is ast.Constant or isinstance(node, SCOPES):
            continue
        for field in kind._fields:
            child = getattr(node, field, None)
            if type(child) is list:
                waiting += [each for each in child if isinstance(each, ast.AST)]
            elif isinstance(child, ast.AST) and field != "ctx":
                waiting.append(child)


def place(node: ast.expr) -> str | None:
    """What `x`, `x.attr`, `x[i]` and `x.attr[i]` write to: ``"x"`` or ``"x.attr"``; None of anything else."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return place(node.value) if isinstance(node, (ast.Attribute, ast.Starred)) else None


def bound(tree: ast.AST | Iterable[ast.AST]) -> set[str]:
    """Names that are given a value: by assignment, a loop, an import, a definition, a pattern; by no comprehension."""
    found: set[str] = set()
    stored: list[ast.Name] = []
    inner: set[int] = set()
    for node in within(tree):
        kind = type(node)
        if kind is ast.Name:
            if not isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
                stored.append(node)  # type: ignore[arg-type]
        elif kind is ast.comprehension:
            inner |= {id(each) for each in ast.walk(node.target) if isinstance(each, ast.Name)}  # type: ignore[attr-defined]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            found.add(node.rest)
    return found | {each.id for each in stored if id(each) not in inner}


def changed(tree: ast.AST | Iterable[ast.AST]) -> set[str]:
    """Places whose value is changed, not exchanged: ``x[i] = …``, ``del x[i]``, ``x.append(…)``."""
    found: set[str | None] = set()
    for node in within(tree):
        if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found.add(place(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
            found.add(place(node.func.value))
    return {name for name in found if name is not None}


def appended(tree: ast.AST | Iterable[ast.AST], others: bool = True) -> set[str]:
    """Places to which something is appended; with `others` only those that are given no other value there."""
    nodes = [*within(tree)]
    calls = [n.func for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    lists = {place(each.value) for each in calls if each.attr == "append"}
    if others:
        lists -= {place(n) for n in nodes if isinstance(n, ast.expr) and isinstance(getattr(n, "ctx", None), ast.Store)}
    return {name for name in lists if name is not None}


def only_stacked(function: ast.FunctionDef) -> set[str]:
    """Variables of which all that a function does is to append to them, to stack, count or return what they have."""
    nodes = [*ast.walk(function)]
    reads = Counter(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    known: Counter[str | None] = Counter()
    for node in within(function.body):
        value: Any = node.value if isinstance(node, ast.Return) else None
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr == "append":
                value = node.func.value
            elif called(node) in {*STACKING, "len"} and len(node.args) == 1:
                value = node.args[0].value if isinstance(node.args[0], ast.Starred) else node.args[0]
        if isinstance(value, ast.Name):
            known[value.id] += 1
    others = {name for n in nodes if isinstance(n, (ast.Global, ast.Nonlocal)) for name in n.names}
    others |= {n.target.id for n in nodes if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    return {name for name, count in reads.items() if known[name] == count} - others


def looked_into(loop: ast.For | ast.While) -> set[str]:
    """Places that a loop reads, but for what it appends to them, and calls with one, which may append to it, too."""
    calls = [n for n in within(loop) if isinstance(n, ast.Call)]
    fine = {id(n.func.value) for n in calls if isinstance(n.func, ast.Attribute) and n.func.attr == "append"}
    fine |= {id(each) for n in calls if called(n) not in KINDS for each in n.args}
    found = {
        place(n) for n in ast.walk(loop)
        if (isinstance(n, ast.Name) or (isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)))
        and isinstance(n.ctx, ast.Load) and id(n) not in fine
    }  # fmt: skip
    return {name for name in found if name is not None}


def called(node: ast.Call) -> str:
    """The last name of what is called."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def read(tree: ast.AST | Iterable[ast.AST]) -> set[str]:
    """Names whose values are read, in functions and classes that are defined there too."""
    trees = [tree] if isinstance(tree, ast.AST) else [*tree]
    nodes = (node for each in trees for node in ast.walk(each))
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def captured(function: ast.FunctionDef) -> set[str]:
    """Names that functions and classes defined within a function may read whenever they are called."""
    found: set[str] = set()
    for node in within(function.body):
        if isinstance(node, SCOPES):
            inner = [node.body] if isinstance(node, ast.Lambda) else node.body
            found |= read(inner)
    return found


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[str]:
    """Names of the parameters."""
    a = function.args
    rest = [each for each in (a.vararg, a.kwarg) if each is not None]
    return [each.arg for each in (*a.posonlyargs, *a.args, *a.kwonlyargs, *rest)]


def own(scope: ast.AST) -> set[str]:
    """Names that are a function's, a class's or a comprehension's own."""
    if isinstance(scope, COMPREHENSIONS):
        return {n.id for g in scope.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
    if isinstance(scope, ast.Lambda):
        return {*parameters(scope)} | bound(scope.body)
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return set()
    outer = {name for n in within(scope.body) if isinstance(n, (ast.Global, ast.Nonlocal)) for name in n.names}
    return (bound(scope.body) - outer) | (set() if isinstance(scope, ast.ClassDef) else {*parameters(scope)})
