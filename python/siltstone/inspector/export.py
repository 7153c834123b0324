"""All pages of a store, or of one session, in one file that needs no network and no server."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from siltstone.figures import require_session
from siltstone.inspector.compaction import change_page
from siltstone.inspector.format import render, static_text
from siltstone.inspector.health import condition
from siltstone.inspector.knowledge import known
from siltstone.inspector.search import recall_log
from siltstone.inspector.sessions import SORTS, Subject, listing, story
from siltstone.inspector.transcript import log_page, places
from siltstone.memory import SessionInfo
from siltstone.memory.base import sessions_of
from siltstone.memory.database_log import MOST_RECALLS

_PAGE = 1_000  #: messages that are rendered at once
MOST = 100_000  #: characters of a text that the file has
_NAMED = re.compile(r'(?<= )(id|aria-labelledby)="([^"]+)"')


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page of the file: its name in the address, what the list calls it, its session, and its content."""

    name: str
    title: str
    session: SessionInfo | None
    content: Markup


class _Links:
    """Where a page is in the file; None for one that it does not have."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers = numbers

    def __call__(self, page: str, **asked: object) -> str | None:
        """The address of a page, as `rendering.link` has it for the server."""
        if page in ("sessions", "health"):
            return f"#{page}"
        number = self._numbers.get(str(asked.get("session")))
        if number is None:
            return None
        match page:
            case "session":
                return f"#s{number}"
            case "compaction":
                return f"#s{number}-c{asked.get('id')}"
            case "message":
                return f"#s{number}-log-m{asked.get('seq')}"
            case "log":
                start = asked.get("start")
                return f"#s{number}-log" if start is None else f"#s{number}-log-m{start}"
            case "facts":
                return f"#s{number}-facts"
        return None


def exported(subject: Subject, session_id: str | None = None, window: int | None = None) -> str:
    """The file, as text. Nothing in the store is changed.

    Args:
        subject: The store.
        session_id: The session that the file has; None for all of the store.
        window: The model's window in tokens, where it is known.

    Raises:
        ConfigError: the store has no such session.
    """
    if session_id is not None:
        require_session(subject.store, session_id)
    infos = [each for each in sessions_of(subject.store) if session_id in (None, each.session_id)]
    links = _Links({each.session_id: number for number, each in enumerate(infos)})
    sheets = list(_sheets(subject, infos, links, window))
    style, script = (static_text(name) for name in ("inspector.css", "inspector.js"))
    policy = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    values = {
        "store": subject.name,
        "short_store": subject.short_name,
        "sheets": sheets,
        "infos": infos,
        "policy": policy,
        "style": Markup(style),  # noqa: S704 - a file of ours
        "script": Markup(script),  # noqa: S704
        "link": links,
        "offline": True,
    }
    return render("export.html", values)


def write_export(subject: Subject, path: Path, session_id: str | None = None) -> int:
    """Writes the file to *path*, whole or not at all, readable by its owner alone. Its bytes.

    Raises:
        FileExistsError: there is a file of that name.
    """
    text = exported(subject, session_id).encode("utf-8", "replace")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return len(text)


def _sheets(subject: Subject, infos: list[SessionInfo], links: _Links, window: int | None) -> Iterator[Sheet]:
    """The pages of the file, in their order."""
    common = {"link": links, "offline": True, "write": False, "store": subject.name, "asked": {}}
    if len(infos) != 1:
        shown = listing(subject, page=max(1, len(infos)))
        shown.sessions, shown.sort, shown.is_up = infos, "first", True
        yield _sheet("sessions", "Sessions", None, "listing.html", {**common, "shown": shown, "sorts": SORTS})
    for number, info in enumerate(infos):
        session = info.session_id
        here = {**common, "session": session, "info": info}
        told = story(subject, session, window, page=None)
        yield _sheet(f"s{number}", "Timeline", info, "story.html", {**here, "shown": told})
        log = subject.store.open_log(session)
        pins = places(log).pins
        for record in sorted(told.records, key=lambda each: each.id):
            change = change_page(subject, session, record.id, pins)
            name = f"s{number}-c{record.id}"
            yield _sheet(name, f"Compaction {record.id}", info, "change.html", {**here, "shown": change})
        end = log.state().next_seq
        pieces = [
            render("messages.html", {**here, "messages": log_page(log, start, start + _PAGE, MOST)})
            for start in range(0, end, _PAGE)
        ]
        content = Markup("").join(Markup(piece) for piece in pieces)  # noqa: S704 - rendered by us
        log_values = {**here, "content": content, "end": end}
        yield _sheet(f"s{number}-log", "Log", info, "whole-log.html", log_values)
        recalls = recall_log(subject, session, step=MOST_RECALLS)
        if recalls.shown:
            yield _sheet(f"s{number}-recalls", "Recalls", info, "recalls.html", {**here, "recalls": recalls})
        facts = known(subject, session, history=True)
        yield _sheet(f"s{number}-facts", "Facts", info, "known.html", {**here, "shown": facts})
    state = {**common, "shown": condition(subject, check=True)}
    yield _sheet("health", "Health", None, "condition.html", state)


def _sheet(
    name: str, title: str, info: SessionInfo | None, template: str, values: dict[str, object]
) -> Sheet:
    """A page whose names of elements are its own: every text in it is escaped, so none looks like a name."""
    content = _NAMED.sub(lambda found: f'{found[1]}="{name}-{found[2]}"', render(template, values))
    return Sheet(name, title, info, Markup(content))  # noqa: S704 - rendered by us


def _digest(text: str) -> str:
    """How a policy names a style or a script that stands in the page."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
