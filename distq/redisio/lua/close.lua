-- End a session; what it still holds is taken back by the next ticks, as if released.
-- Returns 1, or 0 where it had ended.
local processing, sessions, workers, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local session = ARGV[1]
local call = redis.call
local number, nonce = string.match(session, '^(%d+)-(.+)$')
call('HLEN', workers)
call('ZCARD', sessions)
local n_held = call('ZCOUNT', processing, number, number)
local record = call('HGET', meta, number)
if not record or string.match(record, '^%S+') ~= nonce then return 0 end
call('HDEL', meta, number)
call('HDEL', workers, number)
if n_held == 0 then call('ZREM', sessions, number) else call('ZADD', sessions, 0, number) end
return 1
