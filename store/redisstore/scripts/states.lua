-- The states of some runs of a job. ARGV: group, job, and their entries of its index.
local group, name = take(), take()
local states = {}
for i = 3, #ARGV do states[i - 2] = redis.call('HGET', key('run', named(group, parsed(ARGV[i], name))), 'state') or '0' end
return states
