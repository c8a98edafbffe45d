//! The map against a naive model that holds every record.

mod exhaustive;
mod histories;
mod model;
