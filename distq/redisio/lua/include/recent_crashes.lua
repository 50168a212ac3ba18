-- in: now
-- out: recent_crashes
-- Return how many crashes of a record count, and the fences of their claims as far as known. A crash counts until 72
-- hours after its claim began; a fence is the µs in which its claim began. distq 0.1.0 wrote no fences: these crashes
-- always count.
local function recent_crashes(crashes, claims_that_crashed)
  local COUNT_FOR = 72 * 3600 * 1000000
  local recent = {}
  for fence in string.gmatch(claims_that_crashed, '%d+') do
    if now - fence < COUNT_FOR then recent[#recent + 1] = fence else crashes = crashes - 1 end
  end
  return math.max(0, crashes), recent
end
