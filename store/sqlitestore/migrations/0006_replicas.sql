-- For programs from version 3 on.
--
-- The replicas of each group, as they tell of themselves every few minutes. The jobs
-- are as internal/joblist writes them, in parts that are a row each; those with the
-- list of part 0 belong together.
CREATE TABLE cronlease_replica (
  grp     TEXT    NOT NULL,
  owner   TEXT    NOT NULL,
  part    INTEGER NOT NULL,
  parts   INTEGER NOT NULL,
  list    INTEGER NOT NULL,
  version TEXT    NOT NULL,
  since   INTEGER NOT NULL,
  seen_at INTEGER NOT NULL,
  jobs    BLOB    NOT NULL,
  PRIMARY KEY (grp, owner, part)
) STRICT, WITHOUT ROWID;

-- Since when terms do not have a job.
ALTER TABLE cronlease_job ADD COLUMN gone_at INTEGER;

-- A job is forgotten with its runs, in one statement.
CREATE TRIGGER cronlease_forgotten AFTER DELETE ON cronlease_job
WHEN OLD.name <> ''
BEGIN
  DELETE FROM cronlease_run WHERE grp = OLD.grp AND job = OLD.name;
  DELETE FROM cronlease_cursor WHERE grp = OLD.grp AND job = OLD.name;
END;
