-- in: nothing
-- out: older
-- Versions of the API server are opaque digits of any length, never Lua numbers. An empty version is older than any
-- other.
local function older(a, b) return #a < #b or (#a == #b and a < b) end
