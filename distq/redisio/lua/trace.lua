-- Trace the queue for so many µs from now on, in as many entries of at most `longest` bytes; or for 0, stop.
-- What a trace before it left stays. Returns when it ends, in µs; 0 where it is stopped.
local meta, trace = KEYS[1], KEYS[2]
local time, duration, limit, longest, kept = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5])
local call = redis.call
--- @include now
call('XLEN', trace)
local ends = duration > 0 and string.format('%.0f', now + duration) or '0'
if duration > 0 then
  traced = table.concat({ ends, limit, longest }, ' ')
  call('HSET', meta, 'trace', traced)
  -- an entry that goes at once makes the key that is to expire
  call('XDEL', trace, call('XADD', trace, '*', 'entry', ''))
  call('PEXPIRE', trace, string.format('%.0f', (duration + kept) / 1000))
else
  call('HDEL', meta, 'trace')
end
return ends
