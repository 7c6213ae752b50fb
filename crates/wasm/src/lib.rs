//! The simulator in WebAssembly, for the page and the playground.
//!
//! All values pass as JSON. [`simulate`] runs a scenario under one or several policies, and blocks its thread: a page calls
//! it in a Web Worker, which it ends to cancel a run. After a panic the module must not be used again, so the page starts
//! another worker.
//!
//! A run gives the same bytes as `tactus sim --json`: the crates of the simulator use no clock, no thread, and no
//! mathematical functions of the platform.

mod complaints;
mod demand;
mod preview;
mod simulation;
mod trace_text;

pub use complaints::Complaint;
pub use preview::{Desired, HostPolicy, Limit, Predicted, Preview, PreviewRequest, PreviewVm, Promise, Thread};
pub use simulation::{Drawing, Request, Simulated};

use report::book::ListedPolicy;
use run::Progress;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

/// Prints panics to the console of the browser. Runs when the module is loaded.
#[wasm_bindgen(start)]
pub fn start() {
    console_error_panic_hook::set_once();
}

// The crate js-sys has this type beside all others of JavaScript, and takes a tenth of the module's build.
#[wasm_bindgen]
extern "C" {
    /// A function of JavaScript that receives the progress of a run: the simulated time and the length of the run in
    /// nanoseconds.
    #[wasm_bindgen(js_name = Function, typescript_type = "(now: number, end: number) => void")]
    #[derive(Debug)]
    pub type Receiver;

    #[wasm_bindgen(method, catch)]
    fn call(this: &Receiver, of: &JsValue, now: f64, end: f64) -> Result<(), JsValue>;
}

/// Runs the [`Request`] in `request`. Calls `progress` from time to time with the simulated time and the length of the
/// run in nanoseconds, once for each policy from the start. Returns [`Simulated`].
///
/// # Errors
/// A list of [`Complaint`]s about the request.
#[wasm_bindgen]
pub fn simulate(request: &str, progress: &Receiver) -> Result<String, String> {
    let report = |now: Progress| {
        let [now, end] = [now.now, now.end].map(|at| at.as_ns() as f64);
        // The page may have removed the receiver of the progress.
        let _ = progress.call(&JsValue::NULL, now, end);
    };
    let request: Request = serde_json::from_str(request).map_err(|error| complaints::of_request(&error))?;
    let simulated = simulation::simulate(&request, report).map_err(|problems| complaints::to_json(&problems))?;
    Ok(serde_json::to_string(&simulated).expect("the result is JSON"))
}

/// Runs the [`PreviewRequest`] in `request`. Returns [`Preview`].
///
/// # Errors
/// A list of [`Complaint`]s about the request, or about a promise that no policy accepts.
#[wasm_bindgen]
pub fn preview(request: &str) -> Result<String, String> {
    let request: PreviewRequest = serde_json::from_str(request).map_err(|error| complaints::of_request(&error))?;
    let preview = preview::preview(&request).map_err(|problems| complaints::to_json(&problems))?;
    Ok(serde_json::to_string(&preview).expect("the result is JSON"))
}

/// Returns all policies, each with its essay, as `tactus policies --json NAME` prints it.
#[wasm_bindgen]
#[must_use]
pub fn policies() -> String {
    let all: Vec<ListedPolicy> = ::policies::ALL.iter().map(|policy| ListedPolicy::new(policy, true)).collect();
    serde_json::to_string(&all).expect("the list is JSON")
}
