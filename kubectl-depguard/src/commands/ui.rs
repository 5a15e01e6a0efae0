//! `ui`: serves a page about kinds, rules and objects to a browser on this machine.

use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::cluster::files::FileArgs;
use crate::cluster::source::Source;
use crate::engine::page::{PageUse, failure_page, page};
use crate::io::exit::{Failure, Outcome};
use crate::io::terminal::Terminal;
use crate::options::Global;

mod access;
mod browser;
mod server;

use self::access::Access;
use self::server::MAX_CONNECTIONS;

/// Show kinds, rules and objects in a browser
///
/// Serves a page on 127.0.0.1 until Ctrl-C, and opens a browser if there is one. The page draws the kinds, finds
/// objects, and shows for each who blocks it, what it refers to, and the order in which these could be deleted. It
/// changes nothing: it only reads, with your rights, and reads everything anew for each refresh. It covers all
/// namespaces that you may read, or else the one of -n.
///
/// Only somebody who has the printed address can open the page: keep its token to yourself.
///
/// Exit code: 0 after Ctrl-C; 2 if the page can't be served.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,

    /// Port on 127.0.0.1 [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Print the address, and open no browser
    #[arg(long)]
    no_browser: bool,
}

/// Request for a page, with the way back for it.
type PageRequest = oneshot::Sender<Bytes>;

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    if args.files.filename.iter().any(|file| file.as_os_str() == "-") {
        return Err(Failure::new("standard input can be read only once, but a page is read anew for each refresh")
            .hint("save it as a file, or write one page with `kubectl depguard graph -o html -f -`"));
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await;
    let bound = listener.and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
    let (port, listener) = bound.map_err(|why| {
        Failure::new(format!("could not listen on port {} of 127.0.0.1: {why}", args.port))
            .hint("name another with --port, or leave it out for a free one")
    })?;
    let access = Arc::new(Access::new(port)?);
    writeln!(terminal.out(), "{}", access.address())?;
    terminal.out().flush()?;
    terminal.note("only somebody who has this address can open the page; Ctrl-C ends it")?;
    if !args.no_browser && terminal.is_terminal() && !browser::open(&access.address_for_once()) {
        terminal.note("found no browser to open: open the address in one on this machine")?;
    }
    let (requests, mut queue) = mpsc::channel(MAX_CONNECTIONS);
    // Dropped at the end of the command, with all its connections.
    let mut server = JoinSet::new();
    server.spawn(server::serve(listener, access, requests));
    let work = async {
        while let Some(request) = queue.recv().await {
            answer(request, &mut queue, &args.files, global, terminal).await?;
        }
        Ok::<_, Failure>(())
    };
    tokio::select! {
        ended = tokio::signal::ctrl_c() => ended.map_err(|why| Failure::new(format!("could not wait for Ctrl-C: {why}")))?,
        failed = work => failed?,
    }
    Ok(Outcome::Well)
}

/// Reads everything once, for this request and all others that wait by now. There is never more than one reading.
async fn answer(
    request: PageRequest,
    queue: &mut mpsc::Receiver<PageRequest>,
    files: &FileArgs,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let mut waiting = vec![request];
    while let Ok(request) = queue.try_recv() {
        waiting.push(request);
    }
    waiting.retain(|request| !request.is_closed());
    if waiting.is_empty() {
        return Ok(());
    }
    let html = match read(files, global, terminal).await {
        Ok(html) => html,
        Err(why) if why.is_cut() => return Err(why),
        Err(why) => failure_page(&why, global, files)?,
    };
    let html = Bytes::from(html);
    for request in waiting {
        // A browser that went away needs no page.
        let _ = request.send(html.clone());
    }
    Ok(())
}

async fn read(files: &FileArgs, global: &Global, terminal: &mut Terminal) -> Result<String, Failure> {
    let source = Source::open(global, files, terminal).await?;
    let (html, _) = page(&source, global, files, PageUse::Served, terminal).await?;
    Ok(html)
}
