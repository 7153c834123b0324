"""Asks for the summaries of waterfall memory, in requests that fit the summariser's window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from siltstone.checks import share_of
from siltstone.compaction import summarise
from siltstone.compaction.base import Trigger
from siltstone.compaction.material import earlier_summary, items_of
from siltstone.compaction.prompts import clip, near_end, unframed
from siltstone.llm import CompletionRequest, Flow, Purpose
from siltstone.messages import INDENT, MaterialItem, Message
from siltstone.systems.waterfall import config as configs
from siltstone.tokens import TokenRule


@dataclass(frozen=True, slots=True)
class _Shown:
    """An item, and its text in a prompt: its whole line, or only what is said."""

    text: str
    item: MaterialItem

    def cut(self, end: int) -> tuple[_Shown, _Shown]:
        """The first *end* characters, and the rest."""
        if self.text == self.item.text:
            first, rest = self.item.cut_text(end)
        else:  # a second part begins without the indent of its line
            first, rest = self.item.cut(end + len(self.item.line) - len(self.text))
        return _Shown(self.text[:end], first), _Shown(self.text[end:], rest)


class Writer:
    """The model calls of one run.

    Args:
        config: The prompts and bounds.
        calls: The calls of the models.
        rule: The token rule.
        trigger: The session's window, and the focus and instructions of the host.
    """

    def __init__(
        self, config: configs.WaterfallConfig, calls: summarise.Calls, rule: TokenRule, trigger: Trigger
    ) -> None:
        self._config, self._calls, self._rule, self._trigger = config, calls, rule, trigger
        is_base = config.prompt_style == "base"
        self._slice: Callable[[Sequence[str]], str] = configs.slice_of if is_base else configs.instruct_slice
        self._combining: Callable[[str, str], str] = (
            configs.combining if is_base else configs.instruct_combining
        )
        self._speakers = not is_base
        self._window = config.summarizer_window or trigger.context_window

    def slice(self, messages: Sequence[Message]) -> Flow[str]:
        """A recent summary of *messages*."""
        memories = [shown for message in messages for shown in _memories(message, self._speakers)]
        cap = self._config.max_tokens
        if self._config.cap_share < 1:
            share = share_of(self._rule.count_text(_text(memories)), self._config.cap_share)
            cap = min(cap, max(summarise.LEAST_SUMMARY, share))
        return (yield from self._in_portions(memories, cap))

    def combined(self, recent: str, longterm: str) -> Flow[str]:
        """The long-term summary with *recent* merged in, within its budget."""
        cap = self._config.max_tokens
        memories = [_quoted(text) for text in (longterm, recent) if text]
        prompt = self._combining(recent, longterm)
        room = self._room(cap)
        if room is not None and self._rule.count_text(prompt) > room:
            answer = yield from self._in_portions(memories, cap)
        else:
            answer = yield from self._ask(prompt, memories, cap, "merge")
        return (yield from self._within_budget(answer))

    def remade(self, recents: Sequence[Message], newest: str) -> Flow[str]:
        """A long-term summary made anew from the stored *recents* and the *newest* recent summary."""
        texts = [unframed(message.text, configs.RECENT_PREFIX).strip() for message in recents]
        memories = [_quoted(text) for text in (*texts, newest) if text]
        answer = yield from self._in_portions(memories, self._config.max_tokens)
        return (yield from self._within_budget(answer))

    def _within_budget(self, text: str) -> Flow[str]:
        budget = self._config.longterm_budget_tokens
        if budget is None or self._rule.count_text(text) <= budget:
            return text
        if not self._calls.has(2):  # one call is for the recent summary
            return clip(text, budget, self._rule)
        shorter = yield from self._in_portions([_quoted(text)], min(budget, self._config.max_tokens))
        return clip(shorter, budget, self._rule)

    def _in_portions(self, memories: list[_Shown], cap: int) -> Flow[str]:
        """A summary of *memories*: in one request where they fit, else portion by portion, each combined.

        If the number of calls is limited, there is one request: with the newest memories, and with lines of
        the others.
        """
        room = self._room(cap)
        prompt = self._slice([shown.text for shown in memories])
        if room is None or self._rule.count_text(prompt) <= room:
            try:
                return (yield from self._ask(prompt, memories, cap, "summary"))
            except summarise.SummarizerOverflow:
                room = self._rule.count_text(prompt) // 2
        if self._calls.left is not None:
            shown = yield from self._fitted(memories, room)
            return (yield from self._ask(self._slice([each.text for each in shown]), shown, cap, "summary"))
        halvings, waiting, summary = 0, memories, ""
        while waiting:
            portion = self._portion(_text(waiting), room)
            shown, rest = _parted(waiting, len(portion))
            try:
                text = yield from self._ask(self._slice([portion]), shown, cap, "summary")
                if summary:
                    both = [_quoted(summary), _quoted(text)]
                    text = yield from self._ask(self._combining(text, summary), both, cap, "merge")
            except summarise.SummarizerOverflow as error:
                room, halvings = room // 2, halvings + 1
                if room < summarise.LEAST_PIECE or halvings > summarise.MOST_HALVINGS:
                    raise error from error.__cause__
            else:
                summary, waiting = text, rest
        return summary

    def _fitted(self, memories: list[_Shown], room: int) -> Flow[list[_Shown]]:
        """The newest of *memories*, after lines that the extractive model selects of the others."""
        room -= self._rule.count_text(self._slice([]))
        given = [shown.item for shown in memories]
        items = yield from summarise.fitted(given, summarise.sizes_of(given, self._rule), room)
        if items is given:
            return memories
        return [_quoted(items[0].text), *memories[len(given) - len(items) + 1 :]]

    def _portion(self, text: str, tokens: int) -> str:
        """The beginning of *text*, at most *tokens*, cut after a line or sentence; at least one character."""
        low, high = 1, len(text)
        if self._rule.count_text(text) <= tokens:
            return text
        while low < high:
            middle = (low + high + 1) // 2
            if self._rule.count_text(text[:middle]) <= tokens:
                low = middle
            else:
                high = middle - 1
        return text[: max(1, near_end(text, low))]

    def _room(self, cap: int) -> int | None:
        """Tokens of a prompt: the window minus the answer and the margin; None for an unknown window."""
        if self._window is None:
            return None
        return max(summarise.LEAST_PIECE, self._window - cap - self._window // summarise.MARGIN)

    def _ask(self, prompt: str, memories: list[_Shown], cap: int, purpose: Purpose) -> Flow[str]:
        config = self._config
        answer = yield from self._calls.ask(
            CompletionRequest(
                [{"role": "user", "content": self._told(prompt)}],
                cap,
                purpose,
                stop=config.stop,
                material=[_in_one_line(shown.item) for shown in memories],
            )
        )
        return answer if config.cap_share == 1 else clip(answer, cap, self._rule)

    def _told(self, prompt: str) -> str:
        """*prompt* after the host's instructions and focus. Without them it is the documented text alone."""
        wishes = [self._trigger.instructions.strip()]
        if self._trigger.focus:
            wishes.append(f"Pay particular attention to: {self._trigger.focus}")
        return "\n\n".join([*filter(None, wishes), prompt])


