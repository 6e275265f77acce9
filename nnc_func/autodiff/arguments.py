"""Arguments and results of transformations: trees of tensors on the outside, lists of carriers on the inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnc_func.autodiff.traced import Traced
from nnc_func.errors import DerivativeError
from nnc_func.facets.dtypes import kind_of
from nnc_func.graph.tensors.tensor import Tensor
from nnc_func.tree import LEAF, Structure, flatten, mapped

Argnums = int | str | tuple[int | str, ...]


def selected(
    f: Callable[..., Any], argnums: Argnums, args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Callable[..., Any], list[Any]]:
    """f as a function of the chosen arguments alone, and these."""
    chosen = argnums if isinstance(argnums, tuple) else (argnums,)
    if not all(isinstance(i, (int, np.integer, str)) for i in chosen):
        raise DerivativeError(
            f"argnums is the number or the name of an argument, or a tuple of some, given {argnums!r}"
        )
    given: dict[Any, Any] = {**dict(enumerate(args)), **keywords}
    places = [i + len(args) if not isinstance(i, str) and i < 0 else i for i in chosen]
    if not all(i in given for i in places):
        raise DerivativeError(
            f"argnums={argnums} names an argument that is not there: of those given by position there are {len(args)}, "
            f"counted from 0, and of those given by name {', '.join(keywords) or 'none'}"
        )
    if len(set(places)) < len(places):
        raise DerivativeError(f"argnums={argnums} names an argument twice")

    def of(*some: Any) -> Any:
        whole = {**given, **dict(zip(places, some, strict=True))}
        return f(*[whole[i] for i in range(len(args))], **{name: whole[name] for name in keywords})

    return of, [given[i] for i in places]


def flattened(stack: Any, f: Callable[..., Any], structure: Any, has_aux: bool) -> tuple[Callable[..., Any], list[Any]]:
    """f between lists of carriers, and where it leaves (structure of its result, auxiliary values)."""
    kept: list[Any] = []

    def flat(*carriers: Any) -> list[Any]:
        result, aux = f(*structure.build([Tensor(stack, c) for c in carriers])), ()
        if has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise DerivativeError(f"with has_aux the function returns (result, auxiliary), given {result!r}")
            result, aux = result[0], result[1:]
        outputs, shape = flatten(result)
        kept.append((shape, aux))
        return [stack.carrier(y) if isinstance(y, Tensor) else stack.asarray(y).value for y in outputs]

    return flat, kept


def settled(stack: Any, aux: Any) -> Any:
    """Auxiliary values without the trace that has returned."""

    def primal(leaf: Any) -> Any:
        value = leaf.value if isinstance(leaf, Tensor) else leaf
        while type(value) is Traced and not value.trace.live:
            value = value.primal
        return Tensor(stack, value) if isinstance(leaf, Tensor) else leaf

    return mapped(primal, aux)


def tensors(stack: Any, tree: Any) -> Any:
    """A tree with tensors for leaves; a list of numbers is one tensor."""
    if type(tree) in (list, tuple) and _numbers(tree):
        return stack.asarray(tree)
    return mapped(lambda leaf: leaf if isinstance(leaf, Tensor) else stack.asarray(leaf), tree)


def matched(stack: Any, tree: Any, wanted: Structure) -> tuple[list[Tensor], Structure]:
    """The leaves and the structure of a tree of tensors; a list of numbers is one tensor where one is wanted.

    Where the structure is not the wanted one, there are no leaves.
    """
    entries = iter(wanted.outline)  # which has the parts in the order in which `flatten` comes to them
    leaves, found = flatten(tree, is_leaf=lambda _: next(entries, None) == LEAF)
    if found != wanted:
        return [], flatten(tree)[1]
    return flatten(found.build([tensors(stack, leaf) for leaf in leaves]))


def _numbers(tree: Any) -> bool:
    waiting, seen = [tree], set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:  # a row that is there twice; or one that contains itself, which is no array
            continue
        seen.add(id(each))
        inside = [v for v in each if isinstance(v, (list, tuple))]
        if not len(each) or not all(isinstance(v, (int, float, complex, list, tuple)) for v in each):
            return False
        waiting += inside
    return True


def differentiable(leaves: Sequence[Tensor]) -> None:
    """Raise DerivativeError unless all are floating or complex."""
    for x in leaves:
        if kind_of(x.dtype) not in "fc":
            raise DerivativeError(
                f"derivatives are with respect to floating tensors, given {x.aval!r}; "
                "cast it, or leave it out of argnums"
            )


def alike(stack: Any, given: Sequence[Tensor], like: Sequence[Tensor], what: str, of: str) -> list[Any]:
    """Carriers of tangents or cotangents, in the dtypes of what they belong to."""
    found = []
    for t, x in zip(given, like, strict=True):
        if t.shape != x.shape:
            raise DerivativeError(f"{what} has its {of}'s shape {x.shape}, given {t.shape}")
        if t.dtype.kind == "c" and x.dtype.kind != "c":
            raise DerivativeError(f"{what} of a real {of} is real, given {t.dtype} for {x.dtype}")
        found.append(stack.carrier(t if t.dtype == x.dtype else t.astype(x.dtype)))
    return found


def filled(stack: Any, found: Sequence[Any], like: Sequence[Tensor]) -> list[Tensor]:
    """Tensors of carriers, zeros where one is None."""
    zeros = stack.autodiff.functions.zeros_like
    return [Tensor(stack, zeros(x.value) if c is None else c) for c, x in zip(found, like, strict=True)]
