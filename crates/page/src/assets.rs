//! [`router`]: the files of the page.
//!
//! `cargo xtask page` makes the files from the sources in `web/`. The simulator is missing in a program that was built without
//! it; the page then has no preview.

use axum::Router;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rust_embed::{EmbeddedFile, RustEmbed};
use std::fmt::Write;

/// What the page may load: its own files, and pictures that it draws itself. `wasm-unsafe-eval` permits to compile
/// WebAssembly, and no script.
const MAY_LOAD: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; \
    img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The headers of every file.
const HEADERS: [(HeaderName, &str); 5] = [
    (CONTENT_SECURITY_POLICY, MAY_LOAD),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    // The browser asks for each file whether it has changed, because an upgrade of the service changes them all.
    (CACHE_CONTROL, "no-cache"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];
/// End of the name of a file that is sent as it is, compressed.
const COMPRESSED: &str = ".gz";

#[derive(RustEmbed, Debug)]
#[folder = "assets"]
struct Files;

/// Returns the routes of the files: `/` for `index.html`, and `/NAME` for each other file.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Files::iter().fold(Router::new(), |router, name| {
        let path = name.strip_suffix(COMPRESSED).unwrap_or(&name);
        let path = if path == "index.html" { String::new() } else { path.to_string() };
        router.route(&format!("/{path}"), get(move |headers: HeaderMap| async move { response(&name, &headers) }))
    })
}

/// Adds the headers of every file.
pub(crate) fn guarded(response: impl IntoResponse) -> Response {
    let mut response = response.into_response();
    let headers = HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(headers);
    response
}

fn response(name: &str, headers: &HeaderMap) -> Response {
    let file = Files::get(name).expect("the routes are those of the files");
    let tag = tag(&file);
    let has_it = headers.get_all(IF_NONE_MATCH).iter().any(|known| known.as_bytes() == tag.as_bytes());
    let tag = [(ETAG, tag)];
    if has_it {
        return guarded((StatusCode::NOT_MODIFIED, tag));
    }
    let content = ([(CONTENT_TYPE, kind(name))], file.data);
    if name.ends_with(COMPRESSED) {
        return guarded((tag, [(CONTENT_ENCODING, "gzip")], content));
    }
    guarded((tag, content))
}

/// Returns the tag of a file: the hash of its content.
fn tag(file: &EmbeddedFile) -> String {
    let mut tag = String::from("\"");
    for byte in file.metadata.sha256_hash() {
        write!(tag, "{byte:02x}").expect("text can be written to");
    }
    tag + "\""
}

/// Returns the media type of a file.
fn kind(name: &str) -> &'static str {
    let name = name.strip_suffix(COMPRESSED).unwrap_or(name);
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("wasm") => "application/wasm",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_type_its_tag_and_the_headers_that_limit_it() {
        let page = response("index.html", &HeaderMap::new());
        assert_eq!(page.status(), StatusCode::OK);
        assert_eq!(page.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
        let allowed = page.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(allowed.starts_with("default-src 'none'") && !allowed.contains("unsafe-inline"), "{allowed}");
        let known = HeaderMap::from_iter([(IF_NONE_MATCH, page.headers()[ETAG].clone())]);
        let again = response("index.html", &known);
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(again.headers()[CONTENT_SECURITY_POLICY], allowed);
        assert_eq!(["a.js", "b.css", "c.wasm.gz"].map(kind)[2], "application/wasm");
    }
}
