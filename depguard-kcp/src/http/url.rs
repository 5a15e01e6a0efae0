//! Parses and joins URLs of API servers. Pure.

use http::Uri;

/// Parsed address of a kubeconfig's server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// Complete URL, without a slash at its end: `https://kcp.example.com:6443/clusters/root:dep-ctrl`.
    pub(crate) url: String,
    /// Part before `/clusters/…`: `https://kcp.example.com:6443`.
    pub(crate) base: String,
    /// Workspace after `/clusters/`, by path or by logical cluster: `root:dep-ctrl`.
    pub(crate) workspace: Option<String>,
}

/// Reason why a URL was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The text is not a URL.
    #[error("`{url}` is not a URL: {why}")]
    Malformed {
        /// Given text.
        url: String,
        /// Error in the text.
        why: String,
    },
    /// The URL is not HTTP, or has no host.
    #[error("`{url}` is not the URL of an API server: write `https://host:port`, with its path, if any")]
    NotHttp {
        /// Given URL.
        url: String,
    },
    /// The URL has a query or a fragment.
    #[error("`{url}` holds `{found}`: leave out everything from there on")]
    Trailing {
        /// Given URL.
        url: String,
        /// Character that begins the query or the fragment.
        found: char,
    },
    /// The URL would send credentials unencrypted.
    #[error("`{url}` is not encrypted, but the kubeconfig's server is: depguard sends no credentials there")]
    Downgrade {
        /// Given URL.
        url: String,
    },
}

impl Address {
    /// Parses a server's URL as it stands in kubeconfigs.
    pub(crate) fn parse(server: &str) -> Result<Self, UrlError> {
        let url = normalize(server)?;
        let (base, workspace) = match url.split_once("/clusters/") {
            Some((base, rest)) => {
                let workspace = rest.split('/').next().filter(|segment| !segment.is_empty());
                (base.to_owned(), workspace.map(str::to_owned))
            }
            None => (url.clone(), None),
        };
        Ok(Self { url, base, workspace })
    }

    /// Replaces the base by the operator's. The operator may leave out the scheme, as in client-go's host.
    pub(crate) fn with_base(mut self, base_host: &str) -> Result<Self, UrlError> {
        let given = if base_host.contains("://") { base_host.to_owned() } else { format!("https://{base_host}") };
        let base = Self::parse(&given)?.base;
        self.base = self.same_protection(base)?;
        Ok(self)
    }

    /// Returns `url`, unless it would send unencrypted the credentials that are encrypted so far.
    pub(crate) fn same_protection(&self, url: String) -> Result<String, UrlError> {
        if self.url.starts_with("https://") && !url.starts_with("https://") {
            return Err(UrlError::Downgrade { url });
        }
        Ok(url)
    }
}

/// Checks that `url` is an absolute HTTP URL without query and fragment, and cuts slashes off its end.
pub(crate) fn normalize(url: &str) -> Result<String, UrlError> {
    if let Some(found) = url.chars().find(|c| matches!(c, '?' | '#')) {
        return Err(UrlError::Trailing { url: url.to_owned(), found });
    }
    let uri: Uri = url
        .parse()
        .map_err(|why: http::uri::InvalidUri| UrlError::Malformed { url: url.to_owned(), why: why.to_string() })?;
    match (uri.scheme_str(), uri.authority()) {
        (Some(scheme @ ("https" | "http")), Some(authority)) => {
            Ok(format!("{scheme}://{authority}{}", uri.path().trim_end_matches('/')))
        }
        _ => Err(UrlError::NotHttp { url: url.to_owned() }),
    }
}

/// Joins a path and query to a base that has no slash at its end.
///
/// Refuses a `#`: [`Uri`] would silently drop it and the text behind it, and the request would ask for more than was
/// meant.
pub(crate) fn join(base: &str, path_and_query: &str) -> Result<Uri, String> {
    if !path_and_query.starts_with('/') {
        return Err("a path begins with `/`".to_owned());
    }
    if path_and_query.contains('#') {
        return Err("a `#` must be percent-encoded".to_owned());
    }
    format!("{base}{path_and_query}").parse().map_err(|why: http::uri::InvalidUri| why.to_string())
}

