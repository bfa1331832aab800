//! Data structures of Identify (Base section 5.17.2), 4096 bytes each.
mod controller;
mod namespace;

pub use controller::{IdentifyController, NvmController, ZnsController};
pub use namespace::{
    IdDescriptor, IdentifyNamespace, IndependentNamespace, LbaFormat, NamespaceList, NvmNamespace,
    ZnsFormat, ZnsNamespace, id_type,
};
