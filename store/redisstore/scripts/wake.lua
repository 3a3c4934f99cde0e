-- Wakes the holder that waits for requests. ARGV: group.
signal('asked', ARGV[1])
return 1
