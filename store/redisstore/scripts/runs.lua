-- Lists runs, the newest first. ARGV: group; a job, or '' for the index of all, or of a state; the state or '0'; '1' for those that are over alone;
-- the bounds of the index's entries, the later one first; how many to find, and how many to look at. Returns the runs, and the entry that it has
-- come to, false at the end.
local group, name, state, ended, max, min, most, look = take(), take(), take(), take(), take(), take(), tonumber(take()), tonumber(take())
local index = key('all', group)
if name ~= '' then
  index = key('runs', group .. ' ' .. name)
elseif state ~= '0' then
  index = key('in', group .. ' ' .. state)
end
local entries = redis.call('ZREVRANGEBYLEX', index, max, min, 'LIMIT', 0, look)
local found, last = {}, #entries == look and entries[#entries]
for _, entry in ipairs(entries) do
  if #found == most then
    last = false
    break
  end
  local r = row(group, parsed(entry, name ~= '' and name))
  if r and (state == '0' or r[1] == state) and (ended == '0' or over(r[1])) then found[#found + 1] = r end
end
return {found, last}
