-- Since when a job is gone. ARGV: group, job.
local j = job(ARGV[1], ARGV[2])
return j and j.gone or '0'
