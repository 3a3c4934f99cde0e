-- Keeps a replica. ARGV: group, owner, version, number of the list, and the list's parts.
local group, owner, version, list = take(), take(), take(), take()
local at, present = key('replica', group .. ' ' .. owner), now()
redis.call('SCARD', key('replicas', group))
local since = redis.call('HGET', at, 'since') or present
redis.call('DEL', at)
redis.call('HSET', at, 'version', version, 'since', since, 'seen', present, 'list', list, 'parts', #ARGV - 4)
for i = 5, #ARGV do redis.call('HSET', at, 'part' .. (i - 5), ARGV[i]) end
redis.call('SADD', key('replicas', group), owner)
return 1
