//! Kind that a field's description names, in a sentence such as "Name of the Secret that holds the token.".

use serde_json::Value;

/// Words that say that the field holds the name of an object.
const NAMING: &[&str] = &["name", "names", "reference", "references"];
/// Words between the field, as the first word of the sentence, and the rest.
const IS: &[&str] = &["is", "are", "holds", "contains", "references", "specifies"];
const ARTICLES: &[&str] = &["a", "an", "the"];
/// Words between the article and the kind that say nothing about the object.
const ADJECTIVES: &[&str] = &["referenced", "referent", "existing", "kubernetes"];
/// Words behind a kind. Behind any other, such as `key` or `label`, the kind only tells more of what is named.
const FOLLOWING: &[&str] = &[
    "resource",
    "resources",
    "object",
    "objects",
    "to",
    "that",
    "which",
    "in",
    "being",
    "used",
    "containing",
    "holding",
    "with",
    "from",
    "for",
    "by",
    "this",
    "where",
    "a",
    "an",
    "the",
];
/// Beginnings of words that say that a controller makes the object, which then needs no protection.
const MADE: &[&str] = &["creat", "generat", "manag", "writ", "stor", "will", "provision", "populat", "sav"];

/// Returns the kind that a schema's description names as what the field refers to.
pub(super) fn kind_named(schema: &Value) -> Option<&str> {
    let text = schema.get("description")?.as_str()?;
    let end = text.find(". ").or(text.find(".\n")).unwrap_or(text.len());
    let sentence: Vec<_> = text.get(..end)?.split_whitespace().collect();
    let mut words = sentence.as_slice();
    if let [_, second, rest @ ..] = words
        && is_one_of(second, IS)
    {
        words = rest;
    }
    words = without(words, ARTICLES);
    let [naming, of, rest @ ..] = words else { return None };
    if !is_one_of(naming, NAMING) || !["of", "to"].contains(of) {
        return None;
    }
    let (kind, behind) = without(without(rest, ARTICLES), ADJECTIVES).split_first()?;
    let bare = kind.trim_matches(|letter: char| "`'\",.;:()".contains(letter));
    let ends = kind.ends_with([',', '.', ';', ':', ')']) || behind.is_empty();
    let is_kind = bare.starts_with(|letter: char| letter.is_ascii_uppercase())
        && bare.chars().all(|letter| letter.is_ascii_alphanumeric());
    let is_alone = ends || behind.first().is_some_and(|word| is_one_of(word, FOLLOWING));
    let is_made = behind.iter().any(|word| MADE.iter().any(|made| word.starts_with(made)));
    (is_kind && is_alone && !is_made).then_some(bare)
}

/// Returns the words without the first, if that is one of `skipped`.
fn without<'w, 's>(words: &'w [&'s str], skipped: &[&str]) -> &'w [&'s str] {
    match words {
        [first, rest @ ..] if is_one_of(first, skipped) => rest,
        _ => words,
    }
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    let word = word.trim_end_matches([',', '.', ';', ':']);
    words.iter().any(|one| one.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_kind_is_what_the_name_is_of() {
        for (text, kind) in [
            ("Name of the StorageTarget", Some("StorageTarget")),
            ("the name of the `Secret`.", Some("Secret")),
            ("storage is the name of a VPC that the machine is in. More: a Disk", Some("VPC")),
            ("queueName is the name of the LocalQueue the Workload is in", Some("LocalQueue")),
            ("Reference to an existing ConfigMap with options", Some("ConfigMap")),
            ("The name of the Secret resource being referred to.", Some("Secret")),
            ("parentName references the name of a VPC, if any", Some("VPC")),
            // It says more of something else, or names no single kind.
            ("Name of the Secret key", None),
            ("zone defines the name of the VPC external label", None),
            ("Name of the Secret or ConfigMap", None),
            ("name of the VPC's parent", None),
            ("Must match the name of the VPC", None),
            ("Name of the vpc", None),
            ("Name of the", None),
            ("Name", None),
            ("", None),
            ("VPC", None),
            // A controller makes it.
            ("The name of the Secret resource to be managed. Defaults to another.", None),
            ("Name of the Secret in which to store the key", None),
            ("Name of the Secret that will hold it", None),
            ("The created name of the VPC", None),
        ] {
            assert_eq!(kind_named(&json!({"description": text})), kind, "{text}");
        }
        assert_eq!(kind_named(&json!({"description": 7})), None);
        assert_eq!(kind_named(&json!({})), None);
    }
}
