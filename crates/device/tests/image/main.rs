//! Images on a file that loses and tears what was not synchronised.
mod medium;
mod model;
mod power_loss;
