-- For programs from version 3 on.
--
-- What people look at later. No program needs these rows to lead or to run jobs.
--
-- What was asked of each group, and by whom. The tick is absent where it was not about
-- one run.
CREATE TABLE cronlease_audit (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  grp        TEXT    NOT NULL,
  at         INTEGER NOT NULL,
  actor      TEXT    NOT NULL,
  via        TEXT    NOT NULL,
  action     TEXT    NOT NULL,
  job        TEXT    NOT NULL,
  tick       INTEGER,
  trigger_id INTEGER NOT NULL,
  note       TEXT    NOT NULL,
  result     TEXT    NOT NULL
) STRICT;
CREATE INDEX cronlease_audit_by_group ON cronlease_audit (grp, id);
CREATE INDEX cronlease_audit_by_job ON cronlease_audit (grp, job, id);

-- The terms of each group, as they tell of themselves.
CREATE TABLE cronlease_term (
  grp      TEXT    NOT NULL,
  token    INTEGER NOT NULL,
  owner    TEXT    NOT NULL,
  began_at INTEGER NOT NULL,
  ended_at INTEGER,
  early    INTEGER NOT NULL CHECK (early IN (0, 1)),
  why      TEXT    NOT NULL,
  PRIMARY KEY (grp, token)
) STRICT, WITHOUT ROWID;

-- The attempts at a run that another one follows, and those that have printed
-- something.
CREATE TABLE cronlease_attempt (
  grp         TEXT    NOT NULL,
  job         TEXT    NOT NULL,
  tick        INTEGER NOT NULL,
  trigger_id  INTEGER NOT NULL,
  attempt     INTEGER NOT NULL,
  state       INTEGER NOT NULL,
  owner       TEXT    NOT NULL,
  token       INTEGER NOT NULL,
  started_at  INTEGER,
  finished_at INTEGER,
  error       TEXT    NOT NULL,
  output      BLOB    NOT NULL,
  PRIMARY KEY (grp, job, tick, trigger_id, attempt)
) STRICT;

-- They go with their run, whatever program deletes it or changes its key.
CREATE TRIGGER cronlease_pruned AFTER DELETE ON cronlease_run
BEGIN
  DELETE FROM cronlease_attempt
  WHERE grp = OLD.grp AND job = OLD.job AND tick = OLD.tick AND trigger_id = OLD.trigger_id;
END;

CREATE TRIGGER cronlease_passed_over AFTER UPDATE OF trigger_id ON cronlease_run
WHEN NEW.trigger_id <> OLD.trigger_id
BEGIN
  UPDATE cronlease_attempt SET trigger_id = NEW.trigger_id
  WHERE grp = OLD.grp AND job = OLD.job AND tick = OLD.tick AND trigger_id = OLD.trigger_id;
END;
