//! The REST interface: paths, replies and the OpenAPI description.

use crate::caller::Caller;
use crate::events::Events;
use crate::live::{self, Reader};
use crate::managed_host::{ChangeRequest, Reading};
use crate::metrics;
use crate::observation;
use crate::requests::{Ask, Requests};
use api::{
    Cpus, DEMAND_MS, Demand, Desired, Event, History, Host, KEY, LENGTH_MS, LiveVms, Observation, PROBLEM, Problem,
    TIMELINE_MS, ThreadUsages, Timeline, Usages, Vm, Vms, WHY,
};
use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{ConnectInfo, DefaultBodyLimit, FromRequest, Path, Query, Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::from_fn;
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode;
use sched::Nanos;
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Maximum length of a request. Unit: bytes.
const BODY_MOST: usize = 64 * 1024;
/// Maximum length of the name of a VM in a request. Unit: bytes.
const NAME_MOST: usize = 256;
/// Maximum length of an idempotency key. Unit: bytes.
const KEY_MOST: usize = 128;
/// Number of characters of the reason for a change that the audit log keeps.
const WHY_MOST: usize = 256;
/// Maximum time for the body of a request.
const BODY_TIME: Duration = Duration::from_secs(10);
/// Number of events that wait for a slow reader before the service stops reading for it.
const WAITING_MOST: usize = 64;

/// Number of observations at a time: each has a thread, and a buffer for each CPU.
const OBSERVATIONS_MOST: usize = 4;
/// Number of live streams at a time: each reads all VMs in every interval.
const LIVE_MOST: usize = 16;
/// Range of the start of a history, as the description has it. Unit: ms.
const SINCE_MS: RangeInclusive<u64> = 0..=i64::MAX.cast_unsigned();
/// Range of the interval of a live stream. Unit: ms.
const LIVE_MS: RangeInclusive<u64> = 100..=10_000;

/// What every request needs.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    requests: Requests,
    events: Arc<Events>,
    /// Limits the number of observations and timelines at a time.
    observing: Arc<Semaphore>,
    /// Limits the number of live streams at a time.
    following: Arc<Semaphore>,
}

impl Shared {
    pub(crate) fn new(requests: Requests, events: Arc<Events>) -> Shared {
        let [observing, following] = [OBSERVATIONS_MOST, LIVE_MOST].map(|most| Arc::new(Semaphore::new(most)));
        Shared { requests, events, observing, following }
    }
}

#[derive(OpenApi)]
#[openapi(
    info(title = "Tactus", description = "CPU time for virtual machines: promises, shares and their state"),
    components(schemas(Event, LiveVms, Problem))
)]
struct Description;

/// Returns the routes of the service.
pub(crate) fn router(shared: Shared) -> axum::Router {
    let (router, description) = OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(host))
        .routes(routes!(caller))
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(usages))
        .routes(routes!(usage_of_threads))
        .routes(routes!(observation))
        .routes(routes!(set, unset))
        .routes(routes!(cpus))
        .routes(routes!(timeline))
        .routes(routes!(demand))
        .routes(routes!(history))
        .routes(routes!(live))
        .routes(routes!(events))
        .routes(routes!(metrics))
        .split_for_parts();
    let description = Arc::new(description);
    router
        .route("/openapi.json", axum::routing::get(move || async move { Json((*description).clone()) }))
        .merge(page::assets::router())
        .fallback(missing)
        .method_not_allowed_fallback(not_allowed)
        .layer(DefaultBodyLimit::max(BODY_MOST))
        .layer(from_fn(page::origin::same_origin))
        .with_state(shared)
}

/// How a change is made.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct How {
    /// Whether nothing is changed, and the reply is that of a change.
    #[serde(default)]
    dry_run: bool,
}

fn query(how: Result<Query<How>, QueryRejection>) -> Result<How, Problem> {
    let wrong = |rejection: QueryRejection| {
        Problem::new(400, "Bad Request", rejection.body_text(), "use `?dry-run=true`, or no query")
    };
    how.map(|Query(how)| how).map_err(wrong)
}

