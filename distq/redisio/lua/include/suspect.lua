-- in: nothing
-- out: first_line, is_suspect
--- @include recent_crashes
-- A claim needs the counts of a failure record, but not its traceback of up to 4 KiB.
local function first_line(failure) return failure and string.match(failure, '^[^\n]*') end
-- A suspect is an item that two lapsed sessions held.
local function is_suspect(failure)
  local crashes = failure and tonumber(string.match(failure, '^%d+ (%d+) ') or 0) or 0
  if crashes < 2 then return false end
  return recent_crashes(crashes, string.match(failure, '^%d+ %d+ %d+ %S+@([%d,]+) ') or '') >= 2
end
