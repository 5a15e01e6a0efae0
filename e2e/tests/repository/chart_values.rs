//! Reader of the chart's values.yaml with its comments.

/// One value, or a section of values.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Path such as `webhook.service.port`.
    pub(crate) path: String,
    /// Default in YAML; `None` for a section.
    pub(crate) default: Option<String>,
    /// Comment before the value, on one line.
    pub(crate) meaning: String,
}

impl Row {
    /// Returns the row in a table of Markdown.
    pub(crate) fn line(&self) -> String {
        let default = self.default.as_ref().map(|default| format!("`{default}`")).unwrap_or_default();
        format!("| `{}` | {default} | {} |\n", self.path, self.meaning.replace('|', "\\|"))
    }
}

/// Reads the values, one row for each key that begins a line.
pub(crate) fn rows(text: &str) -> Vec<Row> {
    let (mut rows, mut sections, mut comment) = (Vec::new(), Vec::<(usize, &str)>::new(), Vec::new());
    for line in text.lines() {
        let inner = line.trim_start();
        if inner.is_empty() {
            comment.clear();
        } else if let Some(said) = inner.strip_prefix('#') {
            comment.push(said.trim());
        } else if let Some((key, default)) = inner.split_once(':') {
            let depth = line.len() - inner.len();
            sections.retain(|(at, _)| *at < depth);
            sections.push((depth, key));
            let path = sections.iter().map(|(_, key)| *key).collect::<Vec<_>>().join(".");
            let default = Some(default.trim()).filter(|default| !default.is_empty()).map(str::to_owned);
            rows.push(Row { path, default, meaning: std::mem::take(&mut comment).join(" ") });
        }
    }
    rows
}

#[test]
fn values_are_read_with_their_comments() {
    let text =
        "# A header.\n\n# One.\na: 1\n# Two\n# lines.\nb:\n  c: {d: 2}\n  # Text | more.\n  e:\n    f: \"\"\n\ng: []\n";
    let row = |path: &str, default: Option<&str>, meaning: &str| Row {
        path: path.to_owned(),
        default: default.map(str::to_owned),
        meaning: meaning.to_owned(),
    };
    let expected = [
        row("a", Some("1"), "One."),
        row("b", None, "Two lines."),
        row("b.c", Some("{d: 2}"), ""),
        row("b.e", None, "Text | more."),
        row("b.e.f", Some("\"\""), ""),
        row("g", Some("[]"), ""),
    ];
    assert_eq!(rows(text), expected);
    assert_eq!(expected[3].line(), "| `b.e` |  | Text \\| more. |\n");
}
