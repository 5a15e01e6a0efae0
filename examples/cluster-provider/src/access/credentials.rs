//! Kubeconfig of a request, as its Secret holds it.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::api::secret::{CA, CREATED, EXPIRES, HOST, KUBECONFIG, TOKEN};

/// Annotation of the Secret: the UID of the ServiceAccount to which the token is bound.
pub(super) const ACCOUNT_UID: &str = "workspaces.example.com/service-account-uid";

/// Minimum time for which a token is kept, in milliseconds, however short its life is and whatever the clocks say. It
/// prevents a busy loop.
const LEAST: i64 = 1_000;

/// Place where a token is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Door {
    /// Name of the cluster in the kubeconfig.
    pub(super) cluster: String,
    /// URL of the cluster's API server.
    pub(super) server: String,
    /// Certificate authority of the server, as PEM; `None` for one that every machine knows.
    pub(super) ca: Option<String>,
    /// UID of the ServiceAccount.
    pub(super) account_uid: String,
}

/// Token with its period of validity.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// Text of the token.
    pub(super) token: String,
    /// Time of creation.
    pub(super) created: Timestamp,
    /// Time of expiry.
    pub(super) expires: Timestamp,
}

impl Token {
    /// Returns the time until the token must be renewed, at 80 % of its life.
    pub(super) fn renewed_in(&self, now: Timestamp) -> Duration {
        let (created, expires) = (self.created.as_millisecond(), self.expires.as_millisecond());
        let lasts = (expires.saturating_sub(created) / 5 * 4).max(LEAST);
        let left = created.saturating_add(lasts).saturating_sub(now.as_millisecond());
        Duration::from_millis(u64::try_from(left).unwrap_or_default())
    }

    /// Returns a message about the token, without the token itself.
    pub(super) fn shown(&self) -> String {
        format!("the kubeconfig is valid until {}; the provider renews it before", self.expires)
    }

