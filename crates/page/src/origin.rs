//! [`same_origin`]: refuses requests that pages of other origins make with the certificate or the cookie of a browser.

use api::{PROBLEM, Problem};
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Answers a request if no page of another origin makes it. Programs send neither `Origin` nor `Sec-Fetch-Site`, and are
/// answered.
pub async fn same_origin(request: Request, next: Next) -> Response {
    if is_foreign(request.method(), request.uri().path(), request.headers()) {
        return forbidden("the request comes from a page of another origin", "use the page of the service");
    }
    next.run(request).await
}

/// Returns the reply 403 with a reason and a remedy.
pub(crate) fn forbidden(reason: &str, remedy: &str) -> Response {
    let problem = Problem::new(403, "Forbidden", reason, remedy);
    let body = serde_json::to_string(&problem).expect("a problem is JSON");
    (StatusCode::FORBIDDEN, [(CONTENT_TYPE, PROBLEM)], body).into_response()
}

fn is_foreign(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    // A link to the page itself may be followed from anywhere.
    let is_link = *method == Method::GET && path == "/" && text("sec-fetch-mode") == Some("navigate");
    let is_of_site = text("sec-fetch-site").is_none_or(|site| matches!(site, "same-origin" | "none"));
    let host = text(HOST.as_str()).unwrap_or("");
    let is_of_host = text(ORIGIN.as_str())
        .is_none_or(|origin| origin.split_once("://").is_some_and(|(_, authority)| authority == host));
    !(is_link || is_of_site) || !is_of_host
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(method: &Method, path: &str, headers: &[(&'static str, &'static str)]) -> bool {
        let named = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        is_foreign(method, path, &named.collect())
    }

    #[test]
    fn requests_of_other_origins_are_refused() {
        let (get, put) = (Method::GET, Method::PUT);
        for (method, path, headers) in [
            (&put, "/v1/vms/a/desired", &[][..]),
            (
                &put,
                "/v1/vms/a/desired",
                &[("host", "h:1"), ("origin", "https://h:1"), ("sec-fetch-site", "same-origin")],
            ),
            (&get, "/v1/vms", &[("sec-fetch-site", "none")]),
            (&get, "/", &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]),
        ] {
            assert!(!is_refused(method, path, headers), "{path} {headers:?}");
        }
        for (method, path, headers) in [
            (&put, "/v1/vms/a/desired", &[("host", "h:1"), ("origin", "https://h:2")][..]),
            (&put, "/v1/vms/a/desired", &[("host", "h:1"), ("origin", "null")]),
            (&put, "/v1/vms/a/desired", &[("origin", "https://h")]),
            (&get, "/v1/vms", &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]),
            (&get, "/v1/timeline", &[("sec-fetch-site", "same-site")]),
            (&get, "/", &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")]),
            (&Method::DELETE, "/", &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]),
        ] {
            assert!(is_refused(method, path, headers), "{path} {headers:?}");
        }
    }
}
