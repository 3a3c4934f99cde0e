-- What the scripts of the ledger have in common. Ticks and triggers are texts of fixed width in the keys of runs, so that they sort as
-- instants and numbers do: a tick is the microseconds since 1970 plus 10^18, in 19 digits, and a trigger has 20. Nothing is rolled back
-- when a command fails, so each script reads all that it needs, also what shows that a key is of another type, before it writes.

local RUNNING, WAITING, SKIPPED, LAST = '1', '2', '8', 9
local WORKS, FAILS = '1', '2'
local SCHEDULED = string.rep('0', 20)

-- take returns the next argument.
local taken = 0
local function take()
  taken = taken + 1
  return ARGV[taken]
end

local function over(state) return state ~= RUNNING and state ~= WAITING end

-- plus returns the instant that is later by some microseconds.
local function plus(instant, micros) return string.format('%.0f', tonumber(instant) + tonumber(micros)) end

-- current reports whether a term has not been replaced.
local function current(group, owner, token)
  if owner == '' or token == '0' then return false end
  local fenced = redis.call('HMGET', key('fence', group), 'owner', 'token')
  return fenced[1] == owner and fenced[2] == token
end

-- A run is a table with its job, tick and trigger.
local function named(group, r) return group .. ' ' .. r.job .. ' ' .. r.tick .. ' ' .. r.trigger end
local function ofJob(r) return r.tick .. ' ' .. r.trigger end
local function ofGroup(r) return r.tick .. ' ' .. r.job .. ' ' .. r.trigger end

-- parsed is the run of an entry of an index of the group, or of one of its job.
local function parsed(entry, job)
  if job then return {job = job, tick = string.sub(entry, 1, 19), trigger = string.sub(entry, 21)} end
  return {job = string.sub(entry, 21, -22), tick = string.sub(entry, 1, 19), trigger = string.sub(entry, -20)}
end

-- row reads a run as answers have it; false: there is none.
local function row(group, r)
  local at = key('run', named(group, r))
  local fields = redis.call('HMGET', at, 'state', 'owner', 'token', 'attempt', 'claimed', 'started', 'finished', 'due', 'missed', 'error',
    'cancel', 'backfill', 'details', 'claim')
  if not fields[1] then return false end
  fields[15], fields[16], fields[17], fields[18] = redis.call('HEXISTS', at, 'args'), r.job, r.tick, r.trigger
  return fields
end

-- sound fails if a key that holds the group's ledger is of another type. jobs are names as keys.
local function sound(group, jobs)
  redis.call('HLEN', key('ledger', group))
  redis.call('HLEN', key('jobs', group))
  redis.call('HLEN', key('cursors', group))
  redis.call('SCARD', key('failing', group))
  redis.call('LLEN', key('audit', group))
  redis.call('ZCARD', key('all', group))
  for state = 1, LAST do redis.call('ZCARD', key('in', group .. ' ' .. state)) end
  for job in pairs(jobs) do redis.call('ZCARD', key('runs', group .. ' ' .. job)) end
end

-- insert writes a run that is not there, with those of these fields that are not ''. The ticks of a job's schedule are inserted in their order.
local function insert(group, r, state, fields)
  local values = {'state', state}
  for field, value in pairs(fields) do
    if value ~= '' then values[#values + 1], values[#values + 2] = field, value end
  end
  redis.call('HSET', key('run', named(group, r)), unpack(values))
  redis.call('ZADD', key('runs', group .. ' ' .. r.job), 0, ofJob(r))
  redis.call('ZADD', key('all', group), 0, ofGroup(r))
  redis.call('ZADD', key('in', group .. ' ' .. state), 0, ofGroup(r))
  if r.trigger == SCHEDULED then redis.call('HSET', key('cursors', group), r.job, r.tick) end
end

-- rename gives a run another key, which no run has.
local function rename(group, r, to, state)
  for _, kind in ipairs({'run', 'attempts'}) do
    if redis.call('EXISTS', key(kind, named(group, r))) == 1 then
      redis.call('RENAME', key(kind, named(group, r)), key(kind, named(group, to)))
    end
  end
  for index, entry in pairs({[key('runs', group .. ' ' .. r.job)] = ofJob, [key('all', group)] = ofGroup, [key('in', group .. ' ' .. state)] = ofGroup}) do
    redis.call('ZREM', index, entry(r))
    redis.call('ZADD', index, 0, entry(to))
  end
end

-- delete deletes a run with all that belongs to it.
local function delete(group, r, state)
  redis.call('DEL', key('run', named(group, r)), key('attempts', named(group, r)))
  redis.call('ZREM', key('runs', group .. ' ' .. r.job), ofJob(r))
  redis.call('ZREM', key('all', group), ofGroup(r))
  redis.call('ZREM', key('in', group .. ' ' .. state), ofGroup(r))
end

-- followers takes runs that follow one, and adds their jobs.
local function followers(jobs)
  local all = {}
  for i = 1, tonumber(take()) do
    all[i] = {job = take(), tick = take(), trigger = take(), delay = take(), backfill = take(), args = take()}
    jobs[all[i].job] = true
  end
  return all
end

-- asked counts a request, and wakes the leader.
local function asked(group)
  redis.call('HINCRBY', key('ledger', group), 'changes', 1)
  signal('asked', group)
end

-- takeAssignee takes whom a run is under that a holder that assigns leaves waiting.
local function takeAssignee() return {owner = take(), token = take()} end

-- follow inserts runs that follow one with these arguments, or '', whose end may have been asked for. Those of a holder that assigns wait under
-- nobody: the leader is to assign them.
local function follow(group, owner, token, assigns, all, present, args, cancelled)
  if assigns then owner, token = '', '0' end
  for _, f in ipairs(all) do
    if redis.call('EXISTS', key('run', named(group, f))) == 0 and not (cancelled and f.backfill ~= '') then
      local its = f.args
      if its == '' then its = args end
      insert(group, f, WAITING, {owner = owner, token = token, claimed = present, due = plus(present, f.delay), backfill = f.backfill, args = its})
      if assigns then asked(group) end
    end
  end
end

-- A job is a text in a hash, so that one command reads all of them: its fields, with spaces between them. Only the last one may have spaces itself.
local JOB = {'since', 'from', 'paused', 'started', 'finished', 'gone', 'pauses', 'schedule'}

local function jobOf(text)
  local j, values = {}, {string.match(text, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S*) (.*)$')}
  for i, field in ipairs(JOB) do j[field] = values[i] end
  return j
end

local function textOf(j)
  local values = {}
  for i, field in ipairs(JOB) do values[i] = j[field] end
  return table.concat(values, ' ')
end

local function job(group, name)
  local text = redis.call('HGET', key('jobs', group), name)
  return text and jobOf(text)
end

local function keep(group, name, j) redis.call('HSET', key('jobs', group), name, textOf(j)) end

-- The fields of a group's own row, but for the numbers of requests and of entries.
local GROUP = {'paused', 'pauses', 'opened_token', 'opened_at'}

-- An entry of the audit is a list, in which scripts know these places.
local ID, AT, JOBNAME, TICK, TRIGGER, RESULT = 1, 2, 6, 7, 8, 10

-- takeEntry takes an entry, as far as it is known.
local function takeEntry()
  local entry = {}
  for i = 1, RESULT do entry[i] = take() end
  return entry
end

-- note records what became of an action.
local function note(group, entry, result)
  entry[ID], entry[AT], entry[RESULT] = string.format('%.0f', redis.call('HINCRBY', key('ledger', group), 'audits', 1)), now(), result
  redis.call('RPUSH', key('audit', group), cmsgpack.pack(entry))
end
