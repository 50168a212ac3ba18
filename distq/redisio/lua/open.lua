-- Open a session, after advancing the claim clock and taking back the items of lapsed sessions.
-- Returns its id, `<number>-<nonce>`, or the error LAYOUT if a newer distq wrote the queue.
local ready, dirty, processing, claims, delayed, failures = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local dead, sessions, workers, meta, wake, suspects = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local flows, arrivals, flow_items = KEYS[13], KEYS[14], KEYS[15]
local time, layout, nonce, claim_duration, max_clock_step, worker =
  ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local call = redis.call
--- @include now
local stamp, seen, paused, stored_layout, trace_until, fair_by =
  unpack(call('HMGET', meta, 'stamp', 'seen', 'paused', 'layout', 'trace', 'fair_by'))
traced = trace_until
-- distq never writes a layout that is no version: such a layout is overwritten
if tonumber(string.match(stored_layout or '', '^%d%d?%d?%d?$') or 0) > tonumber(layout) then
  return redis.error_reply('LAYOUT ' .. stored_layout)
end
--- @include by_flow
--- @include check_flows
--- @include check_types
call('HLEN', workers)
if bounded then call('ZCARD', flow_items) end
--- @include permit_writes
local number, record
--- @include advance_clock
--- @include clock
--- @include stamp
stamp = math.max(stamp + 1, now)
number = string.format('%d', stamp)
call('HSET', meta, 'layout', layout, 'stamp', stamp, number, nonce .. ' - - ')
call('ZADD', sessions, clock + claim_duration, number)
call('HSET', workers, number, worker)
return number .. '-' .. nonce
