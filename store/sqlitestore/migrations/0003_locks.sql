-- Locks: one row for each, which says who holds it and who waits for it. What
-- the queue means is the client's business; here it is compared by version.
CREATE TABLE cronlease_lock (
  name       TEXT    NOT NULL PRIMARY KEY,
  version    INTEGER NOT NULL,
  queue      BLOB    NOT NULL,
  written_at INTEGER NOT NULL
) STRICT;
