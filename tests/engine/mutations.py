"""Program files changed at random, most of them in a plan's numbers: what `mutated_programs` loads and runs.

Each change is drawn from the number of the mutation alone, so that one is made again by its number.
"""

from __future__ import annotations

import copy
import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import nnc_func as nnc
from tests.members import content, rewritten

ABOUT, GRAPH = "about.json", "graph.txt"
Members = dict[str, bytes]


# --- programs -----------------------------------------------------------------------------------------------


def _network(lazy: Any) -> Any:
    ops, draw = lazy.ops, np.random.default_rng(0)
    x, rate = lazy.input("x", (4, 8), "float32"), lazy.input("rate", (), "float32")
    w = lazy.variable("w", draw.normal(size=(8, 6)).astype("float32"))
    seen = lazy.variable("seen", np.float32(0))
    y = ops.tanh(x @ w) @ lazy.asarray(draw.normal(size=(6, 20)).astype("float32"))
    left, right = ops.split(y, sections=2, axis=1)
    both = ops.concat(right, left * 2, axis=1)
    return lazy.compile([x, rate], {"y": both, "s": [ops.softmax(y), None]}, [(w, w - rate * w), (seen, seen + 1)])


def _images(lazy: Any) -> Any:
    ops, draw = lazy.ops, np.random.default_rng(1)
    x = lazy.input("x", (2, 9, 8, 3), "float32")
    first = lazy.variable("first", draw.normal(size=(3, 2, 3, 4)).astype("float32"))
    y = ops.relu(ops.conv2d(x, first, stride=(2, 1), padding=((1, 1), (0, 2)), dilation=(1, 2)))
    deep = lazy.asarray(draw.normal(size=(2, 2, 2, 4)).astype("float32"))
    y = ops.conv2d(y, deep, padding="SAME", groups=2)
    return lazy.compile(
        [x], [ops.max_pool2d(y, window=(2, 2), stride=2), ops.average_pool2d(y, window=3, padding="SAME")]
    )


def _parts(lazy: Any) -> Any:
    o = lazy.ops
    a, b = lazy.input("a", (4, 4), "float64"), lazy.input("b", (4, 4), "float64")
    y = o.concat(o.tanh(a), o.sin(b), axis=1)[:, ::2]
    y = y + o.pad(o.stack(o.sin(a[0]), o.cos(b[1])), widths=((1, 1), (0, 0)), value=1)
    y = y * o.assemble(o.sin(a[::2]), o.cos(b[::2]), shape=(4, 4), offsets=((0, 0), (3, 0)), strides=((2, 1), (-2, 1)))
    return lazy.compile([a, b], [o.permute_dims(y) @ y, o.flip(o.cumulative_sum(y, axis=0), axis=1)])


def _indices(lazy: Any) -> Any:
    o = lazy.ops
    x, at = lazy.input("x", (6, 5), "float32"), lazy.input("at", (3,), "int64")
    rows = o.take(x, at, axis=0)
    ordered = o.sort(o.where(o.greater(x, 0.2), x, -x), axis=1)
    found = o.scatter_add(o.full(shape=(6, 5), value=0, dtype="float32"), at, rows, axis=0)
    return lazy.compile([x, at], [rows, ordered, found, o.argmax(x, axis=1), o.any(o.greater(x, 2), axis=0)])


def _donated(lazy: Any) -> Any:
    x, y = lazy.input("x", (40,), "float32"), lazy.input("y", (40,), "float32")
    z = lazy.ops.cumulative_sum(lazy.ops.sort(x) * y, axis=0)
    return lazy.compile([x, y], [lazy.ops.sort(z * 2 + 1), lazy.ops.sum(z)], donate=[x])


def _streams(lazy: Any) -> Any:
    wide = lazy.swap(engine=lazy.engine.with_streams(2))
    y = wide.input("y", (1 << 16,), "float64")
    a, b = wide.ops.cumulative_sum(y, axis=0), wide.ops.cumulative_sum(y * 2, axis=0)
    return wide.compile([y], [a, b, a * b])


def _unknown(lazy: Any) -> Any:
    x = lazy.input("x", (None, 3), "float32")
    w = lazy.variable("w", np.ones((3, 2), "float32"))
    program = lazy.compile([x], lazy.ops.tanh(x @ w), {w: w * 0.5})
    for n in (2, 5):
        program(np.full((n, 3), 0.3, "float32"))
    return program


