//! Addresses of NVMe/TCP namespaces: `nvme-tcp://HOST:PORT[,HOST:PORT...]/NQN[?OPTIONS]`.
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use zonal_blk::Nanos;
use zonal_device::multipath::{IoPolicy, MAX_PATHS, ReconnectConfig};
use zonal_nvme::tcp::Digests;
use zonal_nvme::tls::IdentityVersion;
use zonal_nvme::wire::is_nqn;

/// The beginning of an address.
pub const SCHEME: &str = "nvme-tcp://";

/// How long a command may take, as in Linux (`nvme_core.io_timeout`).
const IO_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a target that has lost a connection may still execute its commands.
const QUIESCE: Duration = Duration::from_secs(1);

/// The default NQN of the host, with [`HOST_ID`] as UUID.
const HOST_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:7a6f6e61-6c2d-4e76-8d65-2d686f737400";
/// The host identifier.
pub(super) const HOST_ID: [u8; 16] = *b"\x7a\x6f\x6e\x61\x6c\x2d\x4e\x76\x8d\x65-host\0";

/// The address of an NVMe/TCP namespace, with options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Host and port.
    pub target: String,
    /// Host and port of further paths to the subsystem.
    pub more_targets: Vec<String>,
    /// The subsystem's NVMe Qualified Name.
    pub nqn: String,
    /// The host's NVMe Qualified Name.
    pub host_nqn: String,
    /// The namespace; `None` for the first.
    pub nsid: Option<u32>,
    /// Digests to request.
    pub digests: Digests,
    /// A file of secrets for authentication.
    pub dhchap_secrets: Option<PathBuf>,
    /// TLS, if the connections have it.
    pub tls: Option<TlsOptions>,
    /// How the path of a command is chosen.
    pub policy: IoPolicy,
    /// How a lost path is reconnected.
    pub reconnect: ReconnectConfig,
    /// How long a command may take.
    pub io_timeout: Duration,
    /// How long the target may still execute commands of a lost path.
    pub quiesce: Duration,
}

/// How connections use TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// A file of pre-shared keys, by host.
    pub psk: PathBuf,
    /// The form of the identity that the key is offered by.
    pub identity: IdentityVersion,
}

/// Options of TLS, in any order.
#[derive(Default)]
struct GivenTls {
    tls: bool,
    psk: Option<PathBuf>,
    identity: Option<IdentityVersion>,
}

impl GivenTls {
    /// Takes an option. Returns whether it is one of TLS.
    fn set(&mut self, option: &str) -> Result<bool, AddressError> {
        match option.split_once('=').unwrap_or((option, "")) {
            ("tls", "") if option == "tls" => self.tls = true,
            ("tls_psk", file) if !file.is_empty() => self.psk = Some(file.into()),
            ("tls_identity", "0") => self.identity = Some(IdentityVersion::V0),
            ("tls_identity", "1") => self.identity = Some(IdentityVersion::V1),
            ("tls_identity", value) => return Err(wrong("tls_identity", value, "0 or 1")),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn options(self) -> Result<Option<TlsOptions>, AddressError> {
        let identity = self.identity.unwrap_or_default();
        match (self.tls, self.psk) {
            (true, Some(psk)) => Ok(Some(TlsOptions { psk, identity })),
            (true, None) => Err(wrong("tls", "no key", "tls_psk=FILE, too")),
            (false, None) if self.identity.is_none() => Ok(None),
            (false, psk) => {
                let found = if psk.is_some() { "tls_psk=FILE" } else { "tls_identity" };
                Err(wrong("option", found, "tls, too"))
            }
        }
    }
}

/// Why text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what}: found `{found}`, expected {expected}{}",
    zonal_blk::did_you_mean_of(found, expected)
)]
pub struct AddressError {
    what: &'static str,
    found: String,
    expected: &'static str,
}

fn wrong(what: &'static str, found: &str, expected: &'static str) -> AddressError {
    AddressError { what, found: found.to_owned(), expected }
}

/// The form of an NVMe Qualified Name, for errors.
pub const NQN_FORM: &str = "nqn. and more, up to 223 printable bytes";

