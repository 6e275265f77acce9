"""A policy says what a derivative keeps of a loop's body (`graph/ops/loop_policies`, `graph/ops/loop_derivative`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnc_func as nnc
from nnc_func.errors import GraphError, OperatorError
from nnc_func.graph.ops.loop_policies import POLICIES, Candidate
from nnc_func.graph.text.writing import printed

LAZY, EAGER = nnc.lazy(), nnc.eager()
both = pytest.mark.parametrize("stack", [EAGER, LAZY], ids=["eager", "lazy"])


def of_names(*names: str) -> Callable[[Candidate], bool]:
    return lambda made: made.name in names


WAYS: dict[str, Any] = {
    "carries": "carries", "products": "products", "costly": "costly", "everything": lambda made: True,
    "tanh": of_names("tanh"), "sums": of_names("sum", "matmul"), "loops": of_names("loop", "branch"),
    "large": lambda made: made.results[0].size > 1,
}  # fmt: skip
every = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def close(found: Any, wanted: Any, rtol: float = 1e-12) -> None:
    for one, other in zip(found, wanted, strict=True):
        arrays = [each.numpy() if hasattr(each, "numpy") else each for each in (one, other)]
        np.testing.assert_allclose(*arrays, rtol=rtol, atol=rtol)


# --- the same gradients ------------------------------------------------------------------------------------------

draw = np.random.default_rng(5)
XS, W, H = draw.normal(size=(6, 2)), draw.normal(size=(2, 2)), draw.normal(size=2)


def scanned(stack: Any, **how: Any) -> Callable[..., Any]:
    """A function of slices, a constant and a carry, with rows, an inner loop and a branch."""
    ops = stack.ops

    def f(xs: Any, w: Any, h: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            h, k = carry
            z = ops.tanh(h @ w + x) * ops.sin(x)
            z = stack.fori(0, 2, lambda i, y: ops.sin(y @ w), z)
            z = stack.cond(z[0] > 0, lambda: z * ops.exp(z.sum() * 0.1), lambda: ops.cos(z))
            return (z, k + 1), (z * k.astype("float64"), h.sum())

        (h, _), (rows, sums) = stack.scan(step, (h, 0), xs, **how)
        return (rows * rows).sum() + (h * h * h).sum() + (sums * sums).sum()

    return f


def bounded(stack: Any, checkpoint: Any) -> Callable[..., Any]:
    def f(x: Any, w: Any, times: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            return c * w[0], (i + 1, stack.ops.tanh(c @ w) + x)

        rows, (_, c), n = stack.while_loop(lambda i, _: i < times, body, (0, x), 9, checkpoint=checkpoint)
        return (c * c).sum() + (rows * rows).sum() * n

    return f


@both
@every
def test_of_scans(stack: Any, way: Any) -> None:
    for how in ({}, {"reverse": True}, {"length": stack.asarray(4)}):
        wanted = stack.grad(scanned(stack, **how), argnums=(0, 1, 2))(XS, W, H)
        slope = stack.grad(scanned(stack, checkpoint=way, **how), argnums=(0, 1, 2))
        close(slope(XS, W, H), wanted)
        close(stack.jit(slope)(XS, W, H), wanted)
    batch = np.stack([XS, XS[::-1]])
    rows = stack.vmap(slope, in_axes=(0, None, None))(batch, W, H)
    close([y[0] for y in rows], wanted)


@both
@every
def test_of_a_while(stack: Any, way: Any) -> None:
    for times in (0, 1, 5, 20):
        wanted = stack.grad(bounded(stack, None), argnums=(0, 1))(H, W, np.array(times))
        close(stack.grad(bounded(stack, way), argnums=(0, 1))(H, W, np.array(times)), wanted)


@both
@every
def test_of_second_order(stack: Any, way: Any) -> None:
    def slope(f: Any) -> Any:
        return lambda w: (stack.grad(f, argnums=1)(XS, w, H) * stack.ops.sin(w)).sum()

    wanted = stack.grad(slope(scanned(stack)))(W)
    close([stack.grad(slope(scanned(stack, checkpoint=way)))(W)], [wanted], 1e-9)
    tangent = stack.jvp(slope(scanned(stack, checkpoint=way)), (W,), (W,))[1]
    close([tangent], [(wanted.numpy() * W).sum()], 1e-9)


def test_of_a_symbolic_length() -> None:
    x, w, h = LAZY.input("x", ("n", 2), "float64"), LAZY.input("w", (2, 2), "float64"), LAZY.input("h", (2,), "float64")
    for way in ("products", "costly", of_names("tanh")):
        program = LAZY.compile([x, w, h], list(LAZY.grad(scanned(LAZY, checkpoint=way), argnums=(0, 1, 2))(x, w, h)))
        for times in (0, 1, 6):
            close(program(XS[:times], W, H), EAGER.grad(scanned(EAGER), argnums=(0, 1, 2))(XS[:times], W, H))


# --- what is kept ------------------------------------------------------------------------------------------------

TIMES = 7
CARRY, PRODUCT, ROW, ONE = (TIMES, 3), (TIMES, 1, 3), (TIMES, 3), (TIMES,)


def gradient(way: Any) -> Any:
    """A program of gradients, in whose body are a product, three curves of rows, a sum, and a curve of that."""
    ops = LAZY.ops
    x, w, h = (LAZY.input(n, s, "float64") for n, s in (("x", (TIMES, 3)), ("w", (3, 3)), ("h", (3,))))

    def loss(w: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            z = ops.sin(ops.tanh(h @ w) * x)
            return ops.exp(z.sum()) * z, None

        return LAZY.scan(step, h, x, checkpoint=way)[0].sum()

    return LAZY.compile([x, w, h], LAZY.grad(loss)(w))


def tape(program: Any) -> list[tuple[int, ...]]:
    """Shapes of what the first loop stacks and something reads."""
    first = next(node for node in program.graph.nodes if node.op.name == "loop")
    read = {a for node in program.graph.nodes for a in node.args}
    return sorted(v.aval.shape for v in first.results[first.params["carries"] :] if v in read)


@pytest.mark.parametrize(
    ("way", "kept"),
    [
        ("carries", []), ("products", [PRODUCT]), ("costly", [PRODUCT, ONE]), (of_names("tanh"), [ROW]),
        (of_names("sum"), [ONE]), (of_names("exp", "tanh"), [ONE, ROW]), (of_names("loop"), []),
    ],
)  # fmt: skip
def test_the_tape_holds_what_the_policy_chose(way: Any, kept: list[tuple[int, ...]]) -> None:
    """Besides what is carried into each time."""
    program = gradient(way)
    assert tape(program) == sorted([CARRY, *kept])
    given = draw.normal(size=(TIMES, 3)) * 0.3, draw.normal(size=(3, 3)) * 0.3, draw.normal(size=3)
    close([program(*given)], [gradient(None)(*given)])


def test_what_nothing_reads_is_not_kept() -> None:
    """A policy that keeps everything keeps what the derivative reads."""
    whole, chosen = tape(gradient(lambda made: True)), list[str]()

    def noting(made: Candidate) -> bool:
        chosen.append(made.name)
        return True

    assert tape(gradient(noting)) == whole
    assert len(whole) == 1 + len(chosen)
    assert not {"matmul", "multiply", "sum"} & {*chosen}  # whose derivatives read their operands


def test_what_a_policy_is_told() -> None:
    told: dict[str, Candidate] = {}

    def noting(made: Candidate) -> bool:
        told.setdefault(made.name, made)
        return False

    gradient(noting)
    made = told["matmul"]
    assert [a.shape for a in made.operands] == [(1, 3), (3, 3)]
    assert [(a.shape, a.dtype, a.nbytes) for a in made.results] == [((1, 3), np.dtype("float64"), 24)]
    assert made.params["transpose_a"] is False
    assert told["sum"].params["keepdims"] is False
    assert not {"slice", "reshape", "full"} & told.keys()  # these cost nothing to have again


@both
def test_effects_are_not_computed_again(stack: Any, capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[float] = []

    def times(v: Any) -> Any:
        calls.append(float(v))
        return np.asarray(v * len(calls))

    def f(xs: Any) -> Any:
        def body(x: Any, s: Any) -> Any:
            stack.ops.print(s)
            (t,) = stack.ops.callback(stack.ops.stop_gradient(s), function=times, shapes=((),), dtypes=("float64",))
            return None, s * t + x

        return stack.foreach(body, xs, 1.0, checkpoint=lambda made: False)[1]

    np.testing.assert_allclose(stack.grad(f)(np.array([1.0, 2.0, 3.0])).numpy(), [120, 30, 1])
    assert calls == [1.0, 2.0, 10.0]
    assert capsys.readouterr().out.split() == ["1.0", "2.0", "10.0"]


# --- programs and messages ---------------------------------------------------------------------------------------


@every
def test_in_files(way: Any, tmp_path: Path) -> None:
    """What has been optimised is asked no more: a policy is none of its parameters, and neither is its function."""
    inputs = [LAZY.input("x", (6, 2), "float64"), LAZY.input("w", (2, 2), "float64"), LAZY.input("h", (2,), "float64")]
    f = scanned(LAZY, checkpoint=way)
    wanted = EAGER.grad(scanned(EAGER), argnums=(0, 1))(XS, W, H)
    program = LAZY.compile(inputs, list(LAZY.grad(f, argnums=(0, 1))(*inputs)))
    program.plan.verify()
    program.save(tmp_path / "gradient.nnc")
    close(nnc.load_program(tmp_path / "gradient.nnc", LAZY)(XS, W, H), wanted)
    graph = LAZY.graph.close([x.value for x in inputs], [f(*inputs).value])  # which is not optimised
    if isinstance(way, str):
        assert f'checkpoint="{way}"' in printed(graph)
    else:
        with pytest.raises(GraphError, match=r"loop .*checkpoint: .* is a function of this process"):
            printed(graph)


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, made: Candidate) -> bool:
        return True


@both
def test_messages(stack: Any) -> None:
    def of(way: Any, **how: Any) -> Any:
        return stack.grad(lambda h: stack.fori(0, 3, lambda _, h: stack.ops.tanh(h * h), h, checkpoint=way, **how))(0.5)

    with pytest.raises(
        OperatorError, match=r'"budget:64MB", a policy, which is .* \'carries\', \'products\', \'costly\''
    ):
        of("everything")
    said = r"a policy of checkpoint= says True or False of \w+, given None \(the policy at test_checkpoint_policies"
    with pytest.raises(OperatorError, match=said):
        of(lambda made: None)
    for policy, takes in ((lambda: True, ""), (lambda made, more: True, "made, more")):
        said = rf"the policy of checkpoint= is called with \(made\), and takes \({takes}\); .* of <lambda> at test_"
        with pytest.raises(OperatorError, match=said):
            of(policy)
    with pytest.raises(OperatorError, match="checkpoint= wants a function that has a hash, given a Unhashable"):
        of(Unhashable())
    with pytest.raises(ZeroDivisionError):
        of(lambda made: bool(1 / 0))
    for way, said in ((lambda made: True, "a policy of checkpoint="), ("products", 'checkpoint="products"')):
        with pytest.raises(OperatorError, match=f"{said} wants to know how many times there are at most: say max_iter"):
            stack.while_loop(lambda h: h < 9, lambda h: (None, (h * 2,)), (1.0,), checkpoint=way)
    with pytest.raises(OperatorError, match=r"a loop has checkpoint=<function .* or unroll=2, not both"):
        stack.scan(lambda h, x: (h * x, None), 1.0, XS[:, 0], checkpoint=of_names("tanh"), unroll=2)
    assert set(POLICIES) == {"carries", "products", "costly"}
