//! The client against scripted brokers: what is sent, byte for byte where it matters, and what is
//! made of each answer. Clock paused, pipes in memory.

mod admin;
mod broker;
mod fetch;
mod groups;
mod logs;
mod metadata;
mod produce;
mod transaction;
