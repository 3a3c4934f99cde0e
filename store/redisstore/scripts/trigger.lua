-- Asks for a run. ARGV: group, job, tick and trigger, each '' to choose one, the tick in plain microseconds,
-- arguments or '', backfill, most open runs of a job, and the entry of the audit. Returns the result, or 'full', tick and trigger.
local group, r, args, backfill = take(), {job = take(), tick = take(), trigger = take(), at = take()}, take(), take()
local most, entry = tonumber(take()), takeEntry()
sound(group, {[r.job] = true})
local present = now()
if not job(group, r.job) then
  note(group, entry, 'refused')
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
  entry[TICK], entry[TRIGGER] = r.at, r.trigger
  note(group, entry, 'unchanged')
  return {'unchanged', r.tick, r.trigger}
end
-- They are counted only if all of the group are so many.
local indexes, open = {key('in', group .. ' ' .. RUNNING), key('in', group .. ' ' .. WAITING)}, 0
for _, index in ipairs(indexes) do open = open + redis.call('ZCARD', index) end
if open >= most then
  open = 0
  for _, index in ipairs(indexes) do
    for _, entry in ipairs(redis.call('ZRANGE', index, 0, -1)) do
      if string.sub(entry, 21, -22) == r.job then open = open + 1 end
    end
  end
end
if open >= most then
  note(group, entry, 'refused')
  return {'full', '', ''}
end
entry[TICK], entry[TRIGGER] = r.at, r.trigger
note(group, entry, 'done')
insert(group, r, WAITING, {claimed = present, due = present, args = args, backfill = backfill})
asked(group)
return {'done', r.tick, r.trigger}
