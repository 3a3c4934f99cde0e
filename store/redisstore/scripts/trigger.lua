-- Asks for a run. ARGV: group, job, its name in the audit, tick and trigger, each '' to choose one, the tick in plain microseconds, '1' if there are arguments, the
-- arguments, backfill, actor. Returns the result, tick and trigger.
local group, r, has, args, backfill = take(), {job = take(), called = take(), tick = take(), trigger = take(), at = take()}, take(), take(), take()
local by = who()
sound(group, {[r.job] = true})
local present = now()
if not job(group, r.job) then
  note(group, 'refused', by, {job = r.called, at = '', trigger = '0'})
  return {'refused', '', ''}
end
if r.tick == '' then r.tick, r.at = '1' .. string.rep('0', 18 - #present) .. present, present end
if r.trigger == '' then
  local n = 1
  repeat
    r.trigger = string.format('%020.0f', n)
    n = n + 1
  until redis.call('EXISTS', key('run', named(group, r))) == 0
end
if redis.call('EXISTS', key('run', named(group, r))) == 1 then
  note(group, 'unchanged', by, r)
  return {'unchanged', r.tick, r.trigger}
end
note(group, 'done', by, r)
local fields = {'claimed', present, 'due', present}
if has == '1' then
  fields[#fields + 1], fields[#fields + 2] = 'args', args
end
if backfill ~= '' then
  fields[#fields + 1], fields[#fields + 2] = 'backfill', backfill
end
insert(group, r, WAITING, unpack(fields))
asked(group)
return {'done', r.tick, r.trigger}
