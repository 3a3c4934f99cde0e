-- Deletes a replica. ARGV: group, owner, microseconds within which it was not seen, '0': in any case.
local at, all = key('replica', ARGV[1] .. ' ' .. ARGV[2]), key('replicas', ARGV[1])
local seen = redis.call('HGET', at, 'seen')
redis.call('SCARD', all)
if ARGV[3] == '0' or seen and since(seen, now()) >= tonumber(ARGV[3]) then
  redis.call('DEL', at)
  redis.call('SREM', all, ARGV[2])
end
return 1
