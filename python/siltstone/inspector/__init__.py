"""A page that shows what a store holds, and what a memory did: ``siltstone inspect STORE``.

It comes with the extra ``siltstone[ui]``, and listens on 127.0.0.1 alone.
"""

from siltstone.errors import requires

with requires("ui", "siltstone inspect"):
    import jinja2 as _jinja2  # noqa: F401 - that all of the extra is there is said before anything begins
    import starlette as _starlette  # noqa: F401
    import uvicorn as _uvicorn  # noqa: F401

from siltstone.inspector.access import Access
from siltstone.inspector.app import inspector_app, serve
from siltstone.inspector.export import exported, write_export
from siltstone.inspector.format import link
from siltstone.inspector.sessions import Subject

__all__ = ["Access", "Subject", "exported", "inspector_app", "link", "serve", "write_export"]
