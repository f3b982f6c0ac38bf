//! The store in a PostgreSQL database.
//!
//! Invariant: nothing of a place that is shown, logged or told in an error has the password in it.

mod certificate;
pub mod connection;
mod dial;
mod passfile;
pub mod place;
mod tls;
pub mod trouble;
mod url;

pub use connection::Connection;
pub use place::PostgresPlace;
pub use trouble::Trouble;
