-- Pauses a job, or the group, or resumes it. ARGV: group, job, its name in the audit, '1' to pause, '1' if the ticks before the pause are skipped, actor.
-- Returns the result.
local group, name, called, paused, skipping, by = take(), take(), take(), take(), take(), who()
sound(group, {})
local ledger, about = key('ledger', group), {job = called, at = '', trigger = '0'}
local is
if name == '' then
  local row = redis.call('HMGET', ledger, 'paused', 'pauses')
  is = {paused = row[1] or '0', pauses = row[2] or ''}
else
  is = job(group, name)
end
local result = 'done'
if not is then
  result = 'refused'
elseif is.paused == paused then
  result = 'unchanged'
end
note(group, result, by, about)
if result ~= 'done' then return result end

local present = string.rep('0', 17 - #now()) .. now()
is.paused = paused
if paused == '1' then
  is.pauses = string.sub(is.pauses, -36 * 63) .. present .. '-'
else
  is.pauses = is.pauses .. present .. ','
  if skipping == '1' then is.pauses = string.sub(is.pauses, 1, -37) .. string.rep('0', 17) .. string.sub(is.pauses, -19) end
end
if name == '' then
  redis.call('HSET', ledger, 'paused', is.paused, 'pauses', is.pauses)
else
  keep(group, name, is)
end
asked(group)
return result
