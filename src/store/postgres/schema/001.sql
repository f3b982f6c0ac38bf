-- Schema 1 of the store in PostgreSQL. Read it beside the contract: claims and states §2, key §3, liveness §5, ends §6, marks and
-- groups §8, output and history §11.
-- Times are milliseconds since 1970-01-01 UTC by the server's clock, durations milliseconds. Words are the contract's; the
-- program checks them on the way in and out.

-- The schema's version. Whoever brings it up to date has this row locked.
CREATE TABLE idem.store (
  version bigint NOT NULL
);
INSERT INTO idem.store VALUES (0);

-- One row is one attempt. Rows are never deleted by a run: released, cleared and expired ones stay as history.
CREATE TABLE idem.claim (
  id            bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key           text    COLLATE "C" NOT NULL,               -- 64 lower-case hex digits
  turn          bigint  NOT NULL,                           -- the number of this row among those of its key
  state         text    NOT NULL,
  reason        text,
  outcome       text    NOT NULL,
  effect        text    NOT NULL,
  attempt       bigint  NOT NULL,                           -- the number of this spawn among the key's spawns
  started       boolean NOT NULL DEFAULT true,              -- false: known never to have started
  who           text    NOT NULL,
  conv          text    NOT NULL,
  tool          text    NOT NULL,
  params        text    NOT NULL,                           -- as given, on one line
  bound         text,                                       -- bound inputs, JSON
  command       bytea   NOT NULL,                           -- the arguments, each ended by a NUL
  parent        bigint,                                     -- the claim whose command started this one
  grp           bigint,                                     -- the first attempt of those that share its group; none: itself
  exit_code     integer,
  signal        integer,
  missing       bigint  NOT NULL DEFAULT 0,                 -- bytes of output that are not in the record
  created_at    bigint  NOT NULL,
  finished_at   bigint,
  lock_offset   bigint  NOT NULL,                           -- the byte of its host's lock file that the owner holds; random
  lock_file     bigint  NOT NULL,                           -- which lock file that is: one boot, device and inode
  owner         text    NOT NULL,                           -- user@host[pid], for people: it decides nothing
  process       text    NOT NULL,                           -- that process's start, the same
  mark          text,                                       -- what the command has said of the write so far
  marks         boolean NOT NULL,                           -- it marks before it sends, so no mark says something
  resend_within bigint,                                     -- for how long the target dedupes on the key
  ttl           bigint,                                     -- how long after its end it expires
  probe         bytea,                                      -- a shell command that asks the target
  probe_folder  bytea,                                      -- where it runs
  probe_delay   bigint,                                     -- how long after the end
  probe_timeout bigint,                                     -- how long it may take
  probe_max     bigint,                                     -- how many bytes of its output are recorded
  stepped       boolean NOT NULL DEFAULT false,             -- its group may have steps
  ended         text,                                       -- its owner has recorded its end: recorded, or late
  seen_at       bigint  NOT NULL,                           -- when its owner last showed itself: it frees nothing
  seen_every    bigint  NOT NULL,                           -- how often it does
  waited        boolean NOT NULL DEFAULT false              -- somebody waits for its end
);
-- The arbiter: of any number of arrivals of one key, one can insert.
CREATE UNIQUE INDEX claim_holder ON idem.claim (key) WHERE state IN ('running', 'completed', 'held');
-- The order of a key's attempts. It arbitrates too: who has overlooked an attempt can't insert.
CREATE UNIQUE INDEX claim_turn ON idem.claim (key, turn);
-- What waits for somebody, found without reading what doesn't.
CREATE INDEX claim_open ON idem.claim (id) WHERE state IN ('running', 'held');

-- Every arrival, transition and decision.
CREATE TABLE idem.event (
  id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  claim  bigint NOT NULL,
  at     bigint NOT NULL,
  kind   text   NOT NULL,
  actor  text   NOT NULL,                                   -- user@host[pid]
  detail text                                               -- a JSON object
);
CREATE INDEX event_claim ON idem.event (claim);

-- Output in the order of its arrival across both streams. Its place is what tells a repeated write from a new one.
CREATE TABLE idem.output (
  claim  bigint   NOT NULL,
  at     bigint   NOT NULL,                                 -- how many bytes stand before it; a stated result: from 2^62 on
  stream smallint NOT NULL,                                 -- 1: stdout, 2: stderr; 3: stated stdout, in whose place -1, -2 stand back
  data   bytea    NOT NULL,
  PRIMARY KEY (claim, at)
);
-- Output is what a command printed: compressing it would cost more than it saves for most.
ALTER TABLE idem.output ALTER COLUMN data SET STORAGE EXTERNAL;

-- What a call made. A group is named by the first of the attempts that share it, those since the key was last cleared or has
-- last expired, and keeps that name when this one is pruned.
CREATE TABLE idem.member (
  id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- their order
  grp    bigint NOT NULL,                                   -- the group
  claim  bigint NOT NULL,                                   -- the attempt that made it or, a step, came to it first
  at     bigint NOT NULL,
  kind   text   NOT NULL,                                   -- member: emitted; step: another call
  name   text   COLLATE "C" NOT NULL,                       -- the member's name, or the step's key
  digest text   COLLATE "C" NOT NULL,                       -- SHA-256 of the name: names can be longer than an index takes
  data   text                                               -- the member's JSON value, as given
);
CREATE UNIQUE INDEX member_name ON idem.member (grp, kind, digest);
CREATE INDEX member_step ON idem.member (name) WHERE kind = 'step';