/// A problem as a reply.
struct Refused(Problem);

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Refused {
        Refused(problem)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, [(CONTENT_TYPE, PROBLEM)], Json(self.0)).into_response()
    }
}

async fn missing() -> Refused {
    Refused(Problem::new(404, "Not Found", "there is no such path", "use a path of /openapi.json"))
}

async fn not_allowed() -> Refused {
    Refused(Problem::new(405, "Method Not Allowed", "the path has no such method", "use a method of /openapi.json"))
}

/// The host of the service
#[utoipa::path(get, path = "/v1/host", responses((status = 200, body = Host),
    (status = 503, body = Problem, content_type = "application/problem+json")))]
async fn host(State(shared): State<Shared>) -> Result<Json<Host>, Refused> {
    Ok(Json(shared.requests.ask(Ask::Host).await?))
}

/// The client that makes the request
#[utoipa::path(get, path = "/v1/caller", responses((status = 200, body = api::Caller)))]
async fn caller(ConnectInfo(caller): ConnectInfo<Caller>) -> Json<api::Caller> {
    let role = caller.role().map_or("own", certs::Role::word);
    Json(api::Caller { name: caller.to_string(), role: role.to_string() })
}

/// All VMs, by name
#[utoipa::path(get, path = "/v1/vms", responses((status = 200, body = Vms),
    (status = 503, body = Problem, content_type = "application/problem+json")))]
async fn list(State(shared): State<Shared>) -> Result<Json<Vms>, Refused> {
    Ok(Json(Vms { vms: shared.requests.ask(Ask::List).await? }))
}

/// The VM with an id or a name, or the process `pid:NUMBER`
#[utoipa::path(get, path = "/v1/vms/{vm}", params(("vm" = String, Path)),
    responses((status = 200, body = Vm), (status = 404, body = Problem, content_type = "application/problem+json"),
        (status = 409, body = Problem, content_type = "application/problem+json"), (status = 503, body = Problem, content_type = "application/problem+json")))]
async fn show(State(shared): State<Shared>, Path(vm): Path<String>) -> Result<Response, Refused> {
    let vm = shared.requests.ask(|reply| Ask::Show(vm, reply)).await??;
    Ok(tagged(vm))
}

/// The CPU time of all VMs that run
#[utoipa::path(get, path = "/v1/usage", responses((status = 200, body = Usages),
    (status = 500, body = Problem, content_type = "application/problem+json"),
    (status = 503, body = Problem, content_type = "application/problem+json")))]
async fn usages(State(shared): State<Shared>) -> Result<Json<Usages>, Refused> {
    Ok(Json(shared.requests.ask(Ask::Usages).await?.wait().await?))
}

/// The CPU time of each thread of a VM
#[utoipa::path(get, path = "/v1/vms/{vm}/usage", params(("vm" = String, Path)),
    responses((status = 200, body = ThreadUsages), (status = 404, body = Problem, content_type = "application/problem+json"),
        (status = 409, body = Problem, content_type = "application/problem+json"), (status = 500, body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, content_type = "application/problem+json")))]
async fn usage_of_threads(State(shared): State<Shared>, Path(vm): Path<String>) -> Result<Json<ThreadUsages>, Refused> {
    let vm = Box::new(shared.requests.ask(|reply| Ask::Show(vm, reply)).await??);
    Ok(Json(shared.requests.ask(|reply| Ask::ThreadUsages(vm, reply)).await?.wait().await?))
}

/// How a VM is observed.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Observe {
    /// Length of the observation. Unit: ms.
    #[serde(default = "second")]
    length_ms: u64,
}

fn second() -> u64 {
    1_000
}

/// What the threads of a VM do for some time, and what runs instead of them
///
/// The reply comes after this time. The context switches of the host are recorded meanwhile, which needs CAP_PERFMON.
#[utoipa::path(get, path = "/v1/vms/{vm}/observation",
    params(("vm" = String, Path), ("length_ms" = Option<u64>, Query, minimum = 10, maximum = 30_000)),
    responses((status = 200, body = Observation), (status = 400, body = Problem, content_type = "application/problem+json"),
        (status = 404, body = Problem, content_type = "application/problem+json"),
        (status = 409, body = Problem, content_type = "application/problem+json"), (status = 500, body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, content_type = "application/problem+json")))]
