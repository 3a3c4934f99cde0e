-- All that a term has to know. ARGV: group, the owner of the runs or '' for all, '1' for all jobs, or '0' and the names of some.
local group, owner, whole = take(), take(), take()
local jobs, cursors, failing
if whole == '1' then
  jobs, cursors = redis.call('HGETALL', key('jobs', group)), redis.call('HGETALL', key('cursors', group))
  failing = redis.call('SMEMBERS', key('failing', group))
else
  jobs, cursors, failing = {}, {}, {}
  for i = 4, #ARGV do
    local text, cursor = redis.call('HGET', key('jobs', group), ARGV[i]), redis.call('HGET', key('cursors', group), ARGV[i])
    if text then
      jobs[#jobs + 1], jobs[#jobs + 2] = ARGV[i], text
    end
    if cursor then
      cursors[#cursors + 1], cursors[#cursors + 2] = ARGV[i], cursor
    end
    if redis.call('SISMEMBER', key('failing', group), ARGV[i]) == 1 then failing[#failing + 1] = ARGV[i] end
  end
end
local open = {}
for _, state in ipairs({RUNNING, WAITING}) do
  for _, entry in ipairs(redis.call('ZRANGE', key('in', group .. ' ' .. state), 0, -1)) do
    local r = parsed(entry)
    if owner == '' or redis.call('HGET', key('run', named(group, r)), 'owner') == owner then
      r = row(group, r)
      if r then open[#open + 1] = r end
    end
  end
end
return {now(), server(), redis.call('HMGET', key('ledger', group), 'changes', unpack(GROUP)), jobs, cursors, failing, open}
