-- Stop claims until somebody resumes: no turn claims, promotes or wakes; all else goes on.
-- Returns 1, or 0 where the queue was paused already.
local meta, wake = KEYS[1], KEYS[2]
local time = ARGV[1]
local call = redis.call
--- @include now
call('LLEN', wake)
if call('HEXISTS', meta, 'paused') == 1 then return 0 end
-- no session covers a due time that none may claim; and where memory is full, a removal opens the way for the rest
call('HDEL', meta, 'cover', 'coverer')
call('DEL', wake)
call('HSET', meta, 'paused', now)
return 1
