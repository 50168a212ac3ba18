-- Drop failure records (client-go workqueue Forget), but not those of the dead.
-- Returns how many were dropped.
local failures, dead = KEYS[1], KEYS[2]
local items = { unpack(ARGV, 1) }
local call = redis.call
local n_failures = call('HLEN', failures)
local parked = call('ZMSCORE', dead, unpack(items))
if n_failures == 0 then return 0 end
local dropped = 0
for i, item in ipairs(items) do
  if not parked[i] then dropped = dropped + call('HDEL', failures, item) end
end
return dropped
