//! Arguments of several commands.
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::net::{SocketAddr, ToSocketAddrs};
use zonal_blk::ZoneWrite;
use zonal_device::quantity::{QuantityError, parse_size};
use zonal_lab::executor::ClockKind;

/// `--clock`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClockArg {
    Real,
    Virtual,
}

impl From<ClockArg> for ClockKind {
    fn from(arg: ClockArg) -> Self {
        match arg {
            ClockArg::Real => ClockKind::Real,
            ClockArg::Virtual => ClockKind::Virtual,
        }
    }
}

/// `--eta`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Eta {
    Auto,
    Always,
    Never,
}

/// Parses `--zone-write`.
pub fn zone_write() -> impl TypedValueParser<Value = ZoneWrite> {
    let value = |policy: ZoneWrite| PossibleValue::new(policy.name()).help(policy.help());
    PossibleValuesParser::new(ZoneWrite::ALL.map(value)).try_map(|name| name.parse())
}

/// Parses an address to listen on. The first address of a host name counts.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected HOST:PORT such as 127.0.0.1:4420 or localhost:4420";
    let mut found = text.to_socket_addrs().map_err(|error| format!("{expected}: {error}"))?;
    found.next().ok_or_else(|| format!("{expected}: the host has no address"))
}

/// Parses a measuring time in seconds.
pub fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected seconds such as 1.5".to_owned())?;
    if (0.0001..=86400.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("expected 0.0001 to 86400 seconds".to_owned())
    }
}

/// Parses a size in bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let expected = |error| match error {
        QuantityError::Malformed => "expected a size such as 4096, 64K or 256M",
        QuantityError::TooLarge => "expected less than 2^64 bytes",
    };
    parse_size(text).map_err(|error| expected(error).to_owned())
}

/// Parses a size, and returns its whole sectors.
pub fn sectors(text: &str) -> Result<u64, String> {
    size(text).map(|bytes| bytes / 512)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_are_resolved() {
        let localhost = address("localhost:4420").unwrap();
        assert!(localhost.ip().is_loopback() && localhost.port() == 4420);
        assert_eq!(address("127.0.0.1:1").unwrap().to_string(), "127.0.0.1:1");
    }
}
