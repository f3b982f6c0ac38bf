//! Disks that are full to the last kilobyte, turn read-only, or go away.
//!
//! They are made in a mount namespace of the test's own: a small tmpfs, and ext4 on a loop device where root is allowed
//! one. The commands and their words lie outside of it.

use std::fs;

use nix::unistd::Uid;

use crate::env::TestEnv;
use crate::points::{DOUBLE_RUN, LOST_RESULT, at, full, try_points};

/// How many points `cargo test` tries.
const QUICK: usize = 24;

/// File systems: how one is made on `disk`.
const TMPFS: &str = "mount -t tmpfs -o size=2m,mode=700 none disk";
const EXT4: &str = "truncate -s 8M image && mkfs.ext4 -q -F -m 0 -b 4096 image && mount -o loop image disk";
const EXT4_SMALL_BLOCKS: &str =
    "truncate -s 8M image && mkfs.ext4 -q -F -m 0 -b 1024 image && mount -o loop image disk";

/// The words that every script begins with. `"$IDEM"` is idem; `arrive TOOL NAME` leaves `NAME.out`, `.err`, `.code`.
const WORDS: &str = r#"
export PATH="$PATH:/usr/sbin:/sbin"
arrive() {
  tool=$1 name=$2; shift 2
  "$IDEM" run --who agent --conv c1 --tool $tool "$@" -- sh -c "echo run >> $tool.runs; echo out; $ACT" > $name.out 2> $name.err
  echo $? > $name.code
}
leave() { # all but so many KiB are used
  rm -f disk/fill
  avail=$(df --output=avail -B1 disk | tail -1); fill=$((avail - $1 * 1024))
  if [ $fill -gt 0 ]; then head -c $fill /dev/zero > disk/fill 2> /dev/null; fi
  sync disk/fill
}
"#;

/// Runs a script where `disk/ledger` is a folder on a file system of its own. False: there can be none here.
#[expect(clippy::print_stderr, reason = "who runs the tests has to know what was left out")]
fn on(env: &TestEnv, make: &str, script: &str) -> bool {
    let root = Uid::effective().is_root();
    if std::env::var_os("IDEM_TEST_NO_NAMESPACES").is_some() || (make != TMPFS && !root) {
        eprintln!("not tested here: {make}");
        return false;
    }
    fs::create_dir(env.file("disk")).expect("a folder to mount on");
    let script = format!(
        "{WORDS}\n{{ {make}; }} > made 2>&1 || exit 99\n\
         mkdir disk/ledger; chmod 700 disk/ledger\n{script}\numount -l disk 2> /dev/null; true"
    );
    let unshare: &[&str] = if root { &["unshare", "-m"] } else { &["unshare", "-rm"] };
    let words = unshare.iter().copied().chain(["sh", "-c", &script]);
    let call = env.idem([] as [&str; 0]).under(words).var("IDEM_STORE", env.file("disk/ledger/idem.db"));
    // How long an owner waits for room changes nothing about what it does then, and at many points one would wait.
    let call = call.var("IDEM_RECORD_WAIT", "300ms");
    let answer = call.var("IDEM", env!("CARGO_BIN_EXE_idem")).var("ACT", "true").answer();
    if answer.code() == Some(99) && make != TMPFS {
        eprintln!("not tested here: {make}: {}", env.text_of("made"));
        return false;
    }
    assert_eq!(answer.code(), Some(0), "{}\n{answer}", env.text_of("made"));
    true
}

/// What one arrival of a script answered.
#[derive(Debug)]
struct Step {
    out: String,
    err: String,
    code: i32,
}

impl Step {
    fn says(&self, words: &str) -> bool {
        self.err.contains(words)
    }

    /// Fails unless the command was run now and all went well.
    #[track_caller]
    fn is_a_first_run(&self) {
        let whole = (self.code, self.out.as_str(), self.err.as_str()) == (0, "out\n", "");
        assert!(whole, "this should be a first run: {self:?}");
    }

    /// Fails unless it is a replay with this on stdout.
    #[track_caller]
    fn replays(&self, stdout: &str) {
        let whole = self.code == 0 && self.out == stdout && self.says("idem: replay of claim ");
        assert!(whole, "{LOST_RESULT}: this should be a replay with {stdout:?}: {self:?}");
    }
}

