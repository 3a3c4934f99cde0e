-- Looks through locks. ARGV: microseconds, the name to begin after, how many to look at.
-- Returns the last name that it has looked at, false at the end, and those with holders or waiters that were not written for so long.
local names = redis.call('ZRANGEBYLEX', locks(), ARGV[2] == '' and '-' or '(' .. ARGV[2], '+', 'LIMIT', 0, ARGV[3])
if #names == 0 then return {false, {}} end
local keys, present, found = {}, now(), {}
for i, name in ipairs(names) do keys[i] = key('lock', name) end
for i, row in ipairs(rowsof(keys)) do
  if row then
    local _, written, queue = parsed(row)
    if queue ~= '' and since(written, present) > tonumber(ARGV[1]) then found[#found + 1] = names[i] end
  end
end
return {#names == tonumber(ARGV[3]) and names[#names], found}
