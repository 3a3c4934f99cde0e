-- Lists terms, the newest first. ARGV: group, the token to begin below or '', the instants that they do not end before and begin before, each or '',
-- how many to find, how many to look at. Returns the terms, and the last token that it has seen, '' at the end.
local group, below, first, last, most, look = take(), take(), take(), take(), tonumber(take()), tonumber(take())
local tokens = redis.call('ZREVRANGEBYLEX', key('terms', group), below == '' and '+' or '(' .. below, '-', 'LIMIT', 0, look)
local found = {}
for _, token in ipairs(tokens) do
  if #found == most then return {found, ''} end
  local t = cmsgpack.unpack(redis.call('HGET', key('term', group), token))
  if (last == '' or tonumber(t[3]) < tonumber(last)) and (first == '' or t[4] == '' or tonumber(t[4]) >= tonumber(first)) then found[#found + 1] = t end
end
return {found, #tokens == look and tokens[#tokens] or ''}
