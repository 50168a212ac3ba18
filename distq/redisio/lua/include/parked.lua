-- in: nothing
-- out: TIME_MAY_MEND
-- A dead score is when the item was parked, µs; where time may mend why, so much is added: those are found apart.
local TIME_MAY_MEND = 2 ^ 52
