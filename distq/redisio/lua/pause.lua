-- Stop claims until a user resumes the queue: turns do not claim, promote or wake; everything else continues.
-- Returns 1, or 0 if the queue was paused already.
local meta, wake = KEYS[1], KEYS[2]
local time = ARGV[1]
local call = redis.call
--- @include now
call('LLEN', wake)
if call('HEXISTS', meta, 'paused') == 1 then return 0 end
-- while no session may claim, none covers a due time; and if memory is full, Redis permits a removal first
call('HDEL', meta, 'cover', 'coverer')
call('DEL', wake)
call('HSET', meta, 'paused', now)
return 1
