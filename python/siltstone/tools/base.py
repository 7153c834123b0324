"""A tool that a model may call, its form for each provider, and the size of its answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from siltstone._native import best_window
from siltstone.errors import ConfigError, InvalidArgumentsError, ToolError, ToolNotFoundError, refuse
from siltstone.tokens import TextMeasure, rule

Format: TypeAlias = Literal["openai", "openai.responses", "anthropic", "mcp"]

MAX_DIGITS = 1_000  #: of a number in the arguments; Python itself refuses to read 4,301 digits
LONGEST_SHOWN = 80  #: characters of a value that an error repeats


class AnswerLimit(NamedTuple):
    """The most tokens of an answer of ``memory_search``, their rule, and what writes a time (ms)."""

    tokens: int
    measure: TextMeasure
    when: Callable[[int], str]


@cache
def texts() -> dict[str, Any]:
    """What models are told of the tools of siltstone, by the name of each."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("tools.json").read_text("utf-8"))
    return found


def described(name: str) -> tuple[str, dict[str, Any]]:
    """The description of a tool, and the JSON schema of its arguments."""
    return texts()[name]["description"], texts()[name]["parameters"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool with its schema and the function behind it.

    Attributes:
        name: The name for the model.
        description: The description for the model.
        parameters: The JSON schema of its arguments.
        run: A function of the arguments as a mapping. Returns JSON text, and raises
            ``InvalidArgumentsError`` for arguments that it cannot take.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    run: Callable[[Mapping[str, Any]], str]

    def definition(self, format: Format = "openai") -> dict[str, Any]:  # noqa: A002 - the word users know
        """The definition of the tool for a request, in the form *format*.

        ``openai`` is the form of Chat Completions, ``openai.responses`` that of Responses; ``anthropic``
        that of Messages; ``mcp`` that of ``tools/list``.

        Raises:
            ConfigError: *format* is none of them.
        """
        schema = json.loads(json.dumps(self.parameters))  # a copy that the caller may change
        match format:
            case "openai":
                function = {"name": self.name, "description": self.description, "parameters": schema}
                return {"type": "function", "function": function}
            case "openai.responses":
                return {
                    "type": "function",
                    "name": self.name,
                    "description": self.description,
                    "parameters": schema,
                }
            case "anthropic":
                return {"name": self.name, "description": self.description, "input_schema": schema}
            case "mcp":
                return {"name": self.name, "description": self.description, "inputSchema": schema}
        return refuse("format", "'openai', 'openai.responses', 'anthropic' or 'mcp'", format)

    def call(self, arguments: str | Mapping[str, Any] | None) -> str:
        """The answer to a call, for the model: the tool's result, or why there is none.

        Args:
            arguments: As the model gave them: JSON text of an object, or the object. None and an empty text
                are no arguments.

        Returns:
            JSON text. If the arguments are refused, it is ``{"error": "...", "code": "invalid_arguments"}``:
            the sentence says what is allowed, and the model can call again.
        """
        try:
            return self.run(self.read(arguments))
        except ToolError as error:
            return answered(error)

    def read(self, arguments: str | Mapping[str, Any] | None) -> Mapping[str, Any]:
        """The arguments of a call as an object. ``tool.run(tool.read(arguments))`` is a call that raises.

        Raises:
            InvalidArgumentsError: *arguments* are not JSON, or not an object.
        """
        if isinstance(arguments, str):
            arguments = self._decoded(arguments)
            if isinstance(arguments, str):  # some providers write the text of an object as a text once more
                arguments = self._decoded(arguments)
        if arguments is None:
            return {}
        if type(arguments) is not dict and not isinstance(arguments, Mapping):
            raise self.refuse(f"the arguments must be {self._form()}, got {type(arguments).__name__}")
        return arguments

    def _decoded(self, text: str) -> Any:
        if not text.strip():
            return None
        try:
            return _READER.decode(text)
        except ValueError as error:
            raise self.refuse(f"the arguments must be {self._form()}, and are not JSON: {error}") from error
        except RecursionError as error:
            raise self.refuse("the arguments are nested too deeply to be read") from error

    def _form(self) -> str:
        """The form of the arguments in words, with the ones that every call needs."""
        needed = self.parameters.get("required") or list(self.parameters.get("properties", {}))[:1]
        return f"an object such as {{{', '.join(f'{json.dumps(name)}: ...' for name in needed)}}}"

    def refuse(self, reason: str) -> InvalidArgumentsError:
        """The error for arguments that cannot be taken, in this tool's name."""
        return refusal(self.name, reason)


def refusal(name: str, reason: str) -> InvalidArgumentsError:
    """The error for arguments that the tool *name* cannot take."""
    return InvalidArgumentsError(f"{name}: {reason}", name=name, reason=reason)


def answered(error: ToolError) -> str:
    """The answer that tells a model of *error*: its sentence, and its kind."""
    return json.dumps({"error": str(error), "code": error.code}, ensure_ascii=False)


def check_names(name: str, arguments: Mapping[str, Any], known: Iterable[str]) -> None:
    """Checks that the tool *name* gets no other arguments than the *known* ones.

    Raises:
        InvalidArgumentsError: it gets another one.
    """
    unknown = next((each for each in arguments if each not in known), None)
    if unknown is not None:
        named = ", ".join(map(repr, known)) or "none"
        raise refusal(name, f"there is no argument {shown(unknown)}; known are {named}")


def dispatch(tools: Sequence[Tool], name: str, arguments: str | Mapping[str, Any] | None) -> str:
    """The answer to a call of the tool *name*, for the model: as :meth:`Tool.call` gives it.

    If none of *tools* has that name, the answer has the code ``tool_not_found``, and names those that there
    are.
    """
    for tool in tools:
        if tool.name == name:
            return tool.call(arguments)
    known = ", ".join(repr(tool.name) for tool in tools) or "none"
    return answered(ToolNotFoundError(f"there is no tool {shown(name)}; known are {known}", name=name))


def shown(value: object) -> str:
    """*value* for an error text: short, and printable for every value that a model may send."""
    if isinstance(value, (Mapping, list, tuple)):
        return f"a value of type {type(value).__name__}"
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return "an integer of thousands of digits"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits, at most {MAX_DIGITS} are read")
    return int(digits)


_READER: Final = json.JSONDecoder(parse_int=_integer)


# The largest answer of a tool, and the part of a long text that it shows.

Count: TypeAlias = Callable[[str], int]
"""A function that counts the tokens of a text."""

COUNT: Final[Count] = rule("blocks").count_text  #: by the default rule

FLOOR: Final = 60  #: the minimum tokens of a cut text
LEAST_BUDGET: Final = 100  #: the minimum budget: room for one text and the JSON around it
CUT: Final = "…"  #: marks a cut

_WRITER: Final = json.JSONEncoder(ensure_ascii=False)
_LEAST, _MOST, _PERCENT = 600, 2_000, 5
_BYTES_PER_TOKEN = 4  # a first guess; the count has the last word


def answer_budget(context_window: int | None) -> int:
    """The maximum tokens of a tool's answer: 5 % of the window, from 600 to 2,000.

    For an unknown window it is 2,000.
    """
    if context_window is None:
        return _MOST
    return min(max(context_window * _PERCENT // 100, _LEAST), _MOST)


def check_budget(tokens: int, field: str = "budget") -> int:
    """*tokens*, if a tool can answer within so many.

    Raises:
        ConfigError: it is no integer, or under ``LEAST_BUDGET``.
    """
    if type(tokens) is not int or tokens < LEAST_BUDGET:
        raise ConfigError(
            f"{field}, what a tool answers at most, must be an integer >= {LEAST_BUDGET} tokens, "
            f"got {tokens!r}",
            field,
            tokens,
        )
    return tokens


def shares(sizes: Sequence[int], room: int) -> int:
    """The largest size to which *sizes* can be cut so that all of them fit *room* together."""
    left, waiting = room, len(sizes)
    for size in sorted(sizes):
        if size * waiting > left:
            return max(left // waiting, 0)
        left -= size
        waiting -= 1
    return max(sizes, default=0)


def as_json(value: object) -> str:
    """*value* as JSON text, which a model reads as it is: only escapes that JSON demands are in it."""
    return _WRITER.encode(value)


def beginning(text: str, fits: Callable[[str], bool]) -> str:
    """As much of the beginning of *text* as *fits*, and an ellipsis; found by halving."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(f"{text[:middle]} {CUT}"):
            low = middle
        else:
            high = middle - 1
    return f"{text[:low]} {CUT}"


def best_part(text: str, query: str, tokens: int, count: Count = COUNT) -> str:
    """*text*, or its passage that matches *query* best, of at most *tokens* by *count*.

    An ellipsis marks a cut. If no passage is short enough, the result is the ellipsis alone.
    """
    if count(text) <= tokens:
        return text
    size = tokens * _BYTES_PER_TOKEN
    while size > 0:
        start, end = best_window(text, query, size)
        part = f"{f'{CUT} ' if start else ''}{text[start:end].strip()}{f' {CUT}' if end < len(text) else ''}"
        if count(part) <= tokens:
            return part
        size = size * 7 // 8
    return CUT
