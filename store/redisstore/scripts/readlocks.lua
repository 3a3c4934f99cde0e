-- The rows of some locks. ARGV: their names.
local keys = {}
for i, name in ipairs(ARGV) do keys[i] = key('lock', name) end
return {now(), server(), redis.call('GET', KEYS[1] .. ':floor') or '0', rowsof(keys)}
