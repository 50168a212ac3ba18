-- Make items pending after a delay in µs (client-go workqueue AddAfter). The earliest due time counts. An item that is
-- pending now stays so; its priority can only be raised. A repeated call changes nothing while the items wait.
-- Returns how many items were not pending before, and how many items fitted into the queue.
local ready, suspects, dirty, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local dead, meta, wake, flows, arrivals, held_back = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local time, priority, max_length, delay = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local items = { unpack(ARGV, 5) }
local call = redis.call
--- @include now
local stamp, paused, cover, trace_until, fair_by =
  unpack(call('HMGET', meta, 'stamp', 'paused', 'cover', 'trace', 'fair_by'))
traced = trace_until
--- @include stamp
--- @include by_flow
call('ZCARD', dead)
local tokens = call('LLEN', wake)
if max_length ~= '' then
  --- @include capacity
  local fitted = fitting(items, tonumber(max_length))
  if fitted == 0 then return { 0, 0 } end
  if fitted < #items then items = { unpack(items, 1, fitted) } end
end
--- @include order
--- @include check_flows
--- @include due
--- @include scores
--- @include enqueue_later
local added = enqueue_later(items, delay, priority, false)
call('HSET', meta, 'stamp', stamp)
return { added, #items }
