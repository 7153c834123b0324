"""The turn boundary: the step of an agent before every model call."""

from typing import TYPE_CHECKING

from siltstone.late import names_of

if TYPE_CHECKING:
    from siltstone.session.aio import AsyncSession as AsyncSession
    from siltstone.session.boundary import Prepared as Prepared
    from siltstone.session.compactions import (
        CompactionRecord as CompactionRecord,
        SummaryRecord as SummaryRecord,
    )
    from siltstone.session.opening import StoreOptions as StoreOptions
    from siltstone.session.recovery import Answer as Answer
    from siltstone.session.retention import Retention as Retention
    from siltstone.session.session import Session as Session
    from siltstone.session.transfer import (
        Imported as Imported,
        export_everything as export_everything,
        export_knowledge as export_knowledge,
        export_segments as export_segments,
        export_vectors as export_vectors,
        import_everything as import_everything,
        import_knowledge as import_knowledge,
        import_segments as import_segments,
    )
else:
    __getattr__, __dir__, __all__ = names_of(
        __name__,
        {
            "aio": "AsyncSession",
            "boundary": "Prepared",
            "compactions": "CompactionRecord SummaryRecord",
            "opening": "StoreOptions",
            "recovery": "Answer",
            "retention": "Retention",
            "session": "Session",
            "transfer": "Imported export_everything export_knowledge export_segments export_vectors "
            "import_everything import_knowledge import_segments",
        },
    )
