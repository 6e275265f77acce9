"""The zoo: networks on which rewrites, allocators and engines are judged, built with the library's own layers.

``models.names()`` lists them and ``models.get("resnet-50")`` is a `Model`, a frozen record: name, title, source,
shape of an example, parameters. From it come

- ``model.make(stack, batch=1, training=False)``: a closed graph on any stack, weights as variables; then
  ``stack.engine.compile(graph)`` is a program, with its plan;
- ``model.network(seed)``: the `nn.Module`, weights drawn from a seed;
- ``model.step(stack)``: a training step to call with batches; ``model.examples(batch)``: random ones;
- ``model.reduced()``: a `Model` of the same structure that computes in milliseconds.

``models.summary("resnet-50", batch=1, training=False)`` counts nodes, parameters, arithmetic and bytes on the device
`Null`: nothing is computed, however large the network.

Examples
--------
>>> import nnc_func as nnc
>>> from nnc_func import models
>>> model = models.get("lenet-5")
>>> stack = nnc.lazy()
>>> program = stack.engine.compile(model.make(stack, batch=2))
>>> program(model.examples(batch=2)[0]).shape
(2, 10)
"""

from nnc_func.models.model import Model
from nnc_func.models.registry import get, names
from nnc_func.models.summary import Summary, summary

__all__ = ["Model", "Summary", "get", "names", "summary"]
