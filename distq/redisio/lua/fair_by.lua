-- Make the queue fair by `namespace` where nobody said anything about that before. See `include/by_flow`.
-- What waits then enters by its flow with the next turns; see `include/enter`.
-- Returns by what the queue is fair now: `none` where a user ended that.
local meta, ready, suspects, flows = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local fair_by = ARGV[1]
local call = redis.call
local before = call('HGET', meta, 'fair_by')
if before then return string.match(before, '^to (.*)') or before end
local waits = call('ZCARD', ready) + call('ZCARD', suspects) > 0
call('ZREM', flows, '\0no flow') -- a first write that full memory permits, of nothing: it opens the way for the rest
call('HSET', meta, 'fair_by', waits and fair_by ~= 'none' and 'to ' .. fair_by or fair_by)
return fair_by
