-- in: now
-- out: A_DAY, within_a_day
-- Return whether this time comes within a day. A later one is no leader's: the server's clock was wrong when it was
-- written, or a user wrote it, and it would stop all claims for years.
local A_DAY = 86400000000
local function within_a_day(time)
  local left = (tonumber(time) or 0) - now
  return left > 0 and left <= A_DAY
end