def _memories(message: Message, speakers: bool) -> list[_Shown]:
    """The memory of *message* item by item: what is said, or with *speakers* lines that name the speaker."""
    in_lines = speakers or any(part.kind not in ("text", "reasoning") for part in message.parts)
    return [_Shown(item.line if in_lines else item.text, item) for item in items_of([message], "")]


def _quoted(text: str) -> _Shown:
    """An earlier summary."""
    return _Shown(text, earlier_summary((), text))


def _in_one_line(item: MaterialItem) -> MaterialItem:
    """*item*; an earlier summary without line breaks, so that its sentences are what is selected."""
    return replace(item, text=item.text.replace("\n", INDENT)) if item.kind == "summary" else item


def _text(memories: list[_Shown]) -> str:
    return "\n".join(shown.text for shown in memories)


def _parted(memories: list[_Shown], end: int) -> tuple[list[_Shown], list[_Shown]]:
    """The memories in the first *end* characters of their text, and the rest from its first word on."""
    text = _text(memories)
    end = len(text) - len(text[end:].lstrip("\n"))
    for at, shown in enumerate(memories):
        if end < len(shown.text):
            if end <= 0:
                return memories[:at], memories[at:]
            first, rest = shown.cut(end)
            return [*memories[:at], first], [rest, *memories[at + 1 :]]
        end -= len(shown.text) + 1  # with its line break
    return memories, []
