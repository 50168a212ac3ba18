-- now: µs by the server's clock; a test may put its own in place
local now = tonumber(time)
if now == 0 then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
