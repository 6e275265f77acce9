# # A rewrite rule of one's own
#
# This file runs (`python docs/rules_tutorial.py`). It writes a rule, sees it refuted with a small counterexample,
# repairs it, and sees what a second one saves on ResNet-50.
#
# ## Two sides
#
# A rule is a function of its variables. What it returns is data: the side that is matched, and the side that replaces
# it. The docstring is one sentence that says what it does; `nnc.rule` refuses a rule without one.

import numpy as np

import nnc_func as nnc
from nnc_func.errors import RuleError
from nnc_func.graph.ops import CATALOGUE as OPS
from nnc_func.graph.rules.conditions import discrete, that, used_once
from nnc_func.graph.rules.pattern import Param, apply, dtype_of, shape_of
from nnc_func.testing import check_rule


def nothing_of(x):
    """Zeros of the shape and dtype of what a variable matches."""
    return apply(OPS["full"], shape=shape_of(x), value=0, dtype=dtype_of(x))


@nnc.rule
def cancel(x):
    """What is subtracted from itself is zero."""
    return nnc.rewrite(x - x).to(nothing_of(x))


print(cancel)

# ## Refuted
#
# `check_rule` knows nothing of what the rule means. It draws graphs from its left side, of every dtype, rank and
# relation of extents that its operators take, computes both sides, and makes what it finds smaller. Here an element is
# NaN, or infinite: infinity minus infinity is NaN. What is printed runs as it is.

try:
    check_rule(cancel, nnc.eager())
except RuleError as error:
    said = str(error)
print(said)
assert "not sound" in said

# ## Repaired
#
# Integers have neither NaN nor infinity, so the rule is right for these. A condition is data too: it has a text, and it
# can be taken away. The kit takes each away in turn, and refuses one without which nothing goes wrong. Of what is left
# it says how often it fired without a counterexample: that is what it knows.


@nnc.rule
def cancel_integers(x):
    """An integer that is subtracted from itself is zero."""
    return nnc.rewrite(x - x).to(nothing_of(x)).when(discrete(x))


print(check_rule(cancel_integers, nnc.eager()))

# A rule says what it needs, of shapes and dtypes too: in its pattern numbers broadcast, and dtypes mix. An optimiser
# leaves a graph alone where the right side would have another shape or dtype, or cannot be built; the kit objects to
# the rule, and says what to write: a condition, such as ``same_aval(x, left)``, or a cast.

# A stack is given the rule; everything else about it stays as it is. The graph of a compiled program shows what is
# left of what was asked for.

lazy = nnc.lazy()
mine = lazy.swap(optimiser=lazy.optimiser.with_rules(cancel_integers))
n = mine.input("n", (3,), "int64")
program = mine.compile([n], (n * 5 - n * 5) + n)
print(program.graph)
assert program(np.arange(3)).tolist() == [0, 1, 2]

# ## One that saves something
#
# ResNet begins with a convolution, a batch normalisation, a rectifier, and the largest of each 3 × 3 elements in steps
# of two. Rectifying the largest is the same as taking the largest of what is rectified, and there are four times fewer
# of them. A variable that is a `Param` stands for a parameter of an operator, whatever it is.
#
# A window that lies in the padding alone has less than any number as its largest, and zero once that is rectified: the
# kit finds such windows. So the rule asks that each one meets its image.
#
# (The library has this rule. We take it away, and write it again.)

relu, max_pool = OPS["relu"], OPS["max_pool2d"]


def meets_images(x, window, padding, dilation):
    """No window lies in the padding alone."""
    sides = (window, window) if isinstance(window, int) else window
    narrow = isinstance(padding, str) or all(max(each) < n for each, n in zip(padding, sides, strict=True))
    return narrow and dilation in (1, (1, 1)) and 0 not in x.shape


@nnc.rule
def rectify_later(x, w: Param, s: Param, p: Param, d: Param, c: Param):
    """The largest of rectified elements is the rectified largest element."""
    pooled = max_pool(relu(x), window=w, stride=s, padding=p, dilation=d, data_format=c)
    later = relu(max_pool(x, window=w, stride=s, padding=p, dilation=d, data_format=c))
    return nnc.rewrite(pooled).to(later).when(that(meets_images, x, w, p, d)).up_to("signed zero")


# It keeps values. But is it worth anything? The kit also asks that: where others use the rectified elements too, they
# are computed anyway, and the rule makes more work.

try:
    check_rule(rectify_later, nnc.eager())
except RuleError as error:
    said = str(error)
print(said)
assert "used once" in said


@nnc.rule
def rectify_after(x, w: Param, s: Param, p: Param, d: Param, c: Param):
    """The largest of rectified elements is the rectified largest element, of which there are fewer."""
    rectified = relu(x)
    pooled = max_pool(rectified, window=w, stride=s, padding=p, dilation=d, data_format=c)
    later = relu(max_pool(x, window=w, stride=s, padding=p, dilation=d, data_format=c))
    return nnc.rewrite(pooled).to(later).when(that(meets_images, x, w, p, d), used_once(rectified)).up_to("signed zero")


print(check_rule(rectify_after, nnc.eager()))

# ## What it saves on ResNet-50
#
# On the device `Null` nothing is computed: graphs of any size are built, rewritten and planned at once, and what the
# operators would cost is counted. The same is told of any model by the command line:
# `python -m nnc_func rules --stats resnet-50`.

from nnc_func import models  # noqa: E402
from nnc_func.graph.rules.cost import total  # noqa: E402

bare = nnc.lazy(nnc.Null())
bare = bare.swap(optimiser=bare.optimiser.without_rules("rectify_after_pooling"))
with_it = bare.swap(optimiser=bare.optimiser.with_rules(rectify_after))
source = models.get("resnet-50").make(bare, 1, False, seed=None)
report = with_it.optimiser.optimise(source.to(with_it).roots, measure=True)
print("what the rule saves by itself:", report.statistics["rectify_after"].saved)

# Before operators are fused, and after that. What is fused with the first convolution is computed while its elements
# are in the caches, so there the rule saves arithmetic, and costs one more pass over what is pooled.

for phase in ("recognise", "fuse"):
    for name, stack in (("without", bare), ("with", with_it)):
        optimiser = stack.optimiser.up_to_phase(phase)
        graph = source.to(stack)
        work = total(graph.with_roots(optimiser.optimise(graph.roots).roots).nodes)
        print(f"{phase:10} {name:8} {work.bytes:13,} bytes {work.flops:14,} FLOPs {work.launches:4} kernels")
        if phase == "recognise" and name == "without":
            before = work
        if phase == "recognise" and name == "with":
            assert before.bytes - work.bytes > 4_000_000
            assert before.flops - work.flops > 600_000

# ## And then
#
# A rule is one part of a stack: `check_stack(mine)` checks all of it, and the rule with it. How to test rules,
# operators and stacks of one's own in a test suite is in `testing.md`.
