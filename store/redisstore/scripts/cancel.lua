-- Asks for the end of a run. ARGV: group, job, tick and trigger, or '' for a key that no run has, the same for the audit, actor. Returns the result.
local group, r = take(), {job = take(), tick = take(), trigger = take()}
local about, by = {job = take(), at = take(), trigger = take()}, who()
sound(group, {})
local at = key('run', named(group, r))
local is = redis.call('HMGET', at, 'state', 'cancel')
local result = 'done'
if r.tick == '' or not is[1] or over(is[1]) then
  result = 'refused'
elseif is[2] == '1' then
  result = 'unchanged'
end
note(group, result, by, about)
if result == 'done' then
  redis.call('HSET', at, 'cancel', '1')
  asked(group)
end
return result
