"""What was promised, computed one operator after another, as if each had been when it was applied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnc_func.engine.dynamic.records import Recorded, as_it_was
from nnc_func.engine.dynamic.replay.needs import ancestors, needs
from nnc_func.engine.dynamic.replay.places import Gradients, Place
from nnc_func.engine.dynamic.replay.written import Flow, Written, flow, written
from nnc_func.errors import NncError
from nnc_func.graph.origin import attributed
from nnc_func.graph.tensors.promise import without_frames
from nnc_func.graph.tensors.tensor import Tensor


def in_order(
    replay: Any, path: Sequence[Place], inputs: Sequence[Any], held: bytes, above: bytes, write: bool = False
) -> tuple[dict[int, Any], Written | None]:
    """Values of the results that are held, and a program that computes them, if that is asked for and there is one.

    What fails has its exception as value, and so has what depends on it.

    Parameters
    ----------
    replay
        See `nnc_func.engine.dynamic.replay.replay.Replay`.
    path, inputs, held, above
        See `needs`.
    """
    computed = ancestors(path, needs(path, held, above, {}).outputs)
    values: dict[int, Any] = {}
    flows: dict[Place, Flow] | None = {} if write else None

    def given(n: Any) -> Any:
        return n[1] if type(n) is not int else Tensor(replay.stack, values[n] if n >= 0 else inputs[-1 - n])

    for place in path:
        if place not in computed:
            continue
        failed = next((values[n] for n in place.operands if type(n) is int and _failed(values.get(n))), None)
        results: list[Any] = [failed] * len(place.avals)
        if failed is None:
            args = list(map(given, place.operands))
            try:
                with attributed(place.where), as_it_was(replay.recording, place.records):
                    made = replay.at_once(place.op, args, place.params)
                    if flows is not None and type(place.op) is Gradients:
                        its = replay.flow(place.op, args)
                        found = flow(its, values, inputs)
                        flows = None if found is None else {**flows, place: found}
                results = [each.value for each in made] if place.op.multi_result else [made.value]
            except Exception as error:  # whoever looks at the result is told
                results = [without_frames(error)] * len(place.avals)
        flows = None if _failed(results[0]) else flows
        values.update(zip(range(place.first, place.first + len(place.avals)), results, strict=True))
    kept = {n: values[n] for n, each in enumerate(held) if each}
    if flows is None:
        return kept, None
    wanted = needs(path, held, above, {place: each.reads for place, each in flows.items()})
    avals = [replay.recording.aval(each.array if type(each) is Recorded else each) for each in inputs]
    try:
        return kept, written(replay.stack, path, avals, wanted, flows)
    except NncError:  # it stays with this
        return kept, None


def _failed(value: Any) -> bool:
    return isinstance(value, Exception)
