//! The ordinary flash drive: the same NAND as a ZNS drive, below a translation layer.
//!
//! ```text
//!  host's pages --> translation    where each page is, in which superblock; what is collected
//!                closed_forms      the write amplification that follows, where theory has it
//! ```
pub mod closed_forms;
pub mod translation;
