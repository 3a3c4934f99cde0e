-- Changes the state of runs. ARGV: group, owner, token, server, '1' if the holder assigns, the group whose fence is compared, how many, and of
-- each its job, tick, trigger, the state, attempt, owner and token that it has to have, the state and attempt that it gets, assignee, delay, the
-- least instant of a start, error, details, what its end says of the job ('1': it works, '2': it fails), '1' if it leaves an attempt, the state,
-- error and output of that, and what follows it.
-- Returns whether the term has not been replaced, and for each whether it is as wanted now; '' on a server that is not the one named.
local group, owner, token, on, assigns, fence = take(), take(), take(), take(), take() == '1', take()
if on ~= '' and on ~= server() then return '' end
local moves, jobs = {}, {}
for i = 1, tonumber(take()) do
  local m = {job = take(), tick = take(), trigger = take(), from = take(), attempt = take(), owner = take(), token = take(), to = take(),
    counted = take(), assignee = takeAssignee(), delay = take(), start = take(), error = take(), details = take(), verdict = take(),
    leaves = take(), state = take(), why = take(), output = take()}
  jobs[m.job] = true
  m.followers = followers(jobs)
  redis.call('HGET', key('run', named(group, m)), 'state')
  redis.call('HLEN', key('attempts', named(group, m)))
  moves[i] = m
end
sound(group, jobs)

-- leave keeps the attempt that a move ends.
local function leave(m, started, present)
  local at, number = key('attempts', named(group, m)), tonumber(m.attempt)
  local finished = present
  if m.state == tostring(LAST) then finished = '' end -- interrupted: nobody knows when
  redis.call('HSET', at, m.attempt, cmsgpack.pack({m.attempt, m.state, m.owner, m.token, started or '', finished, m.why, m.output}))
  if number > 100 then
    for _, n in ipairs(redis.call('HKEYS', at)) do
      if tonumber(n) <= number - 100 then redis.call('HDEL', at, n) end
    end
  end
end

local present, done = now(), {}
local mine = current(fence, owner, token)
for i, m in ipairs(moves) do
  local at = key('run', named(group, m))
  local r = redis.call('HMGET', at, 'state', 'attempt', 'owner', 'token', 'started', 'cancel', 'args')
  local attempt, by, under = r[2] or '0', r[3] or '', r[4] or '0'
  local keeps = {owner = owner, token = token}
  if assigns and m.to == WAITING then keeps = m.assignee end
  done[i] = 0
  if not r[1] then
    -- There is none.
  elseif r[1] == m.to and attempt == m.counted and by == keeps.owner and under == keeps.token then
    done[i] = 1 -- by an earlier repetition
  elseif m.to == RUNNING and r[6] == '1' then
    -- Its end was asked for.
  elseif mine and not over(r[1]) and r[1] == m.from and attempt == m.attempt and by == m.owner and under == m.token then
    if m.leaves == '1' then leave(m, r[5], present) end
    redis.call('HSET', at, 'state', m.to, 'attempt', m.counted, 'owner', keeps.owner, 'token', keeps.token, 'error', m.error, 'details', m.details)
    if m.to == RUNNING then
      redis.call('HSET', at, 'started', largest(present, m.start, r[5] or '0'))
    elseif m.to == WAITING then
      redis.call('HSET', at, 'due', plus(present, m.delay))
    else
      redis.call('HSET', at, 'finished', present)
      local j = job(group, m.job)
      if j then
        j.finished = present
        if r[5] and less(j.started, r[5]) then j.started = r[5] end
        keep(group, m.job, j)
        if m.verdict == WORKS then
          redis.call('SREM', key('failing', group), m.job)
        elseif m.verdict == FAILS then
          redis.call('SADD', key('failing', group), m.job)
        end
      end
    end
    redis.call('ZREM', key('in', group .. ' ' .. m.from), ofGroup(m))
    redis.call('ZADD', key('in', group .. ' ' .. m.to), 0, ofGroup(m))
    follow(group, owner, token, assigns, m.followers, present, r[7] or '', r[6] == '1')
    done[i] = 1
  end
end
return {mine and 1 or 0, done}
