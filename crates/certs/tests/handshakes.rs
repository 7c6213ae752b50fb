//! Connections between a service and clients with certificates of various authorities.

use certs::{Authority, Error, Holder, Role, ServerTls, client};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ConnectionCommon, ServerConnection};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// An authority for `host.example`, with the directory of a client.
struct Scene {
    place: TempDir,
    authority: Authority,
}

impl Scene {
    fn new() -> Scene {
        let place = tempfile::tempdir().unwrap();
        let hosts = ["host.example".to_string(), "192.0.2.1".to_string()];
        let authority = Authority::init(&place.path().join("service"), &hosts, 30).unwrap();
        Scene { place, authority }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.place.path().join(name)
    }

    fn issue(&self, name: &str, role: Role) -> Result<certs::Issued, Error> {
        self.authority.issue(name, role, 30, &self.path(name)).map(|(issued, _)| issued)
    }

    fn service(&self) -> ServerTls {
        ServerTls::open(&self.path("service")).unwrap()
    }
}

/// Moves bytes from one side to the other. Returns whether there were any.
fn pass<A, B>(from: &mut ConnectionCommon<A>, to: &mut ConnectionCommon<B>) -> Result<bool, rustls::Error> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        to.read_tls(&mut rest).unwrap();
        to.process_new_packets()?;
    }
    Ok(!bytes.is_empty())
}

/// Connects to `host` with the certificates in the directory `of_client`. Returns the client as the service sees it.
fn connect(service: &ServerTls, of_client: &Path, host: &str) -> Result<Holder, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let config = client(of_client).map_err(|error| text(&error))?;
    let name = ServerName::try_from(host.to_string()).unwrap();
    let mut ours = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut theirs = ServerConnection::new(service.config().map_err(|error| text(&error))?).unwrap();
    let to_service = |it: rustls::Error| format!("the service refuses: {it}");
    let to_client = |it: rustls::Error| format!("the client refuses: {it}");
    while pass(&mut ours, &mut theirs).map_err(to_service)? | pass(&mut theirs, &mut ours).map_err(to_client)? {}
    assert!(!theirs.is_handshaking());
    assert_eq!(theirs.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    Holder::of(&theirs.peer_certificates().unwrap()[0]).map_err(|error| text(&error))
}

#[test]
fn a_client_is_known_by_name_and_role() {
    let scene = Scene::new();
    for (name, role) in [("alice", Role::Admin), ("bob@ops", Role::Operate), ("7.monitor", Role::View)] {
        let issued = scene.issue(name, role).unwrap();
        assert_eq!(issued.holder, Holder { name: name.into(), role });
        for host in ["host.example", "192.0.2.1"] {
            assert_eq!(connect(&scene.service(), &scene.path(name), host).unwrap(), issued.holder);
        }
    }
    assert!(Role::View < Role::Operate && Role::Operate < Role::Admin);
}

#[test]
fn a_service_with_another_name_or_authority_is_refused_by_the_client() {
    let (scene, other) = (Scene::new(), Scene::new());
    scene.issue("alice", Role::Admin).unwrap();
    let wrong = connect(&scene.service(), &scene.path("alice"), "other.example").unwrap_err();
    assert!(wrong.starts_with("the client refuses") && wrong.contains("other.example"), "{wrong}");
    let foreign = connect(&other.service(), &scene.path("alice"), "host.example").unwrap_err();
    assert!(foreign.starts_with("the client refuses") && foreign.contains("BadSignature"), "{foreign}");
}

#[test]
fn a_client_of_another_authority_or_with_a_certificate_of_a_service_is_refused() {
    let (scene, other) = (Scene::new(), Scene::new());
    other.issue("mallory", Role::Admin).unwrap();
    // The client trusts the service, so the refusal is the service's.
    fs::copy(scene.path("service/authority.pem"), other.path("mallory/authority.pem")).unwrap();
    let foreign = connect(&scene.service(), &other.path("mallory"), "host.example").unwrap_err();
    assert!(foreign.starts_with("the service refuses"), "{foreign}");
    for (from, to) in [("server.pem", "client.pem"), ("server.key", "client.key")] {
        fs::copy(scene.path("service").join(from), other.path("mallory").join(to)).unwrap();
    }
    let of_service = connect(&scene.service(), &other.path("mallory"), "host.example").unwrap_err();
    assert!(
        of_service.starts_with("the service refuses") && of_service.contains("client authentication"),
        "{of_service}"
    );
}

