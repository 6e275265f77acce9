"""Writes what is derived from the library: the typed namespace `Ops`, pages and pictures of docs/, goldens of rules.

Run it after an operator has been added or changed. With ``--check`` nothing is written; it exits 1 if a file is stale.
"""

from __future__ import annotations

import ast
import inspect
import keyword
import math
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import allocation_page
import onnx_table
import pictures
import rules_page
from numpy_table import numpy_table

from nnc_func.declaration import SYNONYMS

ROOT = Path(__file__).resolve().parent.parent
NAMESPACE = ROOT / "nnc_func" / "graph" / "namespace.py"
TABLE = ROOT / "docs" / "operators.md"
NUMPY = ROOT / "docs" / "numpy.md"
WIDTH = 120

HEADER = '''\
"""The operators as typed methods. Generated from the catalogue by scripts/generate.py: change operators, not this.

What is told here of an operator is its own signature and docstring; `docs/operators.md` has all of them in tables.
"""

# mypy: disable-error-code="no-any-return"
# `_bind` and `_compose` return what the layer returns: T, or a tuple of T where the operator has several results.

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Never, TypeVar

import numpy as np
from attrs import field, frozen

from nnc_func.declaration import checks_names
from nnc_func.graph.functions import Functions
from nnc_func.graph.ops import CATALOGUE
from nnc_func.op import Catalogue, Op

if TYPE_CHECKING:
    import numpy.typing as npt

    from nnc_func.body import Body

T = TypeVar("T")
SCALARS = (bool, int, float, complex)
Scalar = bool | int | float | complex | np.generic  # stands for any tensor argument: it takes the others' dtype
Axes = int | Sequence[int]
Sizes = int | Sequence[Any]  # an extent may be symbolic

'''

CLASS = '''

def _replacing(catalogue: Catalogue, bind: Callable[..., Any], op: Op, *args: Any, **params: Any) -> Any:
    return bind(catalogue.get(op.name, op), *args, **params)


def _as_given(value: Any) -> Any:
    return value


def _through(ops: Ops[Any]) -> Callable[..., Any]:
    """The given `bind`; by way of the catalogue where that has other operators under known names."""
    mine = ops.catalogue
    if mine is CATALOGUE or all(mine.get(name, op) is op for name, op in CATALOGUE.items()):
        return ops.bind
    return partial(_replacing, mine, ops.bind)


@frozen(eq=False, repr=False)
class Ops(Generic[T]):
    """The operators of a stack, as functions; array-API names where the standard has one.

    Operators that the stack's own catalogue has beyond those below are attributes too; a type checker does not
    know them, so that it finds misspelt names.

    Parameters
    ----------
    bind
        ``bind(op, *args, **params)`` of a layer.
    catalogue
        The stack's operators.
    lift
        Makes a carrier of whatever a composite is given in place of one.

    Examples
    --------
    >>> import numpy as np
    >>> from nnc_func.device import NumPy
    >>> Ops(NumPy().bind).add(np.float32([1, 2]), 1)
    array([2., 3.], dtype=float32)
    """

    bind: Callable[..., Any]
    catalogue: Catalogue = CATALOGUE
    lift: Callable[[Any], Any] = _as_given
    _bind: Callable[..., Any] = field(init=False)
    _functions: list[Functions] = field(init=False, factory=list)  # made when they are asked for

    @_bind.default
    def _chosen(self) -> Callable[..., Any]:
        return _through(self)

    def __repr__(self) -> str:
        return f"<{len(self.catalogue)} operators>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Ops, (self.bind, self.catalogue, self.lift)

    @property
    def functions(self) -> Functions:
        """The operators as formulas are written against them."""
        if not self._functions:
            self._functions.append(Functions(self.bind, self.catalogue))
        return self._functions[0]

    def _compose(self, name: str, *args: Any, **params: Any) -> Any:
        from nnc_func.graph.composites import COMPOSITES

        given = [a if a is None or type(a) in SCALARS else self.lift(a) for a in args]
        while given and given[-1] is None:
            given.pop()
        return COMPOSITES[name].over(self.functions, *given, **params)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self.catalogue})

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or name in ("bind", "catalogue"):
                raise AttributeError(name)
            found = self.catalogue.get(name) or self.catalogue.get(name.removesuffix("_"))
            if found is None:
                import difflib

                close = difflib.get_close_matches(name, self.catalogue)
                hint = f"; did you mean {' or '.join(close)}?" if close else "; see docs/operators.md"
                raise AttributeError(f"no operator {name!r} in this stack's catalogue{hint}")
            return partial(self.bind, found)
'''

