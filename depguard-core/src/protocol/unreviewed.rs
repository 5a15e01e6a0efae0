//! Kinds about which API servers ask no webhook, whatever its configuration says.

use std::fmt;

use crate::model::names::GroupResource;

/// The reason why API servers ask no webhook about a kind. It prints as a clause that follows the kind's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreviewed {
    /// The kind configures admission itself: users whom a webhook locks out must be able to remove that webhook.
    Admission,
    /// The kind's objects are answers and are never stored. None of them is ever deleted or refers to another object.
    Answers,
}

/// The group and the kinds that configure admission. API servers exempt exactly these kinds
/// (`IsExemptAdmissionConfigurationResource` in k8s.io/apiserver); they review other kinds of the group.
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
/// The kinds whose objects are answers and are not stored (`pkg/kubeapiserver/admission/exclusion` in Kubernetes).
const ANSWERS: [(&str, &[&str]); 2] = [
    ("authentication.k8s.io", &["selfsubjectreviews", "tokenreviews"]),
    (
        "authorization.k8s.io",
        &["localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"],
    ),
];

impl Unreviewed {
    /// Returns the reason why API servers ask no webhook about this kind; `None`: they ask a webhook that is
    /// configured for it.
    pub fn from_kind(kind: &GroupResource) -> Option<Self> {
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
            assert_eq!(Unreviewed::from_kind(&kind.parse().unwrap()), expected, "{kind}");
        }
    }
}
