//! A small HTTP/1.1 server: paths, and what answers a request for each.
//!
//! Its clients may be anyone, so none is waited for. One thread serves all connections. A
//! connection carries one request and has a limited time, unless its answer is a [`Feed`]; when there
//! are [`Limits::connections`], one that has not sent its request yet is closed for the new one, else
//! the oldest that is not fed: those who may see a feed are not pushed out by those who may not. Bodies of requests are refused and not read, but for a path that takes them. A page is made on another thread, since that may wait for a device, one
//! page at a time; one whose client has disconnected is not made. Dropping the server waits for
//! nobody.
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ALLOW, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{self, IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{self, AbortHandle};
use tokio::time::{sleep, timeout};

/// How long nothing is accepted after an error.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Limits to the resources that clients of a server may use.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Bytes of the request line and the headers.
    pub head_bytes: usize,
    /// Bytes of the body of a request that may have one.
    pub body_bytes: usize,
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
            body_bytes: 4 << 10,
            head_time: Duration::from_secs(5),
            connection_time: Duration::from_secs(30),
        }
    }
}

/// The answer to a request.
pub(crate) struct Page {
    /// Its media type.
    pub content_type: &'static str,
    /// Its text.
    pub text: String,
}

/// An answer without end, in parts.
pub(crate) struct Feed {
    /// The parts.
    pub parts: mpsc::Receiver<Bytes>,
    /// The client has taken nothing for too long: its connection is to be closed.
    pub stalled: Arc<AtomicBool>,
}

/// The handler of the requests for a path.
pub(crate) enum Handler {
    /// Makes a page; may wait.
    Page(Box<dyn Fn() -> Page + Send + Sync>),
    /// Makes a feed, if there are not too many.
    Feed(Box<dyn Fn() -> Option<Feed> + Send + Sync>),
    /// Takes the body of a POST, which is text, and makes a page; may wait.
    Post(Box<dyn Fn(&str) -> Page + Send + Sync>),
}

/// A path, and what answers.
pub(crate) struct Route {
    /// The path, such as `/metrics`.
    pub path: &'static str,
    /// Anybody may ask for it, without the token.
    pub public: bool,
    /// The handler.
    pub handler: Handler,
}

/// The checks and headers of a server that browsers talk to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Browsing {
    /// Headers of all answers.
    pub headers: &'static [(&'static str, &'static str)],
    /// Only requests whose `Host` is an address or `localhost`: a page of another site that has its
    /// own name lead to this server is refused (DNS rebinding).
    pub by_address: bool,
    /// Requests for what is not public have `?token=` with this.
    pub token: Option<String>,
}

/// A server. Dropping it closes all connections.
pub(crate) struct HttpServer {
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
        browsing: Browsing,
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
        let site =
            Arc::new(Site { routes, browsing, limits, answering: Arc::new(Semaphore::new(1)) });
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
    browsing: Browsing,
    limits: Limits,
    /// A thread that makes a page holds a permit.
    answering: Arc<Semaphore>,
}

/// A connection.
struct Open {
    task: AbortHandle,
    progress: Arc<ConnectionProgress>,
}

/// How far a connection is.
#[derive(Default)]
struct ConnectionProgress {
    /// It has sent its request.
    asked: AtomicBool,
    /// Its answer is a feed, for which it had the token.
    fed: AtomicBool,
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
            let silent = |open: &Open| !open.progress.asked.load(Ordering::Relaxed);
            let unfed = |open: &Open| !open.progress.fed.load(Ordering::Relaxed);
            let victim = open.iter().position(silent).or_else(|| open.iter().position(unfed));
            let victim = victim.unwrap_or(0);
            open.remove(victim).expect("there are connections").task.abort();
        }
        let progress = Arc::<ConnectionProgress>::default();
        let task = task::spawn(serve(stream, Arc::clone(&site), Arc::clone(&progress)));
        open.push_back(Open { task: task.abort_handle(), progress });
        // It may have sent its request already: read that before the next connection is accepted.
        task::yield_now().await;
    }
}

