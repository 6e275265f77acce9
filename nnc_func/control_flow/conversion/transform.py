"""The syntax tree of a function rewritten: its blocks become functions, between which a test decides."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any

from nnc_func.control_flow.conversion.exits import Exits, UnsupportedError, assigned, leaves, native, none_of, until
from nnc_func.control_flow.conversion.liveness import Assigned, Liveness
from nnc_func.control_flow.conversion.names import (
    FUNCTIONS,
    Names,
    appended,
    bound,
    captured,
    looked_into,
    only_stacked,
    own,
    parameters,
    place,
    within,
)  # fmt: skip
from nnc_func.control_flow.conversion.numbers import ONE, ORDER, TWO
from nnc_func.control_flow.conversion.places import placed
from nnc_func.control_flow.conversion.reads import Asking, compared_with_none, renamed

PYTHON_TESTS = {"isinstance", "issubclass", "hasattr", "callable"}
SIMPLE = (ast.Name, ast.Constant, ast.Compare, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.operator,
          ast.unaryop, ast.cmpop, ast.boolop, ast.expr_context)  # fmt: skip


def refuse(function: ast.FunctionDef) -> list[tuple[int, str]]:
    """Refuse a function that cannot be converted, and mark statements in it that are left to Python.

    Returns
    -------
    Of each such statement its line, and why it is.

    Raises
    ------
    UnsupportedError
        The function is left to Python as a whole.
    """
    nodes = sorted(within(function.body), key=lambda n: getattr(n, "lineno", 0))
    declared = {name for n in nodes if isinstance(n, (ast.Global, ast.Nonlocal)) for name in n.names}
    inner = [n for each in nodes if isinstance(each, FUNCTIONS) for n in ast.walk(each)]
    outer = bound(function.body) | {*parameters(function)}
    for node in nodes:
        if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)):
            raise UnsupportedError(node, "it is a generator or a coroutine")
        if isinstance(node, ast.Delete) and any(isinstance(each, ast.Name) for each in node.targets):
            raise UnsupportedError(node, "del of a variable")
        if isinstance(node, (ast.Global, ast.Nonlocal)) and bound(function.body) & {*node.names}:
            raise UnsupportedError(node, f"it writes to the {type(node).__name__.lower()} variable {node.names[0]}")
        if isinstance(node, ast.TryStar):
            raise UnsupportedError(node, "except*")
        if isinstance(node, ast.Attribute) and node.attr.startswith("__") and not node.attr.endswith("__"):
            raise UnsupportedError(node, f"the private name {node.attr} belongs to a class")
        if isinstance(node, ast.Try) and leaves(node):
            raise UnsupportedError(node, "return, break or continue leaves a try")
    for node in inner:
        if isinstance(node, ast.Nonlocal) and outer - declared & {*node.names} and outer & {*node.names}:
            raise UnsupportedError(node, f"a function in it writes to its variable {node.names[0]}")
    left = []
    for node in nodes:
        if isinstance(node, (ast.For, ast.While)) and node.orelse:
            what = "for" if isinstance(node, ast.For) else "while"
            if any(isinstance(n, ast.Return) for n in within(node)):
                raise UnsupportedError(node, f"{what} … else with return in it")
            if any(map(leaves, node.orelse)):
                raise UnsupportedError(node, f"{what} … else with break or continue of the loop around it")
            node.native = True  # type: ignore[union-attr]
            left.append((node.lineno, f"{what} … else"))
    return left


class Converter(ast.NodeTransformer):
    """Rewrites functions.

    Parameters
    ----------
    control
        The name by which converted code has `runtime.Control`.
    """

    def __init__(self, control: str, names: Names) -> None:
        self.control, self.names = control, names
        self.left: list[tuple[int, str]] = []
        self.called: set[int] = set()
        self.known: set[str] = set()
        self.liveness = Liveness(())
        self.unsure: set[int] = set()
        self.first: str | None = None
        self.lists: set[str] = set()
        self.stacked: set[str] = set()
        self.tests: set[int] = set()
        self.results: set[str] = set()
        self.wanted: set[str] = set()

    def visit(self, node: ast.AST) -> Any:
        """What stands for a node; statements that are left to Python stay."""
        return self._left(node) if native(node) else super().visit(node)

    def _left(self, node: Any) -> Any:
        """What is left to Python, where it asks variables that may have no value for it."""
        return Asking(self._asked, self.wanted, self._is_none).visit(node)

    def _asked(self, node: ast.Name) -> Any:
        return self._call("defined", [node, ast.Constant(node.id)], node)

    # --- functions --------------------------------------------------------------------------------------

    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """A function converted, those defined in it too.

        Raises
        ------
        UnsupportedError
            It, or one in it, is left to Python.
        """
        kept = self.known, self.liveness, self.unsure, self.first, self.lists, self.stacked, self.wanted
        self.left += refuse(node)
        for outside in (node.args, *node.decorator_list):
            self._left(outside)
        always = captured(node)
        names = parameters(node)
        start = 1 if ast.get_docstring(node, clean=False) is not None and len(node.body) > 1 else 0
        documentation, node.body = node.body[:start], node.body[start:]
        self.stacked = only_stacked(node)
        exits = Exits(node, self.names)
        self.results.add(exits.result)
        self.lists = appended(node.body, others=False)
        body = exits.lowered(self.control)
        self.known = bound(body) | {*names}
        self.liveness = Liveness(always)
        self.liveness.block(body, frozenset())
        states: set[str] = set()
        for each in within(body):
            if isinstance(each, (ast.If, ast.For, ast.While)) and id(each) in self.liveness.after:
                states |= {*self.liveness.state(each, self.known)[0]}
        self.wanted = {name for name in states if name != exits.result} | (self.wanted - self.known)
        self.wanted |= renamed(body, self.wanted) & self.known - {exits.result}
        reads = Assigned(self.wanted)
        reads.block(body, {*names})
        self.unsure, self.first = reads.unsure, names[0] if names else None
        inner = self._scope(body, {*names})
        manager = ast.withitem(self._call("function", [], body[0]))
        node.body = [*documentation, self._at(ast.With([manager], inner), body[0])]
        self.known, self.liveness, self.unsure, self.first, self.lists, self.stacked, self.wanted = kept
        return node

    def _scope(self, body: Sequence[ast.stmt], given: set[str]) -> list[ast.stmt]:
        """The statements of one function of the result: what may have no value where it is asked for begins as that."""
        wanted: set[str] = set()
        waiting: list[Any] = [*body]
        while waiting:
            each = waiting.pop()
            if native(each):
                continue
            if isinstance(each, (ast.For, ast.While)) or (isinstance(each, ast.If) and not self._of_python(each.test)):
                wanted |= {*self.liveness.state(each, self.known)[0]}
                continue  # what is in it is a function of its own
            for name in ("body", "orelse", "finalbody", "handlers", "cases"):
                waiting += getattr(each, name, []) if not isinstance(each, (ast.FunctionDef, ast.ClassDef)) else []
        wanted = {name for name in wanted if "." not in name} - given
        begin: list[ast.stmt] = []
        for name in sorted(wanted):
            named = [] if name in self.results else [ast.Constant(name)]
            call = self._call("undefined" if named else "unreached", named, body[0])
            begin.append(self._at(ast.Assign([ast.Name(name, ast.Store())], call), body[0]))
        return [*begin, *self._block(body)]

    def _block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for each in body:
            found = self.visit(each)
            made += found if isinstance(found, list) else [found]
        return made

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """A function within another; a generator is left to Python."""
        return self._inner(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        """Left to Python, as lambdas and classes are."""
        return self._left(node)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        """A lambda within a function, whose expression is converted."""
        self._left(node.args)
        unsure, self.unsure = self.unsure, set()  # what is in it asks whenever it is called
        names = {*parameters(node)}
        node.body = self.visit(Asking(self._asked, self.wanted - names, self._is_none).visit(node.body))
        self.unsure = unsure
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        """Left to Python, but for its methods, which are functions within this one."""
        around, self.wanted = self.wanted, self.wanted - own(node)
        node.body = [self._inner(n) if isinstance(n, ast.FunctionDef) else self._left(n) for n in node.body]
        self.wanted = around
        for each in ("bases", "keywords", "decorator_list"):
            setattr(node, each, [self._left(part) for part in getattr(node, each)])
        return node

    def _inner(self, node: ast.FunctionDef) -> Any:
        before = {**vars(self)}
        try:
            return self.function(deepcopy(node))
        except UnsupportedError as error:
            vars(self).update(before)
            self.left.append((error.line or node.lineno, error.why))
            return self._left(node)

    # --- statements -------------------------------------------------------------------------------------

    def visit_If(self, node: ast.If) -> Any:
        """A branch, unless Python alone can tell."""
        if self._of_python(node.test):
            node.test = self.visit(node.test)
            node.body, node.orelse = self._block(node.body), self._block(node.orelse)
            return node
        names, later = self.liveness.state(node, self.known)
        test = self.visit(self._asks(node.test))
        then, other = self.names.fresh("then"), self.names.fresh("otherwise")
        made = [self._made(then, [], node.body, names, node), self._made(other, [], node.orelse, names, node)]
        lines = [node.body[0].lineno, node.orelse[0].lineno if node.orelse else node.lineno]
        return self._dispatched(node, made, names, "branch", [
            test, ast.Name(then, ast.Load()), ast.Name(other, ast.Load()),
        ], [ast.Constant(later), ast.Constant(lines[0]), ast.Constant(lines[1])])  # fmt: skip

    def visit_While(self, node: ast.While) -> Any:
        """A loop with a condition."""
        names, later = self.liveness.state(node, self.known)
        test, body = self.names.fresh("test"), self.names.fresh("body")
        lists, exchanged = self._appended(node, names), self._exchanged([*node.body, ast.Expr(node.test)], names)
        made = [
            self._made(test, [], [self._at(ast.Return(self._asks(node.test)), node.test)], names, node.test),
            self._made(body, [], node.body, names, node),
        ]
        return self._dispatched(node, made, names, "loop_while", [
            ast.Name(test, ast.Load()), ast.Name(body, ast.Load()),
        ], [ast.Constant(later), lists, self._strings(exchanged)])  # fmt: skip

    def visit_For(self, node: ast.For) -> Any:
        """A loop over something."""
        names, later = self.liveness.state(node, self.known)
        test, body, item = self.names.fresh("test"), self.names.fresh("body"), self.names.fresh("item")
        lists, exchanged = self._appended(node, names), self._exchanged([*node.body, ast.Expr(node.target)], names)
        target = self._at(ast.Assign([node.target], ast.Name(item, ast.Load())), node.target)
        over = self.visit(node.iter)
        made = [self._made(body, [item], [target, *node.body], names, node)]
        asked: ast.expr = ast.Constant(None)
        if until(node):
            check = self._at(ast.Return(none_of(until(node), node)), node)
            made.insert(0, self._made(test, [], [check], [], node))
            asked = ast.Name(test, ast.Load())
        return self._dispatched(node, made, names, "loop_over", [
            over, asked, ast.Name(body, ast.Load()),
        ], [ast.Constant(later), lists, self._strings(exchanged)])  # fmt: skip

    def visit_Match(self, node: ast.Match) -> Any:
        """Left to Python; `case True` asks what no tensor is."""
        patterns = [n for case in node.cases for n in ast.walk(case.pattern)]
        asked = any(isinstance(n, ast.MatchClass) for n in patterns)
        singletons = [n.value for n in patterns if isinstance(n, ast.MatchSingleton)]
        kinds = asked or any(type(each) is bool for each in singletons)
        node = self.generic_visit(node)  # type: ignore[assignment]
        if kinds or singletons:
            given = [node.subject, ast.Constant(node.lineno), ast.Constant(kinds)]
            node.subject = self._call("matched", given, node.subject)
        return node

    def visit_Raise(self, node: ast.Raise) -> Any:
        """An error that a tensor may not decide about."""
        check = self._at(ast.Expr(self._call("raising", [ast.Constant(node.lineno)], node)), node)
        return [check, self.generic_visit(node)]

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        """``x += y``: what is written into is found once, and read before y is computed, as in Python."""
        target, unsure, name = node.target, id(node) in self.unsure, type(node.op).__name__
        begin: list[ast.stmt] = []
        temporary: list[str] = []

        def once(what: str, value: ast.expr) -> ast.expr:
            """A name for a value."""
            made = self.names.fresh(what)
            temporary.append(made)
            begin.append(self._at(ast.Assign([ast.Name(made, ast.Store())], value), node))
            return ast.Name(made, ast.Load())

        value = self.visit(node.value)
        now: ast.expr
        if isinstance(target, ast.Name):
            now = ast.Name(target.id, ast.Load())
            if unsure:
                begin.append(assigned(target.id, self._asked(now), node))
        elif isinstance(target, ast.Attribute):
            owner = once("owner", self.visit(target.value))
            now = ast.Attribute(owner, target.attr, ast.Load())
            if self._may_compute(target):
                now = self._call("got", [owner, ast.Constant(target.attr)], node)
            target = ast.Attribute(self._call("written", [owner], node), target.attr, ast.Store())
        else:
            owner, key = once("owner", self.visit(target.value)), once("key", self._key(self.visit(target.slice)))
            now = ast.Subscript(owner, key, ast.Load())
            target = ast.Subscript(self._call("written", [owner], node), key, ast.Store())
        names: list[ast.expr] = [ast.Name(each, ast.Del()) for each in temporary]
        end = [self._at(ast.Delete(names), node)] if names else []  # else they would be others that have it
        if name in TWO:
            found = self._call("computed", [ast.Constant(name), ast.Constant(True), now, value], node)
            return [*begin, self._given(ast.Assign([target], found), node), *end]
        return [*begin, self._at(ast.AugAssign(target, node.op, value), node), *end]

    def _key(self, key: Any) -> Any:
        """What stands between brackets, as an expression."""
        if isinstance(key, ast.Tuple):
            return ast.Tuple([*map(self._key, key.elts)], ast.Load())
        if not isinstance(key, ast.Slice):
            return key
        return self._call("slice", [each or ast.Constant(None) for each in (key.lower, key.upper, key.step)], None)

    def _appended(self, node: ast.For | ast.While, names: Sequence[str]) -> ast.expr:
        """Lists to which a loop appends: what the code does with each besides."""
        looked, found = looked_into(node), sorted(appended(node.body) & {*names})
        uses = ["looked into" if each in looked else "stacked" if each in self.stacked else "read" for each in found]
        return ast.Dict([*map(ast.Constant, found)], [*map(ast.Constant, uses)])

    def _exchanged(self, body: Sequence[ast.stmt], names: Sequence[str]) -> list[str]:
        """Of variables those that are given another value, not only written into."""
        own = bound(body)
        return [name for name in names if "." in name or name in own]

    def _dispatched(
        self, node: ast.stmt, made: list[ast.stmt], names: list[str], what: str, first: list[ast.expr],
        last: list[ast.expr],
    ) -> list[ast.stmt]:  # fmt: skip
        """The functions, those that read and write the state, and the call that decides."""
        read_, write, values = self.names.fresh("get"), self.names.fresh("set"), self.names.fresh("values")
        parts = [self._value(name) for name in names]
        get = self._function(read_, [], [ast.Return(ast.Tuple(parts, ast.Load()))], node)
        store: list[ast.stmt] = [ast.Nonlocal(plain)] if (plain := [n for n in names if "." not in n]) else []
        for at, name in enumerate(names):
            part = ast.Subscript(ast.Name(values, ast.Load()), ast.Constant(at), ast.Load())
            if "." in name:
                owner, attribute = name.split(".")
                given = [ast.Name(owner, ast.Load()), ast.Constant(attribute), part]
                store.append(ast.Expr(self._call("set_attribute", given, node)))
            else:
                store.append(ast.Assign([ast.Name(name, ast.Store())], part))
        put = self._function(write, [values], store or [ast.Pass()], node)
        state = [ast.Name(read_, ast.Load()), ast.Name(write, ast.Load()), self._strings(names)]
        call = self._call(what, [*first, *state, *last, ast.Constant(node.lineno)], node)
        return [*made, get, put, self._at(ast.Expr(call), node)]

    def _value(self, name: str) -> ast.expr:
        if "." not in name:
            return ast.Name(name, ast.Load())
        owner, attribute = name.split(".")
        return self._call("attribute", [ast.Name(owner, ast.Load()), ast.Constant(attribute)], None)

    def _made(
        self, name: str, arguments: list[str], body: Sequence[ast.stmt], state: Iterable[str], at: ast.AST
    ) -> Any:
        """A block as a function that writes to the variables of the state."""
        given = bound(body)
        shared = [each for each in state if "." not in each and each in given]
        inner = self._scope(body, {*state, *arguments, *(self.known - given)})
        begin: list[ast.stmt] = [ast.Nonlocal(shared)] if shared else []
        return self._function(name, arguments, [*begin, *(inner or [ast.Pass()])], at)

    def _function(self, name: str, arguments: list[str], body: list[ast.stmt], at: ast.AST) -> Any:
        of = ast.arguments([], [ast.arg(each) for each in arguments], None, [], [], None, [])
        return self._at(ast.FunctionDef(name, of, body, [], None), at)

    def visit_Assign(self, node: ast.Assign) -> Any:
        """``x.attr = …``: its class may compute that."""
        names = [each.id for each in node.targets if isinstance(each, ast.Name) and each.id not in self.results]
        if id(node.value) in self.unsure and len(names) == len(node.targets):
            node.value = self._call("passed", [node.value, ast.Constant(node.value.id)], node)  # type: ignore[attr-defined]
            return node
        may_compute = isinstance(node.targets[0], ast.Attribute) and self._may_compute(node.targets[0])
        self.generic_visit(node)
        return self._given(node, node) if may_compute else node

    def _given(self, node: ast.Assign, at: ast.AST) -> ast.stmt:
        """``x.attr = …``, of what may be computed, as a call."""
        (target, *others) = node.targets
        if others or not isinstance(target, ast.Attribute) or not self._may_compute(target):
            return self._at(node, at)  # type: ignore[no-any-return]
        given = [node.value, target.value, ast.Constant(target.attr)]
        return self._at(ast.Expr(self._call("put", given, node)), at)  # type: ignore[no-any-return]

    def _may_compute(self, node: ast.Attribute) -> bool:
        """Whether a user's class may compute an attribute: not of a module, or of what is global."""
        root = place(node.value)
        if node.attr.startswith("__") and node.attr != "__class__":
            return False
        return root is None or root.split(".")[0] in self.known

    def visit_Assert(self, node: ast.Assert) -> Any:
        """``assert x is not None``: whoever reads x asks that."""
        name = self._none_asked(node.test) if isinstance(node.test, ast.Compare) else None
        if name is not None and isinstance(node.test.ops[0], ast.IsNot):  # type: ignore[attr-defined]
            return self._at(ast.Expr(self._asked(name)), node)
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """``x[i] = …``: what x is may be a matter of a tensor."""
        return self._written(node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """``x.attr = …``, too; what ``x.attr`` is may be a matter of its class."""
        self._written(node)
        if not isinstance(node.ctx, ast.Load) or id(node) in self.called or not self._may_compute(node):
            return node
        return self._call("got", [node.value, ast.Constant(node.attr)], node)

    def _written(self, node: Any) -> Any:
        self.generic_visit(node)
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            node.value = self._call("written", [node.value], node)
        return node

    # --- expressions ------------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> Any:
        """A variable that may have no value is asked for it."""
        return self._asked(node) if id(node) in self.unsure else node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """`and` and `or`: the second operand is computed where the first one lets it."""
        if _binds(node):
            return self._leave(node, ":= in an operand of and, or")
        name = "both" if isinstance(node.op, ast.And) else "either"
        simple = [all(isinstance(n, SIMPLE) for n in ast.walk(each)) for each in node.values]
        is_test = id(node) in self.tests
        values = [self.visit(each) for each in node.values]
        values = [self._call("truth", [each], node) if is_test else each for each in values]
        found = values[0]
        for each, cheap in zip(values[1:], simple[1:], strict=True):
            found = self._call(name, [found, self._later(each), ast.Constant(cheap)], node)
        return found

    def _asks(self, test: ast.expr) -> ast.expr:
        """A test, of which truth alone is asked: that of its operands, too."""
        waiting = [test]
        while waiting:
            each = waiting.pop()
            self.tests.add(id(each))
            if isinstance(each, ast.BoolOp):
                waiting += each.values
            elif isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.Not):
                waiting.append(each.operand)
        return test

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        """``a * b``: a number that a tensor decides may be one of them."""
        self.generic_visit(node)
        name = type(node.op).__name__
        if name not in TWO or all(type(n) is ast.Constant for n in (node.left, node.right)):
            return node
        return self._call("computed", [ast.Constant(name), ast.Constant(False), node.left, node.right], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """`not`, and ``-a``."""
        if isinstance(node.op, ast.Not):
            self._asks(node.operand)
        self.generic_visit(node)
        name = type(node.op).__name__
        if name in ONE and type(node.operand) is not ast.Constant:
            return self._call("signed", [ast.Constant(name), node.operand], node)
        return self._call("negated", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> Any:
        """``a < b < c``: each operand is computed once, and the third where the first comparison lets it."""
        if len(node.ops) > 1 and _binds(node):
            return self._leave(node, ":= in a chain of comparisons")
        if (asked := self._none_asked(node)) is not None:
            return self._is_none(node, asked)
        self.generic_visit(node)
        names = [type(op).__name__ for op in node.ops]
        if len(names) == 1:
            if names[0] in ORDER:
                given = [ast.Constant(names[0]), ast.Constant(False), node.left, node.comparators[0]]
                return self._call("computed", given, node)
            if names[0] in ("Is", "IsNot") and _with_constant(node):
                if not (isinstance(node.comparators[0], ast.Constant) and node.comparators[0].value is None):
                    return node
                found = self._call("is_nothing", [node.left], node)
                return found if names[0] == "Is" else self._call("negated", [found], node)
        rest = [self._later(each) for each in node.comparators]
        return self._call("compared", [self._strings(names), node.left, *rest], node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        """``f"{a}"``: the text of a number that a tensor decides is not known."""
        self.generic_visit(node)
        if not any(isinstance(each, (ast.FormattedValue, ast.Call)) for each in node.values):
            return node
        return self._call("joined", [*node.values], node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        """What stands between its braces."""
        self.generic_visit(node)
        given = [node.value, node.format_spec or ast.Constant(""), ast.Constant(node.conversion)]
        return self._call("format_of", given, node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """``a if test else b``."""
        if _binds(node.body) or _binds(node.orelse):
            return self._leave(node, ":= in a conditional expression")
        self._asks(node.test)
        self.generic_visit(node)
        return self._call("choice", [node.test, self._later(node.body), self._later(node.orelse)], node)

    def visit_Call(self, node: ast.Call) -> Any:
        """What is called is converted, too, where it is a user's function."""
        self.called.add(id(node.func))
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and place(node.func) == f"{self.control}.{node.func.attr}":
            return node
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            if not node.args and self.first is not None:
                node.args = [ast.Name("__class__", ast.Load()), ast.Name(self.first, ast.Load())]
            return self._at(node, node)
        plain = [a.value if isinstance(a, ast.Starred) else a for a in node.args]
        if len(plain) == 1 and place(plain[0]) in self.lists:
            given = [node.func, plain[0], ast.Constant(plain[0] is not node.args[0])]
            call = self._call("called_with", given, node)
            call.keywords = node.keywords
            return call
        node.func = self._call("callee", [node.func], node.func)
        return node

    def _none_asked(self, node: ast.Compare) -> ast.Name | None:
        """The variable of ``x is None`` of which a tensor may decide that."""
        name = compared_with_none(node)
        return name if id(name) in self.unsure else None

    def _is_none(self, node: ast.Compare, name: ast.Name) -> Any:
        found = self._call("is_none", [name, ast.Constant(name.id)], node)
        return found if isinstance(node.ops[0], ast.Is) else self._call("negated", [found], node)

    def _of_python(self, test: ast.expr) -> bool:
        """Whether a test is never a tensor."""
        return _of_python(test) and not any(
            isinstance(each, ast.Compare) and self._none_asked(each) is not None for each in ast.walk(test)
        )

    def _leave(self, node: ast.expr, why: str) -> Any:
        self.left.append((node.lineno, why))
        return self._left(node)

    # --- making nodes -----------------------------------------------------------------------------------

    def _later(self, value: ast.expr) -> Any:
        empty = ast.arguments([], [], None, [], [], None, [])
        return self._at(ast.Lambda(empty, value), value)

    def _call(self, name: str, given: list[Any], at: ast.AST | None) -> ast.Call:
        made = ast.Call(ast.Attribute(ast.Name(self.control, ast.Load()), name, ast.Load()), given, [])
        return self._at(made, at) if at is not None else made

    def _strings(self, names: Iterable[str]) -> ast.expr:
        ordered = names if isinstance(names, list) else sorted(names)
        return ast.Tuple([ast.Constant(name) for name in ordered], ast.Load())

    def _at(self, made: Any, at: ast.AST | None) -> Any:
        return made if at is None else placed(made, at)


def _of_python(test: ast.expr) -> bool:
    """Whether a test is never a tensor: of types, of identity, or a constant."""
    if isinstance(test, ast.BoolOp):
        return all(map(_of_python, test.values))
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _of_python(test.operand)
    if isinstance(test, ast.Compare):
        return all(isinstance(op, (ast.Is, ast.IsNot)) for op in test.ops) and _with_constant(test)
    if isinstance(test, ast.Call):
        return isinstance(test.func, ast.Name) and test.func.id in PYTHON_TESTS
    return isinstance(test, ast.Constant)


def _with_constant(test: ast.Compare) -> bool:
    """Whether all that is compared, but for one, are constants: no tensor decides whether something is None.

    Of a truth value that a tensor decides, it does decide whether it is True.
    """
    constants = [isinstance(n, ast.Constant) and type(n.value) is not bool for n in (test.left, *test.comparators)]
    return constants.count(False) <= 1


def _binds(node: ast.AST) -> bool:
    return any(isinstance(n, ast.NamedExpr) for n in ast.walk(node))
