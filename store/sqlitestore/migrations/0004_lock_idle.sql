-- For programs from version 3 on.
--
-- Pruning finds the rows that nobody is in by an index.
CREATE INDEX IF NOT EXISTS cronlease_lock_idle ON cronlease_lock (written_at) WHERE length(queue) = 0;

-- The row without a name is the floor: its version is the highest of all rows
-- that were pruned. Its queue is not empty, or it would be pruned itself.
INSERT INTO cronlease_lock (name, version, queue, written_at) VALUES ('', 0, CAST('floor' AS BLOB), 0)
ON CONFLICT (name) DO NOTHING;
