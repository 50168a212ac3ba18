-- Keep a session alive, store its worker's description, advance the claim clock, and write a sample to the history. The
-- cost does not depend on the number of claims.
-- Returns {number of claims held, the session's last turn as `op fence`}, which the client compares, or LOST.
local ready, dirty, processing, claims, delayed, failures = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local dead, sessions, workers, meta, wake, history = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local suspects, flows, arrivals, held_back, flow_items = KEYS[13], KEYS[14], KEYS[15], KEYS[16], KEYS[17]
local time, session, claim_duration, max_clock_step, worker = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local call = redis.call
--- @include now
local number, nonce = string.match(session, '^(%d+)-(.+)$')
local seen, paused, record, trace_until, fair_by =
  unpack(call('HMGET', meta, 'seen', 'paused', number, 'trace', 'fair_by'))
traced = trace_until
--- @include by_flow
--- @include check_flows
--- @include check_types
call('HLEN', workers)
for _, key in ipairs(bounded and { held_back, flow_items } or {}) do call('ZCARD', key) end
--- @include permit_writes
--- @include advance_clock
if not record or string.match(record, '^%S+') ~= nonce then return 'LOST' end
--- @include clock
call('ZADD', sessions, clock + claim_duration, number)
local worker_before = call('HGET', workers, number)
call('HSET', workers, number, worker)
-- The session that took the token for a pending item may have died: push another token, at most ten times a second.
if ticks and tokens == 0 and not paused then
  --- @include due
  local overdue = first[2] and split_due(tonumber(first[2])) <= now
  if overdue or n_suspects > 0 or call('ZCARD', ready) > 0 then call('RPUSH', wake, '1') end
end
-- Only people read these: if they cannot be written, the queue continues.
--- @include count_settled
--- @include sample
pcall(count_settled)
pcall(sample)
return { call('ZCOUNT', processing, number, number), string.match(record, '^%S+ (%S+ %S+)') or '' }
