-- The list of a replica. ARGV: group, owner. Returns its number and its parts; false: there is none.
local at = key('replica', ARGV[1] .. ' ' .. ARGV[2])
local is = redis.call('HMGET', at, 'list', 'parts')
if not is[1] then return false end
local parts = {}
for i = 1, tonumber(is[2]) do parts[i] = redis.call('HGET', at, 'part' .. (i - 1)) end
return {is[1], parts}
