//! Executes commands in a thread of its own, one after the other: a device may keep one waiting.
use anyhow::{Result, bail};
use serde_json::Value;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;
use zonal_serve::control::{Command, ControlClient, DeviceManager, MapRange, View};

/// Executes a command on a device, counted from 1. The result is what became of it, the error that
/// nothing can be executed any more.
pub type Execute = Box<dyn FnMut(usize, &[String]) -> Result<Result<Value, String>> + Send>;

/// Has a server execute commands.
pub fn remote(mut connection: ControlClient) -> Execute {
    Box::new(move |device, words| Ok(connection.send(device, words)?))
}

/// Executes commands on devices of this program.
pub fn local(manager: DeviceManager) -> Execute {
    Box::new(move |device, words| {
        let command = Command::parse(words).map_err(|error| error.to_string());
        Ok(command.and_then(|command| manager.execute(device, command)))
    })
}

/// Work for the thread.
enum Request {
    /// Get a view of a device with this part of the zones.
    View(usize, MapRange),
    /// Execute a command on a device.
    Command(usize, Vec<String>),
}

/// The result of a request.
pub enum Response {
    /// A view of a device, with the part of the zones that was asked for.
    View(usize, MapRange, Box<View>),
    /// A command was executed, or refused for a reason.
    Done(Result<Value, String>),
}

/// The thread. It ends with its owner, or with an error.
pub struct Client {
    requests: Sender<Request>,
    responses: Receiver<Result<Response>>,
}

impl Client {
    /// Starts the thread.
    ///
    /// # Errors
    /// There is no memory for a thread.
    pub fn start(mut execute: Execute) -> Result<Self> {
        let (requests, received) = mpsc::channel();
        let (sender, responses) = mpsc::channel();
        let work = move || {
            for request in received {
                let done = match request {
                    Request::View(device, range) => view(&mut execute, device, range)
                        .map(|view| Response::View(device, range, Box::new(view))),
                    Request::Command(device, words) => execute(device, &words).map(Response::Done),
                };
                let failed = done.is_err();
                if sender.send(done).is_err() || failed {
                    return;
                }
            }
        };
        thread::Builder::new().name("client".to_owned()).spawn(work)?;
        Ok(Client { requests, responses })
    }

    /// Requests a view of a device.
    pub fn request_view(&self, device: usize, range: MapRange) {
        self.request(Request::View(device, range));
    }

    /// Has a command executed on a device.
    pub fn send(&self, device: usize, command: Vec<String>) {
        self.request(Request::Command(device, command));
    }

    fn request(&self, request: Request) {
        // If the thread has ended, its last response says why.
        let _ = self.requests.send(request);
    }

    /// The next response, if one has come.
    ///
    /// # Errors
    /// The server has ended or refuses views.
    pub fn response(&self) -> Result<Option<Response>> {
        match self.responses.try_recv() {
            Ok(response) => response.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => bail!("the connection has ended"),
        }
    }
}

/// Gets a view.
///
/// # Errors
/// The server has ended, or there is no such device.
pub fn view(execute: &mut Execute, device: usize, range: MapRange) -> Result<View> {
    let MapRange { first, per_cell, cells } = range;
    let words = ["view".to_owned(), first.to_string(), per_cell.to_string(), cells.to_string()];
    match execute(device, &words)? {
        Ok(view) => Ok(serde_json::from_value(view)?),
        Err(error) => bail!("{error}"),
    }
}
