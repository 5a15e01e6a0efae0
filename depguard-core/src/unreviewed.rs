//! The kinds about which API servers ask no webhook, whatever its configuration says.

use std::fmt;

use crate::names::GroupResource;

/// Why nobody is asked about a kind. Prints as a clause that follows its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreviewed {
    /// It configures admission itself: whoever is locked out by a webhook must be able to take it away.
    Admission,
    /// Its objects are answers and are never stored, so none is ever deleted or refers to anything.
    Answers,
}

/// The group of what configures admission. API servers exempt these by their kinds
/// (`IsExemptAdmissionConfigurationResource` in k8s.io/apiserver); other kinds of the group are reviewed.
const ADMISSION: (&str, [&str; 6]) = (
    "admissionregistration.k8s.io",
    [
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    ],
);
/// The kinds that are answered and not stored (`pkg/kubeapiserver/admission/exclusion` in Kubernetes).
const ANSWERS: [(&str, &[&str]); 2] = [
    ("authentication.k8s.io", &["selfsubjectreviews", "tokenreviews"]),
    (
        "authorization.k8s.io",
        &["localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"],
    ),
];

impl Unreviewed {
    /// Why nobody is asked about this kind; `None`: a webhook is, where it is set up for it.
    pub fn of(kind: &GroupResource) -> Option<Self> {
        let is = |group: &str, resources: &[&str]| {
            kind.group.as_str() == group && resources.contains(&kind.resource.as_str())
        };
        if is(ADMISSION.0, &ADMISSION.1) {
            Some(Self::Admission)
        } else if ANSWERS.iter().any(|(group, resources)| is(group, resources)) {
            Some(Self::Answers)
        } else {
            None
        }
    }
}

impl fmt::Display for Unreviewed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Admission => "configure admission, so API servers ask no webhook about them",
            Self::Answers => "are answers that are never stored, so API servers ask no webhook about them",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_configures_admission_and_what_is_an_answer_goes_unreviewed() {
        for (kind, expected) in [
            ("validatingwebhookconfigurations.admissionregistration.k8s.io", Some(Unreviewed::Admission)),
            ("mutatingadmissionpolicybindings.admissionregistration.k8s.io", Some(Unreviewed::Admission)),
            ("validatingwebhookconfigurations.example.com", None),
            ("others.admissionregistration.k8s.io", None),
            ("tokenreviews.authentication.k8s.io", Some(Unreviewed::Answers)),
            ("subjectaccessreviews.authorization.k8s.io", Some(Unreviewed::Answers)),
            ("tokenreviews.authorization.k8s.io", None),
            ("customresourcedefinitions.apiextensions.k8s.io", None),
            ("pods", None),
        ] {
            assert_eq!(Unreviewed::of(&kind.parse().unwrap()), expected, "{kind}");
        }
    }
}
