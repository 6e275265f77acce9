"""What the method of an operator or a composite is, as text: its signature with types, and a body that only calls.

One text serves both: Python compiles it when the method is first asked for, and `scripts/generate.py` writes the
signatures into the stub that type checkers and editors read.
"""

from __future__ import annotations

import ast
import keyword
import math
from types import FunctionType
from typing import Any

from nnc_func.declaration import REQUIRED, SYNONYMS, Declaration, checks_names
from nnc_func.graph.composite import Composite
from nnc_func.op import Op

FILE = "<nnc_func methods>"  # where tracebacks say that a method lies: in no user's file
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
}  # by the converter of a parameter


def method_name(of: Declaration) -> str:
    """The method's name: that of the operator, with an underscore behind it where it is a word of Python's.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> method_name(CATALOGUE["tanh"])
    'tanh'
    """
    return f"{of.name}_" if keyword.iskeyword(of.name) else of.name


def parameters(of: Op | Composite) -> list[str]:
    """The method's parameters, as they stand between the parentheses of ``def``.

    Raises
    ------
    ValueError
        A default cannot be written as a literal.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> print(", ".join(parameters(CATALOGUE["cumulative_sum"])))
    self, x: T | Scalar, /, *, axis: int
    """
    tensors = _tensors(of)
    fixed = tensors[:-1] if of.variadic else tensors
    least = of.least if isinstance(of, Composite) else len(fixed)
    found = ["self", *(f"{a}: T | Scalar" + (" | None = None" if n >= least else "") for n, a in enumerate(fixed))]
    found += ["/"] if fixed else []
    found += [f"*{tensors[-1]}: T | Scalar"] if of.variadic else ["*"] if of.params else []
    found += [_parameter(of, name, default) for name, default in of.params.items()]
    found += ["**other: Never"] if _takes_synonyms(of) else []
    return [*found, "after: T | None = None"] if _is_effect(of) else found


def result(of: Op | Composite) -> str:
    """The type of what the method returns.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> result(CATALOGUE["split"])
    'tuple[T, ...]'
    """
    if isinstance(of, Op):
        return "tuple[T, ...]" if of.multi_result else "T"
    said = str(of.define.__annotations__.get("return"))
    return "T" if said == "Tensor" else "tuple[T, ...]" if said.startswith("tuple") else "Any"


def method(of: Op | Composite, owner: type, names: dict[str, Any]) -> Any:
    """The method itself, of a class with the methods ``bind(op, …)`` and ``_compose(composite, …)``.

    Parameters
    ----------
    names
        The globals of the method: those of the module in which its annotations are to be read.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> class Arguments:
    ...     def bind(self, op, *args, **params):
    ...         return op, args, params
    >>> method(CATALOGUE["sum"], Arguments, {})(Arguments(), 1.0, axis=0)
    (sum, (1.0,), {'axis': 0, 'keepdims': False})
    """
    scope: dict[str, Any] = {}
    exec(compile(_source(of), FILE, "exec"), names, scope)
    made: FunctionType = scope["bound"](of)
    made.__module__, made.__qualname__, made.__doc__ = owner.__module__, f"{owner.__qualname__}.{made.__name__}", of.doc
    return checks_names(made) if _needs_synonym(of) else made


def _source(of: Op | Composite) -> str:
    name, tensors = method_name(of), _tensors(of)
    given = ["_declared", *tensors[:-1], f"*{tensors[-1]}"] if of.variadic else ["_declared", *tensors]
    keywords = [f"{each}={each}" for each in (*of.params, *(["after"] if _is_effect(of) else []))]
    door = "bind" if isinstance(of, Op) else "_compose"
    refusal = f"if other: return self.{door}({', '.join([*given, '**other'])})" if _takes_synonyms(of) else ""
    return f"""
from __future__ import annotations
def bound(_declared):
    def {name}({", ".join(parameters(of))}) -> {result(of)}:
        {refusal}
        return self.{door}({", ".join([*given, *keywords])})
    return {name}
"""


def _is_effect(of: Op | Composite) -> bool:
    return isinstance(of, Op) and of.effect


def _tensors(of: Op | Composite) -> tuple[str, ...]:
    return of.args[1:] if _is_effect(of) else of.args  # the stack supplies an effect's token, unless it is given


def _parameter(of: Declaration, name: str, default: Any) -> str:
    """A parameter, with what it is and its default."""
    kind = TYPES.get(getattr(of.converters.get(name), "__name__", ""), "Any")
    kind += " | None" if name in of.optional and kind != "Any" else ""
    return f"{name}: {kind}" + ("" if default is REQUIRED else f" = {_literal(default)}")


def _literal(value: Any) -> str:
    """A default as source text."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    text = repr(value)
    if ast.literal_eval(text) != value:
        raise ValueError(f"the default {text} cannot be written as a literal")
    return f'"{value}"' if isinstance(value, str) else text


def _takes_synonyms(of: Declaration) -> bool:
    """Whether keywords of other libraries reach the operator, which refuses them and names its own."""
    return not set(SYNONYMS.values()).isdisjoint(of.params) and not _needs_synonym(of)


def _needs_synonym(of: Declaration) -> bool:
    """Whether what other libraries name otherwise must be given: Python would only say that it is missing."""
    return any(of.params.get(name) is REQUIRED for name in SYNONYMS.values())
