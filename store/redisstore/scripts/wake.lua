-- Wakes the holder that waits for requests. ARGV: group.
redis.pcall('PUBLISH', key('asked', ARGV[1]), '')
return 1
