-- Deletes old runs of a job. ARGV: group, job, how many are kept or '0', for how many microseconds or '0', how many to delete at most, the entry
-- to begin after or '', and how many runs to look at. Returns how many it deleted, and the entry that it has come to, false at the end.
local group, name, most, age, limit, after, look = take(), take(), tonumber(take()), tonumber(take()), tonumber(take()), take(), tonumber(take())
sound(group, {[name] = true})
local index, present = key('runs', group .. ' ' .. name), now()
local cursor = redis.call('HGET', key('cursors', group), name)
local looked = redis.call('ZRANGEBYLEX', index, after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, look)
if #looked == 0 then return {0, false} end
-- How many there are from the first of these on.
local left = redis.call('ZCARD', index) - redis.call('ZRANK', index, looked[1])
local old, last = {}, #looked == look and looked[#looked]
for i, entry in ipairs(looked) do
  if #old == limit then
    last = looked[i - 1]
    break
  elseif age == 0 and left <= most then
    last = false
    break
  end
  local r = parsed(entry, name)
  local is = redis.call('HMGET', key('run', named(group, r)), 'state', 'finished')
  local past = most > 0 and left > most or age > 0 and is[2] and since(is[2], present) > age
  if past and is[1] and over(is[1]) and not (r.trigger == SCHEDULED and r.tick == cursor) then
    r.state = is[1]
    old[#old + 1] = r
  end
  left = left - 1
end
for _, r in ipairs(old) do delete(group, r, r.state) end
return {#old, last}
