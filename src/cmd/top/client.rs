//! What executes commands, in a thread of its own: they are executed one after the other, and a device
//! may keep one waiting.
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

/// What the thread is to do.
enum Order {
    /// Get a view of a device with this part of the zones.
    View(usize, MapRange),
    /// Execute a command on a device.
    Command(usize, Vec<String>),
}

/// What has become of an order.
pub enum News {
    /// A view of a device, with the part of the zones that was asked for.
    View(usize, MapRange, Box<View>),
    /// A command was executed, or refused for a reason.
    Done(Result<Value, String>),
}

/// The thread. It ends with its owner, or with an error.
pub struct Client {
    orders: Sender<Order>,
    news: Receiver<Result<News>>,
}

impl Client {
    /// Starts the thread.
    ///
    /// # Errors
    /// There is no memory for a thread.
    pub fn start(mut execute: Execute) -> Result<Self> {
        let (orders, received) = mpsc::channel();
        let (tell, news) = mpsc::channel();
        let work = move || {
            for order in received {
                let done = match order {
                    Order::View(device, range) => view(&mut execute, device, range)
                        .map(|view| News::View(device, range, Box::new(view))),
                    Order::Command(device, words) => execute(device, &words).map(News::Done),
                };
                let failed = done.is_err();
                if tell.send(done).is_err() || failed {
                    return;
                }
            }
        };
        thread::Builder::new().name("client".to_owned()).spawn(work)?;
        Ok(Client { orders, news })
    }

    /// Asks for a view of a device.
    pub fn ask(&self, device: usize, range: MapRange) {
        self.order(Order::View(device, range));
    }

    /// Has a command executed on a device.
    pub fn send(&self, device: usize, command: Vec<String>) {
        self.order(Order::Command(device, command));
    }

    fn order(&self, order: Order) {
        // If the thread has ended, its last news say why.
        let _ = self.orders.send(order);
    }

    /// What has happened, if something has.
    ///
    /// # Errors
    /// The server has ended or refuses views.
    pub fn news(&self) -> Result<Option<News>> {
        match self.news.try_recv() {
            Ok(news) => news.map(Some),
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
