-- What is asked of the holder of a term. ARGV: group, token. Returns whether it shall step down, '' for a term that was replaced, and the number of
-- the last request.
local row = redis.call('HMGET', key('lease', ARGV[1]), 'token', 'resign')
return {row[1] == ARGV[2] and row[2] or '', redis.call('HGET', key('ledger', ARGV[1]), 'changes') or '0'}
