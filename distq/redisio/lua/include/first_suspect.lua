-- in: meta, suspects, wake
-- out: wake_if_another_is_first
-- The first suspect may wait for the end of a claim of its flow, and the other suspects wait behind it. So if another
-- suspect becomes the first, wake a session. Include this before the first write.
local first_suspect, may_wake = call('ZRANGE', suspects, '0', '0')[1], call('LLEN', wake) == 0
may_wake = may_wake and call('HEXISTS', meta, 'paused') == 0
local function wake_if_another_is_first()
  if not (first_suspect and may_wake) then return end
  local now_first = call('ZRANGE', suspects, '0', '0')[1]
  if now_first and now_first ~= first_suspect then call('RPUSH', wake, '1') end
end
