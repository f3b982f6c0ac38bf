-- Schema 2. What can turn an unknown outcome into a known one, or let a known one expire: marks (design §8), probes and
-- resends (§7), time to live (§6). Durations are milliseconds; NULL: not given.

ALTER TABLE claim ADD COLUMN boot          TEXT    NOT NULL DEFAULT '';   -- the boot of the owner's host at the claim
ALTER TABLE claim ADD COLUMN uptime        INTEGER NOT NULL DEFAULT 0;    -- and for how long it had been up then
ALTER TABLE claim ADD COLUMN mark          TEXT;                          -- what the command has said of the write so far
ALTER TABLE claim ADD COLUMN marks         INTEGER NOT NULL DEFAULT 0;    -- 1: it marks before it sends, so no mark says something
ALTER TABLE claim ADD COLUMN resend_within INTEGER;                       -- for how long the target dedupes on the key
ALTER TABLE claim ADD COLUMN ttl           INTEGER;                       -- how long after its end it expires
ALTER TABLE claim ADD COLUMN probe         BLOB;                          -- a shell command that asks the target
ALTER TABLE claim ADD COLUMN probe_folder  BLOB;                          -- where it runs
ALTER TABLE claim ADD COLUMN probe_delay   INTEGER;                       -- how long after the end
ALTER TABLE claim ADD COLUMN probe_timeout INTEGER;                       -- how long it may take
ALTER TABLE claim ADD COLUMN probe_max     INTEGER;                       -- how many bytes of its output are recorded