    /// Returns the Secret's content.
    pub(super) fn data(&self, door: &Door) -> BTreeMap<String, ByteString> {
        let entries = [
            (KUBECONFIG, Some(self.kubeconfig(door))),
            (HOST, Some(door.server.clone())),
            (CA, door.ca.clone()),
            (TOKEN, Some(self.token.clone())),
            (CREATED, Some(self.created.as_second().to_string())),
            (EXPIRES, Some(self.expires.as_second().to_string())),
        ];
        let filled = entries.into_iter().filter_map(|(key, value)| Some((key, value?)));
        filled.map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes()))).collect()
    }

    /// Returns the kubeconfig. JSON is YAML, so no value can break out.
    fn kubeconfig(&self, door: &Door) -> String {
        let name = &door.cluster;
        let mut cluster = json!({"server": door.server});
        if let Some(ca) = &door.ca {
            cluster["certificate-authority-data"] = json!(ByteString(ca.clone().into_bytes()));
        }
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": "access", "user": {"token": self.token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": "access"}}],
            "current-context": name,
        });
        format!("{kubeconfig:#}\n")
    }

    /// Returns the token of a Secret, if the Secret is exactly as it was written for this door. An edited Secret counts
    /// as none.
    pub(super) fn stored(secret: &Secret, door: &Door) -> Option<Self> {
        let data = secret.data.as_ref()?;
        let text = |key: &str| std::str::from_utf8(&data.get(key)?.0).ok();
        let time = |key: &str| Timestamp::from_second(text(key)?.parse().ok()?).ok();
        let account = secret.metadata.annotations.as_ref()?.get(ACCOUNT_UID)?;
        let token = Self { token: text(TOKEN)?.to_owned(), created: time(CREATED)?, expires: time(EXPIRES)? };
        let is_as_written = token.data(door).iter().all(|(key, value)| data.get(key) == Some(value));
        (account == &door.account_uid && is_as_written).then_some(token)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use kube_client::config::Kubeconfig;

    use super::*;

    fn door() -> Door {
        Door {
            cluster: "team/a".to_owned(),
            server: "https://kcp.example.com/clusters/root:a".to_owned(),
            ca: Some("-----BEGIN CERTIFICATE-----\n".to_owned()),
            account_uid: "u-1".to_owned(),
        }
    }

    fn token(created: i64, expires: i64) -> Token {
        let at = |second| Timestamp::from_second(second).unwrap();
        Token { token: "t0k\"en".to_owned(), created: at(created), expires: at(expires) }
    }

    fn secret() -> Secret {
        Secret {
            metadata: ObjectMeta {
                annotations: Some(BTreeMap::from([(ACCOUNT_UID.to_owned(), "u-1".to_owned())])),
                ..ObjectMeta::default()
            },
            data: Some(token(1_000, 4_600).data(&door())),
            ..Secret::default()
        }
    }

    #[test]
    fn a_token_is_renewed_when_four_fifths_of_its_time_are_over() {
        for (created, expires, now, seconds) in [
            (1_000, 4_600, 1_000, 2_880),
            (1_000, 4_600, 3_000, 880),
            (1_000, 4_600, 3_880, 0),
            (1_000, 4_600, 9_000, 0),
            // The clock is behind the server's, and the expiry makes no sense.
            (1_000, 4_600, 900, 2_980),
            (1_000, 500, 1_000, 1),
            (1_000, 500, 1_001, 0),
        ] {
            let now = Timestamp::from_second(now).unwrap();
            let left = token(created, expires).renewed_in(now);
            assert_eq!(left, Duration::from_secs(seconds), "{created} {expires} {now}");
        }
    }

    #[test]
    fn a_secret_holds_what_a_client_needs() {
        let data = secret().data.unwrap();
        let keys: Vec<&str> = data.keys().map(String::as_str).collect();
        assert_eq!(keys, ["ca.crt", "creationTimestamp", "expirationTimestamp", "host", "kubeconfig", "token"]);
        let text = std::str::from_utf8(&data["kubeconfig"].0).unwrap();
        let kubeconfig = Kubeconfig::from_yaml(text).unwrap();
        let cluster = kubeconfig.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://kcp.example.com/clusters/root:a"));
        assert_eq!(cluster.certificate_authority_data.as_deref(), Some("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="));
        assert_eq!(kubeconfig.current_context.as_deref(), Some("team/a"));
        assert_eq!(data["expirationTimestamp"].0, b"4600");
        assert_eq!(data["creationTimestamp"].0, b"1000");
    }

    #[test]
    fn a_token_counts_only_where_it_was_made_for() {
        assert!(Token::stored(&secret(), &door()) == Some(token(1_000, 4_600)));
        let other = |change: fn(&mut Door)| {
            let mut door = door();
            change(&mut door);
            Token::stored(&secret(), &door).is_none()
        };
        assert!(other(|door| door.account_uid = "u-2".to_owned()), "an account that was made again");
        assert!(other(|door| door.server.push('b')), "another server");
        assert!(other(|door| door.ca = Some("b".to_owned())), "another certificate authority");
    }

    #[test]
    fn what_somebody_adds_to_a_secret_is_let_stand() {
        let mut more = secret();
        more.data.as_mut().unwrap().insert("theirs".to_owned(), ByteString(b"x".to_vec()));
        assert!(Token::stored(&more, &door()).is_some());
    }

    #[test]
    fn a_secret_that_somebody_edited_is_as_good_as_none() {
        for key in ["ca.crt", "creationTimestamp", "expirationTimestamp", "host", "kubeconfig", "token"] {
            let (mut without, mut edited) = (secret(), secret());
            without.data.as_mut().unwrap().remove(key);
            edited.data.as_mut().unwrap().insert(key.to_owned(), ByteString(b"x".to_vec()));
            assert!(Token::stored(&without, &door()).is_none(), "without {key}");
            assert!(Token::stored(&edited, &door()).is_none(), "with another {key}");
        }
        assert!(Token::stored(&Secret::default(), &door()).is_none());
    }
}
