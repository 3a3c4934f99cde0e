-- Renews a lease and looks whether something is asked of its holder. ARGV: group, owner, heartbeat, and of the lease its token, heartbeat
-- and whether a request to resign is known. Returns false if the lease was not renewed.
local lease = key('lease', ARGV[1])
local row = redis.call('HMGET', lease, 'owner', 'token', 'heartbeat', 'resign', 'released')
if row[1] ~= ARGV[2] or row[2] ~= ARGV[4] or row[3] ~= ARGV[5] or row[4] ~= ARGV[6] or row[5] ~= '0' then return false end
local changes, present = redis.call('HGET', key('ledger', ARGV[1]), 'changes') or '0', now()
redis.call('HSET', lease, 'heartbeat', ARGV[3], 'renewed', present)
return {changes, present, server()}
