//! `nvme-tcp://HOST:PORT/NQN`: where a device is and what it is called.
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use zonal_nvme::tcp::Digests;

/// What the name of an NVMe/TCP device begins with.
pub const SCHEME: &str = "nvme-tcp://";

/// The longest NVMe Qualified Name, in bytes (Base section 4.5).
const MAX_NQN: usize = 223;

/// What hosts of this program call themselves unless told otherwise, with [`HOST_ID`] as UUID.
const HOST_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:7a6f6e61-6c2d-4e76-8d65-2d686f737400";
/// The host identifier.
pub(super) const HOST_ID: [u8; 16] = *b"\x7a\x6f\x6e\x61\x6c\x2d\x4e\x76\x8d\x65-host\0";

/// An NVMe/TCP device that somebody named, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Host and port, as they were given.
    pub target: String,
    /// The subsystem's NVMe Qualified Name.
    pub nqn: String,
    /// The host's.
    pub host_nqn: String,
    /// The namespace; `None` for the first that there is.
    pub nsid: Option<u32>,
    /// Digests to ask for.
    pub digests: Digests,
    /// A file of secrets to authenticate with.
    pub dhchap_secrets: Option<PathBuf>,
}

/// A name that is none of an NVMe/TCP device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: found `{found}`, expected {expected}")]
pub struct AddressError {
    what: &'static str,
    found: String,
    expected: &'static str,
}

fn wrong(what: &'static str, found: &str, expected: &'static str) -> AddressError {
    AddressError { what, found: found.to_owned(), expected }
}

/// Checks an NVMe Qualified Name.
///
/// # Errors
/// What is wrong with it, as an error about `what`.
pub fn check_nqn(what: &'static str, nqn: &str) -> Result<(), AddressError> {
    let printable = nqn.bytes().all(|byte| byte.is_ascii_graphic());
    if !nqn.starts_with("nqn.") || nqn.len() > MAX_NQN || !printable {
        return Err(wrong(what, nqn, "nqn. and more, up to 223 printable bytes"));
    }
    Ok(())
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        const FORM: &str = "nvme-tcp://HOST:PORT/NQN";
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| wrong("address", text, FORM))?;
        let (target, rest) = rest.split_once('/').ok_or_else(|| wrong("address", text, FORM))?;
        let port = target.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        let (_, port) = port.ok_or_else(|| wrong("host and port", target, "HOST:PORT"))?;
        if !port.parse::<u16>().is_ok_and(|port| port > 0) {
            return Err(wrong("port", port, "a number from 1 to 65535"));
        }
        let (nqn, options) = rest.split_once('?').unwrap_or((rest, ""));
        check_nqn("subsystem", nqn)?;
        let mut address = Address {
            target: target.to_owned(),
            nqn: nqn.to_owned(),
            host_nqn: HOST_NQN.to_owned(),
            nsid: None,
            digests: Digests::default(),
            dhchap_secrets: None,
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            address.set(option)?;
        }
        Ok(address)
    }
}

impl Address {
    fn set(&mut self, option: &str) -> Result<(), AddressError> {
        const OPTIONS: &str = "nsid=NUMBER, hostnqn=NQN, hdgst, ddgst or dhchap_secrets=FILE";
        match option.split_once('=').unwrap_or((option, "")) {
            ("nsid", value) => {
                let nsid = value.parse().ok().filter(|nsid| (1..u32::MAX).contains(nsid));
                self.nsid = Some(nsid.ok_or_else(|| wrong("nsid", value, "a number from 1 on"))?);
            }
            ("hostnqn", value) => {
                check_nqn("hostnqn", value)?;
                value.clone_into(&mut self.host_nqn);
            }
            ("dhchap_secrets", file) if !file.is_empty() => {
                self.dhchap_secrets = Some(file.into());
            }
            ("hdgst", "") => self.digests.header = true,
            ("ddgst", "") => self.digests.data = true,
            _ => return Err(wrong("option", option, OPTIONS)),
        }
        Ok(())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.target, self.nqn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn address_has_host_port_name_and_options() {
        let address: Address = "nvme-tcp://[::1]:4420/nqn.2026-11.org.example:a".parse().unwrap();
        assert_eq!(address.target, "[::1]:4420");
        assert_eq!(address.nqn, "nqn.2026-11.org.example:a");
        assert_eq!((address.nsid, address.digests), (None, Digests::default()));
        let text = "nvme-tcp://h:1/nqn.a?nsid=7&hdgst&ddgst&hostnqn=nqn.b&dhchap_secrets=/etc/s";
        let address: Address = text.parse().unwrap();
        assert_eq!((address.nsid, address.host_nqn.as_str()), (Some(7), "nqn.b"));
        assert_eq!(address.digests, Digests { header: true, data: true });
        assert_eq!(address.dhchap_secrets, Some("/etc/s".into()));
        assert_eq!(address.to_string(), "nvme-tcp://h:1/nqn.a");
    }

    #[test]
    fn wrong_addresses_say_what_was_expected() {
        for (text, expected) in [
            ("nvme-tcp://h:1", "address: found `nvme-tcp://h:1`, expected nvme-tcp://HOST"),
            ("nvme-tcp://h/nqn.a", "host and port: found `h`, expected HOST:PORT"),
            ("nvme-tcp://:1/nqn.a", "host and port: found `:1`, expected HOST:PORT"),
            ("nvme-tcp://h:0/nqn.a", "port: found `0`, expected a number from 1 to 65535"),
            ("nvme-tcp://h:1/", "subsystem: found ``, expected nqn. and more"),
            ("nvme-tcp://h:1/nqn.a?nsid=0", "nsid: found `0`, expected a number from 1 on"),
            ("nvme-tcp://h:1/nqn.a?hostnqn=b", "hostnqn: found `b`, expected nqn. and more"),
            ("nvme-tcp://h:1/nqn.a?x", "option: found `x`, expected nsid=NUMBER"),
            ("nvme-tcp://h:1/nqn.a?dhchap_secrets=", "option: found `dhchap_secrets=`"),
            ("nvme-tcp://h:1/nqn.a?hdgst=1", "option: found `hdgst=1`, expected nsid=NUMBER"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(format!("nvme-tcp://h:1/nqn.{}", "a".repeat(220)).parse::<Address>().is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_an_address_panic(text in "(nvme-tcp://)?[a-z:/?&=.0-9\u{e9}]{0,60}") {
            if let Ok(address) = text.parse::<Address>() {
                prop_assert!(address.to_string().parse::<Address>().is_ok());
            }
        }
    }
}
