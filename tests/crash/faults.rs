//! Every system call of idem's fails in turn, once or from there on: closed before the run, loud after it.
//!
//! Before the command starts: 125, and nothing was run. Afterwards: the command's own code, or 125 and that it ran. Never
//! a panic, a crash, or an exit 0 without a run or a replay; and the next arrival is right.

use crate::after::{OUT, at_most, call, follow_success, is_whole, replays};
use crate::env::{Answer, Call, TestEnv};
use crate::points::{DOUBLE_RUN, LOST_RESULT, at, full, try_points};
use crate::strace::{Syscall, syscalls, watch};

/// How many points `cargo test` tries.
const QUICK: usize = 130;

/// How calls can fail, also on and on, and how only once: what means "again" or "busy" would be asked again for ever.
///
/// Not `brk`: it knows no error, and libc would take the number for an address.
const FAILURES: &[(&[&str], &[&str], &[&str])] = &[
    (&["write", "pwrite64", "writev"], &["ENOSPC", "EIO"], &["EINTR", "EAGAIN"]),
    (&["fsync", "fdatasync"], &["EIO", "ENOSPC"], &["EINTR"]),
    (&["ftruncate", "fallocate", "renameat2", "rename", "link", "mkdir"], &["ENOSPC", "EIO", "EROFS"], &["EINTR"]),
    (&["unlink", "fchown", "fchmod"], &["EIO", "EROFS"], &[]),
    (&["open", "openat"], &["EMFILE", "ENOSPC", "EIO", "EACCES", "ENOMEM"], &["EINTR"]),
    (&["read", "pread64", "getdents64", "readlink"], &["EIO"], &["EINTR"]),
    (&["fcntl"], &["EIO", "ENOMEM"], &["EINTR", "EAGAIN", "ENOLCK"]),
    (&["mmap", "mremap"], &["ENOMEM"], &["EAGAIN"]),
    (&["clone3", "clone", "vfork", "fork"], &["EAGAIN", "ENOMEM"], &[]),
    (&["pipe2", "socketpair", "dup"], &["EMFILE", "ENFILE"], &[]),
    (&["statx", "newfstatat", "statfs", "lseek"], &["EIO", "ENOMEM"], &["EINTR"]),
    (&["poll", "ppoll"], &["ENOMEM"], &["EINTR"]),
    (&["wait4", "waitid"], &[], &["EINTR"]),
    (&["getrandom"], &[], &["EINTR"]),
];

/// A call of idem's that fails, and the story that it fails in.
struct Point {
    story: &'static str,
    play: Play,
    call: Syscall,
    error: &'static str,
    lasting: bool,
}

type Play = fn(&TestEnv, &[String], Option<&Point>);

const STORIES: [(&str, Play); 6] = [
    ("a first run that makes the store", |env, words, point| first_run(env, words, point, call)),
    ("a first run, external", |env, words, point| {
        env.run("before").script("true").answer().exits(0);
        first_run(env, words, point, |env| call(env).external());
    }),
    ("a first run with a log to take in", |env, words, point| {
        for n in 0..5 {
            env.run("before").params(&n.to_string()).script("true").answer().exits(0);
        }
        env.run("before").params("1").script("true").answer().exits(0);
        first_run(env, words, point, call);
    }),
    ("a replay", replay),
    ("a held call", held),
    ("resolve", resolve),
];

/// Says nothing that only a bug says, and ends by itself.
#[track_caller]
fn is_no_crash(answer: &Answer) {
    let text = answer.text() + &answer.messages();
    assert!(answer.code().is_some(), "ended by a signal\n{answer}");
    assert!(!text.contains("panicked") && !text.contains("RUST_BACKTRACE"), "a panic\n{answer}");
}

impl Point {
    /// Whether idem may have been kept from saying anything there: its stream failed.
    fn silences(&self, stream: u8) -> bool {
        self.call.name.starts_with("write")
            && (self.lasting || self.call.line.starts_with(&format!("{}({stream},", self.call.name)))
    }
}

