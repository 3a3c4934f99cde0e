-- What the server says of itself. The first command writes nothing, but fails where the server takes no writes. ARGV: '1' to run it.
if ARGV[1] == '1' then redis.call('DEL', KEYS[1] .. ':nothing') end
local texts = {}
for i, section in ipairs({'server', 'replication', 'memory', 'persistence'}) do texts[i] = redis.call('INFO', section) end
return texts
