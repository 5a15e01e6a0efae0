//! Keys of the configurations that are installed for rules.

use crate::model::install_place::InstallPlace;
use crate::model::names::{REFERENCES_CONFIGURATION, RULES_CONFIGURATION, SPEC_ADMISSION_CONFIGURATION};

/// Key of a configuration: a place may have one for each side of the references. The one about rules is in depguard's own
/// place (`None`): the cluster, and in kcp the workspace of the APIExport of rules.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConfigurationKey {
    pub(crate) place: InstallPlace,
    pub(crate) side: Side,
}

/// Side of references that a configuration has reviewed, or the rules themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Side {
    /// Deletions of targets.
    Targets,
    /// Creations and updates of dependents.
    Dependents,
    /// Creations and updates of rules.
    Rules,
}

impl ConfigurationKey {
    pub(crate) fn new(place: InstallPlace, side: Side) -> Self {
        Self { place, side }
    }
}

impl Side {
    pub(crate) const ALL: [Self; 3] = [Self::Targets, Self::Dependents, Self::Rules];

    /// Returns the name of the side's configurations.
    pub(crate) const fn configuration(self) -> &'static str {
        match self {
            Self::Targets => RULES_CONFIGURATION,
            Self::Dependents => REFERENCES_CONFIGURATION,
            Self::Rules => SPEC_ADMISSION_CONFIGURATION,
        }
    }
}
