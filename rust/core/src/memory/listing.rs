//! Lists sessions, page by page.

use crate::error::Result;
use crate::memory::options::check_page;
use crate::memory::store::Store;
use crate::sqlite::{SessionRow, session};

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFigures {
    /// Its name.
    pub session: String,
    /// The namespace that it shares with other sessions; empty for none.
    pub namespace: String,
    /// The beginning of its first request.
    pub title: String,
    /// The number of messages in its log.
    pub messages: i64,
    /// The number of its entries.
    pub entries: i64,
    /// The number of its compactions.
    pub compactions: i64,
    /// Tokens of all its messages.
    pub tokens: i64,
    /// The time of its first message: milliseconds since 1970, UTC.
    pub first_at: Option<i64>,
    /// The time of its last message.
    pub last_at: Option<i64>,
}

impl From<SessionRow> for SessionFigures {
    fn from(row: SessionRow) -> Self {
        Self {
            session: row.name,
            namespace: row.namespace,
            title: row.title,
            messages: row.next_seq,
            entries: row.entries,
            compactions: row.compactions,
            tokens: row.tokens,
            first_at: row.first_at,
            last_at: row.last_at,
        }
    }
}

impl Store {
    /// A page of the sessions that were not deleted, in the order of their first writes, and the offset of the next
    /// page, None at the end. With `namespace`, only sessions of that namespace.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::InvalidEntry`] for a limit below 1 or an offset below 0; otherwise the errors of a read.
    pub fn sessions(
        &self,
        namespace: Option<&str>,
        offset: i64,
        limit: i64,
    ) -> Result<(Vec<SessionFigures>, Option<i64>)> {
        check_page(offset, limit)?;
        let more = limit.saturating_add(1);
        let mut rows = self
            .database
            .read(|transaction| session::page(transaction, namespace, offset, more))?;
        let fits = usize::try_from(limit).unwrap_or(usize::MAX);
        let next = (rows.len() > fits).then(|| offset.saturating_add(limit));
        rows.truncate(fits);
        Ok((rows.into_iter().map(SessionFigures::from).collect(), next))
    }

    /// The name and the settings of the first session whose settings contain the text `has` and do not contain the text
    /// `lacks`; an empty `lacks` excludes nothing.
    ///
    /// # Errors
    ///
    /// The errors of a read.
    pub fn session_with_settings(
        &self,
        has: &str,
        lacks: &str,
    ) -> Result<Option<(String, String)>> {
        let found = self
            .database
            .read(|transaction| session::with_settings(transaction, has, lacks))?;
        Ok(found.map(|row| (row.name, row.settings)))
    }
}
