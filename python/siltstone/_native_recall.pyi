"""What a session recalls, and the block that is written of it, as the compiled core has them.

The other names of the compiled module are in ``_native.pyi``, which has these as well.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

from siltstone._native import Unread
from siltstone._native_search import SearchOptions
from siltstone._native_store import Store
from siltstone.memory.entry import Ranker
from siltstone.tokens import TextMeasure

__all__ = ["BlockOptions", "BlockWriter", "RecallContext", "RecallQuery", "Recalled"]

_Detail: TypeAlias = tuple[str, float, str, int, int]  # content, score, role, created_at (ms), entry_id

@final
class RecallContext:
    """Which messages of a session have left its context, ascending, and which it shows in part."""

    def __new__(cls, left: Sequence[tuple[int, int]], cut: Sequence[int]) -> RecallContext: ...

@final
class RecallQuery:
    """What a session recalls for a query.

    Args:
        session: The session.
        query: Any text.
        scores: The least score of the best hit, what share of it the others need, and what share of the
            best score each step away from it takes.
        distance: How many entries before and after the best hit come with it.
        context: What has left the context.
        end: Where the log ends.
        is_across: Whether all sessions of its namespace are searched.
    """

    def __new__(
        cls,
        session: str,
        query: str,
        scores: tuple[float, float, float],
        distance: int,
        context: RecallContext,
        end: int,
        is_across: bool,
    ) -> RecallQuery: ...

@final
class BlockOptions:
    """What a block may hold, and how it is written.

    Args:
        cap: Its tokens.
        known: Of these at most for facts, and the rest for details.
        count: The tokens of a text.
        measure: What *count* does, where it is one of these.
        excerpt: Of query, text and tokens the part that fits best. With it no detail takes more than half of
            what those before it have left.
        is_framed: A sentence stands before the block.
        cut: A detail that is larger than the budget of details is cut.
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
    """A block of what was recalled, and what came of the ranking."""

    text: Final[str]
    tokens: Final[int]
    known: Final[int]
    said: Final[int]
    is_any: Final[bool]
    considered: Final[str]
    below: Final[int]
    ranker: Final[Ranker]
    hits: Final[bool]
    lacking: Final[int]
    damaged: Final[int]

@final
class BlockWriter:
    """Writes the block of what was recalled.

    Args:
        special: The characters that a text can do harm with: any other text stands as it is.
        safe: Makes a text harmless.
        word: Makes a name a word.
        framed: The sentence that goes before a block.
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
        """The block of lines and details: the text, what it counts, how many lines and details are in it.

        The last one is what became of each detail, the best first, as JSON: its id, its score in millionths,
        its tokens (null where they were not counted), and 0 where it is placed, 1 where it is cut, 2 where it
        had no room.
        """

    def recall(
        self,
        store: Store,
        asked: RecallQuery,
        search: SearchOptions,
        vector: tuple[int, bytes] | None,
        facts: Sequence[str],
        options: BlockOptions,
    ) -> tuple[Recalled | None, list[Unread]]:
        """The block of *facts*, and of what the store finds that is not in context and scores enough.

        Returns:
            The block; or None, and the messages of the namespace that have to be read first: ``take_said``.
        """
