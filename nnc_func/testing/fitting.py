"""Shapes of operands that an operator takes, found by asking its shape rule: there is no list of them.

What is free is proposed, and changed where the rule refuses it: extents are taken from the other operands, one or two
at a time, so that what must be equal becomes equal; or the operator's samples say how operands go together, and their
extents are replaced by others throughout.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from nnc_func.errors import NncError
from nnc_func.op import Op
from nnc_func.testing.parameters import drawn_parameters, one_of

Shape = tuple[int, ...]
Choose = Callable[[int], int]
Params = dict[str, Any]

TRIES = 12  # proposals
CHANGES = 60  # of extents, so that a proposal fits


class MisfitError(Exception):
    """No shape or parameter was found that goes with what was drawn before."""


def result_shape(op: Op, shapes: Sequence[Shape], params: Mapping[str, Any]) -> Any:
    """The shape of the result; None where the operator refuses.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> matmul = CATALOGUE["matmul"]
    >>> result_shape(matmul, [(2, 3), (3, 4)], {}), result_shape(matmul, [(2, 3), (2, 3)], {})
    ((2, 4), None)
    """
    try:
        return op.shape(*shapes, **dict(op.canonical(params)))
    except (NncError, TypeError, ValueError, IndexError, ZeroDivisionError, AttributeError):
        return None


def parameters_for(op: Op, shapes: Sequence[Shape], literal: Mapping[str, Any], choose: Choose) -> Params:
    """Parameters for operands of these shapes; those that the pattern says are as it says.

    Raises
    ------
    MisfitError
        There are none.
    """
    if op.params.keys() <= literal.keys():
        return dict(literal)
    try:
        return drawn_parameters(op, shapes, choose) | dict(literal)
    except (IndexError, ValueError, TypeError, ZeroDivisionError) as error:
        raise MisfitError from error


def fitted(
    op: Op,
    given: Sequence[Shape | None],
    literal: Mapping[str, Any],
    propose: Callable[[], Shape],
    extent: Callable[[], int],
    choose: Choose,
) -> tuple[list[Shape], Params]:
    """Shapes of all operands, some of which are given, and parameters.

    Parameters
    ----------
    given
        Shapes, or None of operands that are free.
    literal
        Parameters that stay.
    propose, extent
        A shape, and an extent, such as are drawn.

    Raises
    ------
    MisfitError
        None was found.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> shapes, _ = fitted(CATALOGUE["matmul"], [(2, 3), None], {}, lambda: (7, 5), lambda: 4, lambda count: 0)
    >>> shapes
    [(2, 3), (3, 5)]
    """
    for attempt in range(TRIES):
        if attempt % 2 == 0 or not op.samples.cases:
            shapes = [_proposed(propose, extent, choose, attempt) if s is None else s for s in given]
            params = parameters_for(op, shapes, literal, choose)
        else:
            made = _renamed(op, given, literal, extent, choose)
            if made is None:
                continue
            shapes, params = made
        if result_shape(op, shapes, params) is not None:
            return shapes, params
        free = [i for i, s in enumerate(given) if s is None]
        found = next((s for s in _changed(shapes, free, choose) if result_shape(op, s, params) is not None), None)
        if found is not None:
            return found, params
    raise MisfitError


def _proposed(propose: Callable[[], Shape], extent: Callable[[], int], choose: Choose, attempt: int) -> Shape:
    """A shape as it is drawn; where it was refused before, of any rank."""
    return propose() if attempt < 2 else tuple([extent() for _ in range(choose(5))])


def _changed(shapes: list[Shape], free: list[int], choose: Choose) -> Iterator[list[Shape]]:
    """Free shapes with extents of the others, one at a time, then two."""
    places = [(i, axis) for i in free for axis in range(len(shapes[i]))]
    extents = list(dict.fromkeys([n for s in shapes for n in s] + [1]))
    single = [(place, n) for place in places for n in extents if shapes[place[0]][place[1]] != n]
    if single:
        turn = choose(len(single))
        single = single[turn:] + single[:turn]
    pairs = ((a, b) for a, b in itertools.combinations(single, 2) if a[0] != b[0])
    for changes in itertools.islice(itertools.chain(((s,) for s in single), pairs), CHANGES):
        found = list(map(list, shapes))
        for (i, axis), n in changes:
            found[i][axis] = n
        yield [tuple(s) for s in found]


def _renamed(
    op: Op, given: Sequence[Shape | None], literal: Mapping[str, Any], extent: Callable[[], int], choose: Choose
) -> tuple[list[Shape], Params] | None:
    """One of the operator's samples, its extents replaced throughout: by those that are given, then by drawn ones."""
    specs, own_params = one_of(op.samples.cases, choose)
    shapes: list[Shape] = [s[0] if s and isinstance(s[0], tuple) else s for s in specs]
    if len(shapes) != len(given):
        return None
    names: dict[int, int] = {}
    for known, case in zip(given, shapes, strict=True):
        if known is not None:
            if len(known) != len(case):
                return None
            for n, name in zip(known, case, strict=True):
                names.setdefault(name, n)
    for name in sorted({n for s in shapes for n in s}):
        if choose(2):
            names.setdefault(name, extent())
    named: list[Shape] = [tuple([names.get(n, n) for n in case]) for case in shapes]
    made: list[Shape] = [own if known is None else known for known, own in zip(given, named, strict=True)]
    params = parameters_for(op, made, {}, choose) | dict(own_params)
    params = {n: _with_names(v, names) if "shape" in n else v for n, v in params.items()}
    return made, params | dict(literal)


