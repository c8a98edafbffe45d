//! Development only: a foreign client against the embedded cluster.
//!
//! twinlog's own client and its embedded cluster use one codec library and were written by the same
//! people: what both understand wrongly, their tests cannot show. librdkafka shares nothing with them.
//! It is compiled from C, so it lives in a member of its own that nothing depends on and that is not
//! among the default members: `cargo build` compiles none of it, `cargo test --workspace` does.
//!
//! All there is are the tests.