/// Checks an NVMe Qualified Name.
fn check_nqn(what: &'static str, nqn: &str) -> Result<(), AddressError> {
    if !is_nqn(nqn) {
        return Err(wrong(what, nqn, NQN_FORM));
    }
    Ok(())
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        const FORM: &str = "nvme-tcp://HOST:PORT[,HOST:PORT...]/NQN";
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| wrong("address", text, FORM))?;
        let (targets, rest) = rest.split_once('/').ok_or_else(|| wrong("address", text, FORM))?;
        let mut more_targets = Vec::new();
        for target in targets.split(',') {
            check_target(target)?;
            if more_targets.iter().any(|other| other == target) {
                return Err(wrong("host and port", target, "each path once"));
            }
            more_targets.push(target.to_owned());
        }
        if more_targets.len() > MAX_PATHS {
            return Err(wrong("address", targets, "up to 16 of HOST:PORT"));
        }
        let target = more_targets.remove(0);
        let (nqn, options) = rest.split_once('?').unwrap_or((rest, ""));
        check_nqn("subsystem", nqn)?;
        let mut address = Address {
            target,
            more_targets,
            nqn: nqn.to_owned(),
            host_nqn: HOST_NQN.to_owned(),
            nsid: None,
            digests: Digests::default(),
            dhchap_secrets: None,
            tls: None,
            policy: IoPolicy::default(),
            reconnect: ReconnectConfig::default(),
            io_timeout: IO_TIMEOUT,
            quiesce: QUIESCE,
        };
        let mut tls = GivenTls::default();
        for option in options.split('&').filter(|option| !option.is_empty()) {
            if !tls.set(option)? {
                address.set(option)?;
            }
        }
        address.tls = tls.options()?;
        Ok(address)
    }
}

fn check_target(target: &str) -> Result<(), AddressError> {
    let port = target.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let (_, port) = port.ok_or_else(|| wrong("host and port", target, "HOST:PORT"))?;
    if !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err(wrong("port", port, "a number from 1 to 65535"));
    }
    Ok(())
}

/// The longest time that an option can have, in seconds: 30 days.
const MAX_SECONDS: u32 = 30 * 24 * 3600;

fn seconds(what: &'static str, value: &str, min: u32) -> Result<u32, AddressError> {
    let expected = if min == 0 { "seconds from 0 to 2592000" } else { "seconds from 1 to 2592000" };
    let number = value.parse().ok().filter(|number| (min..=MAX_SECONDS).contains(number));
    number.ok_or_else(|| wrong(what, value, expected))
}

fn nanos(seconds: u32) -> Nanos {
    Nanos(u64::from(seconds) * 1_000_000_000)
}

impl Address {
    /// One address for each path.
    pub fn paths(&self) -> impl Iterator<Item = Address> {
        let all = std::iter::once(&self.target).chain(&self.more_targets);
        all.map(|target| Address {
            target: target.clone(),
            more_targets: Vec::new(),
            ..self.clone()
        })
    }

