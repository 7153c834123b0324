"""Reads and writes the documented files of an archive, and a file of our own with everything of a session."""

from siltstone.archive.files import (
    SegmentArchive,
    Vectors,
    dedup_key,
    merge_vectors,
    read_vectors,
    write_vectors,
)
from siltstone.archive.live import Archived, ContextArchive, Said
from siltstone.archive.records import (
    Loaded,
    Record,
    Segment,
    read_everything,
    read_knowledge,
    read_segments,
    segment_of,
    write_everything,
    write_knowledge,
    write_segments,
)

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