def _plain(lazy: Any) -> Any:
    """Without rewriting: many small instructions."""
    plain = lazy.swap(optimiser=lazy.optimiser.without_rules(*(r.name for r in lazy.optimiser.rules)))
    o, x = plain.ops, plain.input("x", (3, 4), "float32")
    w = plain.variable("w", np.ones((4, 4), "float32"))
    y = x
    for f in (o.exp, o.sin, o.tanh, o.negative, o.floor):
        y = f(y @ w) + x
    return plain.compile([x], [y, o.reshape(y, shape=(2, 6)), o.broadcast_to(y[0], shape=(2, 4))], {w: w + o.sum(y)})


def _rows(lazy: Any) -> Any:
    """Loops over rows, from either end, whose carries rotate through several buffers, and their gradients."""
    o = lazy.ops
    x, h, w = lazy.input("x", (5, 4), "float32"), lazy.input("h", (4,), "float32"), lazy.input("w", (4, 4), "float32")

    def loss(x: Any, h: Any, w: Any) -> Any:
        (a, _, _), ys = lazy.scan(
            lambda c, x: ((c[1], c[2], o.tanh(x + c[0] @ w)), o.sort(c[1])), (h, h * 2, h), x, checkpoint=2
        )
        return (ys * lazy.foreach(lambda x, h: (x * h, o.sin(h)), x, h, reverse=True)[0]).sum() + a.sum()

    value, slopes = lazy.value_and_grad(loss, argnums=(0, 1, 2))(x, h, w)
    return lazy.compile([x, h, w], [value, *slopes])


def _over_rows(lazy: Any) -> Any:
    """Loops that stack rows over those that they have read, from either end."""
    o, x = lazy.ops, lazy.input("x", (6, 40), "float32")
    y = lazy.foreach(lambda x, c: (o.tile(o.sort(x), repetitions=2) + c, c + x[0]), o.sort(x, axis=1), x[0, 0])[0]
    z = lazy.foreach(lambda y, c: (o.tile(o.sort(y), repetitions=2) * c, c + y[0]), y, x[0, 1], reverse=True)[0]
    return lazy.compile([x], o.sort(z, axis=1).sum())


def _lent(lazy: Any) -> Any:
    """A result that houses several values at a time before it is written."""
    o, x = lazy.ops, lazy.input("x", (128, 128), "float32")
    powers = [o.sort(x, axis=0)]
    for axis in (1, 0, 1):
        powers.append(o.sort(powers[-1] * 2, axis=axis))
    y = o.sort(powers[0] + powers[3], axis=1) * o.sort(powers[1] + powers[2], axis=0)
    return lazy.compile([x], o.concat(y, o.sort(y, axis=0), o.sort(y, axis=1), axis=0))


def _decided(lazy: Any) -> Any:
    """Loops and branches whose number of times, and choice, only the run knows, in each other."""
    o = lazy.ops
    x, n = lazy.input("x", (4, 3), "float64"), lazy.input("n", (), "int64")
    w = lazy.variable("w", np.full((3, 3), 0.25))

    def body(i: Any, x: Any) -> Any:
        x = lazy.case_of(n - i, [lambda x: o.tanh(x @ w), lambda x: o.sort(x, axis=1)], x, default=nnc.bypass)
        x[i] = o.cos(x[i]) + x[i - 1]
        return x

    y = lazy.fori(0, n + 1, body, x)
    rows, z, times = lazy.while_loop(
        lambda z: o.sum(z) < 9, lambda z: (z[0], lazy.fori(0, 2, lambda i, z: z + 1.5, z)), y, 5
    )
    return lazy.compile([x, n], [y, rows, z, times], {w: w * 0.5 + o.mean(z)})


PROGRAMS: tuple[Callable[[Any], Any], ...] = (
    _network, _images, _parts, _indices, _donated, _streams, _unknown, _plain, _rows, _over_rows, _lent,
    _decided,
)  # fmt: skip


def inputs_of(program: Any) -> list[Any]:
    """The same inputs for each program with these avals."""
    draw = np.random.default_rng(7)
    found = []
    for slot in program.plan.inputs:
        aval = program.plan.slots[slot].aval
        array = draw.normal(size=aval.shape) if aval.dtype.kind in "fc" else draw.integers(0, 3, aval.shape)
        found.append(np.asarray(array, aval.dtype))
    return found


def saved(folder: Path) -> list[Members]:
    """What the files of the programs have in them."""
    lazy, found = nnc.lazy(), []
    for number, make in enumerate(PROGRAMS):
        path = folder / f"{number}.nnc"
        make(lazy).save(path)
        found.append(content(path))
    return found


# --- changes ------------------------------------------------------------------------------------------------

