//! The structures that host and controller exchange, to the byte.
//!
//! Any bytes of the right length are a structure, without copying or checking; the user of a field
//! checks its value. Sizes are checked at compile time, numbers are little endian on every machine,
//! and there is no padding.
//!
//! The specifications, as cited: *Base* is the NVM Express Base
//! Specification 2.0, *Base 2.1* its successor of 2024, *NVM* the NVM Command Set Specification 1.0, *ZNS* the Zoned Namespace
//! Command Set Specification 1.1, *TCP* the TCP Transport Specification 1.0.
pub mod admin;
pub mod auth;
pub mod fabrics;
pub mod identify;
pub mod io;
pub mod log;
pub mod opcode;
pub mod pcie;
pub mod placement;
pub mod queue;
pub mod zone;

pub use queue::{Cqe, Sgl, Sqe};
pub use zerocopy::little_endian::{U16, U32, U64, U128};

/// Declares wire structures: C layout, any bytes valid, the size in bytes checked when compiled.
macro_rules! wire {
    ($($(#[$meta:meta])* pub struct $name:ident: $size:literal {
        $($(#[$field_meta:meta])* $visibility:vis $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable,
            zerocopy::KnownLayout, zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_meta])* $visibility $field: $type,)*
        }

        impl $name {
            /// The structure's size in bytes.
            pub const SIZE: usize = $size;

            /// The structure with all bytes zero.
            pub fn zeroed() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }

        const _: () = assert!(size_of::<$name>() == $size);
    )*};
}
pub(crate) use wire;

/// Declares commands: wire structures of 64 bytes that other views of the same entry convert to
/// and from.
macro_rules! command {
    ($($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$field_meta:meta])* $visibility:vis $field:ident: $type:ty,)*
    })*) => {
        $crate::wire::wire! {$(
            $(#[$meta])*
            pub struct $name: 64 {
                $($(#[$field_meta])* $visibility $field: $type,)*
            }
        )*}
        $(
            impl From<$crate::wire::Sqe> for $name {
                #[inline]
                fn from(sqe: $crate::wire::Sqe) -> Self {
                    zerocopy::transmute!(sqe)
                }
            }

            impl From<$name> for $crate::wire::Sqe {
                #[inline]
                fn from(command: $name) -> Self {
                    zerocopy::transmute!(command)
                }
            }
        )*
    };
}
pub(crate) use command;

/// Declares newtypes for values of a field: named ones, and whatever else a peer sends.
macro_rules! values {
    ($($(#[$meta:meta])* pub struct $name:ident($inner:ty) {
        $($(#[$value_meta:meta])* $value:ident = $number:expr,)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            $($(#[$value_meta])* pub const $value: $name = $name($number);)*

            /// The names of the values that the specification gives one.
            pub const NAMED: &'static [($name, &'static str)] =
                &[$(($name::$value, stringify!($value))),*];
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match Self::NAMED.iter().find(|(value, _)| value == self) {
                    Some((_, name)) => f.write_str(name),
                    None => write!(f, "{}({:#x})", stringify!($name), self.0),
                }
            }
        }
    )*};
}
pub(crate) use values;

/// Text in a field of fixed length, padded with spaces (Base section 1.4.2, ASCII strings).
pub fn padded<const N: usize>(text: &str) -> [u8; N] {
    filled(text, b' ')
}

/// Text in a field of fixed length, padded with zeroes, as NVMe Qualified Names are (Base section
/// 4.5). It is cut so that a zero is left.
pub fn terminated<const N: usize>(text: &str) -> [u8; N] {
    let mut field = filled(text, 0);
    field[N - 1] = 0;
    field
}

fn filled<const N: usize>(text: &str, padding: u8) -> [u8; N] {
    let mut field = [padding; N];
    let len = text.len().min(N);
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
    field
}

/// The longest NVMe Qualified Name, in bytes (Base section 4.5).
const MAX_NQN: usize = 223;

/// Whether a text can be an NVMe Qualified Name: `nqn.` and more, up to 223 printable bytes. The date
/// and the domain of Base section 4.5 are not required, as hosts in use do not have them.
pub fn is_nqn(name: &str) -> bool {
    let rest = name.strip_prefix("nqn.").unwrap_or_default();
    !rest.is_empty() && name.len() <= MAX_NQN && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The NVMe Qualified Name in a field, which a zero has to end.
pub fn nqn(field: &[u8; 256]) -> Option<&str> {
    let end = field.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&field[..end]).ok().filter(|name| is_nqn(name))
}

/// The NQN of a host in the data of Connect, `""` for a host that names none; `None` if it is malformed.
pub fn host_nqn(field: &[u8; 256]) -> Option<&str> {
    if field[0] == 0 { Some("") } else { nqn(field) }
}

/// The text of a field that is padded with zeroes or spaces; `None` if it is not UTF-8.
pub fn text(field: &[u8]) -> Option<&str> {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    Some(std::str::from_utf8(&field[..end]).ok()?.trim_end_matches(' '))
}
