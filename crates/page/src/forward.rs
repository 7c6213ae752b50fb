//! [`forward`]: passes a request on to the Unix socket of the service.

use api::{PROBLEM, Problem};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, CONTENT_TYPE, COOKIE};
use axum::http::{StatusCode, Version};
use axum::response::{IntoResponse, Response};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::UnixStream;

/// Answers a request with the reply of the service.
pub(crate) async fn forward(State(socket): State<Arc<PathBuf>>, request: Request) -> Response {
    match reply(&socket, request).await {
        Ok(reply) => reply,
        Err(why) => {
            let detail = format!("cannot reach the service at {}: {why}", socket.display());
            let problem = Problem::new(502, "Bad Gateway", detail, "start `tactus serve`");
            let body = serde_json::to_string(&problem).expect("a problem is JSON");
            (StatusCode::BAD_GATEWAY, [(CONTENT_TYPE, PROBLEM)], body).into_response()
        }
    }
}

/// Sends a request over a connection of its own. The body of the reply may be a stream.
async fn reply(socket: &Path, mut request: Request) -> Result<Response, Box<dyn std::error::Error + Send + Sync>> {
    let stream = UnixStream::connect(socket).await?;
    let (mut sender, connection) = http1::handshake::<_, Body>(TokioIo::new(stream)).await?;
    // The connection ends with the reply.
    tokio::spawn(connection);
    for name in [CONNECTION, COOKIE] {
        request.headers_mut().remove(name);
    }
    *request.version_mut() = Version::HTTP_11;
    let mut reply = sender.send_request(request).await?;
    reply.headers_mut().remove(CONNECTION);
    Ok(reply.map(Body::new))
}
