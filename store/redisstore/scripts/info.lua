-- What the server says of itself. The first commands change nothing, but fail where the server takes no writes, or the user has no right to the
-- channels, which other scripts would find out after they have written. ARGV: '1' to run them.
if ARGV[1] == '1' then
  redis.call('DEL', KEYS[1] .. ':nothing')
  redis.call('PUBLISH', KEYS[1] .. ':nothing', '')
end
local texts = {}
for i, section in ipairs({'server', 'replication', 'memory', 'persistence'}) do texts[i] = redis.call('INFO', section) end
return texts
