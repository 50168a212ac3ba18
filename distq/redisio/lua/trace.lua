-- Trace the queue for `duration` µs, in at most `limit` entries of at most `longest` bytes, and `max_bytes` in all. A
-- duration of 0 stops the trace. If `match` is not '', a call writes an entry only if it names a matching item, or is
-- an open, close, pause, resume or trace; * in `match` matches any text. Entries of an earlier trace stay until new
-- ones replace them.
-- Returns the time when the trace ends, in µs, or 0 if it is stopped.
local meta, trace = KEYS[1], KEYS[2]
local time, duration, limit, longest, kept = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5])
local max_bytes, match = tonumber(ARGV[6]), ARGV[7]
local call = redis.call
--- @include now
local before = call('XLEN', trace)
local ends = duration > 0 and string.format('%.0f', now + duration) or '0'
if duration > 0 then
  traced = string.format('%s %s %s %d 0 0 %d %s', ends, limit, longest, max_bytes / 2, before, match)
  call('HSET', meta, 'trace', traced)
  -- add and delete an entry: this makes the key, so that it can get an expiry time
  call('XDEL', trace, call('XADD', trace, '*', 'entry', ''))
  call('PEXPIRE', trace, string.format('%.0f', (duration + kept) / 1000))
else
  call('HDEL', meta, 'trace')
  switched_off = true
end
return ends
