# # An allocator and an order of one's own
#
# This file runs (`python docs/planning_tutorial.py`). It writes an allocator in twenty lines, runs a program with it,
# and sets it beside others, on the plans of networks and on instances that are hard by design. Then it does the same
# with an order: which instruction runs next decides how many bytes are alive before any allocator is asked.
#
# ## The problem
#
# A plan's buffers are an allocation problem: sizes in bytes, and lifetimes in steps, half open. No plan is smaller than
# the most bytes alive at one time. What else a problem may say (pins, gaps, groups, spaces, alignments, partial orders)
# an allocator need not know: it is taken out before, unless the allocator says that it handles it.

import time

import numpy as np

import nnc_func as nnc
from nnc_func import models
from nnc_func.engine.allocators import ALLOCATORS, Problem, arena_size
from nnc_func.engine.allocators.problems import instances
from nnc_func.engine.comparing import Conditions, compare, compare_orders
from nnc_func.engine.drawing.comparison import Answer, comparison_page
from nnc_func.engine.drawing.tables import plot
from nnc_func.engine.orders import ORDERS, SEARCHES, Exact, OrderProblem, lower_bound, simulated_peak
from nnc_func.engine.orders.progress import Progress
from nnc_func.engine.planning.passes import PASSES

problem = Problem(sizes=[400, 200, 200, 300], lower=[0, 1, 2, 3], upper=[2, 4, 5, 5], alignment=1)
print(problem.max_load)

# ## An allocator
#
# It is a function of a problem, and returns an offset for each buffer. This one takes the buffers by the end of their
# lives, the last first, and puts each at the lowest offset where it fits beside those that are there already.


def last_first(problem):
    """Each buffer, the one that lives to the last first, at the lowest offset that is free all its life."""
    offsets, sizes = np.zeros(len(problem), np.int64), problem.rounded
    placed = np.zeros(len(problem), bool)
    for i in np.lexsort((np.arange(len(problem)), -sizes, -problem.upper)):
        beside = np.flatnonzero(placed & problem.conflicting(i) & (sizes > 0))
        at = 0
        for j in beside[np.argsort(offsets[beside], kind="stable")]:
            if at + sizes[i] <= offsets[j]:
                break
            at = max(at, offsets[j] + sizes[j])
        offsets[i], placed[i] = at, True
    return offsets


print(last_first(problem), arena_size(problem, last_first(problem)))

# An engine takes it as it is. Its answer is checked before anything runs: offsets that overlap are refused, with words.

lazy = nnc.lazy()
mine = lazy.swap(engine=lazy.engine.with_allocator(last_first))
x = mine.input("x", (64, 64), "float32")
program = mine.compile([x], [mine.ops.softmax(mine.ops.tanh(x @ x) @ x)])
print(program.plan)
assert np.allclose(program(np.eye(64, dtype="float32"))[0].sum(), 64)

# ## Beside all others
#
# `compare` asks every allocator about every problem, checks each answer by code that shares nothing with any of them,
# and tells ratios to the lower bound; those whose time grows faster than the buffers are asked about few. The problems
# are those of networks' plans, which cost nothing to make: the device `Null` computes nothing.

plans = nnc.lazy(nnc.Null())
networks = {
    f"{name}{' training' if training else ''}": plans.engine.compile(
        models.get(name).reduced().make(plans, 2, training, seed=None)
    ).plan.problem
    for name in ("lenet-5", "resnet-18", "u-net", "inception-v3")
    for training in (False, True)
}
slow = ("boxing", "branch_and_bound", "flow_graph_article", "hill_climb", "local_search", "pool_tree")
found = compare(networks, {"last_first": last_first, **ALLOCATORS}, most=dict.fromkeys(slow, 64))
for row in found.summary():
    of = f"{row['answers']} of {row['problems']} networks"
    print(f"{row['allocator']:18} {row['mean_ratio']:.3f}  worst {row['worst_ratio']:.3f}  {of}")

# The plans of real networks are easy. Instances that are hard by design are what tells allocators apart. They have
# names: generators, with a number of buffers and as many as there are seeds; and folders of files in minimalloc's
# format, where they are (`python -m nnc_func bench instances` lists them). A tiling is cut out of a rectangle, so that
# a plan without any gap exists: the best ratio is known to be 1.

hard = instances.problems("tiling:120", seeds=range(6))
if "minimalloc/challenging" in instances.suites():
    hard |= instances.problems("minimalloc/challenging")
quick = {name: allocator for name, allocator in ALLOCATORS.items() if name not in slow}
on_hard = compare(hard, {"last_first": last_first, **quick})
for row in on_hard.summary():
    sure = f"{row['low']:.3f} to {row['high']:.3f}"
    print(f"{row['allocator']:18} {row['mean_ratio']:.3f}  (95 %: {sure})  worst {row['worst_ratio']:.3f}")

