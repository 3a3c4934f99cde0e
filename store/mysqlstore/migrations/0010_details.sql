-- For programs from version 3 on.
--
-- What no statement compares of a run, as JSON. Most runs have nothing of it. Programs of
-- earlier versions leave it as it is.
ALTER TABLE {run} ADD COLUMN details BLOB NULL, LOCK=NONE;