TYPES = {
    "bool": "bool",
    "index": "int",
    "float": "float",
    "number": "Scalar",
    "str": "str",
    "axes": "Axes",
    "sizes": "Sizes",
    "extent": "Any",
    "as_dtype": "npt.DTypeLike",
    "body": "Body",
    "nested": "Any",
    "function": "Callable[..., Any]",
}


def catalogues() -> Any:
    """Operators and composites, imported without the package around them: what is generated may be stale."""
    sys.path.insert(0, str(ROOT))
    for name in ("nnc_func", "nnc_func.graph"):
        package = types.ModuleType(name)
        package.__path__ = [str(ROOT.joinpath(*name.split(".")))]
        sys.modules[name] = package
    from nnc_func.graph.composites import COMPOSITES
    from nnc_func.graph.ops import CATALOGUE

    return CATALOGUE, COMPOSITES


# --- the namespace ---------------------------------------------------------------------------------------


def namespace(ops: Any, composites: Any) -> str:
    """The text of nnc_func/graph/namespace.py."""
    constants = [f"{constant(name)} = CATALOGUE[{name!r}]".replace("'", '"') for name in ops]
    methods = [*(method(op) for op in ops.values()), *(composed(each) for each in composites.values())]
    return HEADER + "\n".join(constants) + "\n" + CLASS + "\n" + "\n".join(methods)


def constant(name: str) -> str:
    """The module's name for an operator."""
    return f"_{name.upper()}"


def method(op: Any) -> str:
    """One typed method."""
    name = f"{op.name}_" if keyword.iskeyword(op.name) else op.name
    result = "tuple[T, ...]" if op.several else "T"
    tensors = op.args[1:] if op.effect else op.args  # the stack supplies an effect's token, unless it is given
    given = [*tensors[:-1], f"*{tensors[-1]}"] if op.variadic else [*tensors]
    keywords = [*op.params, *(["after"] if op.effect else [])]
    passed = ", ".join([constant(op.name), *given, *(f"{k}={k}" for k in keywords)])
    lines = ["@checks_names"] if wants_synonym(op) else []
    lines += [*definition(name, arguments(op), result), *docstring(op.doc), *refusal(op, passed), *call(passed)]
    return "\n".join("    " + line if line else "" for line in lines) + "\n"


def composed(each: Any) -> str:
    """One typed method of a composite."""
    tensors = [*each.args[:-1], f"*{each.args[-1]}"] if each.variadic else [*each.args]
    passed = ", ".join([f'"{each.name}"', *tensors, *(f"{k}={k}" for k in each.params)])
    fixed = each.args[:-1] if each.variadic else each.args
    given = ["self"]
    given += [f"{a}: T | Scalar" + ("" if n < each.least else " | None = None") for n, a in enumerate(fixed)]
    given += ["/"] if fixed else []
    given += [f"*{each.args[-1]}: T | Scalar"] if each.variadic else ["*"] if each.params else []
    said = inspect.signature(each.define).return_annotation
    result = {"Tensor": "T"}.get(said, "tuple[T, ...]" if str(said).startswith("tuple") else "Any")
    lines = ["@checks_names"] if wants_synonym(each) else []
    lines += [*definition(each.name, [*given, *keywords(each)], result), *docstring(each.doc)]
    lines += [*refusal(each, passed, "_compose"), *call(passed, "_compose")]
    return "\n".join("    " + line if line else "" for line in lines) + "\n"


