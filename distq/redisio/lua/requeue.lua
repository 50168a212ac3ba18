-- Drop delay, failure record and death of items: those that wait for later or are dead become pending now.
-- With a state other than '', only items that are in it. Returns how many items changed.
local ready, dirty, processing, delayed, failures, dead, meta, wake =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local time, state = ARGV[1], ARGV[2]
local items = { unpack(ARGV, 3) }
local call = redis.call
--- @include now
local stamp, paused = unpack(call('HMGET', meta, 'stamp', 'paused'))
stamp = tonumber(stamp or 0)
call('ZCARD', ready)
call('ZCARD', dirty)
call('ZCARD', processing)
call('ZCARD', delayed)
call('HLEN', failures)
call('LLEN', wake)
local parked = call('ZMSCORE', dead, unpack(items))
--- @include order
--- @include enqueue
local in_state = { ready = ready, dirty = dirty, processing = processing, delayed = delayed, dead = dead }
local requeued = 0
for i, item in ipairs(items) do
  if state == '' or call('ZSCORE', in_state[state], item) then
    local forgotten = call('HDEL', failures, item) == 1
    local waits = call('ZSCORE', delayed, item)
    -- the lowest priority, so that a delayed item comes back with its own
    if waits then enqueue({ item }, -900, false) elseif parked[i] then enqueue({ item }, 0, false) end
    if forgotten or waits or parked[i] then requeued = requeued + 1 end
  end
end
call('HSET', meta, 'stamp', stamp)
return requeued
