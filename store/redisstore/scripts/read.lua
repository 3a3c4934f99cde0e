-- The rows of some groups. ARGV: the groups.
local readings = {}
for i, group in ipairs(ARGV) do
  readings[i] = {
    redis.call('HMGET', key('lease', group), 'token', 'owner', 'heartbeat', 'renewed', 'ttl', 'released', 'resign'),
    redis.call('HMGET', key('fence', group), 'token', 'owner'),
  }
end
return {now(), server(), readings}
