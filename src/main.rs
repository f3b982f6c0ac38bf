//! The binary: parse, dispatch, exit. The only caller of `process::exit`.

use std::ffi::OsString;

use idem::{cli, commands};

fn main() {
    let args: Vec<OsString> = std::env::args_os().collect();
    let code = match cli::parse(&args) {
        Ok(parsed) => commands::dispatch(parsed),
        Err(error) => commands::not_parsed(&args, &error),
    };
    // No value is dropped on the way: the kernel closes and unlocks everything at once.
    std::process::exit(i32::from(code))
}
