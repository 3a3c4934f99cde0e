-- Names are compared byte by byte. Instants are microseconds since 1970 UTC, by the database's clock, unless a comment says
-- otherwise.
--
-- The two rows of a group: heartbeats write the lease row, and only a takeover writes the fence row. No index has a column
-- that a heartbeat writes, and pages have room, so that its new versions stay on their page and need no vacuum (HOT).
CREATE TABLE {s}cronlease_lease (
  name         text COLLATE "C" PRIMARY KEY,
  owner        text COLLATE "C" NOT NULL,
  token        bigint  NOT NULL,
  heartbeat    bigint  NOT NULL,
  renewed_at   bigint  NOT NULL,
  ttl_us       bigint  NOT NULL,
  released     boolean NOT NULL,
  resign_asked boolean NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);

CREATE TABLE {s}cronlease_fence (
  name  text COLLATE "C" PRIMARY KEY,
  owner text COLLATE "C" NOT NULL,
  token bigint NOT NULL
) WITH (fillfactor = 50);

-- The changes of a group count what people ask for, so that a leader finds out. Pauses are as jobs.ParsePauses reads them.
CREATE TABLE {s}cronlease_group (
  name    text COLLATE "C" PRIMARY KEY,
  changes bigint  NOT NULL,
  paused  boolean NOT NULL,
  pauses  text    NOT NULL DEFAULT ''
) WITH (fillfactor = 50);

-- What the ledger knows of each job. The job without a name is the group's own: its schedule says which term has declared
-- its jobs last, and schedule_since when it did so first.
CREATE TABLE {s}cronlease_job (
  grp            text COLLATE "C" NOT NULL,
  name           text COLLATE "C" NOT NULL,
  schedule       text    NOT NULL,
  since          bigint  NOT NULL,
  schedule_since bigint  NOT NULL,
  paused         boolean NOT NULL DEFAULT false,
  pauses         text    NOT NULL DEFAULT '',
  started_at     bigint,
  finished_at    bigint,
  failing        boolean NOT NULL DEFAULT false,
  gone_at        bigint,
  PRIMARY KEY (grp, name)
) WITH (fillfactor = 50);

-- The ledger: one row for each run, written by the claim of its tick, which is a planned instant. States are the numbers of
-- jobs.State: 1 is running, 2 waiting, and what is above is over. The verdict says what the end of the run says of its job
-- (1: it works, 2: it fails). Errors are of any bytes; details are what no statement compares, as JSON.
CREATE TABLE {s}cronlease_run (
  grp          text COLLATE "C" NOT NULL,
  job          text COLLATE "C" NOT NULL,
  tick         bigint   NOT NULL,
  trigger_id   bigint   NOT NULL,
  claim_id     bytea    NOT NULL,
  state        smallint NOT NULL CHECK (state BETWEEN 1 AND 9),
  owner        text COLLATE "C" NOT NULL,
  token        bigint   NOT NULL,
  attempt      integer  NOT NULL,
  claimed_at   bigint   NOT NULL,
  started_at   bigint,
  finished_at  bigint,
  due_at       bigint,
  missed       integer  NOT NULL,
  error        bytea    NOT NULL,
  cancel_asked boolean  NOT NULL,
  verdict      smallint,
  args         bytea,
  backfill     text,
  details      text,
  PRIMARY KEY (grp, job, tick, trigger_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

-- Both are partial, so that no plan takes them for a look by key while the table is small. Read backwards, they have the
-- newest ticks first, and the jobs of a tick by name, the last one first.
CREATE INDEX cronlease_run_open ON {s}cronlease_run (grp, tick, job, trigger_id) WHERE state <= 2;
CREATE INDEX cronlease_run_over ON {s}cronlease_run (grp, state, tick, job, trigger_id) WHERE state > 2;
-- The newest scheduled tick of a job: runs asked for by hand can be in the way of finding it by the key.
CREATE INDEX cronlease_run_ticks ON {s}cronlease_run (grp, job, tick) WHERE trigger_id = 0;

-- The attempts at a run that another one follows, and those that have printed something. They go with their run.
CREATE TABLE {s}cronlease_attempt (
  grp         text COLLATE "C" NOT NULL,
  job         text COLLATE "C" NOT NULL,
  tick        bigint   NOT NULL,
  trigger_id  bigint   NOT NULL,
  attempt     integer  NOT NULL,
  state       smallint NOT NULL,
  owner       text COLLATE "C" NOT NULL,
  token       bigint   NOT NULL,
  started_at  bigint,
  finished_at bigint,
  error       bytea    NOT NULL,
  output      bytea    NOT NULL,
  PRIMARY KEY (grp, job, tick, trigger_id, attempt),
  FOREIGN KEY (grp, job, tick, trigger_id) REFERENCES {s}cronlease_run ON UPDATE CASCADE ON DELETE CASCADE
);

-- What was asked of each group, and by whom. The tick is absent where it was not about one run.
CREATE TABLE {s}cronlease_audit (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  grp        text COLLATE "C" NOT NULL,
  at         bigint NOT NULL,
  actor      text   NOT NULL,
  via        text   NOT NULL,
  action     text   NOT NULL,
  job        text COLLATE "C" NOT NULL,
  tick       bigint,
  trigger_id bigint NOT NULL,
  note       text   NOT NULL,
  result     text   NOT NULL
);
CREATE INDEX cronlease_audit_by_group ON {s}cronlease_audit (grp, id);
CREATE INDEX cronlease_audit_by_job ON {s}cronlease_audit (grp, job, id);

-- The terms of each group, as they tell of themselves.
CREATE TABLE {s}cronlease_term (
  grp      text COLLATE "C" NOT NULL,
  token    bigint  NOT NULL,
  owner    text COLLATE "C" NOT NULL,
  began_at bigint  NOT NULL,
  ended_at bigint,
  early    boolean NOT NULL,
  why      text    NOT NULL,
  PRIMARY KEY (grp, token)
);

-- The replicas of each group, as they tell of themselves every few minutes. The jobs are as internal/joblist writes them,
-- in parts that are a row each; those with the list of part 0 belong together.
CREATE TABLE {s}cronlease_replica (
  grp     text COLLATE "C" NOT NULL,
  owner   text COLLATE "C" NOT NULL,
  part    integer NOT NULL,
  parts   integer NOT NULL,
  list    bigint  NOT NULL,
  version text    NOT NULL,
  since   bigint  NOT NULL,
  seen_at bigint  NOT NULL,
  jobs    bytea   NOT NULL,
  PRIMARY KEY (grp, owner, part)
);

-- Locks: one row for each, which says who holds it and who waits for it. What the queue means is the client's business; here
-- it is compared by version. The row without a name is the floor: its version is the highest of all rows that were pruned.
CREATE TABLE {s}cronlease_lock (
  name       text COLLATE "C" PRIMARY KEY,
  version    bigint NOT NULL,
  queue      bytea  NOT NULL,
  written_at bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX cronlease_lock_idle ON {s}cronlease_lock (written_at) WHERE length(queue) = 0;
INSERT INTO {s}cronlease_lock (name, version, queue, written_at) VALUES ('', 0, 'floor', 0) ON CONFLICT (name) DO NOTHING;
