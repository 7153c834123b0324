"""The turn boundary: what an agent calls before every model call."""

from siltstone.session.aio import AsyncSession
from siltstone.session.asking import Answer
from siltstone.session.boundary import Prepared
from siltstone.session.compactions import CompactionRecord, SummaryRecord
from siltstone.session.retention import Retention
from siltstone.session.sync import Session, StoreOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from siltstone.session.carrying import (
        Imported,
        export_everything,
        export_knowledge,
        export_segments,
        export_vectors,
        import_everything,
        import_knowledge,
        import_segments,
    )

__all__ = [
    "Answer",
    "AsyncSession",
    "CompactionRecord",
    "Imported",
    "Prepared",
    "Retention",
    "Session",
    "StoreOptions",
    "SummaryRecord",
    "export_everything",
    "export_knowledge",
    "export_segments",
    "export_vectors",
    "import_everything",
    "import_knowledge",
    "import_segments",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'siltstone.session' has no attribute {name!r}")
    from siltstone.session import carrying  # with files of every format: most sessions read and write none

    return getattr(carrying, name)
