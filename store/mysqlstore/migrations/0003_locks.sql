-- Locks: one row for each, which says who holds it and who waits for it. What
-- the queue means is the client's business; here it is compared by version.
CREATE TABLE IF NOT EXISTS {lock} (
  name       VARBINARY(128)  NOT NULL,
  version    BIGINT UNSIGNED NOT NULL,
  queue      MEDIUMBLOB      NOT NULL,
  written_at DATETIME(6)     NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;
