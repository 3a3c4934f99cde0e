-- Inserts the rows of a group that are missing. ARGV: group, TTL in microseconds.
local lease, fence, present = key('lease', ARGV[1]), key('fence', ARGV[1]), now()
local fenced = redis.call('HGET', fence, 'token')
if redis.call('EXISTS', lease) == 0 then
  local token, released = '0', '1'
  if fenced then token, released = largest(inc(fenced), present), '0' end
  redis.call('HSET', lease, 'owner', '', 'token', token, 'heartbeat', '0', 'renewed', present, 'ttl', ARGV[2], 'released', released, 'resign', '0')
end
if not fenced then
  local row = redis.call('HMGET', lease, 'owner', 'token')
  redis.call('HSET', fence, 'owner', row[1], 'token', row[2])
end
redis.call('ZADD', KEYS[1] .. ':groups', 0, ARGV[1])
return 1
