-- Make delayed and dead items pending now, in their order, the delayed ones before the dead ones, and delete failure
-- records.
-- If `state` is not '', change only items in that state. An object that its watch could not map to keys stays dead: its
-- name is no key of this queue. Returns how many items changed.
local ready, suspects, dirty, processing, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local failures, dead, meta, wake = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local flows, arrivals, held_back = KEYS[10], KEYS[11], KEYS[12]
local time, state = ARGV[1], ARGV[2]
local items = { unpack(ARGV, 3) }
local call = redis.call
--- @include now
local stamp, trace_until, fair_by = unpack(call('HMGET', meta, 'stamp', 'trace', 'fair_by'))
traced = trace_until
--- @include stamp
for _, key in ipairs({ ready, suspects, dirty, processing, dead, held_back }) do call('ZCARD', key) end
local tokens = call('LLEN', wake)
local n_failures = call('HLEN', failures)
local waits = call('ZMSCORE', delayed, unpack(items))
local parked = call('ZMSCORE', dead, unpack(items))
--- @include by_flow
--- @include check_flows
call('HDEL', failures, '\0no item') -- if memory is full, Redis permits a removal first, and then all other writes
--- @include enqueue
local in_state = { ready = ready, dirty = dirty, processing = processing, delayed = delayed, dead = dead }
local chosen = state ~= '' and call('ZMSCORE', in_state[state], unpack(items))
local also_chosen = state == 'ready' and call('ZMSCORE', suspects, unpack(items)) or {}
local chosen_held_back = state == 'ready' and call('ZMSCORE', held_back, unpack(items)) or {}
local requeued, were_delayed, were_dead = 0, {}, {}
for i, item in ipairs(items) do
  local failure = parked[i] and call('HGET', failures, item) or ''
  local unmapped = string.find(failure, '^%d+ %d+ %d+ unmapped')
  if not unmapped and (not chosen or chosen[i] or also_chosen[i] or chosen_held_back[i]) then
    local forgotten = n_failures > 0 and call('HDEL', failures, item) == 1
    if waits[i] then
      were_delayed[#were_delayed + 1] = item
    elseif parked[i] then
      were_dead[#were_dead + 1] = item
    end
    if forgotten or waits[i] or parked[i] then requeued = requeued + 1 end
  end
end
-- the lowest priority, so that a delayed item keeps its own
if #were_delayed > 0 then enqueue(were_delayed, -900, false) end
if #were_dead > 0 then enqueue(were_dead, 0, false) end
if #were_delayed + #were_dead > 0 then call('HSET', meta, 'stamp', stamp) end
--- @include look_again
look_again(items)
return requeued