async fn observation(
    State(shared): State<Shared>,
    Path(vm): Path<String>,
    how: Result<Query<Observe>, QueryRejection>,
) -> Result<Json<Observation>, Refused> {
    let length = Nanos::ms(within(how.map(|Query(how)| how.length_ms), &LENGTH_MS, "length_ms")?);
    let vm = shared.requests.ask(|reply| Ask::Show(vm, reply)).await??;
    let absent = || Problem::new(409, "Conflict", format!("{} does not run", vm.name), "start it");
    let process = vm.process.ok_or_else(absent)?;
    let permit = room(&shared.observing, "too many clients observe VMs")?;
    let id = vm.id.clone();
    let before = shared.requests.ask(|reply| Ask::PerCpu(id.clone(), reply)).await?;
    let reading = shared.requests.ask(|reply| Ask::Observe(Box::new(vm), process, length, reply)).await?;
    let mut observed = whole(reading, permit).await?;
    let after = shared.requests.ask(|reply| Ask::PerCpu(id, reply)).await?;
    observed.promise = observation::between(&before, &after);
    Ok(Json(observed))
}

/// Returns the right to an activity whose number is limited.
fn room(limit: &Arc<Semaphore>, what: &str) -> Result<OwnedSemaphorePermit, Problem> {
    let busy = |_| Problem::new(503, "Service Unavailable", what, "repeat the request later");
    Arc::clone(limit).try_acquire_owned().map_err(busy)
}

/// The CPUs of the host, and what is promised of each
#[utoipa::path(get, path = "/v1/cpus", responses((status = 200, body = Cpus),
    (status = 503, body = Problem, content_type = "application/problem+json")))]
async fn cpus(State(shared): State<Shared>) -> Result<Json<Cpus>, Refused> {
    Ok(Json(shared.requests.ask(Ask::Cpus).await?))
}

/// Waits for a reading, which goes on and keeps its permit if the client leaves.
async fn whole<T: Send + 'static>(reading: Reading<T>, permit: OwnedSemaphorePermit) -> Result<T, Problem> {
    let read = async move {
        let _permit = permit;
        reading.wait().await
    };
    let failed = |_| Problem::new(500, "Internal Server Error", "a reading has failed", "report this");
    tokio::spawn(read).await.map_err(failed)?
}

/// How a timeline is recorded.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Record {
    /// Length of the timeline. Unit: ms.
    #[serde(default = "fifth")]
    length_ms: u64,
}

fn fifth() -> u64 {
    200
}

/// Which thread runs on each CPU for some time
///
/// The reply comes after this time. The context switches of the host are recorded meanwhile, which needs CAP_PERFMON.
#[utoipa::path(get, path = "/v1/timeline", params(("length_ms" = Option<u64>, Query, minimum = 20, maximum = 1_000)),
    responses((status = 200, body = Timeline), (status = 400, body = Problem, content_type = "application/problem+json"),
        (status = 500, body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, content_type = "application/problem+json")))]
async fn timeline(
    State(shared): State<Shared>,
    how: Result<Query<Record>, QueryRejection>,
) -> Result<Json<Timeline>, Refused> {
    let length = within(how.map(|Query(how)| how.length_ms), &TIMELINE_MS, "length_ms")?;
    let permit = room(&shared.observing, "too many clients observe VMs")?;
    let reading = shared.requests.ask(|reply| Ask::Timeline(Nanos::ms(length), reply)).await?;
    Ok(Json(whole(reading, permit).await?))
}

/// How the demand is observed.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct ObserveDemand {
    /// Length of the observation. Unit: ms.
    #[serde(default = "second")]
    length_ms: u64,
}

