//! Images on a file that loses and tears unsynced writes.
mod checksums;
mod damage;
mod flips;
mod flush;
mod kept;
mod killed;
mod medium;
mod model;
mod power_loss;
mod reads;
mod space;
mod truncated;
