"""Histories for the tests of policies, and a driver that runs a policy's flow over one."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from conversations import Raw, assistant, user
from reference.groups import groups
from siltstone import llm
from siltstone.compaction import Compaction, Compactor, Skip, Trigger
from siltstone.llm import CompletionRequest
from siltstone.messages import Message, SubstituteMessage, read_history
from siltstone.systems.meerkat import CompactionConfig, ThresholdCompactor
from siltstone.tokens import rule

SHORT = "What was said."  # a summary smaller than anything it replaces in these tests


def system(text: str) -> Raw:
    return {"role": "system", "content": text}


def filler(words: int) -> str:
    """A text of *words* words, 5 bytes each: 5 * words // 4 tokens."""
    return "word " * words


def distinct(words: int, letter: str = "w") -> str:
    """A text of as many words as :func:`filler`, as long as these, and none twice: a summary is no loop."""
    return "".join(f"{letter}{n:03d} " for n in range(words))


def exchange(call_id: str, output: str, *, name: str = "read_file") -> list[Raw]:
    """A call and its result, in the words of OpenAI chat."""
    function = {"name": name, "arguments": json.dumps({"path": f"src/{call_id}.py"})}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call_id, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call_id, "content": output},
    ]


def turn(number: int, words: int = 100) -> list[Raw]:
    return [user(f"Request {number}: {filler(words)}"), assistant(f"Answer {number}: {filler(words)}")]


def run(
    raws: Sequence[Any] | Sequence[Message],
    policy: Compactor,
    model: Callable[[CompletionRequest], Any] | None = lambda request: SHORT,
    *,
    trigger: Trigger | None = None,
) -> tuple[list[Message], Compaction]:
    """The history as it was read, and what *policy* made of it; a skip is a failure of the test."""
    history, result = outcome(raws, policy, model, trigger=trigger)
    assert isinstance(result, Compaction), result
    return history, result


def outcome(
    raws: Sequence[Any] | Sequence[Message],
    policy: Compactor,
    model: Callable[[CompletionRequest], Any] | None = lambda request: SHORT,
    *,
    trigger: Trigger | None = None,
) -> tuple[list[Message], Compaction | Skip]:
    """Like :func:`run`, and a skip is a result."""
    history = [raw for raw in raws if isinstance(raw, Message)] or read_history(raws)
    return history, llm.run(policy.flow(history, trigger or Trigger("manual", keeps_substitutes=True)), model)


def shape(compaction: Compaction) -> list[str]:
    """The view in short: ``S`` for the summary, a message's number for what stayed, ``4-`` for one cut."""
    short = {"compaction_summary": "S", "substitute": "{}-"}
    return [short.get(message.provenance, "{}").format(message.seq) for message in compaction.messages]


def assert_lawful(history: Sequence[Message], compaction: Compaction) -> None:
    """Every law of a rewrite, checked without the package's own validator."""
    retained = {id(message) for message in compaction.retained}
    discarded = {id(message) for message in compaction.discarded}
    parted = [m for m in history if id(m) in retained], [m for m in history if id(m) in discarded]
    assert [id(m) for m in parted[0]] == [id(m) for m in compaction.retained]
    assert [id(m) for m in parted[1]] == [id(m) for m in compaction.discarded]
    assert len(retained) + len(discarded) == len(history)

    originals = {id(each.message): each.original for each in compaction.substitutes}
    sent = [originals.get(id(m), m) for m in compaction.messages]
    assert [id(m) for m in sent if id(m) in retained] == [id(m) for m in compaction.retained]
    for each in compaction.substitutes:
        assert each.message.seq == each.original.seq
        assert isinstance(each.message.raw, SubstituteMessage)
        assert each.message.raw != each.original.raw
    if not discarded:
        assert compaction.substitutes
        assert (compaction.summary, compaction.covers) == ("", ())
        return
    (summary,) = (m for m in sent if id(m) not in retained)
    first = next(at for at, m in enumerate(history) if id(m) in discarded)
    assert compaction.messages.index(summary) == first
    assert summary.role == "user"
    assert summary.provenance == "compaction_summary"

    assert all(m.role not in ("system", "developer") for m in compaction.discarded)
    assert all(m.provenance != "compaction_summary" for m in compaction.retained)
    for group in groups(history):
        assert len({id(history[at]) in retained for at in group.positions}) == 1, group

    numbers = [n for start, end in summary.covers for n in range(start, end)]
    expected: list[int] = []
    for m in compaction.discarded:
        covers = m.covers if m.provenance == "compaction_summary" else ((m.seq, m.seq + 1),)
        expected += [n for start, end in covers for n in range(start, end)]
    assert numbers == sorted(expected)
    assert all(one[1] < other[0] for one, other in zip(summary.covers, summary.covers[1:], strict=False))
    assert summary.covers == compaction.covers
    assert summary.seq == compaction.covers[0][0]


def policy(**settings: Any) -> ThresholdCompactor:
    """A policy that retains no complete turn."""
    return ThresholdCompactor(CompactionConfig(**{"recent_turn_budget": 0, **settings}))


def long(turns: int = 40, words: int = 100) -> list[Raw]:
    """A system message and *turns* complete turns."""
    return [system("Rules."), *(message for n in range(turns) for message in turn(n, words))]


class Window:
    """A model that refuses what is larger than its window, as a provider does."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.requests: list[CompletionRequest] = []
        self.refused = 0

    def __call__(self, request: CompletionRequest) -> str:
        size = rule("blocks").count(read_history(request.messages)) + request.max_tokens
        if size > self.tokens:
            self.refused += 1
            raise ValueError(f"prompt is too long: {size} tokens > {self.tokens} maximum")
        self.requests.append(request)
        return SHORT
