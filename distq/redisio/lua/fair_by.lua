-- Make the queue fair by `namespace` where nobody said anything about that before. See `include/by_flow`.
-- Returns by what the queue is fair now: `none` where a user ended that.
local meta, flows = KEYS[1], KEYS[2]
local fair_by = ARGV[1]
local call = redis.call
local before = call('HGET', meta, 'fair_by')
if before then return before end
call('ZREM', flows, '\0no flow') -- a first write that full memory permits, of nothing: it opens the way for the rest
call('HSET', meta, 'fair_by', fair_by)
return fair_by
