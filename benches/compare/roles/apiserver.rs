//! Testbed in a process of its own.

use depguard_testbed::{Options, Place, Testbed};
use serde_json::{Value, json};

use super::Parent;
use crate::Result;
use crate::objects::{GROUP, Kind, NAMESPACE, Template, VERSION, free, target};
use crate::server::Fill;

pub(super) async fn play() -> Result {
    let testbed = Testbed::start(Options::default()).await?;
    let mut parent = Parent::new(&json!({"url": testbed.url(), "ca": testbed.ca_pem()}));
    while let Some(question) = parent.question().await? {
        let answer = match question.get("fill") {
            Some(fill) => json!(self::fill(&testbed, &serde_json::from_value(fill.clone())?)?),
            None => {
                let lists = testbed.lists(GROUP, question["lists"].as_str().unwrap_or_default());
                json!({"begun": lists.begun, "requests": lists.pages, "bytes": lists.bytes})
            }
        };
        println!("{answer}");
    }
    testbed.stop().await;
    Ok(())
}

fn fill(testbed: &Testbed, fill: &Fill) -> Result<usize> {
    let Fill { workspace, dependents, bytes, prints, free: count, set } = fill;
    let place = |kind: Kind| Place::new(GROUP, VERSION, kind.plural()).namespace(NAMESPACE).workspace(workspace);
    let mut filled = 0;
    let kinds = if *prints { &Kind::DEPENDENTS[..] } else { &[Kind::Machine, Kind::Server] };
    for &kind in kinds {
        let template = Template::new(kind, *bytes, true);
        filled += testbed.fill(&place(kind), (0..*dependents).map(|n| template.make(n, *dependents)))?;
    }
    for kind in Kind::TARGETS {
        let free = (0..*count).map(|n| target(kind, &free(n), &format!("s{}", n / set)));
        let busy: Value = target(kind, crate::objects::BUSY, "busy");
        filled += testbed.fill(&place(kind), free.chain([busy]))?;
    }
    Ok(filled)
}
