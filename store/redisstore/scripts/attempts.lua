-- The attempts at a run. ARGV: group, job, tick, trigger. Returns the run, and those that were kept; false: there is no run.
local group, r = take(), {job = take(), tick = take(), trigger = take()}
local is = row(group, r)
if not is then return false end
local kept = {}
for _, packed in ipairs(redis.call('HVALS', key('attempts', named(group, r)))) do kept[#kept + 1] = cmsgpack.unpack(packed) end
return {is, kept}
