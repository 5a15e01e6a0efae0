use super::*;
use crate::api::Common;

fn granted() -> Result<Grant, Halt> {
    Ok(Grant {
        secret: "reader.kubeconfig".to_owned(),
        message: "good until noon".to_owned(),
        look_again_in: Duration::ZERO,
    })
}

fn waits() -> Result<Grant, Halt> {
    Err(Halt::Waits { reason: "ClusterNotReady", message: "soon".to_owned() })
}

fn failed() -> Result<Grant, Halt> {
    Err(Halt::Failed(Error::Refused("no answer".to_owned())))
}

/// Formats a status as `phase[@secret]: Condition=status/reason …`.
fn line(status: &AccessRequestStatus) -> String {
    let secret = status.secret_ref.as_ref().map_or(String::new(), |secret| format!("@{}", secret.name));
    let conditions = status.common.conditions.iter();
    let conditions: Vec<_> = conditions.map(|said| format!("{}={}/{}", said.type_, said.status, said.reason)).collect();
    format!("{}{secret}: {}", status.common.phase, conditions.join(" "))
}

fn with(before: Option<&AccessRequestStatus>, generation: i64, step: Step, came_to: &Result<Grant, Halt>) -> String {
    line(&status(before, generation, step, came_to))
}

const ALL_GOOD: &str = "Granted@reader.kubeconfig: RequestValid=True/Valid ClusterReady=True/Ready \
                        PermissionsGranted=True/Bound KubeconfigReady=True/Issued";

#[test]
fn each_step_has_a_condition_and_the_last_one_reached_says_why_it_is_not_granted() {
    assert_eq!(with(None, 1, Step::Kubeconfig, &granted()), ALL_GOOD);
    assert_eq!(
        with(None, 1, Step::Cluster, &waits()),
        "Pending: RequestValid=True/Valid ClusterReady=False/ClusterNotReady \
         PermissionsGranted=Unknown/NotReached KubeconfigReady=Unknown/NotReached"
    );
    assert_eq!(
        with(None, 1, Step::Request, &Err(Halt::Denied(Refusal::Oidc))),
        "Denied: RequestValid=False/OIDCNotSupported ClusterReady=Unknown/NotReached \
         PermissionsGranted=Unknown/NotReached KubeconfigReady=Unknown/NotReached"
    );
}

#[test]
fn a_granted_request_stays_so_only_while_nothing_else_is_known() {
    let before = status(None, 1, Step::Kubeconfig, &granted());
    let problem = ALL_GOOD.replace("ClusterReady=True/Ready", "ClusterReady=Unknown/InteractionProblem");
    assert_eq!(with(Some(&before), 1, Step::Cluster, &failed()), problem);
    let of_another_spec = with(Some(&before), 2, Step::Cluster, &failed());
    assert!(of_another_spec.starts_with("Pending@reader.kubeconfig: "), "{of_another_spec}");
    let waiting = with(Some(&before), 1, Step::Cluster, &waits());
    assert!(waiting.starts_with("Pending@reader.kubeconfig: "), "{waiting}");
}

#[test]
fn who_lost_access_is_shown_no_secret() {
    let before = status(None, 1, Step::Kubeconfig, &granted());
    let gone = Err(Halt::Gone { message: "no cluster".to_owned() });
    assert!(with(Some(&before), 1, Step::Cluster, &gone).starts_with("Pending: "));
    let denied = Err(Halt::Denied(Refusal::Oidc));
    assert!(with(Some(&before), 2, Step::Request, &denied).starts_with("Denied: "));
}

#[test]
fn saying_the_same_again_changes_nothing() {
    for (step, came_to) in [(Step::Kubeconfig, granted()), (Step::Cluster, waits()), (Step::Permissions, failed())] {
        let first = status(None, 3, step, &came_to);
        assert_eq!(status(Some(&first), 3, step, &came_to), first, "{step:?}");
        assert_eq!(first.common, Common { observed_generation: 3, ..first.common.clone() });
    }
}
