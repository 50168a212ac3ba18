    -- in: arrivals, by_flow, dirty, ended, entry_of, flow_items, flow_of, flows, held_back, limit, looks, looks_from,
    --     meta, now, processing, ready, suspects
    -- out: nothing
    -- Let in items that may be claimed: for each claim that ended, the first held-back items of its flow; also items
    -- whose flow has no claim that can end; and if there is no limit any longer, all items, some per call.
    --- @include order
    --- @include known_order
    --- @include no_earlier
    --- @include flow_counts
    local FLOWS_AT_ONCE = 10
    -- Return the place of an item that comes back: not before the first ready item, and behind the item of its flow
    -- that came back before it. So coming back gives a flow one turn in each round, like the other flows.
    local function place_of(item, order)
      if not by_flow then return order end
      local place = tonumber(no_earlier(item, order))
      local _, exponent = math.frexp(place)
      local flow = (53 - exponent) .. ' ' .. flow_of(item) .. '\0'
      local behind = tonumber(call('ZSCORE', flows, flow) or nil)
      if behind and behind > place and behind < math.ldexp(1, exponent) then
        call('HSETNX', arrivals, item, string.format('%.17g', order))
        place = behind
      end
      call('ZADD', flows, string.format('%.17g', place + math.ldexp(1, exponent - 53)), flow)
      return place
    end
    local function bring_back(item, order)
      order = known_order(order)
      call('ZREM', held_back, item)
      if call('ZSCORE', processing, item) then -- an older distq, which knows only `ready`, may hold it
        call('ZADD', dirty, 'LT', string.format('%.17g', order), item)
      else
        if limit then call('ZADD', flow_items, '0', entry_of('l', item)) end
        call('ZADD', ready, 'LT', string.format('%.17g', place_of(item, order)), item)
      end
    end
    -- Return whether `limit` items of a flow are claimed, or let in with this order's priority or a higher one.
    local function is_full(flow, order)
      local n, from, to = count(flow), range_of(flow, 'l', 'm')
      if n >= limit then return true end
      local names = call('ZRANGEBYLEX', flow_items, from, to, 'LIMIT', '0', AT_ONCE)
      if n + #names < limit then return false end
      for i, entry in ipairs(names) do names[i] = string.sub(entry, #flow + 3) end
      local _, exponent = math.frexp(order)
      for _, other in ipairs(call('ZMSCORE', ready, unpack(names))) do
        if not other or tonumber(other) < math.ldexp(1, exponent) then n = n + 1 end
      end
      return n >= limit
    end
    local function fill(flow)
      for _ = 1, AT_ONCE do
        local item, order, entry = first_held_back(flow)
        if not item or is_full(flow, order) then return end
        call('ZREM', flow_items, entry)
        bring_back(item, order)
      end
    end
    local function fill_ended()
      if call('ZCARD', held_back) == 0 then return end
      local met = {}
      for _, item in ipairs(ended) do
        local flow = flow_of(item)
        if not met[flow] then fill(flow) end
        met[flow] = true
      end
    end
    -- Remove entries of items that are no longer claimed, or no longer ready: an older distq settled them, or a user
    -- deleted them. Of more than a hundred entries, look at a random part.
    local function drop_stale(flow)
      local n, from, to = call('ZLEXCOUNT', flow_items, range_of(flow, 'c', 'm')), range_of(flow, 'c', 'm')
      local found = call('ZRANGEBYLEX', flow_items, from, to, 'LIMIT', n > AT_ONCE and now % n or 0, AT_ONCE)
      if #found == 0 then return end
      local names, stale = {}, { 'ZREM', flow_items }
      for i, entry in ipairs(found) do names[i] = string.sub(entry, #flow + 3) end
      local claimed = call('ZMSCORE', processing, unpack(names))
      local is_ready, apart = call('ZMSCORE', ready, unpack(names)), call('ZMSCORE', suspects, unpack(names))
      for i, entry in ipairs(found) do
        local letter = string.sub(entry, #flow + 2, #flow + 2)
        local is_true = (letter == 'c' and claimed[i]) or (letter == 'l' and (is_ready[i] or apart[i]))
        if not is_true then stale[#stale + 1] = entry end
      end
      if #stale > 2 then call(unpack(stale)) end
    end
    -- Redis sorts members by their bytes only if their scores are equal: another score would hide entries of other
    -- flows.
    local function even_scores()
      local even = { 'ZADD', flow_items }
      for _, range in ipairs({ { '-inf', '(0' }, { '(0', '+inf' } }) do
        local odd = call('ZRANGEBYSCORE', flow_items, range[1], range[2], 'LIMIT', '0', AT_ONCE)
        for _, entry in ipairs(odd) do even[#even + 1], even[#even + 2] = '0', entry end
      end
      if #even > 2 then call(unpack(even)) end
    end
    -- Write the entries of some held-back items, and look at some flows in a row, so that no item waits for a claim
    -- that ended long ago, or for a limit that was raised.
    local function look_at_flows()
      even_scores()
      local n_held_back, text = call('ZCARD', held_back), looks_from or ''
      for _, from in ipairs(n_held_back > 0 and { 0, now % n_held_back } or {}) do
        local found = call('ZRANGE', held_back, from, from + 9, 'WITHSCORES')
        for i = 1, #found, 2 do
          call('ZADD', flow_items, '0', flow_of(found[i]) .. '\0w' .. struct.pack('>d', tonumber(found[i + 1])) .. found[i])
        end
      end
      for _ = 1, FLOWS_AT_ONCE do
        local entry = call('ZRANGEBYLEX', flow_items, '[' .. text, '+', 'LIMIT', '0', '1')[1]
        local flow = entry and string.match(entry, '^([^%z]*)%z[clw]')
        if not entry then
          text = ''
          break
        elseif flow then
          drop_stale(flow)
          fill(flow)
          text = flow .. '\1'
        else
          call('ZREM', flow_items, entry) -- no script writes such an entry
        end
      end
      call('HSET', meta, 'bounded', string.format('%.0f ', now) .. text)
    end
    -- There is no limit any longer: bring all items back, some per call.
    local function bring_all_back()
      local found = call('ZRANGE', held_back, 0, AT_ONCE - 1, 'WITHSCORES')
      for i = 1, #found, 2 do bring_back(found[i], found[i + 1]) end
      if call('ZCARD', held_back) > 0 then return end
      --- @include drop_entries
      if call('ZCARD', flow_items) == 0 then call('HDEL', meta, 'bounded') end
    end
    if not limit then
      bring_all_back()
    else
      fill_ended()
      if looks then look_at_flows() end
    end
