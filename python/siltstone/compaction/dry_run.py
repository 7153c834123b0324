"""A dry run of a policy: its flow runs with made-up answers in place of a model's and a curator's."""

from __future__ import annotations

from collections.abc import Sequence

from siltstone.compaction.base import Compaction, CompactionError, Compactor, Skip, Trigger
from siltstone.llm import Completion, Flow
from siltstone.messages import Message

__all__ = ["dry_run"]

_HALVINGS = 12  # of a summary's budget, when a plan looks for one with which the history shrinks


def dry_run(policy: Compactor, history: Sequence[Message], trigger: Trigger) -> tuple[int, Compaction | Skip]:
    """The requests to a model that it takes, and the rewrite.

    Each summary fills its budget, or the largest halving of it with which the history shrinks.
    """
    requests = 0
    result: Compaction | Skip = Skip("nothing_to_discard")
    for halving in range(_HALVINGS):
        requests, result = _run(policy.flow(history, trigger), 2**halving)
        if isinstance(result, Compaction) or result.reason != "no_reduction":
            break
    return requests, result


def _run(flow: Flow[Compaction | Skip], divisor: int) -> tuple[int, Compaction | Skip]:
    requests = 0
    try:
        request = next(flow)
        while True:
            requests += request.curator is None
            request = flow.send(Completion("word" * max(1, request.max_tokens // divisor)))
    except StopIteration as stop:
        return requests, stop.value
    except CompactionError as error:
        return requests, Skip(error.reason, str(error))
    finally:
        flow.close()