def arguments(op: Any) -> list[str]:
    """As they stand between the parentheses of ``def``."""
    fixed = op.args[op.effect : -1] if op.variadic else op.args[op.effect :]
    found = ["self", *(f"{a}: T | Scalar" for a in fixed), *(["/"] if fixed else [])]
    if op.variadic:
        found.append(f"*{op.args[-1]}: T | Scalar")
    elif op.params:
        found.append("*")
    found += keywords(op)
    return [*found, "after: T | None = None"] if op.effect else found


def keywords(op: Any) -> list[str]:
    """The parameters, with what they are and their defaults."""
    found, optional = [], nullable(op)
    for name, default in op.params.items():
        kind = TYPES.get(getattr(op.converters.get(name), "__name__", ""), "Any")
        if (default is None or name in optional) and kind != "Any":
            kind += " | None"
        found.append(f"{name}: {kind}" + ("" if default is inspect.Parameter.empty else f" = {literal(default)}"))
    return [*found, "**other: Never"] if has_synonyms(op) and not wants_synonym(op) else found


def has_synonyms(op: Any) -> bool:
    """Whether other libraries name a parameter otherwise: the operator is asked to say so."""
    return not set(SYNONYMS.values()).isdisjoint(op.params)


def wants_synonym(op: Any) -> bool:
    """Whether what other libraries name otherwise must be given: Python would only say that it is missing."""
    return any(op.params.get(name) is inspect.Parameter.empty for name in SYNONYMS.values())


def refusal(op: Any, passed: str, door: str = "_bind") -> list[str]:
    """What is done with keywords of other libraries: the operator refuses them, and names its own."""
    first = passed.partition(", ")[0]
    tensors = [each for each in passed.split(", ")[1:] if "=" not in each]
    if not has_synonyms(op) or wants_synonym(op):
        return []
    return ["    if other:", f"        return self.{door}({', '.join([first, *tensors])}, **other)"]


def nullable(op: Any) -> set[str]:
    """Parameters that are annotated ``| None`` where the operator was declared, whatever their default."""
    source = Path(sys.modules[op.module].__file__ or "").read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name.rstrip("_") == op.name:
            return {a.arg for a in node.args.kwonlyargs if a.annotation and "None" in ast.unparse(a.annotation)}
    return set()


def literal(value: Any) -> str:
    """A default as source text.

    Raises
    ------
    ValueError
        It cannot be written down.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    text = repr(value)
    if ast.literal_eval(text) != value:
        raise ValueError(f"the default {text} cannot be written as a literal")
    return f'"{value}"' if isinstance(value, str) else text


def definition(name: str, given: list[str], result: str) -> list[str]:
    """The ``def`` line, broken where it is too long."""
    line = f"def {name}({', '.join(given)}) -> {result}:"
    if len(line) + 4 <= WIDTH:
        return [line]
    inside = ", ".join(given)
    if len(inside) + 8 <= WIDTH:
        return [f"def {name}(", f"    {inside}", f") -> {result}:"]
    return [f"def {name}(", *(f"    {each}," for each in given), f") -> {result}:"]


def docstring(doc: str) -> list[str]:
    """The operator's own."""
    first, *rest = doc.replace("\\", "\\\\").splitlines()
    if not rest:
        return [f'    """{first}"""']
    return [f'    """{first}', *(f"    {line}".rstrip() for line in rest), '    """']


def call(passed: str, door: str = "_bind") -> list[str]:
    """The body: nothing but the call."""
    line = f"    return self.{door}({passed})"
    if len(line) + 4 <= WIDTH:
        return [line]
    return [
        f"    return self.{door}(",
        *textwrap.wrap(passed, WIDTH - 12, initial_indent=" " * 8, subsequent_indent=" " * 8, break_long_words=False),
        "    )",
    ]


