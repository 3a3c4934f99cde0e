-- For programs from version 3 on.
--
-- What people look at later. No program needs these rows to lead or to run jobs.
--
-- What was asked of each group, and by whom. The tick is absent where it was not about
-- one run.
CREATE TABLE IF NOT EXISTS {audit} (
  id         BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  grp        VARBINARY(128)  NOT NULL,
  at         DATETIME(6)     NOT NULL,
  actor      VARBINARY(255)  NOT NULL,
  via        VARBINARY(32)   NOT NULL,
  action     VARBINARY(32)   NOT NULL,
  job        VARBINARY(128)  NOT NULL,
  tick       BIGINT          NULL,
  trigger_id BIGINT UNSIGNED NOT NULL,
  note       VARBINARY(255)  NOT NULL,
  result     VARBINARY(32)   NOT NULL,
  PRIMARY KEY (id),
  KEY by_group (grp, id),
  KEY by_job (grp, job, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

-- The terms of each group, as they tell of themselves.
CREATE TABLE IF NOT EXISTS {term} (
  grp      VARBINARY(128)  NOT NULL,
  token    BIGINT UNSIGNED NOT NULL,
  owner    VARBINARY(128)  NOT NULL,
  began_at DATETIME(6)     NOT NULL,
  ended_at DATETIME(6)     NULL,
  early    BOOLEAN         NOT NULL,
  why      VARBINARY(500)  NOT NULL,
  PRIMARY KEY (grp, token)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

-- The attempts at a run that another one follows, and those that have printed
-- something. They belong to the run under their key that was claimed at that instant:
-- programs of earlier versions prune runs and leave their attempts.
CREATE TABLE IF NOT EXISTS {attempt} (
  grp         VARBINARY(128)   NOT NULL,
  job         VARBINARY(128)   NOT NULL,
  tick        BIGINT           NOT NULL,
  trigger_id  BIGINT UNSIGNED  NOT NULL,
  attempt     INT UNSIGNED     NOT NULL,
  claimed_at  DATETIME(6)      NOT NULL,
  state       TINYINT UNSIGNED NOT NULL,
  owner       VARBINARY(128)   NOT NULL,
  token       BIGINT UNSIGNED  NOT NULL,
  started_at  DATETIME(6)      NULL,
  finished_at DATETIME(6)      NULL,
  error       VARBINARY(2000)  NOT NULL,
  output      BLOB             NOT NULL,
  PRIMARY KEY (grp, job, tick, trigger_id, attempt)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;
