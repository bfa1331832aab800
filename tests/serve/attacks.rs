//! Clients that hold on to the metrics server: scraping goes on, and the server still ends.
use super::{Server, fine, ran};
use rustix::process::Signal;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tempfile::TempDir;

const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: zonal\r\n\r\n";

/// A server of an image with metrics.
struct Victim {
    server: Server,
    metrics: String,
    image: String,
    _dir: TempDir,
}

impl Victim {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let image = dir.path().join("disk.img").to_str().expect("UTF-8").to_owned();
        fine(&["create", &image, "--profile", "null:zones=16,zone_size=1M,max_open=4,lba=4096"]);
        let exports = ["--nvme-tcp", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
        let mut server = Server::start(&[&[image.as_str()][..], &exports].concat());
        let url = server.line();
        let metrics = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics"));
        let metrics = metrics.expect("the address of the metrics").to_owned();
        Victim { server, metrics, image, _dir: dir }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.metrics).expect("the server listens")
    }

    fn scrape(&self) {
        let mut stream = self.connect();
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        stream.write_all(REQUEST).expect("a request");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer, and the end");
        let text = String::from_utf8(bytes).expect("UTF-8");
        assert!(text.starts_with("HTTP/1.1 200") && text.contains("zonal_zones{"), "{text}");
    }

    /// Scrapes and ends the server while `attackers` are connected.
    fn survives(self, attackers: Vec<TcpStream>) {
        for _ in 0..3 {
            self.scrape();
        }
        let (code, _, err) = self.server.end_within(Duration::from_secs(20), Signal::TERM);
        assert_eq!(code, Some(0), "{err}");
        drop(attackers);
        let (code, out, err) = ran(&["zone", "report", &self.image]);
        assert_eq!(code, 0, "the image is locked: {out}{err}");
    }
}

#[test]
fn bodies_that_never_come() {
    let victim = Victim::start();
    let attacker = |_| {
        let mut stream = victim.connect();
        let head = "POST /metrics HTTP/1.1\r\nHost: zonal\r\nContent-Length: 1000000\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("a request");
        stream
    };
    let attackers = (0..16).map(attacker).collect();
    victim.survives(attackers);
}

#[test]
fn pipelined_requests_whose_answers_are_never_read() {
    let victim = Victim::start();
    let attacker = |_| {
        let mut stream = victim.connect();
        stream.set_write_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        let requests = REQUEST.repeat(100);
        for _ in 0..1000 {
            match stream.write_all(&requests) {
                Ok(()) => {}
                // The server reads no more, or has closed the connection.
                Err(error) => {
                    assert_ne!(error.kind(), ErrorKind::InvalidInput, "{error}");
                    break;
                }
            }
        }
        stream
    };
    let attackers = (0..8).map(attacker).collect();
    victim.survives(attackers);
}

#[test]
fn idle_connections() {
    let victim = Victim::start();
    let attackers = (0..550).map(|_| victim.connect()).collect();
    victim.survives(attackers);
}
