-- Settle claims, take back items of lapsed sessions, promote due items, and claim up to `want` items, in one step.
-- Settlements are `n_ok` times (item, fence), then (item, fence, outcome, limiter, priority, text) for each other
-- outcome; the outcome `limit` counts a failure without a claim.
-- Returns {fence, wait in µs, alone, indexes of refused settlements, disposition of each other settlement, {item,
-- order, ...}, {failure record or false, ...}, promoted, revived}, or LOST. Dispositions and records are nil if there
-- are none. `alone` is 1 if the claim is a suspect, or if the session must claim nothing until it holds nothing and can
-- claim a suspect. `promoted` counts the items that became pending: due items, items that were settled without a delay,
-- and dead items, which `revived` counts alone. A repeated turn changes nothing and returns the same, except for 0 as
-- wait, promoted and revived.
-- With `wants_links` the reply ends with the spans that made the claimed items pending; see `include/linked`.
-- `after` is the session's turn before this one, `op fence`, or empty if the caller needs no check. If Redis lost
-- writes, the session's record has another turn: then no claim changes, and the reply is BACK with that turn.
local ready, dirty, processing, claims, delayed, failures = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local dead, sessions, workers, meta, wake, links = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local suspects, flows, arrivals, held_back, flow_items = KEYS[13], KEYS[14], KEYS[15], KEYS[16], KEYS[17]
local time, session, op, after, want, max_clock_step =
  ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]
local max_retries, limiter, fleet_concurrency, fleet_concurrency_per_flow = ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local revive_after, wants_links, n_ok, settlements = ARGV[11], ARGV[12], tonumber(ARGV[13]), { unpack(ARGV, 14) }
local call = redis.call
-- The busy path decides the cost of a queue. To define a function takes time in each call, so rare parts are included
-- only inside the branches that need them.
--- @include now
local number, nonce = string.match(session, '^(%d+)-(.+)$')
local stamp, seen, paused, record, trace_until, catching_up, fair_by =
  unpack(call('HMGET', meta, 'stamp', 'seen', 'paused', number, 'trace', 'catching_up', 'fair_by'))
traced = trace_until
local others = 2 * n_ok
--- @include by_flow
--- @include check_flows
--- @include check_types
local limit = by_flow and tonumber(fleet_concurrency_per_flow)
local n_held_back = 0
-- if a user deleted `bounded`, the items that are held back would stay so
if ticks and not limit and not bounded and call('EXISTS', held_back) == 1 then bounded = '' end
if limit or bounded then
  n_held_back = call('ZCARD', held_back)
  call('ZLEXCOUNT', flow_items, '-', '+') -- fails here, before any claim, if the Redis user lacks the permission
end
if n_ok == 0 then call('HLEN', claims) end
if #settlements > others then call('ZCARD', suspects) end
if #settlements > others or revive_after ~= '' then call('ZCARD', dead) end
local ours = nonce .. ' '
local this_turn = ours .. op .. ' '
if record and string.find(record, this_turn, 1, true) == 1 then
  --- @include replay
end

if ticks then
  --- @include permit_writes
end
--- @include advance_clock
if not record or string.find(record, ours .. after .. ' ', 1, true) ~= 1 then
  if not record or string.find(record, ours, 1, true) ~= 1 then return 'LOST' end
  if after ~= '' then return 'BACK ' .. (string.match(record, '^%S+ (%S+ %S+)') or '') end
end
--- @include stamp
if stamp < now then stamp = now else stamp = stamp + 1 end
local fence = string.format('%d', stamp)
local refused, dispositions = {}, false
local last_stamp, added = fence, 0

--- @include settle
if #settlements > others then
  --- @include settle_others
end
if limit or bounded then
  --- @include flow_bound
end
local refusals = #refused > 0 and table.concat(refused, ',') or ''

if catching_up then
  --- @include catching_up
end
if fair_by == 'to namespace' then
  --- @include enter
end
if not want then
  --- @include follow_up
end
--- @include claim
if by_flow then
  --- @include drop_ends
  --- @include by_time
end
--- @include linked
local found_less, wait = #popped / 2 < asked, 0
if found_less or tokens == 0 or ((first[2] or revive_after ~= '') and call('HGET', meta, 'coverer') == number) then
  --- @include waking
end
call('HSET', meta, 'stamp', last_stamp, number, this_turn .. fence .. ' ' .. alone .. ' ' .. refusals)
return { fence, wait, alone, refusals, dispositions, popped, records, promoted + revived + added, revived, linked }
