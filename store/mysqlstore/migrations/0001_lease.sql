-- The two rows of a group: heartbeats write the lease row, and only a takeover
-- writes the fence row. Names are ASCII, compared byte by byte. Fenced
-- transactions count themselves in the fence row where a shared lock on it is not
-- enough: on a cluster with several writers, only a change is noticed.
CREATE TABLE IF NOT EXISTS {lease} (
  name         VARBINARY(128)   NOT NULL,
  owner        VARBINARY(128)   NOT NULL,
  token        BIGINT UNSIGNED  NOT NULL,
  heartbeat    BIGINT UNSIGNED  NOT NULL,
  renewed_at   DATETIME(6)      NOT NULL,
  ttl_us       BIGINT UNSIGNED  NOT NULL,
  released     BOOLEAN          NOT NULL,
  resign_asked BOOLEAN          NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS {fence} (
  name   VARBINARY(128)  NOT NULL,
  owner  VARBINARY(128)  NOT NULL,
  token  BIGINT UNSIGNED NOT NULL,
  checks BIGINT UNSIGNED NOT NULL DEFAULT 0,
  PRIMARY KEY (name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;
