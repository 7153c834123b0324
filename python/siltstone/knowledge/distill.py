"""Makes rules for the system prompt of later tasks, from denied actions and repeated facts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from siltstone import checks
from siltstone.errors import ConfigError
from siltstone.knowledge.base import Correction, Fact, new_fact, now_ms
from siltstone.messages.text import without_control

HEAD: Final = "## Learned from earlier sessions\nFollow these unless the user says otherwise:"
DENIED: Final = "denied by the user"
_PREVIEW: Final = 200  #: characters of an output or of arguments that are kept
_CONTEXT: Final = 50  #: characters of a context that corrections are grouped by
_BEGINNINGS: Final = ("prefer", "always", "never", "don't", "use ")
#: The beginning of a result that says that its tool failed: most forms of results have no field for it.
_FAILURE: Final = re.compile(
    r"""\W*(?:(?:\w*error|\w*exception|failure|failed|fatal)
    (?:\s(?:while|executing|calling|running|invoking|in|from|code)\b[^:\n]*|\s\d+|\s*[\[(][^\])\n]*[\])])?\s*:
    |an?\s(?:\w+\s)?error\soccurred|traceback\s\(most|failed\sto\s
    |(?:the\s)?(?:tool|command|call|execution|process)\s(?:\S+\s)?(?:failed|exited\swith\s\D*[1-9])
    |exit(?:ed)?(?:\s(?:code|status|with))+\W+[1-9]
    |"(?:error|is_?error)"\s*:(?!\s*(?:null|false|""|\[\]|\{\}|0))|"(?:ok|success)"\s*:\s*false)""",
    re.IGNORECASE | re.VERBOSE,
)
_TIMES: Final = 3  #: results of one tool that make a pattern


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of behaviour: its text, the number of entries that support it, and the time of the last (ms)."""

    key: str
    text: str
    support: int
    updated_at: int


def tool_fact(
    tool: str,
    output: str,
    *,
    least: int = 10,
    most: int = 5_000,
    unit: Literal["bytes", "chars"] = "bytes",
    inclusive: bool = False,
    session_id: str = "",
    source_ranges: tuple[tuple[int, int], ...] = (),
) -> Fact | None:
    """The fact that a tool succeeded with *output*; None if it is too short, too long or a failure.

    Its content is the tool's name and the first 200 characters of *output*, with ``...`` if there were more.
    The caller removes secrets before. The documented form is ``unit="chars", inclusive=True``.
    """
    size = len(output.encode("utf-8", "replace")) if unit == "bytes" else len(output)
    fits = least <= size <= most if inclusive else least < size < most
    if not fits or _FAILURE.match(output, 0, _PREVIEW):
        return None
    preview = output[:_PREVIEW] + ("..." if len(output) > _PREVIEW else "")
    return new_fact(
        "fact",
        f"{tool}: {preview}",
        source=f"tool:{tool}",
        tags=("tool_result", tool),
        session_id=session_id,
        source_ranges=source_ranges,
    )


def correction_of(tool: str, arguments: str, reason: str = "", goal: str = "") -> Correction:
    """The correction of a denied action: the tool with its arguments, the reason, the tool with the goal."""
    import uuid

    context = f"{tool}: {goal}" if goal else tool
    return Correction(
        uuid.uuid4().hex,
        f"{tool} {arguments[:_PREVIEW]}".strip(),
        reason.strip() or DENIED,
        context,
        now_ms(),
    )


