-- in: now
-- out: split_due
-- A delayed score has the due time, in ms rounded up so that it is never early, and the priority to come back with. An
-- invalid score is due now.
local function split_due(score)
  if not (score >= 0 and score < 2 ^ 53) then return now - now % 1000, 0 end
  local rest = score % 2048
  return (score - rest) / 2048 * 1000, math.max(-900, math.min(900, 1023 - math.floor(rest)))
end
