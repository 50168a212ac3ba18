-- in: time
-- out: now
-- now: µs by the server's clock; a test may put its own in place. To text it goes by string.format alone: tostring and
-- .. keep 14 digits, a time has 16.
local now = time ~= '0' and tonumber(time)
if not now then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
at = now
