-- Inserts runs, which come in the order of their keys. ARGV: group, owner, token, server, '1' if the holder assigns, id, how many, and of each its
-- job, tick, trigger, state, delay, missed, error, the newest tick that the holder knows or '', the tick whose row it extends or '', assignee, details,
-- and what follows it. Returns what is there for each, false for what was refused; false for a term that was replaced; '' on a server that is not the one named.
local group, owner, token, on, assigns, id = take(), take(), take(), take(), take() == '1', take()
if on ~= '' and on ~= server() then return '' end
local claims, jobs, missing = {}, {}, false
for i = 1, tonumber(take()) do
  local c = {job = take(), tick = take(), trigger = take(), state = take(), delay = take(), missed = take(), error = take(),
    after = take(), extends = take(), assignee = takeAssignee(), details = take()}
  jobs[c.job] = true
  c.followers = followers(jobs)
  if not redis.call('HGET', key('run', named(group, c)), 'state') then missing = true end
  if c.extends ~= '' then redis.call('HLEN', key('run', named(group, {job = c.job, tick = c.extends, trigger = SCHEDULED}))) end
  claims[i] = c
end
if missing then
  if not current(group, owner, token) then return false end
  sound(group, jobs)
end

local present = now()
local paused = redis.call('HGET', key('ledger', group), 'paused') == '1'
local newest, held = {}, {} -- by job, before the call
for name in pairs(jobs) do
  local j = job(group, name)
  newest[name] = redis.call('HGET', key('cursors', group), name)
  held[name] = paused or j and j.paused == '1'
end

local function refused(c)
  if c.trigger ~= SCHEDULED then return false end
  local last = newest[c.job]
  if last and not less(last, c.tick) or c.after ~= '' and (not last or less(last, c.after)) then return true end
  return c.state ~= SKIPPED and held[c.job]
end

-- extended gives a row of skipped ticks one more, and reports whether it did.
local function extended(c)
  if c.extends == '' or c.extends ~= newest[c.job] then return false end
  local was = {job = c.job, tick = c.extends, trigger = SCHEDULED}
  local at = redis.call('HMGET', key('run', named(group, was)), 'state', 'owner', 'token', 'error', 'missed')
  if at[1] ~= SKIPPED or at[2] ~= owner or at[3] ~= token or (at[4] or '') ~= c.error then return false end
  rename(group, was, c, SKIPPED)
  local missed = math.min(tonumber(at[5] or 0) + 1 + tonumber(c.missed), 2^53)
  redis.call('HSET', key('run', named(group, c)), 'claim', id, 'finished', present, 'missed', string.format('%.0f', missed))
  redis.call('HSET', key('cursors', group), c.job, c.tick)
  return true
end

local answers = {}
for i, c in ipairs(claims) do
  if redis.call('EXISTS', key('run', named(group, c))) == 0 and not refused(c) and not extended(c) then
    local fields = {owner = owner, token = token, claimed = present, claim = id, missed = c.missed, error = c.error}
    if c.missed == '0' then fields.missed = '' end
    if c.state == RUNNING then
      fields.attempt, fields.started = '1', present
    elseif c.state == WAITING then
      fields.due = plus(present, c.delay)
      if assigns then fields.owner, fields.token, fields.details = c.assignee.owner, c.assignee.token, c.details end
    else
      fields.finished = present
    end
    insert(group, c, c.state, fields)
    follow(group, owner, token, assigns, c.followers, present, '', false)
  end
  answers[i] = row(group, c)
end
return answers
