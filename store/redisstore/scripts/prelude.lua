-- What all scripts have in common. KEYS[1] is the store's name; all its keys begin with it, so that they are in one slot
-- of a cluster. Numbers that Go has as 64 bits stay decimal texts: Lua's own are exact up to 2^53.

local function key(kind, name) return KEYS[1] .. ':' .. kind .. ':' .. name end

-- signal wakes those that listen. What a script has written stands without it, so it does not fail where the user has no right to the channel.
local function signal(kind, group) redis.pcall('PUBLISH', key(kind, group), '') end

-- now is the server's clock, in microseconds since 1970.
local function now()
  local t = redis.call('TIME')
  return t[1] .. string.sub('000000' .. t[2], -6)
end

-- server identifies the server by the history that it goes on with, which has a number of its own from the moment when a process starts, or
-- is promoted, as a primary. A replica has its primary's, so it is known by its process, too.
local function server()
  local is = redis.call('INFO', 'replication')
  local _, at = string.find(is, 'master_replid:', 1, true)
  local history = string.sub(is, at + 1, at + 40)
  if string.find(is, 'role:master', 1, true) then return history end
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') .. ':' .. history
end

local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

local function largest(first, ...)
  for _, n in ipairs({...}) do
    if less(first, n) then first = n end
  end
  return first
end

-- inc returns n + 1.
local function inc(n)
  local nines = string.match(n, '9*$')
  local rest = string.sub(n, 1, #n - #nines)
  local zeros = string.rep('0', #nines)
  if rest == '' then return '1' .. zeros end
  return string.sub(rest, 1, -2) .. tostring(tonumber(string.sub(rest, -1)) + 1) .. zeros
end

-- since returns the microseconds from one instant to a later one.
local function since(instant, present) return tonumber(present) - tonumber(instant) end
