//! Images on a file that loses and tears what was not synchronised.
mod damage;
mod medium;
mod model;
mod power_loss;
mod space;
