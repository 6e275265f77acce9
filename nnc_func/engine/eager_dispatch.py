"""Operators computed at once: what Type and Shape refuse, the device's kernel, and the dtype that Type wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nnc_func.aval import Aval
from nnc_func.declaration import Items
from nnc_func.device.shared.base import array_dispatch
from nnc_func.device.shared.host import HOST
from nnc_func.device.shared.namespace import SCALARS
from nnc_func.graph.origin import describe, origin
from nnc_func.layer import chain, changes, is_ours
from nnc_func.op import Op, convert


def eager_dispatch(shape: Any) -> Callable[..., Any]:
    """``compute(op, args, params)``: an operator on carriers, on the device below a Shape layer and as that has it.

    Type and Shape are asked once for all arguments that are alike, where the device dispatches on these (the result is
    a `Dispatch`), and at each call elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> import nnc_func as nnc
    >>> eager = nnc.eager()
    >>> eager_dispatch(eager.shape)(eager.type.ops["add"], (np.ones(2), 1), {})
    array([2., 2.])
    """
    device, standard = shape.type.device, all(map(is_ours, _asked(shape)))

    def infer(op: Op, avals: tuple[Aval, ...], items: Items) -> Any:
        shape.infer(op, avals, items)
        return shape.conversion(op, avals, items)

    def scalars(args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Numbers in the dtypes that Type gives them."""
        dtypes = [a.dtype for a in args if type(a) not in SCALARS]
        return tuple([np.asarray(a, shape.type.scalar(a, dtypes)) if type(a) in SCALARS else a for a in args])

    def compute(op: Op, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if standard:  # a device refuses what the operators' own rules refuse
            shape.check(op)
            return device.bind(op, *args, **params)
        args = scalars(args)
        conversion = infer(op, _avals(shape.type, args), op.canonical(params))
        found = device.bind(op, *args, **params)
        return convert(op, found, conversion, lambda cast, array: device.bind(cast[0], array, **dict(cast[1])))

    return (
        array_dispatch(
            device, infer, not standard, scalars=None if standard else scalars, where=lambda: describe(origin())
        )
        or compute
    )


def changes_nodes(engine: Any) -> bool:
    """Whether a layer of a user's own changes what an application becomes: it is to be a node, then, to be computed.

    Examples
    --------
    >>> import nnc_func as nnc
    >>> changes_nodes(nnc.eager().engine)
    False
    """
    recording = [each for each in chain(engine) if each.role in ("graph", "optimiser", "operator", "symbol")]
    return any(changes(each, "bind", "apply") for each in recording)


def _asked(shape: Any) -> list[Any]:
    return [each for each in chain(shape) if each.role in ("shape", "type")]


def _avals(type_layer: Any, args: tuple[Any, ...]) -> tuple[Aval, ...]:
    """Avals of arrays of the device, and of the host, which go to where the device's arrays are."""
    found = list(map(type_layer.device.aval, args))
    place = next((f.place for f, a in zip(found, args, strict=True) if not isinstance(a, HOST)), None)
    rows = zip(found, args, strict=True)
    return tuple([f.having(place=place) if isinstance(a, HOST) else f for f, a in rows])
