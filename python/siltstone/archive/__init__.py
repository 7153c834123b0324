"""Reads and writes the documented files of an archive, and a file of our own with everything of a session."""

from siltstone.archive.files import (
    Said as Said,
    SegmentArchive as SegmentArchive,
    merge_vectors as merge_vectors,
    read_vectors as read_vectors,
    write_vectors as write_vectors,
)
from siltstone.archive.live import ContextArchive as ContextArchive
from siltstone.archive.records import (
    read_everything as read_everything,
    read_knowledge as read_knowledge,
    read_segments as read_segments,
    segment_of as segment_of,
    write_everything as write_everything,
    write_knowledge as write_knowledge,
    write_segments as write_segments,
)
