"""The cost of an embedding and of a size, beside plain Python that gives the same answer.

Texts are pieces of about 600 bytes of the standard library: its sources, and the prose of its help pages.
They lie in memory in the order in which they were cut. The two of a row take turns, and the answers are
compared before anything is timed.

    python benches/python/bench_embed.py
"""

from __future__ import annotations

import json
import math
import re
import statistics
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from xxhash import xxh3_64_intdigest

from siltstone import _native

TEXTS = 8_000
DENSE = 1_000  # texts that are written as dense rows: 16 KB each
BYTES = 600
TURNS = 11
TIMES = 25  # how many times as fast as the loop embed_sparse has to be
DIMENSION = 4096
WORD = re.compile(r"[^\W_]+")  # words-1, for texts of Latin letters and punctuation
BEYOND = re.compile(r"[^\x00-\u012f\u0131-\u024f\u2000-\u206f]")  # where it would not do


def main() -> int:
    """Prints the table; 1 where ``embed_sparse`` is less than 25 times as fast as the loop."""
    if _native.build_profile != "release":
        print("a debug build is not worth measuring: make install")
        return 2
    texts = corpus()
    check(texts)
    mean = sum(len(text.encode()) for text in texts) / len(texts)
    print(f"{len(texts):,} texts of {mean:.0f} bytes; CPU time a text, medians of {TURNS} turns\n")
    print("| | core | Python | times as fast |")
    print("| :--- | ---: | ---: | ---: |")
    ratio = compare(
        "`embed_sparse`; a loop that counts xxh3 buckets in a dict",
        lambda texts: _native.embed_sparse(texts, "xxh3"),
        sparse_loop,
        texts,
    )
    compare(
        "`embed_batch`; the same loop, writing dense rows",
        lambda texts: _native.embed_batch(texts, "xxh3"),
        batch_loop,
        texts[:DENSE],
    )
    compare(
        "`json_size` of a list of messages; `len(json.dumps(...).encode())`",
        _native.json_size,
        dumps_size,
        messages(texts),
    )
    return int(ratio < TIMES)


def corpus() -> list[str]:
    """Pieces of text, of code and of prose; the same ones for the same Python."""
    library = Path(json.__file__).parents[1]
    code = "".join(path.read_text(encoding="utf-8") for path in sorted(library.glob("[a-z]*/*.py"))[:400])
    prose = "".join(topics[name] for name in sorted(topics))
    return [piece for piece in pieces(prose) + pieces(code) if not BEYOND.search(piece)][:TEXTS]


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


def messages(texts: list[str]) -> list[dict[str, str]]:
    """A history that says *texts*."""
    return [{"role": "user", "content": text} for text in texts]


def dumps_size(history: list[dict[str, str]]) -> tuple[int, int]:
    """Bytes and code points of the JSON text, by writing it."""
    text = json.dumps(history, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode()), len(text)


def check(texts: list[str]) -> None:
    """Raises unless every variant gives the answer of its neighbour."""
    indptr, indices, values = _native.embed_sparse(texts, "xxh3")
    starts, buckets, numbers = array("q", indptr), array("i", indices), array("f", values)
    for row, counts in enumerate(sparse_loop(texts)):
        part = slice(starts[row], starts[row + 1])
        length = math.sqrt(sum(count * count for count in counts.values()))
        expected = array("f", [counts[bucket] / length for bucket in sorted(counts)])
        if list(buckets[part]) != sorted(counts) or numbers[part] != expected:
            raise AssertionError(f"embed_sparse and the loop differ on {texts[row]!r}")
    if array("f", _native.embed_batch(texts[:DENSE], "xxh3")) != batch_loop(texts[:DENSE]):
        raise AssertionError("embed_batch and the loop differ")
    if _native.json_size(messages(texts)) != dumps_size(messages(texts)):
        raise AssertionError("json_size and json.dumps differ")


def compare(
    name: str, core: Callable[[Any], object], python: Callable[[Any], object], items: Sequence[object]
) -> float:
    """Prints a row, and says how many times as fast the core is.

    The two take turns, and CPU time is what counts: other work on the machine does not.
    """
    spent: tuple[list[float], list[float]] = [], []
    for _ in range(TURNS):
        for seconds, variant in zip(spent, (core, python), strict=True):
            start = time.process_time()
            variant(items)
            seconds.append(time.process_time() - start)
    ours, theirs = (statistics.median(seconds) / len(items) * 1e6 for seconds in spent)
    print(f"| {name} | {ours:.2f} us | {theirs:.2f} us | {theirs / ours:.1f} |")
    return theirs / ours


if __name__ == "__main__":
    sys.exit(main())