def _with_names(value: Any, names: Mapping[int, int]) -> Any:
    return tuple(names.get(n, n) for n in value) if isinstance(value, tuple) else value


def sources(op: Op, wanted: Shape, literal: Mapping[str, Any], choose: Choose) -> tuple[Shape, Params] | None:
    """A shape of one operand, and parameters, of which an operator makes the wanted shape; None where none was found.

    Examples
    --------
    >>> from nnc_func.graph.ops import CATALOGUE
    >>> turn = itertools.count()  # each choice the next one
    >>> sources(CATALOGUE["permute_dims"], (2, 3), {"axes": (1, 0)}, lambda count: next(turn) % count)
    ((3, 2), {'axes': (1, 0)})
    """
    options = _variations(wanted)
    for _ in range(TRIES):
        shape = one_of(options, choose)
        try:
            params = parameters_for(op, (shape,), literal, choose)
        except MisfitError:
            continue
        for changed in (params, *_aimed(op, params, literal, wanted)):
            if result_shape(op, (shape,), changed) == wanted:
                return shape, changed
    return None


def _aimed(op: Op, params: Params, literal: Mapping[str, Any], wanted: Shape) -> Iterator[Params]:
    """Parameters that say what the result is to be."""
    if "shape" in op.params and "shape" not in literal:
        yield params | {"shape": wanted}
    if "axes" in op.params and "axes" not in literal and len(wanted) < 5:
        yield from (params | {"axes": axes} for axes in itertools.permutations(range(len(wanted))))
    if "starts" in op.params and not literal.keys() & {"starts", "stops", "steps"}:
        ones = (1,) * len(wanted)
        yield params | {"starts": ones, "stops": tuple(n + 1 for n in wanted), "steps": ones}


def _variations(shape: Shape) -> list[Shape]:
    """Shapes from which an operator that moves, widens or reduces elements may make this one."""
    rank = len(shape)
    found = [shape, shape[::-1], tuple(n for n in shape if n != 1), (1, *shape), (*shape, 1), (2, *shape), (*shape, 2)]
    found += [(*shape[:i], 1, *shape[i + 1 :]) for i in range(rank)]
    found += [(1,) * rank, shape[1:], tuple(n + 2 for n in shape)]
    if rank > 1:
        found += [(*shape[:-2], shape[-1], shape[-2]), shape[:-1], (*shape[1:], shape[0]), shape[2:]]
        found += [(*shape[:1], 2, *shape[1:]), (math.prod(shape),)]
    return list(dict.fromkeys(found))
