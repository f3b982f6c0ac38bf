-- Schema 1. Read it beside the contract: claims and states §2, key §3, liveness §5, ends §6, output and history §11.
-- Times are milliseconds since 1970-01-01 UTC. Words are the contract's; the program checks them on the way in and out.
--
-- Every opening of the store parses all of this, and a replay is little more than an opening. So comments are cut before
-- it is applied (create.rs), and what the program holds true by itself (known words, whole references) is not said again
-- in constraints.

-- One row is one attempt. Rows are never deleted by a run: released, cleared and expired ones stay as history.
CREATE TABLE claim (
  id          INTEGER PRIMARY KEY,                              -- never reused: the newest row is never deleted
  key         TEXT    NOT NULL,                                 -- 64 lower-case hex digits
  state       TEXT    NOT NULL,
  reason      TEXT,
  outcome     TEXT    NOT NULL,
  effect      TEXT    NOT NULL,
  attempt     INTEGER NOT NULL,                                 -- the number of this spawn among the key's spawns
  started     INTEGER NOT NULL DEFAULT 1,                       -- 0: known never to have started
  who         TEXT    NOT NULL,
  conv        TEXT    NOT NULL,
  tool        TEXT    NOT NULL,
  params      TEXT    NOT NULL,                                 -- as given, on one line
  bound       TEXT,                                             -- bound inputs, JSON
  command     BLOB    NOT NULL,                                 -- the arguments, each ended by a NUL
  parent      INTEGER,                                          -- the claim whose command started this one
  exit_code   INTEGER,
  signal      INTEGER,
  missing     INTEGER NOT NULL DEFAULT 0,                       -- bytes of output that are not in the record
  created_at  INTEGER NOT NULL,
  finished_at INTEGER,
  lock_offset INTEGER NOT NULL,                                 -- the byte of the lock file that the owner holds
  lock_inode  INTEGER NOT NULL,                                 -- and the lock file's inode at the time
  owner       TEXT    NOT NULL,                                 -- user@host[pid], for people: it decides nothing
  process     TEXT    NOT NULL                                  -- that process's start and its host's boot, the same
) STRICT;

-- The arbiter: of any number of arrivals of one key, one can insert.
CREATE UNIQUE INDEX claim_holder ON claim (key) WHERE state IN ('running', 'completed', 'held');
-- All attempts of a key, and the number of the next one.
CREATE INDEX claim_attempts ON claim (key, attempt);
-- What waits for a person, found without reading what doesn't. Held claims are rare: a run doesn't touch this.
CREATE INDEX claim_held ON claim (id) WHERE state = 'held';

-- Every arrival, transition and decision. Clustered by claim, so that a run touches one page of it.
CREATE TABLE event (
  claim  INTEGER NOT NULL,
  seq    INTEGER NOT NULL,
  at     INTEGER NOT NULL,
  kind   TEXT    NOT NULL,
  actor  TEXT    NOT NULL,                                      -- user@host[pid]
  detail TEXT,                                                  -- a JSON object
  PRIMARY KEY (claim, seq)
) STRICT, WITHOUT ROWID;

-- Output in the order of its arrival across both streams. With a rowid: large rows are slow without one.
CREATE TABLE output (
  id     INTEGER PRIMARY KEY,
  claim  INTEGER NOT NULL,
  stream INTEGER NOT NULL,                                      -- 1: stdout, 2: stderr; 3: stated stdout, in whose place -1, -2 stand back
  data   BLOB    NOT NULL
) STRICT;
CREATE INDEX output_claim ON output (claim);

-- How far the log of arrivals beside the store has been taken in, in bytes.
CREATE TABLE arrivals_log (
  one   INTEGER PRIMARY KEY,
  taken INTEGER NOT NULL
) STRICT;
INSERT INTO arrivals_log VALUES (1, 0);
