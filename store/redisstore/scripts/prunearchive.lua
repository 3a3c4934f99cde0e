-- Deletes the oldest entries of the audit, or terms. ARGV: group, 'audit' or 'terms', how many are kept, for how many microseconds, how many to
-- delete at most. Returns how many it deleted.
local group, what, most, age, limit = take(), take(), tonumber(take()), tonumber(take()), tonumber(take())
local present, n = now(), 0
if what == 'audit' then
  local audit = key('audit', group)
  local length = redis.call('LLEN', audit)
  for _, packed in ipairs(redis.call('LRANGE', audit, 0, limit - 1)) do
    if length - n <= most and since(cmsgpack.unpack(packed)[2], present) <= age then break end
    n = n + 1
  end
  redis.call('LTRIM', audit, n, -1)
  return n
end
local terms, rows = key('terms', group), key('term', group)
local length = redis.call('ZCARD', terms)
local old = {}
for _, token in ipairs(redis.call('ZRANGE', terms, 0, limit - 1)) do
  local t = cmsgpack.unpack(redis.call('HGET', rows, token))
  local at = t[4]
  if at == '' then at = t[3] end
  if length - #old <= most and since(at, present) <= age then break end
  old[#old + 1] = token
end
for _, token in ipairs(old) do
  redis.call('HDEL', rows, token)
  redis.call('ZREM', terms, token)
  redis.call('ZREM', key('going', group), token)
end
return #old
