//! [`Entrance`]: admits one browser, which has a token, and remembers it by a cookie.

use crate::assets::guarded;
use crate::origin::forbidden;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, COOKIE, HOST, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use blake3::Hash;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Name of the cookie.
const NAME: &str = "tactus";
/// What a browser loads after its token was accepted. A browser does not send the cookie with a redirect if the link with the
/// token was on a page of another site; the refresh is a request of this page.
const ADMITTED: &str = "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url=/\">\
    <title>Tactus</title><p><a href=\"/\">The page</a></p>";
/// What a browser without a cookie sees.
const CLOSED: &str = "<!doctype html><meta charset=\"utf-8\"><title>Tactus</title><p>This address admits one browser, once. \
    Run <code>tactus page</code> again, and open the address that it prints.</p>";

/// Admits one browser.
#[derive(Debug)]
pub(crate) struct Entrance {
    /// Hash of the token; `None`: a browser has used it. Hashes are compared in constant time.
    token: Mutex<Option<Hash>>,
    /// Content of the cookie.
    cookie: String,
    /// The values of `Host` that name this address. Another name may be one that a foreign page has pointed here.
    hosts: [String; 2],
}

impl Entrance {
    /// Returns an entrance at `address`, and its token.
    ///
    /// # Errors
    /// The kernel has no random numbers.
    pub(crate) fn new(address: SocketAddr) -> io::Result<(Arc<Entrance>, String)> {
        let (token, cookie) = (secret()?, secret()?);
        let hosts = [address.to_string(), format!("localhost:{}", address.port())];
        let entrance = Entrance { token: Mutex::new(Some(blake3::hash(token.as_bytes()))), cookie, hosts };
        Ok((Arc::new(entrance), token))
    }

    /// Returns whether a browser may enter with `token`. The token is used up.
    fn admits(&self, token: &str) -> bool {
        let mut expected = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = *expected == Some(blake3::hash(token.as_bytes()));
        if is_it {
            *expected = None;
        }
        is_it
    }

    fn knows(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut values = cookies.flat_map(|all| all.split("; ")).filter_map(|one| one.split_once('='));
        values
            .any(|(name, value)| name == NAME && blake3::hash(value.as_bytes()) == blake3::hash(self.cookie.as_bytes()))
    }
}

/// Returns 256 random bits as text.
fn secret() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(Hash::from_bytes(bytes).to_hex().to_string())
}

/// Answers a request of the browser that was admitted, and admits one with the token in `?token=`.
pub(crate) async fn admit(State(entrance): State<Arc<Entrance>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
    if !entrance.hosts.iter().any(|known| known == host) {
        return forbidden("the request names another host", "open the address that `tactus page` prints");
    }
    let html = (CONTENT_TYPE, "text/html; charset=utf-8".to_string());
    let token = request.uri().query().and_then(|query| query.strip_prefix("token="));
    if token.is_some_and(|token| request.uri().path() == "/" && entrance.admits(token)) {
        let cookie = format!("{NAME}={}; HttpOnly; SameSite=Strict; Path=/", entrance.cookie);
        return guarded(([html, (SET_COOKIE, cookie)], ADMITTED));
    }
    if !entrance.knows(request.headers()) {
        return guarded((StatusCode::UNAUTHORIZED, [html], CLOSED));
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_admits_once_and_the_cookie_is_another_secret() {
        let (entrance, token) = Entrance::new("127.0.0.1:80".parse().unwrap()).unwrap();
        assert!(!entrance.admits("") && !entrance.admits(&entrance.cookie));
        assert!(entrance.admits(&token) && !entrance.admits(&token));
        let with = |cookie: &str| HeaderMap::from_iter([(COOKIE, cookie.parse().unwrap())]);
        assert!(entrance.knows(&with(&format!("a=b; {NAME}={}", entrance.cookie))));
        for wrong in [format!("{NAME}={token}"), format!("other={}", entrance.cookie), NAME.to_string()] {
            assert!(!entrance.knows(&with(&wrong)), "{wrong}");
        }
        assert!(!entrance.knows(&HeaderMap::new()));
    }
}
