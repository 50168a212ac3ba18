-- Permit claims again, and wake one consumer if items wait: it claims them, or covers the next due time.
-- Returns 1, or 0 if the queue was not paused.
local ready, suspects, delayed, meta, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local call = redis.call
local n_waiting = call('ZCARD', ready) + call('ZCARD', suspects) + call('ZCARD', delayed)
local tokens = call('LLEN', wake)
if call('HDEL', meta, 'paused') == 0 then return 0 end
if n_waiting > 0 and tokens == 0 then call('RPUSH', wake, 1) end
return 1
