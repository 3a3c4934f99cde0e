-- Asks the holder of a term to step down. ARGV: group, token, and the entry of the audit. Returns whether the term goes on.
local group, token, entry = take(), take(), takeEntry()
local lease = key('lease', group)
sound(group, {})
local row = redis.call('HMGET', lease, 'token', 'released', 'resign')
local result = 'done'
if row[1] ~= token or row[2] ~= '0' then
  result = 'refused'
elseif row[3] == '1' then
  result = 'unchanged'
end
note(group, entry, result)
if result == 'refused' then return 0 end
redis.call('HSET', lease, 'resign', '1')
signal('asked', group)
return 1
