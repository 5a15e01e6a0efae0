//! Way that the operator chose to read dependents.

use depguard_core::{ControlPlane, Query};
use depguard_kcp::{BodyBudget, Connection, MAX_BODY, ReadThrough, ShardHosts, UpTo};

use crate::config::Config;
use crate::limits::read_budget::BytePermit;
use crate::ports::api_reader::{ApiReader, Fetched};
use crate::ports::export_reader::ThroughExports;
use crate::ports::front_proxy::FrontProxy;

/// Reader of either way.
#[derive(Debug)]
pub(crate) enum ReadPath {
    FrontProxy(FrontProxy),
    Exports(Box<ThroughExports>),
}

impl ReadPath {
    /// Returns the reader that `config` asks for. In plain Kubernetes it is always the one API server.
    pub(crate) fn from_config(config: &Config, connection: &Connection) -> Self {
        match (config.control_plane, config.read_through) {
            (ControlPlane::Kcp, ReadThrough::Export) => {
                let hosts = ShardHosts::new(connection.clone(), &config.export_name, config.shard_hosts.clone());
                Self::Exports(Box::new(ThroughExports::new(connection.clone(), hosts)))
            }
            (control_plane, _) => Self::FrontProxy(FrontProxy::new(control_plane, connection.clone())),
        }
    }

    async fn ask(&self, query: &Query, space: &mut impl BodyBudget) -> Fetched {
        match self {
            Self::FrontProxy(way) => way.ask(query, space).await,
            Self::Exports(way) => way.ask(query, space).await,
        }
    }
}

impl ApiReader for ReadPath {
    async fn get(&self, query: &Query) -> Fetched {
        self.ask(query, &mut UpTo(MAX_BODY)).await
    }

    async fn get_within(&self, query: &Query, permit: &mut BytePermit) -> Fetched {
        self.ask(query, permit).await
    }
}
