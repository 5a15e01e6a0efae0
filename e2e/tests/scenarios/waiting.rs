//! Requesters who are told to come again soon.

use std::sync::Arc;

use depguard_e2e::tools::Tools;
use depguard_e2e::{Outcome, Stop, World, ensure};

use crate::races::{lose_registers, machine, start};

/// Has kubectl create a machine whose register is closed for a while. In kcp, the request goes through the front-proxy.
pub(crate) async fn kubectl(world: Arc<World>) -> Outcome {
    let tools = Tools::find().map_err(Stop::Skipped)?;
    let (cast, _depguard) = start(&world).await?;
    let consumer = &cast.consumer;
    consumer.create_target(&cast.vpc, "a").await?;
    let folder = tempfile::tempdir()?;
    let (kubeconfig, file) = (folder.path().join("kubeconfig"), folder.path().join("machine.json"));
    world.ring().write_kubeconfig(&consumer.path, &kubeconfig)?;
    let object = machine(&cast, "m", "a");
    std::fs::write(&file, object.to_string())?;
    lose_registers(&world).await?;
    let reply = consumer.api.post(&cast.vm.collection(&consumer.namespace), &object).await?;
    let after = reply.retry_after;
    ensure(reply.status == 429 && after.is_some_and(|seconds| seconds > 0), || format!("{reply:?}"))?;
    let file = file.to_string_lossy();
    let arguments = ["create", "--validate=false", "-v=6", "-n", &consumer.namespace, "-f", &file];
    let printed = tools.kubectl(&kubeconfig, &arguments)?;
    let waits = printed.lines().filter(|line| line.contains("Retry-After")).count();
    ensure(waits > 0, || format!("kubectl was not told to wait: {printed}"))
}
