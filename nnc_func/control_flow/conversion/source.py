"""Functions taken from their source and made anew from a syntax tree, with the same file, lines and variables around.

A function that is made anew shares the cells of the one that it comes from, so that both see a variable change.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from types import CellType, CodeType, FunctionType
from typing import Any

from attrs import frozen

from nnc_func.control_flow.conversion.exits import UnsupportedError
from nnc_func.control_flow.conversion.names import Names
from nnc_func.control_flow.conversion.transform import Converter

FACTORY = "_with_variables_around"


@frozen(eq=False)
class Converted:
    """The code of a function, converted.

    Attributes
    ----------
    code
        Which wants a cell for the name `control` besides those of the original.
    control
        The name by which it has `runtime.Control`.
    text
        As Python shows it.
    left
        Of what was left to Python in it: line, and why.
    """

    code: CodeType
    control: str
    text: str
    left: tuple[tuple[int, str], ...]


def tree_of(code: CodeType) -> ast.FunctionDef:
    """The syntax tree of a function; lines and columns are those in its file.

    Raises
    ------
    UnsupportedError
        There is no source, or it is another's.
    """
    at = ast.Pass(lineno=code.co_firstlineno)
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError, SyntaxError):
        raise UnsupportedError(at, "its source cannot be found") from None
    indented = lines[0][:1].isspace()
    try:
        module: Any = ast.parse(("if 1:\n" if indented else "") + "".join(lines))
    except SyntaxError:
        raise UnsupportedError(at, "its source is no function that stands alone") from None
    ast.increment_lineno(module, first - 1 - indented)
    found = module.body[0].body[0] if indented else module.body[0]
    if isinstance(found, ast.AsyncFunctionDef):
        raise UnsupportedError(at, "it is a generator or a coroutine")
    if not isinstance(found, ast.FunctionDef) or found.name != code.co_name:
        raise UnsupportedError(at, "its source is another function's: the file has changed since it was imported")
    return found


def converted_code(code: CodeType) -> Converted:
    """The code of a function, converted.

    Raises
    ------
    UnsupportedError
        It is left to Python.
    """
    tree = tree_of(code)
    names = Names(tree)
    names.taken |= {*code.co_freevars, *code.co_names}
    control = names.fresh("control")
    converter = Converter(control, names)
    tree.decorator_list = []
    tree.returns = None
    for each in ast.walk(tree.args):
        if isinstance(each, ast.arg):
            each.annotation = None
    _without_defaults(tree.args)
    made = converter.function(tree)
    text = ast.unparse(ast.fix_missing_locations(made))
    return Converted(_compiled(made, [control, *code.co_freevars], code), control, text, tuple(converter.left))


def _without_defaults(arguments: ast.arguments) -> None:
    """Let default values be computed once more in no case: the function's own are taken."""
    arguments.defaults = [ast.copy_location(ast.Constant(None), each) for each in arguments.defaults]
    arguments.kw_defaults = [each and ast.copy_location(ast.Constant(None), each) for each in arguments.kw_defaults]


def _compiled(tree: ast.FunctionDef, around: Iterable[str], like: CodeType) -> CodeType:
    """The code of a function among these variables around it."""
    names = [*around]
    arguments = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
    # a function that calls itself by a global name is no variable of the factory
    own: list[ast.stmt] = [] if tree.name in names else [ast.copy_location(ast.Global([tree.name]), tree)]
    factory = ast.FunctionDef(FACTORY, arguments, [*own, tree], [], None)
    module = ast.fix_missing_locations(ast.Module([ast.copy_location(factory, tree)], []))
    future = like.co_flags & 0x1000000  # annotations of functions within are texts
    outer = compile(module, like.co_filename, "exec", flags=future, dont_inherit=True)
    (made,) = [each for each in outer.co_consts if isinstance(each, CodeType)]
    (found,) = [each for each in made.co_consts if isinstance(each, CodeType)]
    return found


def codes_within(code: CodeType) -> Iterable[CodeType]:
    """A code, and those of the functions defined in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from codes_within(each)


def function_of(found: Converted, like: FunctionType, control: object) -> FunctionType:
    """A function with converted code, that is like another in all else."""
    cells = dict(zip(like.__code__.co_freevars, like.__closure__ or (), strict=True))
    cells[found.control] = CellType(control)
    closure = tuple([cells[name] for name in found.code.co_freevars])
    made = FunctionType(found.code, like.__globals__, like.__name__, like.__defaults__, closure)
    made.__kwdefaults__, made.__doc__ = like.__kwdefaults__, like.__doc__
    made.__module__, made.__qualname__ = like.__module__, like.__qualname__
    made.__annotations__ = like.__annotations__
    made.__dict__.update(like.__dict__)
    made.__dict__.update(source=found.text, __wrapped__=like)
    return made
