//! The class `Redactor`: applies the core's rules to Python texts.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::PyString;
use siltstone_core::Error;
use siltstone_core::redact::{self, CustomRule, Finding, Options};

use crate::error::{run_briefly, run_detached};
use crate::text::Text;

/// Texts below this many bytes are read with the interpreter held, because that is faster than releasing it.
const SHORT: usize = 4096;

/// A finding: the rule, the first code point, the end (exclusive), the placeholder, and whether it blocks.
type Found = (String, usize, usize, String, bool);
/// A rule of the caller: its name, pattern, keywords, placeholder and action.
type Custom = (String, String, Vec<String>, String, String);

/// Finds secrets by rules, and replaces them with placeholders.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct Redactor(redact::Redactor);

#[pymethods]
impl Redactor {
    #[new]
    fn new(
        py: Python<'_>,
        strict: bool,
        keep_commit_ids: bool,
        actions: Vec<(String, String)>,
        custom: Vec<Custom>,
    ) -> PyResult<Self> {
        run_briefly(py, || {
            let actions = actions
                .into_iter()
                .map(|(rule, action)| Ok((rule, action.parse()?)))
                .collect::<Result<_, Error>>()?;
            let custom = custom
                .into_iter()
                .map(|(id, pattern, keywords, placeholder, action)| {
                    let action = action.parse()?;
                    Ok(CustomRule {
                        id,
                        pattern,
                        keywords,
                        placeholder,
                        action,
                    })
                })
                .collect::<Result<_, Error>>()?;
            redact::Redactor::new(Options {
                strict,
                keep_commit_ids,
                actions,
                custom,
            })
            .map(Self)
        })
    }

    /// The text with placeholders, or None if nothing was found; and the findings.
    fn redact(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyString>,
    ) -> PyResult<(Option<String>, Vec<Found>)> {
        let text = Text::from_py(text)?;
        let work = || {
            let (redacted, findings) = self.0.redact(&text);
            let findings = redact::by_code_points(&text, findings).into_iter();
            Ok((redacted, findings.map(found).collect()))
        };
        if text.len() < SHORT {
            run_briefly(py, work)
        } else {
            run_detached(py, work)
        }
    }
}

/// The names of the built-in rules, in their order.
#[pyfunction]
pub(crate) fn redaction_rules(py: Python<'_>) -> PyResult<Vec<Cow<'static, str>>> {
    run_briefly(py, || Ok(redact::names().map(Cow::Borrowed).collect()))
}

fn found(finding: Finding) -> Found {
    (
        finding.rule.to_string(),
        finding.start,
        finding.end,
        finding.placeholder.to_string(),
        finding.blocks,
    )
}
