  -- in: alone, dead, first, fleet, found_less, meta, n_sessions, n_suspects, now, number, paused, processing, ready,
  --     revive_after, stamp, tokens, unclaimable, wake
  -- out: tokens, wait
  -- Decide how long this session sleeps, and wake one sleeper if work is left, with a token in `wake`. One consumer
  -- covers the next due time; the others poll, together about ten times a second for any size of the fleet. Large
  -- fleets spread their polls widely, so that the next one comes soon even if all fell asleep at once.
  local POLL_AT_LEAST = 750000
  local poll_at_most = 2 * math.max(1000000, n_sessions * 100000) - POLL_AT_LEAST
  local left = call('ZCARD', ready) + n_suspects - unclaimable
  local next_due, covered, covers = math.huge, true, false
  local cover, coverer = unpack(call('HMGET', meta, 'cover', 'coverer'))
  if first[2] then
    --- @include due
    next_due = split_due(tonumber(first[2]))
  end
  if revive_after ~= '' then
    --- @include parked
    local parked_at = call('ZRANGEBYSCORE', dead, WAITING_MAY_HELP, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
    if parked_at then next_due = math.min(next_due, parked_at - WAITING_MAY_HELP + revive_after) end
  end
  if next_due < math.huge then
    cover = tonumber(cover) or 0
    covered = next_due > now + poll_at_most or (cover > now and cover <= next_due and coverer ~= number)
  end
  local may_claim = not paused and (not fleet or call('ZCARD', processing) < fleet)
  if found_less then
    -- chance from the stamp: in Redis 6.2, math.random begins anew at each call, and gives the same number
    wait = POLL_AT_LEAST + (poll_at_most - POLL_AT_LEAST) * (stamp % 997 / 997)
    if left == 0 and tokens > 0 then
      call('DEL', wake)
      tokens = 0
    end
    covers = may_claim and not covered and alone == 0
    if covers then
      covered = true
      call('HSET', meta, 'cover', next_due, 'coverer', number)
      wait = math.max(next_due - now, 1000)
    end
  end
  if coverer == number and not covers then call('HDEL', meta, 'cover', 'coverer') end
  if may_claim and tokens == 0 and (left > 0 or not covered) then call('RPUSH', wake, '1') end
