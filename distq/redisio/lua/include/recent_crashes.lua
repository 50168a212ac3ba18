-- in: now
-- out: recent_crashes
-- How many of a record's crashes count, and the claims of those whose claim is known: 72 hours after a claim began its
-- crash is forgotten. A fence is the µs in which its claim began. distq 0.1.0 notes none: these crashes count on.
local function recent_crashes(crashes, claims_that_crashed)
  local COUNT_FOR = 72 * 3600 * 1000000
  local recent = {}
  for fence in string.gmatch(claims_that_crashed, '%d+') do
    if now - fence < COUNT_FOR then recent[#recent + 1] = fence else crashes = crashes - 1 end
  end
  return math.max(0, crashes), recent
end
