"""The texts of the benches and what they are asked: made from what the machine has, the same in every run.

A text is one or more paragraphs of a file, 200 to 1,500 characters: Python sources, documentation and man
pages below ``/usr`` and the prefix of this Python. No paragraph occurs twice, and a seed decides the order.
A larger corpus than the machine has texts is made of their paragraphs, put together anew.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from siltstone import _native
from siltstone.errors import DatasetError
from siltstone.evaluation import load_dataset

SEED = 20261122
REAL = 100_000  # texts as they stand; more of them are recombined
LEAST, MOST = 200, 1_500  # characters of a text
LARGEST_FILE = 1_000_000  # bytes; larger ones are tables
HELD_OUT = 1_000  # texts that are in no index and only asked for
SUFFIXES = {".py", ".md", ".rst", ".txt"}
MAN = re.compile(r"\.[1-9][a-z0-9]*\.gz$")
ROFF = re.compile(r"\\f.|\\[&|^]|^[.'][A-Za-z]+ ?|^[.']\\\".*", re.MULTILINE)
WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Corpus:
    """Texts, and texts that are held out."""

    texts: list[str]
    held_out: list[str]


def corpus(count: int, place: Path) -> Corpus:
    """The first *count* texts, read from *place* where they were written before."""
    kept = place / f"texts-{REAL}.json"
    if not kept.exists():
        place.mkdir(parents=True, exist_ok=True)
        pieces = _collected(REAL + HELD_OUT)
        kept.write_text(json.dumps(pieces), "utf-8")
    pieces = json.loads(kept.read_text("utf-8"))
    held_out, texts = pieces[:HELD_OUT], pieces[HELD_OUT:]
    if count > len(texts):
        texts = texts + list(islice(_recombined(texts), count - len(texts)))
    return Corpus(texts[:count], held_out)


def asked_of(source: Corpus) -> list[str]:
    """The queries over the texts: 200 windows, and 100 questions of LoCoMo where the data is there."""
    return windows(source, 200) + questions(100)


def windows(source: Corpus, count: int) -> list[str]:
    """*count* pieces of 5 to 15 words: of the first 1,000 texts and of held out ones, in turn."""
    draw = random.Random(SEED + 1)
    found: list[str] = []
    while len(found) < count:
        text = draw.choice(source.held_out if len(found) % 2 else source.texts[:1_000])
        words = list(WORD.finditer(text))
        length = draw.randint(5, 15)
        if len(words) >= length:
            first = draw.randrange(len(words) - length + 1)
            found.append(text[words[first].start() : words[first + length - 1].end()])
    return found


def questions(count: int) -> list[str]:
    """*count* questions of LoCoMo, or none where the data is absent."""
    try:
        conversations = load_dataset("locomo-dev").conversations
    except DatasetError as error:
        print(f"no questions of LoCoMo: {error}", file=sys.stderr)
        return []
    asked = [question.text for each in conversations for question in each.questions]
    return random.Random(SEED + 2).sample(asked, min(count, len(asked)))


def _collected(count: int) -> list[str]:
    """*count* texts, none twice."""
    files = sorted({path for place in {"/usr", sys.base_prefix} for path in _files(Path(place))})
    draw = random.Random(SEED)
    draw.shuffle(files)
    found: list[str] = []
    seen: set[int] = set()
    for path in files:
        found += _pieces(path, draw, seen)
        if len(found) >= 2 * count:
            break
    if len(found) < count:
        raise SystemExit(f"the machine has {len(found)} texts, {count} are needed")
    return draw.sample(found, count)


def _files(place: Path) -> Iterator[Path]:
    for path in place.rglob("*"):
        if (path.suffix in SUFFIXES or MAN.search(path.name)) and path.is_file():
            yield path.resolve()


def _pieces(path: Path, draw: random.Random, seen: set[int]) -> Iterator[str]:
    """The texts of a file: paragraphs of it that were not *seen*, together until they are long enough."""
    if path.stat().st_size > LARGEST_FILE:
        return
    raw = path.read_bytes()
    if path.suffix == ".gz":
        raw = ROFF.sub("", gzip.decompress(raw).decode("utf-8", "ignore")).encode()
    kept: list[str] = []
    size, wanted = 0, draw.randint(LEAST, 900)
    for paragraph in re.split(r"\n\s*\n", raw.decode("utf-8", "ignore")):
        paragraph = paragraph.strip()[:MOST]
        if not paragraph or hash_of(paragraph) in seen or size + len(paragraph) > MOST:
            continue
        seen.add(hash_of(paragraph))
        kept.append(paragraph)
        size += len(paragraph) + 2
        if size >= wanted:
            yield "\n\n".join(kept)
            kept, size, wanted = [], 0, draw.randint(LEAST, 900)


def hash_of(text: str) -> int:
    """The same number in every run, unlike ``hash``."""
    return _native.word_hash(text)


def _recombined(texts: list[str]) -> Iterator[str]:
    """Texts of two or more paragraphs that different texts of the corpus have."""
    draw = random.Random(SEED + 3)
    paragraphs = [paragraph for text in texts for paragraph in text.split("\n\n")]
    while True:
        kept: list[str] = []
        size, wanted = 0, draw.randint(LEAST, 900)
        while size < wanted or len(kept) < 2:
            paragraph = draw.choice(paragraphs)
            if size + len(paragraph) > MOST:
                break
            kept.append(paragraph)
            size += len(paragraph) + 2
        if len(kept) > 1 and size >= LEAST:
            yield "\n\n".join(kept)
