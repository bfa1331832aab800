//! The connection to the server, in a thread of its own: commands are executed one after the other, and
//! a device may keep one waiting.
use anyhow::{Result, bail};
use serde_json::Value;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;
use zonal_host::control::{ControlClient, MapRange, View};

/// What the thread is to do.
enum Order {
    /// Get a view with this part of the zones.
    View(MapRange),
    /// Execute a command.
    Command(Vec<String>),
}

/// What has become of an order.
pub enum News {
    /// A view, with the part of the zones that was asked for.
    View(MapRange, Box<View>),
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
    pub fn start(mut connection: ControlClient, device: usize) -> Result<Self> {
        let (orders, received) = mpsc::channel();
        let (tell, news) = mpsc::channel();
        let work = move || {
            for order in received {
                let done = match order {
                    Order::View(range) => view(&mut connection, device, range)
                        .map(|view| News::View(range, Box::new(view))),
                    Order::Command(words) => {
                        connection.send(device, &words).map(News::Done).map_err(Into::into)
                    }
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

    /// Asks for a view.
    pub fn ask(&self, range: MapRange) {
        self.order(Order::View(range));
    }

    /// Has a command executed.
    pub fn send(&self, command: Vec<String>) {
        self.order(Order::Command(command));
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
pub fn view(connection: &mut ControlClient, device: usize, range: MapRange) -> Result<View> {
    let MapRange { first, per_cell, cells } = range;
    let words = ["view".to_owned(), first.to_string(), per_cell.to_string(), cells.to_string()];
    match connection.send(device, &words)? {
        Ok(view) => Ok(serde_json::from_value(view)?),
        Err(error) => bail!("{error}"),
    }
}
