//! Checks that the rows of a store agree: each session with its log, its compactions and its entries.

use hashbrown::{HashMap, HashSet};

use crate::id::EntryId;
use crate::sqlite::check::{Check, Entry, MessageId};
use crate::sqlite::compactions::{self, Compaction};
use crate::sqlite::derived;
use crate::sqlite::ranges::{self, Piece};
use crate::sqlite::session::{self, SessionRow};
use crate::sqlite::{entry, log};

impl Check {
    pub(super) fn sessions(
        &mut self,
        sessions: &[SessionRow],
        compactions: &[Compaction],
        derived: &[(i64, i64)],
        entries: &[Entry],
        messages: &[MessageId],
    ) -> Vec<(SessionRow, Vec<EntryId>)> {
        let mut logs: HashMap<i64, Vec<i64>> = HashMap::new();
        for &(session, seq) in messages {
            logs.entry(session).or_default().push(seq);
        }
        let mut texts: HashMap<i64, Vec<&Entry>> = HashMap::new();
        for stored in entries {
            texts.entry(stored.session).or_default().push(stored);
        }
        let mut views: HashMap<i64, Vec<&Compaction>> = HashMap::new();
        for row in compactions {
            views.entry(row.session).or_default().push(row);
        }
        let mut shown: HashMap<i64, HashSet<i64>> = HashMap::new();
        for &(session, id) in derived {
            shown.entry(session).or_default().insert(id);
        }
        let mut believed = Vec::new();
        for row in sessions {
            let seqs = logs.remove(&row.id).unwrap_or_default();
            let views = views.remove(&row.id).unwrap_or_default();
            let texts = texts.remove(&row.id).unwrap_or_default();
            self.count(row, "message", row.next_seq, seqs.len());
            self.count(row, "compaction", row.compactions, views.len());
            self.count(row, "entry", row.entries, texts.len());
            self.sequence(row, &seqs);
            self.lineage(row, &views);
            self.shown(&views, shown.get(&row.id));
            self.origins(row, &views, &texts);
            believed.push((row.clone(), texts.iter().map(|stored| stored.id).collect()));
        }
        believed
    }

    fn count(&mut self, row: &SessionRow, table: &'static str, expected: i64, found: usize) {
        if i64::try_from(found).is_ok_and(|found| found == expected) {
            return;
        }
        let message = format!(
            "session {:?} should have {expected} rows in {table}, and {found} can be believed",
            row.name
        );
        self.found("count", table, Some(row.id), message);
    }

    /// Checks that the sequence numbers of the log begin at 0 and have no gap.
    fn sequence(&mut self, row: &SessionRow, seqs: &[i64]) {
        let gap = (0..).zip(seqs).find(|(expected, seq)| expected != *seq);
        if let Some((expected, seq)) = gap {
            let message = format!(
                "the log of session {:?} goes on with {seq} where {expected} should be",
                row.name
            );
            self.found("sequence", log::TABLE, Some(row.id), message);
        }
    }

    /// Checks that the head and every parent exist, that parents are older, and that views stay within the log.
    fn lineage(&mut self, row: &SessionRow, views: &[&Compaction]) {
        let known: HashSet<i64> = views.iter().map(|view| view.id).collect();
        if let Some(head) = row.head.filter(|head| !known.contains(head)) {
            let message = format!(
                "session {:?} stands on compaction {head}, which is not one of its own",
                row.name
            );
            self.found("head", session::TABLE, Some(row.id), message);
        }
        for view in views {
            let id = Some(view.id);
            if let Some(parent) = view.parent
                && (parent >= view.id || !known.contains(&parent))
            {
                let message = format!(
                    "compaction {} follows {parent}, which is no earlier one of its session",
                    view.id
                );
                self.found("parent", compactions::TABLE, id, message);
            }
            let end = view.body.next_seq;
            if !(0..=row.next_seq).contains(&end) {
                let message = format!(
                    "compaction {} read messages up to {end} of a log of {}",
                    view.id, row.next_seq
                );
                self.found("view", compactions::TABLE, id, message);
            }
            for (code, text) in [("covers", &view.body.covers), ("view", &view.body.view)] {
                if !ranges::is_within(text, end, code == "view") {
                    let message = format!(
                        "compaction {} has {code} that are no ascending ranges below {end}: {text}",
                        view.id
                    );
                    self.found(code, compactions::TABLE, id, message);
                }
            }
        }
    }

    /// Checks that every text exists which a view shows or a compaction brought.
    fn shown(&mut self, views: &[&Compaction], known: Option<&HashSet<i64>>) {
        for view in views {
            let pieces = ranges::parse(&view.body.view).unwrap_or_default();
            let named = pieces.into_iter().filter_map(|piece| match piece {
                Piece::Text(id) => Some(id),
                Piece::Messages(_) => None,
            });
            let mut named: Vec<i64> = named.chain(view.derived.iter().copied()).collect();
            named.sort_unstable();
            named.dedup();
            for id in named {
                if !known.is_some_and(|known| known.contains(&id)) {
                    let message = format!(
                        "compaction {} shows text {id}, which is not there or cannot be believed",
                        view.id
                    );
                    self.found("text", derived::TABLE, Some(id), message);
                }
            }
        }
    }

    /// Checks that entries of a compaction exist only while the compaction is the head or one of its ancestors.
    fn origins(&mut self, row: &SessionRow, views: &[&Compaction], texts: &[&Entry]) {
        let parents: HashMap<i64, Option<i64>> =
            views.iter().map(|view| (view.id, view.parent)).collect();
        let mut standing = HashSet::new();
        let mut next = row.head;
        while let Some(id) = next {
            if !standing.insert(id) {
                break;
            }
            next = parents.get(&id).copied().flatten();
        }
        for stored in texts {
            if let Some(origin) = stored
                .compaction
                .filter(|origin| !standing.contains(origin))
            {
                let message = format!(
                    "entry {} came with compaction {origin}, which the view does not stand on",
                    stored.id
                );
                self.found("origin", entry::TABLE, Some(stored.id.0), message);
            }
        }
    }
}
