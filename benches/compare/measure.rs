//! Complete comparison.

use crate::plan::{Case, Only, Options};
use crate::report::Report;
use crate::scene::{Scene, Stage};
use crate::server::Server;
use crate::{Result, floods, report, rounds, transport};

/// Measurements of one consumer.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    pub(crate) case: Case,
    pub(crate) figures: Vec<rounds::Figures>,
    pub(crate) floods: Vec<floods::Flood>,
    pub(crate) collections: Vec<floods::Flood>,
}

pub(crate) async fn run(options: &Options) -> Result {
    if options.wants(Only::Testbed) {
        let mut report = Report::begin("testbed");
        for case in options.cases(Only::Testbed) {
            // Each case has a server of its own, which gives its memory back.
            let mut stage = Stage::new(Server::testbed().await?, case.seconds()).await?;
            report.add(on(&mut stage, "consumer", case).await?);
        }
        publish(&report, options)?;
    }
    if options.wants(Only::Kcp) {
        let Some(server) = Server::kcp().await? else {
            println!("kcp not found: set `KCP_BIN`, or put kcp into `PATH`");
            return Ok(());
        };
        let mut report = Report::begin("kcp");
        let mut stage = Stage::new(server, 10).await?;
        for (number, case) in options.cases(Only::Kcp).into_iter().enumerate() {
            report.add(on(&mut stage, &format!("consumer-{number}"), case).await?);
        }
        publish(&report, options)?;
    }
    Ok(())
}

/// Measures the same list over each protocol, from a real kcp.
pub(crate) async fn transport() -> Result {
    let server = Server::kcp().await?.ok_or("kcp not found: set `KCP_BIN`, or put kcp into `PATH`")?;
    let stage = Stage::new(server, 10).await?;
    let figures = transport::run(&stage.listed(10_000, 2_000).await?).await?;
    println!("{}", report::transports(&figures));
    Ok(())
}

fn publish(report: &Report, options: &Options) -> Result {
    println!("\n# {}\n\n{}", report.server, report.print());
    if options.no_document { Ok(()) } else { report::write(&options.document, report) }
}

async fn on(stage: &mut Stage, name: &str, case: Case) -> Result<Measured> {
    eprintln!("{}: {} dependents of {} bytes", stage.server.name(), case.amounts.dependents, case.amounts.bytes);
    let mut scene: Scene<'_> = stage.scene(name, case.amounts.clone()).await?;
    let figures = rounds::run(&mut scene, case.rounds).await?;
    let floods = floods::run(&mut scene, &case).await?;
    let collections = floods::collections(&mut scene, &case).await?;
    Ok(Measured { case, figures, floods, collections })
}
