-- The ledger: one row for each run, written by the claim of its tick. Ticks are
-- planned instants, all others are stamped by the host's clock; both are
-- microseconds since 1970 UTC. States are the numbers of jobs.State: 1 is running,
-- 2 waiting, and what is above is over.
CREATE TABLE cronlease_run (
  grp          TEXT    NOT NULL,
  job          TEXT    NOT NULL,
  tick         INTEGER NOT NULL,
  trigger_id   INTEGER NOT NULL,
  claim_id     BLOB    NOT NULL,
  state        INTEGER NOT NULL CHECK (state BETWEEN 1 AND 9),
  owner        TEXT    NOT NULL,
  token        INTEGER NOT NULL,
  attempt      INTEGER NOT NULL,
  claimed_at   INTEGER NOT NULL,
  started_at   INTEGER,
  finished_at  INTEGER,
  due_at       INTEGER,
  missed       INTEGER NOT NULL,
  error        TEXT    NOT NULL,
  cancel_asked INTEGER NOT NULL CHECK (cancel_asked IN (0, 1)),
  PRIMARY KEY (grp, job, tick, trigger_id)
) STRICT, WITHOUT ROWID;

-- Finds the few runs that are not over, and the newest of each state. Read
-- backwards: the newest ticks first, and the jobs of a tick by name.
CREATE INDEX cronlease_run_by_state ON cronlease_run (grp, state, tick, trigger_id, job DESC);

-- What the ledger knows of each job.
CREATE TABLE cronlease_job (
  grp            TEXT    NOT NULL,
  name           TEXT    NOT NULL,
  schedule       TEXT    NOT NULL,
  since          INTEGER NOT NULL,
  schedule_since INTEGER NOT NULL,
  paused         INTEGER NOT NULL CHECK (paused IN (0, 1)),
  started_at     INTEGER,
  finished_at    INTEGER,
  PRIMARY KEY (grp, name)
) STRICT, WITHOUT ROWID;

-- The newest scheduled tick of each job: among its runs, those asked for by hand
-- can be in the way of finding it.
CREATE TABLE cronlease_cursor (
  grp  TEXT    NOT NULL,
  job  TEXT    NOT NULL,
  tick INTEGER NOT NULL,
  PRIMARY KEY (grp, job)
) STRICT, WITHOUT ROWID;

-- The changes of a group count what people ask for, so that a leader finds out.
CREATE TABLE cronlease_group (
  name    TEXT    NOT NULL PRIMARY KEY,
  changes INTEGER NOT NULL,
  paused  INTEGER NOT NULL CHECK (paused IN (0, 1))
) STRICT, WITHOUT ROWID;

-- As with the lease: these triggers make a write to two tables a single one.
CREATE TRIGGER cronlease_claimed AFTER INSERT ON cronlease_run
WHEN NEW.trigger_id = 0
BEGIN
  INSERT INTO cronlease_cursor (grp, job, tick) VALUES (NEW.grp, NEW.job, NEW.tick)
  ON CONFLICT (grp, job) DO UPDATE SET tick = excluded.tick WHERE excluded.tick > tick;
END;

CREATE TRIGGER cronlease_finished AFTER UPDATE OF state ON cronlease_run
WHEN NEW.state > 2
BEGIN
  UPDATE cronlease_job
  SET finished_at = NEW.finished_at, started_at = max(coalesce(started_at, NEW.started_at), coalesce(NEW.started_at, started_at))
  WHERE grp = NEW.grp AND name = NEW.job;
END;

CREATE TRIGGER cronlease_triggered AFTER INSERT ON cronlease_run
WHEN NEW.trigger_id > 0 AND NEW.token = 0
BEGIN
  INSERT INTO cronlease_group (name, changes, paused) VALUES (NEW.grp, 1, 0)
  ON CONFLICT (name) DO UPDATE SET changes = changes + 1;
END;

CREATE TRIGGER cronlease_cancelled AFTER UPDATE OF cancel_asked ON cronlease_run
WHEN NEW.cancel_asked > OLD.cancel_asked
BEGIN
  INSERT INTO cronlease_group (name, changes, paused) VALUES (NEW.grp, 1, 0)
  ON CONFLICT (name) DO UPDATE SET changes = changes + 1;
END;

CREATE TRIGGER cronlease_paused AFTER UPDATE OF paused ON cronlease_job
BEGIN
  INSERT INTO cronlease_group (name, changes, paused) VALUES (NEW.grp, 1, 0)
  ON CONFLICT (name) DO UPDATE SET changes = changes + 1;
END;
