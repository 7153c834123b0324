"""An agent that plays a recorded session with one of the presets, and may kill itself.

``python recorded_agent.py PLACE MESSAGES PRESET WINDOW KILL_AT`` appends the missing messages, with a
boundary before each model call, and kills itself after message KILL_AT. PLACE/told.jsonl has the result of
each boundary, and whether each request keeps the promises of the system.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from siltstone import Completion, CompletionRequest, MemoryStore, Session
from siltstone.engine import Compacted
from siltstone.events import CompactionCompleted
from siltstone.llm import ToolCall
from siltstone.messages import (
    RecalledMessage,
    broken_tool_groups,
    encode,
    groups,
    indexable_texts,
    read_history,
    read_message,
)
from siltstone.presets import preset
from siltstone.systems.base import Preset
from siltstone.systems.waterfall.vault import Vault

SESSION = "recorded"
EVERY = frozenset({"waterfall"})  #: systems whose schedule counts messages: a boundary after each of them
NAMESPACES = {"rustant": "team"}  #: of systems that know more across sessions
WORKING = 20  #: messages that ``rustant`` has in view


class Scripted:
    """A deterministic model: its answer is the beginning of the text to summarise.

    If it has the tool to save memories, it saves the first line before it answers.
    """

    def __init__(self) -> None:
        self.requests: list[CompletionRequest] = []

    def __call__(self, request: CompletionRequest) -> Completion:
        self.requests.append(request)
        told = [
            str(message["content"]) for message in request.messages if message["role"] in ("user", "system")
        ]
        said = "\n".join([*told[1:], told[0]] if request.messages[0]["role"] == "system" else told)
        if request.tools and request.messages[-1]["role"] != "tool":
            first = next(line for line in said.splitlines() if line.strip())[:200]
            call = ToolCall("memory_save", {"content": first, "memory_type": "decision"}, "save")
            return Completion("Saving first.", tool_calls=(call,))
        return Completion(f"I noted {len(said)} characters. " + " ".join(said.split())[:400])


@dataclass(slots=True)
class Told:
    """The results of the runs of a session."""

    runs: int = 0
    emergency_runs: int = 0
    broken: int = 0
    over: int = 0
    at: list[int] = field(default_factory=list)  # messages in the log when the policy ran
    stack: int = 0  # the most summaries in a view, each of which says its number
    beyond: int = 0  # the most messages over the limit of rustant that are of no group that straddles it
    blocks: int = 0  # the most recalled blocks of a request
    block_tokens: int = 0  # the most tokens of one
    recalled: int = 0  # requests that had one
    torn: int = 0  # boundaries after which the vault was not complete
    trimmed: set[int] = field(default_factory=set)  # messages that a request left out, and the history has


def session_of(place: Path, name: str | Preset, window: int, model: Any, **options: Any) -> Session:
    made = preset(name)
    shared = {"namespace": NAMESPACES[made.name]} if made.name in NAMESPACES else {}
    return Session.open(place, SESSION, preset=made, context_window=window, model=model, **shared, **options)


def go_on(
    session: Session,
    messages: Sequence[dict[str, Any]],
    *,
    every: bool,
    window: int,
    record: Any,
    kill_at: int | None = None,
) -> None:
    """Appends the rest of *messages*, with a boundary before each model call, or after each message."""
    previous: str | None = None
    known = len(session.log())
    for number, message in enumerate(messages):
        role = read_message(message, 0).role
        if number >= known:
            if role == "assistant" != previous and not every:
                boundary(session, window, record, number)
            session.append(message)
            if every:
                after = messages[number + 1 : number + 2]
                calls = all(read_message(each, 0).role == "assistant" for each in after)
                boundary(session, window, record, number + 1, is_call=calls)
            if number == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        previous = role
    if not every:
        boundary(session, window, record, len(messages))


def boundary(session: Session, window: int, record: Any, end: int, *, is_call: bool = True) -> None:
    """Prepares a request. Between the results of parallel calls no request is sent: their group is open."""
    prepared = session.prepare()
    policies = [
        next(event.policy for event in outcome.events if isinstance(event, CompactionCompleted))
        for outcome in prepared.outcomes
        if isinstance(outcome, Compacted)
    ]
    blocks = [raw for raw in prepared.messages if isinstance(raw, RecalledMessage)]
    count = session._core.view.rule.count_text
    record(
        {
            "policies": policies,
            "end": end,
            "broken": broken_tool_groups(prepared.messages) if is_call else 0,
            "over": prepared.tokens > window,
            "stack": sum(str(raw["content"]).startswith("[Summary ") for raw in prepared.history),
            "beyond": beyond(prepared.history, WORKING),
            "blocks": len(blocks),
            "block_tokens": max((count(str(raw["content"])) for raw in blocks), default=0),
            "torn": bool(policies) and vault_is_torn(session),
            "trimmed": prepared.trimmed,
        }
    )


def beyond(history: Sequence[Any], limit: int) -> int:
    """The messages before the newest *limit*, except groups that reach into these, and the request."""
    said = [each for each in read_history(history) if each.provenance == "original" and each.role != "system"]
    border = len(said) - limit
    older = set(range(max(border, 0)))
    for group in groups(said):
        if group.positions[-1] >= border:
            older.difference_update(group.positions)
    requests = [at for at, each in enumerate(said) if each.role == "user"]
    return len(older.difference(requests[-1:]))


def vault_is_torn(session: Session) -> bool:
    """Whether a message, or a summary in view, is missing in its file."""
    folder = Path(session.store.path) / "vault"  # type: ignore[attr-defined]
    if not folder.is_dir():
        return False
    found = Vault(folder, SESSION).read()
    texts = {memory.seq: memory.content for memory in found.memories}
    said = indexable_texts(read_message(raw, seq) for seq, raw in enumerate(session.log()))
    shown = "\n".join(str(raw["content"]) for raw in session.history()[:3])
    kept = [each.text for each in (found.longterm, found.recent) if each is not None]
    whole = all(texts.get(seq) == text for seq, text in enumerate(said) if text.strip())
    return not whole or not kept or not all(text in shown for text in kept) or bool(found.unreadable)


def killed_and_reopened(
    place: Path,
    messages: Sequence[dict[str, Any]],
    name: str,
    window: int,
    *,
    kill_at: int | None = None,
    spares: bool = False,
) -> Told:
    """Runs *messages* in two processes; the first is killed in the middle, or after message *kill_at*.

    With *spares*, the file of the messages is deleted after the runs.
    """
    place.mkdir(parents=True, exist_ok=True)
    (place / "messages.json").write_text(json.dumps(messages), encoding="utf-8")
    middle = len(messages) // 2 if kill_at is None else kill_at
    for at, code in ((middle, -signal.SIGKILL), (-1, 0)):
        asked = [place, place / "messages.json", name, window, at]
        command = [sys.executable, __file__, *map(str, asked)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert ran.returncode == code, ran.stderr
    if spares:
        (place / "messages.json").unlink()
    policy = preset(name).policy.name
    told = Told()
    for line in (place / "told.jsonl").read_text("utf-8").splitlines():
        each = json.loads(line)
        told.runs += each["policies"].count(policy)
        told.emergency_runs += len(each["policies"]) - each["policies"].count(policy)
        told.at += [each["end"]] * each["policies"].count(policy)
        told.broken += each["broken"]
        told.over += each["over"]
        told.torn += each["torn"]
        told.recalled += each["blocks"] > 0
        told.trimmed.update(seq for start, end in each["trimmed"] for seq in range(start, end))
        for name in ("stack", "beyond", "blocks", "block_tokens"):
            setattr(told, name, max(getattr(told, name), each[name]))
    return told


def losses(place: Path, messages: Sequence[dict[str, Any]], trimmed: Collection[int] = ()) -> tuple[int, int]:
    """The messages that the log lost or changed, and the discarded messages that memory does not return.

    *trimmed* are messages of the history that a request left out.
    """
    with MemoryStore.open(place, read_only=True) as store:
        log = store.open_log(SESSION)
        kept = {row.seq: row.raw for row in log.read(0, log.state().next_seq)}
        with Session.open(None, SESSION, memory=store, preset=None, policy=None) as session:
            shown = [encode(raw) for raw in session.history()]
        contents: dict[int, str] = {}
        offset: int | None = 0
        while offset is not None:
            page = store.entries(SESSION, offset=offset, limit=1000)
            contents.update((entry.source_range.start, entry.content) for entry in page.entries)
            offset = page.next_offset
    texts = list(indexable_texts(read_message(raw, seq) for seq, raw in enumerate(messages)))
    lost = sum(kept.get(seq) != encode(raw) for seq, raw in enumerate(messages))
    gone = [seq for seq, raw in enumerate(messages) if seq in trimmed or encode(raw) not in shown]
    return lost, sum(bool(texts[seq].strip()) and contents.get(seq) != texts[seq] for seq in gone)


def main(place: str, messages: str, name: str, window: str, kill_at: str) -> None:
    said = json.loads(Path(messages).read_text("utf-8"))
    with (Path(place) / "told.jsonl").open("a", encoding="utf-8") as file:

        def record(told: dict[str, Any]) -> None:
            file.write(json.dumps(told) + "\n")
            file.flush()

        with session_of(Path(place), name, int(window), Scripted()) as session:
            at = int(kill_at)
            go_on(
                session,
                said,
                every=name in EVERY,
                window=int(window),
                record=record,
                kill_at=None if at < 0 else at,
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
