"""Knowledge from conversations: facts, their changes, and the rules made of them."""

from siltstone.knowledge.base import (
    FACT_TYPES,
    IMPORTANCE,
    KINDS,
    Correction,
    Fact,
    FactStore,
    FactType,
    InMemoryFacts,
    MemoryType,
    fact_of,
    new_fact,
)
from siltstone.knowledge.distill import KnowledgeDistiller, Rule, correction_of, tool_fact
from siltstone.knowledge.extract import (
    Extraction,
    KnowledgeConfig,
    extraction_flow,
    parse_facts,
    pattern_facts,
)
from siltstone.knowledge.search import (
    Entity,
    HybridFacts,
    entities_of,
    find_facts,
    find_text,
    history_of,
    topics_of,
)
from siltstone.knowledge.stored import MAX_CORRECTIONS, MAX_FACTS, FactRow, FactRows, Marked, StoredFacts
from siltstone.knowledge.update import Learned, decide, learn

__all__ = [
    "FACT_TYPES",
    "IMPORTANCE",
    "KINDS",
    "MAX_CORRECTIONS",
    "MAX_FACTS",
    "Correction",
    "Entity",
    "Extraction",
    "Fact",
    "FactRow",
    "FactRows",
    "FactStore",
    "FactType",
    "HybridFacts",
    "InMemoryFacts",
    "KnowledgeConfig",
    "KnowledgeDistiller",
    "Learned",
    "Marked",
    "MemoryType",
    "Rule",
    "StoredFacts",
    "correction_of",
    "decide",
    "entities_of",
    "extraction_flow",
    "fact_of",
    "find_facts",
    "find_text",
    "history_of",
    "learn",
    "new_fact",
    "parse_facts",
    "pattern_facts",
    "tool_fact",
    "topics_of",
]
