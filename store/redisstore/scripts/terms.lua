-- Lists terms, the newest first. ARGV: group, '+', or '(' and the token to begin below, and how many.
local group, below, most = take(), take(), take()
local terms = {}
for i, token in ipairs(redis.call('ZREVRANGEBYLEX', key('terms', group), below, '-', 'LIMIT', 0, most)) do
  terms[i] = cmsgpack.unpack(redis.call('HGET', key('term', group), token))
end
return terms
