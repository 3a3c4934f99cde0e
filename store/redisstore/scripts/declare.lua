-- Says which jobs a term has. ARGV: group, owner, token, how many, and of each job its name, schedule, and since when that is in force or ''.
-- Returns false for a term that was replaced.
local group, owner, token = take(), take(), take()
if not current(group, owner, token) then return false end
sound(group, {})
local present = now()
local opened = redis.call('HGET', key('ledger', group), 'opened_token')
for _ = 1, tonumber(take()) do
  local name, schedule, from = take(), take(), take()
  local j, changed = job(group, name), false
  if not j then
    j, changed = {since = present, from = present, paused = '0', started = '0', finished = '0', gone = '0', pauses = '', schedule = schedule}, true
  elseif j.schedule ~= schedule or tonumber(j.from) > tonumber(present) then
    if from == '' or tonumber(from) > tonumber(present) then from = present end
    if tonumber(from) > tonumber(j.from) or tonumber(j.from) > tonumber(present) then j.from = from end
    j.schedule, changed = schedule, true
  end
  if j.gone ~= '0' then
    j.gone, changed = '0', true
  end
  if changed then keep(group, name, j) end
end
if opened ~= token then redis.call('HSET', key('ledger', group), 'opened_token', token, 'opened_at', present) end
return 1