#[cfg(test)]
mod tests {
    use depguard_core::model::percent_encode;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_kubeconfigs_server_is_cut_before_its_workspace() {
        for (server, base, workspace) in [
            ("https://kcp:6443/clusters/root:dep-ctrl", "https://kcp:6443", Some("root:dep-ctrl")),
            ("https://kcp:6443/clusters/root:dep-ctrl/", "https://kcp:6443", Some("root:dep-ctrl")),
            ("https://kcp/clusters/2x3fg5w1ik2mcnev", "https://kcp", Some("2x3fg5w1ik2mcnev")),
            ("https://proxy/kcp/clusters/root", "https://proxy/kcp", Some("root")),
            ("https://kcp:6443/clusters/", "https://kcp:6443/clusters", None),
            ("https://kcp:6443", "https://kcp:6443", None),
            ("https://kcp:6443/", "https://kcp:6443", None),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080", None),
            ("https://[::1]:6443/clusters/root", "https://[::1]:6443", Some("root")),
        ] {
            let address = Address::parse(server).unwrap();
            assert_eq!((address.base.as_str(), address.workspace.as_deref()), (base, workspace), "{server}");
            assert_eq!(address.url, server.trim_end_matches('/'));
        }
    }

    #[test]
    fn the_operators_base_replaces_the_kubeconfigs() {
        for (base_host, base) in [
            ("https://front:443", "https://front:443"),
            ("https://front/", "https://front"),
            ("https://front/clusters/root:other", "https://front"),
            ("front:6443", "https://front:6443"),
        ] {
            let address = Address::parse("https://kcp/clusters/root:dep-ctrl").unwrap().with_base(base_host).unwrap();
            assert_eq!(address.base, base);
            assert_eq!(address.url, "https://kcp/clusters/root:dep-ctrl");
            assert_eq!(address.workspace.as_deref(), Some("root:dep-ctrl"));
        }
    }

    #[test]
    fn what_is_no_server_is_refused_with_its_reason() {
        for (url, message) in [
            ("", "`` is not a URL"),
            ("kcp:6443", "`kcp:6443` is not the URL of an API server"),
            ("/clusters/root", "is not the URL of an API server"),
            ("ftp://kcp", "`ftp://kcp` is not the URL of an API server"),
            ("https://kcp/?a=b", "holds `?`"),
            ("https://kcp/#x", "holds `#`"),
            ("https://kcp/ x", "is not a URL"),
        ] {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains(message), "{url}: {error}");
        }
    }

    #[test]
    fn credentials_that_go_encrypted_never_go_in_the_clear() {
        let encrypted = Address::parse("https://kcp").unwrap();
        assert!(matches!(encrypted.same_protection("http://kcp".to_owned()), Err(UrlError::Downgrade { .. })));
        assert!(matches!(encrypted.with_base("http://kcp"), Err(UrlError::Downgrade { .. })));
        let plain = Address::parse("http://kcp").unwrap();
        assert!(plain.same_protection("http://other".to_owned()).is_ok());
    }

    #[test]
    fn a_path_is_put_under_its_base() {
        let join = |base, path| super::join(base, path).map(|uri| uri.to_string());
        assert_eq!(
            join("https://kcp/clusters/*", "/apis/a.b/v1/c?limit=500").unwrap(),
            "https://kcp/clusters/*/apis/a.b/v1/c?limit=500"
        );
        assert!(join("https://kcp", "apis").is_err());
        assert!(join("https://kcp", "").is_err());
        assert!(join("https://kcp", "/apis?fieldSelector=a#b").unwrap_err().contains("percent-encoded"));
        assert!(join("https://kcp", &format!("/{}", "x".repeat(70_000))).is_err());
    }

    proptest! {
        #[test]
        fn nothing_makes_parsing_panic(url in "\\PC{0,60}") {
            let _ = Address::parse(&url);
            let _ = join("https://kcp", &url);
        }

        #[test]
        fn a_parsed_address_parses_to_itself(host in "[a-z]{1,8}(:[1-9][0-9]{0,3})?", path in "(/[a-z:*-]{0,8}){0,4}") {
            let address = Address::parse(&format!("https://{host}{path}")).unwrap();
            prop_assert_eq!(&Address::parse(&address.url).unwrap(), &address);
            prop_assert!(address.url.starts_with(&address.base));
        }

        #[test]
        fn an_encoded_value_survives_a_query(value in "\\PC{0,40}") {
            let encoded = percent_encode(&value);
            let uri = join("https://kcp", &format!("/apis?continue={encoded}")).unwrap();
            let query = format!("continue={encoded}");
            prop_assert_eq!(uri.query(), Some(query.as_str()));
            prop_assert_eq!(decode(&encoded), value);
        }
    }

    fn decode(encoded: &str) -> String {
        let mut bytes = Vec::new();
        let mut rest = encoded.as_bytes();
        while let [first, tail @ ..] = rest {
            if *first == b'%' {
                bytes.push(u8::from_str_radix(std::str::from_utf8(&tail[..2]).unwrap(), 16).unwrap());
                rest = &tail[2..];
            } else {
                bytes.push(*first);
                rest = tail;
            }
        }
        String::from_utf8(bytes).unwrap()
    }
}
