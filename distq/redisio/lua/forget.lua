-- Delete failure records (client-go workqueue Forget), except those of dead items.
-- Returns how many records were deleted.
local failures, dead, ready, suspects, dirty, processing = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local meta, flows, arrivals = KEYS[7], KEYS[8], KEYS[9]
local time = ARGV[1]
local items = { unpack(ARGV, 2) }
local call = redis.call
--- @include now
local trace_until, fair_by = unpack(call('HMGET', meta, 'trace', 'fair_by'))
traced = trace_until
for _, key in ipairs({ ready, suspects, dirty, processing }) do call('ZCARD', key) end
local n_failures = call('HLEN', failures)
local parked = call('ZMSCORE', dead, unpack(items))
--- @include by_flow
--- @include check_flows
if n_failures == 0 then return 0 end
local dropped = 0
for i, item in ipairs(items) do
  if not parked[i] then dropped = dropped + call('HDEL', failures, item) end
end
--- @include look_again
look_again(items)
return dropped
