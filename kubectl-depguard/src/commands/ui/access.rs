//! Access to the page: secrets, and the requests that a browser would send only for its own user.

use std::sync::{Mutex, PoisonError};

use http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::io::exit::Failure;

/// Secrets of one server, and the addresses under which it is known.
pub(super) struct Access {
    /// Key of the comparison in constant time.
    key: hmac::Key,
    /// Token of the address that the terminal shows.
    token: String,
    /// Token of the address that the browser is started with: other users see the arguments of a process. Valid once.
    token_for_once: Mutex<Option<String>>,
    /// Token of the cookie, which no address ever has.
    session: String,
    /// Path of the page. Cookies know no ports: a browser sends this one to whatever port is asked for this path, and
    /// nobody else can name the path.
    path: String,
    port: u16,
}

/// Decision about a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Page,
    /// The address had the token: the browser gets a cookie, and the path that the cookie is for.
    SetCookie {
        cookie: String,
        path: String,
    },
    Refused(StatusCode, &'static str),
}

impl Access {
    pub(super) fn new(port: u16) -> Result<Self, Failure> {
        let random = SystemRandom::new();
        let failed = |_| Failure::new("the operating system gave no random numbers");
        Ok(Self {
            key: hmac::Key::generate(hmac::HMAC_SHA256, &random).map_err(failed)?,
            token: secret(&random).map_err(failed)?,
            token_for_once: Mutex::new(Some(secret(&random).map_err(failed)?)),
            session: secret(&random).map_err(failed)?,
            path: format!("/{}", secret(&random).map_err(failed)?),
            port,
        })
    }

    /// Returns the address of the page, with its token.
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token)
    }

    /// Returns an address that opens the page once.
    pub(super) fn address_for_once(&self) -> String {
        let token = self.token_for_once.lock().unwrap_or_else(PoisonError::into_inner);
        format!("http://127.0.0.1:{}/?token={}", self.port, token.as_deref().unwrap_or_default())
    }

    /// Decides about a request. Only the user's own navigation to this server gets a page.
    pub(super) fn judge<B>(&self, request: &Request<B>) -> Verdict {
        let headers = request.headers();
        if !self.is_own_host(headers) {
            return Verdict::Refused(StatusCode::MISDIRECTED_REQUEST, "this server is known as 127.0.0.1 only\n");
        }
        if !self.is_own_origin(headers) {
            return Verdict::Refused(StatusCode::FORBIDDEN, "other sites may not read this page\n");
        }
        if request.method() != Method::GET {
            return Verdict::Refused(StatusCode::METHOD_NOT_ALLOWED, "this page is read-only: GET it\n");
        }
        if request.uri().path() != "/" && !self.is_equal(request.uri().path(), &self.path) {
            return Verdict::Refused(StatusCode::NOT_FOUND, "there is one page: open the printed address\n");
        }
        if let Some(token) = token_of(request.uri()) {
            if self.takes(&token) {
                let Self { port, session, path, .. } = self;
                let cookie = format!("depguard-{port}={session}; Path={path}; HttpOnly; SameSite=Strict");
                return Verdict::SetCookie { cookie, path: path.clone() };
            }
        } else if self.has_session(headers) {
            return Verdict::Page;
        }
        Verdict::Refused(StatusCode::UNAUTHORIZED, "open the address that `kubectl depguard ui` printed\n")
    }

    /// A site whose name leads to 127.0.0.1 would send its own name.
    fn is_own_host(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let (host, more) = (hosts.next().and_then(|host| host.to_str().ok()), hosts.next());
        let own = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        more.is_none() && host.is_some_and(|host| own.iter().any(|own| own == host))
    }

    fn is_own_origin(&self, headers: &HeaderMap) -> bool {
        let own = [format!("http://127.0.0.1:{}", self.port), format!("http://localhost:{}", self.port)];
        let is_own = |origin: &http::HeaderValue| own.iter().any(|own| origin.as_bytes() == own.as_bytes());
        let sites = headers.get_all("sec-fetch-site").iter();
        headers.get_all(ORIGIN).iter().all(is_own)
            && sites.into_iter().all(|site| site == "none" || site == "same-origin")
    }

    /// Returns true for a valid token, and uses up the one that is valid once.
    fn takes(&self, token: &str) -> bool {
        if self.is_equal(token, &self.token) {
            return true;
        }
        let mut once = self.token_for_once.lock().unwrap_or_else(PoisonError::into_inner);
        let is_valid = once.as_deref().is_some_and(|once| self.is_equal(token, once));
        if is_valid {
            *once = None;
        }
        is_valid
    }

    fn has_session(&self, headers: &HeaderMap) -> bool {
        let name = format!("depguard-{}", self.port);
        let texts = |name| headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = texts(COOKIE).flat_map(|cookies| cookies.split(';'));
        let mut tokens = texts(AUTHORIZATION).filter_map(|value| value.strip_prefix("Bearer "));
        cookies.any(|cookie| {
            let (own, value) = cookie.trim().split_once('=').unwrap_or_default();
            own == name && self.is_equal(value, &self.session)
        }) || tokens.any(|token| self.is_equal(token, &self.token))
    }

    /// Compares in constant time.
    fn is_equal(&self, given: &str, own: &str) -> bool {
        hmac::verify(&self.key, given.as_bytes(), hmac::sign(&self.key, own.as_bytes()).as_ref()).is_ok()
    }
}

