-- Stop all claims until the watches of this leader have caught up, or until `timeout` µs have passed, a day at most.
-- Returns 1, or 0 if a later leader has stopped the claims for its own watches.
local meta = KEYS[1]
local time, epoch, timeout = ARGV[1], ARGV[2], tonumber(ARGV[3])
local call = redis.call
--- @include now
--- @include older
--- @include within_a_day
local theirs, until_then = string.match(call('HGET', meta, 'catching_up') or '', '^(%d+) (%d+)$')
if theirs and within_a_day(until_then) and older(epoch, theirs) then return 0 end
call('HDEL', meta, 'catching_up') -- if memory is full, Redis permits a removal first, and then all other writes
call('HSET', meta, 'catching_up', epoch .. string.format(' %.0f', now + math.min(timeout, A_DAY)))
return 1
