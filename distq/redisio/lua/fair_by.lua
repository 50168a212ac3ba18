-- Make the queue fair by `namespace`, or by `none`, which is not fair. A handle may only begin: with `replaces` empty,
-- what was said before stays. What waits keeps its order; as a queue ends to be fair, since when its items are pending
-- becomes what their orders say. See `include/by_flow`.
-- Returns by what the queue is fair now, and was before; empty where nothing was said.
local meta, flows, arrivals = KEYS[1], KEYS[2], KEYS[3]
local fair_by, replaces = ARGV[1], ARGV[2]
local call = redis.call
call('ZCARD', flows)
call('HLEN', arrivals)
local before = call('HGET', meta, 'fair_by') or ''
if fair_by == before or (before ~= '' and replaces == '') then return { before, before } end
call('UNLINK', flows, arrivals) -- where memory is full, a removal opens the way for the rest
call('HSET', meta, 'fair_by', fair_by)
return { fair_by, before }
