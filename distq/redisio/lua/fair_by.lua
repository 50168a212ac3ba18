-- Set `fair_by`, `namespace` or `none`, unless the queue has a value already. See `include/by_flow`.
-- If items wait, the next turns give them places by flow; see `include/enter`.
-- Returns the value that the queue has now: `none` if a user switched fairness off.
local meta, ready, suspects, flows = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local fair_by = ARGV[1]
local call = redis.call
local before = call('HGET', meta, 'fair_by')
if before then return string.match(before, '^to (.*)') or before end
local waits = call('ZCARD', ready) + call('ZCARD', suspects) > 0
call('ZREM', flows, '\0no flow') -- if memory is full, Redis permits a removal first, and then all other writes
call('HSET', meta, 'fair_by', waits and fair_by ~= 'none' and 'to ' .. fair_by or fair_by)
return fair_by
