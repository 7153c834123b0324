"""Small agents as users write them: a session, a real SDK, and a loop around a model that calls tools."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import anthropic
import openai

from siltstone import Session, Tool
from siltstone.tools.base import Format, dispatch


class Agent(ABC):
    """The loop of an agent. Each dialect defines how it asks the model, and how it answers calls.

    Args:
        url: Where the provider listens.
        session: Keeps the history.
        tools: The tools of the model, beside the tools of the session.
    """

    form: Format = "openai"  #: of the definitions of tools

    def __init__(self, url: str, session: Session, tools: Sequence[Tool]) -> None:
        self.session, self.tools = session, [*tools, session.memory_search, session.memory_get]
        self.defined: list[Any] = [tool.definition(self.form) for tool in self.tools]
        self.requests = 0
        self.recoveries = 0

    def turn(self, *messages: Any, stream: bool = False) -> None:
        self.session.append(*messages)
        while True:
            calls = self.ask(stream)
            if not calls:
                return
            self.session.append(*self.answers([(call, self.run(*call[1:])) for call in calls]))

    def ask(self, stream: bool) -> list[tuple[str, str, Any]]:
        """Makes one model call. Returns the tool calls of the answer: id, name and arguments."""
        prepared = self.session.prepare()
        while True:
            self.requests += 1
            try:
                return self.send(prepared.messages, stream)
            except (openai.BadRequestError, anthropic.BadRequestError) as error:
                prepared = self.session.recover(error)
                self.recoveries += 1

    def run(self, name: str, arguments: Any) -> str:
        return dispatch(self.tools, name, arguments)

    @abstractmethod
    def send(self, messages: list[Any], stream: bool) -> list[tuple[str, str, Any]]:
        """Asks the model, and appends its answer."""

    @abstractmethod
    def answers(self, done: list[tuple[tuple[str, str, Any], str]]) -> list[Any]:
        """The messages with the answers of the tools."""


class ChatAgent(Agent):
    """Chat completions of the openai SDK."""

    def __init__(self, url: str, session: Session, tools: Sequence[Tool]) -> None:
        super().__init__(url, session, tools)
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    def send(self, messages: list[Any], stream: bool) -> list[tuple[str, str, Any]]:
        if stream:
            message, usage = self._streamed(messages)
        else:
            answer = self.client.chat.completions.create(model="agent", messages=messages, tools=self.defined)
            message, usage = answer.choices[0].message.model_dump(exclude_none=True), answer.usage
        self.session.append(message, usage=usage)
        calls = message.get("tool_calls", [])
        return [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls]

    def _streamed(self, messages: list[Any]) -> tuple[dict[str, Any], Any]:
        said: dict[str, str] = {}
        calls: dict[int, dict[str, Any]] = {}
        usage = None
        chunks = self.client.chat.completions.create(
            model="agent",
            messages=messages,
            tools=self.defined,
            stream=True,
            stream_options={"include_usage": True},
        )
        for chunk in chunks:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                for field in ("reasoning_content", "content"):
                    said[field] = said.get(field, "") + (getattr(choice.delta, field, None) or "")
                for piece in choice.delta.tool_calls or ():
                    assert piece.function is not None
                    function = {"name": piece.function.name, "arguments": ""}
                    call = calls.setdefault(
                        piece.index, {"id": piece.id, "type": "function", "function": function}
                    )
                    call["function"]["arguments"] += piece.function.arguments or ""
        message: dict[str, Any] = {"role": "assistant", "content": said["content"] or None}
        if said["reasoning_content"]:
            message["reasoning_content"] = said["reasoning_content"]
        if calls:
            message["tool_calls"] = list(calls.values())
        return message, usage

    def answers(self, done: list[tuple[tuple[str, str, Any], str]]) -> list[Any]:
        return [{"role": "tool", "tool_call_id": call[0], "content": text} for call, text in done]


class ResponsesAgent(Agent):
    """Responses of the openai SDK: its items go into the session as they came."""

    form = "openai.responses"

    def __init__(self, url: str, session: Session, tools: Sequence[Tool]) -> None:
        super().__init__(url, session, tools)
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    def send(self, messages: list[Any], stream: bool) -> list[tuple[str, str, Any]]:
        if stream:
            events = self.client.responses.create(
                model="agent", input=messages, tools=self.defined, stream=True
            )
            (response,) = (event.response for event in events if event.type == "response.completed")
        else:
            response = self.client.responses.create(model="agent", input=messages, tools=self.defined)
        self.session.append(*response.output, usage=response.usage)
        calls = (item for item in response.output if item.type == "function_call")
        return [(call.call_id, call.name, call.arguments) for call in calls]

    def answers(self, done: list[tuple[tuple[str, str, Any], str]]) -> list[Any]:
        return [{"type": "function_call_output", "call_id": call[0], "output": text} for call, text in done]


class AnthropicAgent(Agent):
    """Messages of the anthropic SDK, with thinking: its blocks go into the session as they came."""

    form = "anthropic"
    steering = ""  #: the user's words while tools run, beside their results

    def __init__(self, url: str, session: Session, tools: Sequence[Tool]) -> None:
        super().__init__(url, session, tools)
        self.client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)

    def send(self, messages: list[Any], stream: bool) -> list[tuple[str, str, Any]]:
        asked: dict[str, Any] = {
            "model": "agent",
            "max_tokens": 2_048,
            "system": "You mend weirs.",
            "messages": messages,
            "tools": self.defined,
            "thinking": {"type": "enabled", "budget_tokens": 1_024},
        }
        if stream:
            with self.client.messages.stream(**asked) as events:
                message = events.get_final_message()
        else:
            message = self.client.messages.create(**asked)
        self.session.append({"role": "assistant", "content": message.content}, usage=message.usage)
        return [(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"]

    def answers(self, done: list[tuple[tuple[str, str, Any], str]]) -> list[Any]:
        blocks: list[Any] = [
            {"type": "tool_result", "tool_use_id": call[0], "content": text} for call, text in done
        ]
        if self.steering:
            blocks.append({"type": "text", "text": self.steering})
            self.steering = ""
        return [{"role": "user", "content": blocks}]


AGENTS: dict[str, type[Agent]] = {
    "openai.chat": ChatAgent,
    "openai.responses": ResponsesAgent,
    "anthropic": AnthropicAgent,
}
