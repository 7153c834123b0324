"""Finds secrets in texts, and puts placeholders in their place before anything is written.

Rules find secrets by their form; ``docs/redaction.md`` lists them. A finding says which rule found a secret
and where it stood, never what it was.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from siltstone._native import Redactor as _Rules
from siltstone._native import redaction_rules
from siltstone.errors import ConfigError, SecretRefusedError
from siltstone.messages import RawMessage
from siltstone.messages.plain import as_fields
from siltstone.patterns import pattern
from siltstone.values import dataclass, field, replace

__all__ = ["Action", "RedactionConfig", "Redactor", "SecretFinding", "SecretRule", "redact", "rule_names"]

Action: TypeAlias = Literal["allow", "redact", "block"]
"""``allow``: it stays, whatever other rules say of it. ``redact``: a placeholder stands in its place.
``block``: nothing of the text may be written, and :class:`siltstone.errors.SecretRefusedError` says so."""

PLACEHOLDER: Final = "[REDACTED]"

#: What ties a message to others, or names its form. Nothing here is written by anybody.
_STRUCTURE = frozenset({
    "id", "call_id", "tool_call_id", "tool_use_id", "item_id", "type", "role", "status", "model", "name",
    "media_type", "mime_type", "format", "detail", "file_id", "encrypted_content", "signature",
    "thought_signature", "thoughtSignature",
})  # fmt: skip
#: Below these everything is the caller's own data: ids and names too are read.
_DATA = frozenset(
    {"input", "arguments", "parameters", "metadata", "results", "outputs", "structured_content"}
)
_MEDIA = frozenset({"data", "file_data", "b64_json", "partial_image_b64"})
_SIGNATURES = ("signature", "encrypted_content", "thought_signature", "thoughtSignature")
_LABEL = pattern(r"(?i)auth|bearer|key|pass|pwd|secret|token|aws|heroku|cloudflare|asana|datadog|wandb")
_PIECE: Final = 8  #: characters of a secret that say enough of it to be taken out
_LONGEST_LABELLED = 4096  #: characters of a value that is read together with its key


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """Where a secret stood. It does not hold the secret.

    Attributes:
        rule: The rule that found it.
        start: Its first code point in the text.
        end: One past its last.
        placeholder: What stands in its place.
        path: In a message, where the text is: ``content[0].input.command``; empty for a text by itself. What
            is JSON inside of a text goes on behind a ``$``.
    """

    rule: str
    start: int
    end: int
    placeholder: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class SecretRule:
    """A rule of the caller's own.

    Attributes:
        name: Its name in findings; not that of a built-in rule.
        pattern: A regular expression as Rust's ``regex`` reads it: without look-around and back references,
            so that no text takes more than linear time. Its group ``s``, or all of it, is the secret.
        keywords: One of these stands on each line that has such a secret, in any case. Without keywords
            every line is read.
        placeholder: What stands in its place.
        action: What becomes of what it finds.
    """

    name: str
    pattern: str
    keywords: tuple[str, ...] = ()
    placeholder: str = PLACEHOLDER
    action: Action = "redact"


@dataclass(frozen=True, slots=True)
class RedactionConfig:
    """The secrets to look for, and their treatment.

    Attributes:
        strict: Every run of 32 or more characters of hex or base64 is a secret, also one that looks like a
            name, a path or a hash with its label: the documented form.
        keep_commit_ids: Hex of 40 digits stays, since it is most often the id of a commit.
        actions: What becomes of what a built-in rule finds; ``redact`` for those that are not named.
        rules: Rules of one's own.
        signed: What becomes of signed or encrypted reasoning with a secret in it, which nobody may change:
            ``leave_out`` writes the message without it, ``refuse`` raises.

    Raises:
        ConfigError: an unknown rule or action, or a pattern that cannot be used.
    """

    strict: bool = False
    keep_commit_ids: bool = True
    actions: Mapping[str, Action] = field(default_factory=dict)
    rules: tuple[SecretRule, ...] = ()
    signed: Literal["leave_out", "refuse"] = "leave_out"

    def __post_init__(self) -> None:
        if self.signed not in ("leave_out", "refuse"):
            raise ConfigError(
                f"signed must be 'leave_out' or 'refuse', got {self.signed!r}",
                field="signed",
                value=self.signed,
            )
        _compiled(self)


def rule_names() -> tuple[str, ...]:
    """The names of the built-in rules. Where two find the same place, the earlier one names it."""
    return tuple(dict.fromkeys(redaction_rules()))


def redact(text: str, config: RedactionConfig | None = None) -> tuple[str, list[SecretFinding]]:
    """*text* with a placeholder for each secret, and where they stood. See :meth:`Redactor.redact`."""
    return (_default() if config is None else Redactor(config)).redact(text)


class Redactor:
    """The rules of a configuration, ready to read. Any number of threads may use one."""

    def __init__(self, config: RedactionConfig | None = None) -> None:
        self.config = config or RedactionConfig()
        self._rules = _compiled(self.config)

    def redact(self, text: str) -> tuple[str, list[SecretFinding]]:
        """*text* with a placeholder for each secret, and where they stood, in order and apart.

        A text without a secret comes back as the same object. What comes back is not changed by being
        redacted again. Lone surrogates in a text with a secret become U+FFFD.

        Raises:
            SecretRefusedError: a rule whose action is ``block`` has found something.
        """
        redacted, found = self._find(text, "")
        return redacted, found

    def redact_message(self, message: RawMessage) -> tuple[Any, list[SecretFinding]]:
        """*message*, of any dialect, with a placeholder for each secret in any of its texts.

        Arguments and results are read to the end, JSON inside of a text too, and a value together with its
        key. Ids, types and inline media stay as they are. A message without a secret comes back as the
        same object; another one as a copy of its kind, an SDK's object as a dict. Signed or encrypted
        reasoning is never changed: where a secret is in it, ``config.signed`` says what happens.

        Raises:
            SecretRefusedError: a rule whose action is ``block`` has found something, or signed reasoning
                has a secret in it and ``config.signed`` is ``refuse``.
        """
        fields = as_fields(message)
        if fields is None:
            return message, []
        walk = _Walk(self)
        if _is_signed(fields):
            left_out: RawMessage = {"role": "assistant", "content": PLACEHOLDER}
            return (left_out if walk.signed_has_secret(fields, "") else message), walk.found
        changed = walk.mapping(fields, "", data=False)
        return (message if changed is fields else changed), walk.found

    def redact_value(self, value: Any) -> tuple[Any, list[SecretFinding]]:
        """Any JSON value with a placeholder for each secret in its texts and keys.

        Raises:
            SecretRefusedError: as :meth:`redact`.
        """
        walk = _Walk(self)
        return walk.value(value, "", data=True), walk.found

    def unrefusing(self) -> Redactor:
        """The same rules, which redact where these would refuse; itself where they refuse nothing."""
        config = self.config
        known: dict[str, Action] = {
            name: "redact" if action == "block" else action for name, action in config.actions.items()
        }
        rules = tuple(
            replace(rule, action="redact") if rule.action == "block" else rule for rule in config.rules
        )
        milder = replace(config, actions=known, rules=rules, signed="leave_out")
        return self if milder == config else Redactor(milder)

    def knowing(self, secrets: Iterable[str]) -> Redactor:
        """The same rules, which also take out what is left of *secrets* in a text that was cut.

        No rule knows half a secret, nor one whose label is gone. What is left of one counts from 8
        characters on, where the cut is at the end of a word.
        """
        return _Knowing(self, sorted({each for each in secrets if len(each) >= _PIECE}))

    def _find(self, text: str, path: str) -> tuple[str, list[SecretFinding]]:
        redacted, found = self._rules.redact(text)
        if redacted is None:
            return text, []
        for rule, _, _, _, blocks in found:
            if blocks:
                raise _refused(rule, path, "blocked")
        return redacted, [SecretFinding(*each[:4], path) for each in found]


class _Knowing(Redactor):
    """Rules, and secrets whose pieces are taken out as well."""

    def __init__(self, redactor: Redactor, secrets: Sequence[str]) -> None:
        self.config, self._rules, self._secrets = redactor.config, redactor._rules, secrets

    def _find(self, text: str, path: str) -> tuple[str, list[SecretFinding]]:
        spans = _merged(span for secret in self._secrets for span in _pieces(text, secret))
        cut = [SecretFinding("cut", start, end, PLACEHOLDER, path) for start, end in spans]
        for start, end in reversed(spans):
            text = text[:start] + PLACEHOLDER + text[end:]
        redacted, found = super()._find(text, path)
        return redacted, cut + found


def _pieces(text: str, secret: str) -> Iterator[tuple[int, int]]:
    """Where *text* has the beginning or the end of *secret*, 8 characters or more, or all of it."""
    head, tail, size = secret[:_PIECE], secret[-_PIECE:], len(secret)
    at = text.find(head)
    while at >= 0:
        end = at + _alike(text[at : at + size], secret)
        if not text[end : end + 1].isalnum():
            yield at, end
        at = text.find(head, at + 1)
    at = text.find(tail)
    while at >= 0:
        end = at + _PIECE
        before = text[max(0, end - size) : end][::-1]
        start = end - _alike(before, secret[::-1])
        if not text[start - 1 : start].isalnum():
            yield start, end
        at = text.find(tail, at + 1)


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """*spans* in order, those that meet as one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


