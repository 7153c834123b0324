"""Sixty questions as agents ask their memory, on the two recorded sessions of agent-dev.

A question is answered by every turn that says it. Eight kinds: words, an identifier, a number, the text of an
error, words with a typo, what is not so, a date or time, and other words than those of the answer.
"""

from __future__ import annotations

from typing import Final

#: The kind, the question, and the turns that answer it, by conversation.
QUESTIONS: Final[dict[str, tuple[tuple[str, str, str], ...]]] = {
    "cc-4d5611e5": (
        ("words", "credo issues waiting_summary", "108 109 155"),
        ("words", "AshComputer live_view ex", "23 25 26"),
        ("words", "subagent tests pass", "7 97 98 99 101 102 162"),
        ("words", "transcript css header hint", "75 176"),
        ("identifier", "recompute_and_push_sync", "62 65 68 71"),
        ("identifier", "build_tool_use_index", "136"),
        ("identifier", "tool_result_group", "117 146 157 158 177 178"),
        ("identifier", "load_session_data", "46 47"),
        ("identifier", "spotter-dov.3", "4 7 117 160 161 162 163 164"),
        ("number", "397", "107 109 110 111"),
        ("number", "410 tests pass", "152 153 157 158"),
        ("number", "task b7636e2", "90 91 94 95"),
        ("number", "seed 792999", "142"),
        ("error", "CoChangeCalculator: cwd not accessible, skipping", "107"),
        ("error", "HeatmapCalculator no sessions with cwd", "152"),
        ("typo", "transcirpt computers module attachement", "30 32 171 178 179"),
        ("typo", "subagnet live test file", "7 97 98 99 102 162"),
        ("typo", "toggel debug handler", "62 64 65 66 177"),
        ("negation", "which alias is no longer used and was removed", "40 49"),
        ("negation", "import that is not used yet", "43"),
        ("negation", "helpers that are now unused", "55"),
        ("negation", "no new credo problems", "109 156"),
        ("date", "issues created on 2026-02-12", "4 7 117 162"),
        ("date", "what was logged at 21:23:45", "107"),
        ("date", "warning at 21:27:30", "152"),
        (
            "paraphrase",
            "how many lines of a tool output are shown before one has to click",
            "4 7 114 117 157 158 162",
        ),
        ("paraphrase", "why was the loading function given a new name", "46"),
        (
            "paraphrase",
            "where does the shared markup for both views live",
            "7 29 35 36 38 84 85 110 111 162 168 169 177 181 182",
        ),
    ),
    "cc-258c7280": (
        ("words", "migration SQLite nullability", "34 60 61 62"),
        ("words", "set upstream push", "152 153"),
        ("words", "flash messages layout", "300 310 311"),
        ("words", "lazy_html dependency", "262 263 266 268 269 271 287"),
        (
            "identifier",
            "AnnotationMessageRef",
            "12 38 39 40 41 46 47 52 59 61 62 71 87 95 97 98 102 103 149 169",
        ),
        ("identifier", "close_review_session", "294 297"),
        ("identifier", "ceff8c3", "202 288"),
        ("number", "20260211203856", "52 54 55 57 58 61 62 71 141 145 150"),
        ("number", "794 insertions", "150"),
        ("number", "lock held by process 780838", "68"),
        ("number", "43 tests", "130 131"),
        ("error", "error: undefined function get/2", "240"),
        ("error", "fatal: The current branch spotter-gqc has no upstream branch", "152"),
        (
            "error",
            "warning: invalid association `message_refs` in schema Spotter.Transcripts.Annotation",
            "52",
        ),
        ("error", "The tool use was rejected", "120"),
        ("error", "secret_key_base is missing in the test config", "250 258 259"),
        ("typo", "sandobx shared mode", "272 275 277"),
        ("typo", "codegne for the new resource", "50 51 52 177 178"),
        ("typo", "lifecyle state of annotations", "157 160 161 164 165 182 183 201 202"),
        ("typo", "heartbaet TTL registry", "7 23 85 95 97 98 144"),
        ("typo", "upsteam branch push", "152 153"),
        ("negation", "module that does not exist yet", "46 52"),
        ("negation", "no divergence from master", "5"),
        ("negation", "endpoint that is not configured for the test environment", "251"),
        ("negation", "there is no ConnCase module", "232 234"),
        ("date", "issues created 2026-02-11", "11 12 160 164"),
        ("date", "migration that ran at 21:41:05", "71"),
        ("date", "migration run at 21:58:53", "185"),
        ("date", "migration file written Feb 11 21:38", "55"),
        ("paraphrase", "why did the generated database change have to be written by hand", "60 181"),
        ("paraphrase", "in which order do the remaining subtasks have to be done", "165"),
        ("paraphrase", "how is the page for reviewing a whole project reached", "217 218"),
    ),
}
