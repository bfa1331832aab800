//! A small HTTP/1.1 server: paths, and what answers a GET of each.
//!
//! Its clients have no password, so none is waited for. One thread serves all connections. A
//! connection carries one request and has a limited time; when there are [`Limits::connections`], one
//! that has not sent its request yet is closed for the new one, else the oldest. Bodies of requests
//! are refused and not read. A page is made on another thread, since that may wait for a device, one
//! page at a time; one whose client has disconnected is not made. Dropping the server waits for
//! nobody.
use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{self, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{self, AbortHandle};
use tokio::time::{sleep, timeout};

/// How long nothing is accepted after an error.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// What clients may take of a server.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Bytes of the request line and the headers.
    pub head_bytes: usize,
    /// Time from the connection to the end of the headers.
    pub head_time: Duration,
    /// Time from the connection to its end, with the answer read.
    pub connection_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 64,
            head_bytes: 8 << 10,
            head_time: Duration::from_secs(5),
            connection_time: Duration::from_secs(30),
        }
    }
}

/// What a path answers.
pub(super) struct Page {
    /// Its media type.
    pub content_type: &'static str,
    /// Its text.
    pub text: String,
}

/// A path, and what makes its page.
pub(super) struct Route {
    /// The path, such as `/metrics`.
    pub path: &'static str,
    /// Makes the page; may wait.
    pub page: Box<dyn Fn() -> Page + Send + Sync>,
}

