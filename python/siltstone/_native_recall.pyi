"""Recall for a session, and the block that is written of it, as the compiled core provides them.

The other names of the compiled module are in ``_native.pyi``, which exports these as well.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

from siltstone._native import Unread
from siltstone._native_search import SearchOptions
from siltstone._native_store import Store
from siltstone.memory.entry import Ranker
from siltstone.recall.base import BlockOptions, RecallConditions

__all__ = ["BlockWriter", "RecallContext", "Recalled"]

_Detail: TypeAlias = tuple[str, float, str, int, int]  # content, score, role, created_at (ms), entry_id

@final
class RecallContext:
    """What the context of a session does not show: messages that left it, and messages shown in part."""

    def __new__(cls, left: Sequence[tuple[int, int]], cut: Sequence[int]) -> RecallContext: ...

@final
class Recalled:
    """A block of recalled texts, and the outcome of the ranking."""

    text: Final[str]
    tokens: Final[int]
    facts: Final[int]
    details: Final[int]
    is_any: Final[bool]
    considered: Final[str]
    below: Final[int]
    ranker: Final[Ranker]
    hits: Final[bool]
    lacking: Final[int]
    damaged: Final[int]

@final
class BlockWriter:
    """Writes blocks of recalled texts.

    Args:
        special: The characters that make a text dangerous in a block; a text without them is written
            unchanged.
        safe: Makes a text harmless.
        word: Makes a single word of a name.
        framed: Returns the sentence that stands before a block.
    """

    def __new__(
        cls,
        special: str,
        safe: Callable[[str], str],
        word: Callable[[str], str],
        framed: Callable[[str], str],
    ) -> BlockWriter: ...
    def write(
        self, query: str, facts: Sequence[str], details: Sequence[_Detail], options: BlockOptions
    ) -> tuple[str, int, int, int, str]:
        """The block: its text, its tokens, how many facts and details are in it, and a log of the details.

        The log is JSON: for each detail, the best first, its id, its score in millionths, its tokens (null if
        they were not counted), and 0 if it is in the block, 1 if it was cut, 2 if it had no room.
        """

    def recall(
        self,
        store: Store,
        session: str,
        queries: Sequence[tuple[str, tuple[int, bytes] | None]],
        conditions: RecallConditions,
        search: SearchOptions,
        facts: Sequence[str],
        options: BlockOptions,
    ) -> tuple[Recalled | None, list[Unread]]:
        """The block of *facts* and of the hits that are not in context and score enough.

        Each query comes with its vector, if it has one.

        Returns:
            The block; or None, with the messages of the namespace that have to be read first (see
            ``take_said``).
        """
