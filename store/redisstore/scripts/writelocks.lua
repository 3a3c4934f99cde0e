-- Writes locks. ARGV: server, and of each lock its name, the expected version, the new one, and the queue.
-- Returns a digit for each: 1 if the row has that content now.
if server() ~= ARGV[1] then return '' end
local keys, before = {}, key('lock', '')
for i = 2, #ARGV, 4 do keys[#keys + 1] = before .. ARGV[i] end
local done, present, floor = {}, now(), nil
local rows, made, left = {}, {}, {}
for n, row in ipairs(rowsof(keys)) do
  local i = 4 * n - 2
  local name, expect, version, queue = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local may
  if row then
    may = string.sub(row, 1, #expect + 1) == expect .. ' '
  else
    floor = floor or redis.call('GET', KEYS[1] .. ':floor') or '0'
    may = expect == '0' and less(floor, version)
  end
  if may then
    rows[#rows + 1], rows[#rows + 2] = keys[n], version .. ' ' .. present .. ' ' .. queue
    if not row then made[#made + 1], made[#made + 2] = 0, name end
    if queue == '' then left[#left + 1], left[#left + 2] = present, name end
  elseif row then
    local had, _, content = parsed(row)
    may = had == version and content == queue
  end
  done[n] = may and '1' or '0'
end
each(rows, 'MSET')
each(made, 'ZADD', locks())
each(left, 'ZADD', idle(), 'NX')
return table.concat(done)
