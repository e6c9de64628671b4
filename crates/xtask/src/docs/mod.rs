//! Documents made from code. Tidy compares them, so that they cannot grow old.

mod api;
mod calls;

use anyhow::Context as _;

use crate::workspace::Workspace;

/// A document and the text it should have.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) path: &'static str,
    pub(crate) text: String,
}

/// All documents that are made from code.
pub(crate) fn documents(workspace: &Workspace) -> Vec<Document> {
    vec![
        Document { path: "docs/API.md", text: api::text(&workspace.tree) },
        Document { path: "docs/calls.txt", text: calls::text(workspace) },
    ]
}

/// Writes them; tells which.
pub(crate) fn write(workspace: &Workspace) -> anyhow::Result<Vec<&'static str>> {
    let mut written = Vec::new();
    for document in documents(workspace) {
        if workspace.tree.text(document.path) == Some(document.text.as_str()) {
            continue;
        }
        let path = workspace.root.join(document.path);
        std::fs::write(&path, document.text).with_context(|| format!("cannot write {}", document.path))?;
        written.push(document.path);
    }
    Ok(written)
}
