-- Notes that a term does not have some jobs. ARGV: group, owner, token, the names. Returns false for a term that was replaced.
local group, owner, token = take(), take(), take()
if not current(group, owner, token) then return false end
local present = now()
for i = 4, #ARGV do
  local j = job(group, ARGV[i])
  if j and j.gone == '0' then
    j.gone = present
    keep(group, ARGV[i], j)
  end
end
return 1
