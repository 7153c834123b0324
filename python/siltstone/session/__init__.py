"""The turn boundary: the step of an agent before every model call."""

from typing import TYPE_CHECKING

from siltstone.late import names_of

if TYPE_CHECKING:
    from siltstone.session.aio import AsyncSession
    from siltstone.session.asking import Answer
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
    from siltstone.session.compactions import CompactionRecord, SummaryRecord
    from siltstone.session.options import StoreOptions
    from siltstone.session.prepared import Prepared
    from siltstone.session.retention import Retention
    from siltstone.session.sync import Session
else:
    __getattr__ = names_of(
        __name__,
        {
            "aio": "AsyncSession",
            "asking": "Answer",
            "prepared": "Prepared",
            "carrying": "Imported export_everything export_knowledge export_segments export_vectors "
            "import_everything import_knowledge import_segments",
            "compactions": "CompactionRecord SummaryRecord",
            "retention": "Retention",
            "options": "StoreOptions",
            "sync": "Session",
        },
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
