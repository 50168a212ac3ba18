-- in: arrivals, by_flow, claims, dirty, failures, n_dirty, n_failures, n_ok, number, processing, ready, refused,
--     settlements
-- out: ended, n_failures
-- Settle the many successes in few commands: this decides the cost of a busy queue.
local ended = {}
if n_ok > 0 then
  local items, taken, held = {}, {}, {}
  for i = 1, n_ok do items[i] = settlements[2 * i - 1] end
  -- Redis searches a small hash from its beginning for each field: if most fields are needed, it is faster to read all.
  if n_ok > 8 and call('HLEN', claims) <= 2 * n_ok then
    local all = call('HGETALL', claims)
    for i = 1, #all, 2 do held[all[i]] = all[i + 1] end
  else
    for i, claim in ipairs(call('HMGET', claims, unpack(items))) do held[items[i]] = claim end
  end
  local last_fence, prefix
  for i = 1, n_ok do
    local item = items[i]
    local claim = held[item]
    if settlements[2 * i] ~= last_fence then
      last_fence = settlements[2 * i]
      prefix = number .. ' ' .. last_fence .. ' '
    end
    if claim and string.find(claim, prefix, 1, true) == 1 and not taken[item] then
      ended[#ended + 1], taken[item] = item, true
    elseif
      -- an unreadable claim belongs to the session in `processing`
      not taken[item]
      and not string.find(claim or '', '^' .. number .. ' %d+ ')
      and call('ZSCORE', processing, item) == number
    then
      ended[#ended + 1], taken[item] = item, true
    else
      refused[#refused + 1] = i
    end
  end
end
if #ended == 0 then
  --- @include permit_writes
else
  call('ZREM', processing, unpack(ended)) -- Redis permits this first write even if memory is full
  call('HDEL', claims, unpack(ended))
  if by_flow then call('HDEL', arrivals, unpack(ended)) end
  if n_failures > 0 then n_failures = n_failures - call('HDEL', failures, unpack(ended)) end
  if n_dirty > 0 then
    --- @include scores
    local again = scores(dirty, ended)
    local added_again, clean = { 'ZADD', ready, 'LT' }, { 'ZREM', dirty }
    for _, item in ipairs(ended) do
      if again[item] then
        added_again[#added_again + 1] = again[item]
        added_again[#added_again + 1] = item
        clean[#clean + 1] = item
      end
    end
    if #clean > 2 then
      if by_flow then by_flow(added_again) end
      call(unpack(added_again))
      call(unpack(clean))
    end
  end
end
