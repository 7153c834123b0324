"""The texts of tiered compaction: prompts of the summariser, headings of summaries, and markers."""

from __future__ import annotations

from typing import Final

__all__ = [
    "CHECKPOINT_NOTE",
    "CHECKPOINT_PROMPT",
    "DOCUMENTED_MARKER",
    "EARLIER_NOTE",
    "EMERGENCY_MARKER",
    "FORK_MARKER",
    "META_NOTE",
    "OVERFLOW_MARKER",
    "ROLLUP_NOTE",
    "SUMMARY_HEADING",
    "SUMMARY_PROMPT",
    "WORKER_MARKER",
    "WORKER_PROMPT",
]

# The documented prompt of a worker with a tool that saves memories, word for word.
WORKER_PROMPT: Final = """\
You are a compaction worker.
Your job:
1. Summarize the provided conversation turns into a cohesive narrative
2. Extract any memorable facts, decisions, or preferences
3. Save them using memory_save

Guidelines:
- Preserve important context
- Maintain chronological flow
- Don't lose critical information
- Extract structured memories for anything worth remembering"""

# The prompt of a worker without tools.
SUMMARY_PROMPT: Final = """\
You are a compaction worker. Summarize the conversation turns above into a cohesive narrative of 2 to 5 \
paragraphs: plain text, past tense, third person.

Guidelines:
- Keep decisions with their reasons, live topics, commitments, the user's emotional state and running tasks
- Keep names, figures, paths and errors as they were said
- Maintain chronological flow
- Leave out greetings, tool mechanics and intermediate reasoning"""

META_NOTE: Final = (
    "The turns above were summarised before, in several summaries that have become too long together. Your "
    "summary takes the place of all of them."
)

# The prompt of a checkpoint.
CHECKPOINT_PROMPT: Final = """\
You are keeping the chronicle of a session. Summarize the messages above, and only these, into a checkpoint: \
plain text, past tense, third person.

Guidelines:
- Keep decisions with their reasons, commitments, results of work and what was left open
- Keep names, figures, paths and errors as they were said
- Maintain chronological flow
- Leave out greetings, tool mechanics and intermediate reasoning"""

CHECKPOINT_NOTE: Final = (
    "Begin with a title of at most ten words on a line of its own, then a blank line, then the text."
)
EARLIER_NOTE: Final = (
    "What the checkpoints before said, so that the story goes on; do not summarize it again:"
)
ROLLUP_NOTE: Final = (
    "The summaries above are checkpoints of consecutive parts of one session, oldest first. Write one "
    "checkpoint of the whole. Keep every decision, path, figure and open task; where two of them disagree, "
    "the later one holds."
)

SUMMARY_HEADING: Final = "[Summary {n}: turns {first}-{last}]"

EMERGENCY_MARKER: Final = "[Emergency truncation: {n} oldest messages removed to prevent overflow]"
DOCUMENTED_MARKER: Final = "[Emergency truncation: oldest messages removed to prevent overflow]"
OVERFLOW_MARKER: Final = "[Context overflow: {n} oldest messages removed so that the request fits]"
WORKER_MARKER: Final = "[Worker history: {n} oldest messages removed]"
FORK_MARKER: Final = "[Fork: {n} oldest messages removed to fit the window; the parent still has them]"
