"""Messages of any dialect. They are described, and never translated or changed."""

from typing import TYPE_CHECKING

from siltstone.late import names_of

if TYPE_CHECKING:
    from siltstone.messages.canonical import (
        DIGEST as DIGEST,
        begins_alike as begins_alike,
        canonical_bytes as canonical_bytes,
        canonical_digest as canonical_digest,
        text_digests as text_digests,
    )
    from siltstone.messages.check import broken_tool_groups as broken_tool_groups
    from siltstone.messages.condensed import condensed as condensed
    from siltstone.messages.conversion import Converted as Converted, Loss as Loss, convert as convert
    from siltstone.messages.escapes import holds as holds
    from siltstone.messages.excerpt import Excerpt as Excerpt
    from siltstone.messages.groups import Group as Group, groups as groups
    from siltstone.messages.history import read_history as read_history
    from siltstone.messages.indexable import (
        indexable_text as indexable_text,
        indexable_texts as indexable_texts,
    )
    from siltstone.messages.json_text import (
        decode as decode,
        encode as encode,
        logged as logged,
        well_formed as well_formed,
        without_own_key as without_own_key,
    )
    from siltstone.messages.limits import MAX_MESSAGE_BYTES as MAX_MESSAGE_BYTES, message_size as message_size
    from siltstone.messages.material_item import (
        INDENT as INDENT,
        ItemKind as ItemKind,
        MaterialItem as MaterialItem,
    )
    from siltstone.messages.message import (
        Dialect as Dialect,
        HostedMessage as HostedMessage,
        InjectedMessage as InjectedMessage,
        KeyedSystemMessage as KeyedSystemMessage,
        LiveObject as LiveObject,
        Message as Message,
        Part as Part,
        PartKind as PartKind,
        Provenance as Provenance,
        RawMessage as RawMessage,
        RecalledMessage as RecalledMessage,
        RepairedMessage as RepairedMessage,
        RequestRule as RequestRule,
        Role as Role,
        SubstituteMessage as SubstituteMessage,
        SummaryMessage as SummaryMessage,
    )
    from siltstone.messages.outline import (
        History as History,
        as_history as as_history,
        message_items as message_items,
        render_messages as render_messages,
        rendered_tokens as rendered_tokens,
    )
    from siltstone.messages.own_tools import (
        OWN_TOOLS as OWN_TOOLS,
        OwnTools as OwnTools,
        names_own_tool as names_own_tool,
    )
    from siltstone.messages.read import (
        detect as detect,
        read_message as read_message,
        read_summary as read_summary,
        validate as validate,
    )
    from siltstone.messages.repairs import Repaired as Repaired, repair as repair
    from siltstone.messages.results import (
        read_substitute as read_substitute,
        with_result_texts as with_result_texts,
        with_results as with_results,
        words_alone as words_alone,
    )
    from siltstone.messages.summaries import summary_level as summary_level
    from siltstone.messages.summary_mark import (
        SummaryMark as SummaryMark,
        marked as marked,
        ranges_in_words as ranges_in_words,
        read_mark as read_mark,
        unmarked as unmarked,
    )
    from siltstone.messages.tombstone import (
        FORGOTTEN as FORGOTTEN,
        Identifier as Identifier,
        identifiers as identifiers,
        renamed as renamed,
        tombstone as tombstone,
    )
    from siltstone.messages.turns import (
        REMINDER_TAGS as REMINDER_TAGS,
        Turn as Turn,
        has_words_beside_results as has_words_beside_results,
        in_flight as in_flight,
        is_request as is_request,
        opens_turn as opens_turn,
        turns as turns,
    )
    from siltstone.messages.validators import Finding as Finding, validate_history as validate_history
    from siltstone.messages.wording import in_words as in_words
else:
    __getattr__, __dir__, __all__ = names_of(
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
            "json_text": "decode encode logged well_formed without_own_key",
            "limits": "MAX_MESSAGE_BYTES message_size",
            "material_item": "INDENT ItemKind MaterialItem",
            "message": "Dialect HostedMessage InjectedMessage KeyedSystemMessage LiveObject Message Part "
            "PartKind Provenance RawMessage RecalledMessage RepairedMessage RequestRule Role "
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
