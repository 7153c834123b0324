"""What an embedding and a size cost, beside plain Python that gives the same answer.

Texts are pieces of about 600 bytes of the standard library: its sources, and the prose of its help pages.
The two of a row take turns, and the answers are compared before anything is timed.

    python benches/python/bench_embed.py
"""

from __future__ import annotations

import json
import math
import random
import re
import statistics
import struct
import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics

from xxhash import xxh3_64_intdigest

from siltstone import _native

TEXTS = 1_000
BYTES = 600
TURNS = 21
TIMES = 25  # how many times as fast as the loop embed_sparse has to be
DIMENSION = 4096
WORD = re.compile(r"[^\W_]+")  # words-1, for texts without CJK and without marks


def main() -> int:
    """Prints the table; 1 where ``embed_sparse`` is less than 25 times as fast as the loop."""
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install")
        return 2
    texts = corpus()
    messages = [{"role": "user", "content": text} for text in texts]
    check(texts, messages)
    mean = sum(len(text.encode()) for text in texts) / len(texts)
    print(f"{len(texts):,} texts of {mean:.0f} bytes; medians of {TURNS} turns, a text\n")
    print("| | core | Python | times as fast |")
    print("| :--- | ---: | ---: | ---: |")
    ratio = compare(
        "`embed_sparse`; a loop that counts xxh3 buckets in a dict",
        lambda: _native.embed_sparse(texts, "xxh3"),
        lambda: sparse_loop(texts),
    )
    compare(
        "`embed_batch`; the same loop, writing dense rows",
        lambda: _native.embed_batch(texts, "xxh3"),
        lambda: batch_loop(texts),
    )
    compare(
        "`json_size` of a list of messages; `len(json.dumps(...).encode())`",
        lambda: _native.json_size(messages),
        lambda: dumps_size(messages),
    )
    return int(ratio < TIMES)


def corpus() -> list[str]:
    """Pieces of text, half of them code and half prose; the same ones for the same Python."""
    code = "".join(
        path.read_text(encoding="utf-8") for path in sorted(Path(json.__file__).parents[1].glob("*.py"))
    )
    prose = "".join(topics[name] for name in sorted(topics))
    drawn = random.Random(600)
    return [piece for source in (code, prose) for piece in drawn.sample(pieces(source), TEXTS // 2)]


def pieces(source: str) -> list[str]:
    """*source* in pieces of about 600 characters, each cut at the end of a line."""
    cut, size = [], 0
    lines: list[str] = []
    for line in source.splitlines(keepends=True):
        lines.append(line)
        size += len(line)
        if size >= BYTES - 20:
            cut.append("".join(lines))
            lines, size = [], 0
    return cut


def sparse_loop(texts: list[str]) -> list[dict[int, int]]:
    """The counts of each text's buckets."""
    rows = []
    for text in texts:
        counts: dict[int, int] = {}
        for word in WORD.findall(text.lower()):
            bucket = xxh3_64_intdigest(word.encode()) % DIMENSION
            counts[bucket] = counts.get(bucket, 0) + 1
        rows.append(counts)
    return rows


def batch_loop(texts: list[str]) -> array[float]:
    """Dense rows of unit length."""
    table = array("f", bytes(len(texts) * DIMENSION * 4))
    for number, counts in enumerate(sparse_loop(texts)):
        length = math.sqrt(sum(count * count for count in counts.values()))
        for bucket, count in counts.items():
            table[number * DIMENSION + bucket] = count / length
    return table


def dumps_size(messages: list[dict[str, str]]) -> tuple[int, int]:
    """Bytes and code points of the JSON text, by writing it."""
    text = json.dumps(messages, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode()), len(text)


def check(texts: list[str], messages: list[dict[str, str]]) -> None:
    """Raises unless every variant gives the answer of its neighbour."""
    expected = batch_loop(texts)
    if array("f", _native.embed_batch(texts, "xxh3")) != expected:
        raise AssertionError("embed_batch and the loop differ")
    indptr, indices, values = _native.embed_sparse(texts, "xxh3")
    starts = struct.unpack(f"{len(texts) + 1}q", indptr)
    table = array("f", bytes(len(expected) * 4))
    for number, counts in enumerate(sparse_loop(texts)):
        start, end = starts[number], starts[number + 1]
        buckets = array("i", indices[start * 4 : end * 4])
        if list(buckets) != sorted(counts):
            raise AssertionError("embed_sparse and the loop differ")
        for bucket, value in zip(buckets, array("f", values[start * 4 : end * 4]), strict=True):
            table[number * DIMENSION + bucket] = value
    if table != expected:
        raise AssertionError("embed_sparse and embed_batch differ")
    if _native.json_size(messages) != dumps_size(messages):
        raise AssertionError("json_size and json.dumps differ")


def compare(name: str, core: Callable[[], object], python: Callable[[], object]) -> float:
    """Prints a row, and says how many times as fast the core is. The two take turns."""
    spent: tuple[list[float], list[float]] = [], []
    for _ in range(TURNS):
        for seconds, variant in zip(spent, (core, python), strict=True):
            start = time.perf_counter()
            variant()
            seconds.append(time.perf_counter() - start)
    ours, theirs = (statistics.median(seconds) / TEXTS * 1e6 for seconds in spent)
    print(f"| {name} | {ours:.2f} us | {theirs:.2f} us | {theirs / ours:.1f} |")
    return theirs / ours


if __name__ == "__main__":
    sys.exit(main())
