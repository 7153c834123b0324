"""Messages between siltstone and the clients of OpenAI and Anthropic. mypy reads this file; it never runs."""

from __future__ import annotations

from anthropic import Anthropic
from anthropic.types import Message as AnthropicMessage, MessageParam
from openai import OpenAI
from openai.types.chat import ChatCompletionMessage, ChatCompletionUserMessageParam

import siltstone
from siltstone import Session


def openai_client(session: Session, client: OpenAI, asked: ChatCompletionUserMessageParam) -> None:
    session.append(asked)
    prepared = session.prepare()
    answer = client.chat.completions.create(model="m", messages=prepared.messages)
    message: ChatCompletionMessage = answer.choices[0].message
    session.append(message, usage=answer.usage)
    client.responses.create(model="m", input=prepared.messages)


def anthropic_client(session: Session, client: Anthropic, asked: MessageParam) -> None:
    session.append(asked)
    answer = client.messages.create(model="m", max_tokens=9, messages=session.prepare().messages)
    message: AnthropicMessage = answer
    session.append(message, usage=answer.usage)
    history: list[MessageParam] = [asked]
    outcome = siltstone.compact(history, siltstone.ThresholdCompactor())
    client.messages.create(model="m", max_tokens=9, messages=outcome.messages)
    siltstone.estimate_tokens(history)
    siltstone.estimate_tokens(asked)
    siltstone.plan(history, siltstone.ThresholdCompactor())
    session.observe(history)
