-- Deletes those of some groups that are over. ARGV: microseconds since when a released lease, and another, was not renewed; limit; the groups.
-- Returns how many it has found.
local present, found = now(), 0
for i = 4, #ARGV do
  if found == tonumber(ARGV[3]) then break end
  local lease = key('lease', ARGV[i])
  local row = redis.call('HMGET', lease, 'renewed', 'released')
  local idle = ARGV[2]
  if row[2] == '1' then idle = ARGV[1] end
  if row[1] and since(row[1], present) > tonumber(idle) then
    redis.call('DEL', lease, key('fence', ARGV[i]))
    redis.call('ZREM', KEYS[1] .. ':groups', ARGV[i])
    found = found + 1
  end
end
return found
