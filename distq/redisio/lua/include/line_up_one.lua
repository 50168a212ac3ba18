      -- in: BEYOND, LOWEST, arrivals, flows, items, ready, to_ready
      -- out: nothing
      -- The same as `into_flows` for one item of priority 0, as in most adds, without the cost of a function.
      local item, order = items[1], to_ready[4]
      local present = call('ZSCORE', ready, item)
      if present and tonumber(present) < 2 ^ 53 then
        to_ready[4] = present
      else
        local level = call('ZRANGEBYSCORE', ready, LOWEST, BEYOND, 'WITHSCORES', 'LIMIT', '0', '1')
        local begins, flow = tonumber(level[2] or order), '0 ' .. (string.match(item, '^([^/]*)/') or '')
        local start = tonumber(call('ZSCORE', flows, flow) or 0)
        if not level[2] or start <= begins or start >= 2 ^ 53 then start = begins end
        call('HSET', arrivals, item, order) -- the first write: Redis refuses it if memory is full
        if not level[2] then call('ZREMRANGEBYSCORE', flows, LOWEST, BEYOND) end
        call('ZADD', flows, string.format('%d', start + 1), flow)
        to_ready[4] = start == begins and level[2] or string.format('%d', start)
      end
