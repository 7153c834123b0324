"""The share of the evidence of questions in the request that asks them: `make evidence`.

python benches/quality/evidence_sent.py --record benches/record
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

from harness import run
from siltstone import ExtractiveModel, Session
from siltstone.compaction.material import earlier_summary, items_of, lines, render
from siltstone.evaluation import Conversation, Dataset
from siltstone.evaluation.report import off_topic
from siltstone.events import CompactionCompleted
from siltstone.llm import CompletionRequest
from siltstone.messages import read_history
from siltstone.tokens import estimate_tokens
from survival import Calls, answerable, as_messages, calls_of

WINDOWS = (4_000, 8_000, 16_000)  # tokens
MOMENTS = (0.55, 0.7, 0.85, 1.0)  # of a conversation
DROPPED_TO = 0.9  # of the window, where the oldest messages are dropped
FULL, KEPT = 0.8, 0.3  # of the window, in the examples of LangChain's middleware
EVERY = {"locomo-dev": 10}  # of its questions every tenth is asked
STRANGE = 20  # questions of other conversations, for each
HEADER = (
    "| dataset | window | dropped | LangChain | no recall | tokens | compactions | with recall | tokens "
    "| of a block | compactions | silent on topic | silent off topic |"
)
Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sent:
    """Sums over questions: the share of the evidence sent, tokens sent and recalled, and silences."""

    questions: int = 0
    share: float = 0.0
    tokens: int = 0
    recalled: int = 0
    silent: int = 0
    strange: int = 0
    strange_silent: int = 0
    compactions: int = 0

    def __add__(self, other: Sent) -> Sent:
        return Sent(*(one + more for one, more in zip(astuple(self), astuple(other), strict=True)))


def main() -> int:
    """2 where there is nothing to measure."""
    return run(__doc__.splitlines()[0], "evidence-sent", page)


def page(datasets: Sequence[Dataset]) -> Iterator[str]:
    """The lines of the record."""
    yield from [
        "No model is asked: summaries are extractive. Each figure is the mean of the questions at four",
        "moments (0.55, 0.7, 0.85 and all of a conversation) whose evidence was said by then. The share is",
        "that of the characters of the evidence's sentences that stand in the request word for word.",
        "*dropped*: the newest messages that fit nine tenths of the window, and nothing else.",
        "*LangChain*: its SummarizationMiddleware, which keeps three tenths of the window when eight are",
        "full, as in its examples; its summaries are those of the same extractive model, as long as ours.",
        "",
        HEADER,
        f"| :--- |{' ---: |' * 12}",
    ]
    for dataset in (each for each in datasets if each.name in ("agent-dev", "locomo-dev")):
        for window in WINDOWS:
            dropped, bare, full = (measured(dataset, window, how) for how in ("dropped", False, True))
            theirs = ""
            if find_spec("langchain"):
                peer = measured(dataset, window, "langchain")
                theirs = f"{peer.share / peer.questions:.3f}"
            yield (
                f"| {dataset.name} | {window:,} | {dropped.share / dropped.questions:.3f} | {theirs} "
                f"| {bare.share / bare.questions:.3f} | {bare.tokens / bare.questions:,.0f} "
                f"| {bare.compactions} "
                f"| {full.share / full.questions:.3f} | {full.tokens / full.questions:,.0f} "
                f"| {full.recalled / full.questions:,.0f} | {full.compactions} "
                f"| {full.silent / full.questions:.3f} | {full.strange_silent / full.strange:.2f} |"
            )


def measured(dataset: Dataset, window: int, recall: Any) -> Sent:
    """The sums of *dataset* in *window* tokens; *recall* may be ``dropped`` or ``langchain``."""
    calls, strange, sums = calls_of(dataset), off_topic(dataset), Sent()
    for conversation in answerable(dataset):
        messages, position = spoken(conversation, calls)
        ends = [max(1, int(len(messages) * moment)) for moment in MOMENTS]
        with tempfile.TemporaryDirectory(prefix="siltstone-evidence-") as place:
            kept: Mapping[int, list[Raw]] = {}
            if recall == "dropped":
                kept = {end: newest(messages[:end], window) for end in ends}
            elif recall == "langchain":
                kept = summarised(messages, ends, window)
            else:
                sums += played(messages, ends, window, recall, Path(place))
            for end in ends:
                asked = [
                    each
                    for each in conversation.questions
                    if all(position[turn] < end for turn in each.evidence)
                ]
                for question in asked[:: EVERY.get(dataset.name, 1)]:
                    if kept:
                        request, tokens, block = kept[end], 0, ""
                    else:
                        prepared = when_asked(question.text, Path(place), end, window, recall)
                        request, tokens = prepared.messages[:-1], prepared.tokens
                        block = prepared.recalled
                    evidence = [turn.text for turn in conversation.turns if turn.id in question.evidence]
                    size = estimate_tokens(block, "blocks") if block else 0
                    said = share(evidence, request)
                    sums += Sent(1, said, tokens, size, int(not block and said < 0.5))
            if recall is True:
                for text in Random(1).sample(strange[conversation.id], STRANGE):
                    silent = not when_asked(text, Path(place), ends[-1], window, recall).recalled
                    sums += Sent(strange=1, strange_silent=int(silent))
    return sums


def spoken(conversation: Conversation, calls: Calls) -> tuple[list[Raw], dict[str, int]]:
    """The messages of *conversation*, and by turn the position of its message."""
    messages = as_messages(conversation, calls)
    if len(messages) == len(conversation.turns):
        for message, turn in zip(messages, conversation.turns, strict=True):
            if isinstance(message["content"], str):
                message["content"] = f"{turn.name}: {message['content']}"
        return messages, {turn.id: at for at, turn in enumerate(conversation.turns)}
    position, at = {}, -1
    role = ""
    for turn in conversation.turns:
        at += turn.role != role
        role = turn.role
        position[turn.id] = at
    return messages, position


def played(messages: list[Raw], ends: list[int], window: int, recall: bool, place: Path) -> Sent:
    """*messages* as a session below *place*, with a copy of its store at each of *ends*."""
    told: list[Any] = []
    with opened(place / "live", window, recall, hooks=[told.append]) as session:
        for count, message in enumerate(messages, 1):
            if message["role"] == "assistant":
                session.prepare()
            session.append(message)
            if count in ends:
                session.prepare()
                shutil.copytree(place / "live", place / str(count))
    return Sent(compactions=sum(isinstance(event, CompactionCompleted) for event in told))


def when_asked(text: str, place: Path, end: int, window: int, recall: bool) -> Any:
    """The request that asks *text* in a copy of the session at *end*."""
    copy = place / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(place / str(end), copy)
    with opened(copy, window, recall) as session:
        session.append({"role": "user", "content": text})
        return session.prepare()


def opened(place: Path, window: int, recall: bool, **options: Any) -> Session:
    return Session.open(
        place,
        "sent",
        model=ExtractiveModel(),
        context_window=window,
        recall=recall,
        knowledge=False,
        **options,
    )


def newest(messages: list[Raw], window: int) -> list[Raw]:
    """The newest messages that fit ``DROPPED_TO`` of *window*."""
    room = DROPPED_TO * window
    for kept in range(len(messages)):
        room -= estimate_tokens([messages[-1 - kept]], "blocks")
        if room < 0:
            return messages[len(messages) - kept :]
    return messages


def summarised(messages: list[Raw], ends: list[int], window: int) -> dict[int, list[Raw]]:
    """What LangChain's middleware leaves of *messages* at each of *ends*, and before each answer up to it."""
    from langchain.agents.middleware import SummarizationMiddleware
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage

    def summary(given: list[Any]) -> str:
        items = []
        for each in given:
            raw = each.additional_kwargs.get("raw")
            items += items_of(read_history([raw]), "") if raw else [earlier_summary((), each.content)]
        asked = [{"role": "user", "content": lines(items)}, {"role": "user", "content": "Summarise."}]
        return ExtractiveModel()(CompletionRequest(asked, window // 8, material=items)).text

    def theirs(message: Raw) -> Iterator[Any]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "assistant":
            calls = [
                {"name": each["name"], "args": each["input"], "id": each["id"], "type": "tool_call"}
                for each in blocks
                if each["type"] == "tool_use"
            ]
            text = "\n".join(each["text"] for each in blocks if each["type"] == "text")
            yield AIMessage(text, tool_calls=calls, additional_kwargs={"raw": message})
            return
        for each in blocks:
            raw = {"raw": {"role": "user", "content": [each]}}
            if each["type"] == "tool_result":
                yield ToolMessage(each["content"], tool_call_id=each["tool_use_id"], additional_kwargs=raw)
            else:
                yield HumanMessage(each["text"], additional_kwargs=raw)

    middleware: Any = SummarizationMiddleware(
        FakeListChatModel(responses=[""]),
        trigger=("tokens", int(FULL * window)),
        keep=("tokens", int(KEPT * window)),
        summarizer=summary,
    )

    def before(kept: list[Any]) -> list[Any]:
        changed = middleware.before_model({"messages": kept}, None) or {"messages": kept}
        return [each for each in changed["messages"] if not isinstance(each, RemoveMessage)]

    kept: list[Any] = []
    found = {}
    for count, message in enumerate(messages, 1):
        if message["role"] == "assistant":
            kept = before(kept)
        kept += theirs(message)
        if count in ends:
            found[count] = [
                each.additional_kwargs.get("raw", {"role": "user", "content": each.content})
                for each in before(kept)
            ]
    return found


def share(evidence: Sequence[str], request: Sequence[Any]) -> float:
    """The share of the characters of *evidence*'s sentences that stand in *request*."""
    text = plain(render(read_history(request), ""))
    sentences = [plain(part) for each in evidence for part in re.split(r"\\n|\n|(?<=[.!?])\s", each)]
    return sum(len(each) for each in sentences if each in text) / max(1, sum(map(len, sentences)))


def plain(text: str) -> str:
    """*text* in lower case, with one blank for all between words."""
    return re.sub(r"\W+", " ", re.sub(r"\\[nrt\"]", " ", text)).strip().lower()


if __name__ == "__main__":
    sys.exit(main())
