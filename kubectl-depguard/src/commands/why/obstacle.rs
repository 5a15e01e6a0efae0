//! Obstacle: something besides rules and locks that stands in the way of a deletion.

use schemars::JsonSchema;
use serde::Serialize;

/// Something that stands in the way of a deletion, with the next step for the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Obstacle {
    pub(crate) source: ObstacleSource,
    pub(crate) effect: Effect,
    /// Name of the webhook or policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Sentence that says what stands in the way.
    pub(crate) says: String,
    pub(crate) next_step: String,
}

/// Effect of an obstacle on the deletion, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Effect {
    /// The API server refuses the deletion.
    Refuses,
    /// The object stays although its deletion was accepted, or would stay.
    Holds,
    /// The deletion passes, and takes away what others refer to.
    Breaks,
    /// The API server asks it before it deletes; a dry run shows the answer.
    MayRefuse,
    /// The object stays until a controller that depguard doesn't know has done its work; nobody knows if one runs.
    MayHold,
    /// The object stays until a controller has done its work, which it begins after the deletion.
    Delays,
    /// Something creates the object again.
    Recreates,
}

/// Part of the cluster in which an obstacle was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ObstacleSource {
    /// Finalizers of the object.
    Finalizer,
    /// Owners of the object.
    Owner,
    /// Objects that the object owns.
    OwnedObject,
    /// Pods that use a claim, or the claim that uses a volume.
    Volume,
    /// Node on which a Pod runs.
    Node,
    /// Conditions of a namespace.
    Namespace,
    /// Objects in a namespace.
    NamespaceContent,
    /// Objects of the kind that the object defines.
    Definition,
    /// APIExports in the workspace of kcp to delete.
    Workspace,
    /// Webhooks and policies that review deletions.
    Admission,
    /// Rights of the caller.
    Rights,
}

/// Obstacles, and the parts that could not be read.
#[derive(Debug, Default)]
pub(crate) struct Obstacles {
    pub(crate) list: Vec<Obstacle>,
    /// Unread parts that may contain something that refuses the deletion.
    pub(crate) unread_refusals: Vec<String>,
    /// Unread parts that may contain something that holds the object after its deletion.
    pub(crate) unread_holds: Vec<String>,
}

impl Obstacle {
    pub(crate) fn new(
        source: ObstacleSource,
        effect: Effect,
        says: impl Into<String>,
        next_step: impl Into<String>,
    ) -> Self {
        Self { source, effect, name: None, says: says.into(), next_step: next_step.into() }
    }
}

impl Effect {
    /// Returns the effect as the beginning of a line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Refuses => "refuses",
            Self::Holds => "holds",
            Self::Breaks => "breaks",
            Self::MayRefuse => "may refuse",
            Self::MayHold => "may hold",
            Self::Delays => "delays",
            Self::Recreates => "recreates",
        }
    }
}

impl Obstacles {
    /// Returns true if an obstacle of the list has this effect.
    pub(crate) fn any(&self, effect: Effect) -> bool {
        self.list.iter().any(|obstacle| obstacle.effect == effect)
    }
}
