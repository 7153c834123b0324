"""The documented archive in use: a folder with messages, facts and vectors, and the search over them."""

from __future__ import annotations

import logging
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from operator import attrgetter
from pathlib import Path
from threading import RLock
from typing import Any, Final

from siltstone import checks
from siltstone.archive import records
from siltstone.archive.files import (
    Said,
    SegmentArchive,
    append_vectors,
    dimension_of,
    id_bytes,
    merge_vectors,
    read_vectors,
)
from siltstone.documented import DIMENSION, KeptBm25, hash_vector, hybrid_scores, passes
from siltstone.knowledge import Fact
from siltstone.knowledge.base import now_ms

_log = logging.getLogger("siltstone")

_DAY_MS: Final = 86_400_000
_SPARE: Final = 64  #: vectors without a segment that a file may have, beside one for each segment
HASHED: Final = "hash"
"""The name of the hashed vectors, which every archive can make."""
MAKER: Final = "vectors.model"  #: names the maker of the vectors of the folder; without it they are hashed

Embed = Callable[[str], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Archived:
    """The result of adding messages: the numbers of new, known, blank and failed ones, and the errors."""

    stored: int = 0
    duplicates: int = 0
    blank: int = 0
    failed: int = 0
    failures: tuple[str, ...] = ()


class _Vectors:
    """Vectors of length 1 by their names, in one table: a search multiplies all of them at once."""

    def __init__(self, dimension: int) -> None:
        import numpy as np  # late: slow to import, and only an archive in use needs it

        self._numpy = np
        self._rows = np.empty((_SPARE, dimension))
        self._used = 0
        self.places: dict[str, int] = {}

    def update(self, vectors: Mapping[str, Sequence[float]]) -> None:
        for name, vector in vectors.items():
            if self._used == len(self._rows):
                kept = list(self.places.values())  # without the rows of names that left
                self.places = dict(zip(self.places, range(len(kept)), strict=True))
                self._rows = self._numpy.resize(
                    self._rows[kept], (2 * len(kept) + _SPARE, self._rows.shape[1])
                )
                self._used = len(kept)
            self._rows[self._used] = self._unit(vector)
            self.places[name] = self._used
            self._used += 1

    def cosines(self, asked: Sequence[float], names: Iterable[str]) -> list[float]:
        """The cosine of each with *asked*; 0 for a name without a vector."""
        # Without BLAS, whose threads cost more than they save. Rounded: equal rows are equal in any place.
        found = self._numpy.einsum("ij,j->i", self._rows[: self._used], self._unit(asked)).round(12)
        scores = [*found.tolist(), 0.0]
        return [scores[self.places.get(name, -1)] for name in names]

    def _unit(self, vector: Sequence[float]) -> Any:
        row = self._numpy.asarray(vector, dtype=float)
        return row / (sqrt(row @ row) or 1.0)


class ContextArchive:
    """``segments.jsonl``, ``knowledge.jsonl`` and ``vectors.bin`` of a folder.

    Each file is read at its first use, and again when another process has written messages. A text whose
    vector is in the file is not embedded again. Several sessions and processes can share a folder: each write
    locks it.

    Args:
        folder: The folder; it is made by the first write.
        max_segments: The most segments; the oldest are removed first.
        eviction_days: A segment that is older than so many days is removed; 0 means never.
        embed: Makes the vector of a text. If it fails, the hashed vector of the same dimension is kept.
        dimension: The dimension of the vectors, 8 or more.
        embedder_id: The name of the embedder. Vectors of a folder that another embedder has made, or of
            another dimension, stay as they are: then a search goes by words alone, and a warning says so.
        redact: Removes the secrets from a text before it is written.

    Raises:
        ConfigError: a value out of its bounds.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        max_segments: int = 20_000,
        eviction_days: int = 90,
        embed: Embed | None = None,
        dimension: int = DIMENSION,
        embedder_id: str = HASHED,
        redact: Callable[[str], str] = str,
    ) -> None:
        checks.at_least("dimension", dimension, 8)
        self.folder: Final = Path(folder)
        self.segments: Final = SegmentArchive(folder, max_segments=max_segments, eviction_days=eviction_days)
        self._embed, self._dimension, self._redact = embed, dimension, redact
        self._maker = embedder_id
        self._vectors: _Vectors | None = None
        self._stamp: records.Stamp | None = None  # of their file, as we wrote it last
        self._texts = KeptBm25()
        self._lines: dict[str, list[records.Segment]] = {}
        self._revision = 0  # of the segments that all of these were made of
        self._lock = RLock()

    def add(self, session_id: str, said: Iterable[Said]) -> Archived:
        """Archives messages. A failing message does not stop the others.

        The vectors are written after the messages; then a search finds them by words and by vectors.
        """
        new: list[records.Segment] = []
        duplicates = blank = 0
        failures: list[str] = []
        with self._lock:
            clean: list[Said] = []
            for each in said:
                if not each.content.strip():
                    blank += 1
                    continue
                try:
                    clean.append(each._replace(content=self._redact(each.content)))
                except (OSError, ValueError) as error:
                    failures.append(str(error))
            for added in self.segments.add_all(session_id, clean):
                if added is None:
                    duplicates += 1
                elif isinstance(added, Exception):
                    failures.append(str(added))
                else:
                    new.append(added)
            if new:
                self._lines.clear()
                self._keep_vectors(new)
        return Archived(len(new), duplicates, blank, len(failures), tuple(failures))

    def replace(self, session_id: str, segments: Iterable[records.Segment]) -> None:
        """Replaces the segments of a session, and removes the vectors of those that are gone.

        Raises:
            ConfigError: a segment has an id of more than 65,535 bytes. Nothing was written.
            OSError: the files cannot be read or written. Called again, it removes what is left.
        """
        kept = list(segments)
        for each in kept:
            id_bytes(each.id)
        with self._lock, self.segments.alone():
            before = {each.id for each in self.segments.segments(session_id)}
            # First the vectors: if that fails, the segments still tell which ones the next call must remove.
            self._forget_vectors(frozenset(before - {each.id for each in kept}))
            self.segments.replace(session_id, kept)
            now = self.segments.segments(session_id)
            self._lines.clear()
            self._keep_vectors(now, gone=frozenset(before - {each.id for each in now}))

    def put_facts(self, session_id: str, facts: Iterable[Fact]) -> int:
        """Replaces the session's facts in ``knowledge.jsonl``. Returns the number of lines of the file.

        Retracted facts are left out. A line also has its session, in addition to the documented fields.
        """
        path = self.folder / "knowledge.jsonl"
        own = [fact for fact in facts if fact.deleted_at is None]
        if not own and not path.exists():
            return 0
        with self._lock, self.segments.alone():
            names = {fact.id for fact in own}
            others = [
                fields
                for fields in records.read_lines(path, lambda line: line)
                if fields.get("sessionId") != session_id and fields.get("id") not in names
            ]
            records.remove_leftovers(path)
            lines = [*others, *(records.fact_fields(fact) | {"sessionId": session_id} for fact in own)]
            return records.write_lines(path, lines)

    def evict(self, now: int | None = None) -> int:
        """Removes segments older than ``eviction_days``, with their vectors. Returns their number."""
        with self._lock:
            moment = now_ms() if now is None else now
            if not self.segments.has_older(moment):
                return 0
            with self.segments.alone():
                before = {each.id for each in self.segments.segments()}
                gone = self.segments.evict(moment)
                if gone:
                    self._lines.clear()
                    left = {each.id for each in self.segments.segments()}
                    self._keep_vectors((), gone=frozenset(before - left))
        return gone

    def search(
        self,
        query: str,
        limit: int = 8,
        *,
        session_id: str | None = None,
        topic: str | None = None,
        entity: str | None = None,
        min_score: float = 0.7,
        vector_weight: float = 0.7,
        bm25_weight: float = 0.3,
        time_decay: float = 0.995,
        now: int | None = None,
    ) -> list[tuple[records.Segment, float]]:
        """The documented hybrid search: segments with their scores, best first, then newer first.

        Args:
            query: Any text.
            limit: The most segments.
            session_id: Only segments of this session; None for all.
            topic: Only segments of this topic, of the documented table.
            entity: Only segments with this entity.
            min_score: The least score, divided by the weights of the sides that found a segment.
            vector_weight: The weight of the cosine.
            bm25_weight: The weight of BM25.
            time_decay: The factor on a score for each day of age.
            now: The time, in ms since 1970.
        """
        if limit < 1 or not query.strip():
            return []
        with self._lock:
            segments = self._line(session_id)
            if topic is not None or entity is not None:
                segments = [
                    each
                    for each in segments
                    if (topic is None or topic in each.topics) and (entity is None or entity in each.entities)
                ]
            words = self._best(self._texts.scores(query, [each.content for each in segments]), limit)
            asked = self._vector_of(query)
            near = self._best(self._loaded().cosines(asked, [each.id for each in segments]), limit)
        moment = now_ms() if now is None else now
        ages = {place: (moment - segments[place].timestamp) / _DAY_MS for place in {*words, *near}}
        scores = hybrid_scores(
            near, words, ages, vector_weight=vector_weight, bm25_weight=bm25_weight, time_decay=time_decay
        )
        found = [
            (segments[place], score)
            for place, score in scores.items()
            if passes(
                score,
                min_score,
                by_vector=place in near,
                by_words=place in words,
                vector_weight=vector_weight,
                bm25_weight=bm25_weight,
            )
        ]
        found.sort(key=lambda each: (-each[1], -each[0].timestamp, each[0].id))
        return found[:limit]

    def timeline(
        self, session_id: str | None = None, start: int | None = None, end: int | None = None
    ) -> list[records.Segment]:
        """The segments of a session, or all, from *start* to below *end* (ms), oldest first."""
        with self._lock:
            line = self._line(session_id)
        stamp = attrgetter("timestamp")
        first = 0 if start is None else bisect_left(line, start, key=stamp)
        last = len(line) if end is None else bisect_left(line, end, key=stamp)
        return line[first:last]

    def stats(self) -> dict[str, int]:
        """How many segments, sessions, vectors and bad lines there are."""
        segments = self.timeline()
        return {
            "segments": len(segments),
            "sessions": len({each.session_id for each in segments}),
            "vectors": len(self._loaded().places),
            "skipped": self.segments.skipped,
        }

    def _best(self, scores: Sequence[float], limit: int) -> dict[int, float]:
        """The best scores above 0, at most twice *limit*, by their places."""
        places = [place for place, score in enumerate(scores) if score > 0]
        places.sort(key=scores.__getitem__, reverse=True)
        return {place: scores[place] for place in places[: 2 * limit]}

    def _line(self, session_id: str | None) -> list[records.Segment]:
        """The segments of a session, or all, oldest first. The list is the same until segments change."""
        self._follow()
        key = session_id or ""
        if key not in self._lines:
            self._lines[key] = list(self.segments.segments(session_id))
        return self._lines[key]

    def _follow(self) -> None:
        """Forgets what was made of the files, if another process has written messages since."""
        len(self.segments)  # looks at the file
        if self.segments.revision != self._revision:
            self._revision = self.segments.revision
            self._lines.clear()
            self._vectors = self._stamp = None

    def _vector_of(self, text: str) -> Sequence[float]:
        if self._embed is not None:
            try:
                vector = self._embed(text)
                if len(vector) == self._dimension:
                    return vector
                _log.warning("a vector of %d values, not %d", len(vector), self._dimension)
            except Exception:
                _log.exception("an embedder failed; the hashed vector is kept")
        return hash_vector(text, self._dimension)

    def _keep_vectors(
        self, segments: Sequence[records.Segment], *, gone: frozenset[str] = frozenset()
    ) -> None:
        self._follow()
        known = self._loaded()
        places = known.places
        new = {each.id: self._vector_of(each.content) for each in segments if each.id not in places}
        if len(places) > 2 * len(self.segments) + _SPARE:  # of segments that left because there were too many
            gone |= places.keys() - {each.id for each in self.segments.segments()}
        for name in gone:
            places.pop(name, None)
        if not new and not gone:
            return
        try:
            with self.segments.alone():
                self._write_vectors(new, gone)
        except OSError:
            self._stamp = None
            _log.exception("the vectors of %d segments were not written; they are found by words", len(new))
        known.update(new)

    def _forget_vectors(self, gone: frozenset[str]) -> None:
        """Removes the vectors of *gone* from the file. An error is raised: nobody else would remove them."""
        self._follow()
        if not gone:
            return
        try:
            self._write_vectors({}, gone)
        except OSError:
            self._stamp = None
            raise
        for name in gone:
            self._loaded().places.pop(name, None)

    def _write_vectors(self, new: Mapping[str, Sequence[float]], gone: frozenset[str]) -> None:
        """Appends to the file, if nobody else has written it since; else merges with its content."""
        path, stamp = self.folder / "vectors.bin", self._stamp
        if stamp is None and not self._is_ours():
            dimension = dimension_of(path)
            records.remove_leftovers(path)
            if gone and dimension is not None:  # the rows of segments that left the archive leave the file
                merge_vectors(path, {}, dimension, gone=gone)
            return
        if stamp is None and self._maker_of() != self._maker:
            with records.replaced(self.folder / MAKER) as file:
                file.write(self._maker.encode())
        if gone or stamp is None or not append_vectors(path, new, self._dimension, stamp):
            records.remove_leftovers(path)
            is_ours = merge_vectors(path, new, self._dimension, gone=gone) > 0
            self._stamp = records.stamp_of(path) if is_ours else None
        else:
            self._stamp = records.stamp_of(path)

    def _loaded(self) -> _Vectors:
        """The vectors, read once. Vectors of another embedder stay in their file, and are not here."""
        if self._vectors is None:
            found = read_vectors(self.folder / "vectors.bin") if self._is_ours() else None
            self._vectors = _Vectors(self._dimension)
            self._vectors.update({} if found is None else found.by_id)
        return self._vectors

    def _is_ours(self) -> bool:
        """Whether the file has no vectors, or such as this archive makes."""
        dimension, maker = dimension_of(self.folder / "vectors.bin"), self._maker_of()
        if dimension is None or (dimension, maker) == (self._dimension, self._maker):
            return True
        if self._vectors is None:
            _log.warning(
                "the vectors of %s are of %s with %d dimensions, and %s makes %d: they stay as they are, and "
                "a search goes by words alone; delete vectors.bin to begin anew",
                self.folder, maker, dimension, self._maker, self._dimension,
            )  # fmt: skip
        return False

    def _maker_of(self) -> str:
        """The embedder that made the vectors of the folder."""
        try:
            return (self.folder / MAKER).read_text("utf-8", "replace").strip() or HASHED
        except FileNotFoundError:
            return HASHED
