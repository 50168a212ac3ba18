-- in: time
-- out: now
-- now: µs by the server's clock, or a test's own time. Convert it to text with string.format only: tostring and .. keep
-- 14 digits, and a time has 16.
local now = time ~= '0' and tonumber(time)
if not now then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
at = now