/// The bursts of the threads of all VMs
///
/// The reply comes after the requested time. The context switches of the host are recorded meanwhile, which needs CAP_PERFMON.
#[utoipa::path(get, path = "/v1/demand", params(("length_ms" = Option<u64>, Query, minimum = 100, maximum = 10_000)),
    responses((status = 200, body = Demand), (status = 400, body = Problem, content_type = "application/problem+json"),
        (status = 500, body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, content_type = "application/problem+json")))]
async fn demand(
    State(shared): State<Shared>,
    how: Result<Query<ObserveDemand>, QueryRejection>,
) -> Result<Json<Demand>, Refused> {
    let length = within(how.map(|Query(how)| how.length_ms), &DEMAND_MS, "length_ms")?;
    let permit = room(&shared.observing, "too many clients observe VMs")?;
    let reading = shared.requests.ask(|reply| Ask::Demand(Nanos::ms(length), reply)).await?;
    Ok(Json(whole(reading, permit).await?))
}

/// Returns the number of milliseconds in the parameter `name` of a query.
fn within(ms: Result<u64, QueryRejection>, range: &RangeInclusive<u64>, name: &str) -> Result<u64, Problem> {
    let remedy = format!("use `?{name}=` with {} to {}", range.start(), range.end());
    let wrong = |why: String| Problem::new(400, "Bad Request", why, remedy);
    match ms {
        Err(rejection) => Err(wrong(rejection.body_text())),
        Ok(ms) if range.contains(&ms) => Ok(ms),
        Ok(ms) => Err(wrong(format!("{name} is out of range: {ms} ms"))),
    }
}

/// The part of the history that is returned.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Since {
    /// Start. Unit: ms since 1970-01-01 00:00 UTC.
    #[serde(default)]
    since_ms: u64,
}

/// Measurements of the promises over the latest time
///
/// The history begins with the service: 5 minutes of seconds, an hour of quarters of a minute, and a day of 5 minutes.
#[utoipa::path(get, path = "/v1/history", params(("since_ms" = Option<u64>, Query)),
    responses((status = 200, body = History), (status = 400, body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, content_type = "application/problem+json")))]
async fn history(
    State(shared): State<Shared>,
    how: Result<Query<Since>, QueryRejection>,
) -> Result<Json<History>, Refused> {
    let since_ms = within(how.map(|Query(how)| how.since_ms), &SINCE_MS, "since_ms")?;
    Ok(Json(shared.requests.ask(|reply| Ask::History(since_ms, reply)).await?))
}

/// How a host is followed.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Follow {
    /// Interval between two messages with states. Unit: ms.
    #[serde(default = "second")]
    interval_ms: u64,
}

/// States, CPU time and events as they change, as server-sent events
///
/// The message `vms` has the VMs that have changed (`LiveVms`), and comes at most once in each interval; the first has all
/// VMs. The message `usage` (`Usages`) comes once a second. Both have no id. All events of /v1/events have their ids, and
/// `Last-Event-ID` works as there.
#[utoipa::path(get, path = "/v1/live",
    params(("interval_ms" = Option<u64>, Query, minimum = 100, maximum = 10_000), ("Last-Event-ID" = Option<u64>, Header)),
    responses((status = 200, description = "a stream of messages", content_type = "text/event-stream"),
        (status = 400, body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, content_type = "application/problem+json")))]
async fn live(
    State(shared): State<Shared>,
    how: Result<Query<Follow>, QueryRejection>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Refused> {
    let interval_ms = within(how.map(|Query(how)| how.interval_ms), &LIVE_MS, "interval_ms")?;
    let after = last_event(&headers)?;
    let room = room(&shared.following, "too many clients follow the host")?;
    let (sender, receiver) = mpsc::channel(WAITING_MOST);
    let pause = Duration::from_millis(interval_ms);
    tokio::spawn(live::stream(shared.requests, shared.events, after, pause, sender, room));
    Ok(Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::default()))
}