    fn set(&mut self, option: &str) -> Result<(), AddressError> {
        const OPTIONS: &str = "nsid=NUMBER, hostnqn=NQN, hdgst, ddgst, dhchap_secrets=FILE, \
                               tls, tls_psk=FILE, tls_identity=0|1, iopolicy=POLICY, reconnect_delay=S, ctrl_loss_tmo=S, io_timeout=S \
                               or quiesce=S";
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
            ("iopolicy", value) => {
                const POLICIES: &str = "numa, round-robin or queue-depth";
                self.policy = value.parse().map_err(|_| wrong("iopolicy", value, POLICIES))?;
            }
            ("reconnect_delay", value) => {
                self.reconnect.delay = nanos(seconds("reconnect_delay", value, 1)?);
            }
            ("ctrl_loss_tmo", "-1") => self.reconnect.ctrl_loss_tmo = None,
            ("ctrl_loss_tmo", value) => {
                let timeout = seconds("ctrl_loss_tmo", value, 0).map_err(|_| {
                    wrong("ctrl_loss_tmo", value, "seconds from 0 to 2592000, or -1 for ever")
                })?;
                self.reconnect.ctrl_loss_tmo = Some(nanos(timeout));
            }
            ("io_timeout", value) => {
                self.io_timeout = Duration::from_secs(seconds("io_timeout", value, 1)?.into());
            }
            ("quiesce", value) => {
                self.quiesce = Duration::from_secs(seconds("quiesce", value, 0)?.into());
            }
            _ => return Err(wrong("option", option, OPTIONS)),
        }
        Ok(())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.target)?;
        self.more_targets.iter().try_for_each(|target| write!(f, ",{target}"))?;
        write!(f, "/{}", self.nqn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn address_has_host_port_nqn_and_options() {
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
    fn address_has_several_paths_and_multipath_options() {
        let text = "nvme-tcp://h:1,[::1]:2,i:3/nqn.a";
        let address: Address = text.parse().unwrap();
        assert_eq!(address.to_string(), text);
        assert_eq!((address.target.as_str(), address.more_targets.len()), ("h:1", 2));
        let paths: Vec<String> = address.paths().map(|path| path.to_string()).collect();
        assert_eq!(paths[1..], ["nvme-tcp://[::1]:2/nqn.a", "nvme-tcp://i:3/nqn.a"]);
        assert_eq!(address.policy, IoPolicy::Numa);
        assert_eq!(address.reconnect, ReconnectConfig::default());
        assert_eq!(address.io_timeout, Duration::from_secs(30));
        let text = "nvme-tcp://h:1/nqn.a?iopolicy=round-robin&reconnect_delay=2&ctrl_loss_tmo=7\
                    &io_timeout=5&quiesce=0";
        let address: Address = text.parse().unwrap();
        assert_eq!(address.policy, IoPolicy::RoundRobin);
        let (delay, timeout) = (Nanos(2_000_000_000), Some(Nanos(7_000_000_000)));
        assert_eq!(address.reconnect, ReconnectConfig { delay, ctrl_loss_tmo: timeout });
        assert_eq!((address.io_timeout.as_secs(), address.quiesce.as_secs()), (5, 0));
        let address: Address = "nvme-tcp://h:1/nqn.a?ctrl_loss_tmo=-1".parse().unwrap();
        assert_eq!(address.reconnect.ctrl_loss_tmo, None);
    }

    #[test]
    fn address_has_options_of_tls() {
        let address: Address = "nvme-tcp://h:1/nqn.a?tls&tls_psk=/etc/k".parse().unwrap();
        let tls = |identity| Some(TlsOptions { psk: "/etc/k".into(), identity });
        assert_eq!(address.tls, tls(IdentityVersion::V1));
        let text = "nvme-tcp://h:1,i:1/nqn.a?tls_identity=0&tls_psk=/etc/k&tls";
        let address: Address = text.parse().unwrap();
        assert_eq!(address.tls, tls(IdentityVersion::V0));
        assert!(address.paths().all(|path| path.tls == address.tls));
        assert_eq!("nvme-tcp://h:1/nqn.a".parse::<Address>().unwrap().tls, None);
    }

    #[test]
    fn errors_name_the_nearest_option_and_word() {
        for (option, near) in [
            ("iopolcy=numa", "iopolicy"),
            ("iopolicy=round-robbin", "round-robin"),
            ("hdgts", "hdgst"),
        ] {
            let error = format!("nvme-tcp://h:1/nqn.a?{option}").parse::<Address>().unwrap_err();
            assert!(error.to_string().ends_with(&format!(", did you mean `{near}`?")), "{error}");
        }
    }

    #[test]
    fn errors_name_what_was_expected() {
        for (text, expected) in [
            ("nvme-tcp://h:1", "address: found `nvme-tcp://h:1`, expected nvme-tcp://HOST"),
            ("nvme-tcp://h/nqn.a", "host and port: found `h`, expected HOST:PORT"),
            ("nvme-tcp://:1/nqn.a", "host and port: found `:1`, expected HOST:PORT"),
            ("nvme-tcp://h:0/nqn.a", "port: found `0`, expected a number from 1 to 65535"),
            ("nvme-tcp://h:1/", "subsystem: found ``, expected nqn. and more"),
            ("nvme-tcp://h:1/nqn.a?nsid=0", "nsid: found `0`, expected a number from 1 on"),
            ("nvme-tcp://h:1/nqn.a?hostnqn=b", "hostnqn: found `b`, expected nqn. and more"),
            ("nvme-tcp://h:1,/nqn.a", "host and port: found ``, expected HOST:PORT"),
            ("nvme-tcp://h:1,h:1/nqn.a", "host and port: found `h:1`, expected each path once"),
            (
                "nvme-tcp://h:1/nqn.a?iopolicy=best",
                "iopolicy: found `best`, expected numa, round-robin or queue-depth",
            ),
            (
                "nvme-tcp://h:1/nqn.a?reconnect_delay=0",
                "reconnect_delay: found `0`, expected seconds from 1 to 2592000",
            ),
            (
                "nvme-tcp://h:1/nqn.a?ctrl_loss_tmo=-2",
                "ctrl_loss_tmo: found `-2`, expected seconds from 0 to 2592000, or -1 for ever",
            ),
            ("nvme-tcp://h:1/nqn.a?io_timeout=0", "io_timeout: found `0`, expected seconds from 1"),
            ("nvme-tcp://h:1/nqn.a?quiesce=x", "quiesce: found `x`, expected seconds from 0"),
            ("nvme-tcp://h:1/nqn.a?x", "option: found `x`, expected nsid=NUMBER"),
            ("nvme-tcp://h:1/nqn.a?tls", "tls: found `no key`, expected tls_psk=FILE, too"),
            ("nvme-tcp://h:1/nqn.a?tls=1&tls_psk=k", "option: found `tls=1`, expected nsid"),
            ("nvme-tcp://h:1/nqn.a?tls=&tls_psk=k", "option: found `tls=`, expected nsid"),
            ("nvme-tcp://h:1/nqn.a?tls_psk=k", "option: found `tls_psk=FILE`, expected tls, too"),
            ("nvme-tcp://h:1/nqn.a?tls&tls_psk=", "option: found `tls_psk=`, expected nsid"),
            ("nvme-tcp://h:1/nqn.a?tls_identity=1", "option: found `tls_identity`, expected tls"),
            ("nvme-tcp://h:1/nqn.a?tls_identity=2", "tls_identity: found `2`, expected 0 or 1"),
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
        fn parsing_never_panics(text in "(nvme-tcp://)?[a-z:,/?&=.0-9\u{e9}]{0,60}") {
            if let Ok(address) = text.parse::<Address>() {
                prop_assert!(address.to_string().parse::<Address>().is_ok());
            }
        }
    }
}
