-- The arguments of a run. ARGV: group, job, tick, trigger.
local group, r = take(), {job = take(), tick = take(), trigger = take()}
return redis.call('HMGET', key('run', named(group, r)), 'state', 'args')
