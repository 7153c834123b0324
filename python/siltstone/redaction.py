"""Finds secrets in texts, and replaces them by placeholders before anything is written.

Rules find secrets by their form; ``docs/redaction.md`` lists them. A finding has the rule that found the
secret and its place, never the secret itself.
"""

from __future__ import annotations

import base64
import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from siltstone._native import Redactor as _Rules, redaction_rules
from siltstone.errors import SecretRefusedError, explains, refuse
from siltstone.messages import RawMessage
from siltstone.messages.message import as_fields

Action: TypeAlias = Literal["allow", "redact", "block"]
"""``allow``: the match stays, even if other rules match it. ``redact``: a placeholder replaces it.
``block``: nothing of the text may be written: :class:`siltstone.errors.SecretRefusedError` is raised."""

PLACEHOLDER: Final = "[REDACTED]"

#: Keys that tie a message to others, or name its form: nobody writes their values by hand.
_STRUCTURE = frozenset({
    "id", "call_id", "tool_call_id", "tool_use_id", "item_id", "type", "role", "status", "model", "name",
    "media_type", "mime_type", "format", "detail", "file_id", "encrypted_content", "signature",
    "thought_signature", "thoughtSignature", "thinkingSignature", "textSignature", "mimeType",
    "toolCallId", "toolUseId", "toolName",
})  # fmt: skip
#: Keys whose values are the caller's own data: below them, ids and names are read too.
_DATA = frozenset(
    {"input", "arguments", "parameters", "metadata", "results", "outputs", "structured_content"}
)
_PEOPLE = frozenset({"user", "assistant", "system", "developer"})  #: roles whose names are no names of tools
_MEDIA = frozenset({"data", "file_data", "b64_json", "partial_image_b64"})
_SIGNATURES = ("thought_signature", "thoughtSignature")
_LABEL = re.compile(r"(?i)auth|bearer|key|pass|pwd|secret|token|aws|heroku|cloudflare|asana|datadog|wandb")
_PIECE: Final = 8  #: the fewest characters of a secret whose remains are replaced
_LONGEST_LABELLED = 4096  #: the most characters of a value that is searched with its key


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """The place of a secret. It does not have the secret itself.

    Attributes:
        rule: The rule that found it.
        start: Its first code point in the text.
        end: One past its last code point.
        placeholder: The text that replaces it.
        path: In a message, the place of the text: ``content[0].input.command``; empty for a text by itself.
            The path goes on behind a ``$`` for JSON inside of a text.
    """

    rule: str
    start: int
    end: int
    placeholder: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class SecretRule:
    """A custom rule.

    Attributes:
        name: Its name in findings; it must not be the name of a built-in rule.
        pattern: A regular expression of Rust's ``regex``: without look-around and back references, so that
            every text takes linear time. Its group ``s``, or else the whole match, is the secret.
        keywords: Each line with such a secret has at least one of these, in upper or lower case. Without
            keywords every line is searched.
        placeholder: The text that replaces it.
        action: The action on a match.
    """

    name: str
    pattern: str
    keywords: tuple[str, ...] = ()
    placeholder: str = PLACEHOLDER
    action: Action = "redact"


