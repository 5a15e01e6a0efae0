//! Obstacles besides rules and locks: one file for each source of them.

use depguard_core::Group;
use depguard_core::model::{GroupResource, Namespace, Resource};
use serde_json::Value;

use super::obstacle::Obstacles;
use super::target::Target;
use crate::cluster::rules::Rules;
use crate::cluster::source::Source;
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;

mod admission;
mod content;
mod definition;
mod finalizers;
mod global_owner;
mod known_finalizers;
mod namespace;
mod node;
mod owned;
mod owners;
pub(super) mod rights;
mod volumes;

/// Target, and the cluster or files in which obstacles are looked for.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) source: &'a Source,
    pub(super) rules: &'a Rules,
    pub(super) target: &'a Target,
    pub(super) terminal: &'a Terminal,
}

/// Finds all obstacles, the worst first.
pub(super) async fn find(subject: Subject<'_>) -> Result<Obstacles, Failure> {
    let mut found = Obstacles { list: finalizers::find(&subject), ..Obstacles::default() };
    found.list.extend(global_owner::find(&subject));
    found.list.extend(owners::find(&subject).await);
    volumes::find(&subject, &mut found).await?;
    node::find(&subject, &mut found).await?;
    owned::find(&subject, &mut found).await?;
    definition::find(&subject, &mut found).await?;
    namespace::find(&subject, &mut found).await?;
    // A deletion that was accepted is not reviewed again.
    if !subject.target.is_terminating() {
        admission::find(&subject, &mut found).await?;
    }
    found.list.sort_by_key(|obstacle| obstacle.effect);
    Ok(found)
}

impl Subject<'_> {
    fn namespace(&self) -> Option<&str> {
        self.target.namespace.as_deref()
    }

    /// Returns true if the target is of this group and resource.
    fn is(&self, group: &str, resource: &str) -> bool {
        let gvr = &self.target.info.gvr;
        gvr.group.as_str() == group && gvr.resource.as_str() == resource
    }

    /// Passes each object of a kind to `each`, from the target's namespace or from all. Returns the parts that could
    /// not be read. A kind that does not exist has no objects.
    async fn list(&self, group: &str, resource: &str, each: impl FnMut(Value)) -> Result<Vec<String>, Failure> {
        let kind = GroupResource {
            group: Group::parse(group).map_err(Failure::new)?,
            resource: Resource::parse(resource).map_err(Failure::new)?,
        };
        let Some(info) = self.source.kind_of(&kind).await? else {
            let kinds = self.source.kinds().await?;
            return Ok(kinds.unread_of(&kind.group).map(ToString::to_string).collect());
        };
        let namespace = self.namespace().and_then(|namespace| Namespace::parse(namespace).ok());
        Ok(match self.source.objects(&info, namespace.as_ref(), self.terminal, each).await {
            Ok(unread) => unread.map(|unread| unread.to_string()).into_iter().collect(),
            Err(failure) => vec![format!("{kind} ({})", failure.message())],
        })
    }
}

/// Returns the command that explains another object. A name that a shell would read as more than a word is quoted:
/// people copy commands.
fn why_command(resource: &str, name: &str, namespace: Option<&str>) -> String {
    let quoted = |word: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '_' | '/');
        match word.chars().all(is_plain) {
            true => word.to_owned(),
            false => format!("'{}'", word.replace('\'', r"'\''")),
        }
    };
    let place = namespace.map(|namespace| format!(" -n {}", quoted(namespace))).unwrap_or_default();
    format!("kubectl depguard why {}{place}", quoted(&format!("{resource}/{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_word_of_the_command() {
        assert_eq!(why_command("pods", "a", Some("ns")), "kubectl depguard why pods/a -n ns");
        assert_eq!(
            why_command("roles.rbac.authorization.k8s.io", "system:a", None),
            "kubectl depguard why roles.rbac.authorization.k8s.io/system:a"
        );
        assert_eq!(why_command("roles", "$(reboot)", None), "kubectl depguard why 'roles/$(reboot)'");
        assert_eq!(why_command("roles", "a'; b", None), r"kubectl depguard why 'roles/a'\''; b'");
    }
}
