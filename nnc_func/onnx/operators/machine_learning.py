"""Of the domain of classical machine learning, and n-grams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nnc_func.errors import OnnxError
from nnc_func.onnx.table import onnx_operator

DOMAIN = "ai.onnx.ml"


@onnx_operator("ArrayFeatureExtractor", since=1, domain=DOMAIN)
def array_feature_extractor(o: Any, x: Any, y: Any) -> Any:
    """Elements of the last axis."""
    found = o.take(x, o.reshape(y, shape=(-1,)), axis=len(x.shape) - 1)
    return o.reshape(found, shape=(1, -1)) if len(x.shape) == 1 else found


@onnx_operator("Binarizer", since=1, domain=DOMAIN)
def binarizer(o: Any, x: Any, *, threshold: float = 0.0) -> Any:
    """One where a number is above a threshold, else zero."""
    return o.cast(o.greater(x, threshold), dtype=x.dtype)


@onnx_operator("TfIdfVectorizer", since=9)
def n_grams(
    o: Any, x: Any, *, mode: str, min_gram_length: int, max_gram_length: int, max_skip_count: int,
    ngram_counts: Sequence[int], ngram_indexes: Sequence[int], pool_int64s: Sequence[int] | None = None,
    pool_strings: Sequence[str] | None = None, weights: Sequence[float] | None = None,
) -> Any:  # fmt: skip
    """How often each n-gram of a pool occurs in each row, its numbers up to so many places apart."""
    if pool_int64s is None or pool_strings is not None:
        raise OnnxError("pools of strings are not supported")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise OnnxError(f"mode is TF, IDF or TFIDF, given {mode!r}")
    rows = o.reshape(x, shape=(1, -1)) if len(x.shape) == 1 else x
    columns, counted = max(ngram_indexes) + 1, []
    scale = np.ones(len(ngram_indexes), np.float32) if weights is None else np.array(weights, np.float32)
    first = 0
    for grams in _pools(pool_int64s, ngram_counts):
        length, numbers = grams.shape[1], range(first, first + len(grams))
        first += len(grams)
        if not min_gram_length <= length <= max_gram_length or not len(grams):
            continue
        counts = _counted(o, rows, grams, 0 if length == 1 else max_skip_count)
        counts = o.minimum(counts, 1.0) if mode == "IDF" else counts
        target = np.zeros(o.sized((len(grams), columns)), np.float32)
        for row, number in enumerate(numbers):
            target[row, ngram_indexes[number]] = 1.0 if mode == "TF" else scale[number]
        counted.append(o.matmul(counts, o.tensor(target)))
    total = o.full(shape=(rows.shape[0], columns), value=0.0, dtype="float32")
    for each in counted:
        total = o.add(total, each)
    return o.reshape(total, shape=(columns,)) if len(x.shape) == 1 else total


def _pools(pool: Sequence[int], starts: Sequence[int]) -> list[Any]:
    """The n-grams of each length, as the rows of a matrix."""
    ends = [*starts[1:], len(pool)]
    found = []
    for length, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
        part = np.array(pool[start:end], np.int64)
        if len(part) % length:
            raise OnnxError(f"{len(part)} numbers are no {length}-grams")
        found.append(part.reshape(-1, length))
    return found


def _counted(o: Any, rows: Any, grams: Any, skips: int) -> Any:
    """How often each row of `grams` occurs in each of `rows`: a matrix of float32."""
    extent, length = o.extents(rows)[1], grams.shape[1]
    total = o.full(shape=(rows.shape[0], len(grams)), value=0.0, dtype="float32")
    for step in range(1, skips + 2):
        last = extent - (length - 1) * step
        if last < 1:
            break
        o.sized((last, length))
        places = np.arange(last)[:, None] + np.arange(length) * step
        windows = o.expand_dims(o.take(rows, o.tensor(places), axis=1), axis=2)
        hits = o.all(o.equal(windows, o.tensor(grams.astype(rows.dtype))), axis=3)
        total = o.add(total, o.cast(o.sum(hits, axis=1), dtype="float32"))
    return total
