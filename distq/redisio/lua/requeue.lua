-- Drop delay, failure record and death of items: those that wait for later or are dead become pending now.
-- With a state other than '', only items that are in it. Returns how many items changed.
local ready, dirty, processing, delayed, failures, dead, meta, wake =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local time, state = ARGV[1], ARGV[2]
local items = { unpack(ARGV, 3) }
local call = redis.call
--- @include now
local stamp = tonumber(call('HGET', meta, 'stamp') or 0)
for _, key in ipairs({ ready, dirty, processing, dead }) do call('ZCARD', key) end
local tokens = call('LLEN', wake)
local n_failures = call('HLEN', failures)
local waits = call('ZMSCORE', delayed, unpack(items))
local parked = call('ZMSCORE', dead, unpack(items))
call('HDEL', failures, '') -- where memory is full, a removal opens the way for the rest
--- @include enqueue
local in_state = { ready = ready, dirty = dirty, processing = processing, delayed = delayed, dead = dead }
local chosen = state ~= '' and call('ZMSCORE', in_state[state], unpack(items))
-- the lowest priority, so that a delayed item comes back with its own
local DELAYED, DEAD = -900, 0
local requeued, run, run_priority = 0, {}, DEAD
for i, item in ipairs(items) do
  if not chosen or chosen[i] then
    local forgotten = n_failures > 0 and call('HDEL', failures, item) == 1
    if waits[i] or parked[i] then
      local priority = waits[i] and DELAYED or DEAD
      if priority ~= run_priority and #run > 0 then
        enqueue(run, run_priority, false)
        run = {}
      end
      run[#run + 1], run_priority = item, priority
    end
    if forgotten or waits[i] or parked[i] then requeued = requeued + 1 end
  end
end
if #run > 0 then
  enqueue(run, run_priority, false)
  call('HSET', meta, 'stamp', stamp)
end
return requeued
