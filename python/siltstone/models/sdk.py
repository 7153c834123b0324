"""Models of the SDKs of OpenAI and Anthropic, and base models, as what a policy asks for summaries."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from siltstone.errors import ConfigError, ModelError, requires
from siltstone.llm import Completion, CompletionRequest, ToolCall, UsageRecord

# The calls that a model asks for.


def _arguments(text: str) -> dict[str, Any] | str:
    """The arguments of a call, which models write as JSON. What is no object stays as it was written."""
    try:
        read = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return read if isinstance(read, dict) else text


def _sent(request: CompletionRequest, result: Callable[[Any], dict[str, Any]]) -> list[Any]:
    """The messages of *request*; *result* writes the result of a tool, which has the form of a chat.

    The earlier answers of the model are as the provider gave them.
    """
    each_said = (
        each.get("said") or ([result(each)] if each.get("role") == "tool" else [each])
        for each in request.messages
    )
    return [message for said in each_said for message in said]


def _in_time(client: Any, request: CompletionRequest) -> Any:
    """*client* without a call after the request's deadline: no answer is awaited then, and a server is free.

    The SDK repeats no call. Whoever wants a summary repeats it, within the deadline.
    """
    if request.deadline is None:
        return client
    return client.with_options(timeout=request.deadline, max_retries=0)


# A model of OpenAI's API, or of a server that speaks like it, that writes summaries and reads for facts.

OpenAIApi: TypeAlias = Literal["chat", "responses"]
LEAST_RESPONSE = 16  #: tokens of an answer that Responses takes as a limit


def openai(model: str, client: Any = None, *, api: OpenAIApi = "chat", **settings: Any) -> OpenAIModel:
    """*model* as the ``model`` of a ``Session``, asked through the openai SDK.

    Args:
        model: The model's name.
        client: An ``openai.OpenAI``; None makes one, which takes its key from the environment. Servers that
            speak like OpenAI's are reached by their ``base_url``.
        api: ``"chat"`` for Chat Completions, ``"responses"`` for Responses: that of the conversation, where
            a policy sends requests that begin like the live one.
        settings: Parameters of every call, such as ``reasoning_effort="low"``.

    Raises:
        ConfigError: an unknown *api*.
        ImportError: the extra ``openai`` is not installed.
    """
    if client is None:
        with requires("openai", "siltstone.models.openai"):
            from openai import OpenAI
        client = OpenAI()
    return OpenAIModel(model, client, _checked(api), settings)


def async_openai(
    model: str, client: Any = None, *, api: OpenAIApi = "chat", **settings: Any
) -> AsyncOpenAIModel:
    """:func:`openai` for an ``AsyncSession``, with an ``openai.AsyncOpenAI``."""
    if client is None:
        with requires("openai", "siltstone.models.async_openai"):
            from openai import AsyncOpenAI
        client = AsyncOpenAI()
    return AsyncOpenAIModel(model, client, _checked(api), settings)


class _NamedOpenAI:
    """A model by its name, and how it is asked."""

    provider = "openai"  #: for traces

    def __init__(self, model: str, client: Any, api: OpenAIApi, settings: dict[str, Any]) -> None:
        self.model, self._client, self._api, self._settings = model, client, api, settings

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model!r}>"

    def _create(self, request: CompletionRequest) -> Any:
        """The answer of the SDK to *request*, or an awaitable of it."""
        client = _in_time(self._client, request)
        if self._api == "chat":
            return client.chat.completions.create(**_chat(self.model, request), **self._settings)
        return client.responses.create(**_responses(self.model, request), **self._settings)

    def _read(self, answer: Any, request: CompletionRequest) -> Completion:
        read = _read_chat if self._api == "chat" else _read_response
        return read(answer, self.model, request)


class OpenAIModel(_NamedOpenAI):
    """Made by :func:`openai`."""

    def __call__(self, request: CompletionRequest) -> Completion:
        """The model's answer; raises what the SDK raises."""
        return self._read(self._create(request), request)


