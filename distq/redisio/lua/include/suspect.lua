-- in: nothing
-- out: first_line, is_suspect
-- Who claims needs the count of a failure record, and not its traceback of 4 KiB.
local function first_line(failure) return failure and string.match(failure, '^[^\n]*') end
-- A suspect is an item that two lapsed sessions held.
local function is_suspect(failure) 
  return failure and tonumber(string.match(failure, '^%d+ (%d+) ') or 0) >= 2
end