/// A server. Dropping it closes all connections.
pub(super) struct HttpServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Serves `routes` on `address`, port 0 for any free one, on a thread called `name`.
    ///
    /// # Errors
    /// The address cannot be bound, or the system has no resources left.
    pub fn start(
        name: &str,
        address: SocketAddr,
        routes: Vec<Route>,
        limits: Limits,
    ) -> io::Result<Self> {
        let listener = net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let listener = {
            let _context = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let site = Arc::new(Site { routes, limits, answering: Arc::new(Semaphore::new(1)) });
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.spawn(accept(listener, site));
            // The sender is dropped to stop the server.
            let _: Result<Infallible, _> = runtime.block_on(stopped);
            // A page that waits for a device is not waited for.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(serve)?;
        Ok(HttpServer { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Shared by all connections.
struct Site {
    routes: Vec<Route>,
    limits: Limits,
    /// Whoever makes a page holds its permit.
    answering: Arc<Semaphore>,
}

/// A connection.
struct Open {
    task: AbortHandle,
    /// It has sent its request.
    asked: Arc<AtomicBool>,
}

async fn accept(listener: TcpListener, site: Arc<Site>) {
    let mut open: VecDeque<Open> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No descriptors left, or the client is gone already.
            sleep(ACCEPT_RETRY_INTERVAL).await;
            continue;
        };
        open.retain(|connection| !connection.task.is_finished());
        if open.len() >= site.limits.connections {
            let silent = |connection: &Open| !connection.asked.load(Ordering::Relaxed);
            let victim = open.iter().position(silent).unwrap_or(0);
            open.remove(victim).expect("there are connections").task.abort();
        }
        let asked = Arc::new(AtomicBool::new(false));
        let task = task::spawn(serve(stream, Arc::clone(&site), Arc::clone(&asked)));
        open.push_back(Open { task: task.abort_handle(), asked });
        // It may have sent its request already: read that before the next connection is accepted.
        task::yield_now().await;
    }
}

/// Serves one request.
async fn serve(stream: TcpStream, site: Arc<Site>, asked: Arc<AtomicBool>) {
    let limits = site.limits.clone();
    let service = service_fn(|request| {
        asked.store(true, Ordering::Relaxed);
        let site = Arc::clone(&site);
        async move { Ok::<_, Infallible>(answer(request, &site).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_header_size(limits.head_bytes)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // Whatever the reason, the client sees that the connection is closed.
    let _ = timeout(limits.connection_time, connection).await;
}

async fn answer(request: Request<Incoming>, site: &Arc<Site>) -> Response<Full<Bytes>> {
    if !request.body().is_end_stream() {
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, "expected a request without a body");
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "expected GET or HEAD");
        response.headers_mut().insert(ALLOW, "GET, HEAD".parse().expect("ASCII"));
        return response;
    }
    let path = request.uri().path();
    let Some(route) = site.routes.iter().position(|route| route.path == path) else {
        let known: Vec<&str> = site.routes.iter().map(|route| route.path).collect();
        return refusal(StatusCode::NOT_FOUND, &format!("expected {}", known.join(" or ")));
    };
    let permit = Arc::clone(&site.answering).acquire_owned().await;
    let site = Arc::clone(site);
    let made = task::spawn_blocking(move || {
        let _permit = permit;
        (site.routes[route].page)()
    });
    match made.await {
        Ok(Page { content_type, text }) => response(StatusCode::OK, content_type, text),
        // It panicked, which has been reported.
        Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made"),
    }
}

fn refusal(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

fn response(status: StatusCode, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type.parse().expect("ASCII"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpStream;
    use std::sync::mpsc;

    const SHORT: Duration = Duration::from_millis(100);

    fn server(limits: Limits) -> HttpServer {
        let page = || Page { content_type: "text/plain", text: "x".repeat(1 << 20) };
        let routes = vec![Route { path: "/page", page: Box::new(page) }];
        HttpServer::start("test", ([127, 0, 0, 1], 0).into(), routes, limits).expect("a port")
    }

    fn connect(server: &HttpServer) -> TcpStream {
        let stream = TcpStream::connect(server.address()).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        stream
    }

    /// What the server sends until it closes the connection.
    fn rest(mut stream: TcpStream) -> String {
        let mut bytes = Vec::new();
        match stream.read_to_end(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("it was kept open"),
            // A reset is an end, too.
            _ => String::from_utf8(bytes).expect("ASCII"),
        }
    }

    fn ask(server: &HttpServer, request: &str) -> String {
        let mut stream = connect(server);
        stream.write_all(request.as_bytes()).expect("a request");
        rest(stream)
    }

    #[test]
    fn pages_are_found_by_path_and_everything_else_is_refused() {
        let server = server(Limits::default());
        for (request, status) in [
            ("GET /page HTTP/1.1\r\nHost: a\r\n\r\n", "200"),
            ("GET /page?x=1 HTTP/1.0\r\n\r\n", "200"),
            ("GET /pag HTTP/1.1\r\nHost: a\r\n\r\n", "404"),
            ("DELETE /page HTTP/1.1\r\nHost: a\r\n\r\n", "405"),
            ("POST /page HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", "413"),
            ("GET /page HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "413"),
            ("nonsense\r\n\r\n", "400"),
        ] {
            let answer = ask(&server, request);
            let found = answer.split(' ').nth(1);
            assert_eq!(found, Some(status), "{request:?}: {}", answer.lines().next().unwrap_or(""));
        }
        let head = ask(&server, "HEAD /page HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(head.contains("content-length: 1048576") && head.len() < 1000, "{head}");
    }

    #[test]
    fn long_headers_are_refused() {
        let server = server(Limits::default());
        let long = format!("GET /page HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(9 << 10));
        assert!(ask(&server, &long).starts_with("HTTP/1.1 431"));
    }

    #[test]
    fn one_of_many_pipelined_requests_is_answered() {
        let server = server(Limits::default());
        let answers = ask(&server, &"GET /page HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3));
        assert_eq!(answers.matches("HTTP/1.1").count(), 1);
    }

    #[test]
    fn connection_without_a_request_is_closed() {
        let server = server(Limits { head_time: SHORT, ..Limits::default() });
        assert_eq!(rest(connect(&server)), "");
        let mut slow = connect(&server);
        slow.write_all(b"GET /page HTTP/1.1\r\nX: ").expect("half a request");
        assert_eq!(rest(slow), "");
    }

    #[test]
    fn connection_that_reads_nothing_is_closed() {
        let limits = Limits { connection_time: SHORT, ..Limits::default() };
        let page = || Page { content_type: "text/plain", text: "x".repeat(64 << 20) };
        let routes = vec![Route { path: "/page", page: Box::new(page) }];
        let server = HttpServer::start("test", ([127, 0, 0, 1], 0).into(), routes, limits);
        let server = server.expect("a port");
        let mut stream = connect(&server);
        stream.write_all(b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n").expect("a request");
        thread::sleep(10 * SHORT);
        assert!(rest(stream).len() < 64 << 20, "only what fits the sockets' buffers");
    }

    #[test]
    fn new_connection_replaces_a_silent_one() {
        let server = server(Limits { connections: 2, ..Limits::default() });
        let silent: Vec<TcpStream> = (0..8).map(|_| connect(&server)).collect();
        assert!(ask(&server, "GET /page HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 200"));
        let mut silent = silent.into_iter();
        assert_eq!(silent.next().map(rest).as_deref(), Some(""), "the oldest was closed");
    }

    #[test]
    fn stopping_waits_for_nobody() {
        let (started, is_started) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let released = std::sync::Mutex::new(released);
        let page = move || {
            started.send(()).expect("the test waits");
            let _ = released.lock().expect("one page at a time").recv();
            Page { content_type: "text/plain", text: String::new() }
        };
        let routes = vec![Route { path: "/page", page: Box::new(page) }];
        let server =
            HttpServer::start("test", ([127, 0, 0, 1], 0).into(), routes, Limits::default());
        let server = server.expect("a port");
        let mut waiting = connect(&server);
        waiting.write_all(b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n").expect("a request");
        is_started.recv().expect("the page is being made");
        let idle = connect(&server);
        drop(server);
        assert_eq!((rest(waiting).as_str(), rest(idle).as_str()), ("", ""));
        drop(release);
    }
}
