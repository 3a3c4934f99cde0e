-- The ledger: one row for each run, written by the claim of its tick. Ticks are
-- planned instants, in microseconds since 1970 (UTC); all other instants are
-- stamped by the database. The order of the key keeps a job's history together:
-- its newest tick is the end of a range, and pruning takes its beginning. The
-- index finds the few runs that are not over, and the newest of each state.
CREATE TABLE IF NOT EXISTS {run} (
  grp          VARBINARY(128)   NOT NULL,
  job          VARBINARY(128)   NOT NULL,
  tick         BIGINT           NOT NULL,
  trigger_id   BIGINT UNSIGNED  NOT NULL,
  claim_id     BINARY(16)       NOT NULL,
  state        TINYINT UNSIGNED NOT NULL,
  owner        VARBINARY(128)   NOT NULL,
  token        BIGINT UNSIGNED  NOT NULL,
  attempt      INT UNSIGNED     NOT NULL,
  claimed_at   DATETIME(6)      NOT NULL,
  started_at   DATETIME(6)      NULL,
  finished_at  DATETIME(6)      NULL,
  due_at       DATETIME(6)      NULL,
  missed       BIGINT UNSIGNED  NOT NULL,
  error        VARBINARY(2000)  NOT NULL,
  cancel_asked BOOLEAN          NOT NULL,
  PRIMARY KEY (grp, job, tick, trigger_id),
  KEY by_state (grp, state, tick, job, trigger_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

-- What the ledger knows of each job. The row without a name is the group's own:
-- its changes count what people ask for, so that a leader finds out. The latest
-- start and end are those among its runs that are over.
CREATE TABLE IF NOT EXISTS {job} (
  grp            VARBINARY(128)   NOT NULL,
  name           VARBINARY(128)   NOT NULL,
  schedule       VARBINARY(16000) NOT NULL,
  since          DATETIME(6)      NOT NULL,
  schedule_since DATETIME(6)      NOT NULL,
  paused         BOOLEAN          NOT NULL,
  changes        BIGINT UNSIGNED  NOT NULL,
  started_at     DATETIME(6)      NULL,
  finished_at    DATETIME(6)      NULL,
  PRIMARY KEY (grp, name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;
