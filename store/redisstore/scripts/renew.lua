-- Renews leases. ARGV: owner, heartbeat, and of each lease its group, token, heartbeat and whether a request to resign is known.
-- Returns how many it has renewed.
local present, renewed = now(), 0
for i = 3, #ARGV, 4 do
  local lease = key('lease', ARGV[i])
  local row = redis.call('HMGET', lease, 'owner', 'token', 'heartbeat', 'resign', 'released')
  if row[1] == ARGV[1] and row[2] == ARGV[i + 1] and row[3] == ARGV[i + 2] and row[4] == ARGV[i + 3] and row[5] == '0' then
    redis.call('HSET', lease, 'heartbeat', ARGV[2], 'renewed', present)
    renewed = renewed + 1
  end
end
return renewed
