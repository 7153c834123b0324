"""A small session in memory, for tests of policies: a log, a view, boundaries, and the policy's state.

It stores nothing on disk. It calls a policy as ``compaction/base.py`` describes it for a session.
"""

from collections.abc import Callable, Sequence
from typing import Any

from siltstone import llm
from siltstone.compaction import Compaction, CompactionContext, Compactor, Trigger
from siltstone.engine import Compacted, Failed, Outcome, attempt
from siltstone.events import Event
from siltstone.llm import CompletionRequest
from siltstone.messages import Message, in_flight, opens_turn, read_message


class Play:
    """A session in memory.

    Args:
        policy: Who is asked at each boundary.
        model: Answers requests; None gives an answer that names its number.
        window: The model's window in tokens.
    """

    def __init__(
        self,
        policy: Compactor,
        model: Callable[[CompletionRequest], Any] | None = None,
        *,
        window: int | None = None,
        has_model: bool = True,
    ) -> None:
        self.policy, self.window = policy, window
        self.requests: list[CompletionRequest] = []
        self.events: list[Event] = []
        self.runs: list[int] = []  # how many messages there were at each compaction
        self.log: list[Message] = []
        self.view: list[Message] = []
        self.pins: set[int] = set()
        self.state: Any = None
        self.past: list[Message] = []
        self.written: list[Message] = []
        self.states: list[Any] = []  # of each compaction, with the summaries that it brought
        self.failed_at: int | None = None
        self.boundaries = 0
        self.times: Callable[[int], float | None] | None = None
        self.now: float | None = None
        self.has_log = False  # whether the policy may read the log again
        self._answer = model or (lambda request: f"Summary {len(self.requests)}.")
        self._model = self._asked if has_model else None

    def _asked(self, request: CompletionRequest) -> Any:
        self.requests.append(request)
        return self._answer(request)

    @property
    def prompts(self) -> list[str]:
        return [str(list(request.messages)[-1]["content"]) for request in self.requests]

    def append(self, *raws: Any) -> None:
        for raw in raws:
            message = read_message(raw, len(self.log))
            self.log.append(message)
            self.view.append(message)

    def add(self, *raws: Any) -> list[Outcome]:
        """Appends each with a boundary after it."""
        done = []
        for raw in raws:
            self.append(raw)
            outcome = self.boundary()
            if outcome is not None:
                done.append(outcome)
        return done

    def context(self) -> CompactionContext:
        """The figures for the policy."""
        fixed = sum(
            message.provenance == "compaction_summary"
            or message.role in ("system", "developer")
            or message.seq in self.pins
            for message in self.view
        )
        return CompactionContext(
            boundary=self.boundaries,
            estimated_history_tokens=self.policy.token_rule.count(self.view),
            context_window=self.window,
            message_count=len(self.view),
            next_seq=len(self.log),
            fixed_count=fixed,
            failed_at=self.failed_at,
            policy_state=self.state,
            turn_start=self._turn_start(),
            settled_tokens=self.policy.token_rule.count(
                [message for message in self.view if message.covers or message.seq < self._turn_start()]
            ),
        )

    def _turn_start(self) -> int:
        """The place where the turn in flight begins."""
        requests = [message.seq for message in self.log if opens_turn(message)]
        return requests[-1] if requests and in_flight(self.view) else len(self.log)

    def _originals(self, ranges: Sequence[tuple[int, int]]) -> list[Message]:
        return [self.log[seq] for start, end in ranges for seq in range(start, end)]

    def boundary(self) -> Outcome | None:
        self.boundaries += 1
        trigger = self.policy.should_compact(self.context())
        return None if trigger is None else self.compact(trigger)

    def compact(self, trigger: Trigger | None = None) -> Outcome:
        from dataclasses import replace

        trigger = trigger or Trigger("manual", context_window=self.window)
        past = self.past if trigger.action != "bootstrap" else [*trigger.past, *self.past]
        trigger = replace(
            trigger,
            pins=frozenset(self.pins),
            policy_state=self.state,
            past=tuple(past),
            written=lambda: reversed(self.written),
            said_at=self.times,
            now=self.now,
            originals=self._originals if self.has_log else trigger.originals,
        )
        size = len(self.log)

        def commit(compaction: Compaction, before: int, after: int) -> int:
            brought = [*compaction.asides, *compaction.new_summaries]
            known = {id(message) for message in compaction.messages}
            gone = [m for m in self.view if m.provenance == "compaction_summary" and id(m) not in known]
            self.past += [m for m in (*gone, *compaction.asides) if m.raw.level == 1]  # type: ignore[union-attr]
            self.view = [*compaction.messages, *self.log[size:]]
            self.state = compaction.state if compaction.state is not None else self.state
            self.runs.append(size)
            new = [*compaction.new_summaries, *compaction.asides]
            self.written += new
            self.states.append((compaction.state, new))
            return len(brought)

        outcome = llm.run(
            attempt(self.policy, list(self.view), trigger, commit=commit, hooks=[self.events.append]),
            self._model,
        )
        self.failed_at = size if isinstance(outcome, Failed) else None
        return outcome

    def summaries(self) -> list[Message]:
        return [message for message in self.view if message.provenance == "compaction_summary"]

    def stands_for(self) -> list[int]:
        """The numbers of all messages that are in the view, or that a summary in it covers, ascending."""
        numbers = [message.seq for message in self.view if message.provenance != "compaction_summary"]
        for message in self.summaries():
            numbers += [number for start, end in message.covers for number in range(start, end)]
        return sorted(numbers)


def said(count: int, start: int = 0) -> list[dict[str, str]]:
    """*count* messages in turn of user and assistant, each naming its number."""
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": f"Entry {n}"} for n in range(start, start + count)]


def shown(view: Sequence[Message]) -> list[str]:
    """The view in a short form: ``S`` for a summary, and the number of every other message."""
    return ["S" if m.provenance == "compaction_summary" else str(m.seq) for m in view]


def committed(outcomes: Sequence[Outcome]) -> list[Compacted]:
    return [outcome for outcome in outcomes if isinstance(outcome, Compacted)]
