-- Make items pending after a delay in µs (client-go workqueue AddAfter). The earliest time wins; an item that is
-- pending now can only be raised. A resent call has no second effect while they wait.
-- Returns how many were not pending before, and how many of the items fitted.
local ready, suspects, dirty, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local dead, meta, wake = KEYS[5], KEYS[6], KEYS[7]
local time, priority, max_length, delay = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local items = { unpack(ARGV, 5) }
local call = redis.call
--- @include now
local stamp, paused, cover, trace_until = unpack(call('HMGET', meta, 'stamp', 'paused', 'cover', 'trace'))
traced = trace_until
--- @include stamp
stamp, cover = math.max(stamp + 1, now), tonumber(cover) or 0
call('ZCARD', dead)
local first, tokens = call('ZRANGE', delayed, '0', '0', 'WITHSCORES'), call('LLEN', wake)
if max_length ~= '' then
  --- @include capacity
  local fitted = fitting(items, tonumber(max_length))
  if fitted == 0 then return { 0, 0 } end
  if fitted < #items then items = { unpack(items, 1, fitted) } end
end
--- @include order
--- @include due
--- @include delay
local is_ready, is_dirty = call('ZMSCORE', ready, unpack(items)), call('ZMSCORE', dirty, unpack(items))
local is_suspect = call('ZMSCORE', suspects, unpack(items))
local later, earliest, raised = call('ZMSCORE', delayed, unpack(items)), now + delay, order(priority, stamp)
local to_ready, to_dirty, to_delayed = { 'ZADD', ready, 'XX', 'LT' }, { 'ZADD', dirty, 'XX', 'LT' }, { 'ZADD', delayed }
local to_suspects = { 'ZADD', suspects, 'XX', 'LT' }
for i, item in ipairs(items) do
  local to = (is_ready[i] and to_ready) or (is_dirty[i] and to_dirty) or (is_suspect[i] and to_suspects) or to_delayed
  to[#to + 1] = to == to_delayed and due_score(later[i], earliest, priority) or raised
  to[#to + 1] = item
end
if #to_ready > 4 then call(unpack(to_ready)) end
if #to_dirty > 4 then call(unpack(to_dirty)) end
if #to_suspects > 4 then call(unpack(to_suspects)) end
local added = #to_delayed > 2 and call(unpack(to_delayed)) or 0
call('ZREM', dead, unpack(items))
call('HSET', meta, 'stamp', stamp)
-- who sees to what is due first sees to the next, too
local first_due = first[2] and split_due(tonumber(first[2])) or 0
local covered = (first_due > now and first_due <= earliest) or (cover > now and cover <= earliest)
if tokens == 0 and not paused and not covered then call('RPUSH', wake, '1') end
return { added, #items }
