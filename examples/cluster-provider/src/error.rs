//! Errors of this crate.

/// Result of this crate's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason why something could not be done. The cause is its `source`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An API server could not be asked, or refused.
    #[error("cannot {doing}")]
    Api {
        /// Attempted action, as in ``read ClusterProfile `default` ``.
        doing: String,
        /// Error of the client.
        source: Box<kube_client::Error>,
    },
    /// A kubeconfig is unusable.
    #[error("cannot use the kubeconfig {which}")]
    Kubeconfig {
        /// Origin of the kubeconfig: a file, or another place where it was looked for.
        which: String,
        /// Error in the kubeconfig.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An object does not belong to this provider, or is not as it must be. The message says what to do.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// Makes an error for `map_err`, with the attempted action.
    pub fn api(doing: impl Into<String>) -> impl FnOnce(kube_client::Error) -> Self {
        let doing = doing.into();
        |source| Self::Api { doing, source: Box::new(source) }
    }

    /// Returns the HTTP status of the API server's answer, if there was one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Api { source, .. } => match &**source {
                kube_client::Error::Api(status) => Some(status.code),
                _ => None,
            },
            Self::Kubeconfig { .. } | Self::Refused(_) => None,
        }
    }

    /// Returns the error with its causes in one line, for conditions and logs.
    pub fn in_full(&self) -> String {
        match self {
            Self::Api { doing, source } => match &**source {
                kube_client::Error::Api(status) => format!("cannot {doing}: {}", status.message),
                other => format!("cannot {doing}: {other}"),
            },
            Self::Kubeconfig { source, .. } => format!("{self}: {source}"),
            Self::Refused(why) => why.clone(),
        }
    }
}
