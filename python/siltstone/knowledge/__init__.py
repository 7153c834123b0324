"""Knowledge from conversations: facts, their changes, and the rules made of them."""

from siltstone.knowledge.base import (
    FACT_TYPES as FACT_TYPES,
    IMPORTANCE as IMPORTANCE,
    KINDS as KINDS,
    STANDING as STANDING,
    Correction as Correction,
    Fact as Fact,
    FactStore as FactStore,
    FactType as FactType,
    InMemoryFacts as InMemoryFacts,
    MemoryType as MemoryType,
    fact_of as fact_of,
    new_fact as new_fact,
)
from siltstone.knowledge.distill import (
    KnowledgeDistiller as KnowledgeDistiller,
    Rule as Rule,
    correction_of as correction_of,
    tool_fact as tool_fact,
)
from siltstone.knowledge.extract import (
    Extraction as Extraction,
    KnowledgeConfig as KnowledgeConfig,
    extraction_flow as extraction_flow,
    has_wish as has_wish,
    parse_facts as parse_facts,
    pattern_facts as pattern_facts,
)
from siltstone.knowledge.search import (
    HybridFacts as HybridFacts,
    entities_of as entities_of,
    find_facts as find_facts,
    find_text as find_text,
    history_of as history_of,
    topics_of as topics_of,
)
from siltstone.knowledge.stored import MAX_FACTS as MAX_FACTS, Marked as Marked, StoredFacts as StoredFacts
from siltstone.knowledge.update import Learned as Learned, decide as decide, learn as learn
