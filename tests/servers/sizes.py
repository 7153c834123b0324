"""The sizes of requests as servers count them: a tokenizer, a cache of prefixes, and the words of refusals.

The tokenizer is no model's own. Its counts are those of Qwen and Gemma by classes of characters: a word of
English is about 1.2 tokens, a digit is one, and so is a letter of any other script.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

#: The parameters that each API knows, and the words of refusals.
TABLE = json.loads((Path(__file__).parents[1] / "data" / "providers.json").read_text("utf-8"))

_TOKEN = re.compile(
    r"<\|\w+\|>|\d| ?[a-z]{1,6}| ?[A-Z][a-z]{0,5}| ?[A-Z]{1,3}| ?[^\W\d_]|\s{1,16}| ?[^\w\s]{1,2}|.",
    re.DOTALL,
)
_MEDIA = {"image_url", "input_image", "image", "input_audio", "file", "input_file", "document"}
_MEDIA_TOKENS = ["<|media|>"] * 765
_NOT_READ = {"id", "type", "role", "signature", "encrypted_content", "status", "cache_control", "index"}


class Refusal(Exception):  # noqa: N818 - an answer, and no error of ours
    """The error that a provider sends instead of an answer. *more* is what else its body has."""

    def __init__(
        self,
        message: str,
        code: str | int | None = None,
        kind: str = "invalid_request_error",
        status: int = 400,
        more: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.code, self.kind, self.status, self.more = message, code, kind, status, more or {}


def refuse(refusal: str, /, **values: Any) -> NoReturn:
    """Raises a *refusal* of the table, with *values* in its text."""
    row = {**TABLE["refusals"][refusal]}
    row["message"] = row["message"].format(**values)
    raise Refusal(**{**row, "more": {key: values[each] for key, each in row.get("more", {}).items()}})


def judge_parameters(api: str, body: dict[str, Any], name: str) -> None:
    """Refuses, as *name*, what is no parameter of *api*."""
    for each in body.keys() - TABLE["parameters"][api].split():
        refuse(name, name=each)


def prompt_of(body: dict[str, Any]) -> tuple[list[str], list[int]]:
    """The tokens of a request as a template renders it, and after how many of them a cache mark stands."""
    tokens: list[str] = []
    marks: list[int] = []
    for tool in body.get("tools") or ():
        tokens += _TOKEN.findall(json.dumps(tool, ensure_ascii=False))
        marks += [len(tokens)] * ("cache_control" in tool)
    given = body.get("messages", body.get("input"))
    given = [{"role": "user", "content": given}] if isinstance(given, str) else given
    rules = body.get("system") or body.get("instructions")
    for message in [*([{"role": "system", "content": rules}] if rules else []), *given]:
        tokens += ["<|start|>", message.get("role") or "", "\n"]
        for text, marked in _texts(message):
            tokens += _MEDIA_TOKENS if text is None else _TOKEN.findall(text)
            marks += [len(tokens)] * marked
        tokens += ["<|end|>", "\n"]
    return [*tokens, "<|start|>", "assistant", "\n"], marks


def _texts(value: Any) -> Iterator[tuple[str | None, bool]]:
    """All texts that a model reads of a message, None for media; and whether a cache mark ends there."""
    if isinstance(value, str):
        yield value, False
    elif isinstance(value, dict):
        if value.get("type") in _MEDIA:
            yield None, False
        else:
            for key, each in value.items():
                if key not in _NOT_READ:
                    yield from _texts(each)
        if value.get("cache_control"):
            yield "", True
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


class Prefixes:
    """What a server has still of the prompts before, so that it need not read it again."""

    def __init__(self) -> None:
        self._kept = list[list[str]]()
        self._marked: set[int] = set()

    def exact(self, tokens: list[str]) -> int:
        """How many tokens begin an earlier prompt too. The last one is always read, for the answer."""
        shared = max((_shared(tokens, each) for each in self._kept), default=0)
        self._kept = [*self._kept, tokens][-8:]
        return min(shared, len(tokens) - 1)

    def marked(self, tokens: list[str], marks: list[int], least: int = 1_024) -> tuple[int, int]:
        """How many tokens are read of a cache that marks made, and how many are now written to it."""
        known = [(at, hash(tuple(tokens[:at]))) for at in marks if at >= least]
        read = max((at for at, key in known if key in self._marked), default=0)
        self._marked |= {key for _, key in known}
        return read, max((at for at, _ in known), default=read) - read


def _shared(one: list[str], other: list[str]) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low
