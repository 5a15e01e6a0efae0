//! What can go wrong.

/// What this crate's operations give.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something could not be done. What lies behind it is its `source`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An API server could not be asked, or said no.
    #[error("cannot {doing}")]
    Api {
        /// What was tried, as in ``read ClusterProfile `default` ``.
        doing: String,
        /// What came of it.
        source: Box<kube_client::Error>,
    },
    /// A kubeconfig could not be used.
    #[error("cannot use the kubeconfig {which}")]
    Kubeconfig {
        /// Which one: a file, or where else it was looked for.
        which: String,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Something is there that this provider must not take for its own, or is not as it must be. Says what to do.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// For `map_err`: says what was tried.
    pub fn api(doing: impl Into<String>) -> impl FnOnce(kube_client::Error) -> Self {
        let doing = doing.into();
        |source| Self::Api { doing, source: Box::new(source) }
    }

    /// The HTTP status that an API server answered with, if it answered.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Api { source, .. } => match &**source {
                kube_client::Error::Api(status) => Some(status.code),
                _ => None,
            },
            Self::Kubeconfig { .. } | Self::Refused(_) => None,
        }
    }

    /// The whole chain in one line, for conditions and logs.
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
