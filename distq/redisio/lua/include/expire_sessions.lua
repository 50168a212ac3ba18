    -- in: arrivals, bounded, by_flow, claims, clock, flow_items, meta, now, processing, sessions, workers
    -- out: take_back
    --- @include order
    --- @include known_order
    --- @include failure
    --- @include recent_crashes
    --- @include put_back
    local now_text = string.format('%.0f', now)
    taken_back = {}
    local others_live = call('ZCOUNT', sessions, '(' .. string.format('%.0f', clock), '+inf') > 0
    -- The third crash parks an item, unless a newer add is pending. So there may be more crashes, of which the last ten
    -- count.
    local function crash(item, fence)
      local count, crashes, failed_at, reason, text, claims_that_crashed = read_failure(item)
      local recent
      crashes, recent = recent_crashes(crashes, claims_that_crashed)
      if #recent == 10 then table.remove(recent, 1) else crashes = crashes + 1 end
      recent[#recent + 1] = fence
      local parked = crashes >= 3 and park(item, true)
      if parked then
        failed_at, reason, text = now_text, 'crashes', 'its workers died ' .. crashes .. ' times'
      end
      write_failure(item, count, crashes, failed_at, reason, text, table.concat(recent, ','))
      return parked
    end
    -- Take back up to `at_most` items of a lapsed session; the session ends when it holds nothing.
    local function take_back(session_number, at_most)
      -- These are no crashes: the session was closed, which dropped its record; all sessions lapsed; the process was
      -- asked to stop, and was killed before it finished.
      local about = call('HGET', workers, session_number) or ''
      local was_stopping = string.find(about, '"stopping": true', 1, true)
      local crashed = others_live and not was_stopping and call('HEXISTS', meta, session_number) == 1
      local items = call('ZRANGEBYSCORE', processing, session_number, session_number, 'LIMIT', 0, at_most)
      for _, item in ipairs(items) do
        local holder, fence, score = string.match(call('HGET', claims, item) or '', '^(%d+) (%d+) (%S+)$')
        if holder and holder ~= session_number and call('ZSCORE', sessions, holder) then
          call('ZADD', processing, holder, item) -- that number is no session's; the claim names its session
        else
          call('HDEL', claims, item)
          call('ZREM', processing, item)
          if bounded then call('ZREM', flow_items, entry_of('c', item)) end
          local parked = crashed and crash(item, fence or now_text)
          if parked and by_flow then call('HDEL', arrivals, item) end
          if not parked then put_back(item, known_order(score)) end
          taken_back[#taken_back + 1] =
            { item, session_number, (parked and 'parked') or (crashed and 'crashed') or 'released' }
        end
      end
      if #items < at_most then
        call('ZREM', sessions, session_number)
        call('HDEL', meta, session_number)
        call('HDEL', workers, session_number)
      elseif crashed then
        call('HSET', meta, session_number, 'lapsed') -- the rest of its items crashed, too
      else
        call('HDEL', meta, session_number)
      end
      return #items
    end
