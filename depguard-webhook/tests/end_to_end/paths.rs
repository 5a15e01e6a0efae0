//! Signed paths, and the scope that each gives its caller.

use depguard_core::ControlPlane;
use depguard_kcp::PathKey;

use crate::scene::{Scene, eventually};

const OLD: &str = "0123456789abcdef0123456789abcdef";
const NEW: &str = "fedcba9876543210fedcba9876543210";

async fn set_up(control_plane: ControlPlane) -> Scene {
    let mut scene = Scene::set_up(control_plane).await;
    scene.write_rule(".spec.vpcRef.name").await;
    scene.create_vm("m1", "a").await;
    scene.config.path_key = Some(scene.write("path-key", OLD));
    scene
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_key_only_a_signed_path_is_answered() {
    for control_plane in [ControlPlane::Kcp, ControlPlane::Kubernetes] {
        let scene = set_up(control_plane).await;
        let webhook = scene.start().await;
        let address = webhook.review_addr();
        let [provider, ..] = scene.clusters().await;
        let signed = PathKey::parse(OLD).unwrap().suffix(provider.as_ref());
        let forged = PathKey::parse(NEW).unwrap().suffix(provider.as_ref());
        for path in ["/validate".to_owned(), format!("/validate{forged}")] {
            scene.configure_at(address, &path).await;
            for vpc in ["a", "b"] {
                let message = scene.delete(vpc).await.unwrap();
                assert!(message.contains("failed calling webhook"), "{path}: {message}");
            }
        }
        scene.configure_at(address, &format!("/validate{signed}")).await;
        let message = scene.delete("a").await.unwrap();
        assert!(message.contains("cannot delete vpcs/a: still referenced by VirtualMachine/m1"), "{message}");
        assert_eq!(scene.delete("b").await, None);
        webhook.stop().await;
    }
}

/// A user who learns the path of one workspace learns nothing of another one's objects by it.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_is_good_for_what_its_workspace_may_ask_about() {
    let scene = set_up(ControlPlane::Kcp).await;
    let webhook = scene.start().await;
    let key = PathKey::parse(OLD).unwrap();
    let [provider, stranger, tenant] = scene.clusters().await;
    for (scope, answered) in [(provider, true), (tenant, true), (stranger, false), (None, false)] {
        scene.configure_at(webhook.review_addr(), &format!("/validate{}", key.suffix(scope.as_ref()))).await;
        let message = scene.delete_dry("a").await.unwrap();
        assert_eq!(message.contains("VirtualMachine/m1"), answered, "{scope:?}: {message}");
        assert_eq!(message.contains("find out who calls it"), !answered, "{scope:?}: {message}");
        assert_eq!(scene.delete_dry("b").await.is_none(), answered, "{scope:?}");
    }
    webhook.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_changed_without_a_deletion_that_is_refused_for_it() {
    let scene = set_up(ControlPlane::Kubernetes).await;
    let webhook = scene.start().await;
    let path = |key: &str| format!("/validate{}", PathKey::parse(key).unwrap().suffix(None));
    let goes = async || scene.delete_dry("b").await.is_none();
    scene.configure_at(webhook.review_addr(), &path(OLD)).await;
    assert!(goes().await);
    // The new key is only known at first, then it signs, and then the old key is forgotten.
    scene.write("path-key", &format!("{OLD}\n{NEW}\n"));
    for _ in 0..60 {
        assert!(goes().await, "while the new key comes");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    scene.configure_at(webhook.review_addr(), &path(NEW)).await;
    assert!(goes().await);
    scene.write("path-key", NEW);
    scene.configure_at(webhook.review_addr(), &path(OLD)).await;
    eventually("the old key is forgotten", async || !goes().await).await;
    scene.configure_at(webhook.review_addr(), &path(NEW)).await;
    assert!(goes().await);
    webhook.stop().await;
}
