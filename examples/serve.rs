//! A device served over NVMe/TCP in this process: `cargo run --example serve`, then
//! `zonal run --device ADDRESS` or `nvme connect` with the address that it prints, and Ctrl-C.
use zonal_serve::{ServeOptions, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1);
    let name = name.as_deref().unwrap_or("null:zones=64,zone_size=4M,memory=true");
    let options =
        ServeOptions { nvme_tcp: vec!["127.0.0.1:0".parse()?], ..ServeOptions::default() };
    let running = Server::open(name, options)?.start()?;
    println!("{}", running.locations().join("\n"));
    running.wait()?;
    Ok(running.stop()?)
}
