"""Traces and metrics by OpenTelemetry, with the names of its conventions for generative AI.

::

    from siltstone import telemetry

    telemetry.enable()  # after your application has set its providers

It needs the extra ``siltstone[otel]``. Until it is called, nothing of OpenTelemetry is imported, and no
operation takes longer for it. Nothing is sent anywhere but to the providers that the application has set.

The names are those of https://github.com/open-telemetry/semantic-conventions-genai, of which the package of
conventions on PyPI has none yet; they are marked there as still in development.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from siltstone import __version__
from siltstone.errors import ModelError, requires
from siltstone.events import CompactionCompleted, CompactionFailed, RecallFailed, RecallInjected
from siltstone.hooks import UNWATCHED, Watched, watch
from siltstone.llm import Completion, CompletionRequest

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider


__all__ = ["CONTENT", "disable", "enable"]

CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable of the environment that allows texts in spans: ``true``, ``span_only``, ``span_and_event``."""

_ON_SPANS: Final = {"true", "span_only", "span_and_event"}
_SCOPE: Final = "siltstone"
_OPERATION: Final = "gen_ai.operation.name"
_ERROR: Final = "error.type"
_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS: Final = tuple(4.0**power for power in range(14))


def enable(
    *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> None:
    """Makes spans and metrics of this process from now on. A second call takes the place of the first.

    Whether texts are captured is read from the environment now: see :data:`CONTENT`.

    Args:
        tracer_provider: Where spans go; None for the one that the application has set.
        meter_provider: Where metrics go, likewise.

    Raises:
        ImportError: the extra ``otel`` is not installed.
    """
    with requires("otel", "siltstone.telemetry"):
        from opentelemetry import metrics, trace

    captures = os.environ.get(CONTENT, "").strip().lower() in _ON_SPANS
    tracer = trace.get_tracer(_SCOPE, __version__, tracer_provider)
    meter = metrics.get_meter(_SCOPE, __version__, meter_provider)
    watch(_Watcher(tracer, meter, captures=captures))


def disable() -> None:
    """Makes no spans and no metrics any more. Those under way come to their ends."""
    watch(None)


class _Watcher:
    """Makes spans with a tracer, and records figures with a meter."""

    def __init__(self, tracer: Any, meter: Any, *, captures: bool) -> None:
        self.tracer, self.captures = tracer, captures
        self.durations = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self.tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self.compactions = meter.create_histogram(
            "siltstone.compaction.duration",
            "s",
            "From the start of a compaction to its end, model calls included.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self.ratios = meter.create_histogram(
            "siltstone.compaction.ratio",
            "1",
            "Tokens of the history after a compaction, as a share of those before it.",
            explicit_bucket_boundaries_advisory=[tenth / 10 for tenth in range(11)],
        )
        self.recalls = meter.create_counter(
            "siltstone.recalls", "{recall}", "Turns for which earlier messages were looked for."
        )

    def operation(self, name: str, store: object, session_id: str, query: str) -> Watched:
        """A span around an operation on records."""
        path = getattr(store, "path", None)
        attributes = {
            _OPERATION: name,
            "gen_ai.memory.store.id": path if isinstance(path, str) else "memory",
            "gen_ai.conversation.id": session_id,
        }
        if query and self.captures:
            attributes["gen_ai.memory.query.text"] = query
        return _Operation(self, name, "INTERNAL", attributes)

    def model_call(self, model: object, request: CompletionRequest) -> Watched:
        """A span around a call of a model; the extractive one is none."""
        provider = getattr(model, "provider", "unknown")
        if provider is None or request.curator is not None:
            return UNWATCHED
        attributes: dict[str, Any] = {
            _OPERATION: "chat",
            "gen_ai.provider.name": str(provider),
            "gen_ai.request.max_tokens": request.max_tokens,
            "siltstone.purpose": request.purpose,
        }
        name = getattr(model, "model", None)
        if isinstance(name, str):
            attributes["gen_ai.request.model"] = name
        if request.temperature is not None:
            attributes["gen_ai.request.temperature"] = float(request.temperature)
        if self.captures:
            attributes |= _said_to(request)
        return _Operation(self, f"chat {name}" if isinstance(name, str) else "chat", "CLIENT", attributes)

    def compaction(self, session_id: str, policy: str, cause: str, seconds: float) -> Watched:
        """The span of a compaction."""
        attributes = {"siltstone.compaction.policy": policy, "siltstone.compaction.reason": cause}
        if session_id:
            attributes["gen_ai.conversation.id"] = session_id
        began = time.time_ns() - int(seconds * 1e9)
        return _Compaction(
            self.tracer.start_span("siltstone.compact", attributes=attributes, start_time=began)
        )

    def event(self, event: object) -> None:
        """Records what an event has of figures."""
        if isinstance(event, CompactionCompleted | CompactionFailed):
            labels = {"siltstone.compaction.policy": event.policy, "siltstone.compaction.reason": event.cause}
            if isinstance(event, CompactionFailed):
                labels[_ERROR] = event.reason
            elif event.tokens_before:
                self.ratios.record(event.tokens_after / event.tokens_before, labels)
            self.compactions.record(event.duration, labels)
        elif isinstance(event, RecallInjected):
            self.recalls.add(1, {"siltstone.recall.outcome": event.reason or "placed"})
        elif isinstance(event, RecallFailed):
            self.recalls.add(1, {"siltstone.recall.outcome": "failed", _ERROR: event.error_class})


class _Operation(Watched):
    """A span that is the current one from its beginning to its end."""

    __slots__ = ("_attributes", "_began", "_span", "_token", "_watcher")

    def __init__(
        self, watcher: _Watcher, name: str, kind: Literal["INTERNAL", "CLIENT"], attributes: dict[str, Any]
    ) -> None:
        from opentelemetry.trace import SpanKind

        self._watcher, self._attributes, self._began = watcher, attributes, 0.0
        self._span: Span = watcher.tracer.start_span(name, kind=SpanKind[kind], attributes=attributes)
        self._token: Any = None

    def __enter__(self) -> Self:
        from opentelemetry import context, trace

        self._token = context.attach(trace.set_span_in_context(self._span))
        self._began = time.perf_counter()
        return self

    def __exit__(self, *raised: object) -> None:
        from opentelemetry import context

        labels: dict[str, Any] = {
            name: self._attributes[name]
            for name in (_OPERATION, "gen_ai.provider.name", "gen_ai.request.model")
            if name in self._attributes
        }
        if raised[0] is not None:
            labels[_ERROR] = _failed(self._span, raised[1])
        self._watcher.durations.record(time.perf_counter() - self._began, labels)
        context.detach(self._token)
        self._span.end()

    def records(self, records: Sequence[Any]) -> None:
        """Their number; and their texts, where that is allowed."""
        ids = [str(entry_id) for each in records if (entry_id := getattr(each, "entry_id", None))]
        self.count(len(records), ids[0] if len(records) == len(ids) == 1 else "")
        if self._watcher.captures:
            self._span.set_attribute("gen_ai.memory.records", _json([_record(each) for each in records]))

    def count(self, number: int, record_id: str = "") -> None:
        """How many records it was about, and the id where it was one."""
        self._span.set_attribute("gen_ai.memory.record.count", number)
        if record_id:
            self._span.set_attribute("gen_ai.memory.record.id", record_id)

    def completed(self, completion: Completion) -> None:
        """Records the cost of the call and the reason of its end; the answer too, where that is allowed."""
        span, usage = self._span, completion.usage
        if usage is not None:
            if usage.model:
                span.set_attribute("gen_ai.response.model", usage.model)
            span.set_attribute("gen_ai.usage.input_tokens", usage.input_tokens)
            span.set_attribute("gen_ai.usage.output_tokens", usage.output_tokens)
            span.set_attribute("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens)
            labels = {_OPERATION: "chat", "gen_ai.provider.name": self._attributes["gen_ai.provider.name"]}
            if usage.model:
                labels["gen_ai.response.model"] = usage.model
            for kind, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
                self._watcher.tokens.record(tokens, {**labels, "gen_ai.token.type": kind})
        if completion.stop_reason:
            span.set_attribute("gen_ai.response.finish_reasons", [completion.stop_reason])
        if self._watcher.captures:
            answer = {"role": "assistant", "parts": [{"type": "text", "content": completion.text}]}
            span.set_attribute(
                "gen_ai.output.messages",
                _json([{**answer, "finish_reason": completion.stop_reason or "stop"}]),
            )


class _Compaction(Watched):
    """A span that begins in one call and may end in another; its steps are under it while they run."""

    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    def during(self) -> Watched:
        """Around a step: the spans of its calls are under the span of the compaction."""
        from opentelemetry.trace import set_span_in_context

        return _Step(set_span_in_context(self._span))

    def ended(self, event: CompactionCompleted | CompactionFailed) -> None:
        """Its figures, or why it came to nothing."""
        if isinstance(event, CompactionCompleted):
            self._span.set_attributes(
                {
                    "gen_ai.conversation.compacted": True,  # the convention has no false
                    "siltstone.compaction.tokens_before": event.tokens_before,
                    "siltstone.compaction.tokens_after": event.tokens_after,
                    "siltstone.compaction.messages_before": event.messages_before,
                    "siltstone.compaction.messages_after": event.messages_after,
                }
            )
        else:
            _mark(self._span, event.reason)
        self._span.end()


class _Step(Watched):
    """Makes a context the current one for a while."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: Context) -> None:
        self._context, self._token = context, None

    def __enter__(self) -> Self:
        from opentelemetry import context

        self._token = context.attach(self._context)  # type: ignore[assignment]
        return self

    def __exit__(self, *raised: object) -> None:
        from opentelemetry import context

        context.detach(self._token)  # type: ignore[arg-type]


def _failed(span: Span, error: object) -> str:
    """The class of *error*, which *span* is marked with; its message may be somebody's text."""
    if isinstance(error, ModelError) and error.__cause__ is not None:
        error = error.__cause__  # the provider's error
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    _mark(span, name)
    return name


def _mark(span: Span, error_type: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute(_ERROR, error_type)
    span.set_status(StatusCode.ERROR)


def _record(record: Any) -> dict[str, Any]:
    known = {"id": getattr(record, "entry_id", None), "score": getattr(record, "score", None)}
    told = {name: value for name, value in known.items() if value}
    return {"content": record.content, **({**told, "id": str(told["id"])} if "id" in told else told)}


def _said_to(request: CompletionRequest) -> dict[str, str]:
    """The prompt of the model, if all of it is text: a live prefix is the caller's own messages."""
    messages = list(request.messages)
    if not all(isinstance(each, dict) and isinstance(each.get("content"), str) for each in messages):
        return {}
    told = [
        {"role": each["role"], "parts": [{"type": "text", "content": each["content"]}]} for each in messages
    ]
    return {"gen_ai.input.messages": _json(told)}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
