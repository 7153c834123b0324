//! The Python module `siltstone._native`, which exports the items of the other files.

#![expect(
    clippy::needless_pass_by_value,
    clippy::too_many_arguments,
    reason = "PyO3 hands arguments over by value, one by one"
)]

#[macro_use]
mod record;

mod block_writer;
mod bm25;
mod buffers;
mod dense;
mod entries;
mod error;
mod exact;
mod extract;
mod highlight;
mod interpreter;
mod json;
mod mirror;
mod outline;
mod redact;
mod rows;
mod search;
mod store;
mod text;
mod tokenize;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_export]
    use crate::block_writer::{BlockWriter, RecallContext, Recalled};
    #[pymodule_export]
    use crate::bm25::{Bm25Index, DocumentedBm25};
    #[pymodule_export]
    use crate::dense::Hnsw;
    #[pymodule_export]
    use crate::entries::{Finding, Forgotten, StoredEntry};
    #[pymodule_export]
    use crate::error::panic_on_purpose;
    #[pymodule_export]
    use crate::exact::HashedTfIndex;
    #[pymodule_export]
    use crate::extract::Selection;
    #[pymodule_export]
    use crate::highlight::{Asked, best_window, condense, matching_lines};
    #[pymodule_export]
    use crate::json::{begins_alike, json_digests, json_size, json_tokens};
    #[pymodule_export]
    use crate::mirror::{mirror_ids_above, mirror_schema, mirror_take, open_mirror};
    #[pymodule_export]
    use crate::outline::{
        Loose, Outline, message_items, message_tokens, parted, render_messages, rendered_tokens,
    };
    #[pymodule_export]
    use crate::redact::{Redactor, redaction_rules};
    #[pymodule_export]
    use crate::rows::{Compaction, Derived, LogRow, LogState, SessionRow};
    #[pymodule_export]
    use crate::search::{
        Found, SearchOptions, Unread, answer, facts_revision, search_across, take_said,
    };
    #[pymodule_export]
    use crate::store::Store;
    #[pymodule_export]
    use crate::tokenize::{
        bucket, embed_batch, embed_sparse, language, terms, text_size, text_tokens,
        whitespace_words, word_hash, words,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::interpreter::refuse_a_second(module.py())?;
        crate::interpreter::register_hooks(module.py())?;
        let profile = if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        };
        module.add("build_profile", profile)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
