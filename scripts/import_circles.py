"""Finds the circles of imports in a package: modules each of which reaches all the others.

``python scripts/import_circles.py`` prints them, with the lines that make them, and exits 1 if there are any. Nothing
is imported: the modules' syntax trees are read.

What is an edge from one module to another:

- An import anywhere: at the top, in a function, in a class, under ``try``. One amid a function makes a circle that does
  not hurt when Python starts, and that a reader still walks around.
- A module's name that is given to ``import_module``, ``deferred``, a ``LateMethod`` or a ``Registry``, where it can be
  worked out from the module's own constants: a package whose names are found when somebody asks for them imports what
  it finds. What such a call is given only when it runs (a pickle's module, a model's builder) is no edge: nobody reads
  it there.
- ``from package import name`` leads to the module ``package.name`` if there is one, else to ``package`` itself, of
  which a name is taken. ``import a.b.c`` leads to ``a.b.c``.

What is none:

- An import under ``if TYPE_CHECKING``: annotations may name what is above, as the contract of import-linter has it.
- The packages in which a module lies. Python runs ``a/__init__.py`` and ``a/b/__init__.py`` before ``a/b/c.py``, yet
  the module takes no name of theirs. Were these edges, no package could show at its door what its modules define.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Edge(NamedTuple):
    """One module needs another, because of a line."""

    source: str
    line: int
    target: str


def modules(root: Path, package: str) -> dict[str, Path]:
    """The files of a package that lies in a folder, by module."""
    found = {}
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def edges(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[Edge]:
    """Which of the known modules a module needs, and where it says so."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = _constants(name, tree)
    home = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in _counted(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            targets = _taken(node, home, known)
        elif isinstance(node, ast.Call):
            targets = _named_in(node, constants, home)
        else:
            continue
        yield from (Edge(name, node.lineno, target) for target in dict.fromkeys(targets) if target in known)


def _counted(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes of a module but those that only a type checker reads, in the order of the text."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            waiting.extend(reversed(node.orelse))
        else:
            waiting.extend(reversed([*ast.iter_child_nodes(node)]))


def _taken(node: ast.ImportFrom, home: str, known: Mapping[str, Path]) -> list[str]:
    base = node.module or ""
    if node.level:
        above = home.split(".")[: len(home.split(".")) - node.level + 1]
        base = ".".join([*above, *filter(None, [base])])
    return [f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names]


def _constants(name: str, tree: ast.Module) -> dict[str, Any]:
    """What the names of a module stand for, of which that can be worked out without running it."""
    found: dict[str, Any] = {"__name__": name, "dict": dict}
    for node in _counted(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value):
                pass
            case _:
                continue
        known, evaluated = _evaluated(value, found)
        if known:
            found.setdefault(target, evaluated)
    return found


def _evaluated(expression: ast.expr, constants: Mapping[str, Any]) -> tuple[bool, Any]:
    """Whether an expression is one of literals and constants alone, and its value."""
    plain = (ast.Constant, ast.JoinedStr, ast.Dict, ast.DictComp, ast.List, ast.Tuple, ast.BinOp, ast.Name, ast.Call)
    if not isinstance(expression, plain):
        return False, None
    bound = {n.id for n in ast.walk(expression) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    read = {n.id for n in ast.walk(expression) if isinstance(n, ast.Name)} - bound
    if not read <= set(constants):
        return False, None
    try:
        code = compile(ast.Expression(expression), "<constant>", "eval")
        return True, eval(code, {"__builtins__": {}, **constants})
    except (AttributeError, LookupError, NameError, TypeError, ValueError):
        return False, None


def _named_in(call: ast.Call, constants: Mapping[str, Any], home: str) -> list[str]:
    """The modules whose names a call is given that imports them."""
    called = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if called not in ("import_module", "deferred", "LateMethod", "Registry"):
        return []
    given = [_evaluated(each, constants) for each in call.args[:2]]  # a third one of a `Registry` is no name
    values = [value for known, value in given if known]
    if called != "import_module" and len(values) < 2:
        raise ValueError(f"what {called} is given cannot be worked out from constants: {ast.unparse(call)}")
    match called, values:
        case "import_module", [str(module), *rest]:
            package = rest[0] if rest and isinstance(rest[0], str) else home
            dots = len(module) - len(module.lstrip("."))
            above = package.split(".")[: len(package.split(".")) - dots + 1]
            return [".".join([*above, *filter(None, [module[dots:]])]) if dots else module]
        case "deferred", [str(), dict(members)]:
            return list(members.values())
        case "LateMethod", [str(module), str()]:
            return [module]
        case "Registry", [str(package), dict(members)]:
            return [f"{package}.{shown.rpartition('.')[0] or name}" for name, shown in members.items()]
    return []


def circles(found: list[Edge]) -> list[list[Edge]]:
    """Groups of modules that reach one another, each as the edges within it; the largest first.

    Tarjan's strongly connected components, with a stack of its own in place of recursion.
    """
    after: dict[str, list[str]] = {}
    for edge in found:
        after.setdefault(edge.source, []).append(edge.target)
        after.setdefault(edge.target, [])
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    group: dict[str, int] = {}
    open_: list[str] = []
    for start in sorted(after):
        work = [] if start in number else [(start, iter(after[start]))]
        while work:
            module, rest = work[-1]
            if module not in number:
                number[module] = low[module] = len(number)
                open_.append(module)
            for target in rest:
                if target not in number:
                    work.append((target, iter(after[target])))
                    break
                if target not in group:
                    low[module] = min(low[module], number[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[module])
                if low[module] == number[module]:
                    while module not in group:
                        group[open_.pop()] = number[module]
    within: dict[int, list[Edge]] = {}
    for edge in found:
        if edge.source != edge.target and group[edge.source] == group[edge.target]:
            within.setdefault(group[edge.source], []).append(edge)
    return sorted(within.values(), key=lambda each: (-len({e.source for e in each}), each))


def circles_of(root: Path, package: str) -> list[list[Edge]]:
    """The circles of a package that lies in a folder."""
    known = modules(root, package)
    return circles([edge for name, path in known.items() for edge in edges(name, path, known)])


def described(found: list[list[Edge]]) -> str:
    """The circles, one line an edge."""
    lines = [f"circles: {len(found)}, of {sum(len({e.source for e in each}) for each in found)} modules"]
    for each in found:
        members = sorted({edge.source for edge in each})
        lines.append(f"\n{len(members)} modules: {', '.join(members)}")
        lines.extend(f"    {edge.source}:{edge.line} -> {edge.target}" for edge in sorted(each))
    return "\n".join(lines)


def main() -> int:
    """Print the circles of the library; 1 if there are any."""
    found = circles_of(ROOT, "nnc_func")
    print(described(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
