//! Flags about the API server and the caller, with the names that kubectl gives them.

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use depguard_core::model::parse_duration;
use depguard_kcp::{ConnectOptions, Impersonation, KubeconfigOverrides, LoggedRequest};

use crate::io::exit::Failure;

/// API server to ask, and the caller as whom it is asked.
#[derive(Debug, Args)]
pub(super) struct ServerArgs {
    /// Kubeconfig file [default: KUBECONFIG, or ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current context]
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    context: Option<String>,

    /// User to act as, such as system:serviceaccount:NAMESPACE:NAME; needs the right to impersonate
    #[arg(long = "as", global = true, value_name = "USER", help_heading = "Global options")]
    as_user: Option<String>,

    /// Group of the user to act as; may be repeated
    #[arg(long, global = true, value_name = "GROUP", hide_short_help = true, help_heading = "Global options")]
    as_group: Vec<String>,

    /// UID of the user to act as
    #[arg(long, global = true, value_name = "UID", hide_short_help = true, help_heading = "Global options")]
    as_uid: Option<String>,

    /// Cluster of the kubeconfig [default: the context's]
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true, help_heading = "Global options")]
    cluster: Option<String>,

    /// User of the kubeconfig, whose credentials to send [default: the context's]
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true, help_heading = "Global options")]
    user: Option<String>,

    /// URL of the API server [default: the kubeconfig's]
    #[arg(short, long, global = true, value_name = "URL", hide_short_help = true, help_heading = "Global options")]
    server: Option<String>,

    /// Bearer token, instead of the kubeconfig's credentials
    #[arg(long, global = true, value_name = "TOKEN", hide_short_help = true, help_heading = "Global options")]
    token: Option<String>,

    /// Accept any certificate of the API server; whoever is in between then sees the credentials
    #[arg(long, global = true, hide_short_help = true, help_heading = "Global options")]
    insecure_skip_tls_verify: bool,

    /// Time limit of each request, as 30s or 1m; 0 is none [default: 0]
    #[arg(
        long,
        global = true,
        value_name = "DURATION",
        value_parser = request_timeout,
        hide_short_help = true,
        help_heading = "Global options"
    )]
    request_timeout: Option<RequestTimeout>,
}

/// Time limit of a request; `None` for no limit.
#[derive(Debug, Clone, Copy)]
struct RequestTimeout(Option<Duration>);

/// Level of the value of `-v`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Verbosity(u8);

/// Levels from which failed requests, all requests, and their headers are printed.
const FAILED: u8 = 1;
const ALL: u8 = 6;
const HEADERS: u8 = 8;

impl ServerArgs {
    /// Adds what the flags say to the options of a connection.
    pub(super) fn connect_options(&self, options: ConnectOptions) -> Result<ConnectOptions, Failure> {
        let mut overrides = KubeconfigOverrides::default();
        overrides.cluster.clone_from(&self.cluster);
        overrides.user.clone_from(&self.user);
        overrides.server.clone_from(&self.server);
        overrides.token.clone_from(&self.token);
        overrides.insecure_skip_tls_verify = self.insecure_skip_tls_verify;
        overrides.impersonate = self.impersonation()?;
        Ok(options.kubeconfig(self.kubeconfig.clone()).context(self.context.clone()).overrides(overrides))
    }

    pub(super) fn request_timeout(&self) -> Option<Duration> {
        self.request_timeout.and_then(|RequestTimeout(limit)| limit)
    }

    pub(super) fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    /// Returns the given flags that choose the API server and the caller, each with its value, if it has one. The token
    /// is left out.
    pub(super) fn words(&self) -> Vec<(&'static str, Option<String>)> {
        let kubeconfig = self.kubeconfig.as_ref().map(|file| file.display().to_string());
        let groups = self.as_group.iter().map(|group| ("--as-group", Some(group.clone())));
        let flags = [
            ("--kubeconfig", kubeconfig),
            ("--context", self.context.clone()),
            ("--cluster", self.cluster.clone()),
            ("--user", self.user.clone()),
            ("--server", self.server.clone()),
            ("--as", self.as_user.clone()),
            ("--as-uid", self.as_uid.clone()),
        ];
        let mut words: Vec<_> =
            flags.into_iter().chain(groups).filter_map(|(flag, value)| Some((flag, Some(value?)))).collect();
        words.extend(self.insecure_skip_tls_verify.then_some(("--insecure-skip-tls-verify", None)));
        words
    }