/// Serves one request.
async fn serve(stream: TcpStream, site: Arc<Site>, progress: Arc<ConnectionProgress>) {
    let limits = site.limits.clone();
    let stalled = std::sync::OnceLock::new();
    let service = service_fn(|request| {
        progress.asked.store(true, Ordering::Relaxed);
        let (site, stalled, progress) = (Arc::clone(&site), &stalled, &progress);
        async move {
            let mut response = answer(request, &site).await;
            if let Answer::Feed(feed) = response.body() {
                progress.fed.store(true, Ordering::Relaxed);
                let _ = stalled.set(Arc::clone(&feed.stalled));
            }
            for (name, value) in site.browsing.headers {
                let (name, value) =
                    (HeaderName::from_static(name), HeaderValue::from_static(value));
                response.headers_mut().insert(name, value);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_header_size(limits.head_bytes)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // Whatever the reason, the client sees that the connection is closed.
    while timeout(limits.connection_time, &mut connection).await.is_err() {
        match stalled.get() {
            Some(stalled) if !stalled.load(Ordering::Acquire) => {}
            _ => return,
        }
    }
}

async fn answer(request: Request<Incoming>, site: &Arc<Site>) -> Response<Answer> {
    if let Some(refusal) = site.browsing.refuse(&request) {
        return refusal;
    }
    let path = request.uri().path();
    let found = site.routes.iter().position(|route| route.path == path);
    let takes_body = found.is_some_and(|at| matches!(site.routes[at].handler, Handler::Post(_)));
    if !takes_body && !request.body().is_end_stream() {
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, "expected a request without a body");
    }
    let methods: (&[Method], &str) = if takes_body {
        (&[Method::POST], "POST")
    } else {
        (&[Method::GET, Method::HEAD], "GET, HEAD")
    };
    if !methods.0.contains(request.method()) {
        let expected = format!("expected {}", methods.1.replace(", ", " or "));
        let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, &expected);
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods.1));
        return response;
    }
    let Some(route) = found else {
        let known: Vec<&str> = site.routes.iter().map(|route| route.path).collect();
        return refusal(StatusCode::NOT_FOUND, &format!("expected {}", known.join(" or ")));
    };
    if !site.routes[route].public && !site.browsing.admits(&request) {
        let text = "expected ?token= with the token that the server printed when it started";
        return refusal(StatusCode::UNAUTHORIZED, text);
    }
    match &site.routes[route].handler {
        Handler::Feed(feed) => match feed() {
            Some(feed) => response(StatusCode::OK, "text/event-stream", Answer::Feed(feed)),
            None => refusal(StatusCode::SERVICE_UNAVAILABLE, "too many look already"),
        },
        Handler::Page(_) => page(site, route, String::new()).await,
        Handler::Post(_) => match Limited::new(request, site.limits.body_bytes).collect().await {
            Err(_) => refusal(StatusCode::PAYLOAD_TOO_LARGE, "expected a short body"),
            Ok(body) => match String::from_utf8(body.to_bytes().to_vec()) {
                Ok(body) => page(site, route, body).await,
                Err(_) => refusal(StatusCode::BAD_REQUEST, "expected text"),
            },
        },
    }
}

