"""The tool ``memory_save``: a model saves a text that it will need later."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from siltstone.errors import ConfigError, InvalidArgumentsError, InvalidEntryError, SecretRefusedError
from siltstone.knowledge import IMPORTANCE
from siltstone.tools.base import Tool, check_names, refusal, shown

__all__ = ["DESCRIPTION", "MAX_BYTES", "MAX_SAVES", "NAME", "SavedMemory", "memory_save"]

NAME: Final = "memory_save"
MAX_BYTES: Final = 50_000  #: bytes of one memory, as UTF-8
MAX_SAVES: Final = 20  #: saves of one job
_DEFAULT_TYPE: Final = "fact"

DESCRIPTION: Final = (
    "Save something worth remembering to long-term memory: a decision, a preference, a goal, a fact about "
    "the user or the project. Save one thing at a time, in a sentence that can be understood alone. Never "
    "save passwords, keys or tokens."
)

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "content": {"type": "string", "description": "What to remember; 1 to 50,000 bytes."},
        "memory_type": {
            "type": "string",
            "enum": list(IMPORTANCE),
            "default": _DEFAULT_TYPE,
            "description": "What it is.",
        },
        "importance": {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "description": "0 to 1; by its type where not given: "
            + ", ".join(f"{kind} {value:g}" for kind, value in IMPORTANCE.items())
            + ".",
        },
        "source": {"type": "string", "description": "Who said it, or where it stands."},
        "associations": {
            "type": "array",
            "description": "Memories that it belongs to.",
            "items": {
                "type": "object",
                "properties": {
                    "target_id": {"type": "string", "description": "The id of the other memory."},
                    "relation": {"type": "string", "description": "How the two belong together."},
                },
                "required": ["target_id"],
            },
        },
    },
    "required": ["content"],
}


@dataclass(frozen=True, slots=True)
class SavedMemory:
    """A memory that a model wants to save, checked.

    Attributes:
        content: 1 to 50,000 bytes.
        memory_type: One of the nine documented types.
        importance: 0..1.
        source: The person or system that stated it; empty if the model names none.
        associations: ``(id, relation)`` of related memories.
    """

    content: str
    memory_type: str
    importance: float
    source: str = ""
    associations: tuple[tuple[str, str], ...] = ()


def memory_save(save: Callable[[SavedMemory], str], *, max_saves: int | None = None) -> Tool:
    """The tool over *save*, which keeps a memory in the session that it is bound to, and gives its id.

    Its result is the JSON of ``{"id", "memory_type", "importance"}``.

    Args:
        save: Keeps a memory in its session. No argument of a call names another session.
        max_saves: Calls that are carried out; later ones are refused. None for any number.

    Raises:
        ConfigError: *max_saves* is below 1.
    """
    if max_saves is not None and (type(max_saves) is not int or max_saves < 1):
        raise ConfigError(
            f"max_saves must be an integer >= 1 or None, got {max_saves!r}",
            field="max_saves",
            value=max_saves,
        )
    saved = 0

    def run(arguments: Mapping[str, Any]) -> str:
        nonlocal saved
        memory = read_memory(arguments)
        if max_saves is not None and saved >= max_saves:
            raise refusal(NAME, f"at most {max_saves} memories may be saved now, and all of them were")
        saved += 1
        try:
            name = save(memory)
        except (ConfigError, InvalidEntryError, SecretRefusedError) as error:  # of what the model wrote
            saved -= 1
            raise refusal(NAME, str(error)) from error
        except BaseException:
            saved -= 1
            raise
        return json.dumps(
            {"id": name, "memory_type": memory.memory_type, "importance": memory.importance},
            ensure_ascii=False,
        )

    return Tool(NAME, DESCRIPTION, PARAMETERS, run)


def read_memory(arguments: Mapping[str, Any]) -> SavedMemory:
    """*arguments* as a memory.

    Raises:
        InvalidArgumentsError: an unknown argument or type, an empty or too large content, or an importance
            out of its range; the message says what is valid.
    """
    check_names(NAME, arguments, PARAMETERS["properties"])
    content = arguments.get("content")
    if not isinstance(content, str) or not content.strip():
        raise refusal(NAME, f"'content' must be a text of 1 to {MAX_BYTES:,} bytes, got {_shown(content)}")
    size = len(content.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise refusal(NAME, f"'content' must be a text of 1 to {MAX_BYTES:,} bytes, got {size:,} bytes")
    kind = arguments.get("memory_type")
    kind = _DEFAULT_TYPE if kind is None else kind
    if not isinstance(kind, str) or kind not in IMPORTANCE:
        valid = ", ".join(map(repr, IMPORTANCE))
        raise refusal(NAME, f"'memory_type' must be one of {valid}, got {shown(kind)}")
    importance = arguments.get("importance")
    if importance is None:
        importance = IMPORTANCE[kind]
    if isinstance(importance, bool) or not isinstance(importance, int | float) or not 0 <= importance <= 1:
        raise refusal(NAME, f"'importance' must be a number from 0 to 1, got {shown(importance)}")
    source = arguments.get("source")
    if source is not None and not isinstance(source, str):
        raise refusal(NAME, f"'source' must be a string, got {_shown(source)}")
    return SavedMemory(
        content, kind, float(importance), source or "", tuple(_associations(arguments.get("associations")))
    )


def _associations(given: object) -> list[tuple[str, str]]:
    if given is None:
        return []
    if not isinstance(given, list | tuple):
        raise refusal(NAME, f"'associations' must be a list, got {_shown(given)}")
    return [_association(item) for item in given]


def _association(item: object) -> tuple[str, str]:
    if isinstance(item, str) and item:
        return item, ""
    target = item.get("target_id") if isinstance(item, Mapping) else None
    if not isinstance(target, str) or not target:
        raise _no_association(item)
    relation = item.get("relation") if isinstance(item, Mapping) else None
    if relation is not None and not isinstance(relation, str):
        raise _no_association(item)
    return target, relation or ""


def _no_association(item: object) -> InvalidArgumentsError:
    return refusal(NAME, f"an association must be an object with 'target_id', got {_shown(item)}")


def _shown(value: object) -> str:
    return "an empty text" if isinstance(value, str) else type(value).__name__
