//! The class `Selection`: lines of the material of a summary request.

use std::borrow::Cow;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;
use siltstone_core::extract::{self, Item, Speaker};

use crate::error::{run_attached, run_detached};
use crate::interpreter;
use crate::text::Text;

/// Before the rest of an item that was cut in two.
const INDENT: &str = "  ";

/// Lines of a material, from which summaries of any size are selected.
#[pyclass(frozen, module = "siltstone._native")]
pub(crate) struct Selection(extract::Selection);

#[pymethods]
impl Selection {
    #[new]
    fn new(items: &Bound<'_, PyAny>, code_points: bool) -> PyResult<Self> {
        let py = items.py();
        let given = run_attached(py, || {
            let mut given = Vec::new();
            for (step, item) in items.try_iter()?.enumerate() {
                interpreter::at_step(py, step)?;
                given.push(Given::of(&item?)?);
            }
            Ok(given)
        })?;
        run_detached(py, || {
            let items = given.iter().map(Given::item);
            Ok(Self(extract::Selection::of(items, code_points)))
        })
    }

    /// The size of all lines of earlier summaries.
    #[getter]
    fn earlier_size(&self) -> i64 {
        self.0.earlier_size()
    }

    /// A summary of at most `room` in size.
    fn within(&self, py: Python<'_>, room: i64) -> PyResult<String> {
        run_detached(py, || Ok(self.0.within(room)))
    }
}

/// The attributes of a `MaterialItem` that a selection needs.
struct Given {
    kind: Kind,
    text: Text,
    /// It is the rest of an item that was cut in two.
    continues: bool,
}

enum Kind {
    Said(Speaker),
    /// The name, and whether the end of the arguments is in this item.
    Call(Option<Text>, bool),
    Summary,
}

impl Given {
    fn of(item: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = item.py();
        let shown = item
            .getattr(intern!(py, "shown"))?
            .extract::<Option<Text>>()?;
        let kind = item.getattr(intern!(py, "kind"))?;
        let kind = match kind.cast::<PyString>()?.to_str()? {
            "tool_call" => Kind::Call(
                item.getattr(intern!(py, "name"))?.extract()?,
                shown.is_none(),
            ),
            "tool_result" if item.getattr(intern!(py, "is_error"))?.is_truthy()? => {
                Kind::Said(Speaker::ToolError)
            }
            "tool_result" => Kind::Said(Speaker::ToolResult),
            "context" => Kind::Said(Speaker::Context),
            "summary" => Kind::Summary,
            _ => {
                let role = item.getattr(intern!(py, "role"))?;
                Kind::Said(Speaker::of_role(role.cast::<PyString>()?.to_str()?))
            }
        };
        Ok(Self {
            kind,
            text: item.getattr(intern!(py, "text"))?.extract()?,
            continues: shown.is_some_and(|shown| shown.starts_with(INDENT)),
        })
    }

    fn item(&self) -> Item<'_> {
        let (speaker, text) = match &self.kind {
            Kind::Summary => return Item::Summary(&self.text),
            Kind::Said(speaker) => (*speaker, Cow::Borrowed(&*self.text)),
            Kind::Call(..) if self.continues => (Speaker::ToolCall, Cow::Borrowed(&*self.text)),
            Kind::Call(name, ends) => {
                let name = name
                    .as_deref()
                    .filter(|name| !name.is_empty())
                    .unwrap_or("-");
                let end = if *ends { ")" } else { "" };
                let text = format!("{name}({}{end}", &*self.text);
                (Speaker::ToolCall, Cow::Owned(text))
            }
        };
        Item::Said {
            speaker,
            text,
            continues: self.continues,
        }
    }
}
