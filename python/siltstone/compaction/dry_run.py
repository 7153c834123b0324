"""A dry run of a policy: its flow gets made-up answers instead of answers of a model or curator."""

from __future__ import annotations

from collections.abc import Sequence

from siltstone.compaction.base import Compaction, CompactionError, Compactor, Skip, Trigger
from siltstone.llm import LAST_RESORT, Completion, Flow
from siltstone.messages import Message

__all__ = ["dry_run"]

_HALVINGS = 12  # sizes of made-up summaries: the full budget, a half of it, a quarter ...


def dry_run(policy: Compactor, history: Sequence[Message], trigger: Trigger) -> tuple[int, Compaction | Skip]:
    """The number of requests to a model, and the rewrite.

    Each made-up summary fills its whole budget. If the history does not shrink with it, the run is repeated
    with a half of the budget, then with a quarter, and so on.
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
            requests += request.curator is None and request.rank != LAST_RESORT
            request = flow.send(Completion("word" * max(1, request.max_tokens // divisor)))
    except StopIteration as stop:
        return requests, stop.value
    except CompactionError as error:
        return requests, Skip(error.reason, str(error))
    finally:
        flow.close()
