"""The turn boundary: the step of an agent before every model call."""

from typing import TYPE_CHECKING

from siltstone.late import names_of

if TYPE_CHECKING:
    from siltstone.session.aio import AsyncSession as AsyncSession
    from siltstone.session.asking import Answer as Answer
    from siltstone.session.carrying import (
        Imported as Imported,
        export_everything as export_everything,
        export_knowledge as export_knowledge,
        export_segments as export_segments,
        export_vectors as export_vectors,
        import_everything as import_everything,
        import_knowledge as import_knowledge,
        import_segments as import_segments,
    )
    from siltstone.session.compactions import (
        CompactionRecord as CompactionRecord,
        SummaryRecord as SummaryRecord,
    )
    from siltstone.session.opening import StoreOptions as StoreOptions
    from siltstone.session.prepared import Prepared as Prepared
    from siltstone.session.retention import Retention as Retention
    from siltstone.session.sync import Session as Session
else:
    __getattr__, __dir__, __all__ = names_of(
        __name__,
        {
            "aio": "AsyncSession",
            "asking": "Answer",
            "prepared": "Prepared",
            "carrying": "Imported export_everything export_knowledge export_segments export_vectors "
            "import_everything import_knowledge import_segments",
            "compactions": "CompactionRecord SummaryRecord",
            "retention": "Retention",
            "opening": "StoreOptions",
            "sync": "Session",
        },
    )
