-- Writes down a term. ARGV: group, token in 20 digits, owner, for how many microseconds it goes on, '1' if it began early, '1' if it is over, for
-- how many microseconds, why, and when those before it ended that have not told, or '', and why.
local group, token, owner, began, early, ended, ago, why, before, untold = take(), take(), take(), take(), take(), take(), take(), take(), take(), take()
local terms, rows, going, present = key('terms', group), key('term', group), key('going', group), now()
redis.call('ZCARD', terms)
redis.call('ZCARD', going)
local packed = redis.call('HGET', rows, token)
local function keepTerm(token, t)
  -- The clock may have been set back.
  if t[4] ~= '' and tonumber(t[4]) < tonumber(t[3]) then t[4] = t[3] end
  redis.call('HSET', rows, token, cmsgpack.pack(t))
  redis.call('ZADD', terms, 0, token)
  if t[4] == '' then
    redis.call('ZADD', going, 0, token)
  else
    redis.call('ZREM', going, token)
  end
end
-- Token, owner, beginning, end, why, and whether it began early.
local t = packed and cmsgpack.unpack(packed) or {token, owner, plus(present, -tonumber(began)), '', '', early}
if ended == '1' then t[4], t[5] = plus(present, -tonumber(ago)), why end
keepTerm(token, t)
if before ~= '' then
  for _, earlier in ipairs(redis.call('ZRANGEBYLEX', going, '-', '(' .. token)) do
    local e = cmsgpack.unpack(redis.call('HGET', rows, earlier))
    e[4], e[5] = before, untold
    keepTerm(earlier, e)
  end
end
return 1
