//! The way that the operator chose to read dependents.

use depguard_core::{Home, Query};
use depguard_kcp::{Connection, MAX_BODY, ReadThrough, ShardHosts, Space, UpTo};

use crate::budget::Room;
use crate::config::Config;
use crate::export::ThroughExports;
use crate::front_proxy::FrontProxy;
use crate::port::{Fetched, Port};

/// Either way.
#[derive(Debug)]
pub(crate) enum Way {
    FrontProxy(FrontProxy),
    Exports(Box<ThroughExports>),
}

impl Way {
    /// The way that `config` says. In home kubernetes it is always the one API server.
    pub(crate) fn of(config: &Config, connection: &Connection) -> Self {
        match (config.home, config.read_through) {
            (Home::Kcp, ReadThrough::Export) => {
                let hosts = ShardHosts::new(connection.clone(), &config.export_name, config.shard_hosts.clone());
                Self::Exports(Box::new(ThroughExports::new(connection.clone(), hosts)))
            }
            (home, _) => Self::FrontProxy(FrontProxy::new(home, connection.clone())),
        }
    }

    async fn ask(&self, query: &Query, space: &mut impl Space) -> Fetched {
        match self {
            Self::FrontProxy(way) => way.ask(query, space).await,
            Self::Exports(way) => way.ask(query, space).await,
        }
    }
}

impl Port for Way {
    async fn get(&self, query: &Query) -> Fetched {
        self.ask(query, &mut UpTo(MAX_BODY)).await
    }

    async fn get_within(&self, query: &Query, room: &mut Room) -> Fetched {
        self.ask(query, room).await
    }
}
