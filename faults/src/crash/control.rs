//! Wrong removals, which show that the checker sees mistakes.

use super::checker::check;
use super::stage::{OWNERS, Stage};
use super::world::{self, Comes, End, OWNER, Thing, World};
use crate::Result;
use crate::scene::eventually;

/// Mistake of a wrong removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// The removal begins with the last group.
    Reversed,
    /// The removal goes on while finalizers hold objects of a group.
    Hasty,
    /// The removal leaves GroupOwners and roles behind.
    Forgetful,
    /// The removal deletes objects that were released.
    Deaf,
    /// The removal takes only objects that were adopted before the GlobalOwner was deleted.
    Blind,
}

impl Mistake {
    /// List of all mistakes.
    pub const ALL: [Self; 5] = [Self::Reversed, Self::Hasty, Self::Forgetful, Self::Deaf, Self::Blind];
}

/// Lets a controller adopt objects of two groups, removes them wrongly without it, and returns the checker's violations.
pub async fn control(mistake: Mistake) -> Result<Vec<String>> {
    let thing = |group: usize, is_held| Thing { is_held, ..Thing::new(group, vec![group]) };
    let unadopted = Thing { comes: Comes::AtDeletion, ..thing(0, false) };
    let world = World {
        groups: vec![0, 1],
        by_rules: false,
        rules: vec![],
        objects: vec![thing(0, true), thing(0, false), thing(1, false), unadopted],
        end: if mistake == Mistake::Deaf { End::Policy } else { End::Background },
        delete_after: usize::MAX,
        unseen: false,
        at_every_write: false,
    };
    let mut stage = Stage::set(&world).await?;
    stage.raise(&world).await?;
    let controller = stage.controller().await?;
    let owner = format!("{OWNERS}/{OWNER}");
    eventually("all is adopted", async || {
        let Ok(owner) = stage.client.get_json(&owner).await else { return false };
        let mut conditions = owner["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|found| found["type"] == "Ready" && found["status"] == "True")
    })
    .await?;
    controller.stop().await;
    stage.end_owner(&world).await?;
    let mut order: Vec<usize> = vec![3, 0, 1, 2];
    if mistake == Mistake::Blind {
        order.remove(0);
    }
    if mistake == Mistake::Reversed {
        order.reverse();
    }
    for place in order.iter().copied() {
        let path = format!("{}/{}", world::collection(world.objects[place].kind), world::name(place));
        stage.client.delete(&path, Default::default()).await?;
        if mistake != Mistake::Hasty {
            eventually("it is gone", async || stage.client.get_json(&path).await.is_err()).await?;
        }
    }
    if mistake != Mistake::Forgetful {
        // Cleans up, so that nothing else is wrong.
        for (collection, label) in [
            ("/apis/globalowner.metacontroller.io/v1alpha1/groupowners", ""),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                "?labelSelector=dependencies.opendefense.cloud%2Fglobal-owner",
            ),
        ] {
            for object in stage.client.list_json(&format!("{collection}{label}")).await?.items {
                let path = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
                if !label.is_empty() {
                    stage.client.delete(&path, Default::default()).await?;
                    continue;
                }
                let mut marked = object.clone();
                marked["status"]["phase"] = "Empty".into();
                stage.client.put_json(&format!("{path}/status"), &marked).await?;
                stage.client.delete(&path, Default::default()).await?;
            }
        }
    }
    let mut last = stage.client.get_json(&owner).await?;
    last["metadata"]["finalizers"] = serde_json::json!([]);
    stage.client.put_json(&owner, &last).await?;
    let gone = async || {
        let mut left = 0;
        for place in &order {
            let path = format!("{}/{}", world::collection(world.objects[*place].kind), world::name(*place));
            left += usize::from(stage.client.get_json(&path).await.is_ok());
        }
        left == 0
    };
    eventually("all is gone", gone).await?;
    Ok(check(&world, &stage.end().await?).violations)
}
