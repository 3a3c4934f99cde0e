-- The two rows of a group: heartbeats write the lease row, and only a takeover
-- writes the fence row. Names are ASCII, compared byte by byte.
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
  name  VARBINARY(128)  NOT NULL,
  owner VARBINARY(128)  NOT NULL,
  token BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;
