"""Recall for a session, and the block that is written of it, as the compiled core provides them.

The other names of the compiled module are in ``_native.pyi``, which exports these as well.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

from siltstone._native import Unread
from siltstone._native_search import SearchOptions
from siltstone._native_store import Store
from siltstone.memory.entry import Ranker
from siltstone.tokens import TextMeasure

__all__ = ["BlockOptions", "BlockWriter", "RecallConditions", "RecallContext", "Recalled"]

_Detail: TypeAlias = tuple[str, float, str, int, int]  # content, score, role, created_at (ms), entry_id

@final
class RecallContext:
    """What the context of a session does not show: messages that left it, and messages shown in part."""

    def __new__(cls, left: Sequence[tuple[int, int]], cut: Sequence[int]) -> RecallContext: ...

@final
class RecallConditions:
    """The conditions on the entries that a session recalls.

    Args:
        scores: The least score of the best hit; the share of it that the other hits need; and the share of
            the best hit's score that each step away from it costs.
        distance: How many entries before and after the best hit come with it.
        context: The messages that have left the context.
        end: The end of the log.
        is_across: Whether all sessions of its namespace are searched.
    """

    def __new__(
        cls,
        scores: tuple[float, float, float],
        distance: int,
        context: RecallContext,
        end: int,
        is_across: bool,
    ) -> RecallConditions: ...

@final
class BlockOptions:
    """The limits of a block, and how it is written.

    Args:
        cap: The most tokens of the block.
        known: The most of these tokens for facts; details have the rest.
        count: Counts the tokens of a text.
        measure: The rule that *count* implements, if the core knows it.
        excerpt: Called with query, text and a number of tokens; returns the best part of the text. With it,
            no detail takes more than half of the tokens that are left.
        is_framed: Whether a sentence stands before the block.
        cut: Whether a detail that is larger than the budget of details is cut.
    """

    def __new__(
        cls,
        cap: int,
        known: int,
        count: Callable[[str], int],
        measure: TextMeasure | None,
        excerpt: Callable[[str, str, int], str] | None,
        is_framed: bool,
        cut: bool,
    ) -> BlockOptions: ...

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
        query: str,
        conditions: RecallConditions,
        search: SearchOptions,
        vector: tuple[int, bytes] | None,
        facts: Sequence[str],
        options: BlockOptions,
    ) -> tuple[Recalled | None, list[Unread]]:
        """The block of *facts* and of the hits that are not in context and score enough.

        Returns:
            The block; or None, with the messages of the namespace that have to be read first (see
            ``take_said``).
        """