#[test]
fn a_revoked_certificate_is_refused_without_a_restart() {
    let scene = Scene::new();
    scene.issue("alice", Role::Admin).unwrap();
    scene.issue("bob", Role::View).unwrap();
    let service = scene.service();
    connect(&service, &scene.path("alice"), "host.example").unwrap();
    assert!(matches!(scene.issue("alice", Role::View), Err(Error::HasOne(_))));
    assert_eq!(scene.authority.revoke("alice").unwrap(), 1);
    let revoked = connect(&service, &scene.path("alice"), "host.example").unwrap_err();
    assert!(revoked.contains("Revoked"), "{revoked}");
    connect(&service, &scene.path("bob"), "host.example").unwrap();
    // A new certificate of the same client is another one.
    let (issued, _) = scene.authority.issue("alice", Role::View, 30, &scene.path("alice-again")).unwrap();
    assert_eq!(connect(&service, &scene.path("alice-again"), "host.example").unwrap(), issued.holder);
    let states: Vec<_> = scene.authority.issued().unwrap().iter().map(|it| it.is_revoked).collect();
    assert_eq!(states, [true, false, false]);
    assert!(matches!(scene.authority.revoke("carol"), Err(Error::Unknown(_))));
    // While the list cannot be read, all clients are refused.
    fs::write(scene.path("service/revoked.pem"), "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n").unwrap();
    assert!(service.config().is_err());
    fs::write(scene.path("service/revoked.pem"), "").unwrap();
    assert!(service.config().is_err() && scene.authority.revoke("bob").is_err(), "an empty file is no list");
    fs::remove_file(scene.path("service/revoked.pem")).unwrap();
    assert!(service.config().is_err() && ServerTls::open(&scene.path("service")).is_err());
}

#[test]
fn an_expired_certificate_is_refused() {
    let scene = Scene::new();
    scene.authority.issue("alice", Role::Admin, 0, &scene.path("alice")).unwrap();
    // The end of the validity has whole seconds.
    let begin = jiff::Timestamp::now();
    while jiff::Timestamp::now().as_second() <= begin.as_second() + 1 {
        std::thread::yield_now();
    }
    let expired = connect(&scene.service(), &scene.path("alice"), "host.example").unwrap_err();
    assert!(expired.contains("xpired"), "{expired}");
}

#[test]
fn what_exists_is_kept_and_keys_are_private() {
    let scene = Scene::new();
    let key = scene.path("service/authority.key");
    let before = fs::read(&key).unwrap();
    let again = Authority::init(&scene.path("service"), &["other.example".to_string()], 30).unwrap_err();
    assert!(matches!(again, Error::Exists(_)) && !again.remedy().is_empty());
    assert_eq!(fs::read(&key).unwrap(), before);
    scene.issue("alice", Role::View).unwrap();
    for path in ["service/authority.key", "service/server.key", "alice/client.key"] {
        assert_eq!(fs::metadata(scene.path(path)).unwrap().permissions().mode() & 0o777, 0o600, "{path}");
    }
    for wrong in ["", "../alice", ".hidden", "a b", &"x".repeat(65)] {
        assert!(matches!(scene.issue(wrong, Role::View), Err(Error::Name(_))), "{wrong}");
    }
    assert!(matches!(scene.authority.issue("bob", Role::View, 1, &scene.path("alice")), Err(Error::Exists(_))));
    let wrong = scene.authority.issue_to_service(&["a b".to_string()], 1).unwrap_err();
    assert!(matches!(wrong, Error::HostName(_)));
    let missing = Authority::open(&scene.path("nowhere")).unwrap_err();
    assert!(matches!(missing, Error::File { ref error, .. } if error.kind() == ErrorKind::NotFound));
}
