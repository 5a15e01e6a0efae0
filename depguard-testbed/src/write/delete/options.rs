//! Options of a deletion, from the body of a DELETE or its query.

use serde_json::{Value, json};

use crate::protocol::json::{FOREGROUND, ORPHAN, finalizers, text};
use crate::protocol::routes::Query;
use crate::protocol::status::{ApiError, ApiResult, Cause};
use crate::request::act::Act;

/// Fate of an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// Options of a deletion.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    /// Dry run; `None` if the request had no body. Only then the URL's query decides.
    pub(crate) dry_run: Option<bool>,
    uid: Option<String>,
    revision: Option<String>,
    propagation: Option<Propagation>,
    /// Set if admission has reviewed the deletion already, as an eviction.
    pub(super) reviewed: bool,
    sent: Value,
}

impl Propagation {
    const fn name(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Background, Self::Foreground, Self::Orphan].into_iter().find(|known| known.name() == name)
    }

    /// Returns the finalizer that holds the object until the garbage collector has dealt with its dependents.
    const fn finalizer(self) -> Option<&'static str> {
        match self {
            Self::Background => None,
            Self::Foreground => Some(FOREGROUND),
            Self::Orphan => Some(ORPHAN),
        }
    }

    /// Returns the propagation that the object's finalizers show. An earlier deletion, or a client, has set them.
    pub(crate) fn from_options(object: &Value) -> Self {
        let has = |name: &str| finalizers(object).iter().any(|finalizer| finalizer == name);
        if has(ORPHAN) {
            Self::Orphan
        } else if has(FOREGROUND) {
            Self::Foreground
        } else {
            Self::Background
        }
    }
}

impl DeleteOptions {
    pub(crate) fn parse(body: &[u8], query: &Query) -> ApiResult<Self> {
        if body.is_empty() {
            let mut sent = json!({});
            if let Some(policy) = query.value("propagationPolicy") {
                sent["propagationPolicy"] = json!(policy);
            }
            if let Some(orphan) = query.value("orphanDependents") {
                sent["orphanDependents"] = json!(orphan == "true" || orphan == "1");
            }
            return Ok(Self { propagation: propagation(&sent)?, sent, ..Self::default() });
        }
        let sent: Value = serde_json::from_slice(body)
            .map_err(|why| ApiError::bad_request(format!("the delete options can't be read: {why}")))?;
        let dry_run = sent["dryRun"].as_array().is_some_and(|all| all.iter().any(|one| one == "All"));
        Ok(Self {
            dry_run: Some(dry_run),
            uid: text(&sent, "/preconditions/uid").map(str::to_owned),
            revision: text(&sent, "/preconditions/resourceVersion").map(str::to_owned),
            propagation: propagation(&sent)?,
            reviewed: false,
            sent,
        })
    }

    /// Reads the options inside an Eviction. Admission has reviewed the Eviction itself, so no DELETE is reviewed.
    pub(crate) fn of_eviction(options: &Value) -> ApiResult<Self> {
        let options = if options.is_null() { json!({}) } else { options.clone() };
        Ok(Self { reviewed: true, ..Self::parse(options.to_string().as_bytes(), &Query::default())? })
    }

    /// Returns the options of controllers: in the background, without preconditions.
    pub(crate) fn background() -> Self {
        let propagation = Some(Propagation::Background);
        Self { propagation, sent: json!({"propagationPolicy": "Background"}), ..Self::default() }
    }

    /// Returns the options of the garbage collector: exactly the object that it has read.
    pub(crate) fn collecting(object: &Value, propagation: Propagation) -> Self {
        let is = |pointer| text(object, pointer).map(str::to_owned);
        let (uid, revision) = (is("/metadata/uid"), is("/metadata/resourceVersion"));
        let sent = json!({
            "preconditions": {"uid": uid, "resourceVersion": revision}, "propagationPolicy": propagation.name(),
        });
        Self { uid, revision, propagation: Some(propagation), sent, ..Self::default() }
    }

    /// Returns the options as a review carries them.
    pub(crate) fn for_review(&self, dry_run: bool) -> Value {
        let mut options = if self.sent.is_object() { self.sent.clone() } else { json!({}) };
        options["kind"] = json!("DeleteOptions");
        options["apiVersion"] = json!("meta.k8s.io/v1");
        if dry_run {
            options["dryRun"] = json!(["All"]);
        }
        options
    }

    /// Returns the object with the finalizer of its propagation, and without the other one. If no propagation is given,
    /// the object's finalizers decide.
    pub(super) fn with_finalizer(&self, object: &Value) -> Value {
        let mut object = object.clone();
        let has = |name: &str, object: &Value| finalizers(object).iter().any(|finalizer| finalizer == name);
        let chosen = self.propagation.unwrap_or_else(|| Propagation::from_options(&object)).finalizer();
        for finalizer in [FOREGROUND, ORPHAN].into_iter().filter(|finalizer| Some(*finalizer) != chosen) {
            crate::protocol::json::remove_finalizer(&mut object, finalizer);
        }
        if let Some(chosen) = chosen.filter(|chosen| !has(chosen, &object)) {
            crate::protocol::json::add_finalizer(&mut object, chosen);
        }
        object
    }

    pub(super) fn check(&self, act: &Act<'_>, name: &str, object: &Value) -> ApiResult<()> {
        let conflict = |what: &str, expected: &str, is: &str, so: &str| {
            let why =
                format!("the {what} in the precondition ({expected}) does not match the {what} in record ({is}). {so}");
            Err(ApiError::conflict(&act.resource.group, &act.resource.kind, name, &why))
        };
        let is = |pointer| text(object, pointer).unwrap_or_default();
        match (&self.uid, &self.revision) {
            (Some(uid), _) if uid != is("/metadata/uid") => {
                conflict("UID", uid, is("/metadata/uid"), "The object might have been deleted and then recreated")
            }
            (_, Some(revision)) if revision != is("/metadata/resourceVersion") => conflict(
                "ResourceVersion",
                revision,
                is("/metadata/resourceVersion"),
                "The object might have been modified",
            ),
            _ => Ok(()),
        }
    }
}

/// Reads the policy, or its predecessor `orphanDependents`. Refuses both at once.
fn propagation(sent: &Value) -> ApiResult<Option<Propagation>> {
    let invalid = |reason, why: &str| {
        let cause = Cause::new(reason, "propagationPolicy", why);
        ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &[cause])
    };
    let orphan = sent["orphanDependents"].as_bool();
    let Some(policy) = text(sent, "/propagationPolicy") else {
        return Ok(orphan.map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background }));
    };
    if orphan.is_some() {
        let why = format!("Invalid value: \"{policy}\": orphanDependents and deletionPropagation cannot be both set");
        return Err(invalid("FieldValueInvalid", &why));
    }
    let known = Propagation::parse(policy).ok_or_else(|| {
        let why = format!(
            "Unsupported value: \"{policy}\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
        );
        invalid("FieldValueNotSupported", &why)
    })?;
    Ok(Some(known))
}
