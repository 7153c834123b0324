"""Spans and metrics, as the real SDK of OpenTelemetry takes them."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk comes with the group test")

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import siltstone
import siltstone.engine
import siltstone.errors
from conversations import small, turns
from siltstone import Completion, CompletionRequest, MemoryStore, Session, events, telemetry
from siltstone.hooks import UNWATCHED, watch_operation
from siltstone.llm import UsageRecord

SECRET = "The vault opens with 4711."


class Seen:
    def __init__(self) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader])

    def spans(self, name: str | None = None) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if name in (None, span.name)]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.spans(name)
        return span

    def points(self) -> dict[str, list[Any]]:
        read = self._reader.get_metrics_data()
        return {
            metric.name: list(metric.data.data_points)
            for resource in (read.resource_metrics if read else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def seen() -> Iterator[Seen]:
    found = Seen()
    telemetry.enable(tracer_provider=found.tracers, meter_provider=found.meters)
    yield found
    telemetry.disable()


class Named:
    """A model of the caller's, as those of ``siltstone.models`` are."""

    provider, model = "openai", "gpt-5-mini"

    def __call__(self, request: CompletionRequest) -> Completion:
        with trace.get_tracer("the SDK of the provider").start_as_current_span("POST"):
            usage = UsageRecord("gpt-5-mini-2025-08-07", 900, 40, 300)
            return Completion("They spoke of rivers.", usage, "stop")


def talk(session: Session) -> None:
    session.append({"role": "user", "content": SECRET}, {"role": "assistant", "content": "Noted."})
    session.append(*(message for turn in turns(12) for message in turn))


def compacted(tmp_path: Any, model: Any = None, **options: Any) -> Session:
    session = Session.open(tmp_path, "chat-1", policy=small(), model=model or Named(), **options)
    talk(session)
    assert isinstance(session.compact(), siltstone.engine.Compacted)
    return session


def parent(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def test_a_search_is_a_span_with_the_names_of_the_conventions(seen: Seen, tmp_path: Any) -> None:
    with compacted(tmp_path) as session:
        session.search("what opens the vault", limit=1)
    span = seen.one("search_memory")
    assert span.kind is SpanKind.INTERNAL
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "search_memory",
        "gen_ai.memory.store.id": session.store.path,  # type: ignore[attr-defined]
        "gen_ai.conversation.id": "chat-1",
        "gen_ai.memory.record.count": 1,
        "gen_ai.memory.record.id": "1",
    }


def test_a_compaction_is_a_span_with_its_model_call_and_its_write_in_it(seen: Seen, tmp_path: Any) -> None:
    with compacted(tmp_path) as session:
        (record,) = session.compactions()
    span, chat, create = seen.one("siltstone.compact"), seen.one("chat gpt-5-mini"), seen.one("create_memory")
    told = dict(span.attributes or {})
    assert told["gen_ai.conversation.compacted"] is True
    assert told["gen_ai.conversation.id"] == "chat-1"
    assert told["siltstone.compaction.policy"] == "threshold"
    assert told["siltstone.compaction.reason"] == "manual"
    assert told["siltstone.compaction.tokens_before"] == record.tokens_before
    assert told["siltstone.compaction.tokens_after"] == record.tokens_after
    assert told["siltstone.compaction.messages_before"] > told["siltstone.compaction.messages_after"]
    assert span.context is not None
    assert parent(chat) == parent(create) == span.context.span_id
    assert chat.kind is SpanKind.CLIENT
    told = dict(chat.attributes or {})
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.provider.name"] == "openai"
    assert told["gen_ai.request.model"] == "gpt-5-mini"
    assert told["gen_ai.response.model"] == "gpt-5-mini-2025-08-07"
    assert told["gen_ai.response.finish_reasons"] == ("stop",)
    assert told["gen_ai.usage.input_tokens"] == 900
    assert told["gen_ai.usage.output_tokens"] == 40
    assert told["gen_ai.usage.cache_read.input_tokens"] == 300
    assert (create.attributes or {})["gen_ai.memory.record.count"] > 2


async def test_an_async_session_makes_the_same_spans(seen: Seen, tmp_path: Any) -> None:
    class Slow(Named):
        async def __call__(self, request: CompletionRequest) -> Completion:  # type: ignore[override]
            return super().__call__(request)

    async with siltstone.AsyncSession.open(tmp_path, "a", policy=small(), model=Slow()) as session:
        await session.append(*(message for turn in turns(12) for message in turn))
        assert isinstance(await session.compact(), siltstone.engine.Compacted)
        await session.search("what")
    span = seen.one("siltstone.compact")
    assert span.context is not None
    assert parent(seen.one("chat gpt-5-mini")) == span.context.span_id
    assert seen.one("search_memory").attributes


pytestmark = pytest.mark.anyio


def test_what_is_saved_taken_back_and_forgotten_is_told(seen: Seen, tmp_path: Any) -> None:
    with Session.open(tmp_path, "chat-1") as session:
        fact = session.save("The lamp is green.")
        session.retract(fact.id)
        session.forget(fact_ids=[fact.id], dry_run=True)
        session.forget(fact_ids=[fact.id])
        session.store.index("chat-1", [siltstone.Entry("one"), siltstone.Entry("two")])
        session.store.forget(entry_ids=[1, 2])
    found = [(span.name, (span.attributes or {})["gen_ai.memory.record.count"]) for span in seen.spans()]
    assert found == [
        ("upsert_memory", 1), ("update_memory", 1), ("delete_memory", 1), ("create_memory", 2),
        ("delete_memory", 2),
    ]  # fmt: skip
    assert (seen.one("upsert_memory").attributes or {})["gen_ai.memory.record.id"] == fact.id


