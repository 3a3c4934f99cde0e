-- Wakes the holder that waits for requests. ARGV: group.
redis.call('PUBLISH', key('asked', ARGV[1]), '')
return 1
