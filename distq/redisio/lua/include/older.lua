-- in: nothing
-- out: older
-- Versions of the API server are opaque digits of any length, never Lua numbers; none is older than any.
local function older(a, b) return #a < #b or (#a == #b and a < b) end
