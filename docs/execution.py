# # From a graph to a run
#
# This file runs (`python docs/execution.py`) and is meant to be read after `docs/tour.py`. That one builds the stack;
# this one looks at its middle: where values lie, what writes where, what runs when, and what can be seen of it.

import tempfile
from pathlib import Path

import numpy as np

import nnc_func as nnc

lazy = nnc.lazy()
ops = lazy.ops
rng = np.random.default_rng(0)

# ## Layout and place
#
# What is known of a tensor without its elements, its *aval*, has four parts: shape, dtype, layout, place. Shape and
# axes are logical; a layout is the order in memory and nothing else. A conversion is an operator that one can see.

images = lazy.input("images", (2, 8, 8, 4), "float32")
turned = ops.relayout(images, layout="NCHW")
print(turned.aval)
program = lazy.compile([images], ops.exp(turned))
batch = rng.standard_normal((2, 8, 8, 4)).astype("float32")
np.testing.assert_allclose(program(batch), np.exp(batch), rtol=1e-6)  # the same elements, in another order in memory

# A place is one of several devices that act as one. Operands in different places are refused, with the user's line;
# `transfer` moves them, and a program may span places: there is one arena in each.

two = nnc.lazy(nnc.Places(one=nnc.NumPy(), other=nnc.NumPy()))
here, there = two.input("here", (3,)), two.input("there", (3,), place="other")
try:
    here + there
except nnc.errors.NncError as error:
    print(error)
moved = two.ops.transfer(here, place="other")
print(two.compile([here, there], moved * there + moved).plan)

# ## Parts
#
# Writing into parts of a tensor is one operator, `assemble`, whose copies the engine leaves out: a part is computed
# where it lies. Concatenation, stacking, padding and the gradients of slices are the same thing. Overlap is refused
# when the graph is built, and decided exactly, steps included.

x = lazy.input("x", (2, 3))
joined = ops.concat(ops.exp(x), ops.tanh(x), axis=1)
print(lazy.compile([x], joined).plan)  # two kernels, no copy: see the strides

target = lazy.fresh((4, 3))  # NNC's aliases: each element is written once, what nobody writes is zero
target.write(ops.exp(x), offsets=(0, 0), strides=(2, 1))
try:
    target.write(ops.sin(x), offsets=(1, 0))
except nnc.errors.ShapeError as error:
    print(error)
print(lazy.compile([x], target.value)(np.zeros((2, 3), "float32")))

# An input that the caller gives up may be written over.

long = lazy.input("long", (1 << 20,))
chain = ops.exp(ops.sin(long) * 2) + 1
for donated in ((), (long,)):
    print(lazy.compile([long], (chain - ops.mean(chain)).sum(), donate=donated).plan)

# ## Shapes that are known late
#
# An extent may be a symbol, or an expression of some. A graph is optimised once; each binding is planned once, and all
# of them run in one arena. What is learned later makes a new graph.

n = lazy.input("n", ("n", 4))
pairs = lazy.input("pairs", ("2*n", 4))
both = lazy.compile([n, pairs], ops.concat(n, pairs, axis=0).sum(axis=0))
for count in (1, 7, 32):
    assert both(np.ones((count, 4), "float32"), np.ones((2 * count, 4), "float32")).tolist() == [3.0 * count] * 4
try:
    both(np.ones((3, 4), "float32"), np.ones((7, 4), "float32"))
except nnc.errors.ShapeError as error:
    print(error)
print(both.graph.with_shapes({"n": (5, 4)}))

# ## Kernels
#
# An operator has several kernels. The default is the first that takes the operands; a table says otherwise, and
# autotuning writes the table, timing candidates on copies of what the program really computes.

a, b = lazy.input("a", (64, 64)), lazy.input("b", (64, 64))
square = rng.standard_normal((64, 64)).astype("float32")
tuning = lazy.compile([a, b], ops.tanh(a @ b)).autotune(square, square, budget=0.2)
print(tuning)
again = lazy.swap(engine=lazy.engine.with_kernels(tuning.table))

# ## The machine
#
# A device describes its machine: what it computes and moves in a second, what a launch costs, what its caches hold.
# These are constants, so that plans are the same wherever they are made, and part of the device's recipe. Whatever
# estimates costs reads them: which values are worth fusing, what is computed again within a budget, how kernels are
# dealt out to streams, what `cheaper` finds cheaper. A layer above a device may describe another one.

print(lazy.device.machine)
tiny = lazy.swap(device=nnc.NumPy(machine=nnc.Machine(caches=(1 << 10,))))
for stack in (lazy, tiny):
    x = stack.input("x", (1 << 10,))
    print(stack.compile([x], stack.ops.sqrt(x * x + 1)).plan.kernels)

# Operators are fused only where the device has a kernel of the fused one that writes into planned memory. CuPy has
# none: a chain stays a chain there, each result in the arena. A kernel that is added decides which operators it takes.

gpu = nnc.lazy(nnc.Null(like="cupy"))
x = gpu.input("x", (1 << 24,))
chain = gpu.compile([x], gpu.ops.sqrt(gpu.ops.exp(gpu.ops.sin(x))))
print(chain.plan)

# ## Streams
#
# Instructions carry a stream, and what they wait for. Memory is shared by the order that this makes, not by the order
# in which the instructions are listed; a checker that shares no code with the scheduler proves that no two of them
# meet in memory unless one waits for the other.

