-- For programs from version 3 on.
--
-- Since when nobody has been in a lock's row, so that pruning finds it by an
-- index. It is generated, so that programs of earlier versions keep it too.
ALTER TABLE {lock}
  ADD COLUMN idle_at DATETIME(6) AS (IF(LENGTH(queue) = 0, written_at, NULL)) STORED,
  ADD KEY by_idle (idle_at);

-- The row without a name is the floor: its version is the highest of all rows
-- that were pruned. Its queue is not empty, or it would be pruned itself.
INSERT INTO {lock} (name, version, queue, written_at) VALUES (_binary'', 0, _binary'floor', UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE version = version;
