-- in: bounded, by_flow, dead, delayed, dirty, fair_by, flows, held_back, meta, now, processing, ready, stamp, suspects,
--     tokens, wake
-- out: enqueue, order, scores, split_due, stamp, tokens
-- Make items pending now: ready, or dirty while claimed. A suspect that waits stays in `suspects`, and an item that is
-- held back stays so unless it is raised. An add ends a delay, but keeps the delayed item's priority if that is higher,
-- and revives a dead item. With `keep_pending`, delayed and dead items do not change.
-- Returns how many items were not pending now before. Advances `stamp` by 1 µs per item, so that the items keep their
-- order.
-- With LT the lower order wins for an item that is there already: it keeps its place, or is raised to the end of a
-- level.
--- @include order
--- @include due
--- @include scores
local function enqueue(items, priority, keep_pending)
  local claimed, due, parked, suspected = scores(processing, items), {}, {}, {}
  if call('EXISTS', delayed, dead, suspects) > 0 then
    due, parked, suspected = scores(delayed, items), scores(dead, items), scores(suspects, items)
  end
  local is_held_back = bounded and scores(held_back, items)
  local to_ready, n = { 'ZADD', ready, 'LT', nil, nil }, 3 -- with room for one item
  local to_dirty, to_suspects, undelay, revive, raised -- seldom needed
  local no_item = #items > 32 and not by_flow and string.rep('\0', 65) -- as in `claim`
  if no_item then
    n = 5
    to_ready[4], to_ready[5] = '0', no_item
  end
  if stamp < now then stamp = now - 1 end
  -- in a fair queue the flow decides, so all items get one time
  local first_stamp = fair_by == 'namespace' and stamp + 1
  local order_of_all = first_stamp and order(priority, first_stamp)
  for i = 1, #items do
    local item = items[i]
    if not (keep_pending and (due[item] or parked[item])) then
      stamp = stamp + 1
      local level, since, place = priority, first_stamp or stamp, order_of_all
      if due[item] then
        local own_due, own = split_due(tonumber(due[item]))
        level = math.max(own, priority)
        -- a due item is pending, even if not promoted yet: it keeps its place unless it is raised
        if own_due <= now and own >= priority then since = own_due end
        place = order(level, since)
        undelay = undelay or { 'ZREM', delayed }
        undelay[#undelay + 1] = item
      end
      if parked[item] then
        revive = revive or { 'ZREM', dead }
        revive[#revive + 1] = item
      end
      if claimed[item] then
        to_dirty = to_dirty or { 'ZADD', dirty, 'LT' }
        to_dirty[#to_dirty + 1] = order(level, since)
        to_dirty[#to_dirty + 1] = item
      elseif suspected[item] then
        to_suspects = to_suspects or { 'ZADD', suspects, 'LT' }
        to_suspects[#to_suspects + 1] = order(level, since)
        to_suspects[#to_suspects + 1] = item
      else
        local to, stays = place or order(level, since), is_held_back and is_held_back[item]
        if stays then
          --- @include is_higher
          stays = not is_higher(to, stays)
          if not stays then
            raised = raised or { 'ZREM', held_back }
            raised[#raised + 1] = item
          end
        end
        if not stays then
          to_ready[n + 1], to_ready[n + 2] = to, item
          n = n + 2
        end
      end
    end
  end
  if to_dirty then call('ZCARD', dirty) end -- the last check of a type: from here on the script writes
  if by_flow then
    if to_suspects then
      call('ZCARD', flows) -- check this type before the first write
      by_flow(to_suspects)
    end
    if n == 5 and #items == 1 and fair_by == 'namespace' and type(to_ready[4]) == 'string' then
      local LOWEST, BEYOND = '4503599627370496', '9007199254740992' -- of orders of priority 0
      --- @include line_up_one
    elseif n > 3 then
      by_flow(to_ready, n == 2 * #items + 3 and items or nil)
    end
  end
  local newly_ready = n > 3 and call(unpack(to_ready)) or 0
  if no_item then newly_ready = newly_ready - call('ZREM', ready, no_item) end
  local newly_dirty = to_dirty and call(unpack(to_dirty)) or 0
  local another_is_first = false -- the former first suspect may wait for the end of a claim of its flow
  if to_suspects then
    local first = bounded and call('ZRANGE', suspects, '0', '0')[1]
    call(unpack(to_suspects))
    another_is_first = first and call('ZRANGE', suspects, '0', '0')[1] ~= first
  end
  if undelay then call(unpack(undelay)) end
  if revive then call(unpack(revive)) end
  local n_raised = raised and call(unpack(raised)) or 0
  if (newly_ready > 0 or another_is_first) and tokens == 0 and call('HEXISTS', meta, 'paused') == 0 then
    tokens = call('RPUSH', wake, '1')
  end
  return newly_ready - n_raised + newly_dirty
end