# Whether one is less than another is a question of its own: `against` compares problem by problem, and tells how likely
# as much of a difference is by chance, by exchanging its signs; `p_adjusted` minds that many are compared at once.

for row in on_hard.against("last_first")[:3]:
    print(f"{row['allocator']:18} {row['ratio']:.3f} of last_first's; p = {row['p_adjusted']:.3f}")

# ## A whole night
#
# What fails is a row, and the others go on. With a limit each is asked in a process of its own, which is killed when
# its time is over. On the command line that is the rule, rows are written as they come, and a rerun goes on where it
# ended:
# `python -m nnc_func bench allocators uniform:1000 --seeds 20 --allocator all --allocator mine.py:last_first
# --limit 10min --out night.jsonl --plot night.svg`.


def at_zero(problem):
    """All at one place."""
    return [0] * len(problem)


def endless(problem):
    """One that never ends."""
    while True:
        time.sleep(1)


asked = {"last_first": last_first, "at_zero": at_zero, "endless": endless}
night = compare({"tiling": hard["tiling:120 seed 0"]}, asked, conditions=Conditions(limit=5.0))
for trial in night.trials:
    print(f"{trial.by:18} {trial.kind}: {trial.error or trial.ratio}")

# ## Looking at it
#
# A notebook shows any table: the last line of a cell, `plot(on_hard.summary())`.

picture = plot(on_hard.summary(), heading="hard instances")
print(picture)

# A page with a slider over plans, and the difference of two, is one file that needs nothing else. On the command line:
# `python -m nnc_func plan resnet-18 --training --allocator all --html plans.html`.

name = "u-net training"
trials = [t for t in found.trials if t.problem == name and t.value is not None]
page = comparison_page(name, [Answer(networks[name], t.answer, t.value, t.by, t.seconds) for t in trials])
print(f"{len(page) // 1024} KiB of HTML, the smallest arena by {found.best(name).by}")

# ## An order
#
# An order is a function of tasks: what each needs before it, which buffers it uses, and how many bytes these have. A
# buffer is alive from the first task that uses it to the last. It returns the numbers of the tasks in a valid sequence.
# Here two tasks make much of which two others keep little: it is better to finish one before the other is begun.

pairs = OrderProblem(
    needs=[(), (), (0,), (1,), (2, 3)], uses=[(0,), (1,), (0, 2), (1, 3), (2, 3)], sizes=[900, 900, 100, 100]
)
print(simulated_peak(pairs, [0, 1, 2, 3, 4]), simulated_peak(pairs, [0, 2, 1, 3, 4]), lower_bound(pairs))


def largest_relief(problem):
    """Of the ready tasks the one that frees most; ties: what needs least while it runs, then number."""
    progress = Progress(problem)
    while progress.ready:
        progress.run(min(progress.ready, key=lambda task: (-progress.freed(task), progress.needed(task), task)))
    return progress.order


print(largest_relief(pairs))

# An engine takes it beside others, and runs what has the least peak. A sequence that is not valid is refused, with
# words. Values are the same in any order.

mine = lazy.swap(engine=lazy.engine.with_orders("depth_first", largest_relief))
print(mine.engine.compile(models.get("darts").reduced().make(mine)).plan.order)

# `order_problem` tells what an engine asks about a graph, and `compare_orders` asks every order. Peaks are told as
# ratios to the depth-first order's; where one is the lower bound, it is proven that no order takes less.

asked = {
    f"{name}{' training' if training else ''}": plans.engine.order_problem(
        models.get(name).reduced().make(plans, 2, training, seed=None)
    )
    for name in ("lenet-5", "u-net", "randomly-wired", "darts")
    for training in (False, True)
}
known = {name: order for name, order in ORDERS.items() if name not in SEARCHES}
ordered = compare_orders(asked, {"largest_relief": largest_relief, **known, "exact": Exact(states=500)})
for row in ordered.summary():
    print(f"{row['order']:16} {row['mean_ratio']:.3f}  best {row['best_ratio']:.3f}  worst {row['worst_ratio']:.3f}")

# On the command line: `python -m nnc_func plan darts --order all --html orders.html`, a page with a slider over orders.

# ## Passes
#
# A plan is made by passes, each a function from a draft to the next; `nnc_func/engine/planning/passes.py` is all of
# them on one page. Any of them can be replaced. This one wraps the pass that lets results be computed in place, and
# tells what it found: storages that took over the memory of another one.


def watched(draft):
    draft = PASSES.in_place(draft)
    taken = sum(storage.merged != number for number, storage in enumerate(draft.storages))
    print(taken, "of", len(draft.storages), "in place")
    return draft


watching = plans.swap(engine=plans.engine.with_passes(in_place=watched))
print(repr(watching.engine.compile(models.get("lenet-5").make(watching, seed=None)).plan))
