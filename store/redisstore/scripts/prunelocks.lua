-- Deletes rows of locks that are long without holders and waiters. ARGV: microseconds, limit.
-- Returns how many it has looked at, and how many it has deleted. What it keeps, it looks at again once that was left, or is old enough.
local before = tonumber(now()) - tonumber(ARGV[1])
local names = redis.call('ZRANGEBYSCORE', idle(), '-inf', string.format('(%.0f', before), 'LIMIT', 0, ARGV[2])
if #names == 0 then return {0, 0} end
local keys, floor = {}, redis.call('GET', KEYS[1] .. ':floor') or '0'
for i, name in ipairs(names) do keys[i] = key('lock', name) end
local gone, over, young = {}, {}, {}
for i, row in ipairs(rowsof(keys)) do
  local version, written, queue = parsed(row or '0 0 ')
  if queue == '' and tonumber(written) >= before then
    young[#young + 1], young[#young + 2] = written, names[i]
  else
    over[#over + 1] = names[i]
    if queue == '' then
      gone[#gone + 1] = names[i]
      floor = largest(floor, version)
    end
  end
end
redis.call('SET', KEYS[1] .. ':floor', floor)
each(young, 'ZADD', idle(), 'XX')
for _, name in ipairs(gone) do redis.call('DEL', key('lock', name)) end
each(over, 'ZREM', idle())
each(gone, 'ZREM', locks())
return {#names, #gone}
