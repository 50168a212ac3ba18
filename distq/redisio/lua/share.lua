-- Make the queue fair by `namespace`, or not fair by `none`, and replace the earlier value.
-- When the queue becomes fair, each call gives some of the waiting items a place by flow; see `include/enter`. When it
-- stops being fair, the waiting items keep their orders, and count as pending since the times in these orders.
-- Returns {the earlier value, or empty if there was none; 1 if some items have not entered yet, else 0}.
local meta, ready, suspects, flows, arrivals = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local wanted = ARGV[1]
local call = redis.call
for _, key in ipairs({ ready, suspects, flows }) do call('ZCARD', key) end
call('HLEN', arrivals)
local fair_by = call('HGET', meta, 'fair_by') or ''
local before = string.match(fair_by, '^to (.*)') or fair_by
if wanted == fair_by then return { before, 0 } end
call('ZREM', flows, '\0no flow') -- if memory is full, Redis permits a removal first, and then all other writes
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
