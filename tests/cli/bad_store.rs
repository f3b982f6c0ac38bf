//! Bad surroundings: what can't be claimed doesn't run, and the message says so.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use nix::unistd::Uid;

use crate::env::{Answer, Call, TestEnv, copy_of_idem, mode_of, set_mode};

/// A command that must not be run, against this store; it must refuse, naming the store or its folder.
#[track_caller]
fn refused(env: &TestEnv, store: &Path) -> Answer {
    refused_call(env, env.run("t").args(["--store".as_ref(), store.as_os_str()]))
}

#[track_caller]
fn refused_call(env: &TestEnv, call: Call<'_>) -> Answer {
    let answer = call.counting("true").answer();
    answer.refuses();
    assert_eq!(env.runs(), 0, "nothing is run\n{answer}");
    answer
}

/// Runs some calls, so that there is a store with claims in it and nothing left in its log.
fn filled(env: &TestEnv) {
    for n in 0..20 {
        env.run("before").params(&n.to_string()).script("seq 100").answer().exits(0);
    }
    env.tamper("PRAGMA wal_checkpoint(TRUNCATE)");
}

#[expect(clippy::print_stderr, reason = "who runs the tests has to know what was left out")]
fn is_root() -> bool {
    let root = Uid::effective().is_root();
    if !root {
        eprintln!("this part of the test needs root");
    }
    root
}

