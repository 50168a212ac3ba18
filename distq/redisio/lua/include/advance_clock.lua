-- in: delayed, dirty, failures, max_clock_step, meta, n_suspects, now, number, paused, seen, sessions, suspects, ticks,
--     tokens, wake
-- out: first, n_dirty, n_failures, n_sessions, n_suspects, record, tokens
-- Ten times a second at most, move the claim clock and take back what lapsed sessions held.
-- The clock advances at most `max_clock_step` each time, so that silence (an outage, a freeze, a step of TIME)
-- expires no session.
if ticks then
  --- @include clock
  if seen and now > seen then clock = clock + math.min(now - seen, tonumber(max_clock_step)) end
  call('HSET', meta, 'seen', now, 'clock', clock)
  local lapsed = call('ZRANGEBYSCORE', sessions, '-inf', clock, 'LIMIT', '0', '100')
  --- @include mend_scores
  if #lapsed > 0 then
    --- @include expire_sessions
    local at_most = 100
    local who_covers, uncovered = call('HGET', meta, 'coverer'), false
    for _, who in ipairs(lapsed) do
      if who == who_covers then
        call('HDEL', meta, 'cover', 'coverer')
        uncovered = true
      end
      at_most = at_most - take_back(who, at_most)
      if at_most == 0 then break end
    end
    if (at_most < 100 or uncovered) and not paused and tokens == 0 then tokens = call('RPUSH', wake, '1') end
    -- what was read before may have changed
    n_sessions, n_dirty, n_failures = call('ZCARD', sessions), call('ZCARD', dirty), call('HLEN', failures)
    first = call('ZRANGE', delayed, '0', '0', 'WITHSCORES')
    record = number and call('HGET', meta, number)
  end
  if n_suspects > 0 then
    -- crashes go out of date: each tick looks at a hundred suspects in a row, of more than these by chance
    --- @include look_again
    local from = n_suspects > 100 and now % n_suspects or 0
    local left = look_again(call('ZRANGE', suspects, from, from + 99))
    if left > 0 and not paused and tokens == 0 then tokens = call('RPUSH', wake, '1') end
    n_suspects = n_suspects - left
  end
end
