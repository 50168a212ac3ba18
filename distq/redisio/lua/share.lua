-- Make the queue fair by `namespace`, or by `none`, which is not fair, whatever was said before.
-- As it begins to be fair, what waits enters by its flow, some at a call; see `include/enter`. As it ends to be, what
-- waits keeps its order, and since when its items are pending becomes what their orders say.
-- Returns {by what the queue was fair before, empty where nothing was said; 1 where some have not entered yet}.
local meta, ready, suspects, flows, arrivals = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local wanted = ARGV[1]
local call = redis.call
for _, key in ipairs({ ready, suspects, flows }) do call('ZCARD', key) end
call('HLEN', arrivals)
local fair_by = call('HGET', meta, 'fair_by') or ''
local before = string.match(fair_by, '^to (.*)') or fair_by
if wanted == fair_by then return { before, 0 } end
call('ZREM', flows, '\0no flow') -- a first write that full memory permits, of nothing: it opens the way for the rest
if wanted ~= before then
  call('UNLINK', flows, arrivals)
  call('HDEL', meta, 'entered')
  fair_by = wanted == 'none' and wanted or 'to ' .. wanted
  call('HSET', meta, 'fair_by', fair_by)
end
if wanted ~= 'none' then
  --- @include by_flow
  --- @include enter
end
return { before, fair_by == wanted and 0 or 1 }
