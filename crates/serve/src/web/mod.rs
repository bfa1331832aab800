//! Devices while they work, and recordings of that, as a page for a browser.
//!
//! ```text
//!  Sampler    looks at a device now and then: a Frame
//!  hub        frames for all viewers, five a second, none without a viewer
//!  recording  frames of a run, in memory and in a file
//!  page/      what the browser gets: one page for both
//! ```
//!
//! The page is served by the server of the metrics, with its limits. It is for the machine's own
//! user: on an address that others reach it asks for a token, it refuses requests that other sites
//! have a browser send, and it changes nothing unless it was started with [`Control`].
mod frame;
mod hub;
mod recording;
mod sampler;

pub use frame::{DeviceInfo, Event, Frame, Ios};
pub use recording::{RecordedDevice, Recorder, Recording, RecordingError};
pub use sampler::{SampleClock, Sampler, Watched};

use crate::control::http::{Browsing, Handler, HttpServer, Limits, Page, Route};
use crate::control::{DeviceManager, execute};
use hub::Hub;
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use zonal_blk::sched::Scheduler;
use zonal_blk::{IoHistograms, TIME_RANGES, ZoneCondition, ZoneWrite};

/// Most cells of a device's map.
pub const MAX_CELLS: u32 = recording::MAX_CELLS;
/// The commands that change a device from the page.
const COMMANDS: [&str; 2] = ["set", "fault"];

const HTML: &str = include_str!("page/index.html");
const CSS: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/view.js");
/// Nothing from elsewhere, no script but the page's own, no frame around it.
const HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// Whether the page may change devices, and what executes its commands.
pub type Control = Option<Arc<DeviceManager>>;

/// A server of the page. Dropping it closes all connections.
pub struct WebServer {
    http: HttpServer,
    token: Option<String>,
}

impl WebServer {
    /// Shows devices while they work, on `address`.
    ///
    /// # Errors
    /// The address cannot be bound, or the system has no resources left.
    pub fn start(address: SocketAddr, devices: Vec<Watched>, control: Control) -> io::Result<Self> {
        let sampler = |watched| Sampler::new(watched, MAX_CELLS, SampleClock::Other);
        let samplers: Vec<Sampler> = devices.into_iter().map(sampler).collect();
        let runs = samplers.iter().map(
            |sampler| json!({"title": "", "clock": "real", "info": sampler.info(), "frames": []}),
        );
        let runs = runs_json(true, control.is_some(), runs.collect());
        let hub = Arc::new(Hub::new(samplers));
        let mut routes = vec![
            page("/runs", "application/json", runs, false),
            Route {
                path: "/frames",
                public: false,
                handler: Handler::Feed(Box::new(move || Some(hub.subscribe()))),
            },
        ];
        if let Some(manager) = control {
            let handler = Handler::Post(Box::new(move |body| answer(body, &manager)));
            routes.push(Route { path: "/command", public: false, handler });
        }
        WebServer::serve(address, routes)
    }

    /// Shows recordings on `address`, side by side.
    ///
    /// # Errors
    /// As [`WebServer::start`].
    pub fn replay(address: SocketAddr, recordings: Vec<Recording>) -> io::Result<Self> {
        let runs = runs_of(recordings);
        WebServer::serve(address, vec![page("/runs", "application/json", runs, false)])
    }

    fn serve(address: SocketAddr, mut routes: Vec<Route>) -> io::Result<Self> {
        routes.extend([
            page("/", "text/html; charset=utf-8", HTML.to_owned(), true),
            page("/style.css", "text/css; charset=utf-8", CSS.to_owned(), true),
            page("/view.js", "text/javascript; charset=utf-8", SCRIPT.to_owned(), true),
        ]);
        let token = if address.ip().to_canonical().is_loopback() {
            None
        } else {
            Some(zonal_os::uuid::format(&zonal_os::uuid::random()?))
        };
        let browsing = Browsing { headers: HEADERS, by_address: true, token: token.clone() };
        let http = HttpServer::start("web", address, routes, browsing, Limits::default())?;
        Ok(WebServer { http, token })
    }