# --- the table -------------------------------------------------------------------------------------------


def table(ops: Any, composites: Any) -> str:
    """The text of docs/operators.md."""
    lines = [
        "# Operators",
        "",
        f"All {len(ops)} operators of the default catalogue, by family. Generated by `scripts/generate.py`.",
        "",
        "A tensor argument may be a Python number: it takes the dtype that promotion gives it beside the others.",
        "*View*: the result shows memory of an argument. *ONNX*: the operator of that name, or a function of several.",
    ]
    for family, members in families(ops).items():
        lines += ["", f"## {family}", "", "| operator | what it is | dtype | derivative | laws | view | ONNX |"]
        lines.append("|" + "---|" * 7)
        lines += [row(op) for op in members]
    lines += ["", "# Composites", "", f"{len(composites)} functions of those operators: what is known of them follows."]
    for family, members in families(composites).items():
        lines += ["", f"## {family}", "", "| composite | what it is | derivative |", "|---|---|---|"]
        for each in members:
            smooth = "of its operators" if each.derivative is None else derivative(each.derivative)
            cells = [f"`{each.signature()}`", sentence(each.doc), smooth]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, ""])


def families(ops: Any) -> Mapping[str, list[Any]]:
    """Operators by the module that declares them."""
    found: dict[str, list[Any]] = {}
    for op in ops.values():
        found.setdefault(op.module.rsplit(".", 1)[-1].replace("_", " ").capitalize(), []).append(op)
    return found


def row(op: Any) -> str:
    """One line of the table."""
    laws = ", ".join(sorted(map(str, op.laws)))
    view = f"of `{op.args[op.view.argument]}`" if op.view else ""
    kinds = rule(op.dtype), derivative(op.derivative), laws, view, onnx(op.onnx)
    cells = [f"`{op.signature()}`", sentence(op.doc), *kinds]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def sentence(doc: str) -> str:
    """The first one."""
    return " ".join(doc.split("\n\n")[0].split())


def rule(function: Any) -> str:
    """What a dtype rule is called."""
    name = getattr(function, "__name__", "") or getattr(getattr(function, "func", None), "__name__", "")
    return "own" if name in ("", "<lambda>") else name.strip("_").replace("_", " ")


def derivative(found: Any) -> str:
    """Its kind, and the reason where there is none."""
    kind = type(found).__name__
    return {"Constant": "zero", "Refusal": "none"}[kind] + f": {found.why}" if hasattr(found, "why") else kind.lower()


def onnx(found: Any) -> str:
    """A name; or the first sentence about what stands for it."""
    if isinstance(found, str):
        return found
    if hasattr(found, "why"):
        return f"refused: {found.why}"
    return sentence(inspect.getdoc(found) or "function")


# --- the program -----------------------------------------------------------------------------------------


def stale(files: Mapping[Path, str]) -> Iterator[Path]:
    """Files whose text differs from what was generated."""
    for path, text in files.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            yield path


def main(given: list[str]) -> int:
    """Write the files, or check them."""
    if given not in ([], ["--check"]):
        print("usage: python scripts/generate.py [--check]", file=sys.stderr)
        return 2
    ops, composites = catalogues()
    files = {NAMESPACE: namespace(ops, composites), TABLE: table(ops, composites), NUMPY: numpy_table(ops, composites)}
    files |= {onnx_table.PAGE: onnx_table.page(), **rules_page.files()}
    files |= {**allocation_page.files(), **pictures.files()}
    for path in (changed := [*stale(files)]):
        print(f"{'stale' if given else 'wrote'} {path.relative_to(ROOT)}")
        if not given:
            path.parent.mkdir(exist_ok=True)
            path.write_text(files[path], encoding="utf-8")
    return 1 if given and changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
