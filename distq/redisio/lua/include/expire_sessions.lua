    -- in: claims, clock, meta, now, processing, sessions, workers
    -- out: take_back
    --- @include order
    --- @include known_order
    --- @include failure
    --- @include put_back
    local now_text = string.format('%.0f', now)
    local others_live = call('ZCOUNT', sessions, '(' .. string.format('%.0f', clock), '+inf') > 0
    local function crash(item)
      local count, crashes, failed_at, reason, text = read_failure(item)
      crashes = crashes + 1
      local parked = crashes >= 3 and park(item)
      if parked then
        failed_at, reason, text = now_text, 'crashes', 'its workers died ' .. crashes .. ' times'
      end
      write_failure(item, count, crashes, failed_at, reason, text)
      return parked
    end
    -- Take back up to `at_most` items of a session that lapsed; it ends when nothing is left of it.
    local function take_back(who, at_most)
      -- closing a session drops its record: that is no crash; nor is it one when everybody was away, or when the process
      -- had been told to stop and was killed before it was done
      local about = call('HGET', workers, who) or ''
      local was_told_to_stop = string.find(about, '"stopping": true', 1, true)
      local crashed = others_live and not was_told_to_stop and call('HEXISTS', meta, who) == 1
      local items = call('ZRANGEBYSCORE', processing, who, who, 'LIMIT', 0, at_most)
      for _, item in ipairs(items) do
        local holder, score = string.match(call('HGET', claims, item) or '', '^(%d+) %d+ (%S+)$')
        if holder and holder ~= who and call('ZSCORE', sessions, holder) then
          call('ZADD', processing, holder, item) -- its number here was no session's, but the claim tells whose it is
        else
          call('HDEL', claims, item)
          call('ZREM', processing, item)
          if not (crashed and crash(item)) then put_back(item, known_order(score)) end
        end
      end
      if #items < at_most then
        call('ZREM', sessions, who)
        call('HDEL', meta, who)
        call('HDEL', workers, who)
      elseif crashed then
        call('HSET', meta, who, 'lapsed') -- the rest of it crashed, too
      else
        call('HDEL', meta, who)
      end
      return #items
    end