    /// Returns the flags that are given.
    pub(super) fn given(&self) -> Vec<&'static str> {
        let Self {
            kubeconfig,
            context,
            as_user,
            as_group,
            as_uid,
            cluster,
            user,
            server,
            token,
            insecure_skip_tls_verify,
            request_timeout,
        } = self;
        let flags = [
            ("--kubeconfig", kubeconfig.is_some()),
            ("--context", context.is_some()),
            ("--as", as_user.is_some()),
            ("--as-group", !as_group.is_empty()),
            ("--as-uid", as_uid.is_some()),
            ("--cluster", cluster.is_some()),
            ("--user", user.is_some()),
            ("--server", server.is_some()),
            ("--token", token.is_some()),
            ("--insecure-skip-tls-verify", *insecure_skip_tls_verify),
            ("--request-timeout", request_timeout.is_some()),
        ];
        flags.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag).collect()
    }

    fn impersonation(&self) -> Result<Option<Impersonation>, Failure> {
        match &self.as_user {
            Some(user) => {
                let mut impersonation = Impersonation::new(user);
                impersonation.groups.clone_from(&self.as_group);
                impersonation.uid.clone_from(&self.as_uid);
                Ok(Some(impersonation))
            }
            None if self.as_group.is_empty() && self.as_uid.is_none() => Ok(None),
            None => Err(Failure::new("--as-group and --as-uid describe the user of --as, and there is none")
                .hint("add --as USER")),
        }
    }
}

impl Verbosity {
    /// Returns true if some requests are printed.
    pub(super) fn prints_any(self) -> bool {
        self.0 >= FAILED
    }

    /// Prints a request and the beginning of its response, if this level includes it.
    pub(super) fn print(self, sent: &LoggedRequest<'_>, err: &Mutex<impl Write>) {
        let has_failed = sent.response.as_ref().map_or(true, |(status, _)| !status.is_success());
        if self.0 < ALL && !has_failed {
            return;
        }
        let (method, url, millis) = (sent.method, sent.url, sent.duration.as_millis());
        let mut text = match &sent.response {
            Ok((status, _)) => format!("{method} {url} {status} in {millis} milliseconds\n"),
            Err(why) => format!("{method} {url} failed after {millis} milliseconds: {why}\n"),
        };
        if self.0 >= HEADERS {
            let answered = sent.response.as_ref().map(|(_, headers)| *headers).into_iter();
            for (sign, headers) in [(">", sent.headers)].into_iter().chain(answered.map(|headers| ("<", headers))) {
                for (name, value) in headers {
                    text.push_str(&format!("    {sign} {name}: {value:?}\n"));
                }
            }
        }
        let mut err = err.lock().unwrap_or_else(PoisonError::into_inner);
        // If standard error is closed, the exit code still reports the result.
        let _ = err.write_all(text.as_bytes());
    }
}

impl FromStr for Verbosity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| "write a number: 1, 6 or 8".to_owned())
    }
}

impl fmt::Display for Verbosity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reads a time limit as kubectl does: a number alone is in seconds, and 0 is no limit.
fn request_timeout(text: &str) -> Result<RequestTimeout, String> {
    if text.trim_end_matches(['s', 'm', 'h']) == "0" {
        return Ok(RequestTimeout(None));
    }
    let seconds = text.parse().ok().map(Duration::from_secs);
    let limit = seconds.or_else(|| parse_duration(text));
    limit.map(|limit| RequestTimeout(Some(limit))).ok_or_else(|| "write it as `30s`, `1m` or `0`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_is_read_as_kubectl_reads_it() {
        for (text, limit) in [
            ("0", Some(None)),
            ("0s", Some(None)),
            ("30", Some(Some(Duration::from_secs(30)))),
            ("1m30s", Some(Some(Duration::from_secs(90)))),
            ("-1s", None),
            ("soon", None),
        ] {
            assert_eq!(request_timeout(text).ok().map(|RequestTimeout(limit)| limit), limit, "{text}");
        }
    }
}