fn step(env: &TestEnv, name: &str) -> Step {
    let text = |suffix: &str| env.text_of(&format!("{name}.{suffix}"));
    let code = text("code").trim().parse().unwrap_or_else(|_| panic!("{name} left no code"));
    // That a run has made the store is no part of what became of the call.
    let news = |line: &&str| !line.contains("a new one was made, which knows of no earlier call");
    let err = text("err").split_inclusive('\n').filter(news).collect();
    let step = Step { out: text("out"), err, code };
    assert!(code < 128 && !step.says("panicked"), "{name} crashed: {step:?}");
    step
}

/// Fails unless the arrival refused, or ran and was right: told by how often the command ran before and after it.
#[track_caller]
fn is_closed_or_right(env: &TestEnv, name: &str) -> Step {
    let step = step(env, name);
    match step.code {
        0 => assert_eq!(step.out, "out\n", "{LOST_RESULT}: {name} {step:?}"),
        125 => {
            let said = step.says("nothing was run") || step.says("could not be recorded");
            assert!(said, "{name} has to say what it did: {step:?}");
        }
        121 => {}
        _ => panic!("{name}: {step:?}"),
    }
    step
}

fn runs_once(env: &TestEnv) {
    let runs = env.lines_in("t.runs");
    assert!(runs <= 1, "{DOUBLE_RUN}: {runs} runs of t");
}

/// How much is left on which disk when the first arrival comes, in KiB, and whether there is a store already.
#[derive(Debug)]
struct Full {
    make: &'static str,
    left: usize,
    store: bool,
}

/// What became of the first arrival, which found the disk full or nearly so.
#[derive(Debug, PartialEq)]
enum Came {
    /// It was refused, and nothing was run.
    Refused,
    /// It ran and is recorded.
    Recorded,
    /// It ran, and the store had room for its end and not for its output.
    WithoutOutput,
    /// It ran, and its end is kept in a file elsewhere until the store has room.
    Kept,
}

/// Tells what became of it by what it says. Fails unless it did one of these, and says so.
#[track_caller]
fn came(first: &Step) -> Came {
    let refused = first.code == 125 && first.out.is_empty() && first.says("nothing was run");
    if refused {
        return Came::Refused;
    }
    assert!((first.code, first.out.as_str()) == (0, "out\n") && !first.says("nothing was run"), "it ran: {first:?}");
    let told = [
        (first.err.is_empty(), Came::Recorded),
        (first.says("; 4 bytes of its output could not be recorded and a replay lacks them"), Came::WithoutOutput),
        (first.says("could not be recorded in the store: ") && first.says(" It is kept in "), Came::Kept),
        // It waited for room, and there was some: the log of a disk's own had to be written first.
        (first.err.lines().count() == 1 && first.says("; trying for 300ms"), Came::Recorded),
    ];
    let came = told.into_iter().find(|(so, _)| *so).map(|(_, came)| came);
    came.unwrap_or_else(|| panic!("neither recorded nor anything that it says: {first:?}"))
}

/// Then there is room again, and the same call arrives twice more. `None`: there is no such disk here.
fn try_full(point: &Full) -> Option<Came> {
    let env = TestEnv::new();
    let before = if point.store { "arrive before before" } else { "" };
    let script =
        format!("{before}\nleave {}\narrive t first\nrm disk/fill\narrive t second\narrive t third", point.left);
    if !on(&env, point.make, &script) {
        return None;
    }
    let [first, second, third] = ["first", "second", "third"].map(|name| step(&env, name));
    let all = || format!("{first:?} {second:?} {third:?}");
    assert_eq!(env.lines_in("t.runs"), 1, "{DOUBLE_RUN}, or none: {}", all());
    at(&all(), || {
        let came = came(&first);
        match came {
            Came::Refused => second.is_a_first_run(),
            Came::Recorded => second.replays("out\n"),
            Came::WithoutOutput => {
                second.replays("");
                assert!(
                    second.says("4 bytes of its output were not recorded and are missing here"),
                    "not a word of it"
                );
            }
            Came::Kept => {
                second.replays("out\n");
                assert!(second.says("is recorded now: it is completed"), "not a word of the kept end");
            }
        }
        third.replays(if came == Came::WithoutOutput { "" } else { "out\n" });
        Some(came)
    })
}

