-- Let no turn claim until the watches of this leader's term have caught up, or `timeout` µs are over.
-- Returns 1, or 0 where a later leader waits for its own.
local meta = KEYS[1]
local time, epoch, timeout = ARGV[1], ARGV[2], tonumber(ARGV[3])
local call = redis.call
--- @include now
--- @include older
local theirs, until_then = string.match(call('HGET', meta, 'catching_up') or '', '^(%d+) (%d+)$')
if theirs and now < tonumber(until_then) and older(epoch, theirs) then return 0 end
call('HDEL', meta, 'catching_up') -- where memory is full, a removal opens the way for the rest
call('HSET', meta, 'catching_up', epoch .. string.format(' %.0f', now + timeout))
return 1