class _Walk:
    """A message on its way through the rules."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.found: list[SecretFinding] = []

    def value(self, value: Any, path: str, *, data: bool) -> Any:
        """*value* without secrets; the same object where there are none."""
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, list | tuple):
            return self._list(value, path, data=data)
        fields = value if isinstance(value, Mapping) else _fields(value)
        if fields is None:
            return value
        changed = self.mapping(fields, path, data=data)
        return value if changed is fields else changed

    def mapping(self, fields: Mapping[str, Any], path: str, *, data: bool) -> Mapping[str, Any]:
        """*fields* without secrets; the same object where there are none."""
        changes: dict[Any, Any] = {}
        for key, item in fields.items():
            if not data and (key in _STRUCTURE or _is_media(fields, key, item)):
                continue
            place = f"{path}.{key}" if path else str(key)
            if isinstance(item, str):
                changed = self._labelled(key, item, place)
            elif not data and _is_signed(item) and self.signed_has_secret(item, place):
                changed = None
            else:
                changed = self.value(item, place, data=data or key in _DATA)
            if changed is not item:
                changes[key] = changed
        renamed = self._keys(fields, path) if data else {}
        if not changes and not renamed:
            return fields
        if not renamed and isinstance(fields, dict):
            copied = copy.copy(fields)  # a subclass keeps its kind: a summary stays a summary
            copied.update(changes)
            return copied
        return {renamed.get(key, key): changes.get(key, item) for key, item in fields.items()}

    def signed_has_secret(self, fields: Mapping[str, Any], path: str) -> bool:
        """Whether a secret is in a piece of signed reasoning.

        Raises:
            SecretRefusedError: it is, and such a message is to be refused.
        """
        inner = _Walk(self._redactor)
        inner.mapping(fields, path, data=False)
        if inner.found and self._redactor.config.signed == "refuse":
            raise _refused(inner.found[0].rule, inner.found[0].path, "signed")
        self.found += inner.found
        return bool(inner.found)

    def _list(self, items: Iterable[Any], path: str, *, data: bool) -> Any:
        changed, left_out = [], 0
        for place, item in enumerate(items):
            where = f"{path}[{place}]"
            if not data and _is_signed(item) and self.signed_has_secret(item, where):
                left_out += 1
                continue
            changed.append(self.value(item, where, data=data))
        if not left_out and all(new is old for new, old in zip(changed, items, strict=True)):
            return items
        if left_out and not changed:
            changed.append({"type": "text", "text": PLACEHOLDER})
        return changed

    def _keys(self, fields: Mapping[Any, Any], path: str) -> dict[Any, str]:
        renamed = {}
        for key in fields:
            if isinstance(key, str):
                redacted, found = self._redactor._find(key, path)
                if found:
                    self.found += found
                    renamed[key] = redacted
        return renamed

    def _labelled(self, key: object, value: str, path: str) -> str:
        """*value* read by itself, and once more behind its key, which may say that it is a secret."""
        redacted = self._text(value, path)
        if not isinstance(key, str) or len(value) > _LONGEST_LABELLED or not _LABEL.search(key):
            return redacted
        if '"' in redacted or "\\" in redacted:
            return redacted
        head = f'"{key}": "'
        whole, found = self._redactor._find(f'{head}{redacted}"', path)
        within = [each for each in found if each.start >= len(head) and each.end <= len(head) + len(redacted)]
        if not within or len(within) < len(found):
            return redacted
        self.found += [
            SecretFinding(each.rule, each.start - len(head), each.end - len(head), each.placeholder, path)
            for each in within
        ]
        return whole[len(head) : -1]

    def _text(self, text: str, path: str) -> str:
        inner = self._json(text, path)
        redacted, found = self._redactor._find(inner, path)
        if found and inner is not text and not _is_json(redacted):
            return inner  # a placeholder would break the JSON that is read below by others
        self.found += found
        return redacted

    def _json(self, text: str, path: str) -> str:
        """*text* with what is JSON inside of it redacted value by value: escapes hide nothing."""
        if not text.lstrip().startswith(("{", "[", '"')):
            return text
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        before = len(self.found)
        try:
            changed = self.value(value, f"{path}.$" if path else "$", data=True)
        except RecursionError:
            return text
        if changed is value:
            del self.found[before:]
            return text
        return json.dumps(changed, ensure_ascii=False)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _fields(value: object) -> Mapping[str, Any] | None:
    if value is None or isinstance(value, int | float):
        return None
    try:
        return as_fields(value)
    except TypeError:
        return None


def _is_signed(item: object) -> bool:
    """Whether *item* is reasoning that carries a signature, or is bound to its provider by an id."""
    if not isinstance(item, Mapping):
        return False
    kind = item.get("type")
    if kind == "reasoning":
        return bool(item.get("encrypted_content") or item.get("id") or item.get("signature"))
    if kind in ("thinking", "redacted_thinking") or (isinstance(kind, str) and kind.startswith("reasoning.")):
        return bool(item.get("signature") or item.get("data"))
    return any(isinstance(item.get(key), str) and item.get(key) for key in _SIGNATURES[2:])


def _is_media(fields: Mapping[str, Any], key: object, item: object) -> bool:
    if not isinstance(item, str):
        return False
    if key in _MEDIA:
        return key != "data" or "media_type" in fields or "format" in fields or "type" in fields
    if key == "result" and fields.get("type") == "image_generation_call":
        return True
    return item.startswith("data:") and ";base64," in item[:256]


def _compiled(config: RedactionConfig) -> _Rules:
    actions: list[tuple[str, str]] = [*config.actions.items()]
    custom: list[tuple[str, str, list[str], str, str]] = [
        (rule.name, rule.pattern, list(rule.keywords), rule.placeholder, rule.action) for rule in config.rules
    ]
    return _Rules(config.strict, config.keep_commit_ids, actions, custom)


def _refused(rule: str, path: str, reason: str) -> SecretRefusedError:
    where = f" in {path}" if path else ""
    why = "signed reasoning may not be changed" if reason == "signed" else f"the action of rule {rule!r}"
    return SecretRefusedError(
        f"a secret{where} found by rule {rule!r}: nothing is written ({why})",
        rule=rule,
        path=path,
        reason=reason,
    )


@cache
def _default() -> Redactor:
    return Redactor()
