-- Takes runs of a job out of its schedule, the newest first. ARGV: group, owner, token, job, the tick that they are later than, the entry to
-- begin below or '', and how many runs to look at. Returns how many it took out, and the entry that it has come to, false at the end; false
-- for a term that was replaced.
local group, owner, token, name, after, below, most = take(), take(), take(), take(), take(), take(), tonumber(take())
if not current(group, owner, token) then return false end
sound(group, {[name] = true})
local index = key('runs', group .. ' ' .. name)
local function entries(max, min, limit) return redis.call('ZREVRANGEBYLEX', index, max, min, 'LIMIT', 0, limit) end

local trigger = string.rep('0', 20 - #token) .. token
local min = '(' .. after .. '~'
local looked = entries(below == '' and '+' or '(' .. below, min, most)
local passed = {}
for _, entry in ipairs(looked) do
  local r = parsed(entry, name)
  local is = redis.call('HMGET', key('run', named(group, r)), 'state', 'token')
  if r.trigger == SCHEDULED and is[1] and is[2] ~= token then
    r.state, r.to = is[1], {job = name, tick = r.tick, trigger = trigger}
    if redis.call('EXISTS', key('run', named(group, r.to))) == 1 then
      return redis.error_reply('ERR a run has the key of one that is passed over: ' .. named(group, r.to))
    end
    passed[#passed + 1] = r
  end
end
for _, r in ipairs(passed) do rename(group, r, r.to, r.state) end

if #passed > 0 then
  -- The cursor is the newest of those that are left.
  local cursor, max = false, '+'
  while not cursor do
    local left = entries(max, '-', 500)
    if #left == 0 then break end
    for _, entry in ipairs(left) do
      if string.sub(entry, 21) == SCHEDULED then
        cursor = string.sub(entry, 1, 19)
        break
      end
    end
    max = '(' .. left[#left]
  end
  if cursor then
    redis.call('HSET', key('cursors', group), name, cursor)
  else
    redis.call('HDEL', key('cursors', group), name)
  end
end
return {#passed, #looked == most and looked[#looked]}
