//! The parts that the frontends of virtual machines share.
//!
//! ```text
//!  RunningServer  a listening socket, and the thread that has a client
//!  MessageSocket  a client's socket: messages and the descriptors that come with them
//!  GuestMemory    memory that the client shares, by guest address; every access is checked
//!  closer         closes descriptors of clients, which may block
//!  Eventfd        by which guests and servers wake each other
//!  Signals        how the server does that without blocking
//! ```
pub mod closer;
pub mod eventfd;
pub mod memory;
pub mod server;
mod signals;
pub mod socket;

/// Structures of a protocol, to the byte, each with its size.
macro_rules! message {
    ($($(#[$meta:meta])* pub struct $name:ident: $size:literal { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable,
            zerocopy::KnownLayout, zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub struct $name {
            $(pub $field: $type,)*
        }

        const _: () = assert!(size_of::<$name>() == $size);
    )*};
}

pub(super) use message;
