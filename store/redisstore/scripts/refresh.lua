-- Notes that a replica is there. ARGV: group, owner.
local at = key('replica', ARGV[1] .. ' ' .. ARGV[2])
if redis.call('HEXISTS', at, 'seen') == 1 then redis.call('HSET', at, 'seen', now()) end
return 1
