-- in: delayed, dirty, failures, max_clock_step, meta, n_suspects, now, number, paused, seen, sessions, suspects, ticks,
--     tokens, wake
-- out: first, n_dirty, n_failures, n_sessions, n_suspects, record, tokens
-- At most ten times a second, advance the claim clock and take back the items of lapsed sessions.
-- The clock advances by at most `max_clock_step` each time, so that no session expires by an outage, a freeze or a step
-- of TIME.
if ticks then
  --- @include clock
  if seen and now > seen then clock = clock + math.min(now - seen, tonumber(max_clock_step)) end
  call('HSET', meta, 'seen', now, 'clock', clock)
  local lapsed = call('ZRANGEBYSCORE', sessions, '-inf', clock, 'LIMIT', '0', '100')
  --- @include repair_scores
  if #lapsed > 0 then
    --- @include expire_sessions
    local at_most = 100
    local coverer, uncovered = call('HGET', meta, 'coverer'), false
    for _, session_number in ipairs(lapsed) do
      if session_number == coverer then
        call('HDEL', meta, 'cover', 'coverer')
        uncovered = true
      end
      at_most = at_most - take_back(session_number, at_most)
      if at_most == 0 then break end
    end
    if (at_most < 100 or uncovered) and not paused and tokens == 0 then tokens = call('RPUSH', wake, '1') end
    -- the values that were read before may have changed
    n_sessions, n_dirty, n_failures = call('ZCARD', sessions), call('ZCARD', dirty), call('HLEN', failures)
    first = call('ZRANGE', delayed, '0', '0', 'WITHSCORES')
    record = number and call('HGET', meta, number)
  end
  if n_suspects > 0 then
    -- crashes expire: each tick checks a hundred suspects in a row; if there are more, it begins at a random one
    --- @include look_again
    local from = n_suspects > 100 and now % n_suspects or 0
    local left = look_again(call('ZRANGE', suspects, from, from + 99))
    if left > 0 and not paused and tokens == 0 then tokens = call('RPUSH', wake, '1') end
    n_suspects = n_suspects - left
  end
end