parallel = lazy.swap(engine=lazy.engine.with_streams(2))
big = parallel.input("big", (1 << 18,))
branches = [parallel.ops.tanh(parallel.ops.exp(big * k)) for k in range(4)]
side_by_side = parallel.compile([big], branches[0] + branches[1] + branches[2] + branches[3])
print(side_by_side.plan)
side_by_side.plan.verify()

# ## Running again what has changed
#
# With `retain`, values are kept from run to run, and only what depends on an assigned input runs again.

p, q = lazy.input("p", (1000,)), lazy.input("q", (1000,))
slow = ops.cumulative_sum(ops.exp(p), axis=0)
kept = lazy.compile([p, q], ops.cumulative_sum(slow * q, axis=0), retain="frontier")
kept(np.zeros(1000, "float32"), np.ones(1000, "float32"))
kept.assign(q=np.zeros(1000, "float32"))
kept.evaluate()
print(kept.evaluation)

# ## Effects
#
# `print`, `check` and `callback` happen in the order in which they are written, on every engine. They are never merged
# and never dropped; a check that fails leaves variables as they were.


@lazy.jit
def careful(v):
    ops.print(v, text="given {}")
    root = ops.sqrt(v)
    ops.check(v >= 0, v, text="a root of {}")
    return root


print(careful(np.float32([1, 4])))
try:
    careful(np.float32([-1, 4]))
except nnc.errors.NncError as error:
    print(error)

# ## Groups
#
# What is elementwise is computed in groups, a block that fits the cache after the other. A group holds a `Body`: a
# sub-program as a value, which prints, compares and is read back. An operator of one's own stands in it where its shape
# rule is `shapes.broadcast` and it has a kernel that writes into memory that it is given (`Kernel(..., into=)`).

chain = lazy.input("chain", (1 << 20,), "float32")
print(lazy.compile([chain], ops.tanh(chain * 2) + 1).graph)
like = nnc.Aval((3,), "float32")
body, captured = lazy.body(lambda x, y: ops.tanh(x) * y, like, like)
print(body, captured)

# ## Loops
#
# A loop holds a body as well: what is carried, what is sliced, and what is stacked. Its body is planned once, for any
# number of times; a carry lies in two arrays by turns, or is written over itself. The plan within says where what is.

weights, state, steps = lazy.input("weights", (4, 4)), lazy.input("state", (2, 4)), lazy.input("steps", (100, 2, 4))
cell, _ = lazy.body(
    lambda w, h, x: [ops.tanh(h @ w + x), ops.sum(h)],
    *[nnc.Aval(s.shape[-2:], s.dtype) for s in (weights, state, steps)],
)
last, sums = ops.loop(weights, state, steps, body=cell, constants=1, carries=1)
print(lazy.compile([weights, state, steps], [last, sums]).plan)

# ## Looking inside
#
# What is slow, what is odd, and where it comes from. Nodes that differentiation, rewriting and fusion made name the
# lines of the user that asked for them.

w = lazy.variable("w", rng.standard_normal((4, 4)).astype("float32"))
data = lazy.input("data", (8, 4))
rows = rng.standard_normal((8, 4)).astype("float32")
gradient = lazy.grad(lambda v: ops.mean(ops.square(ops.tanh(data @ v))))(w)
step = lazy.compile([data], ops.mean(ops.abs(gradient)), updates={w: w - 0.1 * gradient})
for each in step.steps(rows):
    print(each)
print(step.profile(rows, repeat=3))
print(step.statistics(rows))
print(step.first_nonfinite(np.full((8, 4), np.inf, "float32")))

# ## Kernels of a library
#
# `nnc.CPU()` has oneDNN's kernels beside NumPy's, where the library is found. Plans name them, their scratch memory is
# planned, and what comes of them is what NumPy computes, to rounding. Constant weights are put into the library's order
# when a program first meets them, those that are variables or inputs at each run. What follows a convolution or a
# product is the library's as far as it is exact; with `fast_math=True` so is a rectifier, which makes 0 of NaN.

cpu = lazy.swap(device=nnc.CPU())
x, kernel = cpu.input("x", (2, 16, 16, 8), "float32"), rng.standard_normal((3, 3, 8, 16)).astype("float32")
convolution = cpu.compile([x], cpu.ops.relu(cpu.ops.conv2d(x, kernel, padding="SAME")))
print([each.kernel for each in convolution.plan.instructions])
given = rng.standard_normal((2, 16, 16, 8)).astype("float32")
wanted = ops.relu(ops.conv2d(given, kernel, padding="SAME")).numpy()
np.testing.assert_allclose(convolution(given), wanted, rtol=1e-4, atol=1e-4)

# Plans say what they were made for (version, instruction set, threads). A file of another machine is planned again.

print(convolution.plan.machine)

# ## Files
#
# A program is saved with its graph, plan, constants and variables, and loaded without planning and without running
# code. A plan is also text: it is read back, or written by hand, verified, and run.

with tempfile.TemporaryDirectory() as folder:
    step.save(Path(folder) / "step.nnc")
    loaded = nnc.load_program(Path(folder) / "step.nnc")
    step.profile(rows, repeat=3).to_chrome_trace(Path(folder) / "trace.json")  # for ui.perfetto.dev
print(loaded(rows))

by_hand = lazy.program(
    nnc.Plan.parse("""
    plan "by hand"
    @0 = input 0 : 8 bytes
    @1 = arena at 0 : 8 bytes
    @2 = output 0 : 8 bytes
    %0 = input "x" : float32[2] in @0
    0: %1 = exp(%0) : float32[2] in @1
    1: %2 = add(%1, %0) : float32[2] in @2
    return %2
    """)
)
print(by_hand(np.float32([0, 1])))