LARGE = [2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**56 + 1, 2**61, 2**62 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64]
BOUNDS = [0, 1, 2, 3, 7, 8, 63, 64, 65, 128, 255, 256, 4096, -1, -2, -64, *LARGE, *[-n for n in LARGE], 10**30]
OTHERS = [None, True, False, 0.5, -0.0, 1e300, "", "0", "view", [], {}, [0], "float32[2]"]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Where something may be exchanged: containers and keys."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        for key, inner in list(found.items() if isinstance(found, dict) else enumerate(found)):
            if isinstance(inner, (dict, list)):
                waiting.append(inner)
            yield found, key


def numbers(value: Any) -> list[tuple[Any, Any]]:
    """Where integers are."""
    return [(holder, key) for holder, key in places(value) if type(holder[key]) is int]


def _bounded(draw: random.Random, was: int) -> int:
    """A boundary value, or one near what was there."""
    near = [was - 1, was + 1, was * 2, was // 2, -was, was + 64, was - 64, was + 4, was + 8, was + 2**32, was + 2**64]
    return draw.choice(draw.choice([BOUNDS, near]))


def _column(draw: random.Random, plan: Any) -> None:
    """One number of one column of the plan, each column as often as any other."""
    rows, slots, steps = plan["buffers"], plan["slots"], plan["instructions"]
    columns = [rows[k] for k in ("nbytes", "lower", "upper", "offset", "source")]
    columns += [slots["buffer"], slots["aval"], slots["view"], slots["offset"], slots["strides"]]
    columns += [steps["call"], steps["slots"], steps["stream"], steps["waits"]]
    columns += [plan[k] for k in ("inputs", "variables", "constants", "outputs", "updates", "elsewhere")]
    held = [(holder, key) for column in [draw.choice([c for c in columns if c])] for holder, key in numbers(column)]
    head = [(plan, k) for k in ("arena_bytes", "alignment", "commit")]
    holder, key = draw.choice(held if held and draw.random() < 0.9 else head)
    others = [n for n in holder if type(n) is int] if isinstance(holder, list) else []
    holder[key] = draw.choice(others) if others and draw.random() < 0.4 else _bounded(draw, holder[key])


def _place(draw: random.Random, plan: Any) -> None:
    """Another place for a slot: offset, strides, or both; its buffer grows with it now and then."""
    at = draw.randrange(len(plan["slots"]["buffer"]))
    text = plan["avals"][plan["slots"]["aval"][at]]
    rank = 0 if "[]" in text else text.count(",") + 1
    steps = [0, 1, 2, 4, 8, 12, 16, 32, -4, -8, 64, 96, 768, *LARGE, *[-n for n in LARGE]]
    if draw.random() < 0.8:
        plan["slots"]["strides"].append([at, [draw.choice(steps) for _ in range(rank)]])
    if draw.random() < 0.4:
        plan["slots"]["offset"].append([at, draw.choice([4, 8, 60, 64, *LARGE])])
    if draw.random() < 0.3:
        plan["buffers"]["nbytes"][plan["slots"]["buffer"][at]] = draw.choice([64, 4096, 2**40, *LARGE])


def _aval(draw: random.Random, plan: Any) -> None:
    """Another shape or dtype, for all slots that have it; now and then buffers that would have room for it."""
    at = draw.randrange(len(plan["avals"]))
    shape = ", ".join(
        str(draw.choice([0, 1, 2, 3, 4, 7, 64, 2**20, 2**31, 2**56 + 1])) for _ in range(draw.randrange(5))
    )
    dtype = draw.choice(
        ["uint8", "float32", "float64", "bool", "int64", "complex128", "float16", ">f4", "object", "V8"]
    )
    plan["avals"][at] = f"{dtype}[{shape}]" if draw.random() < 0.7 else f"{dtype}[" + plan["avals"][at].split("[")[1]
    if draw.random() < 0.4:
        for n, kind in enumerate(plan["slots"]["aval"]):
            if kind == at:
                plan["buffers"]["nbytes"][plan["slots"]["buffer"][n]] = draw.choice([64, 4096, 2**30, 2**62])


def _more(draw: random.Random, plan: Any) -> None:
    """A slot, a buffer or an instruction more."""
    kind = draw.randrange(3)
    if kind == 0:
        plan["slots"]["buffer"].append(draw.randrange(len(plan["buffers"]["kind"])))
        plan["slots"]["aval"].append(draw.randrange(len(plan["avals"])))
        if draw.random() < 0.7:
            plan["slots"]["strides"].append([len(plan["slots"]["buffer"]) - 1, [draw.choice(LARGE), 1]])
    elif kind == 1:
        for column in plan["buffers"].values():
            if len(column) and not isinstance(column[0], list):
                column.append(draw.choice(column))
    else:
        steps, at = plan["instructions"], draw.randrange(len(plan["instructions"]["call"]))
        steps["call"].append(steps["call"][at])
        steps["origin"].append(steps["origin"][at])
        call = plan["calls"][steps["call"][at]]
        steps["slots"] += [draw.randrange(len(plan["slots"]["buffer"])) for _ in range(min(sum(call[4:7]), 8))]


def _call(draw: random.Random, plan: Any) -> None:
    """Another operator, kernel or parameter."""
    call = draw.choice(plan["calls"])
    kind, catalogue = draw.randrange(4), nnc.lazy().type.ops
    if kind == 0:
        call[0] = draw.choice(sorted(catalogue))
        call[1] = draw.choice(catalogue[call[0]].kernels).name
    elif kind == 1 and call[0] in catalogue:
        call[1] = draw.choice(catalogue[call[0]].kernels).name
    elif isinstance(call[7], dict) and call[7]:
        where = list(places(call[7]))
        holder, key = draw.choice(where)
        holder[key] = _bounded(draw, holder[key]) if type(holder[key]) is int else draw.choice([*OTHERS, *BOUNDS])
    else:
        call[draw.randrange(2, 7)] = draw.choice([True, 0, 1, 2, 3, -1, 2**31, "default"])


def _anything(draw: random.Random, plan: Any) -> None:
    """Any value for any other."""
    holder, key = draw.choice(list(places(plan)))
    if draw.random() < 0.2 and isinstance(holder, dict):
        del holder[key]
    else:
        holder[key] = copy.deepcopy(draw.choice([*OTHERS, *BOUNDS]))


def _loop(draw: random.Random, plan: Any) -> None:
    """One number of a loop or of a branch's body: where something lies each time, how often it goes, what it keeps."""
    _, loop = draw.choice(plan["loops"])
    own = {name: value for name, value in loop.items() if name != "plan"}
    holder, key = draw.choice(numbers(own))
    near = [holder[key] + 1, holder[key] - 1, 0, 1, 2, 3, draw.randrange(12)]
    holder[key] = draw.choice(near) if draw.random() < 0.7 else _bounded(draw, holder[key])
    loop.update(own)


AIMED = (_column, _column, _column, _column, _place, _place, _aval, _more, _call, _call, _anything)


def _somewhere(draw: random.Random, plan: Any) -> None:
    """One of them, of the plan or of that of a body in it."""
    while plan.get("loops") and draw.random() < 0.6:
        plan = draw.choice(plan["loops"])[1]["plan"]
    change = _loop if plan.get("loops") and draw.random() < 0.5 else draw.choice(AIMED)
    change(draw, plan)


def mutated(files: list[Members], number: int) -> tuple[int, bytes]:
    """The mutation of that number: which program it is of, and the bytes of the file."""
    draw = random.Random(number)
    which = draw.randrange(len(files))
    members = dict(files[which])
    kind = draw.random()
    if kind < 0.8:
        name = draw.choice([n for n in members if n.startswith("plans/")])
        plan = json.loads(members[name])
        for _ in range(draw.choice([1, 1, 1, 2, 3])):
            _tried(_somewhere, draw, plan)
        members[name] = json.dumps(plan).encode()
    elif kind < 0.85:
        about = json.loads(members[ABOUT])
        _tried(_anything, draw, about)
        members[ABOUT] = json.dumps(about).encode()
    else:
        name = draw.choice(sorted(members))
        members[name] = _bytes(draw, members[name])
    whole = zipped(members)
    return which, _bytes(draw, whole) if draw.random() < 0.05 else whole


def _tried(change: Callable[[random.Random, Any], None], draw: random.Random, data: Any) -> None:
    """A change; one that meets what another has changed before it is left out."""
    try:
        change(draw, data)
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError):
        data.setdefault("changed", 0)


def _bytes(draw: random.Random, content: bytes) -> bytes:
    """Some bytes exchanged, put in, or left out."""
    found = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 8])):
        if not found:
            break
        at, kind = draw.randrange(len(found)), draw.randrange(4)
        if kind == 0:
            del found[at : at + draw.choice([1, 4, 100])]
        elif kind == 1:
            found[at:at] = bytes(draw.randrange(256) for _ in range(draw.choice([1, 4])))
        else:
            found[at] ^= 1 << draw.randrange(8)
    return bytes(found)


def zipped(members: Members) -> bytes:
    """A file of these members."""
    return rewritten(io.BytesIO(), members).getvalue()  # type: ignore[no-any-return]
