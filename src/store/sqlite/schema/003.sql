-- Schema 3. Groups (design §8): what a call made, whichever of its attempts made it.

-- A group is named by the first of the attempts that share it: those since the key was last cleared or has last expired.
CREATE TABLE member (
  id    INTEGER PRIMARY KEY,                                    -- their order
  grp   INTEGER NOT NULL,                                       -- the group
  claim INTEGER NOT NULL,                                       -- the attempt that made it or, a step, came to it first
  at    INTEGER NOT NULL,
  kind  TEXT    NOT NULL,                                       -- member: emitted; step: another call
  name  TEXT    NOT NULL,                                       -- the member's name, or the step's key
  data  TEXT                                                    -- the member's JSON value, as given
) STRICT;
CREATE UNIQUE INDEX member_name ON member (grp, kind, name);
