"""Published cases of control flow as functions of a stack: MXNet's tests, NNC's, and what their systems get wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Outputs = dict[str, Any]
Case = Callable[..., tuple[Outputs, Any]]
CASES: dict[int, Case] = {}


def case(number: int) -> Callable[[Case], Case]:
    """A function of a stack, its inputs by name, and how loops are checkpointed: outputs by name, and the loss."""

    def added(f: Case) -> Case:
        CASES[number] = f
        return f

    return added


@case(1)
def _map(st: Any, d: Any, **how: Any) -> Any:
    out, states = st.foreach(lambda x, s: (x + 1, []), d, [], **how)
    assert states == []
    return {"out": out}, out.sum()


@case(3)
def _cumulative_sum(st: Any, d: Any, s: Any, **how: Any) -> Any:
    out, s = st.foreach(lambda x, s: (s + x, s + x), d, s, **how)
    return {"out": out, "s": s}, out.sum()


@case(4)
def _closure(st: Any, d: Any, s: Any, a: Any, b: Any, **how: Any) -> Any:
    f = a + b

    def body(x: Any, states: Any) -> Any:
        o = 2 * x + states[0] + f
        return o, [o]

    out, (s,) = st.foreach(body, d, [s], **how)
    return {"out": out, "s": s}, (2 * out).sum() + (s * np.array([10, 20], s.dtype)).sum()


CASES[5] = _closure


@case(7)
def _in_another_order(st: Any, x: Any, y: Any, p: Any, q: Any, f: Any, **how: Any) -> Any:
    def body(data: Any, states: Any) -> Any:
        o = 2 * data[1] + states[0] + f + 2 * states[1] + data[0]
        return [o, 2 * o], [2 * o, 3 * o]

    (o0, o1), (s0, s1) = st.foreach(body, [x, y], [p, q], **how)
    return {"o0": o0, "o1": o1, "s0": s0, "s1": s1}, o0.sum() + o1.sum() + s0.sum() + s1.sum()


@case(9)
def _unchanged(st: Any, x: Any, s: Any, f: Any, **how: Any) -> Any:
    out, (s,) = st.foreach(lambda x, s: (x * f, s), x, [s], **how)
    return {"out": out, "s": s}, out.sum() + (s * np.array([3, 5], s.dtype)).sum()


@case(11)
def _fibonacci(st: Any, x: Any, p: Any, q: Any, **how: Any) -> Any:
    out, (a, b) = st.foreach(lambda x, s: (s[1] * x, [s[1], s[0] + s[1]]), x, [p, q], **how)
    return {"out": out, "a": a, "b": b}, out.sum()


@case(13)
def _unused(st: Any, x: Any, s: Any, u: Any, **how: Any) -> Any:
    out, (a, b) = st.foreach(lambda x, s: ([], [s[0] + 1, s[0] + 2]), x, [s, u], **how)
    assert out == []
    return {"a": a, "b": b}, a + 10 * b


@case(15)
def _only_states(st: Any, x: Any, s: Any, f: Any, **how: Any) -> Any:
    _, (s,) = st.foreach(lambda x, s: ([], [x * s[0] * f]), x, [s], **how)
    return {"s": s}, s.sum()


@case(17)
def _nested(st: Any, d: Any, s: Any, **how: Any) -> Any:
    def inner(x: Any, states: Any) -> Any:
        o = 2 * x + states[0]
        return o, [o]

    def outer(x: Any, states: Any) -> Any:
        found, _ = st.foreach(inner, x, states, **how)
        o = found + states[0]
        return o, [o[0]]

    found, (s,) = st.foreach(outer, d, [s], **how)
    res = found + s
    return {"res": res, "s": s}, res.sum()


def _cell(st: Any, x: Any, h: Any, w: Any, u: Any, b: Any) -> Any:
    return st.ops.tanh(x @ w + h @ u + b)


@case(18)
def _rnn(st: Any, x: Any, h: Any, w: Any, u: Any, b: Any, **how: Any) -> Any:
    def body(x: Any, states: Any) -> Any:
        h = _cell(st, x, states[0], w, u, b)
        return h, [h]

    out, (h,) = st.foreach(body, x, [h], **how)
    return {"out": out, "h": h}, out.sum() + h.sum()


@case(19)
def _rnn_by_while(st: Any, x: Any, h: Any, w: Any, u: Any, b: Any, **how: Any) -> Any:
    def body(i: Any, h: Any) -> Any:
        h = _cell(st, x[i], h, w, u, b)
        return h, [i + 1, h]

    out, (_, h), n = st.while_loop(lambda i, h: i < 3, body, [0, h], max_iterations=5, **how)
    return {"out": out, "h": h, "n": n}, out.sum() + h.sum()


@case(20)
def _lstm(st: Any, x: Any, h: Any, c: Any, w: Any, u: Any, b: Any, **how: Any) -> Any:
    sigmoid, tanh = st.ops.sigmoid, st.ops.tanh

    def body(x: Any, states: Any) -> Any:
        h, c = states
        z = x @ w + h @ u + b
        i, f, g, o = sigmoid(z[:, 0:2]), sigmoid(z[:, 2:4]), tanh(z[:, 4:6]), sigmoid(z[:, 6:8])
        c = f * c + i * g
        h = o * tanh(c)
        return h, [h, c]

    out, (h, c) = st.foreach(body, x, [h, c], **how)
    return {"out": out, "h": h, "c": c}, out.sum() + h.sum() + c.sum()


@case(21)
def _variable_length(st: Any, x: Any, h: Any, w: Any, u: Any, b: Any, **how: Any) -> Any:
    lengths = st.asarray(np.array([[1], [3]]))

    def body(x: Any, states: Any) -> Any:
        h, t = states
        kept = lengths > t
        y = _cell(st, x, h, w, u, b)
        return st.ops.where(kept, y, 0), [st.ops.where(kept, y, h), t + 1]

    out, (h, _) = st.foreach(body, x, [h, 0], **how)
    return {"out": out, "h": h}, out.sum() + h.sum()


@case(22)
def _no_step(st: Any, x: Any, s: Any, f: Any, **how: Any) -> Any:
    out, (s,) = st.foreach(lambda x, s: (x + s[0], [s[0] * f]), x, [s], **how)
    assert out.shape == (0, 2)
    assert out.dtype == s.dtype
    return {"s": s}, out.sum() + (s * np.array([5, 7], s.dtype)).sum()


@case(23)
def _sum_to_five(st: Any, i: Any, s: Any, **how: Any) -> Any:
    out, (i, s), n = st.while_loop(
        lambda i, s: i <= 5, lambda i, s: (None, (i + 1, s + i)), (i, s), max_iterations=10, **how
    )
    assert out is None
    return {"i": i, "s": s, "n": n}, None


@case(25)
def _no_time(st: Any, i: Any, s: Any, a: Any, **how: Any) -> Any:
    out, (i, s), n = st.while_loop(
        lambda i, s: False, lambda i, s: (s * a, (i + 1, s * a)), (i, s), max_iterations=1000, **how
    )
    assert out.shape == (1000,)
    return {"i": i, "s": s, "n": n}, 2 * i + 5 * s


@case(27)
def _until_ten(st: Any, s: Any, a: Any, b: Any, **how: Any) -> Any:
    _, (s,), n = st.while_loop(lambda s: s < 10, lambda s: (None, a * s + b), [s], max_iterations=100, **how)
    return {"s": s, "n": n}, s


@case(127)
def _until_ten_unbounded(st: Any, s: Any, a: Any, b: Any, **how: Any) -> Any:
    _, (s,), n = st.while_loop(lambda s: s < 10, lambda s: (None, a * s + b), [s], **how)
    return {"s": s, "n": n}, s


@case(29)
def _cut(st: Any, s: Any, a: Any, **how: Any) -> Any:
    out, s, _ = st.while_loop(lambda s: True, lambda s: (s * s, a * s), s, max_iterations=3, **how)
    return {"out": out, "s": s}, out.sum() + s


@case(30)
def _while_in_while(st: Any, x: Any, **how: Any) -> Any:
    def outer(i: Any, acc: Any) -> Any:
        _, (_, acc), _ = st.while_loop(
            lambda j, acc: j < i, lambda j, acc: (None, (j + 1, acc + x[j])), (0, acc), max_iterations=3, **how
        )
        return None, (i + 1, acc)

    _, (_, acc), n = st.while_loop(lambda i, acc: i <= 3, outer, (1, 0.0 * x[0]), max_iterations=5, **how)
    return {"acc": acc, "n": n}, acc


@case(31)
def _second_depends_on_first(st: Any, d: Any, **how: Any) -> Any:
    _, (d1,), _ = st.while_loop(lambda i: i <= 5, lambda i: (None, (i + 1,)), (d,), max_iterations=10, **how)
    _, (d2,), _ = st.while_loop(lambda i: d1 != 0, lambda i: (None, (i + 1,)), (d1,), max_iterations=10, **how)
    return {"d1": d1, "d2": d2}, d2


@case(33)
def _grows(st: Any, x: Any) -> Any:
    _, (x,), _ = st.while_loop(
        lambda x: x.shape[0] < 5, lambda x: (None, [st.ops.concat(x, 2 * x[-1:], axis=0)]), [x], dynamic=True
    )
    return {"x": x}, x.sum()


@case(35)
def _else(st: Any, a: Any, b: Any) -> Any:
    out = st.cond(a * b < 5, lambda: (a + 5) * (b + 5), lambda: (a - 5) * (b - 5))
    return {"out": out}, out


@case(37)
def _untaken(st: Any, x: Any) -> Any:
    out = st.cond(x == 0, lambda: 0 * x, lambda: 1 / x)
    return {"out": out}, out


@case(39)
def _all_three(st: Any, d: Any, w: Any, v: Any, s: Any, **how: Any) -> Any:
    def step(x: Any, s: Any) -> Any:
        y = st.cond(x > 0, lambda: s + x * w, lambda: s * v)
        return y, y

    def body(t: Any, s: Any) -> Any:
        ys, s = st.foreach(step, d, s, **how)
        return ys.sum(), (t + 1, s)

    out, (_, s), n = st.while_loop(
        lambda t, s: st.ops.logical_and(t < 3, s < 1000), body, (0, s), max_iterations=8, **how
    )
    return {"out": out[:3], "s": s, "n": n, "rest": out[3:]}, out.sum() + s


@case(41)
def _logistic(st: Any, x: Any, k: Any, **how: Any) -> Any:
    s = st.fori(0, 20, lambda i, s: k * s * (1 - s), x, **how)
    return {"x": s}, s


MORE: Mapping[str, Any] = {"37": {"x": 0.0}}