/// Makes a page on another thread.
async fn page(site: &Arc<Site>, route: usize, body: String) -> Response<Answer> {
    let permit = Arc::clone(&site.answering).acquire_owned().await;
    let site = Arc::clone(site);
    let made = task::spawn_blocking(move || {
        let _permit = permit;
        match &site.routes[route].handler {
            Handler::Page(page) => Some(page()),
            Handler::Post(post) => Some(post(&body)),
            Handler::Feed(_) => None,
        }
    });
    match made.await {
        Ok(Some(Page { content_type, text })) => {
            response(StatusCode::OK, content_type, Answer::whole(text))
        }
        // It panicked, which has been reported.
        _ => refusal(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made"),
    }
}

impl Browsing {
    /// The answer to a request that a browser was made to send by another site.
    fn refuse<B>(&self, request: &Request<B>) -> Option<Response<Answer>> {
        if !self.by_address {
            return None;
        }
        let header = |name| request.headers().get(name).map(|value| value.to_str().unwrap_or(""));
        let host = header(HOST).unwrap_or("");
        if !is_address(host) {
            let text = "expected an address or localhost as the host, not another name";
            return Some(refusal(StatusCode::MISDIRECTED_REQUEST, text));
        }
        match header(ORIGIN).map(|origin| origin.strip_prefix("http://")) {
            None => None,
            Some(Some(origin)) if origin == host => None,
            Some(_) => {
                Some(refusal(StatusCode::FORBIDDEN, "expected a request of the page itself"))
            }
        }
    }

    /// Whether a request has the token.
    fn admits<B>(&self, request: &Request<B>) -> bool {
        let Some(token) = &self.token else { return true };
        let mut parameters = request.uri().query().unwrap_or("").split('&');
        let found = parameters.find_map(|parameter| parameter.strip_prefix("token="));
        found.is_some_and(|found| is_same(found, token))
    }
}

/// Compares in a time that does not depend on where they differ.
fn is_same(a: &str, b: &str) -> bool {
    let differ = a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    a.len() == b.len() && differ == 0
}

/// Whether a `Host` is an address or `localhost`, with or without a port.
fn is_address(host: &str) -> bool {
    let without_port = |host: &str| {
        let (name, port) = host.rsplit_once(':')?;
        port.bytes().all(|byte| byte.is_ascii_digit()).then(|| name.to_owned())
    };
    let is_known = |name: &str| {
        let v6 = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        match v6 {
            Some(v6) => v6.parse::<net::Ipv6Addr>().is_ok(),
            None => name == "localhost" || matches!(name.parse(), Ok(IpAddr::V4(_))),
        }
    };
    is_known(host) || without_port(host).is_some_and(|name| is_known(&name))
}

/// The body of an answer.
enum Answer {
    Whole(Full<Bytes>),
    Feed(Feed),
}

impl Answer {
    fn whole(text: String) -> Self {
        Answer::Whole(Full::new(Bytes::from(text)))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Answer::Whole(whole) => Pin::new(whole).poll_frame(context),
            Answer::Feed(feed) => {
                feed.parts.poll_recv(context).map(|part| part.map(|part| Ok(Frame::data(part))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Answer::Whole(whole) => whole.is_end_stream(),
            Answer::Feed(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Answer::Whole(whole) => whole.size_hint(),
            Answer::Feed(_) => SizeHint::default(),
        }
    }
}

fn refusal(status: StatusCode, text: &str) -> Response<Answer> {
    response(status, "text/plain; charset=utf-8", Answer::whole(format!("{text}\n")))
}

fn response(status: StatusCode, content_type: &'static str, body: Answer) -> Response<Answer> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
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
        let routes =
            vec![Route { path: "/page", public: true, handler: Handler::Page(Box::new(page)) }];
        HttpServer::start("test", ([127, 0, 0, 1], 0).into(), routes, Browsing::default(), limits)
            .expect("a port")
    }

    fn connect(server: &HttpServer) -> TcpStream {
        let stream = TcpStream::connect(server.address()).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        stream
    }

    /// Whether the server has its end of a connection open: the states of both ends are in proc(5),
    /// `/proc/net/tcp`.
    fn is_open(server: &HttpServer, stream: &TcpStream) -> bool {
        let end = |address: std::net::SocketAddr| format!(":{:04X}", address.port());
        let client = end(stream.local_addr().expect("a socket"));
        let server = end(server.address());
        let connections = std::fs::read_to_string("/proc/net/tcp").expect("procfs");
        connections.lines().any(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [_, local, remote, state, ..] => {
                local.ends_with(&server) && remote.ends_with(&client) && state == "01"
            }
            _ => false,
        })
    }

    /// The bytes that the server sends until it closes the connection.
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
        let routes =
            vec![Route { path: "/page", public: true, handler: Handler::Page(Box::new(page)) }];
        let server = HttpServer::start(
            "test",
            ([127, 0, 0, 1], 0).into(),
            routes,
            Browsing::default(),
            limits,
        );
        let server = server.expect("a port");
        let mut stream = connect(&server);
        stream.write_all(b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n").expect("a request");
        while is_open(&server, &stream) {
            thread::sleep(SHORT);
        }
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
        let routes =
            vec![Route { path: "/page", public: true, handler: Handler::Page(Box::new(page)) }];
        let server = HttpServer::start(
            "test",
            ([127, 0, 0, 1], 0).into(),
            routes,
            Browsing::default(),
            Limits::default(),
        );
        let server = server.expect("a port");
        let mut waiting = connect(&server);
        waiting.write_all(b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n").expect("a request");
        is_started.recv().expect("the page is being made");
        let idle = connect(&server);
        drop(server);
        assert_eq!((rest(waiting).as_str(), rest(idle).as_str()), ("", ""));
        drop(release);
    }

    /// A server with a page, a feed, and a path that takes text; the sender feeds.
    fn browsed(token: Option<&str>) -> (HttpServer, tokio::sync::mpsc::Sender<Bytes>) {
        let (send, parts) = tokio::sync::mpsc::channel(4);
        let feed = std::sync::Mutex::new(Some(Feed { parts, stalled: Arc::default() }));
        let page = |text: &str| Page { content_type: "text/plain", text: text.to_owned() };
        let routes = vec![
            Route {
                path: "/",
                public: true,
                handler: Handler::Page(Box::new(move || page("page"))),
            },
            Route {
                path: "/feed",
                public: false,
                handler: Handler::Feed(Box::new(move || feed.lock().expect("one").take())),
            },
            Route {
                path: "/do",
                public: false,
                handler: Handler::Post(Box::new(move |body| page(&format!("done {body}")))),
            },
        ];
        let browsing = Browsing {
            headers: &[("x-test", "yes")],
            by_address: true,
            token: token.map(str::to_owned),
        };
        let server = HttpServer::start(
            "test",
            ([127, 0, 0, 1], 0).into(),
            routes,
            browsing,
            Limits::default(),
        );
        (server.expect("a port"), send)
    }

    fn status(server: &HttpServer, request: &str) -> String {
        ask(server, request).split(' ').nth(1).unwrap_or_default().to_owned()
    }

    #[test]
    fn other_sites_and_names_are_refused() {
        let (server, _send) = browsed(None);
        let get = |headers: &str| status(&server, &format!("GET / HTTP/1.1\r\n{headers}\r\n"));
        for good in ["127.0.0.1", "127.0.0.1:80", "localhost:9", "[::1]:9", "10.1.2.3:4"] {
            assert_eq!(get(&format!("Host: {good}\r\n")), "200", "{good}");
        }
        for bad in ["example.org", "127.0.0.1.example.org:80", "localhost.example", "[::1", ""] {
            assert_eq!(get(&format!("Host: {bad}\r\n")), "421", "{bad}");
        }
        assert_eq!(get("Host: 127.0.0.1:9\r\nOrigin: http://127.0.0.1:9\r\n"), "200");
        assert_eq!(get("Host: 127.0.0.1:9\r\nOrigin: http://127.0.0.1:8\r\n"), "403");
        assert_eq!(get("Host: 127.0.0.1:9\r\nOrigin: null\r\n"), "403");
        assert!(ask(&server, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").contains("x-test: yes"));
    }

    #[test]
    fn what_is_not_public_needs_the_token() {
        let (server, _send) = browsed(Some("secret"));
        let post = |query: &str| {
            let head = format!("POST /do{query} HTTP/1.1\r\nHost: localhost\r\n");
            ask(&server, &format!("{head}Content-Length: 4\r\n\r\nthis"))
        };
        for query in ["", "?token=", "?token=secre", "?token=secrets", "?x=secret"] {
            assert!(post(query).starts_with("HTTP/1.1 401"), "{query}");
        }
        let answer = post("?a=b&token=secret");
        assert!(answer.ends_with("done this"), "{answer}");
        assert_eq!(status(&server, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), "200");
        let get = "GET /do?token=secret HTTP/1.1\r\nHost: localhost\r\n\r\n";
        assert_eq!(status(&server, get), "405");
        let long =
            "POST /do?token=secret HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n";
        assert_eq!(status(&server, &format!("{long}{}", "x".repeat(9000))), "413");
    }

    #[test]
    fn who_is_fed_is_not_pushed_out_by_those_who_may_not_be() {
        let (send, parts) = tokio::sync::mpsc::channel(4);
        let feed = std::sync::Mutex::new(Some(Feed { parts, stalled: Arc::default() }));
        let page = || Page { content_type: "text/plain", text: "x".repeat(64 << 20) };
        let routes = vec![
            Route { path: "/page", public: true, handler: Handler::Page(Box::new(page)) },
            Route {
                path: "/feed",
                public: false,
                handler: Handler::Feed(Box::new(move || feed.lock().expect("one").take())),
            },
        ];
        let browsing = Browsing { token: Some("t".to_owned()), ..Browsing::default() };
        let limits = Limits { connections: 3, ..Limits::default() };
        let address = ([127, 0, 0, 1], 0).into();
        let server = HttpServer::start("test", address, routes, browsing, limits).expect("a port");
        let mut viewer = connect(&server);
        let request = b"GET /feed?token=t HTTP/1.1\r\nHost: localhost\r\n\r\n";
        viewer.write_all(request).expect("a request");
        send.blocking_send(Bytes::from_static(b"data: 1\n\n")).expect("it is fed");
        let mut head = [0; 12];
        viewer.read_exact(&mut head).expect("an answer");
        // They ask for what is public, and read nothing of it.
        let _others: Vec<TcpStream> = (0..16)
            .map(|_| {
                let mut stream = connect(&server);
                stream.write_all(b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n").expect("a request");
                stream.read_exact(&mut [0; 12]).expect("the beginning of an answer");
                stream
            })
            .collect();
        send.blocking_send(Bytes::from_static(b"data: 2\n\n")).expect("it is fed");
        drop(send);
        assert!(rest(viewer).contains("data: 2"));
    }

    #[test]
    fn a_feed_goes_on_until_its_sender_ends() {
        let (server, send) = browsed(None);
        let mut stream = connect(&server);
        stream.write_all(b"GET /feed HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("a request");
        send.blocking_send(Bytes::from_static(b"data: 1\n\n")).expect("it is fed");
        send.blocking_send(Bytes::from_static(b"data: 2\n\n")).expect("it is fed");
        drop(send);
        let answer = rest(stream);
        assert!(answer.contains("text/event-stream"), "{answer}");
        assert!(answer.contains("data: 1") && answer.contains("data: 2"), "{answer}");
        assert_eq!(status(&server, "GET /feed HTTP/1.1\r\nHost: localhost\r\n\r\n"), "503");
    }
}
