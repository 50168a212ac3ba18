-- Let claims go on, and wake one consumer where anything waits: it claims, or covers the next due time.
-- Returns 1, or 0 where the queue was not paused.
local ready, delayed, meta, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local call = redis.call
local waits, tokens = call('ZCARD', ready) + call('ZCARD', delayed) > 0, call('LLEN', wake)
if call('HDEL', meta, 'paused') == 0 then return 0 end
if waits and tokens == 0 then call('RPUSH', wake, 1) end
return 1
