-- in: nothing
-- out: is_suspect
-- A suspect is an item that two lapsed sessions held.
local function is_suspect(failure) return failure and tonumber(string.match(failure, '^%d+ (%d+)')) >= 2 end