#[test]
fn on_a_disk_that_is_full_to_the_last_kilobyte_idem_refuses_or_is_right() {
    let mut points = Vec::new();
    for make in [TMPFS, EXT4, EXT4_SMALL_BLOCKS] {
        for left in (0..400).step_by(if full() { 4 } else { 8 }) {
            points.extend([true, false].map(|store| Full { make, left, store }));
        }
    }
    let try_one = |point: &Full| {
        at(&format!("{point:?}"), || try_full(point));
    };
    try_points("full disks", &points, QUICK, try_one).are_clean();
}

/// Few of the points above are such a moment.
#[test]
fn where_there_is_room_for_the_end_and_not_for_the_output_both_the_run_and_its_replays_say_so() {
    let mut without = 0;
    for left in (16..48).step_by(4) {
        let point = Full { make: TMPFS, left, store: true };
        match at(&format!("{point:?}"), || try_full(&point)) {
            None => return,
            Some(came) => without += usize::from(came == Came::WithoutOutput),
        }
    }
    assert!(without > 0, "no disk had room for the end only");
}

#[test]
fn on_a_disk_that_turned_read_only_nothing_is_run_and_nothing_is_forgotten() {
    for make in [TMPFS, EXT4] {
        let env = TestEnv::new();
        let script = "arrive t first; mount -o remount,ro disk; arrive t replay; arrive new refused
                      mount -o remount,rw disk; arrive t second; arrive new run";
        if !on(&env, make, script) {
            continue;
        }
        assert_eq!(step(&env, "first").code, 0);
        let replay = is_closed_or_right(&env, "replay");
        let refused = step(&env, "refused");
        assert!(refused.code == 125 && refused.err.contains("nothing was run"), "{refused:?}");
        let (second, run) = (step(&env, "second"), step(&env, "run"));
        assert!(second.code == 0 && second.err.contains("replay"), "{replay:?} {second:?}");
        assert!(run.code == 0 && run.err.is_empty(), "{run:?}");
        assert_eq!((env.lines_in("t.runs"), env.lines_in("new.runs")), (1, 1));
    }
}

#[test]
fn a_disk_that_turns_read_only_while_the_command_runs_leaves_its_end_unknown() {
    let env = TestEnv::new();
    // The lock file is open for writing, so that a mere remount would be refused: the kernel does it in an emergency.
    let script = "arrive before before
                  export ACT='[ -e calm ] || { touch calm; echo > gone; truncate -s 0 image; }'
                  arrive t first --external; arrive t second --external";
    if on(&env, EXT4, script) {
        let first = step(&env, "first");
        let told = first.err.contains("could not be recorded") && (first.code == 0 || first.code == 125);
        // What is in the page cache may still be read and written: then all went well.
        assert!(told || (first.code == 0 && first.err.is_empty()), "{first:?}");
        let second = is_closed_or_right(&env, "second");
        assert!(second.code != 0 || second.err.contains("replay"), "{first:?} {second:?}");
        runs_once(&env);
    }
}

#[test]
fn a_disk_that_was_unmounted_is_another_ledger_only_where_its_folder_is_there() {
    let env = TestEnv::new();
    let script = "arrive t first; umount disk; arrive t gone";
    if on(&env, TMPFS, script) {
        let gone = step(&env, "gone");
        assert!(gone.code == 125 && gone.err.contains("nothing was run"), "{gone:?}");
        runs_once(&env);
    }
}

#[test]
fn a_disk_that_goes_away_while_the_command_runs_takes_its_end_along_and_nothing_is_run_again() {
    let env = TestEnv::new();
    let script = "export ACT='umount -l disk'; arrive t first; arrive t gone";
    if on(&env, TMPFS, script) {
        let first = step(&env, "first");
        // It is written where the open files are.
        assert_eq!((first.code, first.out.as_str()), (0, "out\n"), "{first:?}");
        let gone = step(&env, "gone");
        assert!(gone.code == 125 && gone.err.contains("nothing was run"), "{gone:?}");
        runs_once(&env);
    }
}