/// Fails unless idem refused and said that nothing was run, or its voice was what failed.
#[track_caller]
fn refuses(answer: &Answer, point: Option<&Point>) {
    assert_eq!(answer.code(), Some(125), "another exit code was expected\n{answer}");
    let silent = point.is_some_and(|point| point.silences(2));
    assert!(silent || answer.messages().contains("nothing was run"), "it has to say so\n{answer}");
}

fn first_run<'a>(env: &'a TestEnv, words: &[String], point: Option<&Point>, arrive: fn(&'a TestEnv) -> Call<'a>) {
    // How long an owner goes on trying changes nothing about what it does then, and one whose calls fail for ever would.
    let hurt = arrive(env).under(words).var("IDEM_RECORD_WAIT", "300ms").answer();
    is_no_crash(&hurt);
    at_most(env, 1, &hurt);
    let ran = env.runs() == 1;
    let said = hurt.messages();
    let unrecorded = said.contains("could not be recorded") || said.contains("could not be waited for");
    match (hurt.code(), ran) {
        (_, false) => refuses(&hurt, point),
        (Some(0), true) => {
            let told = said.contains("could not be passed on") || point.is_some_and(|point| point.silences(2));
            assert!(hurt.text() == OUT || told, "its output is missing without a word\n{hurt}");
        }
        (Some(125), true) => assert!(unrecorded, "that it ran has to be said\n{hurt}"),
        _ => panic!("neither its own code nor 125\n{hurt}"),
    }
    assert!(!ran || !said.contains("nothing was run"), "it ran\n{hurt}");
    // An end that is kept is known to the next one; what stands in the way of one that isn't may have been there for a
    // moment only.
    let known = !unrecorded || said.contains(". It is kept in ");
    follow_success(env, hurt.code() == Some(0) && ran && known, arrive);
}

fn replay(env: &TestEnv, words: &[String], point: Option<&Point>) {
    call(env).answer().exits(0);
    let hurt = call(env).under(words).answer();
    is_no_crash(&hurt);
    at_most(env, 1, &hurt);
    let streams_failed = point.is_some_and(|point| point.call.name.starts_with("write"));
    match hurt.code() {
        Some(0) if !streams_failed => replays(&hurt, 0, OUT),
        Some(0) => {
            let told = hurt.messages().contains("could not be") || point.is_some_and(|point| point.silences(2));
            assert!(hurt.text() == OUT || told, "its output is missing without a word\n{hurt}");
        }
        _ => refuses(&hurt, point),
    }
    let next = call(env).answer();
    replays(&next, 0, OUT);
    at_most(env, 1, &next);
}

fn held(env: &TestEnv, words: &[String], point: Option<&Point>) {
    let arrive = || env.run("t").external().counting("echo out; exit 7");
    arrive().answer().exits(7);
    let hurt = arrive().under(words).answer();
    is_no_crash(&hurt);
    if hurt.code() != Some(121) {
        refuses(&hurt, point);
    }
    let next = arrive().answer();
    assert_eq!(next.code(), Some(121), "{DOUBLE_RUN}: it is held\n{next}");
    at_most(env, 1, &next);
}

fn resolve(env: &TestEnv, words: &[String], point: Option<&Point>) {
    let arrive = || env.run("t").external().counting("echo out; exit 7");
    arrive().answer().exits(7);
    let hurt = env.idem(["resolve", "1", "landed"]).under(words).answer();
    is_no_crash(&hurt);
    let next = arrive().answer();
    at_most(env, 1, &next);
    match (hurt.code(), next.code()) {
        (Some(0), _) => replays(&next, 0, OUT),
        (Some(125), Some(0)) => replays(&next, 0, OUT),
        (Some(125), Some(121)) => {
            let silent = point.is_some_and(|point| point.silences(2));
            assert!(silent || hurt.messages().starts_with("idem: "), "it has to say so\n{hurt}");
        }
        _ => panic!("{LOST_RESULT}: neither done nor refused\n{hurt}{next}"),
    }
}

