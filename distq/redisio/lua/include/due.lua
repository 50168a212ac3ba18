-- in: nothing
-- out: split_due
-- A delayed score is the due time, in ms rounded up so that it is never early, and the priority to come back with.
local function split_due(score)
  local rest = score % 2048
  return (score - rest) / 2048 * 1000, 1023 - rest
end