    /// Its address, as a user opens it.
    pub fn url(&self) -> String {
        let token = self.token.as_ref().map(|token| format!("?token={token}"));
        format!("http://{}/{}", self.http.address(), token.unwrap_or_default())
    }
}

/// Recordings as a page that is a file of its own.
pub fn standalone(recordings: Vec<Recording>) -> String {
    // Text in a script element may end at `</`, and not end after `<!--`: it has no `<` at all. In JSON
    // there are some in strings alone.
    let runs = runs_of(recordings).replace('<', "\\u003c");
    let data = format!("<script type=\"application/json\" id=\"runs-data\">{runs}</script>");
    HTML.replace("<link rel=\"stylesheet\" href=\"style.css\">", &format!("<style>\n{CSS}</style>"))
        .replace(
            "<script src=\"view.js\" defer></script>",
            &format!("{data}\n<script type=\"module\">\n{SCRIPT}</script>"),
        )
}

fn runs_of(recordings: Vec<Recording>) -> String {
    let mut runs = Vec::new();
    for Recording { title, clock, devices } in recordings {
        for RecordedDevice { info, frames } in devices {
            runs.push(json!({"title": title, "clock": clock, "info": info, "frames": frames}));
        }
    }
    runs_json(false, false, runs)
}

fn runs_json(live: bool, control: bool, runs: Vec<Value>) -> String {
    let ranges: Vec<u64> =
        (0..TIME_RANGES).map(|range| IoHistograms::range_start(range).0).collect();
    let (version, cells) = (env!("CARGO_PKG_VERSION"), crate::control::Cell::CONDITIONS);
    json!({
        "version": version,
        "live": live,
        "control": control,
        "ranges": ranges,
        "conditions": ZoneCondition::ALL.map(ZoneCondition::long),
        "cells": cells,
        "schedulers": Scheduler::NAMES,
        "policies": ZoneWrite::NAMES,
        "runs": runs,
    })
    .to_string()
}

fn page(path: &'static str, content_type: &'static str, text: String, public: bool) -> Route {
    let page = move || Page { content_type, text: text.clone() };
    Route { path, public, handler: Handler::Page(Box::new(page)) }
}

/// Executes a command of the page.
fn answer(body: &str, manager: &DeviceManager) -> Page {
    let first = serde_json::from_str::<Value>(body).ok();
    let first = first.as_ref().and_then(|request| request.get("command")?.get(0)?.as_str());
    let result = match first {
        Some(word) if COMMANDS.contains(&word) => execute(body, manager),
        found => {
            Err(format!("found {found:?}, expected one of the commands {}", COMMANDS.join(", ")))
        }
    };
    let text = match result {
        Ok(value) => json!({ "ok": value }),
        Err(error) => json!({ "error": error }),
    };
    Page { content_type: "application/json", text: text.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_its_own_has_everything_inside() {
        let name = "</script><b><!--<script>";
        let info = DeviceInfo { name: name.to_owned(), ..DeviceInfo::default() };
        let devices = vec![RecordedDevice { info, frames: Vec::new() }];
        let recording = Recording { title: String::new(), clock: "virtual".to_owned(), devices };
        let html = standalone(vec![recording]);
        assert!(!html.contains("view.js") && !html.contains("style.css"), "nothing is fetched");
        let data = html.split_once("id=\"runs-data\">").expect("data").1;
        let data = data.split_once("</script>").expect("its end").0;
        assert!(!data.contains('<'), "a name is no markup");
        let data: Value = serde_json::from_str(data).expect("JSON");
        assert_eq!(data["runs"][0]["info"]["name"], name);
    }

    #[test]
    fn the_page_changes_settings_and_faults_only() {
        let manager = DeviceManager::new(Vec::new(), Vec::new());
        let ask = |body: &str| answer(body, &manager).text;
        for body in
            ["", "{}", r#"{"command":["power-cut"]}"#, r#"{"command":["zone","0","offline"]}"#]
        {
            assert!(ask(body).contains("expected one of the commands set, fault"), "{body}");
        }
        let set = r#"{"device":1,"command":["set","scheduler","none"]}"#;
        assert!(ask(set).contains("device 1: expected 1 to 0"), "{}", ask(set));
    }
}
