//! Names of objects.

use crate::protocol::status::{ApiError, ApiResult, Cause};
use crate::request::act::Act;

/// Refuses a name that is no lower-case RFC 1123 subdomain (for namespaces: label).
pub(crate) fn check(act: &Act<'_>, name: &str) -> ApiResult<()> {
    let (longest, dots) = if act.resource.is("", "namespaces") { (63, false) } else { (253, true) };
    let is_label = |label: &str| {
        let alphanumeric = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        label.starts_with(alphanumeric)
            && label.ends_with(alphanumeric)
            && label.chars().all(|letter| alphanumeric(letter) || letter == '-')
    };
    let valid = name.len() <= longest && if dots { name.split('.').all(is_label) } else { is_label(name) };
    if valid {
        return Ok(());
    }
    let why = format!(
        "Invalid value: \"{name}\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
         characters, '-' or '.', and must start and end with an alphanumeric character"
    );
    let cause = Cause::new("FieldValueInvalid", "metadata.name", why);
    Err(ApiError::invalid(&act.resource.group, &act.resource.kind, name, &[cause]))
}