class AsyncOpenAIModel(_NamedOpenAI):
    """Made by :func:`async_openai`."""

    async def __call__(self, request: CompletionRequest) -> Completion:
        """The model's answer; raises what the SDK raises."""
        return self._read(await self._create(request), request)


def _chat(model: str, request: CompletionRequest) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "model": model,
        "messages": _sent(request, dict),
        "max_completion_tokens": request.max_tokens,
    }
    if request.stop:
        asked["stop"] = list(request.stop)
    return {**asked, **_common(request)}


def _responses(model: str, request: CompletionRequest) -> dict[str, Any]:
    most = max(request.max_tokens, LEAST_RESPONSE)
    messages = [item for each in _sent(request, _output) for item in _items(each)]
    asked = {"model": model, "input": messages, "max_output_tokens": most, "store": False}
    asked |= _common(request)  # this API cannot end at a text
    if request.tools:
        asked["tools"] = [
            {"type": "function", "strict": False, **function} if function else tool
            for tool, function in _functions(request)
        ]
    return asked


def _output(result: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": result["tool_call_id"], "output": result["content"]}


def _items(message: Any) -> list[Any]:
    """*message* as items. Calls in the form of a chat are those whose arguments were broken."""
    called = message.get("tool_calls") or ()
    said = {key: value for key, value in message.items() if key != "tool_calls"}
    calls = [{"type": "function_call", "call_id": each["id"], **each["function"]} for each in called]
    return [said, *calls] if said.get("content") or not calls else calls


def _functions(request: CompletionRequest) -> list[tuple[Any, Any]]:
    """The tools of a request; with each its function, where it has the form of Chat Completions."""
    return [(tool, tool.get("function") if isinstance(tool, dict) else None) for tool in request.tools]


def _common(request: CompletionRequest) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    if request.temperature is not None:
        asked["temperature"] = request.temperature
    if request.tools:
        asked["tools"] = list(request.tools)
    return asked


def _read_chat(answer: Any, model: str, request: CompletionRequest) -> Completion:
    choice, usage = answer.choices[0], answer.usage
    record = None
    if usage is not None:
        details = usage.prompt_tokens_details
        cached = (details.cached_tokens if details is not None else None) or 0
        record = UsageRecord(model, usage.prompt_tokens, usage.completion_tokens, cached, request.purpose)
    calls = tuple(
        ToolCall(call.function.name, _arguments(call.function.arguments), call.id)
        for call in choice.message.tool_calls or ()
        if call.type == "function"
    )
    said = choice.message
    sent_back = (said.model_dump(exclude_none=True, exclude_unset=True),) if calls else ()
    return Completion(said.content or said.refusal or "", record, choice.finish_reason, calls, sent_back)


def _read_response(answer: Any, model: str, request: CompletionRequest) -> Completion:
    usage, record = answer.usage, None
    if usage is not None:
        cached = usage.input_tokens_details.cached_tokens or 0
        record = UsageRecord(model, usage.input_tokens, usage.output_tokens, cached, request.purpose)
    calls = tuple(
        ToolCall(item.name, _arguments(item.arguments), item.call_id)
        for item in answer.output
        if item.type == "function_call"
    )
    parts = (part for item in answer.output if item.type == "message" for part in item.content)
    text = "".join(part.text if part.type == "output_text" else part.refusal for part in parts)
    details = answer.incomplete_details
    items = (item.model_dump(exclude_none=True, exclude={"id", "status"}) for item in answer.output)
    said = (item for item in items if item["type"] != "reasoning")  # nothing of it was stored
    reason = details.reason if details else answer.status
    return Completion(text, record, reason, calls, tuple(said) if calls else ())


def _checked(api: OpenAIApi) -> OpenAIApi:
    if api not in ("chat", "responses"):
        raise ConfigError(f"api must be 'chat' or 'responses', got {api!r}", field="api", value=api)
    return api


# A model of Anthropic's API that writes summaries and reads for facts.


def anthropic(model: str, client: Any = None, **settings: Any) -> AnthropicModel:
    """*model* as the ``model`` of a ``Session``, asked through the anthropic SDK.

    Args:
        model: The model's name.
        client: An ``anthropic.Anthropic``; None makes one, which takes its key from the environment. Not the
            one that has the middleware of the same session: its calls are the conversation's.
        settings: Parameters of every call. ``system`` is for requests that begin like the live one: give
            the system prompt of the conversation, so that its cache is used.

    Raises:
        ImportError: the extra ``anthropic`` is not installed.
    """
    if client is None:
        with requires("anthropic", "siltstone.models.anthropic"):
            from anthropic import Anthropic
        client = Anthropic()
    return AnthropicModel(model, client, settings)


def async_anthropic(model: str, client: Any = None, **settings: Any) -> AsyncAnthropicModel:
    """:func:`anthropic` for an ``AsyncSession``, with an ``anthropic.AsyncAnthropic``."""
    if client is None:
        with requires("anthropic", "siltstone.models.async_anthropic"):
            from anthropic import AsyncAnthropic
        client = AsyncAnthropic()
    return AsyncAnthropicModel(model, client, settings)


class _NamedAnthropic:
    """A model by its name, and how it is asked."""

    provider = "anthropic"  #: for traces

    def __init__(self, model: str, client: Any, settings: dict[str, Any]) -> None:
        self.model, self._client, self._settings = model, client, settings

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model!r}>"

    def _create(self, request: CompletionRequest) -> Any:
        """The answer of the SDK to *request*, or an awaitable of it."""
        client = _in_time(self._client, request)
        return client.messages.create(**_asked(self.model, request, self._settings))


