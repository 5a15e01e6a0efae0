//! Chooses one of a profile's versions for a Cluster.

use crate::api::{ClusterProfile, Status, SupportedVersion};

/// Result of a Cluster's wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    /// The profile offers this version.
    Offered(String),
    /// The profile still offers this version; the list has better ones.
    Deprecated(String, Vec<String>),
    /// The profile does not offer this version; the list has those that it offers.
    Unsupported(String, Vec<String>),
    /// The profile offers no versions, or is gone.
    Nothing,
}

/// Status, reason and message of a condition.
pub(super) struct Words {
    pub(super) status: Status,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Chooses the wished version, which may be given by its first parts only (`1.36`). Without a wish, or if several
/// versions fit, chooses the first in the profile's order that is not deprecated.
pub(super) fn choose(wish: &str, profile: Option<&ClusterProfile>) -> Choice {
    let offered = profile.map_or(&[][..], |profile| &profile.spec.supported_versions);
    let wish = wish.strip_prefix('v').unwrap_or(wish);
    let fits = |offer: &&SupportedVersion| {
        let rest = offer.version.strip_prefix('v').unwrap_or(&offer.version).strip_prefix(wish);
        wish.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let names = |offers: &[SupportedVersion], all: bool| {
        let good = offers.iter().filter(|offer| all || !offer.deprecated);
        good.map(|offer| offer.version.clone()).collect::<Vec<_>>()
    };
    let mut fitting = offered.iter().filter(fits);
    let first = fitting.clone().next();
    match (fitting.find(|offer| !offer.deprecated), first) {
        (Some(offer), _) => Choice::Offered(offer.version.clone()),
        (None, Some(offer)) => Choice::Deprecated(offer.version.clone(), names(offered, false)),
        (None, None) if offered.is_empty() => Choice::Nothing,
        (None, None) => Choice::Unsupported(wish.to_owned(), names(offered, true)),
    }
}

impl Choice {
    /// Returns the version, if the Cluster can run it.
    pub(super) fn version(&self) -> Option<&str> {
        match self {
            Self::Offered(version) | Self::Deprecated(version, _) => Some(version),
            Self::Unsupported(..) | Self::Nothing => None,
        }
    }

    /// Returns the condition for this choice. `profile` is the profile's name.
    pub(super) fn words(&self, profile: &str) -> Words {
        let words = |status, reason, message| Words { status, reason, message };
        match self {
            Self::Offered(version) => words(Status::True, "Supported", format!("version `{version}`")),
            Self::Deprecated(version, better) => {
                let better = match better.is_empty() {
                    true => "the profile offers no other version yet".to_owned(),
                    false => format!("choose one of {}", better.join(", ")),
                };
                words(Status::True, "Deprecated", format!("version `{version}` is deprecated: {better}"))
            }
            Self::Unsupported(wish, offered) => words(
                Status::False,
                "Unsupported",
                format!("profile `{profile}` offers no version `{wish}`: choose one of {}", offered.join(", ")),
            ),
            Self::Nothing => words(
                Status::False,
                "NothingOffered",
                format!("profile `{profile}` is gone or offers no version: add one to the provider's configuration"),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ClusterProfileSpec;

    #[test]
    fn a_wish_is_met_by_the_first_version_that_fits_and_is_not_deprecated() {
        let offered = [("1.36.2", false), ("1.36.1", true), ("1.35.9", true), ("1.35.8", true), ("1.3.7", false)];
        let offer =
            |&(version, deprecated): &(&str, bool)| SupportedVersion { version: version.to_owned(), deprecated };
        let supported_versions = offered.iter().map(offer).collect();
        let spec = ClusterProfileSpec { supported_versions, ..ClusterProfileSpec::default() };
        let profile = ClusterProfile::new("p", spec);
        let choose = |wish| choose(wish, Some(&profile));
        let deprecated = |version: &str| Choice::Deprecated(version.to_owned(), vec!["1.36.2".into(), "1.3.7".into()]);
        assert_eq!(choose(""), Choice::Offered("1.36.2".to_owned()));
        assert_eq!(choose("1.36"), Choice::Offered("1.36.2".to_owned()));
        assert_eq!(choose("v1.3"), Choice::Offered("1.3.7".to_owned()));
        assert_eq!(choose("1.36.1"), deprecated("1.36.1"));
        assert_eq!(choose("1.35"), deprecated("1.35.9"));
        assert_eq!(choose("1.35").version(), Some("1.35.9"));
        assert!(matches!(choose("1.34"), Choice::Unsupported(wish, all) if wish == "1.34" && all.len() == 5));
        assert!(matches!(choose("1.36.20"), Choice::Unsupported(..)));
        assert_eq!(super::choose("1.36", None), Choice::Nothing);
    }
}
