-- Deletes a job with all that belongs to it. ARGV: group, job, since when it is gone, its name in the audit, actor. Returns how many it deleted.
local group, name, gone, about, by = take(), take(), take(), take(), who()
sound(group, {[name] = true})
local j = job(group, name)
local forgotten = j and j.gone ~= '0' and j.gone == gone
local runs = {}
for i, entry in ipairs(forgotten and redis.call('ZRANGE', key('runs', group .. ' ' .. name), 0, -1) or {}) do
  runs[i] = parsed(entry, name)
  runs[i].state = redis.call('HGET', key('run', named(group, runs[i])), 'state') or RUNNING
end
note(group, forgotten and 'done' or 'refused', by, {job = about, at = '', trigger = '0'})
if not forgotten then return 0 end
for _, r in ipairs(runs) do delete(group, r, r.state) end
redis.call('HDEL', key('jobs', group), name)
redis.call('HDEL', key('cursors', group), name)
redis.call('SREM', key('failing', group), name)
return 1
