"""Messages of any dialect. They are described, and never translated or changed."""

from siltstone._native import (
    message_items as message_items,
    render_messages as render_messages,
    rendered_tokens as rendered_tokens,
)
from siltstone.messages.dialects.base import Finding as Finding
from siltstone.messages.groups import (
    Group as Group,
    Turn as Turn,
    is_request as is_request,
    opens_turn as opens_turn,
)
from siltstone.messages.json_text import (
    DIGEST as DIGEST,
    MAX_MESSAGE_BYTES as MAX_MESSAGE_BYTES,
    begins_alike as begins_alike,
    canonical_bytes as canonical_bytes,
    canonical_digest as canonical_digest,
    decode as decode,
    encode as encode,
    logged as logged,
    message_json_tokens as message_json_tokens,
    message_size as message_size,
    text_digests as text_digests,
    well_formed as well_formed,
    without_own_key as without_own_key,
)
from siltstone.messages.legality import (
    broken_tool_groups as broken_tool_groups,
    repair as repair,
    validate_history as validate_history,
)
from siltstone.messages.material import INDENT as INDENT, Excerpt as Excerpt, MaterialItem as MaterialItem
from siltstone.messages.message import (
    SUMMARY_ROLES as SUMMARY_ROLES,
    Dialect as Dialect,
    HostedMessage as HostedMessage,
    InjectedMessage as InjectedMessage,
    KeyedSystemMessage as KeyedSystemMessage,
    Message as Message,
    Part as Part,
    Provenance as Provenance,
    RawMessage as RawMessage,
    RecalledMessage as RecalledMessage,
    RepairedMessage as RepairedMessage,
    RequestRule as RequestRule,
    Role as Role,
    SubstituteMessage as SubstituteMessage,
    SummaryMark as SummaryMark,
    SummaryMessage as SummaryMessage,
    SummaryRole as SummaryRole,
    marked as marked,
    read_mark as read_mark,
    unmarked as unmarked,
)
from siltstone.messages.outline import (
    History as History,
    as_history as as_history,
    groups as groups,
    in_flight as in_flight,
    turns as turns,
)
from siltstone.messages.own_messages import (
    FORGOTTEN as FORGOTTEN,
    Identifier as Identifier,
    identifiers as identifiers,
    read_history as read_history,
    renamed as renamed,
    summary_level as summary_level,
    tombstone as tombstone,
)
from siltstone.messages.read import (
    detect as detect,
    read_message as read_message,
    read_summary as read_summary,
    validate as validate,
)
from siltstone.messages.results import (
    OWN_TOOLS as OWN_TOOLS,
    OwnTools as OwnTools,
    names_own_tool as names_own_tool,
    read_substitute as read_substitute,
    with_result_texts as with_result_texts,
    with_results as with_results,
    without_bodies as without_bodies,
    words_alone as words_alone,
)
from siltstone.messages.text import (
    condensed as condensed,
    in_words as in_words,
    indexable_text as indexable_text,
    indexable_texts as indexable_texts,
)
