-- Releases a lease. ARGV: group, owner, token.
local lease = key('lease', ARGV[1])
local row = redis.call('HMGET', lease, 'owner', 'token')
if row[1] ~= ARGV[2] or row[2] ~= ARGV[3] then return 0 end
redis.call('HSET', lease, 'released', '1')
signal('free', ARGV[1])
return 1
