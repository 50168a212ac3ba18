-- Permit claims again, because the watches of this leader have caught up, and wake one consumer if items wait.
-- Returns 1, or 0 if the claims were not stopped, or if another leader stopped them.
local ready, suspects, delayed, meta, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local epoch = ARGV[1]
local call = redis.call
local n_waiting = call('ZCARD', ready) + call('ZCARD', suspects) + call('ZCARD', delayed)
local tokens = call('LLEN', wake)
if string.match(call('HGET', meta, 'catching_up') or '', '^%d+') ~= epoch then return 0 end
call('HDEL', meta, 'catching_up')
if n_waiting > 0 and tokens == 0 then call('RPUSH', wake, 1) end
return 1
