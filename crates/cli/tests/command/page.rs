//! The page: `tactus page` with curl as the browser, and the page of a service for browsers with certificates. The service has
//! no core.

use super::Place;
use super::remote::{FakeVm, Service};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use sys::process::Process;

/// A page for a browser on this host.
struct Page {
    process: Child,
    /// URL without the token.
    base: String,
    token: String,
}

impl Page {
    fn begin(place: &Place) -> Page {
        let mut command = place.command(&["page", "--socket", "api.sock"]);
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        let (base, token) = url.trim().split_once("/?token=").unwrap_or_else(|| panic!("it printed {url}"));
        Page { process, base: base.to_string(), token: token.to_string() }
    }

    /// Returns the head and the body of the reply to curl's request.
    fn curl(&self, args: &[&str], path: &str) -> (String, String) {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--include", "--max-time", "20"]).args(args);
        let done = command.arg(format!("{}{path}", self.base)).output().expect("curl is missing");
        let text = String::from_utf8(done.stdout).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{path}: {text}"));
        (head.to_ascii_lowercase(), body.to_string())
    }

    /// Enters with the token. Returns the cookie.
    fn enter(&self) -> String {
        let (head, body) = self.curl(&[], &format!("/?token={}", self.token));
        assert!(head.starts_with("http/1.1 200") && body.contains("url=/"), "{head}{body}");
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("there is a cookie");
        let (value, rest) = cookie.split_once(';').unwrap();
        assert!(rest.contains("httponly") && rest.contains("samesite=strict"), "{cookie}");
        value.to_string()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_token_admits_one_browser_once_and_other_pages_get_nothing() {
    let service = Service::begin();
    let page = Page::begin(&service.place);
    let status = |args: &[&str], path: &str| page.curl(args, path).0[9..12].to_string();
    assert_eq!(["/", "/v1/vms", "/?token=0"].map(|path| status(&[], path)), ["401"; 3]);
    let cookie = page.enter();
    let cookie = ["--cookie", &cookie];
    let with = |more: &[&'static str], path: &str| status(&[&cookie[..], more].concat(), path);
    // The token is used up, and the cookie is of no use without the right host and origin.
    assert_eq!(status(&[], &format!("/?token={}", page.token)), "401");
    assert_eq!((with(&[], "/"), with(&[], "/v1/vms")), ("200".into(), "200".into()));
    assert_eq!(with(&["--header", "Host: rebound.example"], "/v1/vms"), "403");
    let put = ["--request", "PUT", "--header", "Content-Type: application/json", "--data", "{}"];
    let foreign = [&put[..], &["--header", "Origin: http://other.example"]].concat();
    assert_eq!(with(&foreign, "/v1/vms/a/desired"), "403");
    assert_eq!(with(&["--header", "Sec-Fetch-Site: cross-site"], "/v1/vms"), "403");
    let (head, _) = page.curl(&cookie, "/");
    let limits = head.lines().find_map(|line| line.strip_prefix("content-security-policy: ")).unwrap();
    assert!(limits.contains("default-src 'none'") && !limits.contains("unsafe-inline"), "{limits}");
}

#[test]
fn a_page_has_the_rights_of_its_user_and_follows_the_service() {
    let service = Service::begin();
    let vm = FakeVm::start("page-vm");
    let mut page = Page::begin(&service.place);
    let cookie = page.enter();
    let cookie = ["--cookie", &cookie];
    let (_, caller) = page.curl(&cookie, "/v1/caller");
    let caller: Value = serde_json::from_str(&caller).unwrap();
    assert_eq!(caller["name"], format!("uid:{}", sys::privileges::user()));
    let origin = format!("Origin: {}", page.base);
    let json = ["--header", "Content-Type: application/json", "--header", &origin];
    let set = [&cookie[..], &json, &["--request", "PUT", "--data", r#"{"weight": 200}"#]].concat();
    super::remote::until(|| page.curl(&set, "/v1/vms/page-vm/desired").0.starts_with("http/1.1 200"));
    // A stream passes through while it goes on.
    let stream = [&cookie[..], &["--no-buffer", "--max-time", "2"]].concat();
    let (head, live) = page.curl(&stream, "/v1/live?interval_ms=100");
    assert!(head.contains("text/event-stream"), "{head}");
    let first = live.lines().skip_while(|line| *line != "event: vms").nth(1).unwrap_or_else(|| panic!("{live}"));
    let first: Value = serde_json::from_str(first.strip_prefix("data: ").unwrap()).unwrap();
    let weights: Vec<&Value> = first["vms"].as_array().unwrap().iter().map(|vm| &vm["desired"]["weight"]).collect();
    assert!(weights.contains(&&200.into()), "{first}");
    assert!(live.contains("event: usage"), "{live}");
    drop((service, vm));
    let (head, body) = page.curl(&cookie, "/v1/vms");
    assert!(head.starts_with("http/1.1 502") && body.contains("tactus serve"), "{head}{body}");
    Process::open(page.process.id()).unwrap().terminate().unwrap();
    assert_eq!(page.process.wait().unwrap().code(), Some(130));
}

#[test]
fn a_browser_with_a_certificate_loads_the_page_from_the_service() {
    let service = Service::begin();
    let password = &service.passwords["view"];
    let file = service.place.0.path().join("view/client.p12");
    let authority = service.place.0.path().join("view/authority.pem");
    let certificate = format!("{}:{password}", file.display());
    let curl = |more: &[&str], path: &str| {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--include", "--cert-type", "P12", "--cert", &certificate]);
        command.arg("--cacert").arg(&authority).args(more);
        let done = command.arg(format!("https://{}{path}", service.address)).output().expect("curl is missing");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).to_ascii_lowercase()
    };
    let page = curl(&[], "/");
    assert!(page.starts_with("http/1.1 200") && page.contains("content-security-policy"), "{page}");
    assert!(curl(&[], "/v1/caller").contains("\"cert:view\""));
    // The browser sends the certificate with requests of any page.
    assert!(curl(&["--header", "Origin: https://other.example"], "/v1/vms").starts_with("http/1.1 403"));
    assert!(curl(&["--header", "Sec-Fetch-Site: cross-site"], "/v1/timeline").starts_with("http/1.1 403"));
}
