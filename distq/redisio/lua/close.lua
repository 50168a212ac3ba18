-- End a session; `worker` is the last description that its process sends. The next ticks take back the items that the
-- session still holds, as if it had released them.
-- Returns 1, or 0 if the session had ended before.
local ready, suspects, processing, delayed, sessions = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local workers, meta, wake, history = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local session, worker = ARGV[1], ARGV[2]
local call = redis.call
local number, nonce = string.match(session, '^(%d+)-(.+)$')
call('HLEN', workers)
call('ZCARD', sessions)
local n_waiting = call('ZCARD', ready) + call('ZCARD', suspects)
local n_delayed, tokens = call('ZCARD', delayed), call('LLEN', wake)
local n_held = call('ZCOUNT', processing, number, number)
local record, coverer, paused, trace_until = unpack(call('HMGET', meta, number, 'coverer', 'paused', 'trace'))
traced = trace_until
if not record or string.match(record, '^%S+') ~= nonce then return 0 end
call('HDEL', meta, number)
local worker_before = call('HGET', workers, number)
call('HDEL', workers, number)
if n_held == 0 then call('ZREM', sessions, number) else call('ZADD', sessions, 0, number) end
-- another session must cover the next due time, and claim the items for which this session may have been woken
if coverer == number then call('HDEL', meta, 'cover', 'coverer') end
local left = n_waiting > 0 or (coverer == number and n_delayed > 0)
if left and tokens == 0 and not paused then call('RPUSH', wake, 1) end
--- @include count_settled
pcall(count_settled)
return 1