@explains
@dataclass(frozen=True, slots=True)
class RedactionConfig:
    """The secrets to look for, and their treatment.

    Attributes:
        strict: Every run of 32 or more characters of hex or base64 is a secret, even if it looks like a name,
            a path or a hash with its label: the documented form.
        keep_commit_ids: A run of 40 hex digits stays, since it is most often the id of a commit.
        actions: The action of each built-in rule; ``redact`` for rules that are not named.
        rules: Custom rules.
        signed: The treatment of signed or encrypted reasoning with a secret in it, which must not be changed:
            ``leave_out`` writes the message without it, ``refuse`` raises an error.

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
            refuse("signed", "'leave_out' or 'refuse'", self.signed)
        _compiled(self)


def rule_names() -> tuple[str, ...]:
    """The names of the built-in rules. If two match at one place, the earlier one names the finding."""
    return tuple(dict.fromkeys(redaction_rules()))


def redact(text: str, config: RedactionConfig | None = None) -> tuple[str, list[SecretFinding]]:
    """*text* with a placeholder for each secret, and the findings. See :meth:`Redactor.redact`."""
    return (_default() if config is None else Redactor(config)).redact(text)


class Redactor:
    """The compiled rules of a configuration. Safe to use from many threads."""

    def __init__(self, config: RedactionConfig | None = None) -> None:
        self.config = config or RedactionConfig()
        self._rules = _compiled(self.config)

    def redact(self, text: str) -> tuple[str, list[SecretFinding]]:
        """*text* with a placeholder for each secret, and the findings, in order and without overlap.

        A text without a secret is returned as the same object. Redacting the result again changes nothing. In
        a text with a secret, lone surrogates become U+FFFD.

        Raises:
            SecretRefusedError: a rule whose action is ``block`` has found something.
        """
        redacted, found = self._find(text, "")
        return redacted, found

    def redact_message(self, message: RawMessage) -> tuple[Any, list[SecretFinding]]:
        """*message*, of any dialect, with a placeholder for each secret in any of its texts.

        Arguments and results are searched to the end, even JSON inside of a text, and a value is searched
        together with its key. Ids, types and names of tools stay as they are, and so do media, but not texts.
        A message without a secret is returned as the same object, another one as a copy of the same type; an
        SDK's object becomes a dict. Signed or encrypted reasoning is never changed: if it has a secret,
        ``config.signed`` decides.

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
        """The same rules, but they redact instead of refusing; this object if they never refuse."""
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
        """The same rules, which also replace the remains of *secrets* in a text that was cut.

        No rule finds half a secret, nor a secret whose label is gone. Remains count from 8 characters on, if
        the cut is at the end of a word.
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
    """Rules, with secrets whose remains are replaced too."""

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
    """Where *text* has all of *secret*, or 8 or more characters of its beginning or its end."""
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
    """The length of the common beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """*spans* in order; adjacent or overlapping ones are merged."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


class _Walk:
    """The redaction of one message."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.found: list[SecretFinding] = []

    def value(self, value: Any, path: str, *, data: bool) -> Any:
        """*value* without secrets; the same object if it has none."""
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
        """*fields* without secrets; the same object if it has none."""
        changes: dict[Any, Any] = {}
        for key, item in fields.items():
            place = f"{path}.{key}" if path else str(key)
            if not data and key in _STRUCTURE and not (place == "name" and fields.get("role") in _PEOPLE):
                continue
            if not data and _is_media(fields, key, item):
                changed = self._media(item, place)
            elif isinstance(item, str):
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
            copied = copy.copy(fields)  # keeps the type of a subclass: a summary stays a summary
            copied.update(changes)
            return copied
        return {renamed.get(key, key): changes.get(key, item) for key, item in fields.items()}

    def signed_has_secret(self, fields: Mapping[str, Any], path: str) -> bool:
        """Whether a piece of signed reasoning has a secret.

        Raises:
            SecretRefusedError: it has one, and such messages are refused.
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
        """*value* redacted by itself, and then together with its key, which may mark it as a secret."""
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
            return inner  # the placeholder would break JSON that others read later
        self.found += found
        return redacted

    def _media(self, value: str, path: str) -> str:
        """*value*, data of a file or a URL with data, redacted if the file is a text."""
        head, mark, body = value.rpartition(";base64,")
        try:
            text = base64.b64decode("".join(body.split()), validate=True).decode()
        except UnicodeDecodeError:
            return value  # a picture, a sound
        except ValueError:
            return self._text(value, path)  # no base64
        redacted = self._text(text, f"{path}.$")
        return value if redacted is text else head + mark + base64.b64encode(redacted.encode()).decode()

    def _json(self, text: str, path: str) -> str:
        """*text*, if it is JSON, redacted value by value: escapes cannot hide a secret."""
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
    """Whether *item* is reasoning with a signature, or bound to its provider by an id."""
    if not isinstance(item, Mapping):
        return False
    kind = item.get("type")
    if kind == "reasoning":
        return bool(item.get("encrypted_content") or item.get("id") or item.get("signature"))
    if kind in ("thinking", "redacted_thinking") or (isinstance(kind, str) and kind.startswith("reasoning.")):
        return any(item.get(key) for key in ("signature", "data", "thinkingSignature"))
    return any(isinstance(item.get(key), str) and item.get(key) for key in _SIGNATURES)


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
