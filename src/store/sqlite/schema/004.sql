-- Schema 4. Finding claims by what people ask for (`idem list`), without reading all of them.

-- A run touches none of these indexes, which would cost each run a page for each: they hold the claims that are listed, and
-- every thousand of them are listed at once, while a command runs (listing.rs).
ALTER TABLE claim ADD COLUMN listed INTEGER NOT NULL DEFAULT 0; -- 1: in these indexes
CREATE INDEX listed_who ON claim (who) WHERE listed = 1;
CREATE INDEX listed_conv ON claim (conv) WHERE listed = 1;
CREATE INDEX listed_tool ON claim (tool) WHERE listed = 1;
CREATE INDEX listed_state ON claim (state) WHERE listed = 1;
CREATE INDEX listed_time ON claim (created_at) WHERE listed = 1;

-- Every claim up to this number is listed, and none after it.
CREATE TABLE listing (
  one  INTEGER PRIMARY KEY,
  last INTEGER NOT NULL
) STRICT;
INSERT INTO listing VALUES (1, 0);
