-- The replicas of a group, without their lists. ARGV: group. Returns the clock, owner of the lease or '', and the replicas.
local group, replicas = ARGV[1], {}
local lease, leader = redis.call('HMGET', key('lease', group), 'owner', 'released'), ''
if lease[1] and lease[2] ~= '1' then leader = lease[1] end
for _, owner in ipairs(redis.call('SMEMBERS', key('replicas', group))) do
  local r = redis.call('HMGET', key('replica', group .. ' ' .. owner), 'version', 'since', 'seen', 'list')
  if r[1] then replicas[#replicas + 1] = {owner, r[1], r[2], r[3], r[4]} end
end
return {now(), leader, replicas}
