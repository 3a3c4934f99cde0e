-- Whether a process listens to each of some channels of a group. ARGV: group, channels. Returns the owner of the lease or '', and the counts.
local lease = redis.call('HMGET', key('lease', take()), 'owner', 'released')
local seen = {lease[1] and lease[2] ~= '1' and lease[1] or ''}
local counts = redis.call('PUBSUB', 'NUMSUB', unpack(ARGV, 2))
for i = 2, #counts, 2 do seen[#seen + 1] = counts[i] end
return seen
