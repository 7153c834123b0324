"""Makes rules for the system prompt of later tasks from denied actions and repeated facts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal

from siltstone.errors import ConfigError
from siltstone.knowledge.base import Correction, Fact, new_fact, now_ms
from siltstone.values import asdict, dataclass, replace

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DENIED", "KnowledgeDistiller", "Rule", "correction_of", "tool_fact"]

DENIED: Final = "denied by the user"
_PREVIEW: Final = 200  #: characters of an output or of arguments that are kept
_CONTEXT: Final = 50  #: characters of a context that corrections are grouped by
_BEGINNINGS: Final = ("prefer", "always", "never", "don't", "use ")
_TIMES: Final = 3  #: results of one tool that make a pattern


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of behaviour: what it says, how many entries speak for it, and when the last one came (ms)."""

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
    """The fact that a tool has succeeded with *output*; None where that is too short or too long.

    Its content is the tool's name and the first 200 characters; ``...`` says that there was more. Secrets
    are the caller's to take out before. The documented form is ``unit="chars", inclusive=True``.
    """
    size = len(output.encode("utf-8", "replace")) if unit == "bytes" else len(output)
    if not (least <= size <= most if inclusive else least < size < most):
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
    """What a denied action teaches: the tool with its arguments, the reason, the tool with the goal."""
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
    """Makes rules of corrections and facts, at the start of each task.

    Args:
        enabled: It does anything at all.
        max_rules: The most rules; those with the least support leave first, then the older ones.
        min_entries: Entries that must be new; fewer wait for more.
        path: A JSON file that keeps the rules; none is kept without one. A missing file is empty.
        tool_rules: Three results of one tool become a rule.
        kept: What an earlier distiller had in ``kept``, for those who keep it elsewhere; empty for nothing.

    Raises:
        ConfigError: *max_rules* or *min_entries* is below 1, or the file, or *kept*, is not one of ours.
    """

    def __init__(
        self,
        *,
        enabled: bool = True,
        max_rules: int = 20,
        min_entries: int = 3,
        path: str | os.PathLike[str] | None = None,
        tool_rules: bool = True,
        kept: Mapping[str, Any] | None = None,
    ) -> None:
        for name, value in (("max_rules", max_rules), ("min_entries", min_entries)):
            if type(value) is not int or value < 1:
                raise ConfigError(f"{name} must be an integer >= 1, got {value!r}", field=name, value=value)
        self._enabled, self._most, self._least = enabled, max_rules, min_entries
        from pathlib import Path  # with urllib: a session without one does without

        self._path = None if path is None else Path(path)
        self._tool_rules = tool_rules
        self._rules: dict[str, Rule] = {}
        self._seen: set[str] = set()
        if kept:
            self._take_over(kept, "what was kept")
        if self._path is not None and self._path.exists():
            self._load(self._path)

    @property
    def kept(self) -> dict[str, Any]:
        """All that it has learned, as JSON can hold it."""
        return {"rules": [asdict(rule) for rule in self._ordered()], "seen": sorted(self._seen)}

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, those with the most support first."""
        return tuple(self._ordered())

    def distill(self, corrections: Sequence[Correction], facts: Sequence[Fact]) -> tuple[Rule, ...]:
        """The rules, with what is new in *corrections* and *facts* learned.

        A second call with the same learns nothing. What is gone from both is not remembered as seen, so that
        the memory of it is bounded by them.
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
        if self._path is not None:
            self._save(self._path)
        return self.rules

    def withdraw(self, contents: Iterable[str]) -> None:
        """Drops the rules that facts of these contents have made: they hold no more."""
        for content in contents:
            self._rules.pop(_key_of(content), None)

    def addendum(self) -> str:
        """The rules as a piece of a system prompt: a heading, a line, the numbered rules; empty for none."""
        if not self._rules:
            return ""
        # A rule is one line, so that none looks like two, or like a heading.
        texts = (" ".join(rule.text.split()) for rule in self._ordered())
        lines = [f"{place}. {text}" for place, text in enumerate(texts, 1)]
        return "\n".join(
            ["## Learned from earlier sessions", "Follow these unless the user says otherwise:", *lines]
        )

    def _take(self, rule: Rule) -> None:
        old = self._rules.get(rule.key)
        if old is not None:
            rule = replace(
                _counted(rule, old.support + rule.support), updated_at=max(old.updated_at, rule.updated_at)
            )
        self._rules[rule.key] = rule

    def _ordered(self) -> list[Rule]:
        return sorted(self._rules.values(), key=lambda rule: (-rule.support, -rule.updated_at, rule.key))

    def _save(self, path: Path) -> None:
        import tempfile

        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.kept, ensure_ascii=False)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)  # noqa: PTH105 - as in archive.lines
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(name)  # noqa: PTH108
            raise

    def _load(self, path: Path) -> None:
        try:
            saved = json.loads(path.read_text("utf-8"))
        except ValueError as error:
            raise _not_ours(str(path), error) from error
        self._take_over(saved, str(path))

    def _take_over(self, saved: Mapping[str, Any], where: str) -> None:
        try:
            rules = [Rule(**rule) for rule in saved["rules"]]
            self._seen = set(map(str, saved["seen"]))
        except (TypeError, KeyError) as error:
            raise _not_ours(where, error) from error
        self._rules = {rule.key: rule for rule in rules}


def _not_ours(where: str, error: Exception) -> ConfigError:
    return ConfigError(f"{where} holds no rules of ours: {error}", field="path", value=where)


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
            # What it gave is not quoted: a tool's output has no place in a system prompt.
            text = f"The tool {tool} works here."
            yield Rule(f"tool:{tool}", text, len(results), max(fact.created_at for fact in results))


def _key_of(content: str) -> str:
    return f"fact:{content.strip().lower()}"


def _counted(rule: Rule, support: int) -> Rule:
    """*rule* with its support, which a rule of several corrections names."""
    if not rule.key.startswith("correction:"):
        return replace(rule, support=support)
    text = rule.text.rpartition(" (")[0] if rule.text.endswith("corrections)") else rule.text
    return replace(rule, support=support, text=f"{text} ({support} corrections)" if support > 1 else text)
