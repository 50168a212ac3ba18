-- Trace the queue for so many µs from now on, in as many entries of at most `longest` bytes and `max_bytes` together;
-- or for 0, stop. With a `match` other than '' only calls that name an item which matches leave one, and those that
-- name none; * in it matches any text. What a trace before it left stays until it gives way to this one.
-- Returns when it ends, in µs; 0 where it is stopped.
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
  -- an entry that goes at once makes the key that is to expire
  call('XDEL', trace, call('XADD', trace, '*', 'entry', ''))
  call('PEXPIRE', trace, string.format('%.0f', (duration + kept) / 1000))
else
  call('HDEL', meta, 'trace')
  switched_off = true
end
return ends
