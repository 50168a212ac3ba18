      -- in: EMPTYING_AT_MOST, emptying, failures, first_line, in_time, limit, meta, n_suspects, now, number, ours,
      --     popped, processing, ready, suspects, took
      -- out: alone, popped, records, unclaimable
      -- Claim the first suspect instead of the popped items, or begin to empty the session for it, if the suspect comes
      -- before the popped items or the session empties itself already.
      local suspect, order = unpack(call('ZRANGE', suspects, '0', '0', 'WITHSCORES'))
      local comes_first = ours or #popped == 0 or tonumber(order) < tonumber(popped[2])
      local must_wait = false
      if comes_first and limit then
        --- @include full_flow
      end
      if call('ZSCORE', processing, suspect) then
        --- @include look_again
        look_again({ suspect })
      elseif must_wait then
        unclaimable = n_suspects
      elseif comes_first then
        unclaimable = n_suspects
        local holds = call('ZCOUNT', processing, number, number) > 0
        local may_empty
        if emptying == number then
          -- a session that was not empty in time leaves the suspects to others for as long
          may_empty = took < EMPTYING_AT_MOST or took >= 2 * EMPTYING_AT_MOST
        else
          may_empty = not in_time or call('ZCOUNT', processing, emptying, emptying) == 0
        end
        if may_empty and not (ours and holds) then
          call('HSET', meta, 'emptying', number .. string.format(' %.0f', now))
        end
        -- if `ready` is not empty, this turn set apart as many suspects as it may: a later turn continues
        if may_empty or (not holds and #popped == 0 and call('ZCARD', ready) == 0) then
          local left = { 'ZADD', ready }
          for i = 1, #popped, 2 do left[i + 2], left[i + 3] = popped[i + 1], popped[i] end
          if #left > 2 then call(unpack(left)) end
          alone, popped, records = 1, {}, {}
          if not holds then
            call('ZREM', suspects, suspect)
            popped, records = { suspect, order }, { first_line(call('HGET', failures, suspect)) }
          end
        end
      end
