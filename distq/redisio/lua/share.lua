-- Make the queue fair by `namespace`, or by `none`, which is not fair, whatever was said before. What waits keeps its
-- order; as a queue ends to be fair, since when its items are pending becomes what their orders say.
-- Returns by what the queue was fair before, empty where nothing was said. See `include/by_flow`.
local meta, flows, arrivals = KEYS[1], KEYS[2], KEYS[3]
local fair_by = ARGV[1]
local call = redis.call
call('ZCARD', flows)
call('HLEN', arrivals)
local before = call('HGET', meta, 'fair_by') or ''
if fair_by == before then return before end
call('UNLINK', flows, arrivals) -- where memory is full, a removal opens the way for the rest
call('HSET', meta, 'fair_by', fair_by)
return before
