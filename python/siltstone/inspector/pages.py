"""The answer to each address."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from siltstone import errors
from siltstone.inspector.access import same
from siltstone.inspector.compaction import change_page
from siltstone.inspector.edit import StaleError, asked_of, done, preview
from siltstone.inspector.format import render, static_text
from siltstone.inspector.health import condition
from siltstone.inspector.knowledge import known
from siltstone.inspector.search import RANKERS, find, recall_log
from siltstone.inspector.sessions import COMPACTIONS_A_PAGE as TURNS, SORTS, Subject, listing, story
from siltstone.inspector.transcript import PAGE, became_of, found_in, log_page, one_message, places, view_page
from siltstone.memory import SessionInfo

_log = logging.getLogger("siltstone")

Endpoint = Callable[[Request], Response]

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_MOST = 2**31
_MOST_FIELDS = 20  #: fields of a form
_READ_ONLY = (
    "The inspector was opened for reading. Nothing was changed.",
    "Start it with --write to undo, forget, pin and unpin.",
    403,
)

#: Advice on an error, by its class.
_ADVICE: tuple[tuple[type[Exception], int, str], ...] = (
    (errors.CompactionNotFoundError, 404, "The timeline lists those that there are."),
    (errors.SessionDroppedError, 404, "Somebody deleted it. The list shows the sessions that are left."),
    (
        errors.StoreReplacedError,
        410,
        "Stop the inspector, and start it again with the store that is there now.",
    ),
    (errors.StoreCorruptError, 500, "Run a check on the page Health, or: siltstone doctor STORE"),
    (errors.StoreBusyError, 503, "Another process was writing for a long time. Reload the page."),
    (errors.ConfigError, 404, "Look at the list for what there is."),
)


class BadAddressError(Exception):
    """An address asks for something that no page has."""


class Pages:
    """The pages of one store."""

    def __init__(self, subject: Subject, form: str) -> None:
        self._subject, self._form = subject, form

    def sessions(self, request: Request) -> Response:
        """All sessions."""
        asked = request.query_params
        shown = listing(
            self._subject,
            asked.get("words", ""),
            asked.get("namespace"),
            asked.get("sort", "active"),
            is_up=asked.get("up") == "1",
            start=_number(request, "start", 0),
        )
        return self._page(
            "sessions.html", request, title="Sessions", page="sessions", shown=shown, sorts=SORTS
        )

    def session(self, request: Request) -> Response:
        """One session: its context over time, and its compactions."""
        session_id = _session_id(request)
        window = _number(request, "window", 0) or None
        start = _number(request, "start", 0)
        shown = story(self._subject, session_id, window, start)
        return self._of(request, "session.html", session_id, shown=shown, step=TURNS)

    def compaction(self, request: Request) -> Response:
        """One compaction, message by message."""
        session_id = _session_id(request)
        pins = places(self._subject.store.open_log(session_id)).pins
        shown = change_page(self._subject, session_id, _number(request, "id", 0), pins)
        return self._of(request, "compaction.html", session_id, page="session", shown=shown)

    def log(self, request: Request) -> Response:
        """The messages of the log, or of a view."""
        session_id = _session_id(request)
        session = self._subject.session(session_id)
        log = self._subject.store.open_log(session_id)
        records = session.compactions()
        view = request.query_params.get("view")
        if view is not None:
            n = None if view == "now" else _number(request, "view", 0)
            shown = view_page(log, n, start := _number(request, "start", 0), start + PAGE)
            return self._of(
                request, "view.html", session_id, page="log", shown=shown, view=n, step=PAGE, records=records
            )
        end, grep = log.state().next_seq, request.query_params.get("grep", "")
        start = _number(request, "start", max(0, (end - 1) // PAGE * PAGE))
        start = min(start, max(0, end - 1))
        messages = found_in(log, grep) if grep else log_page(log, start, start + PAGE)
        return self._of(
            request,
            "log.html",
            session_id,
            shown=messages,
            start=start,
            end=end,
            step=PAGE,
            grep=grep,
            damaged=self._subject.store.quarantined(session_id),
            records=records,
        )

    def message(self, request: Request) -> Response:
        """One message with all of its text."""
        session_id = _session_id(request)
        session = self._subject.session(session_id)
        seq = _number(request, "seq", 0)
        found = one_message(self._subject.store.open_log(session_id), seq)
        if found is None:
            raise BadAddressError(f"Session {session_id!r} has no message {seq}.")
        each, raw = found
        became = became_of(session, self._subject.store, each)
        return self._of(request, "message.html", session_id, page="log", each=each, raw=raw, became=became)

    def search(self, request: Request) -> Response:
        """The answer to a query."""
        session_id = _session_id(request)
        asked = request.query_params
        self._subject.session(session_id)
        shown = find(
            self._subject,
            session_id,
            asked.get("q", ""),
            asked.get("ranker", "lexical"),
            _number(request, "limit", 5),
            asked.get("scope", "session"),
        )
        recalls = recall_log(self._subject, session_id, _number(request, "recalls", 0))
        return self._of(request, "search.html", session_id, shown=shown, rankers=RANKERS, recalls=recalls)

    def facts(self, request: Request) -> Response:
        """The facts and rules of a session."""
        session_id = _session_id(request)
        asked = request.query_params
        shown = known(self._subject, session_id, asked.get("q", ""), history=asked.get("history") == "1")
        return self._of(request, "facts.html", session_id, shown=shown)

    def health(self, request: Request) -> Response:
        """The state of the store."""
        shown = condition(self._subject, check=request.query_params.get("check") == "1")
        return self._page("health.html", request, title="Health", page="health", shown=shown)

    def confirm(self, request: Request) -> Response:
        """The preview of a change, and the form that makes it."""
        if not self._subject.write:
            return self.refused(request, *_READ_ONLY)
        asked = asked_of(request.query_params)
        _session_id(request)
        shown = preview(self._subject, asked)
        return self._of(request, "confirm.html", asked.session_id, page="change", shown=shown)

    def change(self, request: Request, fields: dict[str, str]) -> Response:
        """Does what a form confirms."""
        if not self._subject.write:
            return self.refused(request, *_READ_ONLY)
        if not same(fields.get("form", ""), self._form):
            return self.refused(
                request,
                "This form is not one that the inspector gave out. Nothing was changed.",
                "Open the preview anew, and confirm it there.",
                403,
            )
        asked = asked_of(fields)
        try:
            shown = done(self._subject, asked, fields.get("name", ""))
        except StaleError as error:
            return self.refused(request, _sentence(str(error)), "Look at the preview again.", 409)
        return self._of(request, "changed.html", asked.session_id, page="change", shown=shown)

    def unlock(self, _request: Request) -> Response:
        """The page for a browser without a cookie: its script hands the token over."""
        known = {"title": "Locked", "page": "unlock", "session": None}
        return HTMLResponse(render("unlock.html", known), 401)

    def missing(self, request: Request, _error: Exception) -> Response:
        """An address that is none."""
        return self.refused(
            request, "There is no such page.", "The list of sessions leads to all that there are.", 404
        )

    async def changed(self, request: Request) -> Response:
        """Reads a form, and does what it confirms."""
        body = (await request.body()).decode("utf-8", "replace")

        def work(request: Request) -> Response:
            try:
                fields = parse_qsl(body, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
            except ValueError as error:
                raise BadAddressError("The form has more fields than any of the inspector's.") from error
            return self.change(request, dict(fields))

        return await run_in_threadpool(self.with_refusals(work), request)

    def with_refusals(self, endpoint: Endpoint) -> Endpoint:
        """*endpoint*, with a page in the place of whatever it raises."""

        def answer(request: Request) -> Response:
            try:
                return endpoint(request)
            except BadAddressError as error:
                return self.refused(request, str(error), "Go back, or look at the list of sessions.", 404)
            except (errors.SiltstoneError, OSError) as error:
                session_id = request.query_params.get("session")
                if session_id:
                    self._subject.forget_session(session_id)
                status, advice = next(
                    ((code, said) for kind, code, said in _ADVICE if isinstance(error, kind)),
                    (500, "Reload the page. If it stays, run: siltstone doctor STORE"),
                )
                return self.refused(request, _sentence(str(error)), advice, status)
            except Exception:
                _log.exception("the inspector could not make a page")
                return self.refused(
                    request,
                    "The inspector could not make this page. That is a fault of its own.",
                    "The terminal tells more. Nothing in the store was changed.",
                    500,
                )

        return answer

    def refused(self, request: Request, sentence: str, advice: str, status: int) -> Response:
        """A page that says what went wrong, and what to do."""
        return self._page(
            "refused.html", request, status, title="Not shown", page="", sentence=sentence, advice=advice
        )

    def _of(self, request: Request, template: str, session_id: str, **values: Any) -> Response:
        """A page of a session."""
        info = self._subject.info(session_id)
        if info is None:
            stats = self._subject.store.stats(session_id)
            info = SessionInfo(
                session_id, "", "", stats.messages, stats.entries, stats.compactions, 0, None, None
            )
        page = values.pop("page", template.removesuffix(".html"))
        return self._page(
            template, request, title=session_id, page=page, session=session_id, info=info, **values
        )

    def _page(self, template: str, request: Request, status: int = 200, **values: Any) -> Response:
        known = {
            "store": self._subject.name,
            "short_store": self._subject.short_name,
            "write": self._subject.write,
            "form": self._form,
            "session": None,
            "info": None,
            "asked": dict(request.query_params),
            "here": request.url.path,
        }
        return HTMLResponse(render(template, {**known, **values}), status)


def static(request: Request) -> Response:
    """Style, script and drawings."""
    name = request.path_params["name"]
    kind = _TYPES.get(name.rpartition(".")[2])
    if kind is None or name not in ("inspector.css", "inspector.js", "icon.svg"):
        return PlainTextResponse("There is no such file.\n", 404)
    return Response(static_text(name), media_type=kind)


def _session_id(request: Request) -> str:
    session_id = request.query_params.get("session", "")
    if not session_id:
        raise BadAddressError("The address names no session.")
    return session_id


def _number(request: Request, name: str, default: int) -> int:
    """A number of the address, 0 or more."""
    given = request.query_params.get(name)
    if given is None or given == "":
        return default
    if not (given.isascii() and given.isdigit()) or len(given) > len(str(_MOST)):
        raise BadAddressError(f"{name} must be a number from 0 on, got {given!r}.")
    return min(int(given), _MOST)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
