//! The contract of `Store`, by the same generic test as every other implementation.

use idem::store::postgres::{PostgresPlace, PostgresStore};

use crate::contract::{self, Stores};
use crate::server::Server;

/// A database of its own on the server that all tests share; `None` where there is no server.
struct Database(Option<String>);

impl Stores for Database {
    type Store = PostgresStore;

    fn new() -> Self {
        Database(Server::shared().map(|server| server.url(&server.database())))
    }

    fn is_here() -> bool {
        Server::shared().is_some()
    }

    fn open(&self) -> PostgresStore {
        let url = self.0.as_deref().expect("a server");
        let place = PostgresPlace::parse(url, &|_| None, None).expect("a place");
        PostgresStore::open(&place).expect("the store opens")
    }
}

contract::tests!(super::Database);
