-- Rows for the rules of the ledger that are in Go (store/ledger): reads those that a call needs, and writes what the rules have put if the rows that
-- were read are still the same. ARGV: group; what they were, or '' to read; how many jobs, and their names; how many runs, and their keys; the token
-- of a term in 20 digits, or ''; from which to which of the oldest entries and terms; and what is put, each with the name of its function below.
-- Returns 1 if that is written. Otherwise what the rows are, the clock, the server, how many entries and terms there are, and the rows.
local group, was = take(), take()
sound(group, {})
local jobs, runs, entries = {}, {}, {}
for i = 1, tonumber(take()) do
  local j = job(group, take())
  -- A leader changes these all the time. Nobody else has to know them, or to try again for them.
  if j then j.started, j.finished = '0', '0' end
  jobs[i] = j and textOf(j)
end
for i = 1, tonumber(take()) do runs[i] = row(group, {job = take(), tick = take(), trigger = take()}) end
local token, first, last = take(), take(), take()

-- termsOf returns the terms of tokens.
local function termsOf(tokens)
  local terms = {}
  for i, of in ipairs(tokens) do
    local packed = redis.call('HGET', key('term', group), of)
    terms[i] = packed and cmsgpack.unpack(packed)
  end
  return terms
end
local going = redis.call('ZRANGEBYLEX', key('going', group), '-', '(' .. token)
going[#going + 1] = token
for i, packed in ipairs(redis.call('LRANGE', key('audit', group), first, last)) do entries[i] = cmsgpack.unpack(packed) end

local rows = {
  redis.call('HMGET', key('fence', group), 'owner', 'token'), redis.call('HMGET', key('ledger', group), unpack(GROUP)), jobs, runs, termsOf(going), entries,
  termsOf(redis.call('ZRANGE', key('terms', group), first, last)),
}
local is = redis.sha1hex(cmsgpack.pack(rows))
if is ~= was then return {is, now(), server(), redis.call('LLEN', key('audit', group)), redis.call('ZCARD', key('terms', group)), rows} end

local put = {}

-- forget comes first: it reads before it writes.
function put.forget()
  local name, all = take(), {}
  for i, entry in ipairs(redis.call('ZRANGE', key('runs', group .. ' ' .. name), 0, -1)) do
    all[i] = parsed(entry, name)
    all[i].state = redis.call('HGET', key('run', named(group, all[i])), 'state') or RUNNING
  end
  for _, r in ipairs(all) do delete(group, r, r.state) end
  redis.call('HDEL', key('jobs', group), name)
  redis.call('HDEL', key('cursors', group), name)
  redis.call('SREM', key('failing', group), name)
end

function put.group()
  for _, field in ipairs(GROUP) do redis.call('HSET', key('ledger', group), field, take()) end
end

function put.job()
  local name, j = take(), jobOf(take())
  local known = job(group, name)
  if known then j.started, j.finished = known.started, known.finished end
  keep(group, name, j)
end

function put.cancel()
  local r = {job = take(), tick = take(), trigger = take()}
  redis.call('HSET', key('run', named(group, r)), 'cancel', '1')
end

function put.term()
  local of, t = take(), {}
  for i = 1, tonumber(take()) do t[i] = take() end
  redis.call('HSET', key('term', group), of, cmsgpack.pack(t))
  redis.call('ZADD', key('terms', group), 0, of)
  redis.call('ZADD', key('going', group), 0, of)
end

function put.ended()
  redis.call('ZREM', key('going', group), take())
end

function put.droppedEntries()
  redis.call('LTRIM', key('audit', group), take(), -1)
end

function put.droppedTerm()
  local of = take()
  redis.call('HDEL', key('term', group), of)
  redis.call('ZREM', key('terms', group), of)
  redis.call('ZREM', key('going', group), of)
end

function put.note()
  local entry = takeEntry()
  note(group, entry, entry[RESULT])
end

function put.asked() asked(group) end

while taken < #ARGV do put[take()]() end
return 1
