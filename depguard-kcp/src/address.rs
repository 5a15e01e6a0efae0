//! URLs of API servers, taken apart and put together: pure.

use http::Uri;

/// Where a kubeconfig points, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// The whole, without a slash at its end: `https://kcp.example.com:6443/clusters/root:dep-ctrl`.
    pub(crate) url: String,
    /// What stands before `/clusters/…`: `https://kcp.example.com:6443`.
    pub(crate) base: String,
    /// The workspace after `/clusters/`, by path or by logical cluster: `root:dep-ctrl`.
    pub(crate) workspace: Option<String>,
}

/// Why a URL was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// Not a URL at all.
    #[error("`{url}` is not a URL: {why}")]
    Malformed {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// Something else than HTTP, or no host.
    #[error("`{url}` is not the URL of an API server: write `https://host:port`, with a path where it has one")]
    NotHttp {
        /// What was given.
        url: String,
    },
    /// It holds a query or a fragment.
    #[error("`{url}` holds `{found}`: leave out what comes from there on")]
    Trailing {
        /// What was given.
        url: String,
        /// The character that begins the part that can't be.
        found: char,
    },
    /// Credentials would go out unencrypted.
    #[error("`{url}` is not encrypted, while the kubeconfig's server is: credentials are not sent there")]
    Downgrade {
        /// What was given.
        url: String,
    },
}

impl Address {
    /// Takes apart a server's URL as kubeconfigs hold it.
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

    /// Replaces the base by what the operator gave, which may leave out the scheme as client-go's host may.
    pub(crate) fn with_base(mut self, base_host: &str) -> Result<Self, UrlError> {
        let given = if base_host.contains("://") { base_host.to_owned() } else { format!("https://{base_host}") };
        let base = Self::parse(&given)?.base;
        self.base = self.same_protection(base)?;
        Ok(self)
    }

    /// Lets `url` pass unless it would send credentials in the clear that so far go encrypted.
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

/// Puts a path and query under a base that has no slash at its end.
///
/// A `#` is refused: [`Uri`] would silently drop it and all behind it, and so ask for more than was meant.
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
    use depguard_core::percent_encode;
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
