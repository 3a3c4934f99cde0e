-- Takes a lease. ARGV: group, server, token and heartbeat of the lease as they were read, token of the fence, owner, heartbeat,
-- TTL and floor.
local lease, fence = key('lease', ARGV[1]), key('fence', ARGV[1])
local row, fenced = redis.call('HMGET', lease, 'token', 'heartbeat'), redis.call('HGET', fence, 'token')
if row[1] ~= ARGV[3] or row[2] ~= ARGV[4] or fenced ~= ARGV[5] or server() ~= ARGV[2] then return false end
local present = now()
local token = largest(inc(row[1]), inc(fenced), inc(ARGV[9]), present)
redis.call('HSET', fence, 'owner', ARGV[6], 'token', token)
redis.call('HSET', lease, 'owner', ARGV[6], 'token', token, 'heartbeat', ARGV[7], 'renewed', present, 'ttl', ARGV[8], 'released', '0', 'resign', '0')
return token
