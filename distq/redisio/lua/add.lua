-- Make items pending now (client-go workqueue Add). A repeated call changes nothing while the items wait.
-- `link` is the span that adds the items, or empty; see `include/keep_link`.
-- Returns how many items were not pending now before, and how many items fitted into the queue.
local ready, suspects, dirty, processing, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local dead, meta, wake, links = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local flows, arrivals, held_back = KEYS[10], KEYS[11], KEYS[12]
local time, priority, max_length, link = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local items = { unpack(ARGV, 5) }
local call = redis.call
--- @include now
local stamp, trace_until, fair_by = unpack(call('HMGET', meta, 'stamp', 'trace', 'fair_by'))
traced = trace_until
--- @include stamp
--- @include by_flow
local tokens, fitted = call('LLEN', wake), #items
if max_length ~= '' then
  --- @include capacity
  fitted = fitting(items, tonumber(max_length))
  if fitted == 0 then return { 0, 0 } end
  if fitted < #items then items = { unpack(items, 1, fitted) } end
end
--- @include enqueue
local before = math.max(stamp, now - 1)
local added = enqueue(items, priority, false)
call('HSET', meta, 'stamp', string.format('%d', stamp))
if link ~= '' then
  --- @include keep_link
end
return { added, fitted }
