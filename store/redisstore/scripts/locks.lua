-- What the scripts about locks have in common: the row of a lock is one text, VERSION WRITTEN QUEUE, so that few commands read and write many.

-- most is how many values unpack may put on the stack, and fewer than it can.
local most = 1000

local function locks() return KEYS[1] .. ':locks' end

local function idle() return KEYS[1] .. ':idle' end

-- each calls a command with all of some values, which are pairs or single ones, in parts.
local function each(values, command, ...)
  if #values == 0 then return end
  if #values <= most and select('#', ...) == 0 then return redis.call(command, unpack(values)) end
  local before = {...}
  for i = 1, #values, most do
    local args = {unpack(before)}
    for j = i, math.min(#values, i + most - 1) do args[#args + 1] = values[j] end
    redis.call(command, unpack(args))
  end
end

-- rowsof returns the rows of these keys, false for one that is not there.
local function rowsof(keys)
  if #keys <= most then return redis.call('MGET', unpack(keys)) end
  local rows = {}
  for i = 1, #keys, most do
    for _, row in ipairs(redis.call('MGET', unpack(keys, i, math.min(#keys, i + most - 1)))) do rows[#rows + 1] = row end
  end
  return rows
end

-- parsed returns the version of a row, when it was written, and its queue.
local function parsed(row) return string.match(row, '^(%d+) (%d+) (.*)$') end