/// Sets the desired state of a VM
///
/// When the reply arrives, the desired state is on disk, and in force if the VM runs and the service has a core. With
/// `If-Match`, the request fails if another client has changed the VM. The header `Tactus-Reason` is for the audit log. A
/// request with the `Idempotency-Key` of a change that the client has made changes nothing, and the reply is the VM as it is.
/// With `dry-run=true`, nothing changes, and the reply is that of the change: a weight and a cap are checked for their values
/// only.
#[utoipa::path(put, path = "/v1/vms/{vm}/desired", request_body = Desired,
    params(("vm" = String, Path), ("dry-run" = Option<bool>, Query),
        ("If-Match" = Option<String>, Header, pattern = r#"^("[0-9]{1,18}"|\*)$"#),
        ("Idempotency-Key" = Option<String>, Header, pattern = r#"^("[!#-~]{1,128}"|[!#-~]{1,128})$"#),
        ("Tactus-Reason" = Option<String>, Header)),
    responses((status = 200, body = Vm),
        (status = 400, body = Problem, content_type = "application/problem+json"),
        (status = 403, body = Problem, content_type = "application/problem+json"),
        (status = 404, body = Problem, content_type = "application/problem+json"),
        (status = 409, body = Problem, content_type = "application/problem+json"),
        (status = 408, body = Problem, content_type = "application/problem+json"),
        (status = 412, body = Problem, content_type = "application/problem+json"),
        (status = 413, body = Problem, content_type = "application/problem+json"),
        (status = 415, body = Problem, content_type = "application/problem+json"),
        (status = 422, body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, content_type = "application/problem+json"),
        (status = 507, body = Problem, content_type = "application/problem+json")))]
async fn set(
    State(shared): State<Shared>,
    ConnectInfo(by): ConnectInfo<Caller>,
    Path(vm): Path<String>,
    how: Result<Query<How>, QueryRejection>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Refused> {
    let how = query(how)?;
    // Before the body is read, so that a client that waits for `100 Continue` does not send it.
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > BODY_MOST) {
        let detail = format!("the body has more than {BODY_MOST} bytes");
        return Err(Problem::new(413, "Payload Too Large", detail, "send a shorter body").into());
    }
    let body = timeout(BODY_TIME, Json::<Desired>::from_request(request, &())).await;
    let late = || Problem::new(408, "Request Timeout", "the body of the request did not arrive", "repeat the request");
    let Json(desired) = body.map_err(|_| late())?.map_err(|rejection| malformed(&rejection))?;
    change(&shared, by, vm, &how, &headers, desired).await
}

/// Ends everything that is desired for a VM
#[utoipa::path(delete, path = "/v1/vms/{vm}/desired",
    params(("vm" = String, Path), ("dry-run" = Option<bool>, Query),
        ("If-Match" = Option<String>, Header, pattern = r#"^("[0-9]{1,18}"|\*)$"#),
        ("Idempotency-Key" = Option<String>, Header, pattern = r#"^("[!#-~]{1,128}"|[!#-~]{1,128})$"#),
        ("Tactus-Reason" = Option<String>, Header)),
    responses((status = 200, body = Vm),
        (status = 400, body = Problem, content_type = "application/problem+json"),
        (status = 403, body = Problem, content_type = "application/problem+json"),
        (status = 404, body = Problem, content_type = "application/problem+json"),
        (status = 409, body = Problem, content_type = "application/problem+json"),
        (status = 412, body = Problem, content_type = "application/problem+json"),
        (status = 422, body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, content_type = "application/problem+json"),
        (status = 507, body = Problem, content_type = "application/problem+json")))]
async fn unset(
    State(shared): State<Shared>,
    ConnectInfo(by): ConnectInfo<Caller>,
    Path(vm): Path<String>,
    how: Result<Query<How>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    change(&shared, by, vm, &query(how)?, &headers, Desired::default()).await
}

async fn change(
    shared: &Shared,
    by: Caller,
    vm: String,
    how: &How,
    headers: &HeaderMap,
    desired: Desired,
) -> Result<Response, Refused> {
    let generation = generation(headers)?;
    if vm.len() > NAME_MOST {
        return Err(Problem::new(404, "Not Found", "there is no VM with such a long name", "use a shorter one").into());
    }
    let why = headers.get(WHY).map(|why| percent_decode(why.as_bytes()).decode_utf8_lossy().into_owned());
    let why = why.map(|why| why.chars().take(WHY_MOST).collect());
    let request = Box::new(ChangeRequest { vm, generation, desired, by, why, key: key(headers)? });
    let ask = |reply| if how.dry_run { Ask::WouldSet(request, reply) } else { Ask::Set(request, reply) };
    let vm = shared.requests.ask(ask).await??;
    Ok(tagged(vm))
}

