-- in: claims, fence, fleet_concurrency, limit, n_failures, number, paused, processing, ready, revive_after, want
-- out: alone, asked, fleet, popped, promoted, records, revived, unclaimable, want
-- Claim up to `want` items from the head of the queue.
local asked = want
local fleet = tonumber(fleet_concurrency)
if fleet then want = math.max(0, math.min(want, fleet - call('ZCARD', processing))) end
if paused then want = 0 end
local popped, records, alone, promoted, revived, unclaimable = {}, false, 0, 0, 0, 0
if want > 0 then
  --- @include promote
  if revive_after ~= '' then
    --- @include revive
  end
  if n_failures == 0 and not limit then
    popped = call('ZPOPMIN', ready, want)
  else
    --- @include beside_suspects
  end
end
if #popped > 0 then
  if tonumber(popped[2]) < 2 ^ -848 or tonumber(popped[#popped]) >= 2 ^ 953 then
    --- @include order
    --- @include known_order
    for i = 2, #popped, 2 do popped[i] = string.format('%.17g', known_order(popped[i])) end
  end
  local prefix, last = number .. ' ' .. fence .. ' ', #popped - 1
  local claim, hold = { 'HSET', claims, nil, nil }, { 'ZADD', processing, nil, nil } -- with room for one item
  local n = 1
  -- Redis searches a small hash or set from its beginning for each member that it writes. So a claim of more than 32
  -- items begins with a member of more than 64 bytes, which turns both into tables until they are empty.
  local no_item = #popped > 64 and string.rep('\0', 65)
  if no_item then
    n = 3
    claim[3], claim[4] = no_item, ''
    hold[3], hold[4] = number, no_item
  end
  for i = 1, last, 2 do
    n = n + 2
    claim[n], claim[n + 1] = popped[i], prefix .. popped[i + 1]
    -- backwards: keys often come sorted, and Redis searches a small set from its beginning for their place
    hold[n], hold[n + 1] = number, popped[last + 1 - i]
  end
  call(unpack(claim))
  call(unpack(hold))
  if no_item then
    call('HDEL', claims, no_item)
    call('ZREM', processing, no_item)
  end
  if limit then
    --- @include note_flows
  end
end