class AnthropicModel(_NamedAnthropic):
    """Made by :func:`anthropic`."""

    def __call__(self, request: CompletionRequest) -> Completion:
        """The model's answer; raises what the SDK raises."""
        return _read(self._create(request), self.model, request)


class AsyncAnthropicModel(_NamedAnthropic):
    """Made by :func:`async_anthropic`."""

    async def __call__(self, request: CompletionRequest) -> Completion:
        """The model's answer; raises what the SDK raises."""
        return _read(await self._create(request), self.model, request)


def _asked(model: str, request: CompletionRequest, settings: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the call. A system prompt among the messages is a parameter here."""
    systems = [each["content"] for each in request.messages if each.get("role") == "system"]
    asked: dict[str, Any] = {
        "model": model,
        "messages": [each for each in _sent(request, _tool_result) if each.get("role") != "system"],
        "max_tokens": request.max_tokens,
    }
    if request.stop:
        asked["stop_sequences"] = list(request.stop)
    if request.temperature is not None:  # no parameter of the SDK
        asked["extra_body"] = {"temperature": request.temperature}
    if request.tools:
        asked["tools"] = [_tool(function) if function else tool for tool, function in _functions(request)]
    asked |= settings
    if not request.prefix_preserving:
        asked.pop("system", None)
        if systems:
            asked["system"] = "\n\n".join(systems)
    return asked


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {key: function[key] for key in ("name", "description") if key in function}
    return {**told, "input_schema": function.get("parameters", {"type": "object"})}


def _read(answer: Any, model: str, request: CompletionRequest) -> Completion:
    counted = answer.usage
    read, written = counted.cache_read_input_tokens or 0, counted.cache_creation_input_tokens or 0
    sent = counted.input_tokens + read + written
    record = UsageRecord(model, sent, counted.output_tokens, read, request.purpose)
    text = "".join(block.text for block in answer.content if block.type == "text")
    calls = tuple(
        ToolCall(block.name, dict(block.input), block.id)
        for block in answer.content
        if block.type == "tool_use"
    )
    blocks = [block.model_dump(exclude_none=True) for block in answer.content]
    said = ({"role": "assistant", "content": blocks},) if calls else ()
    return Completion(text, record, answer.stop_reason, calls, said)


def _tool_result(result: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": result["tool_call_id"], "content": result["content"]}
    return {"role": "user", "content": [block]}


# A base model, which continues a plain text.

#: By the end of the address: the names of the limit, the object with the parameters, the answer's text, the
#: reason of its end, and the tokens that were read and written.
_ENDPOINTS: dict[str, tuple[str, str, str, str, str, str]] = {
    "/api/generate": ("num_predict", "options", "response", "done_reason", "prompt_eval_count", "eval_count"),
    "/completion": ("n_predict", "", "content", "stop_type", "tokens_evaluated", "tokens_predicted"),
    "/v1/completions": ("max_tokens", "", "text", "finish_reason", "prompt_tokens", "completion_tokens"),
}
_MOST_BYTES = 1 << 24  # of an answer


class CompletionModel:
    """A base model behind an endpoint that completes texts, as the ``model`` of a ``Session``.

    Args:
        url: The whole address. Its end names the API: ``/api/generate`` (Ollama), ``/completion``
            (llama.cpp), ``/v1/completions`` (OpenAI, vLLM and others).
        model: The model's name, if the server has several.
        headers: Headers of each call, such as ``{"Authorization": "Bearer ..."}``.
        settings: Parameters of each call, such as ``repeat_penalty=1.1``.

    Raises:
        ConfigError: the address names none of these APIs.
    """

    provider = "completion"  #: for traces

    def __init__(
        self, url: str, model: str = "", *, headers: Mapping[str, str] | None = None, **settings: Any
    ) -> None:
        found = next((end for end in _ENDPOINTS if str(url).rstrip("/").endswith(end)), None)
        if found is None or not str(url).startswith(("http://", "https://")):
            known = ", ".join(_ENDPOINTS)
            raise ConfigError(
                f"url must be an HTTP address that ends in one of {known}, got {url!r}", "url", url
            )
        self.url, self.model, self._names = url.rstrip("/"), model, _ENDPOINTS[found]
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._settings = settings

    def __repr__(self) -> str:
        return f"<CompletionModel {self.model or self.url!r}>"

    def __call__(self, request: CompletionRequest) -> Completion:
        """The text after the prompt.

        Raises:
            ModelError: the server refused the call, or its answer is not as documented.
            OSError: it was not reached, or the deadline is over.
        """
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen

        sent = Request(self.url, json.dumps(self._asked(request)).encode(), self._headers)  # noqa: S310 - http
        try:
            with urlopen(sent, timeout=request.deadline) as answer:  # noqa: S310 - checked above
                return self._read(json.loads(answer.read(_MOST_BYTES)), request)
        except HTTPError as error:
            said = error.read(4096).decode("utf-8", "replace")
            raise ModelError(f"{self.url} answered with status {error.code}: {said}") from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ModelError(f"{self.url} gave no completion: {error!r}") from error

    def _asked(self, request: CompletionRequest) -> dict[str, Any]:
        limit, holder, *_ = self._names
        said: dict[str, Any] = {limit: request.max_tokens}
        if request.stop:
            said["stop"] = list(request.stop)
        if request.temperature is not None:
            said["temperature"] = request.temperature
        said |= self._settings
        prompt = "\n\n".join(str(each["content"]) for each in request.messages)
        asked = {"prompt": prompt, "stream": False, **({"model": self.model} if self.model else {})}
        return {**asked, "raw": True, holder: said} if holder else {**asked, **said}

    def _read(self, answer: Any, request: CompletionRequest) -> Completion:
        *_, text, reason, read, written = self._names
        said = answer["choices"][0] if "choices" in answer else answer
        if not isinstance(said[text], str):
            raise TypeError(f"{text} is {said[text]!r}")
        counts = answer.get("usage") or answer
        usage = UsageRecord(self.model, counts.get(read) or 0, counts.get(written) or 0, 0, request.purpose)
        return Completion(said[text], usage, said.get(reason))
