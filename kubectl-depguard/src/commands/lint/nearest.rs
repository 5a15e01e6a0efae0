//! Search for the existing name or path that is nearest to a written one.

use depguard_core::FieldPath;

/// Returns the nearest name, if one is near: at most every third letter differs.
pub(crate) fn name<'n>(written: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let most = |name: &str| written.len().max(name.len()).div_ceil(3);
    let names = names.into_iter().map(|name| (distance(written, name), name));
    let near = names.filter(|(distance, name)| *distance <= most(name));
    near.min().map(|(_, name)| name)
}

/// Returns the nearest path, if one has enough in common with the written path.
pub(super) fn path<'p>(written: &FieldPath, paths: &'p [FieldPath]) -> Option<&'p FieldPath> {
    let written = written.to_string();
    let last = |path: &str| path.rsplit(['.', ']']).find(|part| !part.is_empty()).map(str::to_owned);
    let mut best: Option<(usize, bool, usize, &FieldPath)> = None;
    for path in paths {
        let text = path.to_string();
        // Up to half of the path may differ: often a level in between is missing, or the last one.
        let most = best.map_or(written.len().max(text.len()) / 2, |(distance, ..)| distance);
        // The written path leads to an object whose name was probably meant.
        let goes_on = text.strip_prefix(&written).is_some_and(|rest| rest.starts_with(['.', '[']));
        if !goes_on && written.len().abs_diff(text.len()) > most {
            continue;
        }
        let distance = if goes_on { 2 } else { distance(&written, &text) };
        let found = (distance, last(&text) != last(&written), text.len(), path);
        if distance <= most && best.is_none_or(|best| found < best) {
            best = Some(found);
        }
    }
    best.map(|(.., path)| path)
}

/// Counts the edits between two texts, ignoring case: letters to change, to leave out, to put in, or to swap with a
/// neighbour.
fn distance(a: &str, b: &str) -> usize {
    strsim::osa_distance(&a.to_lowercase(), &b.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_near_where_few_letters_differ() {
        let names = ["path", "pattern", "namespacePath", "keys"];
        for (written, found) in [
            ("pth", Some("path")),
            ("patern", Some("pattern")),
            ("namespacepath", Some("namespacePath")),
            ("onDelete", None),
            ("", None),
        ] {
            assert_eq!(name(written, names), found, "{written}");
        }
    }

    #[test]
    fn the_nearest_path_is_what_was_probably_meant() {
        let paths: Vec<_> = [
            ".spec.vpcRef.name",
            ".spec.vpcRef.namespace",
            ".spec.networks[*].vpc",
            ".spec.networks[*].zone",
            ".spec.zone",
            ".metadata.name",
        ]
        .map(|path| FieldPath::parse(path).unwrap())
        .to_vec();
        for (written, found) in [
            (".spec.vpcRef.nam", Some(".spec.vpcRef.name")),
            (".spec.vcpRef.name", Some(".spec.vpcRef.name")),
            (".spec.vpcref.name", Some(".spec.vpcRef.name")),
            (".spec.vpcRef", Some(".spec.vpcRef.name")),
            (".spec.networks.vpc", Some(".spec.networks[*].vpc")),
            (".spec.zones", Some(".spec.zone")),
            (".a", None),
        ] {
            let nearest = path(&FieldPath::parse(written).unwrap(), &paths).map(ToString::to_string);
            assert_eq!(nearest.as_deref(), found, "{written}");
        }
    }
}
