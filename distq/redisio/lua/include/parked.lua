-- in: nothing
-- out: WAITING_MAY_HELP
-- A dead score is the time in µs when the item was parked. This constant is added if waiting may help: so these items
-- are found apart.
local WAITING_MAY_HELP = 2 ^ 52
