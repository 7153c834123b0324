"""The tables of rooms and floors (docs/design/house.md), and the check of imports against them.

A new room needs a new word in one of the tables, and in that page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from architecture.python_imports import DYNAMIC, Import
from architecture.rust_paths import Use

# Python: a room imports rooms of lower floors, and itself.
FLOORS = {
    "coroutines": 1, "light": 0, "logs": 0, "patterns": 0, "shapes": 0, "values": 0, "watching": 0,
    "errors": 1, "extras": 1, "html": 1, "late": 1, "usage": 1, "windows": 2, "_native": 1,
    "messages": 2, "embedding": 2, "overflow": 2, "hooks": 2, "background": 1, "events": 2,
    "tokens": 3, "llm": 3, "memory": 3, "index": 3, "redaction": 3,
    "documented": 3,
    "compaction": 4, "knowledge": 4, "models": 4, "outcome": 4, "tokenizer": 4,
    "engine": 5, "recall": 5, "tools": 5, "testing": 5, "config": 5, "vault": 5, "archive": 5,
    "evaluation": 5,
    "presets": 6,
    "session": 7,
    "stores": 8, "figures": 8,
    "postgres": 9,
    "__init__": 10,
    "adapters": 11, "inspector": 11, "mcp": 11, "telemetry": 11,
    "cli": 12,
    "__main__": 13,
}  # fmt: skip

# Rooms of lower floors that are out of reach all the same, but for the modules that are named.
WALLS: dict[str, dict[str, set[str]]] = {
    "compaction": {"memory": set()},  # it returns what is discarded; the rest is the session's business
    "models": {"memory": set()},
    "engine": {"memory": set()},
    "archive": {"compaction": set(), "memory": {"memory.entry", "memory.kinds", "memory.reports"}},
    "knowledge": {"memory": set()},  # what keeps facts is handed in
    "recall": {
        "compaction": set(),
        "memory": {"memory.entry", "memory.kinds", "memory.reports"},
    },  # where to look is handed in
    "tools": {
        "compaction": {"compaction.checkpoint"},
        "memory": {"memory.base", "memory.entry", "memory.kinds"},
    },
    # It measures any object with the methods of a store, and knows none.
    "evaluation": {
        "memory": {"memory.entry", "memory.kinds", "memory.reports"},
        "compaction": set(),
        "models": set(),
        "messages": set(),
        "embedding": set(),
    },
    # It runs any policy and knows none.
    "session": {
        "models": set(),
        "compaction": {"compaction.base", "compaction.breakdown", "compaction.kinds"},
    },
}

# Inside a family, from the lowest files up: each imports files of lower lines, never one beside it.
FAMILIES = {
    "memory": [
        "at_once kinds passage",
        "entry renaming worker",
        "log reports vectors",
        "base chronology convert languages limits reranking sayings",
        "opening paging recalled settings written",
        "database_log holding",
        "forgetting",
        "forgetting_facts",
    ],
    "postgres": [
        "apart schema",
        "administration statements",
        "exchange",
        "connection",
        "opening",
        "database",
        "listing mirror",
        "log mirrored mirrors",
        "store",
    ],
    "stores": ["copying preset_files tagged", "database", "memory simple", "hnsw"],
    "index": ["arrays texts vectors", "base", "bm25 exact flat hnsw"],
    "compaction": [
        "checkpoint checks clip kinds prompts refusal share tiered_prompts",
        "base chronicle_config tiered_cut",
        "breaker chronicle_state clamp",
        "chronicle_text breakdown config estimate fallback hook_answers dry_run query render select",
        "smart_trim_config tiered_config waterfall_config waterfall_prompts window_config",
        "calls mechanical rewrite tool_results transcript_reader",
        "cheap_config compress keeping material tiered_stack validate",
        "emergency_fit in_place offload summarise waterfall_state waterfall_writer",
        "tiered_run waterfall_context waterfall_status",
        "chronicle_run rolling_run",
        "chain clear_results duplicate_reads emergency smart_trim threshold tiered waterfall window worker",
        "registry",
    ],
    "embedding": ["base hashed minilm", "function table"],
    "archive": ["lines", "everything records vectors", "files", "live"],
    "knowledge": ["base prompts topics words", "distill extract search stored update", "hybrid", "config"],
    "presets": [
        "reading vault_files",
        "base",
        "background_stack context_archive three_tiers threshold_stack waterfall_memory",
        "registry",
    ],
    "figures": ["reading scores", "filling growth recalls turns", "difference"],
    "mcp": ["answers versions", "memory", "server", "serving"],
    "inspector": [
        "access chart subject transcript words",
        "change changing condition finding knowing listing live rendering story",
        "exporting pages",
        "app",
        "serving",
    ],
    "recall": ["base query", "block", "place turn"],
    "evaluation": ["dataset protocols measures report", "abstention plain", "recorded run"],
    "session": [
        "background clock deciding last_list noting origin range_set repeats retention slot usage view",
        "documented_search knowing options redacting requests workers",
        "carrying host_list prepared rows threads",
        "lineage loading",
        "state",
        "branches",
        "core",
        "archiving in_context provider_cache",
        "learning",
        "chronicling committing compactions forgetting recalls rewriting",
        "boundary observing",
        "brief presetting recovery",
        "offloading opening shaping",
        "answering forking notes recalling",
        "asking",
        "calls",
        "background_task background_thread base learning_task learning_thread",
        "aio sync",
    ],
}

# Who calls the core.
NATIVE = {
    "__init__", "documented", "embedding", "index", "memory", "messages", "models", "postgres", "recall",
    "redaction", "stores", "tokens", "tools",
}  # fmt: skip
EXTRAS = {
    "typer": {"cli"},
    "langchain": {"adapters"},
    "langchain_core": {"adapters"},
    "langgraph": {"adapters"},
    "pydantic_ai": {"adapters"},
    "agents": {"adapters"},
    "strands": {"adapters"},
    "agent_framework": {"adapters"},
    "openai": {"models"},
    "anthropic": {"adapters", "models"},
    "rich": {"cli"},
    "onnxruntime": {"embedding"},
    "matplotlib": {"cli"},
    "tokenizers": {"embedding"},
    "mcp": {"mcp"},
    "mcp_types": {"mcp"},
    "pydantic": {"mcp"},
    "typing_extensions": {"mcp"},
    "anyio": {"mcp"},
    "opentelemetry": {"telemetry"},
    "psycopg": {"postgres"},
    "psycopg_pool": {"postgres"},
    "uvicorn": {"inspector", "mcp"},
    "starlette": {"inspector"},
    "jinja2": {"inspector"},
    "markupsafe": {"inspector"},
}  # who imports what comes with an extra

# Rust: a module of the core uses modules of lower floors, and its own.
RUST_FLOORS = {
    "error": 0, "fork": 0, "simd": 0, "cache": 0, "whole_file": 0,
    "id": 1, "condense": 1, "documented": 1, "grep": 1, "tokens": 1, "tokenize": 1, "index_file": 1,
    "json": 2, "vector": 2, "top_k": 2, "fusion": 2, "postings": 2, "sqlite": 2, "analyse": 2, "redact": 2,
    "recall": 2,
    "embed": 3, "bm25": 3, "outline": 3,
    "index": 4,
    "memory": 5,
}  # fmt: skip
# The crate of indexes without a store: it uses the core, and the core knows it by a trait alone.
ANN_FLOORS = {
    "growth": 0,
    "simd": 1, "segments": 1, "plan": 1,
    "space": 2,
    "frame": 3, "rescore": 3,
    "scan": 4,
    "flat": 5, "hnsw": 5,
    "any": 6,
    "store_graph": 6,
}  # fmt: skip
ANN_FAMILIES = {
    "hnsw": [
        "params pool",
        "graph",
        "visited",
        "search",
        "select",
        "tree",
        "insert",
        "index remove",
        "file",
    ],
    "simd": ["gather halve packed_i8 rows", "dot_f32 dot_i8"],
    "space": ["base scale", "float matrix sparse", "int8"],
}
RUST_WALLS = {
    "index": {"sqlite", "embed", "bm25"},  # memory is the one place where a row and a point meet
    "embed": {"sqlite"},
    "bm25": {"sqlite"},
}

# Inside a room of the core, from the lowest files up, as in Python. No file uses the ``mod`` of its room.
RUST_FAMILIES = {
    "condense": ["bytes seen tables", "lines"],
    "analyse": [
        "date fold graphemes irregular key language memo order passages stop",
        "choice ends english function_words",
        "normal",
        "words",
        "detect",
        "reader",
        "analyser",
        "sieve terms",
        "corrections fields window wording",
        "asked",
    ],
    "bm25": [
        "chain languages params scored spare terms vocabulary",
        "lists score speakers",
        "norms scratch",
        "index once",
        "known scorer",
        "best correct days neighbours",
        "lexical",
        "arrays removal search",
    ],
    "cache": ["array map", "file"],
    "embed": ["counter hash", "hashed_tf", "rows"],
    "json": ["float said string", "walk"],
    "outline": [
        "keys value",
        "fields lines",
        "dialects groups",
        "read turns",
        "items measure",
        "history render",
        "loose",
    ],
    "memory": [
        "contexts expiry filter graph known_rows reading required_indexes store_path",
        "analysed cached options",
        "caches check scope",
        "catch_up fused namespace",
        "rank scope_map",
        "explain store",
        "restore",
        "cache_writer entries examine facts listing log mirror registry search staging vectors",
        "across answer forget handle holding rewrite",
        "recall",
    ],
    "postings": [
        "dictionary pool",
        "part",
        "fresh",
        "tail",
        "block bucket_lists term_lists",
        "merge",
        "store",
        "arrays rows",
    ],
    "index": ["base dense exact", "arrays exact_search flat graph removal"],
    "redact": ["overlap rule shape", "allow table", "compiled runs", "rules", "search", "redactor"],
    "sqlite": [
        "checksum commit_mark connection file_sync group modes pages ranges schema seen wal",
        "exclusive failure readers row tail transaction",
        "allocator forgotten meta session",
        "cached departing derived entry fact figures log place quarantine",
        "compactions mirror recall staged vectors",
        "repair_vectors reshape stage",
        "check leaving migrate",
        "check_rows check_vectors probe repair writer",
        "write_lock",
        "database",
        "uncopied",
        "backup mirrored together turns",
        "erase",
    ],
    "simd": ["classify key_table level prefetch xxh3", "columns edges scan", "clusters lanes reach words"],
    "tokenize": ["ascii by_length class stretch whitespace", "words"],
}
# Where unsafe code may stand.
UNSAFE = {"simd", "cache", "sqlite/commit_mark.rs", "sqlite/file_sync.rs", "sqlite/tail.rs"}

# Files of more than 600 lines, and why each is one file all the same.
LONG_FILES = {
    "rust/py/src/store.rs": "one class; each of its calls hands its arguments over the wall",
    "rust/core/src/sqlite/database.rs": "one type; each way to read and write a file or memory",
    "python/siltstone/_native_store.pyi": "the same class, and what each of its calls promises",
    "python/siltstone/session/calls.py": "one class; each call that both kinds of session share",
    "python/siltstone/session/core.py": "one class; each change of a session's state, under its one lock",
    "python/siltstone/session/sync.py": "one class, 250 lines of code; its docstrings are the contract",
}


def room(module: str) -> str:
    """The room of a module: ``siltstone.memory.base`` is in ``memory``, ``siltstone`` in ``__init__``."""
    return module.partition(".")[2].partition(".")[0] or "__init__"


def broken(module: str, found: list[Import]) -> Iterator[str]:
    """The rules of the tables that the imports *found* in *module* break, a sentence each."""
    here = room(module)
    for each in found:
        wrong = _ours(here, each) if each.module.split(".")[0] == "siltstone" else _foreign(here, each)
        if wrong:
            yield f"{module}:{each.line} imports {each.module}: {wrong}"


def _ours(here: str, each: Import) -> str:
    there, inner = room(each.module), each.module.partition(".")[2]
    if there == here:
        return ""
    if there not in FLOORS or here not in FLOORS:
        return f"{there if here in FLOORS else here} has no floor"
    if FLOORS[there] >= FLOORS[here]:
        return f"{there} is on floor {FLOORS[there]}, {here} on {FLOORS[here]}"
    walls = WALLS.get(here, {})
    if there in walls and inner not in walls[there]:
        return f"a wall stands between {here} and {inner}"
    if there == "_native" and here not in NATIVE:
        return f"{here} does not call the core"
    return ""


def _foreign(here: str, each: Import) -> str:
    top = each.module.split(".")[0]
    if top == DYNAMIC and here in {"__init__", "late"}:
        return ""  # names are imported late from homes that are written out for type checkers, and read there
    if top in sys.stdlib_module_names or here in EXTRAS.get(top, ()):
        return ""
    if top == "numpy":
        return "" if each.deferred else "NumPy is imported where an array is made, not before"
    return f"{here} does without {top}"


def upward(
    family: str,
    graph: Mapping[str, set[str]],
    families: Mapping[str, list[str]] = FAMILIES,
    exports: str = "__init__",
) -> Iterator[str]:
    """The imports inside *family* that do not go down. *graph*: the files that each of its files imports.

    *exports* is the file that names the members of the family: it imports any file, and no file imports it.
    """
    rank = {file: floor for floor, files in enumerate(families.get(family, ())) for file in files.split()}
    for file, imported in graph.items():
        if rank and file != exports and file not in rank:
            yield f"{family}.{file} has no place in its family"
        for other in sorted(imported):
            if file in rank and rank.get(other, len(rank)) >= rank[file]:
                yield f"{family}.{file} imports {family}.{other}, which does not lie below it"
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield f"{family}: {' is imported by '.join(error.args[1])}"


def rust_broken(
    module: tuple[str, ...], found: list[Use], floors: Mapping[str, int] = RUST_FLOORS
) -> Iterator[str]:
    """The rules of the tables that the paths *found* in a file of a crate break, a sentence each."""
    here = module[0]
    for each in found:
        if each.path[0] != "crate" or len(each.path) < 2 or each.path[1] == here:
            continue
        there, wrong = each.path[1], ""
        if there not in floors:
            wrong = f"{there} is no module with a floor; what lib.rs re-exports is for other crates"
        elif here not in floors:
            wrong = f"{here} has no floor"
        elif floors[there] >= floors[here]:
            wrong = f"{there} is on floor {floors[there]}, {here} on {floors[here]}"
        elif there in RUST_WALLS.get(here, ()):
            wrong = f"a wall stands between {here} and {there}"
        if wrong:
            yield f"{'::'.join(module)}:{each.line} uses {'::'.join(each.path)}: {wrong}"
