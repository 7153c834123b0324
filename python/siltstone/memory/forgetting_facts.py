"""Finds the facts that are forgotten together with messages."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from siltstone.errors import ConfigError
from siltstone.memory.forgetting import Criteria, Plan, Target
from siltstone.memory.reports import ForgetReport
from siltstone.messages import holds
from siltstone.messages.escapes import DEEPEST

__all__ = ["FactRow", "facts_alone", "with_facts"]

FactRow = tuple[int, str, str, str, str, int, int]
"""Id, namespace, state, key, body, time of creation and of the last change (ms)."""

_NOTE, _RULES, _GONE = "note", "rules", "gone"  #: see ``knowledge/stored.py``


class _Rows(Protocol):
    def facts(self, session_id: str, state: str | None = None) -> list[FactRow]: ...

    def namespace_facts(self, namespace: str, state: str | None = None) -> list[FactRow]: ...


def with_facts(chosen: Plan, rows: _Rows, sessions: Iterable[str], criteria: Criteria) -> Plan:
    """*chosen* with the facts to forget.

    These are facts from a forgotten message, and facts whose own text meets the criteria. The rules of their
    scope are forgotten too, and are made again later from the remaining facts.
    """
    targets = {target.session_id: target for target in chosen.targets}
    if criteria.session_id is not None:
        sessions = [criteria.session_id]
    elif criteria.entry_ids is not None:
        sessions = list(targets)
    count = new = 0
    for session_id in sessions:
        target = targets.get(session_id) or Target(session_id)
        seqs = {seq for seq, _ in target.messages}
        known = rows.facts(session_id)
        meant = [row for row in known if _goes(row, seqs, criteria)]
        if meant:
            new += session_id not in targets
            count += sum(row[2] != _NOTE for row in meant)
            targets[session_id] = target._replace(facts=_with_rules(rows, known, meant))
    expected = replace(chosen.expected, facts=count, sessions=chosen.expected.sessions + new)
    return replace(chosen, targets=list(targets.values()), expected=expected)


def facts_alone(rows: _Rows, sessions: Iterable[str], keys: Collection[str]) -> Plan:
    """The plan to forget the facts with these *keys* alone."""
    if isinstance(keys, str):
        raise ConfigError(f"fact_ids must be a list of ids, got {keys!r}", field="fact_ids", value=keys)
    wanted, targets, count = frozenset(keys), [], 0
    for session_id in sessions:
        known = rows.facts(session_id)
        meant = [row for row in known if row[3] in wanted and row[2] not in (_NOTE, _GONE)]
        if meant:
            count += len(meant)
            targets.append(Target(session_id, facts=_with_rules(rows, known, meant)))
    report = ForgetReport(len(targets), 0, 0, 0, erased=False, dry_run=True, facts=count)
    return Plan(targets, report)


def _with_rules(rows: _Rows, known: Sequence[FactRow], meant: Sequence[FactRow]) -> list[int]:
    """The ids of *meant*, and of the rules that may come from them."""
    namespaces = {row[1] for row in meant} - {""}
    notes = [*known, *(row for each in namespaces for row in rows.namespace_facts(each, _NOTE))]
    rules = {row[0] for row in notes if row[2] == _NOTE and row[3] == _RULES}
    return sorted(rules | {row[0] for row in meant})


def _goes(row: FactRow, seqs: Collection[int], criteria: Criteria) -> bool:
    _, _, state, key, body, created_at, _ = row
    if state == _GONE or (state == _NOTE and key != _RULES):
        return False
    fields = _fields(body)
    if any(seq in seqs for start, end in _ranges(fields) for seq in range(start, end)):
        return True
    if criteria.entry_ids is not None or criteria.span is not None:
        return False
    if state == _NOTE and criteria.text is None:
        return False  # rules are forgotten with their facts, by _with_rules
    source = fields.get("source")
    return (
        (criteria.before is None or created_at < criteria.before)
        and (criteria.name is None or source in (criteria.name, f"tool:{criteria.name}"))
        and (criteria.text is None or holds(body, criteria.text, DEEPEST + 1))
    )


def _fields(body: str) -> dict[str, object]:
    try:
        fields = json.loads(body)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _ranges(fields: dict[str, object]) -> list[tuple[int, int]]:
    found = fields.get("source_ranges")
    if not isinstance(found, list):
        return []
    return [(span[0], span[1]) for span in found if isinstance(span, list) and len(span) == 2]
