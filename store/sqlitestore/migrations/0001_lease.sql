-- The two rows of a group: heartbeats write the lease row, and only a takeover
-- writes the fence row. Instants are microseconds since 1970 UTC, by the host's
-- clock. Names are compared byte by byte.
CREATE TABLE cronlease_lease (
  name         TEXT    NOT NULL PRIMARY KEY,
  owner        TEXT    NOT NULL,
  token        INTEGER NOT NULL,
  heartbeat    INTEGER NOT NULL,
  renewed_at   INTEGER NOT NULL,
  ttl_us       INTEGER NOT NULL,
  released     INTEGER NOT NULL CHECK (released IN (0, 1)),
  resign_asked INTEGER NOT NULL CHECK (resign_asked IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE TABLE cronlease_fence (
  name  TEXT    NOT NULL PRIMARY KEY,
  owner TEXT    NOT NULL,
  token INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- SQLite has no statement that writes two tables. These triggers make each of
-- the two that have to, a takeover and a new group, a single one.
CREATE TRIGGER cronlease_takeover AFTER UPDATE OF token ON cronlease_lease
WHEN NEW.token > OLD.token
BEGIN
  UPDATE cronlease_fence SET owner = NEW.owner, token = NEW.token WHERE name = NEW.name;
END;

CREATE TRIGGER cronlease_new_group AFTER INSERT ON cronlease_lease
WHEN NOT EXISTS (SELECT 1 FROM cronlease_fence WHERE name = NEW.name)
BEGIN
  INSERT INTO cronlease_fence (name, owner, token) VALUES (NEW.name, NEW.owner, NEW.token);
END;