/// Returns the generation in `If-Match`; `None`: any.
fn generation(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(IF_MATCH).filter(|value| *value != "*") else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.strip_prefix('"')?.strip_suffix('"')?.parse().ok());
    let wrong = || Problem::new(400, "Bad Request", "If-Match is not the ETag of a VM", "use the ETag of a reply");
    number.map(Some).ok_or_else(wrong)
}

/// Returns the idempotency key.
fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(KEY) else { return Ok(None) };
    let is_key = |key: &&str| {
        (1..=KEY_MOST).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"')
    };
    let without_quotes = |text| str::strip_prefix(text, '"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let key = value.to_str().ok().map(without_quotes).filter(is_key);
    let remedy = "use 1 to 128 characters of ASCII without spaces and quotes, such as a UUID";
    let wrong = || Problem::new(400, "Bad Request", "Idempotency-Key is no key", remedy);
    key.map(|key| Some(key.to_string())).ok_or_else(wrong)
}

fn malformed(rejection: &JsonRejection) -> Problem {
    let status = rejection.status();
    let title = status.canonical_reason().unwrap_or("Bad Request");
    Problem::new(status.as_u16(), title, rejection.body_text(), "send a body as /openapi.json describes it")
}

/// Returns a VM with its generation as the tag of the reply.
fn tagged(vm: Vm) -> Response {
    ([(ETAG, format!("\"{}\"", vm.generation))], Json(vm)).into_response()
}

/// Events as they happen, as server-sent events
///
/// With `Last-Event-ID`, the events after this number come first. If the service no longer has all of them, the event
/// `gap` comes before those that it has.
#[utoipa::path(get, path = "/v1/events", params(("Last-Event-ID" = Option<u64>, Header)),
    responses((status = 200, description = "a stream of events", content_type = "text/event-stream"),
        (status = 400, body = Problem, content_type = "application/problem+json")))]
async fn events(State(shared): State<Shared>, headers: HeaderMap) -> Result<impl IntoResponse, Refused> {
    let after = last_event(&headers)?;
    let (sender, receiver) = mpsc::channel(WAITING_MOST);
    tokio::spawn(stream(Arc::clone(&shared.events), after, sender));
    Ok(Sse::new(ReceiverStream::new(receiver)).keep_alive(KeepAlive::default()))
}

/// Sends the events after number `after`, and then each event as it happens, until the reader ends.
async fn stream(events: Arc<Events>, after: Option<u64>, reader: Reader) {
    let mut latest = events.watch();
    let mut last = after.unwrap_or_else(|| *latest.borrow_and_update());
    loop {
        for message in live::since(&events, &mut last) {
            if reader.send(Ok(message)).await.is_err() {
                return;
            }
        }
        tokio::select! {
            changed = latest.changed() => if changed.is_err() { return },
            () = reader.closed() => return,
        }
    }
}

/// Returns the number in `Last-Event-ID`.
fn last_event(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let after = headers.get("last-event-id").map(|value| value.to_str().ok().and_then(|text| text.parse().ok()));
    let wrong = || Problem::new(400, "Bad Request", "Last-Event-ID is not a number", "use the id of an event");
    after.map(|number: Option<u64>| number.ok_or_else(wrong)).transpose()
}

/// Metrics in the text format of OpenMetrics
#[utoipa::path(get, path = "/metrics",
    responses((status = 200, description = "metrics", content_type = "application/openmetrics-text"),
        (status = 503, body = Problem, content_type = "application/problem+json")))]
async fn metrics(State(shared): State<Shared>) -> Result<impl IntoResponse, Refused> {
    let host = shared.requests.ask(Ask::Host).await?;
    let vms = shared.requests.ask(Ask::List).await?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], metrics::text(&host, &vms)))
}
