//! The search: every state that can be reached, breadth first, so that the first way to a broken promise is a shortest one.
//!
//! Of each state only a fingerprint of 64 bits is kept. Two of ten million states share one with a chance of about one in
//! 400,000; the trace is found again by walking the fingerprints back and the steps forward.

use super::contract::Broken;
use super::others::next;
use super::steps::{Step, Who};
use super::world::{At, Row, Scenario, World};
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::time::{Duration, Instant};

/// What a search came to.
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) transitions: usize,
    pub(crate) depth: usize,
    pub(crate) took: Duration,
    pub(crate) broken: Option<(Broken, Trace)>,
}

/// A way to a broken promise.
pub(crate) struct Trace {
    pub(crate) length: usize,
    pub(crate) text: String,
}

/// Mixes what a state is made of into 64 bits.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.0 = mixed ^ (mixed >> 29) ^ mixed.rotate_left(31);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }
}

fn fingerprint(world: &World) -> u64 {
    let mut mix = Mix::default();
    world.hash(&mut mix);
    mix.finish()
}

/// A fingerprint is mixed already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("fingerprints are 64 bits");
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// A state that was found: its number, and the fingerprint of the state that it was first reached from.
struct Known {
    number: u32,
    from: u64,
}

type States = HashMap<u64, Known, BuildHasherDefault<AsItIs>>;

/// Searches every state, until a promise is broken that `looks_for` wants. Then shows that everybody ends.
pub(crate) fn search(of: &Scenario, looks_for: impl Fn(Broken) -> bool) -> Found {
    let began = Instant::now();
    let first = World::new(of);
    let start = fingerprint(&first);
    let mut states = States::default();
    states.insert(start, Known { number: 0, from: start });
    let mut queue = VecDeque::from([(first, start, 0_usize)]);
    let mut found = Found { states: 1, transitions: 0, depth: 0, took: Duration::ZERO, broken: None };
    let mut edges = Vec::new();
    while let Some((world, print, depth)) = queue.pop_front() {
        found.depth = depth;
        let number = states[&print].number;
        let mut goes_on = false;
        for step in next(of, &world) {
            found.transitions += 1;
            goes_on |= !step.fault;
            if let Some(broken) = step.broken.filter(|&broken| looks_for(broken)) {
                found.broken = Some((broken, trace(of, &states, print, Some(&step), broken)));
                found.states = states.len();
                found.took = began.elapsed();
                return found;
            }
            let to = fingerprint(&step.world);
            let count = states.len() as u32;
            let known = states.entry(to).or_insert(Known { number: count, from: print });
            if !step.fault {
                edges.push((number, known.number));
            }
            if known.number == count {
                queue.push_back((step.world, to, depth + 1));
            }
        }
        let waits = world.arrivals.iter().any(|arrival| !matches!(arrival.at, At::Away | At::Done(_) | At::Killed));
        if !goes_on && waits && looks_for(Broken::Stuck) {
            found.broken = Some((Broken::Stuck, trace(of, &states, print, None, Broken::Stuck)));
            break;
        }
    }
    found.states = states.len();
    if found.broken.is_none()
        && looks_for(Broken::Endless)
        && let Some(number) = endless(states.len(), &edges)
    {
        let print = states.iter().find(|(_, known)| known.number == number).map_or(start, |(&print, _)| print);
        found.broken = Some((Broken::Endless, trace(of, &states, print, None, Broken::Endless)));
    }
    found.took = began.elapsed();
    found
}

/// Takes away again and again what leads nowhere. What is left leads to itself: somebody could go on for ever.
fn endless(states: usize, edges: &[(u32, u32)]) -> Option<u32> {
    let mut out = vec![0_u32; states];
    let mut begins = vec![0_u32; states + 1];
    for &(from, to) in edges {
        out[from as usize] += 1;
        begins[to as usize + 1] += 1;
    }
    for state in 0..states {
        begins[state + 1] += begins[state];
    }
    let mut place = begins.clone();
    let mut into = vec![0_u32; edges.len()];
    for &(from, to) in edges {
        into[place[to as usize] as usize] = from;
        place[to as usize] += 1;
    }
    let mut ended: Vec<u32> = (0..states as u32).filter(|&state| out[state as usize] == 0).collect();
    let mut count = 0;
    while let Some(state) = ended.pop() {
        count += 1;
        for &from in &into[begins[state as usize] as usize..begins[state as usize + 1] as usize] {
            out[from as usize] -= 1;
            if out[from as usize] == 0 {
                ended.push(from);
            }
        }
    }
    let mut onward: HashMap<u32, u32> = HashMap::new();
    for &(from, to) in edges.iter().filter(|(from, to)| out[*from as usize] > 0 && out[*to as usize] > 0) {
        onward.insert(from, to);
    }
    // Whoever goes on as often as there are states is in a circle.
    let mut state = *onward.keys().min()?;
    for _ in count..states {
        state = onward[&state];
    }
    Some(state)
}

/// Walks from the first state to this one, and tells what happened.
fn trace(of: &Scenario, states: &States, to: u64, last: Option<&Step>, broken: Broken) -> Trace {
    let mut prints = vec![to];
    while let Some(&print) = prints.last()
        && states[&print].number != 0
    {
        prints.push(states[&print].from);
    }
    prints.reverse();
    let mut text = String::new();
    let _ = writeln!(text, "  {}", who_comes(of));
    let mut world = World::new(of);
    let mut length = 0;
    for print in &prints[1..] {
        let step =
            next(of, &world).into_iter().find(|step| fingerprint(&step.world) == *print).expect("the way is known");
        length += 1;
        tell(&mut text, length, &step);
        world = step.world;
    }
    if let Some(step) = last {
        length += 1;
        tell(&mut text, length, step);
        world = step.world.clone();
    }
    let _ = writeln!(text, "  => {}", broken.words());
    for (id, row) in (1..).zip(&world.rows) {
        let _ = writeln!(text, "     {}", told(id, row));
    }
    Trace { length, text }
}

fn who_comes(of: &Scenario) -> String {
    let name = |(me, profile): (usize, &super::world::Profile)| format!("{}: {}", letter(me), profile.name);
    of.profiles.iter().enumerate().map(name).collect::<Vec<_>>().join(" · ")
}

fn tell(text: &mut String, number: usize, step: &Step) {
    let who = match step.who {
        Who::Arrival(me) => letter(me).to_string(),
        Who::Command(id) => format!("the command of claim {id}"),
        Who::Person => "a person".to_owned(),
        Who::World => "meanwhile:".to_owned(),
    };
    let of = if step.of == 0 || matches!(step.who, Who::Command(_)) {
        String::new()
    } else {
        format!(" (claim {})", step.of)
    };
    let to = step.to.map_or_else(String::new, |to| format!(" -> {}, {}, {}", to.0, to.1, to.2));
    let _ = writeln!(text, "  {number:2}. {who} {}{of}{to}", step.what);
}

fn told(id: usize, row: &Row) -> String {
    let stored = &row.stored;
    let reason = stored.reason.map_or("", |reason| reason.as_str());
    let sent = if row.sent { "the target has its write" } else { "the target has nothing of it" };
    let lives = if row.command.lives() { ", its command lives" } else { "" };
    format!("claim {id} of {}: {} {} {reason}; {sent}{lives}", letter(row.by), stored.state, stored.outcome)
}

fn letter(me: usize) -> char {
    char::from(b'A' + me as u8)
}