/// Makes a secret of 128 random bits.
fn secret(random: &SystemRandom) -> Result<String, ring::error::Unspecified> {
    let mut bytes = [0; 16];
    random.fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn token_of(uri: &Uri) -> Option<String> {
    let mut pairs = form_urlencoded::parse(uri.query()?.as_bytes());
    pairs.find(|(name, _)| name == "token").map(|(_, token)| token.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: u16 = 4711;

    fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    fn refused(verdict: &Verdict) -> Option<u16> {
        match verdict {
            Verdict::Refused(status, _) => Some(status.as_u16()),
            Verdict::Page | Verdict::SetCookie { .. } => None,
        }
    }

    #[test]
    fn only_the_users_own_navigation_gets_the_page() {
        let access = Access::new(PORT).unwrap();
        let session = format!("a=b; depguard-{PORT}={}", access.session);
        let judge = |method: &str, path: &str, headers: &[(&str, &str)]| {
            let headers = [&[("cookie", session.as_str())], headers].concat();
            refused(&access.judge(&request(method, path, &headers)))
        };
        let own = ("host", "127.0.0.1:4711");
        for (expected, method, path, headers) in [
            (None, "GET", "/", &[own][..]),
            (None, "GET", "/", &[("host", "localhost:4711")]),
            (None, "GET", "/", &[own, ("sec-fetch-site", "none")]),
            (None, "GET", "/", &[own, ("sec-fetch-site", "same-origin"), ("origin", "http://127.0.0.1:4711")]),
            // A name that leads here by DNS rebinding, another port, no name, two names.
            (Some(421), "GET", "/", &[("host", "evil.example.com")]),
            (Some(421), "GET", "/", &[("host", "127.0.0.1:4712")]),
            (Some(421), "GET", "/", &[("host", "127.0.0.1")]),
            (Some(421), "GET", "/", &[]),
            (Some(421), "GET", "/", &[own, ("host", "evil.example.com")]),
            // Another site, another server on this machine, a sandboxed frame.
            (Some(403), "GET", "/", &[own, ("sec-fetch-site", "cross-site")]),
            (Some(403), "GET", "/", &[own, ("sec-fetch-site", "same-site")]),
            (Some(403), "GET", "/", &[own, ("origin", "http://127.0.0.1:8080")]),
            (Some(403), "GET", "/", &[own, ("origin", "null")]),
            (Some(405), "POST", "/", &[own]),
            (Some(405), "OPTIONS", "/", &[own]),
            (Some(404), "GET", "/data.json", &[own]),
        ] {
            assert_eq!(judge(method, path, headers), expected, "{method} {path} {headers:?}");
        }
    }

    #[test]
    fn a_token_is_exchanged_for_a_cookie_and_no_guess_is_taken() {
        let access = Access::new(PORT).unwrap();
        let ask = |path: &str, header: (&str, &str)| {
            access.judge(&request("GET", path, &[("host", "127.0.0.1:4711"), header]))
        };
        let none = ("accept", "text/html");
        let path = |address: &str| address.strip_prefix("http://127.0.0.1:4711").unwrap().to_owned();
        let Verdict::SetCookie { cookie, path: page } = ask(&path(&access.address()), none) else {
            panic!("no cookie")
        };
        assert!(cookie.ends_with(&format!("; Path={page}; HttpOnly; SameSite=Strict")), "{cookie}");
        assert_eq!(page.len(), 33, "whoever could guess the path would get the cookie at another port");
        for shown in [&access.token, access.token_for_once.lock().unwrap().as_ref().unwrap(), &access.session] {
            assert!(!page.contains(shown), "the path is another secret: {page}");
        }
        assert!(!cookie.contains(&access.token), "the cookie is another secret: {cookie}");
        let (cookie, _) = cookie.split_once(';').unwrap();
        assert_eq!(ask(&page, ("cookie", cookie)), Verdict::Page);
        assert_eq!(ask("/", ("authorization", &format!("Bearer {}", access.token))), Verdict::Page);
        assert_eq!(access.token.len(), 32);

        let other = Access::new(PORT).unwrap();
        for (path, header) in [
            ("/".to_owned(), none),
            ("/?token=".to_owned(), none),
            (format!("/?token={}", other.token), none),
            (format!("/?token={}", &access.token[..31]), none),
            // The session is no token, and a wrong token is not made good by a cookie.
            (format!("/?token={}", access.session), none),
            ("/?token=0".to_owned(), ("cookie", cookie)),
            (page.clone(), none),
            (page.clone(), ("cookie", "depguard-4711=")),
            (page.clone(), ("cookie", &format!("depguard-4711={}", other.session))),
            ("/".to_owned(), ("authorization", "Bearer 0")),
        ] {
            assert_eq!(refused(&ask(&path, header)), Some(401), "{path} {header:?}");
        }
    }

    #[test]
    fn the_address_of_the_browsers_process_is_good_for_one_page() {
        let access = Access::new(PORT).unwrap();
        let path = access.address_for_once().strip_prefix("http://127.0.0.1:4711").unwrap().to_owned();
        let ask = || access.judge(&request("GET", &path, &[("host", "127.0.0.1:4711")]));
        assert!(matches!(ask(), Verdict::SetCookie { .. }));
        assert_eq!(refused(&ask()), Some(401));
    }
}