#[test]
fn the_default_store_is_made_for_its_owner_only() {
    let env = TestEnv::new();
    let loose = ["sh", "-c", "umask 0; exec \"$0\" \"$@\""];
    env.run("t").script("true").under(loose).answer().exits(0);
    let folder = env.state_home().join("idem");
    assert_eq!(mode_of(&folder), 0o700);
    let files: Vec<_> = fs::read_dir(&folder).expect("the store's folder").flatten().map(|file| file.path()).collect();
    assert!(files.contains(&env.store()), "{files:?}");
    for file in files {
        assert_eq!(mode_of(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn an_explicit_store_is_made_for_its_owner_only_and_its_folder_is_left_as_it_was() {
    let env = TestEnv::new();
    let folder = env.file("ledger");
    fs::create_dir(&folder).expect("a folder");
    set_mode(&folder, 0o755);
    env.run("t").var("IDEM_STORE", folder.join("own.db")).script("true").answer().exits(0);
    assert_eq!(mode_of(&folder), 0o755);
    assert_eq!(mode_of(&folder.join("own.db")), 0o600);
}

#[test]
fn without_a_state_home_the_store_is_under_home() {
    let env = TestEnv::new();
    env.run("t").no_var("XDG_STATE_HOME").script("true").answer().exits(0);
    assert!(env.home().join(".local/state/idem/idem.db").is_file());
    assert!(!env.store().exists());
}

#[test]
fn no_home_is_refused_unless_a_store_is_named() {
    let env = TestEnv::new();
    let homeless = || env.run("t").no_var("XDG_STATE_HOME").no_var("HOME");
    refused_call(&env, homeless()).says("HOME").says("--store");
    refused_call(&env, homeless().var("HOME", "")).says("HOME");
    homeless().args(["--store", "own.db"]).script("true").answer().exits(0);
}

#[test]
fn a_state_home_alone_is_enough() {
    let env = TestEnv::new();
    env.run("t").no_var("HOME").script("true").answer().exits(0);
    assert!(env.store().is_file());
}

#[test]
fn a_folder_that_is_missing_is_refused_and_not_made() {
    let env = TestEnv::new();
    let store = env.file("mistyped/idem.db");
    refused(&env, &store).says("mistyped");
    assert!(!env.has("mistyped"), "a mistyped path would be another ledger");
    refused_call(&env, env.run("t").var("IDEM_STORE", &store)).says("mistyped");
    refused_call(&env, env.run("t").var("IDEM_STORE", ""));
}

/// A mistyped path in a folder that is there would be another ledger, and its calls would all be new.
#[test]
fn who_makes_a_store_at_a_place_that_was_named_says_so_once() {
    let env = TestEnv::new();
    let told = env.file("told.db");
    let call = |options: &[&str]| {
        env.run("t").var("IDEM_STORE", &told).args(options.iter().copied()).counting("true").answer()
    };
    call(&[]).exits(0).says("there was no store").says("told.db").says("knows of no earlier call");
    call(&[]).exits(0).is_a_replay().does_not_say("there was no store");
    fs::remove_file(&told).expect("the store");
    let _ = fs::remove_file(env.file("told.db-wal"));
    call(&["--quiet"]).exits(0).says_exactly("");
    env.run("t").counting("true").answer().exits(0).says_exactly("");
    assert_eq!(env.runs(), 3, "three stores, the default one among them");
}

#[test]
fn a_folder_that_others_can_write_to_is_refused() {
    let env = TestEnv::new();
    let folder = env.file("ledger");
    fs::create_dir(&folder).expect("a folder");
    for mode in [0o770, 0o707, 0o777, 0o1777] {
        set_mode(&folder, mode);
        refused(&env, &folder.join("idem.db"))
            .says("ledger")
            .says("can be written by other users")
            .says("folder of your own");
        assert!(!folder.join("idem.db").exists());
    }
}

#[test]
fn a_default_folder_that_others_can_write_to_is_refused() {
    let env = TestEnv::new();
    filled(&env);
    set_mode(&env.state_home().join("idem"), 0o777);
    refused_call(&env, env.run("t"));
    // Not even what is recorded is given back from where anybody could have written it.
    env.run("before").params("0").script("seq 100").answer().refuses();
}

#[test]
fn a_store_that_others_can_write_to_is_refused() {
    let env = TestEnv::new();
    filled(&env);
    set_mode(&env.store(), 0o666);
    refused_call(&env, env.run("t")).says("idem.db");
}

#[test]
fn a_folder_of_somebody_else_is_refused() {
    if is_root() {
        let env = TestEnv::new();
        let folder = env.file("ledger");
        fs::create_dir(&folder).expect("a folder");
        set_mode(&folder, 0o700);
        chown(&folder, Some(65534), Some(65534)).expect("a folder of somebody else");
        refused(&env, &folder.join("idem.db")).says("ledger").says("own");
    }
}

#[test]
fn a_store_of_somebody_else_is_refused() {
    if is_root() {
        let env = TestEnv::new();
        filled(&env);
        chown(env.store(), Some(65534), Some(65534)).expect("a store of somebody else");
        refused_call(&env, env.run("t")).says("idem.db").says("own");
    }
}

#[test]
fn a_read_only_folder_is_refused() {
    let env = TestEnv::new();
    let folder = env.file("ledger");
    fs::create_dir(&folder).expect("a folder");
    let call = || env.run("t").args(["--store".as_ref(), folder.join("idem.db").as_os_str()]);
    if Uid::effective().is_root() {
        // No mode stops root, so somebody else has to try, who needs a way in and a copy that may be run.
        for entered in [env.home().parent().expect("the test's folder"), &env.work()] {
            set_mode(entered, 0o755);
        }
        let copy = copy_of_idem(&env.work());
        chown(&folder, Some(65534), Some(65534)).expect("their folder");
        set_mode(&folder, 0o555);
        let answer = call().by_user(65534, copy).script("echo ran").answer();
        answer.refuses().says("ledger");
    } else {
        set_mode(&folder, 0o555);
        call().script("echo ran").answer().refuses().says("ledger");
    }
}

#[test]
fn a_folder_in_the_stores_place_is_refused() {
    let env = TestEnv::new();
    fs::create_dir_all(env.store()).expect("a folder");
    set_mode(&env.state_home().join("idem"), 0o700);
    refused_call(&env, env.run("t")).says("idem.db").says("file");
    refused(&env, &env.work()).says("file");
    refused(&env, Path::new("/dev/null"));
}

#[test]
fn an_empty_file_in_the_stores_place_is_refused() {
    let env = TestEnv::new();
    filled(&env);
    fs::write(env.store(), "").expect("a truncated store");
    refused_call(&env, env.run("t")).says("idem.db").says("empty");
    assert_eq!(fs::read(env.store()).expect("it").len(), 0, "it isn't written over");
}

#[test]
fn a_store_that_was_cut_off_is_refused() {
    for part in [100, 4096, 4096 * 3, 4096 * 3 + 17] {
        let env = TestEnv::new();
        filled(&env);
        let whole = fs::read(env.store()).expect("a store");
        assert!(whole.len() > part, "the store is longer than {part}: {}", whole.len());
        fs::write(env.store(), &whole[..part]).expect("a truncated store");
        refused_call(&env, env.run("t")).says("idem.db");
        assert_eq!(fs::read(env.store()).expect("it"), &whole[..part], "it isn't written over");
    }
}

#[test]
fn a_lost_store_beside_its_log_is_refused() {
    let env = TestEnv::new();
    env.run("before").script("true").answer().exits(0);
    assert!(fs::metadata(env.beside_store("-wal")).is_ok_and(|wal| wal.len() > 0), "the log has the claims");
    fs::remove_file(env.store()).expect("a store that can be lost");
    refused_call(&env, env.run("t")).says("idem.db");
    assert!(!env.store().exists(), "a new store would have forgotten everything");
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    for content in ["short", &"a long text file\n".repeat(1000)] {
        let env = TestEnv::new();
        let store = env.write("notes.txt", content);
        set_mode(&store, 0o600);
        refused(&env, &store).says("notes.txt");
        assert_eq!(env.text_of("notes.txt"), content, "it isn't written over");
    }
}

#[test]
fn a_database_of_something_else_is_refused() {
    let env = TestEnv::new();
    filled(&env);
    env.tamper("PRAGMA user_version = 0");
    refused_call(&env, env.run("t")).says("idem.db");
    assert_eq!(env.rows("SELECT count(*) FROM claim"), ["20"]);
}

#[test]
fn a_newer_schema_is_refused_with_what_to_do() {
    let env = TestEnv::new();
    filled(&env);
    env.tamper("PRAGMA user_version = 999");
    refused_call(&env, env.run("t")).says("999").says("newer");
    assert_eq!(env.rows("SELECT count(*) FROM claim"), ["20"], "no row is lost");
    env.run("before").params("0").script("seq 100").answer().refuses();
    env.idem(["list"]).answer().exits(125).says("newer");
}

#[test]
fn a_link_that_points_nowhere_is_refused() {
    let env = TestEnv::new();
    std::os::unix::fs::symlink(env.file("gone/idem.db"), env.file("link.db")).expect("a link");
    refused(&env, &env.file("link.db"));
}

#[test]
fn a_lock_file_that_can_not_be_opened_runs_nothing() {
    let env = TestEnv::new();
    filled(&env);
    let lock = env.beside_store("-lock");
    fs::remove_file(&lock).expect("the lock file");
    fs::create_dir(&lock).expect("a folder in its place");
    refused_call(&env, env.run("t")).says("lock");
}

#[test]
fn the_commands_for_people_tell_store_trouble_from_nothing_found() {
    let env = TestEnv::new();
    let store = env.write("notes.txt", "a long text file\n".repeat(1000));
    set_mode(&store, 0o600);
    for line in [&["list"][..], &["show", "1"], &["clear", "1"], &["resolve", "1", "landed"]] {
        let call = env.idem(line.iter().copied()).var("IDEM_STORE", &store);
        call.answer().exits(125).prints("").says("notes.txt");
    }
}

#[test]
fn a_store_with_a_second_name_is_refused_under_both() {
    let env = TestEnv::new();
    env.run("t").counting("true").answer().exits(0);
    let other = env.file("other.db");
    fs::hard_link(env.store(), &other).expect("a second name");
    env.run("t").counting("true").answer().refuses().says("other names");
    env.run("t").var("IDEM_STORE", &other).counting("true").answer().refuses().says("other names");
    fs::remove_file(&other).expect("removed");
    env.run("t").counting("true").answer().exits(0).is_a_replay();
    assert_eq!(env.runs(), 1);
}
