-- For programs from version 3 on.
--
-- The replicas of each group, as they tell of themselves every few minutes. The jobs
-- are as internal/joblist writes them, in parts that are a row each; those with the
-- list of part 0 belong together.
CREATE TABLE IF NOT EXISTS {replica} (
  grp     VARBINARY(128)    NOT NULL,
  owner   VARBINARY(128)    NOT NULL,
  part    SMALLINT UNSIGNED NOT NULL,
  parts   SMALLINT UNSIGNED NOT NULL,
  list    BIGINT UNSIGNED   NOT NULL,
  version VARBINARY(128)    NOT NULL,
  since   DATETIME(6)       NOT NULL,
  seen_at DATETIME(6)       NOT NULL,
  jobs    MEDIUMBLOB        NOT NULL,
  PRIMARY KEY (grp, owner, part)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

-- Since when terms do not have a job.
ALTER TABLE {job} ADD COLUMN gone_at DATETIME(6) NULL, LOCK=NONE;
