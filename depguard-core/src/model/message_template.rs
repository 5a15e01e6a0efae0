//! Message of a rule to the user who deletes, with placeholders.

/// A text in which `{target}`, `{blockers}` and `{rule}` stand for parts of a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Target,
    Blockers,
    Rule,
}

/// The reason for refusing a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// A message that is too long.
    #[error("is {0} bytes long, and at most {max} are allowed", max = Message::MAX_LEN)]
    TooLong(usize),
    /// An unknown placeholder, or a brace that is not closed.
    #[error("has `{{{0}`: the placeholders are `{{target}}`, `{{blockers}}` and `{{rule}}`; write `{{{{` for a brace")]
    Placeholder(String),
    /// A control character.
    #[error("has a control character: write one line")]
    Control,
}

impl Message {
    /// The longest message, in bytes.
    pub(crate) const MAX_LEN: usize = 512;

    /// Reads a message. `{{` and `}}` stand for braces.
    pub(crate) fn parse(message: &str) -> Result<Self, MessageError> {
        if message.len() > Self::MAX_LEN {
            return Err(MessageError::TooLong(message.len()));
        }
        if message.contains(char::is_control) {
            return Err(MessageError::Control);
        }
        let (mut parts, mut rest) = (Vec::new(), message);
        while let Some((text, after)) = rest.split_once('{') {
            parts.push(Part::Text(text.replace("}}", "}")));
            if let Some(after) = after.strip_prefix('{') {
                parts.push(Part::Text("{".to_owned()));
                rest = after;
                continue;
            }
            let (name, after) = after.split_once('}').ok_or_else(|| MessageError::Placeholder(after.to_owned()))?;
            parts.push(match name {
                "target" => Part::Target,
                "blockers" => Part::Blockers,
                "rule" => Part::Rule,
                _ => return Err(MessageError::Placeholder(format!("{name}}}"))),
            });
            rest = after;
        }
        parts.push(Part::Text(rest.replace("}}", "}")));
        Ok(Self { parts })
    }

    /// Returns the text for one refused deletion: the target, its blockers, and the rule.
    pub(crate) fn render(&self, target: &str, blockers: &str, rule: &str) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Target => target.to_owned(),
            Part::Blockers => blockers.to_owned(),
            Part::Rule => rule.to_owned(),
        };
        self.parts.iter().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_stand_for_what_a_refusal_is_about() {
        for (message, rendered) in [
            ("detach it first", "detach it first"),
            ("{target}: {blockers} ({rule})", "vpcs/a: VM/m (r)"),
            ("{target}{target}", "vpcs/avpcs/a"),
            ("{{target}} }}{{", "{target} }{"),
            ("", ""),
        ] {
            assert_eq!(Message::parse(message).unwrap().render("vpcs/a", "VM/m", "r"), rendered);
        }
        for message in ["{targets}", "{", "{target", "{}", "a\nb", &"a".repeat(513)] {
            Message::parse(message).unwrap_err();
        }
    }
}