/// Leaves out what the language's runtime does before idem begins, which aborts where it can't (nothing is run then), and
/// SQLite's unlocking, which it takes for granted: a lock that one has can be let go.
fn after_start(calls: Vec<Syscall>) -> impl Iterator<Item = Syscall> {
    let is_last_step = |call: &Syscall| call.line.starts_with("rt_sigaction(SIGBUS, {");
    let start = calls.iter().position(is_last_step).expect("the handler against overflows of the stack");
    calls.into_iter().skip(start).filter(|call| !call.line.contains("F_SETLK, {l_type=F_UNLCK"))
}

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (story, play) in STORIES {
        let env = TestEnv::new();
        at(story, || play(&env, &watch(), None));
        for call in after_start(syscalls(&env.text_of("trace"))) {
            let fails = FAILURES.iter().filter(|(names, ..)| names.contains(&call.name.as_str()));
            for (_, both_ways, once) in fails {
                let mut add = |error, lasting| points.push(Point { story, play, call: call.clone(), error, lasting });
                for error in *both_ways {
                    add(error, false);
                    // SQLite takes any trouble with its locks for a busy store, and waits for half a minute each time.
                    if !call.line.contains("F_SETLK,") {
                        add(error, true);
                    }
                }
                once.iter().for_each(|error| add(error, false));
            }
        }
    }
    points
}

fn try_one(point: &Point) {
    let Point { story, call, error, lasting, .. } = point;
    let from = if *lasting { " and all later ones" } else { "" };
    at(&format!("{story}, {error} at {} {}{from} ({})", call.name, call.nth, call.line), || {
        let env = TestEnv::new();
        (point.play)(&env, &call.fail(error, *lasting), Some(point));
        if full() {
            is_whole(&env);
        }
    });
}

#[test]
fn whatever_fails_idem_refuses_before_the_run_and_is_loud_after_it() {
    try_points("faults", &points(), QUICK, try_one).are_clean();
}

/// What keeps the command itself from being executed: it was never run, and its claim is released.
#[test]
fn a_command_that_the_system_does_not_execute_was_not_run() {
    for (error, code) in [("ENOENT", 127), ("EACCES", 126), ("ENOEXEC", 126), ("ENOMEM", 125), ("EAGAIN", 125)] {
        let env = TestEnv::new();
        env.run("before").script("true").answer().exits(0);
        let inject = format!("inject=execve:error={error}:when=1+");
        let words = ["strace", "-f", "-qq", "-o", "trace", "-e", "trace=execve", "-e", &inject];
        let hurt = env.run("t").counting("echo out").under(words).answer();
        if hurt.code() == Some(1) {
            panic!("strace failed idem's own execve\n{hurt}");
        }
        is_no_crash(&hurt);
        hurt.exits(code).says("nothing was run");
        call(&env).args(["--allow-command-change"]).answer().exits(0).is_a_first_run();
        assert_eq!(env.runs(), 1);
    }
}

/// SQLite fills the new file when it is closed, and keeps to itself that it could not.
#[test]
fn a_new_store_that_could_not_be_filled_is_not_moved_into_place() {
    let env = TestEnv::new();
    call(&env).under(watch()).answer().exits(0);
    let calls = syscalls(&env.text_of("trace"));
    let is_first_page = |call: &&Syscall| {
        call.name == "pwrite64" && call.line.contains("\"SQLite format 3") && call.line.ends_with(", 0) = 4096")
    };
    let last = calls.iter().rfind(is_first_page).expect("the write of the first page to its place");
    for error in ["EIO", "ENOSPC"] {
        let env = TestEnv::new();
        call(&env).under(last.fail(error, false)).answer().refuses();
        call(&env).answer().exits(0).prints(OUT).is_a_first_run();
        assert_eq!(env.runs(), 1);
        is_whole(&env);
    }
}
