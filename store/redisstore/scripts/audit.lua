-- Lists entries of the audit, the newest first. ARGV: group, a job or '', the ID that they are below or '0', how many to find, the place in the
-- list to begin at, counted from its newest entry on, and how many to look at. Returns the entries, and the last ID that it has seen, '0' at the end.
local group, name, before, most, look = take(), take(), take(), tonumber(take()), tonumber(take())
local audit = key('audit', group)
local skip = 0
if before ~= '0' then
  -- IDs follow each other without gaps.
  local newest = redis.call('LINDEX', audit, -1)
  if newest then skip = math.max(0, tonumber(cmsgpack.unpack(newest)[ID]) - tonumber(before) + 1) end
end
local packed = redis.call('LRANGE', audit, -(skip + look), -(skip + 1))
local found, last = {}, '0'
for i = #packed, 1, -1 do
  local entry = cmsgpack.unpack(packed[i])
  if #found == most then return {found, '0'} end
  if name == '' or entry[JOBNAME] == name then found[#found + 1] = entry end
  last = entry[ID]
end
if #packed < look then last = '0' end
return {found, last}
