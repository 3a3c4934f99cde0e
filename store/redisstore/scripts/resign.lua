-- Asks the holder of a term to step down. ARGV: group, token, actor. Returns whether the term goes on.
local group, token, by = take(), take(), who()
local lease = key('lease', group)
sound(group, {})
local row = redis.call('HMGET', lease, 'token', 'released', 'resign')
local result = 'done'
if row[1] ~= token or row[2] ~= '0' then
  result = 'refused'
elseif row[3] == '1' then
  result = 'unchanged'
end
note(group, result, by, {job = '', at = '', trigger = '0'})
if result == 'refused' then return 0 end
redis.call('HSET', lease, 'resign', '1')
redis.call('PUBLISH', key('asked', group), '')
return 1
