//! The Python module `siltstone._native`, which exports the items of the other files.

#![expect(
    clippy::needless_pass_by_value,
    clippy::too_many_arguments,
    reason = "PyO3 hands arguments over by value, one by one"
)]

#[macro_use]
mod record;

mod across;
mod answer;
mod arrays;
mod asked;
mod bm25;
mod dense;
mod documented;
mod embed;
mod entries;
mod error;
mod exact;
mod explain;
mod extract;
mod fork;
mod interpreter;
mod json;
mod locked;
mod mirror;
mod outline;
mod reading;
mod recall;
mod redact;
mod rows;
mod said;
mod search;
mod store;
mod text;
mod tokenize;
mod tokens;
mod turns;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_export]
    use crate::across::{Unread, facts_revision, search_across, take_said};
    #[pymodule_export]
    use crate::answer::{AnswerLimit, answer};
    #[pymodule_export]
    use crate::asked::Asked;
    #[pymodule_export]
    use crate::bm25::Bm25Index;
    #[pymodule_export]
    use crate::dense::Hnsw;
    #[pymodule_export]
    use crate::documented::DocumentedBm25;
    #[pymodule_export]
    use crate::embed::{bucket, embed_batch, embed_sparse, word_hash};
    #[pymodule_export]
    use crate::entries::{Finding, Forgotten, Page, StoredEntry};
    #[pymodule_export]
    use crate::error::panic_on_purpose;
    #[pymodule_export]
    use crate::exact::HashedTfIndex;
    #[pymodule_export]
    use crate::extract::Selection;
    #[pymodule_export]
    use crate::json::{begins_alike, json_digests, json_size};
    #[pymodule_export]
    use crate::mirror::{mirror_ids_above, mirror_schema, mirror_take, open_mirror};
    #[pymodule_export]
    use crate::outline::{
        Leaving, Loose, Outline, message_items, parted, render_messages, rendered_tokens,
    };
    #[pymodule_export]
    use crate::reading::{best_window, condense, matching_lines};
    #[pymodule_export]
    use crate::recall::{BlockOptions, BlockWriter, RecallConditions, RecallContext, Recalled};
    #[pymodule_export]
    use crate::redact::{Redactor, redaction_rules};
    #[pymodule_export]
    use crate::rows::{Compaction, Derived, LogRow, LogState, SessionRow};
    #[pymodule_export]
    use crate::search::{Found, SearchOptions};
    #[pymodule_export]
    use crate::store::Store;
    #[pymodule_export]
    use crate::tokenize::{language, terms, whitespace_words, words};
    #[pymodule_export]
    use crate::tokens::text_size;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::interpreter::refuse_a_second(module.py())?;
        crate::fork::register(module.py())?;
        let profile = if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        };
        module.add("build_profile", profile)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