class KnowledgeDistiller:
    """Makes rules from corrections and facts, at the start of each task.

    Args:
        enabled: Whether rules are made at all.
        max_rules: The most rules; those with the least support leave first, and of these the oldest.
        min_entries: The number of new entries from which on rules are made; fewer wait for more.
        tool_rules: Whether three results of one tool become a rule.
        kept: The ``kept`` of an earlier distiller; empty for nothing.

    Raises:
        ConfigError: *max_rules* or *min_entries* is below 1, or *kept* is not of this class.
    """

    def __init__(
        self,
        *,
        enabled: bool = True,
        max_rules: int = 20,
        min_entries: int = 3,
        tool_rules: bool = True,
        kept: Mapping[str, Any] | None = None,
    ) -> None:
        for name, value in (("max_rules", max_rules), ("min_entries", min_entries)):
            checks.at_least(name, value, 1)
        self._enabled, self._most, self._least = enabled, max_rules, min_entries
        self._tool_rules = tool_rules
        self._rules: dict[str, Rule] = {}
        self._seen: set[str] = set()
        if kept:
            try:
                self._rules = {rule["key"]: Rule(**rule) for rule in kept["rules"]}
                self._seen = set(map(str, kept["seen"]))
            except (TypeError, KeyError) as error:
                raise ConfigError(f"kept holds no rules of ours: {error}", field="kept", value="") from error

    @property
    def kept(self) -> dict[str, Any]:
        """Everything that it has learned, as values for JSON."""
        return {"rules": [asdict(rule) for rule in self._ordered()], "seen": sorted(self._seen)}

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, those with the most support first."""
        return tuple(self._ordered())

    def distill(self, corrections: Sequence[Correction], facts: Sequence[Fact]) -> tuple[Rule, ...]:
        """The rules, after learning from the new ones of *corrections* and *facts*.

        A second call with the same arguments learns nothing. Entries that are in neither argument any more
        are not remembered as seen, so the memory of seen entries stays bounded.
        """
        if not self._enabled:
            return self.rules
        present = {each.id for each in corrections} | {each.id for each in facts}
        fresh = [each for each in corrections if each.id not in self._seen]
        known = [each for each in facts if each.id not in self._seen]
        self._seen &= present
        if len(fresh) + len(known) < self._least:
            return self.rules
        for rule in (*_of_corrections(fresh), *_of_facts(known, tools=self._tool_rules)):
            self._take(rule)
        self._seen |= present
        self._rules = {rule.key: rule for rule in self._ordered()[: self._most]}
        return self.rules

    def withdraw(self, contents: Iterable[str]) -> None:
        """Drops the rules that were made of facts with these contents, which hold no more."""
        for content in contents:
            self._rules.pop(_key_of(content), None)

    def addendum(self) -> str:
        """The rules as text for a system prompt: a heading, a line, the numbered rules; empty for none."""
        if not self._rules:
            return ""
        # Each rule is one line, so that it cannot look like two rules, or like a heading.
        texts = (without_control(" ".join(rule.text.split())) for rule in self._ordered())
        lines = [f"{place}. {text}" for place, text in enumerate(texts, 1)]
        return "\n".join([HEAD, *lines])

    def _take(self, rule: Rule) -> None:
        old = self._rules.get(rule.key)
        if old is not None:
            rule = replace(
                _counted(rule, old.support + rule.support), updated_at=max(old.updated_at, rule.updated_at)
            )
        self._rules[rule.key] = rule

    def _ordered(self) -> list[Rule]:
        return sorted(self._rules.values(), key=lambda rule: (-rule.support, -rule.updated_at, rule.key))


def _of_corrections(corrections: Sequence[Correction]) -> Iterable[Rule]:
    grouped: dict[str, list[Correction]] = {}
    for each in corrections:
        grouped.setdefault(each.context[:_CONTEXT].lower(), []).append(each)
    for context, group in grouped.items():
        latest = group[-1]
        stamp = max(each.created_at for each in group)
        named = [each for each in group if each.corrected != DENIED]
        if not named:
            text = f"Avoid {latest.original} when working on {latest.context}."
        elif len(group) == 1:
            text = f"Instead of {latest.original}, prefer: {latest.corrected}."
        else:
            text = f"For {latest.context}, prefer: {named[-1].corrected}."
        yield _counted(Rule(f"correction:{context}", text, len(group), stamp), len(group))


def _of_facts(facts: Sequence[Fact], *, tools: bool) -> Iterable[Rule]:
    by_tool: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.source.startswith("tool:"):
            by_tool.setdefault(fact.source[5:], []).append(fact)
        elif "preference" in (*fact.tags, fact.type) or fact.content.lower().startswith(_BEGINNINGS):
            yield Rule(_key_of(fact.content), fact.content.strip(), 1, fact.created_at)
    for tool, results in by_tool.items():
        if tools and len(results) >= _TIMES:
            # The tool's output is not quoted: it has no place in a system prompt.
            text = f"The tool {tool} works here."
            yield Rule(f"tool:{tool}", text, len(results), max(fact.created_at for fact in results))


def _key_of(content: str) -> str:
    return f"fact:{content.strip().lower()}"


def _counted(rule: Rule, support: int) -> Rule:
    """*rule* with its support; a rule of several corrections names the number."""
    if not rule.key.startswith("correction:"):
        return replace(rule, support=support)
    text = rule.text.rpartition(" (")[0] if rule.text.endswith("corrections)") else rule.text
    return replace(rule, support=support, text=f"{text} ({support} corrections)" if support > 1 else text)
