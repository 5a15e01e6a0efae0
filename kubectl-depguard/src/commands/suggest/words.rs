//! Words in the names of fields and kinds.

/// Returns the words of a camel-cased name, in lower case: `vpcRefName` and `VPCRefName` both give vpc, ref, name.
/// Digits belong to the word before them.
pub(super) fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words: Vec<String> = Vec::new();
    let mut fresh = true;
    for (at, letter) in letters.iter().enumerate() {
        if !letter.is_ascii_alphanumeric() {
            fresh = true;
            continue;
        }
        let before = at.checked_sub(1).and_then(|before| letters.get(before));
        let after = letters.get(at + 1);
        let begins = letter.is_ascii_uppercase()
            && (before.is_some_and(|before| !before.is_ascii_uppercase())
                || after.is_some_and(|after| after.is_ascii_lowercase() && !is_plural_of_capitals(&letters, at)));
        if fresh || begins {
            words.push(String::new());
        }
        fresh = false;
        if let Some(word) = words.last_mut() {
            word.push(letter.to_ascii_lowercase());
        }
    }
    words
}

/// Returns true if the `s` of a plural such as `VPCs` follows: the last capital then begins no word.
fn is_plural_of_capitals(letters: &[char], at: usize) -> bool {
    let capital_before = at.checked_sub(1).and_then(|at| letters.get(at)).is_some_and(char::is_ascii_uppercase);
    capital_before && letters.get(at + 1) == Some(&'s') && !letters.get(at + 2).is_some_and(char::is_ascii_lowercase)
}

/// Returns the possible singulars of a word, and the word itself.
pub(super) fn singulars(word: &str) -> impl Iterator<Item = String> {
    let ies = word.strip_suffix("ies").map(|stem| format!("{stem}y"));
    let es = word.strip_suffix("es").map(str::to_owned);
    let s = word.strip_suffix('s').filter(|stem| !stem.ends_with('s')).map(str::to_owned);
    [Some(word.to_owned()), ies, es, s].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_where_its_words_begin() {
        for (name, expected) in [
            ("secretName", "secret name"),
            ("vpcRef", "vpc ref"),
            ("VPCRef", "vpc ref"),
            ("peerVPCs", "peer vpcs"),
            ("VPCSubnet", "vpc subnet"),
            ("targetRefs", "target refs"),
            ("x509Ref", "x509 ref"),
            ("ConfigMap", "config map"),
            ("config-map_name", "config map name"),
            ("", ""),
            ("é", ""),
        ] {
            assert_eq!(words(name).join(" "), expected, "{name}");
        }
    }

    #[test]
    fn a_plural_may_be_of_several_words() {
        for (plural, singular) in [("secrets", "secret"), ("policies", "policy"), ("classes", "class"), ("vpc", "vpc")]
        {
            assert!(singulars(plural).any(|word| word == singular), "{plural}");
        }
    }
}
