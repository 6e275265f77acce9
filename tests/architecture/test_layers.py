"""Each layer reads its own facets of an operator and no other's (`facets`, `layer`)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.throughout import throughout

LIBRARY = Path(__file__).resolve().parents[2] / "nnc_func"
FUSED = "graph/ops/bodies.py"  # an operator made of others: its facets are made of theirs
CUT = (  # what a derivative may compute again
    "graph/ops/cut_bodies.py",
    "graph/ops/loop_derivative.py",
    "graph/ops/passes.py",
)
BATCHING = ("batching/", "facets/batching.py")  # what becomes of the rows of a batch
BARE = ("device/shared/namespace.py", "device/null.py")  # a bare device refuses what Type and Shape refuse; Null infers
VERIFIER = "engine/verifying/applications.py"  # a plan that anybody may have written: no layer has looked at it
RULES = ("graph/rules/", "graph/rewriting/")  # the rules, and what applies them
COUNTED = "onnx/tracing.py"  # counts what a model asks for before it is computed: views take nothing
READERS = {  # facet: where in the library it may be read
    "takes_all": ("batching/",),
    "data_movement": ("device/shared/narrow_emulation.py", "testing/"),
    "dtype": ("graph/type.py", FUSED, *BARE, "device/shared/narrow_emulation.py", *BATCHING, VERIFIER, "testing/"),
    # rules and devices ask whether it is `broadcast`: elementwise
    "shape": (
        "graph/shape.py",
        *BARE,
        *BATCHING,
        VERIFIER,
        "device/shared/dispatch.py",
        "device/shared/narrow_emulation.py",  # what results take that are computed in float32
        "graph/rules/",
        FUSED,
        "testing/",
        "facets/kernels.py",  # which layouts a kernel takes depends on those of the results
    ),
    "kernels": ("device/", "engine/", FUSED, "testing/"),
    "laws": ("graph/optimiser.py", "graph/rules/", "testing/"),
    "has": ("graph/optimiser.py", *RULES, "testing/"),
    "pure": (
        "body.py",  # which says it of a body, by those of its operators
        "graph/text/trust.py",
        "graph/symbol.py",
        "body_builder.py",
        "graph/optimiser.py",
        *RULES,
        "engine/",
        FUSED,
        *CUT,
        "testing/",
    ),
    "effect": (
        "stack.py",
        "device/shared/dispatch.py",
        "engine/eager.py",
        "engine/dynamic/",
        *BATCHING,
        "engine/effects.py",
        "graph/graph.py",
        FUSED,
        *CUT,  # what is computed again has none
        "graph/ops/silent_bodies.py",  # which is without them
        COUNTED,
        "testing/",
    ),
    "view": (
        FUSED,
        *CUT,
        "graph/rules/",
        "engine/",
        "device/null.py",
        "device/places.py",
        "testing/",
        "stack.py",  # copies a caller's array
        COUNTED,
    ),
    "layout": (
        "graph/shape.py",
        "graph/rules/channels.py",
        "device/null.py",
        "engine/",
        "facets/kernels.py",
        "testing/",
    ),
    "place": ("graph/shape.py", "device/places.py", "engine/", "testing/"),
    "derivative": ("autodiff/", "engine/dynamic/flow.py", "testing/"),  # which asks what gradients flow through
    "cost": (
        FUSED,
        *CUT,
        "graph/rules/",
        "graph/pictures/graphs.py",
        "engine/",
        "device/null.py",
        "models/summary.py",
        "testing/",
    ),
    "onnx": ("graph/onnx_export/", "testing/"),
    "samples": ("testing/",),
    # what a kernel may differ by before it is chosen, and what a rule may claim that gives it other strides
    "tolerance": ("engine/tuning/trials.py", "graph/rules/pushing.py", "graph/rules/move.py", "testing/"),
}
FILES = sorted(path.relative_to(LIBRARY).as_posix() for path in LIBRARY.rglob("*.py"))


def _tree(name: str) -> ast.Module:
    """Parsed anew each time: all trees together are a million objects, and stay slow for the tests behind these."""
    return ast.parse((LIBRARY / name).read_text(encoding="utf-8"))


def _reads(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Facets read of what is called ``op``, or is the ``op`` of something."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in READERS:
            of = node.value
            name = of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""
            if name == "op" or name.endswith("_op"):
                yield node.lineno, node.attr


def test_a_layer_reads_its_own_facets() -> None:
    throughout(FILES, reads_its_own)


def reads_its_own(name: str) -> None:
    tree = _tree(name)
    foreign = [f"{name}:{line} op.{facet}" for line, facet in _reads(tree) if not name.startswith(READERS[facet])]
    assert foreign == []


def test_the_readers_that_are_named_do_read() -> None:
    """An allow-list that nobody needs any more is a hole."""
    read = {(facet, name) for name in FILES for _, facet in _reads(_tree(name))}
    for facet in ("dtype", "shape", "kernels", "derivative"):
        assert any((facet, name) in read for name in FILES if name.startswith(READERS[facet])), facet


def _called(call: ast.Call) -> str:
    """The last name of what is called; nothing if it has none."""
    of = call.func
    return of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""


def test_no_module_recurses_over_nodes() -> None:
    throughout(FILES, does_not_recurse)


def does_not_recurse(name: str) -> None:
    """A function that calls itself on a node's operands fails on a chain of 10⁵ nodes."""
    guilty = []
    for function in ast.walk(_tree(name)):
        if isinstance(function, ast.FunctionDef):
            for call in ast.walk(function):
                itself = isinstance(call, ast.Call) and _called(call) == function.name
                if itself and re.search(r"\.args\b", ast.unparse(call)):
                    guilty.append(f"{name}:{call.lineno} {function.name}")
    assert guilty == []
