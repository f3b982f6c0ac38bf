//! The connection to PostgreSQL, tried on a server of its own. Without PostgreSQL these tests are skipped, unless
//! `IDEM_TEST_NEED_POSTGRES=1`.

mod certificates;
mod encryption;
mod login;
mod relay;
mod server;
mod unreachable;
mod working;
