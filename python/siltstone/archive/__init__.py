"""Reads and writes the documented files of an archive, and a file of our own with everything of a session."""

from siltstone.archive.everything import Record, read_everything, write_everything
from siltstone.archive.files import SegmentArchive, dedup_key
from siltstone.archive.lines import Loaded
from siltstone.archive.live import Archived, ContextArchive, Said
from siltstone.archive.records import (
    Segment,
    read_knowledge,
    read_segments,
    segment_of,
    write_knowledge,
    write_segments,
)
from siltstone.archive.vectors import Vectors, merge_vectors, read_vectors, write_vectors

__all__ = [
    "Archived",
    "ContextArchive",
    "Loaded",
    "Record",
    "Said",
    "Segment",
    "SegmentArchive",
    "Vectors",
    "dedup_key",
    "merge_vectors",
    "read_everything",
    "read_knowledge",
    "read_segments",
    "read_vectors",
    "segment_of",
    "write_everything",
    "write_knowledge",
    "write_segments",
    "write_vectors",
]
