"""Messages of any dialect. They are described, and never translated or changed."""

from typing import TYPE_CHECKING

from siltstone.late import names_of

if TYPE_CHECKING:
    from siltstone.messages.canonical import (
        DIGEST,
        begins_alike,
        canonical_bytes,
        canonical_digest,
        text_digests,
    )
    from siltstone.messages.check import broken_tool_groups
    from siltstone.messages.condensed import condensed
    from siltstone.messages.conversion import Converted, Loss, convert
    from siltstone.messages.escapes import holds
    from siltstone.messages.excerpt import Excerpt
    from siltstone.messages.groups import Group, groups
    from siltstone.messages.history import read_history
    from siltstone.messages.indexable import indexable_text, indexable_texts
    from siltstone.messages.json_text import decode, encode, well_formed, without_own_key
    from siltstone.messages.kinds import (
        Dialect,
        LiveObject,
        PartKind,
        Provenance,
        RawMessage,
        RequestRule,
        Role,
    )
    from siltstone.messages.limits import MAX_MESSAGE_BYTES, message_size
    from siltstone.messages.material_item import INDENT, ItemKind, MaterialItem
    from siltstone.messages.message import (
        InjectedMessage,
        KeyedSystemMessage,
        Message,
        Part,
        RecalledMessage,
        RepairedMessage,
        SubstituteMessage,
        SummaryMessage,
    )
    from siltstone.messages.outline import (
        History,
        as_history,
        message_items,
        render_messages,
        rendered_tokens,
    )
    from siltstone.messages.own_tools import OWN_TOOLS, OwnTools, names_own_tool
    from siltstone.messages.read import detect, read_message, read_summary, validate
    from siltstone.messages.repairs import Repaired, repair
    from siltstone.messages.results import read_substitute, with_result_texts, with_results, words_alone
    from siltstone.messages.summaries import summary_level
    from siltstone.messages.summary_mark import SummaryMark, marked, ranges_in_words, read_mark, unmarked
    from siltstone.messages.tombstone import FORGOTTEN, Identifier, identifiers, renamed, tombstone
    from siltstone.messages.turns import (
        REMINDER_TAGS,
        Turn,
        has_words_beside_results,
        in_flight,
        is_request,
        opens_turn,
        turns,
    )
    from siltstone.messages.validators import Finding, validate_history
    from siltstone.messages.wording import in_words
else:
    __getattr__ = names_of(
        __name__,
        {
            "canonical": "DIGEST begins_alike canonical_bytes canonical_digest text_digests",
            "check": "broken_tool_groups",
            "condensed": "condensed",
            "conversion": "Converted Loss convert",
            "escapes": "holds",
            "excerpt": "Excerpt",
            "groups": "Group groups",
            "history": "read_history",
            "indexable": "indexable_text indexable_texts",
            "json_text": "decode encode well_formed without_own_key",
            "limits": "MAX_MESSAGE_BYTES message_size",
            "kinds": "Dialect LiveObject PartKind Provenance RawMessage RequestRule Role",
            "material_item": "INDENT ItemKind MaterialItem",
            "message": "InjectedMessage KeyedSystemMessage Message Part RecalledMessage RepairedMessage "
            "SubstituteMessage SummaryMessage",
            "outline": "History as_history message_items render_messages rendered_tokens",
            "own_tools": "OWN_TOOLS OwnTools names_own_tool",
            "read": "detect read_message read_summary validate",
            "repairs": "Repaired repair",
            "results": "read_substitute with_result_texts with_results words_alone",
            "summaries": "summary_level",
            "summary_mark": "SummaryMark marked ranges_in_words read_mark unmarked",
            "tombstone": "FORGOTTEN Identifier identifiers renamed tombstone",
            "turns": "REMINDER_TAGS Turn has_words_beside_results in_flight is_request opens_turn turns",
            "validators": "Finding validate_history",
            "wording": "in_words",
        },
    )

__all__ = [
    "DIGEST",
    "FORGOTTEN",
    "INDENT",
    "MAX_MESSAGE_BYTES",
    "OWN_TOOLS",
    "REMINDER_TAGS",
    "Converted",
    "Dialect",
    "Excerpt",
    "Finding",
    "Group",
    "History",
    "Identifier",
    "InjectedMessage",
    "ItemKind",
    "KeyedSystemMessage",
    "LiveObject",
    "Loss",
    "MaterialItem",
    "Message",
    "OwnTools",
    "Part",
    "PartKind",
    "Provenance",
    "RawMessage",
    "RecalledMessage",
    "Repaired",
    "RepairedMessage",
    "RequestRule",
    "Role",
    "SubstituteMessage",
    "SummaryMark",
    "SummaryMessage",
    "Turn",
    "as_history",
    "begins_alike",
    "broken_tool_groups",
    "canonical_bytes",
    "canonical_digest",
    "condensed",
    "convert",
    "decode",
    "detect",
    "encode",
    "groups",
    "has_words_beside_results",
    "holds",
    "identifiers",
    "in_flight",
    "in_words",
    "indexable_text",
    "indexable_texts",
    "is_request",
    "marked",
    "message_items",
    "message_size",
    "names_own_tool",
    "opens_turn",
    "ranges_in_words",
    "read_history",
    "read_mark",
    "read_message",
    "read_substitute",
    "read_summary",
    "renamed",
    "render_messages",
    "rendered_tokens",
    "repair",
    "summary_level",
    "text_digests",
    "tombstone",
    "turns",
    "unmarked",
    "validate",
    "validate_history",
    "well_formed",
    "with_result_texts",
    "with_results",
    "without_own_key",
    "words_alone",
]