def test_no_text_is_in_a_span_unless_the_standard_variable_allows_it(
    seen: Seen, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with compacted(tmp_path / "one") as session:
        session.search("what opens the vault")
    plain = json.dumps([dict(span.attributes or {}) for span in seen.spans()])
    assert "vault" not in plain
    assert "rivers" not in plain
    for allowed in ("true", "SPAN_ONLY"):
        monkeypatch.setenv(telemetry.CONTENT, allowed)
        told = Seen()
        telemetry.enable(tracer_provider=told.tracers, meter_provider=told.meters)
        with compacted(tmp_path / allowed) as session:
            session.search("what opens the vault")
        search = dict(told.one("search_memory").attributes or {})
        assert search["gen_ai.memory.query.text"] == "what opens the vault"
        first = json.loads(str(search["gen_ai.memory.records"]))[0]
        assert first["content"] == SECRET
        assert first["id"] == "1"
        assert 0 < first["score"] <= 1
        chat = dict(told.one("chat gpt-5-mini").attributes or {})
        assert SECRET in str(chat["gen_ai.input.messages"])
        (answer,) = json.loads(str(chat["gen_ai.output.messages"]))
        assert answer["parts"] == [{"type": "text", "content": "They spoke of rivers."}]
    monkeypatch.setenv(telemetry.CONTENT, "event_only")
    told = Seen()
    telemetry.enable(tracer_provider=told.tracers, meter_provider=told.meters)
    with MemoryStore.open(tmp_path / "one") as store:
        store.search("chat-1", "vault")
    assert "gen_ai.memory.query.text" not in (told.one("search_memory").attributes or {})


def test_a_failure_names_its_class_and_nothing_that_was_said(seen: Seen, tmp_path: Any) -> None:
    def down(request: CompletionRequest) -> str:
        raise ConnectionError(f"cannot send {request.messages}")

    policy = small(on_model_failure="fail")
    with Session.open(tmp_path, "chat-1", policy=policy, model=down) as session:
        talk(session)
        session.compact()
        store = session.store
    with pytest.raises(siltstone.errors.StoreClosedError):
        store.search("chat-1", "vault")
    compact, chat = seen.one("siltstone.compact"), seen.spans("chat")[0]
    assert compact.status.status_code is chat.status.status_code is StatusCode.ERROR
    assert "gen_ai.conversation.compacted" not in (compact.attributes or {})
    assert (chat.attributes or {})["error.type"] == "ConnectionError"
    search = seen.one("search_memory")
    assert (search.attributes or {})["error.type"] == "siltstone.errors.StoreClosedError"
    assert "4711" not in "".join(span.to_json() for span in seen.spans())
    assert all(span.end_time for span in seen.spans())


def test_durations_ratios_tokens_and_recalls_are_metrics(seen: Seen, tmp_path: Any) -> None:
    with compacted(tmp_path, recall=True, redaction=False, context_window=20_000) as session:
        session.append({"role": "user", "content": "What opens the vault?"})
        assert "4711" in str(session.prepare().messages)
    points = seen.points()
    assert {point.attributes["gen_ai.token.type"] for point in points["gen_ai.client.token.usage"]} == {
        "input",
        "output",
    }
    operations = {
        point.attributes["gen_ai.operation.name"] for point in points["gen_ai.client.operation.duration"]
    }
    assert {"chat", "create_memory", "search_memory"} <= operations
    (duration,) = points["siltstone.compaction.duration"]
    assert duration.count == 1
    assert duration.attributes["siltstone.compaction.policy"] == "threshold"
    (ratio,) = points["siltstone.compaction.ratio"]
    assert 0 < ratio.sum < 1
    (recalls,) = points["siltstone.recalls"]
    assert (recalls.value, recalls.attributes["siltstone.recall.outcome"]) == (1, "placed")


def test_nothing_is_watched_before_and_after(tmp_path: Any) -> None:
    found = Seen()
    telemetry.enable(tracer_provider=found.tracers, meter_provider=found.meters)
    telemetry.disable()
    with compacted(tmp_path) as session:
        session.search("vault")
    assert found.spans() == []
    assert watch_operation("search_memory", None, "s") is UNWATCHED


def test_a_session_imports_nothing_of_opentelemetry(tmp_path: Any) -> None:
    code = (
        "import sys, siltstone\n"
        f"with siltstone.Session.open({str(tmp_path)!r}, 's', context_window=4_000) as session:\n"
        "    session.append({'role': 'user', 'content': 'hello'})\n"
        "    assert session.prepare().messages and session.search('hello')[0].in_context\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
        "assert 'siltstone.telemetry' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ImportError, match=r"pip install 'siltstone\[otel\]'"):
        telemetry.enable()


def test_events_are_in_the_log_for_whoever_wants_them(tmp_path: Any, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG, logger="siltstone"):
        compacted(tmp_path).close()
    told = {type(record.event) for record in caplog.records if hasattr(record, "event")}
    assert {events.CompactionStarted, events.CompactionCompleted, events.MemoryIndexed} <= told
