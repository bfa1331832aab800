//! The metrics over HTTP, at `/metrics`.
use super::http::{Browsing, Handler, HttpServer, Limits, Page, Route};
use super::manager::DeviceManager;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// The media type of the format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// The HTTP server. Dropping it stops it, and waits for no client.
pub struct MetricsServer(HttpServer);

impl MetricsServer {
    /// Answers `GET /metrics` on `address`; port 0 for any free one.
    ///
    /// # Errors
    /// The errors of listening on the address.
    pub fn start(address: SocketAddr, manager: Arc<DeviceManager>) -> io::Result<Self> {
        let page = move || Page { content_type: CONTENT_TYPE, text: manager.metrics() };
        let handler = Handler::Page(Box::new(page));
        let routes = vec![Route { path: "/metrics", public: true, handler }];
        let (browsing, limits) = (Browsing::default(), Limits::default());
        HttpServer::start("metrics", address, routes, browsing, limits).map(MetricsServer)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}
